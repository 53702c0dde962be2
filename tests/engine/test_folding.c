/* A folded run stands for all ranks of a symmetric cluster, exactly: step, breakdown of every rank, and the times of
 * every op, against the run of all ranks with every compute op expanded into its kernels and collectives.
 *
 * `test_folding N` draws N batches of plans instead of the suite's few. */
#include "link_use.h"
#include "plan_cases.h"
#include "run_suite.h"

#include <stdlib.h>

enum { BATCHES = 40, PLANS_PER_BATCH = 25, MAX_GPUS = 512 };

/* Ops [folded, folded_end) of a folded list are what [expanded, expanded_end) of the expanded one are. */
typedef struct {
  int folded, folded_end, expanded, expanded_end;
} Stretch;

static gboolean is_cut(const Op *op) {
  return op->action <= ACTION_B && (op->kind == OP_COMPUTE || op->stream == STREAM_TP);
}

static gboolean is_same_part(const Op *a, const Op *b) {
  return is_cut(a) && is_cut(b) && a->action == b->action && a->stage == b->stage && a->micro_batch == b->micro_batch &&
         a->step == b->step;
}

/* End of the stretch of ops that belong together, from `i` on. */
static int stretch_end(const OpList *list, int i) {
  int end = i + 1;
  while (end < list->n_ops && is_same_part(&list->ops[i], &list->ops[end]))
    end++;
  return end;
}

/* Of Stretch; NULL when the lists do not say the same. */
static GArray *stretches_of(const OpList *folded, const OpList *expanded) {
  g_autoptr(GArray) stretches = g_array_new(FALSE, FALSE, sizeof(Stretch));
  int i = 0, j = 0;
  while (i < folded->n_ops && j < expanded->n_ops) {
    const Op *a = &folded->ops[i], *b = &expanded->ops[j];
    if (is_cut(a) ? !is_same_part(a, b) : a->kind != b->kind || a->action != b->action || a->stream != b->stream)
      return NULL;
    Stretch stretch = {i, stretch_end(folded, i), j, stretch_end(expanded, j)};
    g_array_append_val(stretches, stretch);
    i = stretch.folded_end;
    j = stretch.expanded_end;
  }
  return i == folded->n_ops && j == expanded->n_ops ? g_steal_pointer(&stretches) : NULL;
}

static gint64 latest_end(const Trace *trace, int rank, int first, int end) {
  gint64 latest_ns = -1;
  for (int i = first; i < end; i++)
    latest_ns = MAX(latest_ns, trace->end_ns[trace->first[rank] + (gsize)i]);
  return latest_ns;
}

/* Starts as well, where the expanded stretch begins with a kernel as the folded op does. */
static gboolean is_same_stretch(const Trace *folded, int representative, const Trace *all, int rank,
                                const Stretch *stretch) {
  if (latest_end(folded, representative, stretch->folded, stretch->folded_end) !=
      latest_end(all, rank, stretch->expanded, stretch->expanded_end))
    return FALSE;
  const Op *first = &trace_list(all, rank)->ops[stretch->expanded];
  if (first->stream == STREAM_TP)
    return TRUE;
  return folded->start_ns[folded->first[representative] + (gsize)stretch->folded] ==
         all->start_ns[all->first[rank] + (gsize)stretch->expanded];
}

static void assert_same_times(const Case *drawn, const Prediction *folded, const Prediction *all) {
  for (int pp = 0; pp < folded->program->n_ranks; pp++) {
    g_autoptr(GArray) stretches = stretches_of(&folded->program->ranks[pp], &all->program->ranks[pp]);
    CASE_ASSERT(drawn, stretches != NULL, "pipeline rank %d: expanded into other ops", pp);
    for (int rank = 0; rank < all->trace->n_ranks; rank++)
      for (guint i = 0; all->trace->pipeline_rank[rank] == pp && i < stretches->len; i++) {
        const Stretch *stretch = &g_array_index(stretches, Stretch, i);
        CASE_ASSERT(drawn, is_same_stretch(folded->trace, pp, all->trace, rank, stretch),
                    "rank %d, pipeline rank %d: op %d of the folded list, %d of the expanded one", rank, pp,
                    stretch->folded, stretch->expanded);
      }
  }
}

static void assert_same_links(const Case *drawn, const Prediction *folded, const Prediction *all) {
  LinkUse one[TIMING_MAX_WAYS], each[TIMING_MAX_WAYS];
  const gboolean is_known = link_use_of(folded->trace, folded->metrics, NULL, one);
  ck_assert(link_use_of(all->trace, all->metrics, NULL, each) == is_known);
  for (int way = 0; way < TIMING_MAX_WAYS && is_known; way++)
    if (one[way].mean != each[way].mean || one[way].most != each[way].most || one[way].busiest != each[way].busiest)
      case_abort(drawn, "way %d: %g, %g on rank %d; folded %g, %g on rank %d", way, each[way].mean, each[way].most,
                 each[way].busiest, one[way].mean, one[way].most, one[way].busiest);
}

static void assert_folding_is_exact(const Case *drawn) {
  g_autoptr(Prediction) folded = predict_case(drawn), all = predict_unfolded(drawn);
  ck_assert_int_eq(folded->trace->n_ranks, drawn->plan->pp);
  ck_assert_int_eq(all->trace->n_ranks, drawn->plan->gpus);
  assert_same_metrics(drawn, folded, all);
  assert_same_links(drawn, folded, all);
  assert_same_times(drawn, folded, all);
}

/* Check's loop variable _i is the batch. */
START_TEST(folded_run_is_the_run_of_all_ranks) {
  for (int i = 0; i < PLANS_PER_BATCH; i++) {
    /* large ones are slow to run: a few are enough */
    guint seed = (guint)(_i * PLANS_PER_BATCH + i);
    g_auto(Case) drawn = random_case(seed, case_clusters(), i % 5 == 0 ? MAX_GPUS : 64);
    drawn.plan->steps = seed % 3 == 0 ? 3 : 1;
    if (seed % 2 == 0 && drawn.plan->pp > 1 && drawn.plan->chunks == 1) /* halves of backward apart */
      plan_say(drawn.plan, "--schedule zb-h1");
    if (seed % 3 == 1)
      run_under(drawn.plan, shipped_frameworks()[seed / 3 % g_strv_length(shipped_frameworks())]);
    assert_folding_is_exact(&drawn);
  }
}

int main(int argc, char **argv) {
  tcase_add_loop_test(listed_tests(), folded_run_is_the_run_of_all_ranks, 0, argc > 1 ? atoi(argv[1]) : BATCHES);
  return run_tests();
}
