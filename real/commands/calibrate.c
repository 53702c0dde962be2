/* Measures the cases (sharded models) one by one, then the grid, the device and the links. The times so far are saved
 * in <output>.progress, so that an interrupted calibration resumes where it stopped. */
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "calibration_progress.h"
#include "cut_cases.h"
#include "data_path.h"
#include "error.h"
#include "machine_file.h"
#include "options.h"
#include "plan.h"
#include "real_command.h"
#include "sort_doubles.h"
#include "units.h"

typedef struct {
  char *device, *comm, *output, *base, *tp, *cp, *cp_comm, *micro_batch, *seq_len, *precision, *attention;
  char **models;
  gint repeats;
  RankTimeouts timeouts;
  gboolean quick, fresh;
} CalibrateOptions;

typedef struct {
  CalibrateOptions options;
  World *world;
  const DeviceType *device;
  const CommType *comm;
  GPtrArray *models; /* of Model */
  GArray *cases;     /* of CutCase */
  Gpu base;
  KernelTimes *times;
  DeviceFacts facts;
  LinkTimes links;
  HostTimes host;
  char *progress_file;
  CalibrationProgress *progress; /* parts: keys of cases and of the grid */
  gboolean is_kept;              /* the file holds some parts */
  GString *skipped;
  gint64 began_us;
  int n_steps_done, n_steps;
} Calibration;

/* Plus 400 warm-up steps, this is the most steps a plan may have. */
enum { NOT_GIVEN = G_MININT, MOST_REPEATS = 600 };

static int default_repeats(const CalibrateOptions *o) {
  return o->quick ? 3 : 5;
}

static const char *const cpu_models[] = {"tinystories-15m", "tinystories-42m", NULL};
static const char *const cuda_models[] = {"llama-3-8b", "llama-2-13b",    "llama-2-70b",
                                          "gpt3-175b",  "llama-3.1-405b", NULL};

static void add_entries(CalibrateOptions *o, Parser *parser) {
  const GOptionEntry entries[] = {
      {"device", 0, 0, G_OPTION_ARG_STRING, &o->device, "cpu or cuda (default cpu)", "NAME"},
      {"comm", 0, 0, G_OPTION_ARG_STRING, &o->comm, "mpi or nccl (default mpi; nccl with cuda where it was built in)",
       "NAME"},
      {"output", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->output,
       "cluster file (default topologies/this-machine.yaml)", "FILE"},
      {"model", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->models,
       "model whose layers to measure, repeatable (default: tinystories-15m and 42m; with cuda Llama and GPT-3 sizes)",
       "FILE"},
      {"tp", 0, 0, G_OPTION_ARG_STRING, &o->tp,
       "tensor-parallel sizes of these layers (default 1,2; with cuda 1,2,4,8)", "LIST"},
      {"cp", 0, 0, G_OPTION_ARG_STRING, &o->cp,
       "context-parallel sizes of these layers, with flash attention (default 1)", "LIST"},
      {"cp-comm", 0, 0, G_OPTION_ARG_STRING, &o->cp_comm,
       "context-parallel attention: ring, all_gather, ulysses (default ring)", "LIST"},
      {"micro-batch", 0, 0, G_OPTION_ARG_STRING, &o->micro_batch, "sequences per micro-batch (default 1)", "LIST"},
      {"seq-len", 0, 0, G_OPTION_ARG_STRING, &o->seq_len,
       "tokens per sequence (default: the model's positions, at most 4096)", "LIST"},
      {"precision", 0, 0, G_OPTION_ARG_STRING, &o->precision, "fp32, bf16, fp16 or fp8 (default fp32; with cuda bf16)",
       "NAME"},
      {"attention", 0, 0, G_OPTION_ARG_STRING, &o->attention, "flash or unfused (default flash)", "KIND"},
      {"repeats", 0, 0, G_OPTION_ARG_INT, &o->repeats,
       "measured repeats per case (default 5; quick 3); transfers in proportion", "N"},
      {"base", 0, 0, G_OPTION_ARG_FILENAME, &o->base,
       "GPU file to keep all of but what is measured, e.g. h200-sxm5-141gb: the base of the one written (default: the\n"
       "best measured rates)",
       "FILE"},
      {"quick", 0, 0, G_OPTION_ARG_NONE, &o->quick, "finish in seconds: only the given models, no grid of other sizes",
       NULL},
      {"fresh", 0, 0, G_OPTION_ARG_NONE, &o->fresh, "start over instead of continuing an interrupted calibration",
       NULL},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  rank_timeouts_add(&o->timeouts, parser);
}

static gboolean parse_options(CalibrateOptions *o, int argc, char **argv, GError **error) {
  rank_timeouts_init(&o->timeouts);
  o->repeats = NOT_GIVEN;
  g_autoptr(Parser) parser = parser_new(
      NULL,
      "Measures this machine: matrix products, memory-bound kernels and attention as layers of real models run them,\n"
      "kernel launches, collectives and sends by size, copies to the host and optimizer updates there. Writes a "
      "cluster\n"
      "file, a GPU file and a library file for stepsim. Start as many ranks as the runs you want to predict will "
      "have.\n"
      "An interrupted calibration continues where it stopped.",
      "Example:\n"
      "  mpirun -n 2 stepreal calibrate --model tinystories-15m --tp 1,2 --quick\n"
      "  stepsim simulate --cluster this-machine --model tinystories-15m --gpus 2 --pp 2 --precision fp32\n\n"
      "Exit status: 0 done, 1 nothing could be measured, 2 bad usage or input.");
  add_entries(o, parser);
  return parser_run(parser, &argc, &argv, FALSE, error) && rank_timeouts_check(&o->timeouts, error);
}

static void clear(Calibration *c) {
  CalibrateOptions *o = &c->options;
  char **strings[] = {&o->device,  &o->comm,        &o->output,  &o->base,      &o->tp,        &o->cp,
                      &o->cp_comm, &o->micro_batch, &o->seq_len, &o->precision, &o->attention, &c->progress_file};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
  g_clear_pointer(&o->models, g_strfreev);
  g_clear_pointer(&c->models, g_ptr_array_unref);
  g_clear_pointer(&c->cases, g_array_unref);
  calibration_progress_free(c->progress);
  kernel_times_free(c->times);
  g_free(c->facts.device_name);
  link_times_clear(&c->links);
  gpu_clear(&c->base);
  if (c->skipped != NULL)
    g_string_free(c->skipped, TRUE);
}

/* --- cases --- */

static gboolean is_cuda(const Calibration *c) {
  return strcmp(c->device->name, "cuda") == 0;
}

static gboolean read_models(Calibration *c, GError **error) {
  const CalibrateOptions *o = &c->options;
  const char *const *names = o->models ? (const char *const *)o->models : is_cuda(c) ? cuda_models : cpu_models;
  c->models = g_ptr_array_new_with_free_func((GDestroyNotify)model_free);
  for (gsize i = 0; names[i] != NULL && (i == 0 || o->models != NULL || !o->quick); i++) {
    Model *model = model_read(names[i], error);
    if (model == NULL)
      return FALSE;
    model->dropout_rate = (DropoutRates){0}; /* dropout kernels are not timed */
    g_ptr_array_add(c->models, model);
  }
  return TRUE;
}

static gboolean make_cases(Calibration *c, GError **error) {
  const CalibrateOptions *o = &c->options;
  const CutRequest request = {.tp = o->tp,
                              .cp = o->cp,
                              .cp_comm = o->cp_comm,
                              .micro_batch = o->micro_batch,
                              .seq_len = o->seq_len,
                              .precision = o->precision,
                              .attention = o->attention,
                              .is_cuda = is_cuda(c)};
  c->cases = cut_cases(&request, c->models, error);
  return c->cases != NULL;
}

static gboolean find_parts(Calibration *c, GError **error) {
  CalibrateOptions *o = &c->options;
  c->device = device_find(o->device ? o->device : "cpu", error);
  if (c->device == NULL)
    return FALSE;
  const gboolean with_nccl = is_cuda(c) && g_strv_contains(comm_names(), "nccl");
  const gboolean with_mpi = g_strv_contains(comm_names(), "mpi");
  c->comm = comm_find(o->comm ? o->comm : with_nccl ? "nccl" : with_mpi ? "mpi" : "null", error);
  if (c->comm == NULL)
    return FALSE;
  if (o->output == NULL)
    o->output = g_strdup("topologies/this-machine.yaml");
  if (o->repeats == NOT_GIVEN)
    o->repeats = default_repeats(o);
  if (o->repeats < 1 || o->repeats > MOST_REPEATS)
    return fail_input(error, "--repeats: found %d, expected 1 to %d", o->repeats, MOST_REPEATS);
  g_autofree char *base = o->base ? data_path_find("topologies/gpus", o->base, ".yaml", error) : NULL;
  return o->base == NULL ||
         (base != NULL && gpu_read(base, &c->base, error) && machine_base_check(o->output, &c->base, error));
}

/* Kernels of ranks that share a GPU take turns on it, and transfers between them wait for these turns. */
static gboolean has_own_processor(const Calibration *c, GError **error) {
  const char *name;
  comm_find_sharers(c->world, c->device);
  const int n = world_most_sharers(c->world, &name);
  return n == 1 || fail_impossible(
                       error, "%d ranks share %s: what they measure would mean nothing; start a rank per GPU", n, name);
}

/* --- progress --- */

/* All ranks use rank 0's header, with its processor's `device_name`. */
static CalibrationProgress *new_progress(const Calibration *c, const char *device_name) {
  char header[512];
  g_snprintf(header, sizeof header,
             "stepreal calibrate 6, device %s, %s, comm %s, %d ranks, %d on a machine, %d repeats", c->device->name,
             device_name, c->comm->name, world_size(c->world), world_n_local(c->world), c->options.repeats);
  world_broadcast(c->world, header, sizeof header, 0);
  return calibration_progress_new(header);
}

/* Tells the user that a progress file is used only in part or not at all, before it is overwritten. */
static void say_problem(const Calibration *c, const char *problem) {
  if (world_rank(c->world) == 0)
    fprintf(stderr, "stepreal: %s: %s; %s measured again\n", c->progress_file, problem,
            c->is_kept ? "what stands before is kept, the rest is" : "nothing of it is kept, all is");
}

/* Restores earlier progress, the same on all ranks. */
static void read_progress(Calibration *c) {
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;
  gsize length = 0;
  if (world_rank(c->world) == 0 && !c->options.fresh)
    text = progress_file_read(c->progress_file, &length, &error);
  if (error != NULL)
    say_problem(c, error->message);
  gint64 size = (gint64)length;
  world_broadcast(c->world, &size, sizeof size, 0);
  if (size == 0)
    return;
  if (text == NULL)
    text = g_malloc0((gsize)size + 1);
  world_broadcast(c->world, text, (gsize)size, 0);
  g_autofree char *problem = calibration_progress_read(c->progress, text, c->times);
  c->is_kept = calibration_progress_n_parts(c->progress) > 0;
  if (problem != NULL)
    say_problem(c, problem);
}

static gboolean write_progress(Calibration *c, const char *done, GError **error) {
  const char *text = calibration_progress_add(c->progress, done, c->times);
  if (world_rank(c->world) == 0 && !progress_file_write(c->progress_file, text, error))
    return FALSE;
  c->is_kept = TRUE;
  return TRUE;
}

/* Kept with what is measured, and known again when the calibration goes on. */
static const char EDGE[] = "edge ", ATTENTION[] = "attention ";

static void note(Calibration *c, const char *prefix, const char *text) {
  g_autofree char *part = g_strconcat(prefix, text, NULL);
  if (!calibration_progress_has(c->progress, part))
    calibration_progress_add(c->progress, part, c->times);
}

static void note_edge(Calibration *c, double edge_s) {
  g_autofree char *text = g_strdup_printf("%.4g", edge_s);
  if (!c->device->is_host_memory)
    note(c, EDGE, text);
}

/* A progress bar on a terminal; nothing elsewhere, since results are printed at the end. */
static void show(const char *what, gpointer data) {
  const Calibration *c = data;
  enum { WIDTH = 24 };
  if (world_rank(c->world) != 0 || !isatty(STDERR_FILENO))
    return;
  const int filled = WIDTH * c->n_steps_done / MAX(c->n_steps, 1);
  fprintf(stderr, "\r\033[K[%.*s%.*s] %3d %%  %.0f s  %s", filled, "########################", WIDTH - filled,
          "........................", 100 * c->n_steps_done / MAX(c->n_steps, 1),
          (g_get_monotonic_time() - c->began_us) * 1e-6, what);
  fflush(stderr);
}

/* --- measuring --- */

/* The part name of a case. Models of the same name (config.json) are told apart by their files' contents. */
static char *key_of_case(const CutCase *cut, const char *text, GError **error) {
  g_autofree char *config = NULL;
  gsize length;
  GError *cause = NULL;
  if (!g_file_get_contents(cut->model->file, &config, &length, &cause)) {
    fail_input(error, "%s", cause->message);
    g_error_free(cause);
    return NULL;
  }
  g_autofree char *sum = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)config, length);
  return g_strdup_printf("%s, config %.16s", text, sum);
}

/* A case that cannot run here is left out on all ranks. It is not recorded as done, so a resumed calibration tries it
 * again and reports the reason too. */
static gboolean measure_case(Calibration *c, const CutCase *cut, GError **error) {
  g_autofree char *text = cut_case_text(cut), *key = key_of_case(cut, text, error);
  g_autoptr(GError) cause = NULL;
  if (key == NULL)
    return FALSE;
  show(text, c);
  c->n_steps_done++;
  if (cut->attention == ATTENTION_FLASH && model_window(cut->model, cut->seq_len) > 0)
    g_string_append_printf(c->skipped, "\n  left out: attention of %s: it has a window, which the table does not",
                           text);
  if (calibration_progress_has(c->progress, key))
    return TRUE;
  world_barrier(c->world);
  g_autofree char *attention = NULL;
  const gboolean ok = kernel_times_measure(c->times, cut, c->world, c->device, c->options.repeats, &attention, &cause);
  if (world_all(c->world, ok)) {
    if (attention != NULL && attention[0] != '\0')
      note(c, ATTENTION, attention);
    return write_progress(c, key, error);
  }
  g_string_append_printf(c->skipped, "\n  left out: %s: %s", text, cause ? cause->message : "another rank could not");
  return TRUE;
}

static const PrecisionInfo *precision_of(const Calibration *c) {
  return precision_info(g_array_index(c->cases, CutCase, 0).precision);
}

/* Number format of the products measured. */
static Number linear_number(const Calibration *c) {
  return precision_of(c)->linear;
}

static gboolean measure_grid(Calibration *c, GError **error) {
  show("products of a grid of sizes", c);
  c->n_steps_done++;
  const gint64 least = is_cuda(c) ? 512 : 128, most = is_cuda(c) ? 8192 : 2048;
  g_autofree char *key = kernel_bench_grid_text(linear_number(c), least, most);
  if (c->options.quick || calibration_progress_has(c->progress, key))
    return TRUE;
  return kernel_bench_grid(c->times, linear_number(c), least, most, c->world, c->device, error) &&
         write_progress(c, key, error);
}

static gboolean measure_links(Calibration *c, GError **error) {
  const CalibrateOptions *o = &c->options;
  /* transfers vary more than kernels, so more of them are timed, in proportion to the requested steps */
  const int n_repeats = MAX((o->quick ? 9 : 21) * o->repeats / default_repeats(o), 1);
  const LinkBench bench = {.world = c->world,
                           .device = c->device,
                           .comm = c->comm,
                           .least_bytes = 1 << 10,
                           .most_bytes = o->quick ? 16 << 20 : 64 << 20,
                           .beside = link_beside_of(c->device),
                           .n_repeats = n_repeats,
                           .progress = show,
                           .progress_data = c};
  show("links", c);
  c->n_steps_done++;
  return link_times_measure(&bench, &c->links, error);
}

static gboolean measure_host(Calibration *c, GError **error) {
  show("the host", c);
  c->n_steps_done++;
  return host_times_measure(c->world, c->device, precision_of(c)->element, &c->host, error);
}

/* The edges of all sessions of this calibration, whose times they were subtracted from. If they differ, nothing is
 * kept. */
static gboolean check_edges(Calibration *c, GError **error) {
  note_edge(c, c->facts.edge_s);
  g_autoptr(GPtrArray) edges = calibration_progress_notes(c->progress, EDGE);
  double least_s = c->facts.edge_s, most_s = c->facts.edge_s;
  for (guint i = 0; i < edges->len; i++) {
    const double edge_s = g_ascii_strtod(g_ptr_array_index(edges, i), NULL);
    least_s = MIN(least_s, edge_s);
    most_s = MAX(most_s, edge_s);
  }
  if (world_all(c->world, kernel_bench_edges_agree(least_s, most_s, error)))
    return TRUE;
  if (world_rank(c->world) == 0)
    g_unlink(c->progress_file);
  c->is_kept = FALSE;
  if (error != NULL && *error == NULL)
    fail_impossible(error, "the events around a kernel added different times on another rank");
  return FALSE;
}

static gboolean measure(Calibration *c, GError **error) {
  c->n_steps = (int)c->cases->len + 4;
  for (guint i = 0; i < c->cases->len; i++)
    if (!measure_case(c, &g_array_index(c->cases, CutCase, i), error))
      return FALSE;
  int n;
  kernel_times_all(c->times, &n);
  if (n == 0)
    return fail_impossible(error, "nothing could be measured:%s",
                           c->skipped->len > 0 ? c->skipped->str : " all kernels are shorter than events can tell");
  show("launches, memory", c);
  c->n_steps_done++;
  return measure_grid(c, error) &&
         kernel_bench_device(c->times, linear_number(c), c->world, c->device, &c->facts, error) &&
         check_edges(c, error) && measure_links(c, error) && measure_host(c, error);
}

/* --- what came of it --- */

/* What ran fused attention in any case; owned by the caller; NULL: nothing to report. */
static char *attention_text(const Calibration *c) {
  g_autoptr(GPtrArray) notes = calibration_progress_notes(c->progress, ATTENTION);
  if (notes->len == 0)
    return NULL;
  g_ptr_array_add(notes, NULL);
  return g_strjoinv("; ", (char **)notes->pdata);
}

static char *source_line(const Calibration *c) {
  g_autoptr(GDateTime) now = g_date_time_new_now_utc();
  g_autofree char *date = g_date_time_format(now, "%Y-%m-%d");
  g_autofree char *attention = attention_text(c);
  return g_strdup_printf("stepreal calibrate, %s, on %s; %d ranks at once, medians of %d steps of model layers after "
                         "%s of warm-up, communication %s%s%s",
                         date, c->facts.device_name, world_size(c->world), c->options.repeats,
                         is_cuda(c) ? "a second" : "one", c->comm->name, attention != NULL ? ", attention by " : "",
                         attention != NULL ? attention : "");
}

static double median_spread(const KernelTime *kernels, int n) {
  g_autofree double *spreads = g_new(double, (gsize)MAX(n, 1));
  int n_counted = 0;
  for (int i = 0; i < n; i++)
    if (kernels[i].n > 1)
      spreads[n_counted++] = kernels[i].spread;
  sort_doubles(spreads, (gsize)n_counted);
  return n_counted > 0 ? spreads[n_counted / 2] : 0;
}

/* How kernels were timed. */
static void print_events(const Calibration *c) {
  g_autofree char *attention = attention_text(c);
  if (attention != NULL)
    printf("  attention by %s\n", attention);
  if (!c->device->is_host_memory)
    printf("  events around a kernel added %.3g us before it all, which was subtracted, and %.3g us after it\n",
           kernel_times_edge_s(c->times) * 1e6, c->facts.edge_s * 1e6);
  const LaunchesInTimes *launches = kernel_times_launches(c->times);
  if (launches->n_late == 0)
    return;
  g_autofree char *late = units_format(launches->late_s, UNIT_SECONDS);
  g_autofree char *launch = units_format(launches->launch_s, UNIT_SECONDS);
  printf("  the host was not ahead at %d of %d timed items: of their %s up to %s are launches\n", launches->n_late,
         launches->n, late, launch);
}

static void print_summary(const Calibration *c, const KernelTime *kernels, int n) {
  int counts[ITEM_COLLECTIVE] = {0};
  double best = 0;
  for (int i = 0; i < n; i++) {
    const WorkItem *item = &kernels[i].item;
    counts[item->kind]++;
    if (item->kind == ITEM_MATMUL)
      best = MAX(best, 2.0 * item->batch * item->m * item->n * item->k / kernels[i].median_s);
  }
  g_autofree char *rate = units_format(best, UNIT_FLOPS_PER_SECOND);
  g_autofree char *gpu_file = machine_gpu_file(c->options.output);
  g_autofree char *library_file = machine_library_file(c->options.output);
  printf("%s\n", c->facts.device_name);
  printf("  %d products (fastest %s), %d memory-bound, %d attention; median spread %.1f %%\n", counts[ITEM_MATMUL],
         rate, counts[ITEM_MEMORY], counts[ITEM_ATTENTION], 100 * median_spread(kernels, n));
  printf("  launch %.3g us, least kernel %.3g us\n", c->facts.launch_s * 1e6, c->facts.kernel_s * 1e6);
  print_events(c);
  printf("  host: a rank's copies %.3g GB/s, of all at once %.3g; memory %.3g GB/s, AdamW %.3g\n",
         c->host.link_Bps * 1e-9, c->host.links_Bps * 1e-9, c->host.memory_Bps * 1e-9, c->host.update_Bps * 1e-9);
  for (guint i = 0; i < c->links.times->len; i++) {
    const LinkTime *time = &g_array_index(c->links.times, LinkTime, i);
    if (time->bytes < 1 << 20 || time->bytes >= 4 << 20)
      continue;
    g_autofree char *bytes = units_format((double)time->bytes, UNIT_BYTES);
    printf("  %s over %d ranks, %s: %.4g us (spread %.1f %%)", collective_name(time->op), time->n_ranks, bytes,
           time->median_s * 1e6, 100 * time->spread);
    if (is_cuda(c))
      printf(" in a row; %.4g us by itself, with its launch", time->once_s * 1e6);
    printf("\n");
  }
  if (c->links.products_beside > 0)
    printf("  products beside an all_reduce: %.2f × as long; it: %.2f ×\n", c->links.products_beside,
           c->links.collective_beside);
  if (c->links.times->len > 0 && c->links.tax <= 0)
    printf("  no transfer_tax was written: products did not take longer beside it (do others use this machine?)\n");
  const int n_short = kernel_times_n_short(c->times);
  if (n_short > 0)
    printf("  left out: %d kernels that took less than the least kernel, which events cannot tell\n", n_short);
  if (c->skipped->len > 0)
    printf("%s\n", c->skipped->str + strlen("\n"));
  printf("  %.0f s; wrote %s, %s, %s\n", (g_get_monotonic_time() - c->began_us) * 1e-6, c->options.output, gpu_file,
         library_file);
}

/* `message`, plus a note if measurements from before the failure are saved. */
static char *with_progress(const Calibration *c, const char *message) {
  if (!c->is_kept)
    return g_strdup(message);
  return g_strdup_printf("%s; what was measured so far is kept in %s: the same command goes on from there, --fresh "
                         "begins anew",
                         message, c->progress_file);
}

static gboolean publish(Calibration *c, GError **error) {
  kernel_times_share(c->times, c->world);
  if (world_rank(c->world) != 0)
    return TRUE;
  if (isatty(STDERR_FILENO))
    fputs("\r\033[K", stderr);
  int n;
  const KernelTime *kernels = kernel_times_all(c->times, &n);
  g_autofree char *source = source_line(c);
  const MachineDescription machine = {.file = c->options.output,
                                      .source = source,
                                      .facts = &c->facts,
                                      .kernels = kernels,
                                      .n_kernels = n,
                                      .links = &c->links,
                                      .host = &c->host,
                                      .base = c->options.base ? &c->base : NULL,
                                      .n_ranks = world_size(c->world),
                                      .n_local = world_n_local(c->world)};
  GError *cause = NULL;
  if (!machine_files_write(&machine, &cause)) {
    g_autofree char *text = with_progress(c, cause->message);
    g_set_error_literal(error, cause->domain, cause->code, text);
    g_error_free(cause);
    return FALSE;
  }
  g_unlink(c->progress_file);
  print_summary(c, kernels, n);
  return TRUE;
}

static void calibrate_or_fail(Calibration *c) {
  g_autoptr(GError) error = NULL;
  c->began_us = g_get_monotonic_time();
  c->progress_file = g_strdup_printf("%s.progress", c->options.output);
  c->times = kernel_times_new();
  c->skipped = g_string_new(NULL);
  g_autofree char *device_name = NULL;
  double edge_s, least_s;
  if (!kernel_bench_edge(c->world, c->device, linear_number(c), &device_name, &edge_s, &least_s, &error))
    world_fail(c->world, error->message);
  kernel_times_set_edge(c->times, edge_s, least_s);
  c->progress = new_progress(c, device_name);
  read_progress(c);
  note_edge(c, edge_s);
  if (!measure(c, &error)) {
    g_autofree char *text = with_progress(c, error->message);
    world_fail(c->world, text);
  }
}

int command_calibrate(int argc, char **argv, GError **error) {
  Calibration c = {0};
  if (!parse_options(&c.options, argc, argv, error)) {
    clear(&c);
    return 2;
  }
  c.world = world_open(&argc, &argv, c.options.timeouts.start_s, error);
  if (c.world == NULL) {
    clear(&c);
    return 1;
  }
  rank_timeouts_apply(&c.options.timeouts, c.world);
  const gboolean ok = find_parts(&c, error) && read_models(&c, error) && make_cases(&c, error);
  if (world_all(c.world, ok) && has_own_processor(&c, error)) {
    calibrate_or_fail(&c);
    publish(&c, error);
  }
  const int status = real_command_close(c.world, 0, error);
  clear(&c);
  return status;
}
