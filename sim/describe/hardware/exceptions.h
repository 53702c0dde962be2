/* What in a cluster differs from the rest: nodes with another kind of GPU, links that are degraded or dead.
 *
 *     other_gpus:
 *       - {nodes: 16..31, gpu: gpus/a100-sxm4-80gb.yaml}      # mixed generations; one node: nodes: 16
 *     faults:
 *       - {at: node3/nic2, factor: dead}                      # every link of it
 *       - {link: [node0/gpu1, node0/nvswitch], factor: 0.5}   # this one, at half its bandwidth
 *
 * Vertices are called as topology_vertex_name() says. A place has one entry. A link that entries of different places
 * reach (both its ends, or one of them and itself) is as bad as the worst of them says. */
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

/* What finds the file that a `gpu:` names; NULL with the error set. Owned by the caller. */
typedef char *(*FindGpu)(YamlNode name, GError **error);

/* NULL with INPUT (file:line): ranges that overlap or run backwards, shares out of range, places named twice, forms
 * other than those above. Ranges are sorted. */
GArray *gpu_ranges_read(YamlNode list, FindGpu find, GError **error);
GArray *link_faults_read(YamlNode list, GError **error);
