/* Latency and bandwidth of collectives fitted to times measured on one cluster: the optional mapping `fitted` of a
 * cluster file, as `stepsim collective --fit` writes it.
 *
 *     fitted:
 *       source: nccl-tests 2.17.6, all_reduce_perf on 8 A100, 2026-11-02
 *       collectives:
 *         - {op: all_reduce, gpus: 8, nodes: 1, protocol: ll128, alpha: 70 us, busbw: 208 GB/s}
 *         - {op: all_reduce, gpus: 8, nodes: 1, protocol: simple, alpha: 88 us, busbw: 231 GB/s}
 *
 * A row says: that operation on a group of `gpus` over `nodes` nodes (default 1) takes alpha + factor · S / busbw, S
 * the full buffer, factor as nccl-tests counts bus bandwidth. `algorithm` defaults to the operation's plain one (ring,
 * or direct sends), `protocol` to simple. Of the rows of one group the fastest counts at each size, as the library
 * chooses. How other groups follow stands in cost/collectives/fitted_cost.h. */
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

/* As measured_links_read(). */
FittedLinks *fitted_links_read(YamlNode map, const LinkReach *reach, GError **error);
void fitted_links_free(FittedLinks *fitted);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FittedLinks, fitted_links_free)
