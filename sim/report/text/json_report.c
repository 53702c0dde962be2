/* One object per verb, its members by table and report. */
#include "json_report.h"

#include <math.h>

#include "json_values.h"
#include "warnings.h"

static JsonBuilder *begin(void) {
  return json_builder_begin_object(json_builder_new());
}

/* Closes the outer object, takes the builder. */
static char *finish(JsonBuilder *builder) {
  return json_finish(json_builder_end_object(builder));
}

static void add_categories(JsonBuilder *builder, const double held_bytes[N_MEMORY]) {
  for (int category = 0; category < N_MEMORY; category++) {
    g_autofree char *key = g_strconcat(memory_category_name((MemoryCategory)category), "_bytes", NULL);
    json_add_number(builder, key, held_bytes[category]);
  }
}

static void add_memory(JsonBuilder *builder, const StepReport *report) {
  json_begin_object(builder, "memory");
  json_add_number(builder, "peak_bytes", report->peak_bytes);
  json_add_number(builder, "total_bytes", report->peak_bytes + report->reserved_bytes);
  json_add_number(builder, "allocator_bytes", report->allocator_bytes);
  json_add_number(builder, "device_bytes", report->device_bytes);
  json_add_number(builder, "capacity_bytes", report->capacity_bytes);
  json_add_flag(builder, "fits", step_report_fits_gpu(report));
  json_add_count(builder, "worst_rank", report->worst_rank);
  add_categories(builder, report->memory_bytes);
  json_builder_end_object(builder);
}

/* Only where something is held there: a plan that offloads nothing has no such object. */
static void add_tiers(JsonBuilder *builder, const StepReport *report) {
  static const char *const names[N_TIERS] = {[TIER_HOST] = "host_memory", [TIER_NVME] = "nvme"};
  for (int tier = TIER_HOST; tier < N_TIERS; tier++) {
    const TierUse *use = &report->tiers[tier];
    if (!use->is_used)
      continue;
    json_begin_object(builder, names[tier]);
    json_add_number(builder, "bytes", use->bytes);
    json_add_number(builder, "capacity_bytes", use->capacity_bytes);
    json_add_flag(builder, "fits", use->fits);
    json_add_count(builder, "worst_node", use->node);
    add_categories(builder, use->held);
    json_builder_end_object(builder);
  }
  if (!report->tiers[TIER_HOST].is_used)
    return;
  json_begin_object(builder, "offload");
  json_add_number(builder, "exposed_s", report->exposed_s[MOVER_OFFLOAD]);
  json_add_number(builder, "hidden_s", report->hidden_s[MOVER_OFFLOAD]);
  json_add_number(builder, "copied_bytes", report->traffic_bytes[MOVER_OFFLOAD]);
  json_builder_end_object(builder);
}

static void add_lengths(JsonBuilder *builder, const LengthsReport *lengths) {
  if (lengths->n_sequences == 0)
    return;
  json_begin_object(builder, "lengths");
  json_add_count(builder, "sequences", lengths->n_sequences);
  json_add_count(builder, "tokens", lengths->tokens);
  json_add_count(builder, "cut", lengths->n_cut);
  json_add_number(builder, "padding_share", lengths->padding_share);
  json_add_number(builder, "slowest_micro_batch", lengths->slowest_micro_batch);
  json_add_number(builder, "slowest_dp_rank", lengths->slowest_dp_rank);
  json_builder_end_object(builder);
}

static void add_links(JsonBuilder *builder, const StepReport *report) {
  json_begin_list(builder, "links");
  for (int way = 0; way < TIMING_MAX_WAYS && report->cluster != NULL; way++) {
    if (report->link_use[way].busiest < 0)
      continue;
    g_autofree char *name = link_use_name(report->cluster, way);
    json_builder_begin_object(builder);
    json_add_text(builder, "name", name);
    json_add_number(builder, "used", report->link_use[way].mean);
    json_add_number(builder, "most_used", report->link_use[way].most);
    json_add_count(builder, "busiest_rank", report->link_use[way].busiest);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

static void add_bounding_link(JsonBuilder *builder, const StepReport *report) {
  const BoundingLink *bounding = &report->bounding;
  if (report->cluster == NULL || bounding->way < 0) {
    json_add_text(builder, "bounding_link", NULL);
    return;
  }
  g_autofree char *name = link_use_name(report->cluster, bounding->way);
  json_begin_object(builder, "bounding_link");
  json_add_text(builder, "name", name);
  json_add_count(builder, "rank", bounding->first_rank);
  json_add_number(builder, "busy_s", bounding->busy_s);
  json_add_number(builder, "idle_s", bounding->idle_s);
  json_add_number(builder, "exposed_s", bounding->wait_s);
  json_builder_end_object(builder);
}

static void add_islands(JsonBuilder *builder, const IslandReport *islands) {
  if (islands->period == 0)
    return;
  json_begin_object(builder, "islands");
  json_add_count(builder, "period", islands->period);
  json_add_number(builder, "plain_step_s", islands->plain_step_s);
  json_add_number(builder, "outer_s", islands->outer_s);
  json_add_number(builder, "sent_bytes", islands->sent_bytes);
  json_builder_end_object(builder);
}

static void add_servers(JsonBuilder *builder, const ServerReport *servers) {
  if (servers->n == 0)
    return;
  json_begin_object(builder, "servers");
  json_add_count(builder, "n", servers->n);
  json_add_number(builder, "bytes", servers->bytes);
  json_add_number(builder, "capacity_bytes", servers->capacity_bytes > 0 ? servers->capacity_bytes : NAN);
  json_add_flag(builder, "fits", servers->fits);
  json_add_number(builder, "network", servers->network);
  json_add_number(builder, "memory", servers->memory);
  json_builder_end_object(builder);
}

void json_report_step_into(JsonBuilder *builder, const StepReport *report) {
  json_add_number(builder, "step_time_s", report->step_time_s);
  json_add_interval(builder, &report->interval);
  json_add_number(builder, "tokens_per_s", report->tokens_per_s);
  json_add_number(builder, "tokens_per_s_per_gpu", report->tokens_per_s_per_gpu);
  json_add_number(builder, "tflops_per_gpu", report->tflops_per_gpu);
  json_add_number(builder, "mfu", report->mfu);
  json_add_number(builder, "hfu", report->hfu);
  json_add_text(builder, "flops_convention", flops_convention_names()[report->plan->flops]);
  json_add_number(builder, "gpu_energy_Wh", report->gpu_energy_Wh);
  if (report->trained_parameters > 0)
    json_add_count(builder, "trained_parameters", (gint64)report->trained_parameters);
  json_add_number(builder, "bubble_fraction", report->bubble_fraction);
  json_add_number(builder, "bubble_overhead", report->bubble_overhead);
  json_add_breakdown(builder, "breakdown_s", report->breakdown_s);
  add_memory(builder, report);
  add_tiers(builder, report);
  add_lengths(builder, &report->lengths);
  if (report->data_s > 0) {
    json_begin_object(builder, "data");
    json_add_number(builder, "needed_s", report->data_s);
    json_builder_end_object(builder);
  }
  if (report->compression.kernels_s > 0) {
    json_begin_object(builder, "compression");
    json_add_number(builder, "kernels_s", report->compression.kernels_s);
    json_add_number(builder, "sent_bytes", report->compression.sent_bytes);
    json_add_number(builder, "plain_bytes", report->compression.plain_bytes);
    json_builder_end_object(builder);
  }
  add_islands(builder, &report->islands);
  add_servers(builder, &report->servers);
  add_links(builder, report);
  add_bounding_link(builder, report);

  json_begin_object(builder, "kernels");
  json_add_count(builder, "measured", report->n_measured);
  json_add_count(builder, "interpolated", report->n_interpolated);
  json_add_count(builder, "modelled", report->n_modelled);
  json_builder_end_object(builder);

  json_begin_object(builder, "engine");
  json_add_count(builder, "events", (gint64)report->n_events);
  json_add_count(builder, "ranks_simulated", report->n_ranks_simulated);
  json_add_number(builder, "wall_s", report->wall_s);
  json_builder_end_object(builder);

  g_autoptr(GPtrArray) warnings = warnings_of_step(report);
  json_add_texts(builder, "warnings", warnings);
}

char *json_report_step(const StepReport *report) {
  JsonBuilder *builder = begin();
  json_report_step_into(builder, report);
  return finish(builder);
}

char *json_report_schedule(const ScheduleReport *report) {
  JsonBuilder *builder = begin();
  json_add_number(builder, "makespan", report->makespan);
  json_add_number(builder, "step_time", report->step_time);
  json_add_number(builder, "span", report->span);
  json_add_number(builder, "bubble_time", report->bubble_time);
  json_add_number(builder, "bubble_fraction", report->bubble_fraction);
  json_add_number(builder, "bubble_overhead", report->bubble_overhead);
  json_add_number(builder, "makespan_bubble_time", report->makespan_bubble_time);
  json_add_number(builder, "makespan_bubble_fraction", report->makespan_bubble_fraction);
  json_add_number(builder, "makespan_bubble_overhead", report->makespan_bubble_overhead);
  json_add_number(builder, "closed_form_bubble", report->closed_form_bubble);
  json_add_flag(builder, "closed_form_is_exact", report->closed_form_is_exact);
  json_begin_list(builder, "in_flight");
  for (int rank = 0; rank < report->n_ranks; rank++)
    json_builder_add_int_value(builder, report->in_flight[rank]);
  json_builder_end_array(builder);
  json_begin_list(builder, "peak_memory");
  for (int rank = 0; rank < report->n_ranks; rank++)
    json_builder_add_double_value(builder, report->peak_memory[rank]);
  json_builder_end_array(builder);
  json_add_count(builder, "actions", report->n_actions);
  json_add_count(builder, "sends", report->n_sends);
  return finish(builder);
}

/* null: unknown. */
static void add_known(JsonBuilder *builder, const char *key, gint64 count, gboolean is_known) {
  if (is_known)
    json_add_count(builder, key, count);
  else
    json_add_text(builder, key, NULL);
}

static void add_state_row(JsonBuilder *builder, const StateReport *report, const StateRow *row) {
  json_add_number(builder, "state_bytes_per_gpu", row->weights_bytes + row->gradients_bytes + row->optimizer_bytes);
  json_add_number(builder, "weights_bytes", row->weights_bytes);
  json_add_number(builder, "gradients_bytes", row->gradients_bytes);
  json_add_number(builder, "optimizer_bytes", row->optimizer_bytes);
  json_add_number(builder, "activations_bytes", row->activations_bytes);
  json_add_number(builder, "buffers_bytes", row->buffers_bytes);
  json_add_number(builder, "reserved_bytes", report->reserved_bytes);
  json_add_number(builder, "total_bytes", row->total_bytes);
  if (report->tiers_are_used) {
    json_add_number(builder, "host_bytes", row->host_bytes);
    json_add_number(builder, "nvme_bytes", row->nvme_bytes);
    json_add_text(builder, "host_and_nvme_per", report->tiers_per);
  }
  if (isfinite(row->sent_bytes))
    json_add_number(builder, "sent_bytes", row->sent_bytes);
  if (report->has_capacity || !row->fits)
    json_add_flag(builder, "fits", row->fits);
  else
    json_add_text(builder, "fits", NULL);
}

static void add_zero_stages(JsonBuilder *builder, const StateReport *report) {
  json_begin_list(builder, "zero_stages");
  for (int zero = 0; zero < N_ZERO_STAGES; zero++) {
    const StateRow *row = &report->stages[zero];
    json_begin_object(builder, NULL);
    json_add_count(builder, "zero", zero);
    json_add_text(builder, "impossible", row->impossible);
    if (row->impossible == NULL)
      add_state_row(builder, report, row);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
}

char *json_report_memory(const StateReport *report) {
  JsonBuilder *builder = begin();
  add_state_row(builder, report, &report->stages[report->zero]);
  const gboolean has_fewest = fabs(report->min_gpus) < 9e15; /* a whole number, written as one */
  add_known(builder, "min_gpus", has_fewest ? (gint64)report->min_gpus : 0, has_fewest);
  add_known(builder, "max_micro_batch", report->max_micro_batch, report->max_micro_batch >= 0);
  add_known(builder, "max_seq_len", report->max_seq_len, report->max_seq_len >= 0);
  json_add_count(builder, "parameters", (gint64)report->parameters);
  if (isfinite(report->bubble_overhead)) {
    json_add_number(builder, "bubble_fraction", report->bubble_overhead / (1 + report->bubble_overhead));
    json_add_number(builder, "bubble_overhead", report->bubble_overhead);
  }
  add_zero_stages(builder, report);
  return finish(builder);
}

static void add_collective(JsonBuilder *builder, const CollectiveReport *report) {
  json_builder_begin_object(builder);
  json_add_text(builder, "op", report->op);
  json_add_count(builder, "gpus", report->n_gpus);
  json_add_count(builder, "bytes", report->bytes);
  json_add_number(builder, "time_s", report->time_s);
  json_add_number(builder, "algbw_Bps", report->algbw_Bps);
  json_add_number(builder, "busbw_Bps", report->busbw_Bps);
  json_add_text(builder, "algorithm", report->algorithm);
  json_add_text(builder, "protocol", report->protocol);
  json_add_number(builder, "sent_bytes", report->sent_bytes);
  add_known(builder, "sms", report->n_sms, report->n_sms > 0);
  json_add_text(builder, "note", report->note);
  json_builder_end_object(builder);
}

char *json_report_collectives(const CollectiveReport *reports, int n) {
  JsonBuilder *builder = json_builder_new();
  if (n != 1)
    json_builder_begin_array(builder);
  for (int i = 0; i < n; i++)
    add_collective(builder, &reports[i]);
  if (n != 1)
    json_builder_end_array(builder);
  return json_finish(builder);
}

static void add_pair(JsonBuilder *builder, const char *what, double predicted, double measured, const char *error) {
  g_autofree char *predicted_key = g_strconcat("predicted", what, NULL);
  g_autofree char *measured_key = g_strconcat("measured", what, NULL);
  json_add_number(builder, predicted_key, predicted);
  json_add_number(builder, measured_key, measured);
  if (error != NULL)
    json_add_number(builder, error, compare_error(predicted, measured));
}

static void add_kind(JsonBuilder *builder, const Compare *compare, const CompareKind *kind) {
  json_builder_begin_object(builder);
  json_add_text(builder, "kind", g_quark_to_string(kind->name));
  json_add_count(builder, "count", MAX(kind->n_predicted, kind->n_measured));
  add_pair(builder, "_mean_s", compare_mean_s(kind->predicted_ns, kind->n_predicted),
           compare_mean_s(kind->measured_ns, kind->n_measured), "error");
  add_pair(builder, "_wait_mean_s", compare_mean_s(kind->predicted_wait_ns, kind->n_predicted),
           compare_mean_s(kind->measured_wait_ns, kind->n_measured), NULL);
  json_add_number(builder, "share_of_step", kind->measured_in_step_s / compare->measured.step_s);
  json_add_number(builder, "difference_s", kind->predicted_in_step_s - kind->measured_in_step_s);
  json_builder_end_object(builder);
}

static void add_phases(JsonBuilder *builder, const Compare *compare, const CompareRow *row) {
  for (int phase = 0; phase < N_COMPARE_PHASES; phase++) {
    json_builder_begin_object(builder);
    json_add_count(builder, "rank", row->rank);
    json_add_text(builder, "phase", compare_phase_name((ComparePhase)phase));
    add_pair(builder, "_s", compare->predicted.ranks[row->predicted].phase_s[phase],
             compare->measured.ranks[row->measured].phase_s[phase], "error");
    json_builder_end_object(builder);
  }
}

static void add_rank(JsonBuilder *builder, const Compare *compare, const CompareRow *row) {
  double predicted_s = compare->predicted.ranks[row->predicted].busy_s;
  double measured_s = compare->measured.ranks[row->measured].busy_s;
  json_builder_begin_object(builder);
  json_add_count(builder, "rank", row->rank);
  json_add_count(builder, "pipeline_rank", row->pipeline_rank);
  add_pair(builder, "_busy_s", predicted_s, measured_s, "busy_error");
  add_pair(builder, "_idle_s", compare->predicted.mean_step_s - predicted_s, compare->measured.mean_step_s - measured_s,
           "idle_error");
  json_builder_end_object(builder);
}

char *json_report_compare(const Compare *compare, int row) {
  int first = MAX(row, 0), end = row >= 0 ? row + 1 : compare->n_rows;
  g_autofree char *steps = compare_steps_text(compare);
  JsonBuilder *builder = begin();
  json_begin_object(builder, "step_time_s");
  add_pair(builder, "", compare->predicted.step_s, compare->measured.step_s, "error");
  json_add_text(builder, "of", steps);
  json_builder_end_object(builder);
  json_begin_list(builder, "kinds");
  for (guint i = 0; i < compare->kinds->len; i++)
    add_kind(builder, compare, &g_array_index(compare->kinds, CompareKind, i));
  json_builder_end_array(builder);
  json_begin_list(builder, "phases");
  for (int i = first; i < end; i++)
    add_phases(builder, compare, &compare->rows[i]);
  json_builder_end_array(builder);
  json_begin_list(builder, "ranks");
  for (int i = first; i < end; i++)
    add_rank(builder, compare, &compare->rows[i]);
  json_builder_end_array(builder);
  json_begin_object(builder, "order");
  json_add_count(builder, "inversions", compare->n_inversions);
  json_add_texts(builder, "first", compare->inversions);
  json_add_count(builder, "violations", compare->n_violations);
  json_add_texts(builder, "first_violations", compare->violations);
  json_builder_end_object(builder);
  return finish(builder);
}
