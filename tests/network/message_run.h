/* Message programs, run on the network: what a rank sends waits for what it received and computed. Simple enough for
 * any other flow simulator to run, for comparison.
 *
 * Items are numbered 0, 1, … as they are added and may wait only for earlier ones, so a program always ends. */
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
/* A delay of delay_ns ≥ 0 that uses no link. Returns the item. */
gint32 message_program_delay(MessageProgram *program, gint64 delay_ns);
/* Makes the last added item wait for an earlier one. */
void message_program_after(MessageProgram *program, gint32 earlier);
gint32 message_program_n_items(const MessageProgram *program);

/* Runs all items from time 0. Returns the end of the last item, ns, rounded up; G_MAXINT64: beyond the time range.
 * `ends_ticks` [items] is filled unless NULL. `flows` must be at time 0 with no flow in progress; it keeps the links'
 * loads. */
gint64 message_run(const MessageProgram *program, const Routes *routes, Flows *flows, gint64 *ends_ticks);

/* Ring all-reduce of `bytes` per rank over n_ranks ≥ 1 vertices: 2(n−1) steps. In each, every rank sends bytes / n to
 * the next rank, once it has received the previous rank's message of the step before and finished its own send. As in
 * NCCL's ring and Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 69, 2009. is_folded: all steps of
 * a hop as one flow. NULL: no route (IMPOSSIBLE). */
MessageProgram *message_ring_all_reduce(Routes *routes, const gint32 *ranks, gint32 n_ranks, double bytes,
                                        gboolean is_folded, GError **error);

typedef struct {
  gint32 n_micro_batches;         /* ≥ 1 */
  gint64 forward_ns, backward_ns; /* of one micro-batch on one stage */
  double bytes;                   /* of an activation, and of its gradient */
} PipelineSteps;

/* 1F1B (Narayanan et al., "PipeDream", SOSP 2019; "Efficient large-scale language model training", SC 2021): stage s of
 * p runs min(p − 1 − s, m) forwards, then alternates forward and backward, then runs the remaining backwards. A stage
 * waits for its receives, never for its sends. NULL: no route (IMPOSSIBLE). */
MessageProgram *message_pipeline(Routes *routes, const gint32 *stages, gint32 n_stages, const PipelineSteps *steps,
                                 GError **error);
