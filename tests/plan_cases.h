/* Plans drawn at random, small enough to predict many of them: what properties of predictions are tested on. */
#pragma once
#include "predict.h"

#include "small_workloads.h"

#define CASES_FIXTURES STEPSIM_SOURCE_DATA "/tests/data"

/* Nodes of 8 and of 4, domains as wide as a node and wider, PCIe, fewer NICs than GPUs, fabrics with tiers. */
static const char *const case_cluster_names[] = {
    "selene", "dgx-h100", "a100-pcie", "gb200-nvl72", "llama3-h100", CASES_FIXTURES "/cluster.yaml",
};
enum { N_CASE_CLUSTERS = G_N_ELEMENTS(case_cluster_names) };

static inline Cluster *read_cluster(const char *name) {
  g_autoptr(GError) error = NULL;
  Cluster *cluster = cluster_read(name, &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "");
  return cluster;
}

static inline Model *read_model(const char *name) {
  g_autoptr(GError) error = NULL;
  Model *model = model_read(name, &error);
  ck_assert_msg(model != NULL, "%s", error != NULL ? error->message : "");
  return model;
}

/* One of `n` numbers. */
static inline int pick(GRand *rand, const int *numbers, int n) {
  return numbers[g_rand_int_range(rand, 0, n)];
}
#define PICK(rand, ...) pick(rand, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static inline gboolean coin(GRand *rand) {
  return g_rand_int_range(rand, 0, 2);
}

typedef struct {
  Model model;
  const Cluster *cluster; /* borrowed */
  Plan *plan;             /* owned */
} Case;

static inline Model random_model(GRand *rand) {
  const Model models[] = {gpt, llama, neox(), falcon()};
  Model model = models[g_rand_int_range(rand, 0, 4)];
  model.n_layers = g_rand_int_range(rand, 3, 11);
  model.tied = coin(rand);
  return model;
}

static inline void draw_cut(GRand *rand, Plan *plan) {
  plan->tp = PICK(rand, 1, 1, 2, 4, 8);
  plan->pp = PICK(rand, 1, 1, 2, 3, 4, 6, 8);
  plan->dp = PICK(rand, 1, 2, 3, 4, 8, 16, 32);
  plan->gpus = plan->tp * plan->pp * plan->dp;
  plan->chunks = plan->pp > 1 ? PICK(rand, 1, 1, 2, 3) : 1;
  plan->schedule = g_strdup(plan->chunks > 1 ? "interleaved" : coin(rand) ? "gpipe" : "1f1b");
  if (g_rand_int_range(rand, 0, 4) > 0)
    return;
  for (int i = N_AXES - 1; i > 0; i--) { /* another rank order */
    int j = g_rand_int_range(rand, 0, i + 1);
    Axis axis = plan->order[i];
    plan->order[i] = plan->order[j];
    plan->order[j] = axis;
  }
}

static inline void draw_work(GRand *rand, Plan *plan) {
  plan->micro_batch = PICK(rand, 1, 1, 2, 4);
  plan->global_batch = plan->micro_batch * plan->dp * g_rand_int_range(rand, 1, 2 * plan->pp + 3);
  plan->seq_len = PICK(rand, 64, 256, 1024, 2048); /* launch-bound to bound by the GPU */
  plan->recompute = (Recompute)g_rand_int_range(rand, 0, N_RECOMPUTES);
  if (plan->recompute == RECOMPUTE_SELECTIVE && coin(rand))
    plan->recompute_modules = PICK(rand, MODULE_BIT(MODULE_LAYERNORM), MODULE_BIT(MODULE_MLP),
                                   MODULE_BIT(MODULE_CORE_ATTN) | MODULE_BIT(MODULE_LAYERNORM));
  plan->attention = (Attention)g_rand_int_range(rand, 0, N_ATTENTIONS);
  plan->sequence_parallel = coin(rand);
  plan->precision = (Precision)PICK(rand, PRECISION_BF16, PRECISION_BF16, PRECISION_FP16, PRECISION_FP8);
}

static inline void draw_sharding(GRand *rand, Plan *plan) {
  plan->zero = g_rand_int_range(rand, 0, 4);
  plan->zero_ranks = plan->zero == 0 ? 0 : PICK(rand, 0, 0, 2, 4);
  plan->overlap_grad = coin(rand);
  plan->overlap_param = coin(rand);
  plan->overlap_p2p = coin(rand);
  plan->grad_norm_barrier = coin(rand);
  plan->steps = 1;
  plan->prefetch = g_rand_int_range(rand, 0, 4);
  plan->bucket_parameters = PICK(rand, 1, 10000000, 30000000, 0);
  g_autoptr(GError) error = NULL;
  recipe_parse(recipe_names()[g_rand_int_range(rand, 0, 3)], &plan->recipe, &error);
  g_assert_no_error(error);
}

/* A case that can run; the plan is complete, folded, of one step. */
static inline Case random_case(guint seed, Cluster *const *clusters, int max_gpus) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  for (;;) {
    g_autoptr(Plan) plan = plan_new();
    Case drawn = {.model = random_model(rand), .cluster = clusters[g_rand_int_range(rand, 0, N_CASE_CLUSTERS)]};
    draw_cut(rand, plan);
    draw_work(rand, plan);
    draw_sharding(rand, plan);
    if (plan->gpus > max_gpus || !plan_complete(plan, &drawn.model, drawn.cluster, NULL))
      continue;
    drawn.plan = g_steal_pointer(&plan);
    return drawn;
  }
}

/* Twice the GPUs, in cp; FALSE, and the plan as it was, where that cannot be. */
static inline gboolean add_cp(Case *drawn) {
  g_autoptr(Plan) with_cp = plan_copy(drawn->plan);
  with_cp->cp = 2;
  with_cp->gpus *= 2;
  with_cp->zero_ranks = 0;
  if (!plan_complete(with_cp, &drawn->model, drawn->cluster, NULL))
    return FALSE;
  plan_free(drawn->plan);
  drawn->plan = g_steal_pointer(&with_cp);
  return TRUE;
}

/* 8 experts in every layer, over 2 ranks of dp; FALSE, and the plan as it was, where that cannot be. */
static inline gboolean add_experts(Case *drawn) {
  Model model = drawn->model;
  model.experts = (ModelExperts){.n = 8, .per_token = 2, .ffn_hidden = 512, .every = 1};
  g_autoptr(Plan) with_ep = plan_copy(drawn->plan);
  with_ep->ep = 2;
  with_ep->sequence_parallel = with_ep->tp > 1;
  if (model.parallel_block || !plan_complete(with_ep, &model, drawn->cluster, NULL))
    return FALSE;
  drawn->model = model;
  plan_free(drawn->plan);
  drawn->plan = g_steal_pointer(&with_ep);
  return TRUE;
}

static inline void case_clear(Case *drawn) {
  plan_free(drawn->plan);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Case, case_clear)

/* For failures: what to type to see it again. Owned by the caller. */
static inline char *case_text(const Case *drawn) {
  const Plan *plan = drawn->plan;
  const Model *model = &drawn->model;
  g_autoptr(GString) order = g_string_new(NULL);
  for (int i = 0; i < N_AXES; i++)
    g_string_append_printf(order, "%s%s", i > 0 ? "-" : "", axis_name(plan->order[i]));
  g_autofree char *modules = recompute_modules_text(plan->recompute_modules, "+");
  return g_strdup_printf(
      "%s of %d layers (tied %d) on %s: --tp %d --pp %d --dp %d --cp %d --cp-comm %s "
      "--framework %s --chunks %d --schedule %s --order %s --micro-batch %d "
      "--global-batch %d --seq-len %d --zero %d --zero-ranks %d --overlap-grad %d --overlap-param %d --overlap-p2p %d "
      "--prefetch %d "
      "--bucket %d --grad-norm-barrier %d --recompute %s --recompute-modules %s --attention %s --sequence-parallel %d "
      "--precision %s "
      "--recipe %s --steps %d",
      model->name, (int)model->n_layers, model->tied, drawn->cluster->name, plan->tp, plan->pp, plan->dp, plan->cp,
      cp_comm_names()[plan->cp_comm], plan->framework != NULL ? plan->framework : "none", plan->chunks, plan->schedule,
      order->str, (int)plan->micro_batch, (int)plan->global_batch, (int)plan->seq_len, plan->zero, plan->zero_ranks,
      plan->overlap_grad, plan->overlap_param, plan->overlap_p2p, plan->prefetch, (int)plan->bucket_parameters,
      plan->grad_norm_barrier, recompute_names()[plan->recompute], modules, attention_names()[plan->attention],
      plan->sequence_parallel, precision_info(plan->precision)->name, plan->recipe.name, plan->steps);
}

static inline Prediction *predict_on(const Case *drawn, const Cluster *cluster, const Plan *plan) {
  g_autoptr(GError) error = NULL;
  Prediction *prediction = predict(&drawn->model, cluster, plan, &error);
  if (prediction == NULL) {
    g_autofree char *text = case_text(drawn);
    ck_abort_msg("%s\n%s", text, error->message);
  }
  return prediction;
}

static inline Prediction *predict_case(const Case *drawn) {
  return predict_on(drawn, drawn->cluster, drawn->plan);
}

/* All clusters of case_cluster_names; the last with hosts so slow that small kernels wait for their launch. */
static inline void read_case_clusters(Cluster *clusters[N_CASE_CLUSTERS]) {
  for (int i = 0; i < N_CASE_CLUSTERS; i++)
    clusters[i] = read_cluster(case_cluster_names[i]);
  clusters[N_CASE_CLUSTERS - 1]->gpu.host_launch_s *= 6;
}

static inline void free_case_clusters(Cluster *clusters[N_CASE_CLUSTERS]) {
  for (int i = 0; i < N_CASE_CLUSTERS; i++)
    cluster_free(clusters[i]);
}
