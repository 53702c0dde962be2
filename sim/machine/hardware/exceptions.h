/* The irregular parts of a cluster: nodes with another kind of GPU, degraded or dead links.
 *
 *     other_gpus:
 *       - {nodes: 16..31, gpu: gpus/a100-sxm4-80gb.yaml}      # mixed generations; one node: nodes: 16
 *     faults:
 *       - {at: node3/nic2, factor: dead}                      # every link of it
 *       - {link: [node0/gpu1, node0/nvswitch], factor: 0.5}   # this one, at half its bandwidth
 *
 * Vertices have the names of topology_vertex_name(). Each place has one entry. A link covered by several entries (for
 * both its ends, or for an end and itself) has the smallest of their factors. */
#pragma once
#include "gpu.h"
#include "yaml_node.h"

typedef struct {
  int first_node, last_node; /* inclusive */
  Gpu gpu;
} GpuRange;

typedef struct {
  char *a, *b;   /* names; owned; b NULL: every link of a */
  double factor; /* [0, 1): share of the bandwidth that is left; 0: dead */
  int line;      /* in the cluster's file */
} LinkFault;

/* Finds the file that a `gpu:` names; NULL with the error set. Owned by the caller. */
typedef char *(*FindGpu)(YamlNode name, GError **error);

/* NULL with INPUT (file:line) for ranges that overlap or run backwards, shares out of range, places named twice, and
 * other forms than those above. Ranges are sorted. */
GArray *gpu_ranges_read(YamlNode list, FindGpu find, GError **error);
GArray *link_faults_read(YamlNode list, GError **error);
