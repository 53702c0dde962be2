/* How long an order takes to find, and how short it is. First by size: 16 ranks and 128 micro-batches, 64 and 512, one
 * chunk and a V, with the peer's memory caps. Then bubble rates compared with the zero-bubble authors' scheduler, on
 * its own profiled times and with the same memory. Reports the least CPU time of several runs. Optional argument: runs.
 */
#include "auto_order.h"
#include "peer_scheduler.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Milliseconds, best of `n_runs`; *rate is the bubble on the longest stage span. */
static double find(const PeerProblem *peer, int n_runs, double *rate) {
  double best_s = G_MAXDOUBLE;
  for (int i = 0; i < n_runs; i++) {
    g_autoptr(GError) error = NULL;
    g_auto(OrderCost) cost = {0};
    const clock_t start = clock();
    g_autoptr(Order) order = auto_order_new(&peer->problem, &cost, &error);
    best_s = MIN(best_s, (double)(clock() - start) / CLOCKS_PER_SEC);
    g_assert(order != NULL);
    g_assert_no_error(error);
    *rate = 1 - (double)peer->work_ns / (double)cost.span_ns;
  }
  return best_s * 1e3;
}

int main(int argc, char **argv) {
  int n_runs = argc > 1 ? atoi(argv[1]) : 3;
  static const PeerRow sizes[] = {{16, 128, 11325, 11308, 8109, 378, 5120, 40, {0}},
                                  {64, 512, 11325, 11308, 8109, 378, 5120, 40, {0}}};
  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++)
    for (int schedule = 0; schedule < N_PEER_SCHEDULES; schedule++) {
      PeerProblem peer = peer_problem(&sizes[i], schedule);
      double rate, ms = find(&peer, n_runs, &rate);
      printf("p %2d  m %3d  %-6s %8.2f ms  bubble %.4f\n", sizes[i].p, sizes[i].m, peer_schedule_names[schedule], ms,
             rate);
      peer_problem_clear(&peer);
    }
  printf("\n  p   m      F      I      W  send  schedule  peer   found\n");
  for (gsize i = 0; i < G_N_ELEMENTS(peer_rows); i++)
    for (int schedule = 0; schedule < N_PEER_SCHEDULES; schedule++) {
      const PeerRow *row = &peer_rows[i];
      PeerProblem peer = peer_problem(row, schedule);
      double rate, ms = find(&peer, 1, &rate);
      printf("%3d %3d  %5d  %5d  %5d  %4d  %-8s  %.4f  %.4f  %s  %.1f ms\n", row->p, row->m, row->f_us, row->i_us,
             row->w_us, row->send_us, peer_schedule_names[schedule], row->rates[schedule], rate,
             rate < row->rates[schedule] + 5e-5 ? " " : "longer", ms);
      peer_problem_clear(&peer);
    }
  return 0;
}
