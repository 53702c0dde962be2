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
#pragma once
#include "collective_library.h"
#include "measured_links.h"

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
