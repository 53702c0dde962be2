/* Message programs that any network simulator can run, for comparisons. */
#include "message_run.h"

/* The route from each rank to the next, the last to the first. */
static gint32 *find_ring(Routes *routes, const gint32 *ranks, gint32 n_ranks, GError **error) {
  g_autofree gint32 *hops = g_new(gint32, n_ranks);
  for (gint32 r = 0; r < n_ranks; r++) {
    hops[r] = routes_find(routes, ranks[r], ranks[(r + 1) % n_ranks], 0, error);
    if (hops[r] < 0)
      return NULL;
  }
  return g_steal_pointer(&hops);
}

MessageProgram *message_ring_all_reduce(Routes *routes, const gint32 *ranks, gint32 n_ranks, double bytes,
                                        gboolean is_folded, GError **error) {
  g_assert(n_ranks >= 1);
  g_autofree gint32 *hops = find_ring(routes, ranks, n_ranks, error);
  if (hops == NULL)
    return NULL;
  MessageProgram *program = message_program_new();
  gint32 n_steps = 2 * (n_ranks - 1), n_passes = is_folded ? n_steps : 1;
  double chunk_bytes = bytes / n_ranks;
  for (gint32 step = 0; step < n_steps; step += n_passes)
    for (gint32 r = 0; r < n_ranks; r++) {
      gint32 item = message_program_send(program, hops[r], chunk_bytes * n_passes, n_passes);
      if (step == 0)
        continue;
      message_program_after(program, item - n_ranks);
      message_program_after(program,
                            r == 0 ? item - 1 : item - n_ranks - 1); /* r 0: from the last one of the step before */
    }
  return program;
}

/* Items that are yet to be added wait for others in any order of stages, so stages are followed in turn, each as far as
 * what it waits for is there. */
typedef struct {
  MessageProgram *program;
  const PipelineSteps *steps;
  gint32 n_stages;
  gint32 *down, *up;                   /* routes to the next stage, to the one before */
  gint32 *last;                        /* [stages] item of the stage's last compute; −1: none */
  gint32 *n_forward, *n_backward;      /* [stages] computed so far */
  gint32 *activation_of, *gradient_of; /* [stages × micro-batches] message that brings it; −1: not yet */
} Pipeline;

static gboolean is_backward_next(const Pipeline *pipeline, gint32 stage) {
  gint32 m = pipeline->steps->n_micro_batches, warm_up = MIN(pipeline->n_stages - 1 - stage, m);
  gint32 n_forward = pipeline->n_forward[stage], n_backward = pipeline->n_backward[stage];
  return n_forward == m || (n_forward > warm_up && n_forward - n_backward > warm_up);
}

/* Adds the stage's next compute and the message it causes; FALSE: what it needs is not there yet, or all is done. */
static gboolean add_next(Pipeline *pipeline, gint32 stage) {
  const PipelineSteps *steps = pipeline->steps;
  MessageProgram *program = pipeline->program;
  gint32 m = steps->n_micro_batches;
  gboolean is_backward = is_backward_next(pipeline, stage);
  gint32 batch = is_backward ? pipeline->n_backward[stage] : pipeline->n_forward[stage];
  gboolean is_end = is_backward ? stage == pipeline->n_stages - 1 : stage == 0;
  gint32 *arrivals = is_backward ? pipeline->gradient_of : pipeline->activation_of;
  if (batch == m || (!is_end && arrivals[stage * m + batch] < 0))
    return FALSE;
  gint32 compute = message_program_delay(program, is_backward ? steps->backward_ns : steps->forward_ns);
  if (pipeline->last[stage] >= 0)
    message_program_after(program, pipeline->last[stage]);
  if (!is_end)
    message_program_after(program, arrivals[stage * m + batch]);
  pipeline->last[stage] = compute;
  ++*(is_backward ? &pipeline->n_backward[stage] : &pipeline->n_forward[stage]);
  gint32 next = is_backward ? stage - 1 : stage + 1;
  if (next < 0 || next == pipeline->n_stages)
    return TRUE;
  gint32 route = is_backward ? pipeline->up[stage] : pipeline->down[stage];
  arrivals[next * m + batch] = message_program_send(program, route, steps->bytes, 1);
  message_program_after(program, compute);
  return TRUE;
}

static gboolean find_neighbours(Routes *routes, const gint32 *stages, Pipeline *pipeline, GError **error) {
  for (gint32 s = 0; s + 1 < pipeline->n_stages; s++) {
    pipeline->down[s] = routes_find(routes, stages[s], stages[s + 1], 0, error);
    if (pipeline->down[s] < 0)
      return FALSE;
    pipeline->up[s + 1] = routes_find(routes, stages[s + 1], stages[s], 0, error);
    if (pipeline->up[s + 1] < 0)
      return FALSE;
  }
  return TRUE;
}

MessageProgram *message_pipeline(Routes *routes, const gint32 *stages, gint32 n_stages, const PipelineSteps *steps,
                                 GError **error) {
  gsize p = n_stages, n = p * steps->n_micro_batches;
  g_assert(n_stages >= 1 && steps->n_micro_batches >= 1 && n < G_MAXINT32 / 4);
  g_autofree gint32 *of_stage = g_new0(gint32, 5 * p), *of_batch = g_new(gint32, 2 * n);
  Pipeline pipeline = {.steps = steps,
                       .n_stages = n_stages,
                       .down = of_stage,
                       .up = of_stage + p,
                       .last = of_stage + 2 * p,
                       .n_forward = of_stage + 3 * p,
                       .n_backward = of_stage + 4 * p,
                       .activation_of = of_batch,
                       .gradient_of = of_batch + n};
  if (!find_neighbours(routes, stages, &pipeline, error))
    return NULL;
  for (gsize i = 0; i < 2 * n; i++)
    of_batch[i] = -1;
  for (gsize s = 0; s < p; s++)
    pipeline.last[s] = -1;
  pipeline.program = message_program_new();
  for (gboolean goes_on = TRUE; goes_on;) {
    goes_on = FALSE;
    for (gint32 s = 0; s < n_stages; s++)
      while (add_next(&pipeline, s))
        goes_on = TRUE;
  }
  return pipeline.program;
}
