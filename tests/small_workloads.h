/* Workloads of small models built by hand, for tests of what a plan makes of a model. */
#pragma once
#include "workload.h"
#include <check.h>
#include <string.h>

/* Small models of each kind; vocabularies are multiples of 128·8, so padding changes nothing. */
G_GNUC_UNUSED static const Model gpt = {.name = (char *)"gpt",
                                        .n_layers = 8,
                                        .hidden = 1024,
                                        .n_heads = 16,
                                        .n_kv_heads = 16,
                                        .head_dim = 64,
                                        .ffn_hidden = 4096,
                                        .vocab = 51200,
                                        .max_positions = 2048,
                                        .tied = TRUE,
                                        .qkv_bias = TRUE,
                                        .linear_bias = TRUE,
                                        .n_norms_per_layer = 2,
                                        .dropout = TRUE,
                                        .norm = NORM_LAYERNORM,
                                        .positions = POSITIONS_LEARNED};
G_GNUC_UNUSED static const Model llama = {.name = (char *)"llama",
                                          .n_layers = 8,
                                          .hidden = 1024,
                                          .n_heads = 16,
                                          .n_kv_heads = 8,
                                          .head_dim = 64,
                                          .ffn_hidden = 2816,
                                          .vocab = 32768,
                                          .gated = TRUE,
                                          .n_norms_per_layer = 2,
                                          .norm = NORM_RMSNORM,
                                          .positions = POSITIONS_ROTARY};

G_GNUC_UNUSED static Model neox(void) { /* attention and MLP side by side, a norm each */
  Model model = gpt;
  model.parallel_block = TRUE;
  model.positions = POSITIONS_ROTARY;
  return model;
}

G_GNUC_UNUSED static Model falcon(void) { /* … and one norm for both */
  Model model = neox();
  model.n_norms_per_layer = 1;
  model.dropout = FALSE;
  return model;
}

G_GNUC_UNUSED static Plan *plan_of(int tp, gboolean sequence_parallel, Attention attention, Recompute recompute) {
  Plan *plan = plan_new();
  plan->tp = tp;
  plan->dp = 1;
  plan->chunks = 1;
  plan->gpus = tp;
  plan->sequence_parallel = sequence_parallel;
  plan->attention = attention;
  plan->recompute = recompute;
  plan->micro_batch = 2;
  plan->global_batch = 16;
  plan->n_micro_batches = 8;
  plan->seq_len = 512;
  return plan;
}

G_GNUC_UNUSED static Workload *workload_of(const Model *model, int tp, gboolean sequence_parallel, Attention attention,
                                           Recompute recompute) {
  g_autoptr(Plan) plan = plan_of(tp, sequence_parallel, attention, recompute);
  return workload_new(model, plan, NULL);
}

enum { N_COMBINATIONS = 4 * 3 * 2 * N_RECOMPUTES * 3 };

/* Every combination of model, cut, attention, recompute and precision, by number. */
G_GNUC_UNUSED static Workload *combination(int i) {
  const int tps[] = {1, 4, 4};
  const Precision precisions[] = {PRECISION_BF16, PRECISION_MXFP8, PRECISION_FP32};
  Model models[] = {gpt, llama, neox(), falcon()};
  const int model = i % 4, cut = i / 4 % 3, attention = i / 12 % 2, recompute = i / 24 % 3, precision = i / 72;
  g_autoptr(Plan) plan = plan_of(tps[cut], cut == 2, (Attention)attention, (Recompute)recompute);
  plan->precision = precisions[precision];
  return workload_new(&models[model], plan, NULL);
}

G_GNUC_UNUSED static const WorkItem *find(const WorkList *list, const char *name) {
  for (int i = 0; i < list->n_items; i++)
    if (strcmp(list->items[i].name, name) == 0)
      return &list->items[i];
  ck_abort_msg("no item %s", name);
}

G_GNUC_UNUSED static int count(const WorkList *list, const char *name) {
  int n = 0;
  for (int i = 0; i < list->n_items; i++)
    n += strcmp(list->items[i].name, name) == 0;
  return n;
}

G_GNUC_UNUSED static int index_of(const WorkList *list, const char *name) {
  return (int)(find(list, name) - list->items);
}
