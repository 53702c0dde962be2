/* stepsim plot: a figure, written to a file, to the terminal, or as numbers. One function per figure, and their table
 * behind them. A title says what is drawn, the model, the cluster, and every typed plan option that is the same
 * throughout the picture. */
#include <stdio.h>
#include <string.h>

#include "collective_request.h"
#include "command.h"
#include "compare_plot.h"
#include "curves.h"
#include "error.h"
#include "memory_timeline.h"
#include "order_run.h"
#include "output.h"
#include "picture.h"
#include "plot_options.h"
#include "rank_grid.h"
#include "run_pictures.h"
#include "stack.h"
#include "step_of_prediction.h"
#include "table_pictures.h"
#include "timeline.h"
#include "warnings.h"

static const char examples[] =
    "Examples:\n"
    "  stepsim plot bubble --schedules gpipe,1f1b,interleaved --pp 8 --chunks 2 --terminal\n"
    "  stepsim plot mfu --model llama-3.1-405b --cluster llama3-h100 --tp 8 --pp 16 --zero 1 --global-batch 2048 \\\n"
    "      --sequence-parallel on --seq-len 8192 --gpu-list 1024..16384*2 --output mfu.svg\n"
    "  stepsim plot breakdown --model llama-3-70b --cluster dgx-h100 --gpus 64 --tp 8 --zero 1 \\\n"
    "      --sequence-parallel on --vary pp=1,2,4,8 --output b.png\n"
    "  stepsim plot breakdown --plan ours.yaml --plan megatron.sh --model llama-3-70b --cluster dgx-h100 --gpus 64 \\\n"
    "      --output plans.svg\n"
    "  stepsim plot memory --model llama-3-70b --cluster dgx-h100 --tp 8 --dp 8 --output memory.svg\n"
    "  stepsim plot memory --params 7e9 --gpu-list 1..64*2 --capacity 80GB --output zero.svg\n"
    "  stepsim plot heat --model llama-3-8b --cluster dgx-h100 --gpus 64 --global-batch 256 --value tokens_per_s \\\n"
    "      --output heat.pdf\n\n"
    "Figures in letters are as wide as the terminal ($COLUMNS). The scripts that draw are in plots/, each with a head "
    "that\n"
    "says how to call it on numbers written with --data.\n\n"
    "Exit status: 0 done, 1 nothing that was asked for is possible, 2 bad usage or input.";

typedef struct {
  const char *name;
  const char *summary; /* for --help */
  guint heeds;         /* set of Heed */
  int most_files;      /* arguments after the figure's name */
  /* `files` ends with NULL. Owned by the caller; NULL with INPUT or IMPOSSIBLE. */
  Picture *(*make)(PlotOptions *o, char **files, GError **error);
} Figure;

enum { MOST_GPUS = 1 << 24 };

static const char not_heeded[] = "that picture does not depend on it";

/* "<what>: llama-3-8b on dgx-h100; tp 8, zero 1", or --title. NULL parts are left out. Owned by the caller. */
static char *title_of(const PlotOptions *o, const char *what, const Model *model, const Cluster *cluster) {
  if (o->title != NULL)
    return g_strdup(o->title);
  g_autofree char *fixed = plot_options_fixed(o);
  GString *title = g_string_new(what);
  if (model != NULL)
    g_string_append_printf(title, ": %s", model->name);
  if (cluster != NULL)
    g_string_append_printf(title, " on %s", cluster->name);
  if (*fixed != '\0')
    g_string_append_printf(title, "; %s", fixed);
  return g_string_free(title, FALSE);
}

/* For all combinations; a model or a cluster that is not the same of all is left out. */
static char *title_of_variants(const PlotOptions *o, const char *what, const Variants *variants) {
  const Model *model = variants_get(variants->runs, 0)->model;
  const Cluster *cluster = variants_get(variants->runs, 0)->cluster;
  for (guint i = 1; i < variants->runs->len; i++) {
    const Variant *run = variants_get(variants->runs, i);
    model = model != NULL && strcmp(run->model->name, model->name) == 0 ? model : NULL;
    cluster = cluster != NULL && strcmp(run->cluster->name, cluster->name) == 0 ? cluster : NULL;
  }
  return title_of(o, what, model, cluster);
}

static int n_threads(const PlotOptions *o) {
  return o->jobs == OPTION_NOT_GIVEN ? 0 : o->jobs;
}

static void print_left_out(const LeftOut *left_out) {
  for (guint i = 0; i < left_out->len; i++)
    fprintf(stderr, "stepsim plot: left out %s\n", (char *)g_ptr_array_index(left_out, i));
}

/* Without its digits: alike of plans that differ in numbers. Owned by the caller. */
static char *without_digits(const char *text) {
  GString *rest = g_string_new(NULL);
  for (; *text != '\0'; text++)
    if (!g_ascii_isdigit(*text))
      g_string_append_c(rest, *text);
  return g_string_free(rest, FALSE);
}

/* The first of those that differ in numbers alone, and how many there are besides. */
static void print_warnings(const GPtrArray *warnings) {
  g_autoptr(GPtrArray) alike = g_ptr_array_new_with_free_func(g_free);
  for (guint i = 0; i < warnings->len; i++)
    g_ptr_array_add(alike, without_digits(warnings->pdata[i]));
  for (guint i = 0; i < warnings->len; i++) {
    guint first, n = 0;
    g_ptr_array_find_with_equal_func(alike, alike->pdata[i], g_str_equal, &first);
    for (guint k = i + 1; first == i && k < warnings->len; k++)
      n += strcmp(alike->pdata[k], alike->pdata[i]) == 0;
    g_autofree char *more = n > 0 ? g_strdup_printf(" (and so of %u more)", n) : g_strdup("");
    if (first == i)
      fprintf(stderr, "stepsim plot: warning: %s%s\n", (char *)warnings->pdata[i], more);
  }
}

static void print_warnings_of_runs(const GArray *runs) {
  g_autoptr(GPtrArray) warnings = g_ptr_array_new_with_free_func(g_free);
  for (guint i = 0; i < runs->len; i++) {
    const Variant *run = variants_get(runs, i);
    for (guint k = 0; run->warnings != NULL && k < run->warnings->len; k++)
      g_ptr_array_add(warnings, g_strdup_printf("%s: %s", run->label, (char *)run->warnings->pdata[k]));
  }
  print_warnings(warnings);
}

/* If there are no points, explain by the first that was left out. */
static gboolean check_points(const GArray *points, const LeftOut *left_out, GError **error) {
  return points->len > 0 || left_out->len == 0 ||
         fail_impossible(error, "nothing to draw, no point can be: %s", (char *)g_ptr_array_index(left_out, 0));
}

/* Every schedule and count to draw, into `axes`, which owns `counts` and `schedules`. */
static gboolean bubble_axes(PlotOptions *o, BubbleAxes *axes, GError **error) {
  plan_options_drop_taken(&o->plan, "schedule");
  plan_options_drop_taken(&o->plan, "global-batch");
  if (!plan_options_make_plan(&o->plan, error))
    return FALSE;
  const int pp = o->plan.plan->pp, chunks = o->plan.plan->chunks;
  if (plan_options_typed(&o->plan, "schedule") != NULL)
    return fail_input(error, "plot bubble and --schedule clash: --schedules says which there are");
  if (plan_options_typed(&o->plan, "global-batch") != NULL)
    return fail_input(error, "plot bubble and --global-batch clash: --micro-batches says how many there are");
  if (o->schedules != NULL && strstr(o->schedules, "file:") != NULL)
    return fail_input(error,
                      "--schedules %.200s: an order of a file has one number of micro-batches, which is no curve; "
                      "stepsim schedule --from FILE.csv tells its bubble and draws it",
                      o->schedules);
  if (pp < 2 || pp > 1024 || chunks > 64)
    return fail_input(error, "--pp %d, --chunks %d: a bubble needs 2 to 1024 pipeline ranks and 1 to 64 chunks", pp,
                      MAX(chunks, 1));
  g_autofree char *by_default = g_strdup_printf("%d..%d*2", pp, 16 * pp);
  axes->counts = parse_count_list("--micro-batches", o->micro_batches != NULL ? o->micro_batches : by_default, error);
  if (axes->counts == NULL)
    return FALSE;
  const char *names = o->schedules != NULL ? o->schedules : chunks > 1 ? "1f1b,interleaved" : "1f1b";
  axes->schedules = g_strsplit(names, ",", -1);
  axes->pp = pp;
  axes->chunks = chunks;
  if (axes->schedules[0] == NULL)
    return fail_input(error, "--schedules: found nothing, expected names such as gpipe,1f1b");
  return parse_check_once("--schedules", names, axes->schedules, error);
}

static Picture *bubble_picture(PlotOptions *o, const BubbleAxes *axes, GError **error) {
  const gboolean is_predicted = o->plan.model_file != NULL || o->plan.cluster_file != NULL;
  g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
  static const char *const uniform[] = {"pp", "chunks", NULL};
  if (is_predicted
          ? !plan_options_finish(&o->plan, error)
          : !plot_options_check_plan(o, uniform, "plot bubble", "uniform stages need --pp and --chunks alone", error))
    return NULL;
  g_autoptr(GArray) points = is_predicted ? curves_bubble_predicted(axes, o->plan.model, o->plan.cluster, o->plan.plan,
                                                                    n_threads(o), left_out, error)
                                          : curves_bubble(axes, left_out, error);
  if (points == NULL || !check_points(points, left_out, error))
    return NULL;
  print_left_out(left_out);
  g_autofree char *title =
      title_of(o, is_predicted ? "Pipeline bubble" : "Pipeline bubble of uniform stages with free sends", o->plan.model,
               o->plan.cluster);
  return plot_bubble((const BubblePoint *)(void *)points->data, (int)points->len, is_predicted, title, error);
}

static Picture *make_bubble(PlotOptions *o, char **files, GError **error) {
  BubbleAxes axes = {0};
  Picture *picture = bubble_axes(o, &axes, error) ? bubble_picture(o, &axes, error) : NULL;
  g_clear_pointer((GArray **)&axes.counts, g_array_unref);
  g_clear_pointer(&axes.schedules, g_strfreev);
  return picture;
}

static GArray *read_gpu_list(const PlotOptions *o, GError **error) {
  if (o->gpu_list == NULL) {
    fail_input(error, "--gpu-list is missing, e.g. --gpu-list 1024..16384*2");
    return NULL;
  }
  g_autoptr(GArray) gpus = parse_count_list("--gpu-list", o->gpu_list, error);
  for (guint i = 0; gpus != NULL && i < gpus->len; i++)
    if (g_array_index(gpus, gint64, i) > MOST_GPUS) {
      fail_input(error, "--gpu-list: %" G_GINT64_FORMAT " GPUs are more than 2^24", g_array_index(gpus, gint64, i));
      return NULL;
    }
  return g_steal_pointer(&gpus);
}

static gboolean check_sizes(const Plan *plan, GError **error) {
  return (plan->gpus == 0 && plan->dp == 0) ||
         fail_input(error, "--gpu-list and %s clash: every number of GPUs has its own",
                    plan->gpus != 0 ? "--gpus" : "--dp");
}

static gboolean check_scales(const Plan *plan, GError **error) {
  if (!check_sizes(plan, error))
    return FALSE;
  return plan->global_batch != 0 || fail_input(error, "--global-batch is missing: strong scaling keeps it fixed");
}

static Picture *mfu_picture(const GArray *points, const LeftOut *left_out, const PointWarnings *warnings,
                            const char *title, GError **error) {
  if (points == NULL || !check_points(points, left_out, error))
    return NULL;
  print_left_out(left_out);
  print_warnings(warnings);
  return plot_mfu((const GpusPoint *)(const void *)points->data, (int)points->len, title, error);
}

/* One line per combination of --vary, for strong scaling only. */
static Picture *make_mfu_lines(PlotOptions *o, const GArray *gpus, GError **error) {
  g_auto(Variants) variants = {0};
  if (!variants_make(&variants, o, o->vary, error))
    return NULL;
  for (guint i = 0; i < variants.runs->len; i++)
    if (!check_scales(variants_get(variants.runs, i)->plan, error))
      return NULL;
  g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free),
                       warnings = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GArray) points = curves_strong_scaling(variants.runs, gpus, n_threads(o), left_out, warnings, error);
  g_autofree char *title = title_of_variants(o, "MFU, strong scaling", &variants);
  return mfu_picture(points, left_out, warnings, title, error);
}

static Picture *make_mfu(PlotOptions *o, char **files, GError **error) {
  g_autoptr(GArray) gpus = read_gpu_list(o, error);
  if (gpus == NULL)
    return NULL;
  if (o->vary != NULL)
    return make_mfu_lines(o, gpus, error);
  if (!plan_options_finish(&o->plan, error) || !check_scales(o->plan.plan, error))
    return NULL;
  g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free),
                       warnings = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GArray) points =
      curves_mfu(o->plan.model, o->plan.cluster, o->plan.plan, gpus, n_threads(o), left_out, warnings, error);
  g_autofree char *title = title_of(o, "MFU", o->plan.model, o->plan.cluster);
  return mfu_picture(points, left_out, warnings, title, error);
}

static Prediction *predict_one(PlotOptions *o, GError **error) {
  if (!plan_options_finish(&o->plan, error))
    return NULL;
  Prediction *prediction = predict(o->plan.model, o->plan.cluster, o->plan.plan, error);
  if (prediction == NULL)
    return NULL;
  const StepReport report = step_of_prediction(prediction, NULL);
  g_autoptr(GPtrArray) warnings = warnings_of_step(&report);
  print_warnings(warnings);
  return prediction;
}

static gboolean predict_runs(GArray *runs, const PlotOptions *o, GError **error) {
  if (!variants_predict(runs, &(VaryHow){.n_threads = n_threads(o)}, error))
    return FALSE;
  print_warnings_of_runs(runs);
  return TRUE;
}

static gboolean predict_variants(Variants *variants, const PlotOptions *o, char **vary, GError **error) {
  return variants_make(variants, o, vary, error) && predict_runs(variants->runs, o, error);
}

static Picture *make_breakdown(PlotOptions *o, char **files, GError **error) {
  const char *what = "Where the time of a step goes";
  if (o->vary == NULL) {
    g_autoptr(Prediction) prediction = predict_one(o, error);
    if (prediction == NULL)
      return NULL;
    g_autofree char *title = title_of(o, what, o->plan.model, o->plan.cluster);
    g_autoptr(Stack) stack = stack_of_ranks(prediction->trace, prediction->metrics, title);
    return stack_picture(stack, output_columns(), error);
  }
  g_auto(Variants) variants = {0};
  if (!predict_variants(&variants, o, o->vary, error))
    return NULL;
  g_autofree char *title = title_of_variants(o, what, &variants);
  return runs_breakdown_picture(variants.runs, title, output_columns(), error);
}

/* What a picture varies without --vary; its title leaves that out, too. */
static void vary_by_default(PlotOptions *o, const char *const *axes) {
  if (o->vary == NULL)
    o->vary = g_strdupv((char **)axes);
}

static gboolean read_state_look(const PlotOptions *o, StateLook *look, GError **error) {
  if (o->plan.model_file != NULL || o->plan.cluster_file != NULL)
    return fail_input(error, "--params and --%s clash: it is the state of a model known by its parameters alone",
                      o->plan.model_file != NULL ? "model" : "cluster");
  if (!units_parse_count(o->params, &look->parameters, error)) {
    g_prefix_error(error, "--params: ");
    return FALSE;
  }
  if (o->capacity != NULL && !units_parse(o->capacity, UNIT_BYTES, &look->capacity_bytes, error)) {
    g_prefix_error(error, "--capacity: ");
    return FALSE;
  }
  return TRUE;
}

static Picture *state_picture(PlotOptions *o, const Variants *variants, GError **error) {
  StateLook look = {.columns = output_columns()};
  g_autoptr(GArray) gpus = o->gpu_list != NULL ? read_gpu_list(o, error) : NULL;
  if ((o->gpu_list != NULL && gpus == NULL) || !read_state_look(o, &look, error))
    return NULL;
  for (guint i = 0; gpus != NULL && i < variants->runs->len; i++)
    if (!check_sizes(variants_get(variants->runs, i)->plan, error))
      return NULL;
  g_autofree char *count = units_format_count(look.parameters);
  g_autofree char *what = g_strdup_printf("Model state of a GPU, %s parameters", count);
  g_autofree char *title = title_of(o, what, NULL, NULL);
  look.title = title;
  if (gpus == NULL)
    return runs_state_picture(variants->runs, &look, error);
  g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
  Picture *picture = runs_state_curves(variants->runs, gpus, &look, left_out, error);
  if (picture != NULL)
    print_left_out(left_out);
  return picture;
}

/* ZeRO-0 shards nothing, so --zero-ranks applies only to the other stages. */
static Picture *make_memory(PlotOptions *o, char **files, GError **error) {
  static const char *const stages[] = {"zero=0..3", NULL};
  g_auto(Variants) variants = {0};
  if (o->params == NULL && (o->capacity != NULL || o->gpu_list != NULL)) {
    fail_input(error, "plot memory: --%s needs --params: %s", o->capacity != NULL ? "capacity" : "gpu-list",
               o->capacity != NULL ? "a cluster says what its GPUs have" : "--vary gpus=… varies a predicted plan");
    return NULL;
  }
  vary_by_default(o, stages);
  if (!variants_make(&variants, o, o->vary, error))
    return NULL;
  for (guint i = 0; i < variants.runs->len; i++) {
    Plan *plan = variants_get(variants.runs, i)->plan;
    if (!zero_shards_optimizer(plan->zero))
      plan->zero_ranks = 0;
  }
  if (o->params != NULL)
    return state_picture(o, &variants, error);
  if (!predict_runs(variants.runs, o, error))
    return NULL;
  g_autofree char *title = title_of_variants(o, "Memory of the fullest GPU", &variants);
  return runs_memory_picture(variants.runs, title, output_columns(), error);
}

static Picture *make_memory_time(PlotOptions *o, char **files, GError **error) {
  g_autoptr(Prediction) prediction = predict_one(o, error);
  if (prediction == NULL)
    return NULL;
  const int n_steps = prediction->program->n_steps;
  g_autofree char *what = n_steps > 1 ? g_strdup_printf("Memory per GPU over %d steps", n_steps) : NULL;
  g_autofree char *title =
      title_of(o, what != NULL ? what : "Memory per GPU over a step", o->plan.model, o->plan.cluster);
  const Gpu *gpu = &o->plan.cluster->gpu;
  const MemoryTimelineLook look = {title, "GB = 1e9 bytes", 1e-9, gpu->hbm_bytes, gpu->reserved_bytes};
  return memory_timeline_picture(prediction->trace, time_unit_for(trace_end(prediction->trace)), &look, error);
}

static Picture *make_ranks(PlotOptions *o, char **files, GError **error) {
  if (o->plan.cluster_file == NULL) {
    fail_input(error, "--cluster is missing: a cluster YAML, or a name in topologies/ such as dgx-h100");
    return NULL;
  }
  if (!plan_options_read(&o->plan, error))
    return NULL;
  g_autoptr(RankGrid) grid = rank_grid_new(o->plan.model, o->plan.cluster, o->plan.plan, 0, error);
  return grid != NULL ? rank_grid_picture(grid, o->title, error) : NULL;
}

static gboolean refuse_plan(const PlotOptions *o, const char *file, GError **error) {
  static const char *const none[] = {NULL};
  return plot_options_check_plan(o, none, file, "the file says all that is drawn", error);
}

static Picture *make_timeline(PlotOptions *o, char **files, GError **error) {
  if (files[0] != NULL) {
    g_autoptr(ChromeTrace) trace = refuse_plan(o, files[0], error) ? chrome_read(files[0], error) : NULL;
    return trace != NULL ? compare_trace_picture(trace, o->title, error) : NULL;
  }
  g_autoptr(Prediction) prediction = predict_one(o, error);
  if (prediction == NULL)
    return NULL;
  int n_steps = prediction->program->n_steps;
  g_autofree char *what = n_steps > 1 ? g_strdup_printf("%d steps", n_steps) : g_strdup("One step");
  g_autofree char *title = title_of(o, what, o->plan.model, o->plan.cluster);
  return timeline_picture(prediction->trace, time_unit_for(trace_end(prediction->trace)), title, output_columns(),
                          error);
}

static Picture *make_heat(PlotOptions *o, char **files, GError **error) {
  static const char *const by_default[] = {"tp=1..8*2", "pp=1..16*2", NULL};
  int value = o->value != NULL ? parse_choice("--value", o->value, run_value_names(), error) : RUN_MFU;
  if (value < 0)
    return NULL;
  vary_by_default(o, by_default);
  if (g_strv_length(o->vary) != 2) {
    fail_input(error, "plot heat: found %u --vary, expected two: across and upward", g_strv_length(o->vary));
    return NULL;
  }
  char *upward_first[] = {o->vary[1], o->vary[0], NULL};
  g_auto(Variants) variants = {0};
  if (!predict_variants(&variants, o, upward_first, error))
    return NULL;
  const VaryAxis *rows = &g_array_index(variants.axes, VaryAxis, 0), *columns = rows + 1;
  g_autofree char *title = title_of_variants(o, run_value_label(value), &variants);
  const Grid look = {.title = title,
                     .xlabel = columns->name,
                     .ylabel = rows->name,
                     .columns = (const char *const *)columns->values,
                     .rows = (const char *const *)rows->values,
                     .n_columns = (int)g_strv_length(columns->values),
                     .n_rows = (int)g_strv_length(rows->values)};
  return runs_grid_picture(variants.runs, value, &look, error);
}

static Picture *make_pareto(PlotOptions *o, char **files, GError **error) {
  if (files[0] != NULL) {
    if (o->vary != NULL) {
      fail_input(error, "%s and --vary clash: the file says all that is drawn", files[0]);
      return NULL;
    }
    const ParetoColumns columns = {o->x, o->y, o->title};
    return refuse_plan(o, files[0], error) ? table_pareto_picture(files[0], &columns, error) : NULL;
  }
  if (o->vary == NULL || o->x != NULL || o->y != NULL) {
    fail_input(error, "plot pareto: %s",
               o->vary == NULL ? "a table (of sweep: --csv or the database) or --vary is missing"
                               : "--x and --y name columns of a table, and none was given");
    return NULL;
  }
  g_auto(Variants) variants = {0};
  if (!predict_variants(&variants, o, o->vary, error))
    return NULL;
  g_autofree char *title = title_of_variants(o, "Throughput against memory", &variants);
  return runs_pareto_picture(variants.runs, title, error);
}

static Picture *make_busbw(PlotOptions *o, char **files, GError **error) {
  static const char *const heeded[] = {"cluster", "gpus", NULL};
  if (!plot_options_check_plan(o, heeded, "plot busbw", not_heeded, error) || !plan_options_make_plan(&o->plan, error))
    return NULL;
  const CollectiveOptions options = {.cluster = o->plan.cluster_file,
                                     .op = o->op,
                                     .ranks = o->ranks,
                                     .bytes = o->bytes,
                                     .algorithm = o->algorithm,
                                     .gpus = o->plan.plan->gpus > 0 ? o->plan.plan->gpus : NOT_GIVEN,
                                     .root = NOT_GIVEN};
  Request request = {0};
  Picture *picture =
      collective_request_read(&options, &request, error) ? collective_picture(&request, o->title, error) : NULL;
  collective_request_clear(&request);
  return picture;
}

static Picture *make_validation(PlotOptions *o, char **files, GError **error) {
  if (files[0] == NULL) {
    fail_input(error, "plot validation: no table was given, expected what validate --rows FILE.csv wrote");
    return NULL;
  }
  return refuse_plan(o, files[0], error) ? table_validation_picture(files[0], o->by, o->title, error) : NULL;
}

static const Figure *figures(void) {
  static const Figure all[] = {
      {"bubble",
       "bubble against micro-batches per schedule, closed forms dashed; with --model and --cluster, of a model",
       HEED_SCHEDULES, 0, make_bubble},
      {"mfu",
       "MFU against GPUs: strong scaling (--global-batch fixed) and weak (batch grows with the GPUs); strong alone, a "
       "line per configuration of --vary",
       HEED_GPU_LIST | HEED_VARY, 0, make_mfu},
      {"breakdown", "where the time of a step goes: one bar per pipeline rank, or per configuration of --vary",
       HEED_VARY, 0, make_breakdown},
      {"memory",
       "memory of the fullest GPU: one bar per ZeRO stage, or per configuration of --vary; with --params the state "
       "alone, against GPUs with --gpu-list",
       HEED_VARY | HEED_PARAMS | HEED_GPU_LIST, 0, make_memory},
      {"memory-time", "memory of every pipeline rank over a step", 0, 0, make_memory_time},
      {"heat", "MFU, tokens per second or step time over two options: tp and pp, or those of two --vary",
       HEED_VARY | HEED_VALUE, 0, make_heat},
      {"pareto", "throughput against memory, from a table of sweep or for all combinations of --vary",
       HEED_VARY | HEED_AXES, 1, make_pareto},
      {"busbw", "bus bandwidth of a collective against size, per algorithm", HEED_COLLECTIVE, 0, make_busbw},
      {"validation", "predicted against measured step times, from a table (validate --rows)", HEED_BY, 1,
       make_validation},
      {"ranks", "which rank of a plan is which GPU, and the links of its groups; without --model too", 0, 0,
       make_ranks},
      {"timeline", "what every pipeline rank does over a step, predicted or from a trace (simulate --trace)", 0, 1,
       make_timeline},
      {NULL}};
  return all;
}

/* --- the verb --- */

/* A single text that lives as long as the program. */
static const char *summary_of_figures(void) {
  g_autoptr(GString) text = g_string_new("Draws curves, bars and maps over many simulated configurations.\n\nFigures:");
  for (const Figure *figure = figures(); figure->name != NULL; figure++)
    g_string_append_printf(text, "\n  %-12s %s", figure->name, figure->summary);
  return g_intern_string(text->str);
}

static const Figure *find_figure(const char *name, GError **error) {
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  for (const Figure *figure = figures(); figure->name != NULL; figure++)
    g_ptr_array_add(names, (gpointer)figure->name);
  g_ptr_array_add(names, NULL);
  int i = parse_choice("plot", name, (const char *const *)names->pdata, error);
  return i >= 0 ? figures() + i : NULL;
}

static gboolean check_outputs(const PlotOptions *o, GError **error) {
  if (o->output == NULL && o->data == NULL && !o->terminal)
    return fail_input(error, "--output is missing: a file that ends in .svg, .png or .pdf (or --terminal, or --data)");
  const Printed printed[] = {{"--terminal", .given = o->terminal}, {"--data", .file = o->data}, {NULL}};
  gboolean replaced;
  return output_check_printed(printed, &replaced, error) && (o->output == NULL || picture_check_file(o->output, error));
}

static gboolean put_out(const PlotOptions *o, const Picture *picture, GError **error) {
  if (o->output != NULL && !picture_write(picture, o->output, error))
    return FALSE;
  g_autofree char *data = o->data != NULL ? picture_data(picture) : NULL;
  if (data != NULL && !output_text(o->data, data, error))
    return FALSE;
  g_autofree char *text = o->terminal ? picture_text(picture, output_columns(), error) : NULL;
  if (text != NULL)
    fputs(text, stdout);
  return text != NULL || !o->terminal;
}

static gboolean run(PlotOptions *o, int argc, char **argv, GError **error) {
  if (argc < 2)
    return fail_input(error, "expected a word, what to draw (--help explains them): bubble, mfu, breakdown, memory …");
  const Figure *figure = find_figure(argv[1], error);
  if (figure == NULL)
    return FALSE;
  if (argc - 2 > figure->most_files)
    return fail_input(error, "plot %s: found \"%.80s\", expected %s; --output says what to write", figure->name,
                      argv[2 + figure->most_files],
                      figure->most_files > 0 ? "one file to read" : "no file: it draws what its options predict");
  if (!check_outputs(o, error) || !plot_options_check(o, figure->name, figure->heeds, error))
    return FALSE;
  char *files[] = {argc > 2 ? argv[2] : NULL, NULL};
  g_autoptr(Picture) picture = figure->make(o, files, error);
  return picture != NULL && put_out(o, picture, error);
}

int command_plot(int argc, char **argv, GError **error) {
  PlotOptions options;
  gboolean ok = plot_options_parse(&options, summary_of_figures(), examples, &argc, &argv, error) &&
                run(&options, argc, argv, error);
  plot_options_clear(&options);
  return ok ? 0 : 2;
}
