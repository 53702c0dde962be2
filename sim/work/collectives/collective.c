/* Names in one table, bus factors in the other. A bus factor is the bytes that must cross the busiest link divided by
 * S: what every rank transfers, less the part it has already. Only the parameter server's grows with n: its link
 * carries every worker's S. */
#include "collective.h"

static const char *const names[N_COLLECTIVES + 1] = {
    [COLLECTIVE_ALL_REDUCE] = "all_reduce",
    [COLLECTIVE_ALL_GATHER] = "all_gather",
    [COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
    [COLLECTIVE_ALL_TO_ALL] = "all_to_all",
    [COLLECTIVE_BROADCAST] = "broadcast",
    [COLLECTIVE_REDUCE] = "reduce",
    [COLLECTIVE_GATHER] = "gather",
    [COLLECTIVE_SCATTER] = "scatter",
    [COLLECTIVE_SEND_RECV] = "send_recv",
    [COLLECTIVE_PARAMETER_SERVER] = "parameter_server",
};

/* factor(n) = per_rank·n + constant + share/n */
static const struct {
  double per_rank, constant, share;
} bus_factors[N_COLLECTIVES] = {
    [COLLECTIVE_ALL_REDUCE] = {0, 2, -2},     [COLLECTIVE_ALL_GATHER] = {0, 1, -1},
    [COLLECTIVE_REDUCE_SCATTER] = {0, 1, -1}, [COLLECTIVE_ALL_TO_ALL] = {0, 1, -1},
    [COLLECTIVE_BROADCAST] = {0, 1, 0},       [COLLECTIVE_REDUCE] = {0, 1, 0},
    [COLLECTIVE_GATHER] = {0, 1, -1},         [COLLECTIVE_SCATTER] = {0, 1, -1},
    [COLLECTIVE_SEND_RECV] = {0, 1, 0},       [COLLECTIVE_PARAMETER_SERVER] = {1, 0, 0},
};

const char *collective_name(Collective collective) {
  g_assert(collective < N_COLLECTIVES);
  return names[collective];
}

gboolean collective_has_root(Collective collective) {
  return collective >= COLLECTIVE_BROADCAST && collective <= COLLECTIVE_SCATTER;
}

const char *const *collective_names(void) {
  return names;
}

double collective_bus_factor(Collective collective, int n_ranks) {
  g_assert(collective < N_COLLECTIVES && n_ranks >= 1);
  return bus_factors[collective].per_rank * n_ranks + bus_factors[collective].constant +
         bus_factors[collective].share / n_ranks;
}

double collective_sent_bytes(Collective collective, int n_ranks, double bytes) {
  /* nccl-tests counts a broadcast, reduce or send of one rank to itself at factor 1, but nothing leaves the rank. A
   * parameter server is separate from its workers, so it has a peer even then. */
  if (n_ranks == 1 && collective != COLLECTIVE_PARAMETER_SERVER)
    return 0;
  return collective_bus_factor(collective, n_ranks) * bytes;
}
