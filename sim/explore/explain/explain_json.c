/* {step…, measured, axes[], what_if[], faster[], chain[], sensitivity[], scaling}. */
#include "explanation.h"
#include "json_values.h"
#include "link_use.h"

#include <math.h>

static void add_axis(JsonBuilder *builder, const Cluster *cluster, const AxisLinks *links) {
  g_autofree char *names = axis_links_names(cluster, links->ways),
                  *narrowest = link_use_name(cluster, links->narrowest);
  json_begin_object(builder, NULL);
  json_add_text(builder, "axis", axis_name(links->axis));
  json_add_count(builder, "size", links->size);
  json_add_text(builder, "links", names);
  json_add_text(builder, "narrowest", narrowest);
  json_add_number(builder, "link_Bps", links->link_Bps);
  json_add_number(builder, "sent_bytes", links->sent_bytes);
  json_add_number(builder, "transfer_s", links->transfer_s);
  json_add_number(builder, "hidden_s", links->hidden_s);
  json_add_number(builder, "exposed_s", links->exposed_s);
  json_builder_end_object(builder);
}

static void add_what_ifs(JsonBuilder *builder, const char *key, const GArray *steps) {
  json_begin_list(builder, key);
  for (guint i = 0; i < steps->len; i++) {
    const WhatIfStep *step = &g_array_index(steps, WhatIfStep, i);
    json_begin_object(builder, NULL);
    json_begin_list(builder, "without");
    for (int what = 0; what < N_WHAT_IFS; what++)
      if ((step->without & (1u << what)) != 0)
        json_builder_add_string_value(builder, what_if_name((WhatIf)what));
    json_builder_end_array(builder);
    json_add_number(builder, "step_time_s", 1e-9 * (double)step->step_ns);
    json_add_breakdown(builder, "breakdown_s", step->breakdown_s);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

static void add_size(JsonBuilder *builder, const ScalingSize *size) {
  json_begin_object(builder, NULL);
  json_add_count(builder, "gpus", size->gpus);
  json_add_count(builder, "dp", size->dp);
  json_add_count(builder, "global_batch", size->global_batch);
  json_add_count(builder, "micro_batches", size->n_micro_batches);
  json_add_number(builder, "step_time_s", size->step_time_s);
  json_add_number(builder, "tokens_per_s", size->tokens_per_s);
  json_add_number(builder, "mfu", size->mfu);
  json_add_flag(builder, "fits", size->fits);
  json_add_breakdown(builder, "gpu_s_per_token", size->gpu_s_per_token);
  json_builder_end_object(builder);
}

static void add_scaling(JsonBuilder *builder, const Explanation *e) {
  if (e->scaling == NULL)
    return;
  json_begin_object(builder, "scaling");
  json_add_flag(builder, "weak", e->is_weak);
  json_add_number(builder, "gpu_time_factor", e->scaling->factor);
  json_add_breakdown(builder, "grew", e->scaling->grew);
  json_begin_list(builder, "sizes");
  for (guint i = 0; i < e->scaling->sizes->len; i++)
    add_size(builder, &g_array_index(e->scaling->sizes, ScalingSize, i));
  json_builder_end_array(builder);
  g_autoptr(GPtrArray) verdict =
      explain_scaling_verdict(e->scaling, e->prediction->workload->plan, e->prediction->cluster->domain_gpus);
  json_add_texts(builder, "verdict", verdict);
  json_builder_end_object(builder);
}

static void add_faster(JsonBuilder *builder, const GArray *faster) {
  json_begin_list(builder, "faster");
  for (guint i = 0; i < faster->len; i++) {
    json_begin_object(builder, NULL);
    json_add_text(builder, "what", g_array_index(faster, FasterStep, i).what);
    json_add_number(builder, "step_time_s", g_array_index(faster, FasterStep, i).step_time_s);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

char *explain_json(const Explanation *e) {
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  json_add_number(builder, "step_time_s", e->step->step_time_s);
  json_add_number(builder, "mfu", e->step->mfu);
  json_add_flag(builder, "fits", e->step->fits);
  json_add_breakdown(builder, "breakdown_s", e->step->breakdown_s);
  if (e->gap != NULL)
    measured_gap_json(builder, e->gap);
  json_begin_list(builder, "axes");
  for (guint i = 0; i < e->axes->len; i++)
    add_axis(builder, e->prediction->cluster, &g_array_index(e->axes, AxisLinks, i));
  json_builder_end_array(builder);
  add_what_ifs(builder, "what_if", e->each);
  add_what_ifs(builder, "chain", e->chain);
  json_add_number(builder, "no_bubble_s", 1e-9 * (double)e->no_bubble_ns);
  json_add_number(builder, "large_batch_s", e->large_batch_s > 0 ? e->large_batch_s : NAN);
  json_add_number(builder, "even_ranks_s", e->even_ranks_s > 0 ? e->even_ranks_s : NAN);
  if (e->faster != NULL)
    add_faster(builder, e->faster);
  if (e->steps != NULL)
    planner_json_steps(builder, e->outcome, e->steps);
  add_scaling(builder, e);
  json_builder_end_object(builder);
  return json_finish(builder);
}
