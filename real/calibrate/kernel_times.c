/* A table from what identifies a kernel (its key) to the times it took:
 *
 *     product    number layout accumulate batch m n k
 *     attention  number direction batch seq_len head_dim
 *     memory     name bytes
 *
 * Warm-up is a whole step: the first one touches memory and settles clocks. */
#include "kernel_times.h"

#include "error.h"
#include "plan_program.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { N_LAYERS = 2, N_GRID_REPEATS = 7, N_WARM = 2 };

typedef struct {
  KernelTime time;
  GArray *samples; /* of double, s; empty for times read back */
} Entry;

struct KernelTimes {
  GHashTable *entries; /* key → Entry */
  GArray *sorted;      /* of KernelTime: what kernel_times_all() has made last */
};

static void entry_free(gpointer data) {
  Entry *entry = data;
  g_array_unref(entry->samples);
  g_free(entry);
}

KernelTimes *kernel_times_new(void) {
  KernelTimes *times = g_new0(KernelTimes, 1);
  times->entries = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, entry_free);
  times->sorted = g_array_new(FALSE, FALSE, sizeof(KernelTime));
  return times;
}

void kernel_times_free(KernelTimes *times) {
  if (times == NULL)
    return;
  g_hash_table_unref(times->entries);
  g_array_unref(times->sorted);
  g_free(times);
}

/* --- keys --- */

static char *item_key(const WorkItem *item) {
  if (item->kind == ITEM_MATMUL)
    return g_strdup_printf(
        "product %s %d %d %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT,
        number_name((Number)item->number), item->layout, item->accumulate, item->batch, item->m, item->n, item->k);
  if (item->kind == ITEM_ATTENTION)
    return g_strdup_printf("attention %s %d %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT,
                           number_name((Number)item->number), item->backward, item->batch, item->m, item->k);
  return g_strdup_printf("memory %s %.0f", item->name, item->bytes);
}

static int number_of(const char *name) {
  for (int number = 0; number < N_NUMBERS; number++)
    if (strcmp(number_name((Number)number), name) == 0)
      return number;
  return -1;
}

static gboolean parse_key(const char *key, WorkItem *item) {
  char name[64];
  int layout = 0, flag = 0;
  *item = (WorkItem){.after = -1};
  if (sscanf(key, "product %63s %d %d %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT,
             name, &layout, &flag, &item->batch, &item->m, &item->n, &item->k) == 7)
    item->kind = ITEM_MATMUL;
  else if (sscanf(key, "attention %63s %d %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, name, &flag,
                  &item->batch, &item->m, &item->k) == 5)
    item->kind = ITEM_ATTENTION;
  else if (sscanf(key, "memory %63s %lf", name, &item->bytes) == 2)
    item->kind = ITEM_MEMORY;
  else
    return FALSE;
  item->layout = (guint8)layout;
  item->accumulate = item->kind == ITEM_MATMUL && flag;
  item->backward = item->kind == ITEM_ATTENTION && flag;
  item->name = g_intern_string(name);
  const int number = item->kind == ITEM_MEMORY ? 0 : number_of(name);
  item->number = (guint8)MAX(number, 0);
  return number >= 0;
}

static Entry *entry_of(KernelTimes *times, const WorkItem *item) {
  g_autofree char *key = item_key(item);
  Entry *entry = g_hash_table_lookup(times->entries, key);
  if (entry == NULL) {
    entry = g_new0(Entry, 1);
    entry->time.item = *item;
    entry->samples = g_array_new(FALSE, FALSE, sizeof(double));
    g_hash_table_insert(times->entries, g_steal_pointer(&key), entry);
  }
  return entry;
}

static void add_sample(KernelTimes *times, const WorkItem *item, double time_s) {
  g_array_append_val(entry_of(times, item)->samples, time_s);
}

/* --- models --- */

char *cut_case_text(const CutCase *cut) {
  return g_strdup_printf("%s %s, tp %d%s, %" G_GINT64_FORMAT " × %" G_GINT64_FORMAT " tokens", cut->model->name,
                         precision_info(cut->precision)->name, cut->tp, cut->sequence_parallel ? " sp" : "",
                         cut->micro_batch, cut->seq_len);
}

/* The model with few layers: all are alike. */
static Workload *short_workload(const CutCase *cut, int n_steps, GError **error) {
  g_autoptr(Model) model = model_copy(cut->model);
  model->n_layers = MIN(model->n_layers, N_LAYERS);
  g_autoptr(Plan) plan = plan_new();
  plan->gpus = plan->tp = cut->tp;
  plan->micro_batch = cut->micro_batch;
  plan->global_batch = 2 * cut->micro_batch;
  plan->seq_len = cut->seq_len;
  plan->sequence_parallel = cut->sequence_parallel;
  plan->precision = cut->precision;
  plan->recipe = cut->recipe;
  plan->attention = cut->attention;
  plan->steps = n_steps;
  plan->fold = FALSE;
  if (!plan_complete(plan, model, NULL, error))
    return NULL;
  g_autoptr(Workload) workload = workload_new(model, plan, NULL);
  return parameters_check(workload, error) ? g_steal_pointer(&workload) : NULL;
}

static void take_item(const WorkItem *item, int step, gint64 time_ns, gpointer data) {
  if (step > 0)
    add_sample(data, item, time_ns * 1e-9);
}

gboolean kernel_times_measure(KernelTimes *times, const CutCase *cut, World *world, const DeviceType *device,
                              int n_steps, GError **error) {
  g_autoptr(Workload) workload = short_workload(cut, n_steps + 1, error);
  g_autoptr(Program) program = workload ? program_of_plan(workload, error) : NULL;
  if (program == NULL)
    return FALSE;
  const Execution execution = {.workload = workload,
                               .program = program,
                               .world = world,
                               .device = device,
                               .comm = &null_comm,
                               .training = training_default(),
                               .visit_item = take_item,
                               .visit_data = times};
  ExecutionResult result;
  const gboolean ok = execute(&execution, &result, error);
  execution_result_clear(&result);
  return ok;
}

/* --- kernels by themselves --- */

/* A device with one stream, and buffers to work on. */
typedef struct {
  const DeviceType *type;
  Device *device;
  DeviceStream *stream;
  DeviceEvent *start, *end;
} Bench;

static gboolean bench_open(Bench *bench, World *world, const DeviceType *type, GError **error) {
  *bench = (Bench){.type = type, .device = type->open(world_local_rank(world), world_n_local(world), 0, error)};
  if (bench->device == NULL || (bench->stream = type->stream_new(bench->device, STREAM_COMPUTE, error)) == NULL ||
      (bench->start = type->event_new(bench->device, error)) == NULL)
    return FALSE;
  bench->end = type->event_new(bench->device, error);
  return bench->end != NULL;
}

static void bench_close(Bench *bench) {
  if (bench->end != NULL)
    bench->type->event_free(bench->end);
  if (bench->start != NULL)
    bench->type->event_free(bench->start);
  if (bench->stream != NULL)
    bench->type->stream_free(bench->stream);
  if (bench->device != NULL)
    bench->type->close(bench->device);
}

/* Device time of one launch, s; < 0 when the device failed. */
static double bench_time(Bench *bench, const Kernel *kernel, GError **error) {
  bench->type->record(bench->stream, bench->start);
  bench->type->launch(bench->stream, kernel);
  bench->type->record(bench->stream, bench->end);
  while (!bench->type->sleep_until(bench->end, G_GINT64_CONSTANT(100000000)))
    if (!bench->type->check(bench->device, error))
      return -1;
  if (!bench->type->check(bench->device, error))
    return -1;
  return (bench->type->event_ns(bench->end) - bench->type->event_ns(bench->start)) * 1e-9;
}

static gboolean sample_kernel(KernelTimes *times, Bench *bench, const Kernel *kernel, const WorkItem *item,
                              GError **error) {
  for (int i = 0; i < N_WARM + N_GRID_REPEATS; i++) {
    const double time_s = bench_time(bench, kernel, error);
    if (time_s < 0)
      return FALSE;
    if (i >= N_WARM)
      add_sample(times, item, time_s);
  }
  return TRUE;
}

static gboolean sample_product(KernelTimes *times, Bench *bench, const WorkItem *item, char *const buffers[3],
                               GError **error) {
  const gboolean a_is_stored = item->layout == LAYOUT_NT, b_is_stored = item->layout == LAYOUT_TN;
  const Kernel kernel = {.kind = KERNEL_MATMUL,
                         .matmul = {.layout = item->layout,
                                    .number = item->number,
                                    .result = item->accumulate ? NUMBER_FP32 : item->number,
                                    .accumulate = item->accumulate,
                                    .batch = 1,
                                    .m = item->m,
                                    .n = item->n,
                                    .k = item->k,
                                    .lda = a_is_stored ? item->m : item->k,
                                    .ldb = b_is_stored ? item->k : item->n,
                                    .ldc = item->n,
                                    .a = buffers[0],
                                    .b = buffers[1],
                                    .c = buffers[2],
                                    .alpha = 1}};
  return sample_kernel(times, bench, &kernel, item, error);
}

static gboolean sample_grid(KernelTimes *times, Bench *bench, Number number, gint64 least, gint64 most,
                            GError **error) {
  char *buffers[3];
  gboolean ok = TRUE;
  for (int i = 0; i < 3; i++) {
    buffers[i] = ok ? bench->type->allocate(bench->device, 4 * most * most, error) : NULL;
    ok = ok && buffers[i] != NULL;
  }
  for (gint64 m = least; ok && m <= most; m *= 4)
    for (gint64 n = least; ok && n <= most; n *= 4)
      for (gint64 k = least; ok && k <= most; k *= 4)
        for (int layout = 0; ok && layout < 3; layout++) {
          const WorkItem item = {.kind = ITEM_MATMUL,
                                 .number = (guint8)number,
                                 .layout = (guint8)layout,
                                 .accumulate = layout == LAYOUT_NT,
                                 .batch = 1,
                                 .m = m,
                                 .n = n,
                                 .k = k};
          ok = sample_product(times, bench, &item, buffers, error);
        }
  for (int i = 0; i < 3; i++)
    bench->type->release(bench->device, buffers[i]);
  return ok;
}

gboolean kernel_times_measure_grid(KernelTimes *times, Number number, gint64 least, gint64 most, World *world,
                                   const DeviceType *device, GError **error) {
  Bench bench;
  const gboolean ok =
      bench_open(&bench, world, device, error) && sample_grid(times, &bench, number, least, most, error);
  bench_close(&bench);
  return ok;
}

/* --- the device --- */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static int compare_doubles(gconstpointer a, gconstpointer b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quantile(const GArray *sorted, double q) {
  return g_array_index(sorted, double, (guint)(q * (sorted->len - 1) + 0.5));
}

static double median_of(GArray *values) {
  g_array_sort(values, compare_doubles);
  return quantile(values, 0.5);
}

/* What issuing costs the host, and the least a kernel takes: many launches of one that does nothing to speak of. */
static gboolean measure_launches(Bench *bench, DeviceFacts *facts, GError **error) {
  enum { N_LAUNCHES = 1000 };
  char *buffer = bench->type->allocate(bench->device, 256, error);
  if (buffer == NULL)
    return FALSE;
  const Kernel nothing = {.kind = KERNEL_FILL, .fill = {.bytes = 256, .to = buffer}};
  g_autoptr(GArray) kernels = g_array_new(FALSE, FALSE, sizeof(double));
  for (int i = 0; i < 50; i++) {
    const double time_s = bench_time(bench, &nothing, error);
    if (time_s < 0)
      return FALSE;
    g_array_append_val(kernels, time_s);
  }
  const double before_s = now_s();
  for (int i = 0; i < N_LAUNCHES; i++)
    bench->type->launch(bench->stream, &nothing);
  facts->launch_s = (now_s() - before_s) / N_LAUNCHES;
  facts->kernel_s = median_of(kernels);
  const gboolean ok = bench_time(bench, &nothing, error) >= 0;
  bench->type->release(bench->device, buffer);
  return ok;
}

static gboolean measure_memory(KernelTimes *times, Bench *bench, GError **error) {
  const gint64 most = MIN(G_GINT64_CONSTANT(256) << 20, bench->type->memory_bytes(bench->device) / 8);
  char *from = bench->type->allocate(bench->device, most, error);
  char *to = from ? bench->type->allocate(bench->device, most, error) : NULL;
  gboolean ok = to != NULL;
  for (gint64 bytes = 64 << 10; ok && bytes <= most; bytes *= 4) {
    const Kernel kernel = {
        .kind = KERNEL_CONVERT,
        .convert = {.from_number = NUMBER_FP32, .to_number = NUMBER_FP32, .n = bytes / 4, .from = from, .to = to}};
    const WorkItem item = {.kind = ITEM_MEMORY, .name = "memory", .bytes = 2.0 * bytes};
    ok = sample_kernel(times, bench, &kernel, &item, error);
  }
  bench->type->release(bench->device, from);
  bench->type->release(bench->device, to);
  return ok;
}

/* Rate of one copy of 64 MiB in either direction. */
static double copy_Bps(Bench *bench, void *to, const void *from, gint64 bytes) {
  double best_s = G_MAXDOUBLE;
  for (int i = 0; i < 5; i++) {
    bench->type->record(bench->stream, bench->start);
    bench->type->copy(bench->stream, to, from, bytes);
    bench->type->record(bench->stream, bench->end);
    while (!bench->type->sleep_until(bench->end, G_GINT64_CONSTANT(100000000)) &&
           bench->type->check(bench->device, NULL))
      ;
    best_s = MIN(best_s, (bench->type->event_ns(bench->end) - bench->type->event_ns(bench->start)) * 1e-9);
  }
  return bytes / MAX(best_s, 1e-9);
}

static gboolean measure_copies(Bench *bench, DeviceFacts *facts, GError **error) {
  const gint64 bytes = 64 << 20;
  if (bench->type->is_host_memory)
    return TRUE;
  void *host = bench->type->allocate_host(bench->device, bytes, error);
  void *device = host ? bench->type->allocate(bench->device, bytes, error) : NULL;
  if (device != NULL) {
    facts->upload_Bps = copy_Bps(bench, device, host, bytes);
    facts->download_Bps = copy_Bps(bench, host, device, bytes);
    bench->type->release(bench->device, device);
  }
  if (host != NULL)
    bench->type->release_host(bench->device, host);
  return device != NULL;
}

gboolean kernel_times_measure_device(KernelTimes *times, World *world, const DeviceType *device, DeviceFacts *facts,
                                     GError **error) {
  Bench bench;
  memset(facts, 0, sizeof *facts);
  gboolean ok = bench_open(&bench, world, device, error);
  if (ok) {
    facts->device_name = device->describe(bench.device);
    facts->clock_Hz = device->clock_Hz(bench.device);
    facts->memory_bytes = (double)device->memory_bytes(bench.device);
    ok = measure_launches(&bench, facts, error) && measure_memory(times, &bench, error) &&
         measure_copies(&bench, facts, error);
  }
  bench_close(&bench);
  return ok;
}

/* --- the table --- */

static void sum_up(Entry *entry) {
  if (entry->samples->len == 0)
    return; /* read back */
  g_array_sort(entry->samples, compare_doubles);
  const double median_s = quantile(entry->samples, 0.5);
  entry->time.median_s = MAX(median_s, 1e-9);
  entry->time.spread = (quantile(entry->samples, 0.75) - quantile(entry->samples, 0.25)) / entry->time.median_s;
  entry->time.n = (int)entry->samples->len;
}

static int compare_times(gconstpointer a, gconstpointer b) {
  const KernelTime *x = a, *y = b;
  if (x->item.kind != y->item.kind)
    return x->item.kind - y->item.kind;
  const int names = x->item.kind == ITEM_MEMORY ? strcmp(x->item.name, y->item.name) : 0;
  if (names != 0)
    return names;
  const double keys[][2] = {{x->item.number, y->item.number},
                            {x->item.layout, y->item.layout},
                            {x->item.accumulate, y->item.accumulate},
                            {x->item.backward, y->item.backward},
                            {x->item.batch, y->item.batch},
                            {x->item.m, y->item.m},
                            {x->item.n, y->item.n},
                            {x->item.k, y->item.k},
                            {x->item.bytes, y->item.bytes}};
  for (gsize i = 0; i < G_N_ELEMENTS(keys); i++)
    if (keys[i][0] != keys[i][1])
      return keys[i][0] < keys[i][1] ? -1 : 1;
  return 0;
}

const KernelTime *kernel_times_all(KernelTimes *times, int *n) {
  GHashTableIter iter;
  gpointer value;
  g_array_set_size(times->sorted, 0);
  g_hash_table_iter_init(&iter, times->entries);
  while (g_hash_table_iter_next(&iter, NULL, &value)) {
    sum_up(value);
    g_array_append_val(times->sorted, ((Entry *)value)->time);
  }
  g_array_sort(times->sorted, compare_times);
  *n = (int)times->sorted->len;
  return (const KernelTime *)(const void *)times->sorted->data;
}

/* What one rank has written. */
static void add_medians(KernelTimes *sums, char *text) {
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    g_autoptr(KernelTimes) one = kernel_times_new();
    int n = 0;
    if (!kernel_times_read_line(one, *line))
      continue;
    const KernelTime *time = kernel_times_all(one, &n);
    add_sample(sums, &time->item, time->median_s);
  }
}

void kernel_times_share(KernelTimes *times, World *world) {
  g_autoptr(GString) own = g_string_new(NULL);
  kernel_times_write(times, own);
  g_autofree gsize *sizes = NULL;
  g_autofree char *all = world_gather(world, own->str, own->len, &sizes);
  if (all == NULL)
    return;
  g_autoptr(KernelTimes) medians = kernel_times_new();
  gsize at = 0;
  for (int rank = 0; rank < world_size(world); at += sizes[rank], rank++) {
    g_autofree char *text = g_strndup(all + at, sizes[rank]);
    add_medians(medians, text);
  }
  GHashTableIter iter;
  gpointer key, value;
  g_hash_table_iter_init(&iter, medians->entries);
  while (g_hash_table_iter_next(&iter, &key, &value)) {
    const GArray *samples = ((Entry *)value)->samples;
    Entry *entry = g_hash_table_lookup(times->entries, key);
    double sum_s = 0;
    for (guint i = 0; i < samples->len; i++)
      sum_s += g_array_index(samples, double, i);
    sum_up(entry);
    g_array_set_size(entry->samples, 0); /* what follows is not of them */
    entry->time.median_s = sum_s / samples->len;
  }
}

void kernel_times_write(KernelTimes *times, GString *out) {
  int n;
  const KernelTime *all = kernel_times_all(times, &n);
  for (int i = 0; i < n; i++) {
    g_autofree char *key = item_key(&all[i].item);
    g_string_append_printf(out, "kernel %s = %.9g %.4g %d\n", key, all[i].median_s, all[i].spread, all[i].n);
  }
}

gboolean kernel_times_read_line(KernelTimes *times, const char *line) {
  const char *equals = strstr(line, " = ");
  KernelTime time;
  if (!g_str_has_prefix(line, "kernel ") || equals == NULL ||
      sscanf(equals, " = %lf %lf %d", &time.median_s, &time.spread, &time.n) != 3)
    return FALSE;
  g_autofree char *key = g_strndup(line + strlen("kernel "), (gsize)(equals - line) - strlen("kernel "));
  if (!parse_key(key, &time.item))
    return FALSE;
  entry_of(times, &time.item)->time = time;
  return TRUE;
}
