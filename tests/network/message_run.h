/* Programs of messages, run on the network: what a rank sends waits for what it received and computed. Plain enough to
 * be simulated by anything else that knows flows, and so compared.
 *
 * Items are numbered 0, 1, … as they are added and may wait for earlier ones only: so a program always reaches its end.
 */
#pragma once
#include "flows.h"
#include "routes.h"

typedef struct MessageProgram MessageProgram;

MessageProgram *message_program_new(void);
void message_program_free(MessageProgram *program);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MessageProgram, message_program_free)

/* A message of `bytes` ≥ 0 over a route (of routes.h) that passes it n_passes ≥ 1 times as one flow: n_passes messages
 * of bytes / n_passes, one after the other, whose latencies add up. Returns the item. */
gint32 message_program_send(MessageProgram *program, gint32 route, double bytes, gint32 n_passes);
/* Something that takes delay_ns ≥ 0 and no link. Returns the item. */
gint32 message_program_delay(MessageProgram *program, gint64 delay_ns);
/* The item added last waits for an earlier one. */
void message_program_after(MessageProgram *program, gint32 earlier);
gint32 message_program_n_items(const MessageProgram *program);

/* Runs all from time 0. Returns the end of the last item, ns, rounded up; G_MAXINT64: later than time goes.
 * `ends_ticks` [items] is filled unless NULL. `flows` must have none under way and be at time 0; it keeps the loads of
 * the links. */
gint64 message_run(const MessageProgram *program, const Routes *routes, Flows *flows, gint64 *ends_ticks);

/* Ring all-reduce of `bytes` per rank over n_ranks ≥ 1 vertices: 2(n−1) steps, in each of which every rank sends
 * bytes / n to the next once it has what the one before sent in the last step, and has sent its own. The same as NCCL's
 * ring and as Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 69, 2009. is_folded: all steps of a
 * hop as one flow. NULL: no route (IMPOSSIBLE). */
MessageProgram *message_ring_all_reduce(Routes *routes, const gint32 *ranks, gint32 n_ranks, double bytes,
                                        gboolean is_folded, GError **error);

typedef struct {
  gint32 n_micro_batches;         /* ≥ 1 */
  gint64 forward_ns, backward_ns; /* of one micro-batch on one stage */
  double bytes;                   /* of an activation, and of its gradient */
} PipelineSteps;

/* 1F1B (Narayanan et al., "PipeDream", SOSP 2019; "Efficient large-scale language model training", SC 2021): stage s of
 * p runs min(p − 1 − s, m) forwards, then one forward and one backward in turn, then the backwards left. A stage waits
 * for what it receives, never for what it sends. NULL: no route (IMPOSSIBLE). */
MessageProgram *message_pipeline(Routes *routes, const gint32 *stages, gint32 n_stages, const PipelineSteps *steps,
                                 GError **error);
