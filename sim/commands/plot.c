#include <stdio.h>

#include "command.h"
#include "error.h"
#include "gnuplot.h"
#include "options.h"
#include "order_run.h"
#include "plots.h"
#include "predict.h"
#include "suggest.h"
#include "units.h"

typedef struct {
  PlanOptions plan;
  char *schedules, *micro_batches, *gpu_list, *output;
} PlotOptions;

typedef struct {
  const char *name;
  gboolean (*draw)(PlotOptions *options, GError **error);
} PlotKind;

/* An option that a kind of plot would not heed. */
typedef struct {
  const char *option;
  gboolean given;
} Unheeded;

static void clear_options(PlotOptions *o) {
  char **strings[] = {&o->schedules, &o->micro_batches, &o->gpu_list, &o->output};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
  plan_options_clear(&o->plan);
}

static gboolean parse_options(PlotOptions *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser = parser_new(
      "bubble|mfu|memory", "Draws curves over many simulated configurations.",
      "bubble  bubble fraction against micro-batches per schedule, simulated points on closed-form lines\n"
      "mfu     MFU against GPUs: strong scaling (--global-batch fixed) and weak (batch grows with the GPUs)\n"
      "memory  memory of the fullest rank by ZeRO stage, all four of them\n\n"
      "Examples:\n"
      "  stepsim plot bubble --schedules gpipe,1f1b,interleaved --pp 8 --chunks 2 --micro-batches 8..128*2 --output "
      "bubble.svg\n"
      "  stepsim plot mfu --model llama-3.1-405b --cluster llama3-h100 --tp 8 --pp 16 --global-batch 2048 \\\n"
      "      --seq-len 8192 --gpu-list 1024..16384*2 --output mfu.svg\n"
      "  stepsim plot memory --model llama-3-70b --cluster dgx-h100 --tp 8 --dp 8 --output memory.svg");
  const GOptionEntry entries[] = {
      {"output", 0, 0, G_OPTION_ARG_FILENAME, &o->output, "the picture", "FILE.svg|png|pdf"},
      {"schedules", 0, 0, G_OPTION_ARG_STRING, &o->schedules,
       "bubble: names (default 1f1b, interleaved with chunks > 1)", "NAME,…"},
      {"micro-batches", 0, 0, G_OPTION_ARG_STRING, &o->micro_batches, "bubble: counts (default pp..16·pp*2)", "LIST"},
      {"gpu-list", 0, 0, G_OPTION_ARG_STRING, &o->gpu_list, "mfu: numbers of GPUs, e.g. 1024..16384*2", "LIST"},
      G_OPTION_ENTRY_NULL};
  plan_options_init(&o->plan);
  parser_add(parser, entries);
  plan_options_add(&o->plan, PLAN_OPTIONS_SIMULATED, parser);
  return parser_run(parser, argc, argv, TRUE, error);
}

static gboolean check_unheeded(const char *kind, const Unheeded *options, GError **error) {
  for (; options->option != NULL; options++)
    if (options->given)
      return fail_input(error, "plot %s and %s clash: that picture does not depend on it", kind, options->option);
  return TRUE;
}

/* Uniform stages, the backward twice the forward, as in a transformer without recomputation. */
static gboolean bubble_point(const ScheduleInfo *schedule, int pp, int chunks, int n_micro_batches, BubblePoint *point,
                             GError **error) {
  /* divisible by 1 … 16 chunks */
  const StageTimes times = {720720, 720720, 720720};
  const OrderShape shape = {pp, CLAMP(chunks, schedule->least_chunks, schedule->most_chunks), n_micro_batches, 0};
  g_autoptr(Order) order = order_new(schedule, shape, error);
  if (order == NULL)
    return FALSE;
  g_autoptr(OrderRun) run = order_run_new(order, &times, 1, NULL, NULL, error);
  if (run == NULL)
    return FALSE;
  const double work = times.f_ns + times.i_ns + times.w_ns;
  const PhaseTimes phases = {times.f_ns, times.i_ns, times.w_ns, work};
  double bubble = schedule->bubble(shape, &phases).time;
  point->schedule = schedule->name;
  point->n_micro_batches = n_micro_batches;
  point->simulated = order_run_bubble_fraction(run);
  point->closed_form = bubble / (bubble + n_micro_batches * work);
  return TRUE;
}

static gboolean add_schedule(const char *name, const PlotOptions *o, const GArray *counts, GArray *points,
                             GError **error) {
  const ScheduleInfo *schedule = schedule_find(name, error);
  if (schedule == NULL)
    return FALSE;
  for (guint i = 0; i < counts->len; i++) {
    gint64 n_micro_batches = g_array_index(counts, gint64, i);
    BubblePoint point;
    if (!order_run_check_size(o->plan.pp, o->plan.chunks, n_micro_batches, 1, error) ||
        !bubble_point(schedule, o->plan.pp, o->plan.chunks, (int)n_micro_batches, &point, error))
      return FALSE;
    g_array_append_val(points, point);
  }
  return TRUE;
}

static gboolean draw_bubble(PlotOptions *o, GError **error) {
  if (o->plan.chunks == OPTION_NOT_GIVEN)
    o->plan.chunks = 1;
  int pp = o->plan.pp, chunks = o->plan.chunks;
  const Unheeded unheeded[] = {{"--gpu-list", o->gpu_list != NULL},
                               {"--model", o->plan.model_file != NULL},
                               {"--cluster", o->plan.cluster_file != NULL},
                               {"--schedule (--schedules)", o->plan.schedule != NULL},
                               {NULL}};
  if (!check_unheeded("bubble", unheeded, error))
    return FALSE;
  if (pp < 2 || pp > 1024 || chunks < 1 || chunks > 64)
    return fail_input(error, "--pp %d, --chunks %d: a bubble needs 2 to 1024 pipeline ranks and 1 to 64 chunks", pp,
                      chunks);
  g_autofree char *counts_text =
      o->micro_batches != NULL ? g_strdup(o->micro_batches) : g_strdup_printf("%d..%d*2", pp, 16 * pp);
  g_autoptr(GArray) counts = parse_count_list("--micro-batches", counts_text, error);
  if (counts == NULL)
    return FALSE;
  const char *by_default = chunks > 1 ? "1f1b,interleaved" : "1f1b";
  g_auto(GStrv) names = g_strsplit(o->schedules != NULL ? o->schedules : by_default, ",", -1);
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(BubblePoint));
  for (char **name = names; *name != NULL; name++)
    if (!add_schedule(*name, o, counts, points, error))
      return FALSE;
  if (points->len == 0)
    return fail_input(error, "--schedules: found nothing, expected names such as gpipe,1f1b");
  g_autofree char *interleaved = chunks > 1 ? g_strdup_printf(", %d chunks interleaved", chunks) : g_strdup("");
  g_autofree char *title = g_strdup_printf("Pipeline bubble: pp %d%s; uniform stages, free sends", pp, interleaved);
  return plot_bubble((const BubblePoint *)(void *)points->data, points->len, title, o->output, error);
}

static gboolean add_mfu(const PlotOptions *o, const char *series, int gpus, gint64 global_batch, GArray *points,
                        GError **error) {
  g_autoptr(Plan) plan = plan_copy(o->plan.plan);
  plan->gpus = gpus;
  plan->dp = 0;
  plan->global_batch = global_batch;
  g_autoptr(GError) local = NULL;
  g_autoptr(Prediction) prediction = predict(o->plan.model, o->plan.cluster, plan, &local);
  if (prediction == NULL) {
    if (!g_error_matches(local, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE)) {
      g_propagate_error(error, g_steal_pointer(&local));
      return FALSE;
    }
    fprintf(stderr, "stepsim plot: left out %d GPUs (%s): %s\n", gpus, series, local->message);
    return TRUE;
  }
  MfuPoint point = {series, gpus, prediction->mfu};
  g_array_append_val(points, point);
  return TRUE;
}

/* Both series over all numbers of GPUs; `most` is the largest of those. The points borrow the series' names. */
static gboolean add_scalings(const PlotOptions *o, const char *strong, const char *weak, const GArray *gpus,
                             gint64 most, GArray *points, GError **error) {
  gint64 batch = o->plan.plan->global_batch;
  for (guint i = 0; i < gpus->len; i++)
    if (!add_mfu(o, strong, g_array_index(gpus, gint64, i), batch, points, error))
      return FALSE;
  for (guint i = 0; i < gpus->len; i++) {
    gint64 n = g_array_index(gpus, gint64, i);
    if (!add_mfu(o, weak, n, MAX(1, batch / most * n + batch % most * n / most), points, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean draw_mfu(PlotOptions *o, GError **error) {
  const Unheeded unheeded[] = {
      {"--schedules", o->schedules != NULL}, {"--micro-batches", o->micro_batches != NULL}, {NULL}};
  if (!check_unheeded("mfu", unheeded, error))
    return FALSE;
  if (o->gpu_list == NULL)
    return fail_input(error, "--gpu-list is missing, e.g. --gpu-list 1024..16384*2");
  if (!plan_options_finish(&o->plan, error))
    return FALSE;
  g_autoptr(GArray) gpus = parse_count_list("--gpu-list", o->gpu_list, error);
  if (gpus == NULL)
    return FALSE;
  gint64 most = 0;
  for (guint i = 0; i < gpus->len; i++)
    most = MAX(most, g_array_index(gpus, gint64, i));
  if (most > 1 << 24)
    return fail_input(error, "--gpu-list: %" G_GINT64_FORMAT " GPUs are more than 2^24", most);
  if (o->plan.plan->gpus != 0 || o->plan.plan->dp != 0)
    return fail_input(error, "--gpu-list and %s clash: every number of GPUs has its own",
                      o->plan.plan->gpus != 0 ? "--gpus" : "--dp");
  if (o->plan.plan->global_batch == 0)
    return fail_input(error, "--global-batch is missing: strong scaling keeps it fixed");
  g_autoptr(GArray) points = g_array_new(FALSE, FALSE, sizeof(MfuPoint));
  gint64 batch = o->plan.plan->global_batch;
  g_autofree char *strong = g_strdup_printf("strong scaling: %" G_GINT64_FORMAT " sequences a step", batch);
  g_autofree char *weak = g_strdup_printf("weak scaling: %.4g sequences a step and GPU", (double)batch / most);
  if (!add_scalings(o, strong, weak, gpus, most, points, error))
    return FALSE;
  if (points->len == 0)
    return fail_impossible(error, "no number of GPUs in --gpu-list %s can run this plan", o->gpu_list);
  g_autofree char *chunks = o->plan.chunks > 1 ? g_strdup_printf(" × %d chunks", o->plan.chunks) : g_strdup("");
  g_autofree char *title = g_strdup_printf("MFU of %s on %s: tp %d, pp %d%s, ZeRO-%d", o->plan.model->name,
                                           o->plan.cluster->name, o->plan.tp, o->plan.pp, chunks, o->plan.zero);
  return plot_mfu((const MfuPoint *)(void *)points->data, points->len, title, o->output, error);
}

static gboolean draw_memory(PlotOptions *o, GError **error) {
  const Unheeded unheeded[] = {{"--schedules", o->schedules != NULL},
                               {"--micro-batches", o->micro_batches != NULL},
                               {"--gpu-list", o->gpu_list != NULL},
                               {NULL}};
  if (!check_unheeded("memory", unheeded, error) || !plan_options_finish(&o->plan, error))
    return FALSE;
  static const char *const labels[] = {"ZeRO-0", "ZeRO-1", "ZeRO-2", "ZeRO-3"};
  MemoryBar bars[G_N_ELEMENTS(labels)];
  int gpus = 0;
  for (gsize zero = 0; zero < G_N_ELEMENTS(labels); zero++) {
    g_autoptr(Plan) plan = plan_copy(o->plan.plan);
    plan->zero = zero;
    if (zero == 0)
      plan->zero_ranks = 0; /* shards nothing */
    g_autoptr(Prediction) prediction = predict(o->plan.model, o->plan.cluster, plan, error);
    if (prediction == NULL)
      return FALSE;
    const double *bytes = prediction->memory->at_peak.bytes;
    bars[zero] = (MemoryBar){labels[zero],
                             bytes[MEMORY_WEIGHTS],
                             bytes[MEMORY_GRADIENTS],
                             bytes[MEMORY_OPTIMIZER],
                             bytes[MEMORY_ACTIVATIONS],
                             bytes[MEMORY_BUFFERS],
                             o->plan.cluster->gpu.reserved_bytes};
    gpus = prediction->workload->plan->gpus;
  }
  g_autofree char *title =
      g_strdup_printf("Memory of the fullest GPU: %s on %d × %s, tp %d, pp %d", o->plan.model->name, gpus,
                      o->plan.cluster->gpu.name, o->plan.tp, o->plan.pp);
  return plot_memory(bars, G_N_ELEMENTS(labels), o->plan.cluster->gpu.hbm_bytes, title, o->output, error);
}

static const PlotKind kinds[] = {{"bubble", draw_bubble}, {"mfu", draw_mfu}, {"memory", draw_memory}};

static gboolean run(PlotOptions *o, int argc, char **argv, GError **error) {
  const char *names[G_N_ELEMENTS(kinds) + 1] = {NULL};
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    names[i] = kinds[i].name;
  if (argc != 2)
    return fail_input(error, "expected one word: bubble, mfu or memory (--help explains them)");
  int kind = parse_choice("plot", argv[1], names, error);
  if (kind < 0)
    return FALSE;
  if (o->output == NULL)
    return fail_input(error, "--output is missing: a file that ends in .svg, .png or .pdf");
  return gnuplot_check_file(o->output, error) && kinds[kind].draw(o, error);
}

int command_plot(int argc, char **argv, GError **error) {
  PlotOptions options = {0};
  gboolean ok = parse_options(&options, &argc, &argv, error) && run(&options, argc, argv, error);
  clear_options(&options);
  return ok ? 0 : 2;
}
