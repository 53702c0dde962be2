/* Times of collectives and sends measured on one cluster: the optional mapping `measured` of a cluster file.
 *
 *     measured:
 *       source: stepreal calibrate, 2026-11-02, NCCL 2.30.7, all groups of a size at once
 *       collectives:
 *         - {op: all_reduce, gpus: 8, nodes: 1, bytes: 1 MiB, time: 45 us}
 *         - {op: all_reduce, gpus: 16, nodes: 2, bytes: 1 MiB, time: 88 us}
 *       sends:
 *         - {link: node, bytes: 1 MiB, time: 12 us}
 *         - {link: fabric, bytes: 1 MiB, time: 45 us}
 *
 * `source` says what was measured, when and how; one of the two lists may be left out. A collective runs on a group
 * of `gpus` spread evenly over `nodes` nodes (default 1); its bytes are the full buffer, as nccl-tests counts them
 * (for all_gather and reduce_scatter the larger side). Times run from the last member's arrival to the end, while all
 * groups of that size run at once, as in a training step. A send goes inside a `node`, inside a scale-up `domain` of
 * several nodes, or over the `fabric` between domains that share a switch of its first tier.
 * cost/collectives/measured_links_cost.h says how the curves are used. */
#pragma once
#include "collective_library.h"
#include "curve_point.h"
#include "yaml_node.h"

enum { N_MEASURED_OPS = 10 };

typedef enum { SEND_IN_NODE, SEND_IN_DOMAIN, SEND_OVER_FABRIC, N_SEND_LINKS } SendLink;

typedef struct {
  int op, gpus, nodes; /* op: as Collective numbers them */
  CurveSpan span;      /* in points */
  double log2_gpus, log2_nodes;
} MeasuredCollective;

/* All arrays are owned. */
typedef struct {
  char *source;
  MeasuredCollective *collectives; /* by op, gpus, nodes */
  int n_collectives;
  CurvePoint *points;
  CurveSpan sends[N_SEND_LINKS]; /* in send_points */
  CurvePoint *send_points;
} MeasuredLinks;

/* The facts of a cluster that decide which groups and sends can exist. */
typedef struct {
  int gpus_per_node, nodes_per_domain;
  gboolean has_nics;
} LinkReach;

/* Read the mapping. NULL with the error set for unknown names (suggesting the nearest), values out of range, a
 * duplicate key in a list, more GPUs than the nodes have, more nodes than reach each other. */
MeasuredLinks *measured_links_read(YamlNode map, const LinkReach *reach, GError **error);
/* A row of `collectives`. */
void measured_links_append(GString *out, const char *op, int gpus, int nodes, double bytes, double time_s);
void measured_links_free(MeasuredLinks *measured);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MeasuredLinks, measured_links_free)

/* Valid values of `op`, NULL-terminated. */
const char *const *measured_op_names(void);

/* Latency and bandwidth of collectives fitted to times measured on one cluster: the optional mapping `fitted` of a
 * cluster file, as `stepsim collective --fit` writes it.
 *
 *     fitted:
 *       source: nccl-tests 2.17.6, all_reduce_perf on 8 A100, 2026-11-02
 *       collectives:
 *         - {op: all_reduce, gpus: 8, nodes: 1, protocol: ll128, alpha: 70 us, busbw: 208 GB/s}
 *         - {op: all_reduce, gpus: 8, nodes: 1, protocol: simple, alpha: 88 us, busbw: 231 GB/s}
 *
 * A row says: this operation on a group of `gpus` over `nodes` nodes (default 1) takes alpha + factor · S / busbw,
 * with S the full buffer and factor that of nccl-tests' bus bandwidth. `algorithm` defaults to the operation's plain
 * one (ring, or direct sends), `protocol` to simple. At each size the fastest of a group's rows counts, as the
 * library would choose. cost/collectives/fitted_cost.h says how other groups are derived. */

typedef struct {
  int op; /* as Collective numbers them */
  int gpus, nodes;
  int algorithm; /* Algorithm; −1: the operation's plain one */
  int protocol;  /* Protocol */
  double alpha_s, busbw_Bps;
} FittedCollective;

typedef struct {
  char *source;        /* owned */
  GArray *collectives; /* of FittedCollective, by op, gpus, nodes, algorithm, protocol; owned */
} FittedLinks;

/* Like measured_links_read(). */
FittedLinks *fitted_links_read(YamlNode map, const LinkReach *reach, GError **error);
void fitted_links_free(FittedLinks *fitted);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FittedLinks, fitted_links_free)
