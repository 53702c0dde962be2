/* When all parties to a transfer were ready. A record starts when its own rank is ready, so only the partners'
 * records separate the time spent waiting for them from the time on the wire. Works on measured and simulated traces
 * alike. */
#pragma once
#include "trace.h"

typedef struct {
  const Trace *trace;
  const Transfer *transfers;  /* the program's */
  const gint64 *all_start_ns; /* the trace's */
  gint32 *const *match;       /* of program_number(); NULL: no transfer has others */
  const int *count;           /* [groups] collectives of the group on one member */
  gint32 **own_match;         /* the same where the Program has no tape; owned */
  int *own_count;
  gint64 **latest; /* [groups] [instances × count]; NULL: the group has no others; owned */

  /* of the rank looked from */
  const Op *ops;
  const gint64 *start_ns, *end_ns;
  const gint32 *of_rank; /* its match */
  const gsize *partner;  /* [pipeline rank × stride] first record of the partner there */
  int stride;
  gint64 **slots; /* [groups] its instances in `latest`; owned */
} Arrivals;

Arrivals *arrivals_new(const Trace *trace);
void arrivals_free(Arrivals *arrivals);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Arrivals, arrivals_free)

/* Whether others' records tell when all parties to a transfer were ready; if not, they were when the own one starts. */
gboolean arrivals_has_others(const Trace *trace, const Transfer *transfer);

/* Look from recorded rank `rank`. */
void arrivals_look_from(Arrivals *arrivals, int rank);
/* For a transfer that has others, op `i` of that rank: a send or receive is ready once the partner's record has started
 * too, a collective once the last member's has. Always within the op's own record. */
static inline gint64 arrivals_ready(const Arrivals *arrivals, gint32 i) {
  const Op *op = &arrivals->ops[i];
  const gint32 matched = arrivals->of_rank[i];
  const gint64 ready_ns = op->kind == OP_COLLECTIVE
                              ? arrivals->slots[arrivals->transfers[op->work].group][matched]
                              : arrivals->all_start_ns[arrivals->partner[op->peer * arrivals->stride] + (gsize)matched];
  return MAX(arrivals->start_ns[i], MIN(ready_ns, arrivals->end_ns[i]));
}

/* Look from a rank and fill ready_ns[i] for every op i; what has no others is ready at its own start. */
void arrivals_of_rank(Arrivals *arrivals, int rank, gint64 *ready_ns);
