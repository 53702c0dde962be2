#include "warnings.h"

#include "units.h"

char *warning_of_memory(double used_share) {
  if (!(used_share > MEMORY_WARNED_ABOVE && used_share <= 1))
    return NULL;
  return g_strdup_printf(
      "%.1f %% of GPU memory is used, which leaves no room for allocator fragmentation or errors of the "
      "prediction; --memory-margin 5%% of plan and sweep keeps some free",
      100 * used_share);
}

GPtrArray *warnings_new(const Plan *plan, int gpus_per_node, double used_share) {
  GPtrArray *warnings = g_ptr_array_new_with_free_func(g_free);
  char *const all[] = {warning_of_memory(used_share), far_gathers_warning(plan, gpus_per_node),
                       recipe_warning(&plan->recipe)};
  for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
    if (all[i] != NULL)
      g_ptr_array_add(warnings, all[i]);
  return warnings;
}

static void add_overfull_links(const StepReport *report, GPtrArray *warnings) {
  for (int way = 0; way < TIMING_MAX_WAYS && report->cluster != NULL; way++) {
    const LinkUse *use = &report->link_use[way];
    if (use->asked <= 1)
      continue;
    g_autofree char *name = link_use_name(report->cluster, way);
    g_ptr_array_add(warnings, g_strdup_printf("transfers of rank %d ask for %.1f %% of its %s, as none slows another "
                                              "down: the step takes longer than predicted (--contention on)",
                                              use->busiest, 100 * use->asked, name));
  }
}

/* NULL: the plan uses all measured times. */
static char *warning_of_origin(const StepReport *report) {
  const Cluster *cluster = report->cluster;
  const char *framework = report->plan->framework;
  if (cluster == NULL || cluster->gpu.measured == NULL ||
      measured_kernels_are_of(cluster->gpu.measured, framework != NULL))
    return NULL;
  return g_strdup_printf(
      "%s has times of another program's launches and memory-bound kernels (measured.origin), which are not used for "
      "framework %s; without --framework, or with origin: any in a file that has it as its base, they are",
      cluster->gpu.file, framework);
}

/* NULL: what waits for data waits for less than a hundredth of the step. */
static char *warning_of_data(const StepReport *report) {
  const double waits = report->breakdown_s[BREAKDOWN_OTHER] / report->step_time_s;
  if (report->data_s == 0 || waits < 0.01)
    return NULL;
  g_autofree char *needed = units_format(report->data_s, UNIT_SECONDS);
  return g_strdup_printf(
      "readers are late: they need %s for the data of a step, and ranks wait for it (other, %.1f %% of "
      "the step in the mean) or for the ranks that do (bubble); more readers, faster storage or "
      "smaller samples (--data) would end that",
      needed, 100 * waits);
}

/* NULL: little is padding, and ranks of dp compute for about as long. */
static char *warning_of_lengths(const StepReport *report) {
  const double much_padding = 0.1, much_longer = 1.1;
  const LengthsReport *lengths = &report->lengths;
  if (lengths->n_sequences == 0)
    return NULL;
  if (lengths->padding_share > much_padding)
    return g_strdup_printf("%.0f %% of the tokens that are computed are padding: --batching packed or balanced leaves "
                           "hardly any",
                           100 * lengths->padding_share);
  return lengths->slowest_dp_rank <= much_longer
             ? NULL
             : g_strdup_printf("all ranks of dp wait for one whose sequences take %.2f times as long as the mean's: "
                               "--batching balanced deals them by their tokens",
                               lengths->slowest_dp_rank);
}

GPtrArray *warnings_of_step(const StepReport *report) {
  const double used_bytes = report->peak_bytes + report->reserved_bytes;
  GPtrArray *warnings = warnings_new(report->plan, report->cluster != NULL ? report->cluster->gpus_per_node : 0,
                                     report->capacity_bytes > 0 ? used_bytes / report->capacity_bytes : 0);
  add_overfull_links(report, warnings);
  char *of_origin = warning_of_origin(report);
  if (of_origin != NULL)
    g_ptr_array_add(warnings, of_origin);
  char *of_data = warning_of_data(report);
  if (of_data != NULL)
    g_ptr_array_add(warnings, of_data);
  char *of_lengths = warning_of_lengths(report);
  if (of_lengths != NULL)
    g_ptr_array_add(warnings, of_lengths);
  return warnings;
}

/* --- far gathers ------------------------------------------------------------------------------------------------- */

gint64 far_gathers_span(const Plan *plan, gint64 ranks) {
  const gint64 sizes[N_AXES] = {
      [AXIS_TP] = plan->tp, [AXIS_CP] = plan->cp, [AXIS_EP] = 1, [AXIS_DP] = 1, [AXIS_PP] = plan->pp};
  gint64 gpus = ranks / plan->cp;
  for (int i = 0; i < N_AXES && plan->order[i] != AXIS_DP; i++)
    gpus *= sizes[plan->order[i]];
  return gpus;
}

/* The most ranks up to those compared that a set of shards of this plan may span, on whole nodes; 0: none. */
static int fewer_ranks(const Plan *plan, int gpus_per_node) {
  Plan tried = *plan; /* borrows what the plan owns */
  for (tried.zero_ranks = GATHERING_RANKS_COMPARED; tried.zero_ranks > 1; tried.zero_ranks--)
    if (plan_data_ranks(plan) % tried.zero_ranks == 0 && tried.zero_ranks % plan->cp == 0 &&
        far_gathers_span(plan, tried.zero_ranks) % gpus_per_node == 0 && plan_check_experts(&tried, NULL, NULL))
      return tried.zero_ranks;
  return 0;
}

char *far_gathers_warning(const Plan *plan, int gpus_per_node) {
  if (!zero_shards_weights(plan->zero) || plan->zero_ranks <= GATHERING_RANKS_COMPARED)
    return NULL;
  int fewer = fewer_ranks(plan, MAX(gpus_per_node, 1));
  const gboolean is_whole_nodes = fewer > 0 && gpus_per_node > 1;
  fewer = fewer > 0 ? fewer : fewer_ranks(plan, 1);
  g_autofree char *advice =
      fewer > 0 ? g_strdup_printf("; --zero-ranks %d keeps gathers within as many%s, if larger shards fit in memory",
                                  fewer, is_whole_nodes ? ", on whole nodes" : "")
                : g_strdup("");
  return g_strdup_printf(
      "%d ranks gather each layer's weights (ZeRO-3), more than the %d of any published run compared "
      "here: from 128 to 2,048 H100 one lost 37 %% a GPU, most of which is not predicted (arXiv "
      "2411.13055)%s",
      plan->zero_ranks, GATHERING_RANKS_COMPARED, advice);
}
