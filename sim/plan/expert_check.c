/* Which ranks form an expert-parallel group, and whether experts can be divided over them. */
#include "error.h"
#include "plan.h"
#include "units.h"

/* Groups of ep consist of ranks that otherwise hold the same: neighbours along tp (unless it cuts experts), cp, and
 * dp within a set of ZeRO shards. */
static gboolean check_expert_ranks(const Plan *plan, GError **error) {
  const gboolean takes_tp = plan_expert_tp(plan) < plan->tp;
  int left = plan->ep;
  const int sizes[] = {takes_tp ? plan->tp : 1, plan->cp, plan->zero_ranks / plan->cp};
  gboolean divides = TRUE;
  for (size_t i = 0; i < G_N_ELEMENTS(sizes) && divides; i++)
    divides = plan_ep_inside(sizes[i], &left) > 0;
  if (divides && left == 1)
    return TRUE;
  g_autofree char *tp = takes_tp ? g_strdup_printf("tp %d × ", plan->tp) : g_strdup("");
  g_autofree char *shards = plan->zero_ranks < plan_data_ranks(plan)
                                ? g_strdup_printf("the %d ranks of a set of ZeRO shards", plan->zero_ranks)
                                : g_strdup_printf("dp %d", plan->dp);
  const char *hint = !takes_tp && plan->tp > 1 ? " (--expert-tp 1 leaves experts whole and takes tp's ranks too)" : "";
  return fail_impossible(error, "ep %d does not fit into %scp %d × %s: its groups are made of neighbours there%s",
                         plan->ep, tp, plan->cp, shards, hint);
}

/* Which axis cuts what in a model with experts. */
static gboolean check_expert_cut(const Plan *plan, const Model *model, GError **error) {
  const struct {
    const char *what, *by;
    gint64 count;
    int ranks;
  } cut[] = {
      {"experts", "ep", model->experts.n, plan->ep},
      {"experts' hidden size", "expert-tp", model->experts.ffn_hidden, plan_expert_tp(plan)},
      {"shared expert's hidden size", "tp", model->experts.shared_ffn_hidden, plan->tp},
  };
  for (size_t i = 0; i < G_N_ELEMENTS(cut); i++)
    if (cut[i].count % cut[i].ranks != 0)
      return fail_impossible(error, "%s %d does not divide the %s %" INT64 " of model %s", cut[i].by, cut[i].ranks,
                             cut[i].what, cut[i].count, model->name);
  if (plan->tp > 1 && !plan->sequence_parallel)
    return fail_impossible(error,
                           "tp %d with the experts of model %s needs --sequence-parallel on: else every rank of tp "
                           "would send all tokens to them",
                           plan->tp, model->name);
  return TRUE;
}

gboolean plan_check_experts(const Plan *plan, const Model *model, GError **error) {
  if (plan->expert_tp > 1 && plan->expert_tp != plan->tp)
    return fail_impossible(error, "expert-tp %d: experts are cut by tp %d or not at all (1)", plan->expert_tp,
                           plan->tp);
  if (model != NULL && !model_has_experts(model) && (plan->ep > 1 || plan->expert_tp > 0))
    return fail_impossible(error, "%s %d: model %s has no experts", plan->ep > 1 ? "ep" : "expert-tp",
                           plan->ep > 1 ? plan->ep : plan->expert_tp, model->name);
  if (plan->expert_load > plan->ep)
    return fail_impossible(error, "expert-load %g: one of ep %d ranks gets at most all rows, %d times their mean",
                           plan->expert_load, plan->ep, plan->ep);
  if (!check_expert_ranks(plan, error))
    return FALSE;
  if (model == NULL)
    return TRUE;
  if (model_has_experts(model) && !check_expert_cut(plan, model, error))
    return FALSE;
  if ((model_has_experts(model) || model->latent.kv_rank > 0) && plan->recompute == RECOMPUTE_SELECTIVE &&
      plan->memory.selective == SELECTIVE_PRODUCTS)
    return fail_impossible(
        error,
        "recompute selective keeps every other product under framework %s, which is not modelled with "
        "experts or latent attention (model %s)",
        plan->framework, model->name);
  return TRUE;
}
