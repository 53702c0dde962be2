/* Sections top down: what was run, how fast, where the time went, communication, memory, what to do about it. Tables
 * are plain printf columns of ASCII; bars are Unicode blocks in eighths of a column. */
#include "text_report.h"

#include <math.h>
#include <unistd.h>

#include "advice.h"
#include "units.h"
#include "warnings.h"
#include "wiring.h"

enum { BAR_COLUMNS = 24 };

/* ANSI colour of each part's bar: green works, yellow communicates, red idles. */
static const char *const bar_colours[N_BREAKDOWN] = {
    [BREAKDOWN_COMPUTE] = "32",   [BREAKDOWN_RECOMPUTE] = "36", [BREAKDOWN_TP] = "33",      [BREAKDOWN_PP] = "33",
    [BREAKDOWN_CP] = "33",        [BREAKDOWN_EP] = "33",        [BREAKDOWN_DP] = "33",      [BREAKDOWN_BUBBLE] = "31",
    [BREAKDOWN_OPTIMIZER] = "34", [BREAKDOWN_HOST] = "35",      [BREAKDOWN_OFFLOAD] = "35", [BREAKDOWN_OTHER] = "37",
};

static double percent(double share) {
  return 100 * share;
}

static double share_of(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

static void append_quantity(GString *out, double value, UnitKind unit) {
  g_autofree char *text = units_format(value, unit);
  g_string_append(out, text);
}

/* "  ███▌": `share` of the bar's columns, to an eighth; nothing when that is none. */
static void append_bar(GString *out, double share, const char *colour) {
  static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  int n = (int)lround(CLAMP(share, 0, 1) * BAR_COLUMNS * 8);
  if (n == 0)
    return;
  g_string_append(out, "  ");
  if (colour)
    g_string_append_printf(out, "\033[%sm", colour);
  for (int i = 0; i < n / 8; i++)
    g_string_append(out, "█");
  g_string_append(out, eighths[n % 8]);
  if (colour)
    g_string_append(out, "\033[0m");
}

void text_report_heading(GString *out, const char *text, gboolean colour) {
  g_string_append_printf(out, colour ? "\n\033[1m%s\033[0m\n" : "\n%s\n", text);
}

static void append_label(GString *out, const char *label) {
  g_string_append_printf(out, "  %-14s", label);
}

static void append_batch(GString *out, const Plan *plan) {
  const gboolean has_rows = plan->batching == BATCHING_PACKED || plan->batching == BATCHING_CONCATENATED;
  append_label(out, "batch");
  units_append_count(out, plan->global_batch, has_rows ? "row" : "sequence", has_rows ? "rows" : "sequences");
  g_string_append_printf(out, " of %s%" G_GINT64_FORMAT " tokens: ",
                         plan->seq_lengths != NULL && !has_rows ? "at most " : "", plan->seq_len);
  units_append_count(out, plan->n_micro_batches, "micro-batch", "micro-batches");
  g_string_append_printf(out, " of %" G_GINT64_FORMAT " on %s", plan->micro_batch, plan->dp > 1 ? "each of " : "");
  units_append_count(out, plan->dp, "pipeline\n", "pipelines\n");
}

static void append_lengths(GString *out, const StepReport *report) {
  const LengthsReport *lengths = &report->lengths;
  const Plan *plan = report->plan;
  if (lengths->n_sequences == 0)
    return;
  append_label(out, "lengths");
  g_string_append_printf(out, "%s, %s: ", seq_lengths_text(plan->seq_lengths), batching_names()[plan->batching]);
  units_append_count(out, lengths->n_sequences, "sequence", "sequences");
  g_string_append_printf(out, " of %.0f tokens in the mean, %.1f %% padding",
                         (double)lengths->tokens / (double)lengths->n_sequences, percent(lengths->padding_share));
  if (lengths->n_cut > 0)
    g_string_append_printf(out, "; %" G_GINT64_FORMAT " cut%s", lengths->n_cut,
                           plan->batching != BATCHING_CONCATENATED ? " at --seq-len" : " where rows end");
  g_string_append_printf(out, "\n  %-14smicro-batch %.2f ×, rank of dp %.2f × the mean's kernels\n", "slowest",
                         lengths->slowest_micro_batch, lengths->slowest_dp_rank);
}

static void append_data(GString *out, const StepReport *report) {
  const DataStream *data = &report->plan->data;
  if (report->data_s == 0)
    return;
  g_autofree char *sample = units_format(data->sample_bytes, UNIT_BYTES),
                  *needed = units_format(report->data_s, UNIT_SECONDS);
  append_label(out, "data");
  g_string_append_printf(out, "%s a sequence, ", sample);
  units_append_count(out, data->readers, "reader", "readers");
  g_string_append_printf(out, " of each rank that needs it: %s of reading for a step\n", needed);
}

static void append_compression(GString *out, const StepReport *report) {
  const CompressionUse *use = &report->compression;
  if (use->kernels_s == 0)
    return;
  g_autofree char *kernels = units_format(use->kernels_s, UNIT_SECONDS),
                  *sent = units_format(use->sent_bytes, UNIT_BYTES),
                  *plain = units_format(use->plain_bytes, UNIT_BYTES);
  append_label(out, "gradients");
  g_string_append_printf(out, "%s: a GPU sends %s in a step instead of %s, %s of kernels\n",
                         grad_compression_text(&report->plan->compression), sent, plain, kernels);
}

static void append_islands(GString *out, const StepReport *report) {
  const IslandReport *islands = &report->islands;
  if (islands->period == 0)
    return;
  const double period = islands->period;
  g_autofree char *sent = units_format(islands->sent_bytes, UNIT_BYTES),
                  *each = units_format(islands->sent_bytes / period, UNIT_BYTES);
  append_label(out, "outer steps");
  g_string_append_printf(out, "%s, one in ", outer_step_text(&report->plan->outer));
  units_append_count(out, islands->period, "step", "steps");
  if (!isnan(islands->outer_s)) {
    g_autofree char *plain = units_format(islands->plain_step_s, UNIT_SECONDS),
                    *outer = units_format(islands->outer_s, UNIT_SECONDS);
    g_string_append_printf(out, ", to which it adds %s: without it they take %s each", outer, plain);
  }
  g_string_append_printf(out, "; an island sends %s, %s a step\n", sent, each);
}

static void append_servers(GString *out, const StepReport *report) {
  const ServerReport *servers = &report->servers;
  if (servers->n == 0)
    return;
  g_autofree char *bytes = units_format(servers->bytes, UNIT_BYTES);
  append_label(out, "servers");
  g_string_append_printf(out, "%d, %s: ", servers->n,
                         !report->plan->servers.is_async ? "which update once a step" : "which update at every push");
  g_string_append_printf(out, "each holds %s%s, network busy %.4g %% of the step, memory %.4g %%\n", bytes,
                         servers->fits ? "" : " and does not have that", percent(servers->network),
                         percent(servers->memory));
}

/* Ranks that were made to differ; nothing when there are none. */
static void append_disturbances(GString *out, const Plan *plan) {
  enum { MOST_SHOWN = 4 };
  guint n_slow = plan->slow_ranks != NULL ? plan->slow_ranks->len : 0;
  if (plan->jitter == 0 && n_slow == 0)
    return;
  append_label(out, "disturbed by");
  if (plan->jitter > 0)
    g_string_append_printf(out, "jitter of %.4g %% (seed %" G_GUINT64_FORMAT ")%s", percent(plan->jitter), plan->seed,
                           n_slow > 0 ? "; " : "");
  for (guint i = 0; i < MIN(n_slow, MOST_SHOWN); i++) {
    const SlowRank *slow = &g_array_index(plan->slow_ranks, SlowRank, i);
    g_string_append_printf(out, "%srank %d computing %.4g × as long", i > 0 ? ", " : "", slow->rank, slow->factor);
  }
  if (n_slow > MOST_SHOWN)
    g_string_append_printf(out, " and %u more", n_slow - MOST_SHOWN);
  g_string_append_c(out, '\n');
}

/* What was asked for of exchanges that the plan does not have; what the framework does anyhow was not. */
static void append_no_effect(GString *out, const Plan *plan) {
  if (plan->compression.kind != COMPRESS_NONE && plan_data_ranks(plan) == 1) {
    append_label(out, "no effect");
    g_string_append_printf(out, "--compress-grad %s: with dp × cp 1 no gradients are summed\n",
                           grad_compression_text(&plan->compression));
  }
  const gboolean dispatches = plan->expert_dispatch > DISPATCH_ALL_TO_ALL && !plan_gathers_tokens(plan) &&
                              plan->time.expert_dispatch != plan->expert_dispatch;
  const gboolean overlaps = plan->overlap_experts > 0 && plan->time.expert_overlap != EXPERT_OVERLAP_ROUNDS;
  if (plan->ep > 1 || !(dispatches || overlaps))
    return;
  append_label(out, "no effect");
  if (dispatches)
    g_string_append_printf(out, "--expert-dispatch %s", expert_dispatch_names()[plan->expert_dispatch]);
  g_string_append_printf(out, "%s%s: with ep 1 no token leaves its rank for an expert\n",
                         dispatches && overlaps ? ", " : "", overlaps ? "--overlap-experts on" : "");
}

static void append_title(GString *out, const StepReport *report, gboolean colour) {
  const Plan *plan = report->plan;
  g_autofree char *plan_line = step_report_plan_line(plan);
  g_autofree char *title =
      g_strdup_printf("%s on %d × %s (%s)", report->model_name, plan->gpus, report->gpu_name, report->cluster_name);
  g_string_append_printf(out, colour ? "\033[1m%s\033[0m\n" : "%s\n", title);
  append_label(out, "plan");
  g_string_append_printf(out, "%s\n", plan_line);
  append_batch(out, plan);
  append_islands(out, report);
  append_servers(out, report);
  append_lengths(out, report);
  append_data(out, report);
  append_compression(out, report);
  append_disturbances(out, plan);
  append_no_effect(out, plan);
  if (report->n_next_layers == 0)
    return;
  append_label(out, "left out");
  units_append_count(out, report->n_next_layers, "multi-token prediction layer", "multi-token prediction layers");
  g_string_append_printf(out, ", not counted in time or memory%s\n",
                         report->trains_next_layers ? " (--mtp-layers)" : "");
}

static void append_speed(GString *out, const StepReport *report) {
  append_label(out, "step time");
  append_quantity(out, report->step_time_s, UNIT_SECONDS);
  interval_append(out, &report->interval);
  append_label(g_string_append_c(out, '\n'), "throughput");
  g_string_append_printf(out, "%.0f tokens/s, %.1f tokens/s per GPU, %.1f TFLOP/s per GPU\n", report->tokens_per_s,
                         report->tokens_per_s_per_gpu, report->tflops_per_gpu);
  append_label(out, "MFU");
  g_string_append_printf(out, "%.2f %% of ", percent(report->mfu));
  append_quantity(out, report->peak_flops, UNIT_FLOPS_PER_SECOND);
  g_string_append_printf(out, " (%s peak; model FLOPs by convention \"%s\", no recompute%s)\n", report->peak_number,
                         flops_convention_names()[report->plan->flops],
                         report->trained_parameters > 0 ? ", no gradients of frozen weights" : "");
  append_label(out, "HFU");
  g_string_append_printf(out, "%.2f %% (recomputed work counted)\n", percent(report->hfu));
}

static void append_breakdown(GString *out, const StepReport *report, gboolean colour) {
  text_report_heading(out, "Where the time goes (mean over ranks)", colour);
  for (int kind = 0; kind < N_BREAKDOWN; kind++) {
    double share = share_of(report->breakdown_s[kind], report->step_time_s);
    if (report->breakdown_s[kind] <= 0)
      continue;
    g_autofree char *time = units_format(report->breakdown_s[kind], UNIT_SECONDS);
    append_label(out, breakdown_name((BreakdownKind)kind));
    g_string_append_printf(out, "%10s %6.2f %%", time, percent(share));
    append_bar(out, share, colour ? bar_colours[kind] : NULL);
    g_string_append_c(out, '\n');
  }
  g_string_append_printf(out, "  bubble_fraction %.2f %% (idle / step), bubble_overhead %.2f %% (idle / ideal)\n",
                         percent(report->bubble_fraction), percent(report->bubble_overhead));
}

void text_report_health(GString *out, const Cluster *cluster) {
  const LinkHealth *health = cluster->health;
  const double domain_left = health->domain[(cluster->domain_gpus - 1) * cluster->domain_gpus];
  g_string_append_printf(out,
                         "faults leave %.3g %% of scale-up links, %.3g %% of a GPU's NIC, %.3g %% of a domain's NICs",
                         percent(health->scale_up), percent(health->domain[0]), percent(domain_left));
  for (int level = 1; level < cluster_n_levels(cluster); level++)
    g_string_append_printf(out, ", %.3g %% of uplinks of %" G_GINT64_FORMAT " GPUs", percent(health->levels[level]),
                           cluster_level(cluster, level - 1).span_gpus);
  g_string_append(out, " where they are worst\n");
}

void text_report_wiring(GString *out, const Cluster *cluster) {
  g_string_append_printf(out, "node wiring: %s\n", cluster->wiring->text);
}

/* The link that the rank waits for, of the rank that waits longest. */
static void append_bounding_link(GString *out, const StepReport *report) {
  const BoundingLink *bounding = &report->bounding;
  if (report->islands.period > 0)
    return;
  if (bounding->way < 0) {
    g_string_append(out, "  bounding link: none, no rank waits while bytes move\n");
    return;
  }
  g_autofree char *name = link_use_name(report->cluster, bounding->way);
  g_autofree char *busy = units_format(bounding->busy_s, UNIT_SECONDS);
  g_autofree char *idle = units_format(bounding->idle_s, UNIT_SECONDS);
  g_autofree char *wait = units_format(bounding->wait_s, UNIT_SECONDS);
  g_string_append_printf(out, "  bounding link: %s, %s of full use in %s without a kernel on rank %d (%s exposed)\n",
                         name, busy, idle, bounding->first_rank, wait);
}

static void append_links(GString *out, const StepReport *report) {
  gboolean is_first = TRUE;
  for (int way = 0; way < TIMING_MAX_WAYS && report->cluster != NULL; way++) {
    const LinkUse *use = &report->link_use[way];
    if (use->busiest < 0)
      continue;
    if (is_first)
      g_string_append_printf(out, "  %-24s %8s   %s\n", "links, a GPU's part", "in use", "most on a rank");
    is_first = FALSE;
    g_autofree char *name = link_use_name(report->cluster, way);
    g_string_append_printf(out, "  %-24s %6.2f %%   %6.2f %% on rank %d\n", name, percent(use->mean),
                           percent(use->most), use->busiest);
  }
  if (!is_first)
    append_bounding_link(out, report);
  if (report->cluster != NULL && report->cluster->wiring != NULL) {
    g_string_append(out, "  ");
    text_report_wiring(out, report->cluster);
  }
  if (report->cluster != NULL && report->cluster->health != NULL) {
    g_string_append(out, "  ");
    text_report_health(out, report->cluster);
  }
}

static void append_moved(GString *out, const char *name, const StepReport *report, int mover) {
  g_autofree char *exposed = units_format(report->exposed_s[mover], UNIT_SECONDS);
  g_autofree char *hidden = units_format(report->hidden_s[mover], UNIT_SECONDS);
  g_autofree char *sent = units_format(report->traffic_bytes[mover], UNIT_BYTES);
  append_label(out, name);
  g_string_append_printf(out, "%10s %10s %10s\n", exposed, hidden, sent);
}

static void append_communication(GString *out, const StepReport *report, gboolean colour) {
  text_report_heading(out, "Communication per GPU and step (exposed: no kernel runs meanwhile; hidden: behind kernels)",
                      colour);
  append_label(out, "axis");
  g_string_append_printf(out, "%10s %10s %10s\n", "exposed", "hidden", "sent");
  int n_lines = 0;
  for (int axis = 0; axis < N_AXES; axis++) {
    if (report->exposed_s[axis] <= 0 && report->hidden_s[axis] <= 0 && report->traffic_bytes[axis] <= 0)
      continue;
    append_moved(out, axis_name((Axis)axis), report, axis);
    n_lines++;
  }
  if (report->tiers[TIER_HOST].is_used) {
    append_moved(out, "offload", report, MOVER_OFFLOAD);
    n_lines++;
  }
  if (n_lines == 0)
    g_string_append(out, "  none\n");
  append_links(out, report);
}

static void append_bytes_line(GString *out, const char *label, double bytes, double capacity, const char *colour) {
  append_label(out, label);
  g_string_append_printf(out, "%8.2f GB", bytes / 1e9);
  if (capacity > 0) {
    g_string_append_printf(out, " %6.2f %%", percent(bytes / capacity));
    append_bar(out, bytes / capacity, colour);
  }
  g_string_append_c(out, '\n');
}

static void append_in_flight(GString *out, const StepReport *report) {
  if (!report->in_flight)
    return;
  append_label(out, "in flight");
  g_string_append_printf(out, "micro-batches%s held, by pipeline rank:", report->plan->chunks > 1 ? " × chunks" : "");
  for (int pp = 0; pp < report->plan->pp; pp++) {
    if (pp == 16) {
      g_string_append_printf(out, " … %d", report->in_flight[report->plan->pp - 1]);
      break;
    }
    g_string_append_printf(out, " %d", report->in_flight[pp]);
  }
  g_string_append_c(out, '\n');
}

static void append_capacity(GString *out, double bytes, double capacity_bytes, gboolean fits) {
  append_label(out, "capacity");
  g_string_append_printf(out, "%8.2f GB: %s, %.2f GB %s\n", capacity_bytes / 1e9, fits ? "fits" : "does not fit",
                         fabs(capacity_bytes - bytes) / 1e9, fits ? "left" : "too much");
}

/* The fullest node's. */
static void append_tier(GString *out, const StepReport *report, MemoryTier tier, gboolean colour) {
  static const char *const what[N_TIERS] = {[TIER_HOST] = "Host memory", [TIER_NVME] = "NVMe drives"};
  const TierUse *use = &report->tiers[tier];
  if (!use->is_used)
    return;
  g_autofree char *heading = g_strdup_printf("%s of the fullest node, %d (GB = 1e9 bytes)", what[tier], use->node);
  text_report_heading(out, heading, colour);
  for (int category = 0; category < N_MEMORY; category++)
    if (use->held[category] > 0)
      append_bytes_line(out, memory_category_name((MemoryCategory)category), use->held[category], use->capacity_bytes,
                        colour ? "32" : NULL);
  append_bytes_line(out, "total", use->bytes, use->capacity_bytes, colour ? (use->fits ? "32" : "31") : NULL);
  append_capacity(out, use->bytes, use->capacity_bytes, use->fits);
}

static void append_memory(GString *out, const StepReport *report, gboolean colour) {
  const gboolean fits = step_report_fits_gpu(report);
  const double total = report->peak_bytes + report->reserved_bytes;
  g_autofree char *heading =
      g_strdup_printf("Memory at the peak of the fullest rank, %d (GB = 1e9 bytes)", report->worst_rank);
  text_report_heading(out, heading, colour);
  for (int category = 0; category < N_MEMORY; category++)
    append_bytes_line(out, memory_category_name((MemoryCategory)category), report->memory_bytes[category],
                      report->capacity_bytes, colour ? "32" : NULL);
  append_bytes_line(out, "reserved", report->reserved_bytes, report->capacity_bytes, colour ? "34" : NULL);
  append_bytes_line(out, "total", total, report->capacity_bytes, colour ? (fits ? "32" : "31") : NULL);
  if (report->capacity_bytes > 0)
    append_capacity(out, total, report->capacity_bytes, fits);
  if (report->device_bytes > 0) {
    append_label(out, "shown as");
    g_string_append_printf(out, "%8.2f GB allocated, up to %.2f GB reserved (PyTorch), %.2f GB used (nvidia-smi)\n",
                           report->peak_bytes / 1e9, report->allocator_bytes / 1e9, report->device_bytes / 1e9);
  }
  append_in_flight(out, report);
}

static void append_advice(GString *out, const StepReport *report, gboolean colour) {
  g_autoptr(GPtrArray) advice = advice_new(report);
  text_report_heading(out, "What bounds the step", colour);
  for (guint i = 0; i < advice->len; i++)
    g_string_append_printf(out, "  %u. %s\n", i + 1, (const char *)advice->pdata[i]);
  g_autoptr(GPtrArray) warnings = warnings_of_step(report);
  for (guint i = 0; i < warnings->len; i++)
    g_string_append_printf(out, "  warning: %s\n", (const char *)warnings->pdata[i]);
}

static void append_method(GString *out, const StepReport *report) {
  units_append_count(g_string_append_c(out, '\n'), report->n_ranks_simulated, "rank", "ranks");
  units_append_count(g_string_append(out, ", "), (gint64)report->n_events, "event", "events");
  if (report->wall_s > 0) {
    g_string_append(out, " in ");
    append_quantity(out, report->wall_s, UNIT_SECONDS);
  }
  g_string_append_printf(out, "; matrix products: %d measured, %d interpolated, %d modelled\n", report->n_measured,
                         report->n_interpolated, report->n_modelled);
}

void text_report_step(GString *out, const StepReport *report, gboolean colour) {
  append_title(out, report, colour);
  append_speed(out, report);
  append_breakdown(out, report, colour);
  append_communication(out, report, colour);
  append_memory(out, report, colour);
  append_tier(out, report, TIER_HOST, colour);
  append_tier(out, report, TIER_NVME, colour);
  append_advice(out, report, colour);
  append_method(out, report);
}

gboolean text_report_wants_colour(int fd) {
  const char *no_colour = g_getenv("NO_COLOR"), *term = g_getenv("TERM");
  if ((no_colour && *no_colour) || g_strcmp0(term, "dumb") == 0)
    return FALSE;
  return isatty(fd);
}

/* --- kernels ----------------------------------------------------------------------------------------------------- */

static const char *const piece_names[] = {"embedding",
                                          "frozen dense layer",
                                          "frozen dense layer apart",
                                          "dense layer",
                                          "dense layer apart",
                                          "frozen layer",
                                          "frozen layer apart",
                                          "layer",
                                          "layer apart",
                                          "head"};
static const char *const phase_names[] = {"F", "I", "W", "B"};
static const char *const layout_names[] = {"TN", "NN", "NT"};

static char *shape_text(const WorkItem *item) {
  if (item->kind == ITEM_COLLECTIVE || item->kind == ITEM_MEMORY)
    return g_strdup("");
  g_autofree char *batch = item->batch > 1 ? g_strdup_printf("%" G_GINT64_FORMAT " × ", item->batch) : g_strdup("");
  return g_strdup_printf("%s%" G_GINT64_FORMAT "×%" G_GINT64_FORMAT "×%" G_GINT64_FORMAT " %s", batch, item->m, item->n,
                         item->k, item->kind == ITEM_MATMUL ? layout_names[item->layout] : "");
}

static void print_item(const WorkItem *item, gint64 duration_ns, const double *peak_flops, GString *out) {
  g_autofree char *shape = shape_text(item);
  g_autofree char *name = g_strdup_printf("%s%s", item->name, item->recompute ? " (again)" : "");
  g_string_append_printf(out, "    %-26s", name);
  /* pad by characters, not bytes: × is two bytes long */
  g_string_append_printf(out, "%s%*s", shape, (int)MAX(0, 30 - g_utf8_strlen(shape, -1)), "");
  g_string_append_printf(out, "%10.3f %10.3f %11.3f", item->flops * 1e-9, (item->bytes + item->behind_bytes) * 1e-6,
                         duration_ns * 1e-3);
  double peak = item->flops > 0 ? peak_flops[item->number] : 0;
  if (peak > 0)
    g_string_append_printf(out, " %11.3f %6.1f %%", item->flops / peak * 1e6,
                           100 * item->flops / peak / (duration_ns * 1e-9));
  g_string_append_c(out, '\n');
}

static void print_list(const Workload *workload, const Timing *timing, Piece piece, Phase phase,
                       const double *peak_flops, GString *out) {
  const WorkList *list = &workload->work[piece][phase];
  if (list->n_items == 0)
    return;
  g_string_append_printf(out, "  %s %s: %.3f ms, %.3f TFLOP, %d kernel%s\n", piece_names[piece], phase_names[phase],
                         timing->lists[piece][phase].time.run_ns * 1e-6, list->flops * 1e-12, list->n_items,
                         list->n_items == 1 ? "" : "s");
  for (int i = 0; i < list->n_items; i++)
    print_item(&list->items[i], timing->lists[piece][phase].items[i].duration_ns, peak_flops, out);
}

void kernel_table_print(const Workload *workload, const Timing *timing, const double *peak_flops, GString *out) {
  g_string_append_printf(out,
                         "\nKernels of one GPU and one micro-batch%s (matrix products m×n×k, C is m×n; collectives: "
                         "MB is the full buffer)\n",
                         workload->micro_batches != NULL ? " of sequences as long as --seq-len" : "");
  g_string_append_printf(out, "    %-26s%-30s%10s %10s %11s %11s %8s\n", "kernel", "shape", "GFLOP", "MB", "time us",
                         "at peak us", "of peak");
  for (int piece = 0; piece < N_PIECES; piece++) {
    print_list(workload, timing, piece, PHASE_F, peak_flops, out);
    print_list(workload, timing, piece, PHASE_B, peak_flops, out);
  }
  for (int piece = 0; piece < N_PIECES; piece++)
    if (!piece_is_layer((Piece)piece) || workload->memory[piece].transient_bytes > 0)
      g_string_append_printf(out, "  %s parameters on one GPU: %" G_GINT64_FORMAT "\n", piece_names[piece],
                             workload->piece_parameters[piece]);
}
