/* A table from a kernel's key (what identifies it) to its times:
 *
 *     product    number layout accumulate batch m n k
 *     attention  number direction batch queries keys head_dim v_head_dim
 *     memory     name bytes
 *
 * Nothing is sent. Each rank takes its place in the plan, so a context-parallel rank attends to the blocks it would see
 * in training; a kernel's time is the mean over ranks.
 *
 * On the CPU, warm-up is one step, which touches the memory. A GPU lowers its clock within tenths of a second under
 * back-to-back products, but a step of two layers takes only a few milliseconds: there, warm-up is as many steps as
 * fill LOAD_S, judged by a probe run of three.
 *
 * On a device whose events are serialized with the kernels, the events around a kernel delay the next one, unlike in a
 * step. What they add is measured first (kernel_bench.h) and subtracted. Times then below the shortest kernel time are
 * left out: they would be near 0, and be used for all neighbouring sizes. */
#include "kernel_times.h"

#include "error.h"
#include "plan.h"
#include "plan_program.h"
#include "sort_doubles.h"
#include "trainable.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { N_LAYERS = 2, N_PROBE_STEPS = 3, MAX_WARM_STEPS = 400 };
static const double LOAD_S = 1.0;
/* No kernel takes longer, and no processor does more multiply-adds or moves more bytes per second: at least fifty times
 * what one did in 2026. */
static const double LONGEST_S = 3600, MOST_RATE = 1e18;

typedef struct {
  KernelTime time;
  GArray *samples; /* of double, s; empty for times read back */
} Entry;

struct KernelTimes {
  GHashTable *entries; /* key → Entry */
  double edge_s;       /* what the events around a kernel add */
  double least_s;      /* shortest time of a kernel */
  LaunchesInTimes launches;
  GArray *sorted; /* of KernelTime: the last result of kernel_times_all() */
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
    return g_strdup_printf("attention %s %d %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT
                           " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT,
                           number_name((Number)item->number), item->backward, item->batch, item->m, item->n, item->k,
                           work_item_v_dim(item));
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
  gint64 v_dim = 0;
  *item = (WorkItem){.after = -1};
  if (sscanf(key, "product %63s %d %d %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT,
             name, &layout, &flag, &item->batch, &item->m, &item->n, &item->k) == 7)
    item->kind = ITEM_MATMUL;
  else if (sscanf(key,
                  "attention %63s %d %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT
                  " %" G_GINT64_FORMAT,
                  name, &flag, &item->batch, &item->m, &item->n, &item->k, &v_dim) == 7)
    item->kind = ITEM_ATTENTION;
  else if (sscanf(key, "memory %63s %lf", name, &item->bytes) == 2)
    item->kind = ITEM_MEMORY;
  else
    return FALSE;
  item->v_dim = (gint32)v_dim;
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

void kernel_times_add(KernelTimes *times, const WorkItem *item, double time_s) {
  g_array_append_val(entry_of(times, item)->samples, time_s);
}

/* --- models --- */

char *cut_case_text(const CutCase *cut) {
  g_autofree char *cp =
      cut->cp > 1 ? g_strdup_printf(", cp %d %s", cut->cp, cp_comm_names()[cut->cp_comm]) : g_strdup("");
  return g_strdup_printf("%s %s, tp %d%s%s, %" G_GINT64_FORMAT " × %" G_GINT64_FORMAT " tokens, %s", cut->model->name,
                         precision_info(cut->precision)->name, cut->tp, cut->sequence_parallel ? " sp" : "", cp,
                         cut->micro_batch, cut->seq_len, attention_names()[cut->attention]);
}

/* The model cut to a few layers: all layers of a kind are alike. */
static Workload *short_workload(const CutCase *cut, int n_steps, GError **error) {
  g_autoptr(Model) model = model_copy(cut->model);
  model_cut_depth(model, MIN(model->n_layers, N_LAYERS));
  g_autoptr(Plan) plan = plan_new();
  plan->gpus = cut->tp * cut->cp;
  plan->tp = cut->tp;
  plan->cp = cut->cp;
  plan->cp_comm = cut->cp_comm;
  plan->micro_batch = cut->micro_batch;
  plan->global_batch = 2 * cut->micro_batch;
  plan->seq_len = cut->seq_len;
  plan->sequence_parallel = cut->sequence_parallel;
  plan->precision = cut->precision;
  plan->recipe = cut->recipe;
  plan->attention = cut->attention;
  plan->mtp_layers = MIN(model->n_next_layers, 1); /* one multi-token-prediction head: all are alike */
  plan->steps = n_steps;
  plan->fold = FALSE;
  if (!plan_complete(plan, model, NULL, error))
    return NULL;
  g_autoptr(Workload) workload = workload_new(model, plan, NULL);
  return trainable_check(workload, error) ? g_steal_pointer(&workload) : NULL;
}

static void take_item(const WorkItem *item, int step, gint64 time_ns, gint64 launch_ns, gpointer data) {
  KernelTimes *times = data;
  LaunchesInTimes *launches = &times->launches;
  launches->n++;
  launches->n_late += launch_ns > 0;
  launches->late_s += launch_ns > 0 ? time_ns * 1e-9 : 0;
  launches->launch_s += launch_ns * 1e-9;
  if (item->windowed) /* the key does not tell it from attention to all earlier keys */
    return;
  kernel_times_add(times, item, time_ns * 1e-9 - times->edge_s);
}

void kernel_times_set_edge(KernelTimes *times, double edge_s, double least_s) {
  times->edge_s = edge_s;
  times->least_s = least_s;
}

double kernel_times_edge_s(const KernelTimes *times) {
  return times->edge_s;
}

const LaunchesInTimes *kernel_times_launches(const KernelTimes *times) {
  return &times->launches;
}

/* From the end of the second-to-last step to the end of the last, s. */
static double last_step_s(const Program *program, const ExecutionResult *result) {
  gint64 ends_ns[2] = {0};
  for (int i = 0; i < result->n_ops; i++) {
    const int before_last = program->n_steps - 1 - program->ranks[0].ops[i].step;
    if (before_last < 2)
      ends_ns[before_last] = MAX(ends_ns[before_last], result->end_ns[i]);
  }
  return (ends_ns[0] - ends_ns[1]) * 1e-9;
}

typedef struct {
  const CutCase *cut;
  World *world;
  const DeviceType *device;
  int n_warm, n_steps;  /* warm-up steps, then steps whose items are timed */
  KernelTimes *visited; /* receives the items' times; NULL: only the last step's time is wanted */
} Steps;

/* Times of a fallback would stand for a kernel that other programs run, and that may be tens of times as fast. */
static gboolean check_attention(const ExecutionResult *result, GError **error) {
  return !result->attention_fell_back ||
         fail_impossible(error,
                         "fused attention was by %s, which is not what frameworks run: not timed; STEPREAL_CUDNN=0 "
                         "in the environment times it, --attention unfused does without",
                         result->attention);
}

/* `*attention`: what ran fused attention, owned by the caller; NULL: nothing to report. */
static gboolean run_steps(const Steps *steps, double *last_s, char **attention, GError **error) {
  g_autoptr(Workload) workload = short_workload(steps->cut, steps->n_warm + steps->n_steps, error);
  g_autoptr(Program) program = workload ? program_of_plan(workload, error) : NULL;
  if (program == NULL)
    return FALSE;
  const Execution execution = {.workload = workload,
                               .program = program,
                               .world = steps->world,
                               .rank = world_rank(steps->world) % workload->plan->gpus,
                               .device = steps->device,
                               .comm = &null_comm,
                               .training = training_default(),
                               .visit_item = steps->visited != NULL ? take_item : NULL,
                               .visit_from = steps->n_warm,
                               .visit_data = steps->visited};
  ExecutionResult result;
  const gboolean ok = execute(&execution, &result, error) && check_attention(&result, error);
  if (ok) {
    *last_s = last_step_s(program, &result);
    g_free(*attention);
    *attention = g_steal_pointer(&result.attention);
  }
  execution_result_clear(&result);
  return ok;
}

gboolean kernel_times_measure(KernelTimes *times, const CutCase *cut, World *world, const DeviceType *device,
                              int n_steps, char **attention, GError **error) {
  double step_s = LOAD_S;
  const gboolean is_probed = !device->is_host_memory;
  Steps steps = {.cut = cut, .world = world, .device = device, .n_steps = N_PROBE_STEPS};
  *attention = NULL;
  const gboolean ok = !is_probed || run_steps(&steps, &step_s, attention, error);
  if (is_probed)
    step_s = world_max(world, step_s); /* failed ranks take part too: all ranks need the same number of steps */
  steps.n_warm = (int)CLAMP(LOAD_S / MAX(step_s, 1e-6), 1, MAX_WARM_STEPS);
  steps.n_steps = n_steps;
  steps.visited = times;
  return ok && run_steps(&steps, &step_s, attention, error);
}

/* --- the table --- */

static double quantile(const GArray *sorted, double q) {
  return g_array_index(sorted, double, (guint)(q * (sorted->len - 1) + 0.5));
}

static void sum_up(Entry *entry) {
  if (entry->samples->len == 0)
    return; /* read back */
  sort_doubles((double *)(gpointer)entry->samples->data, entry->samples->len);
  const double median_s = quantile(entry->samples, 0.5);
  entry->time.median_s = median_s;
  entry->time.spread = median_s > 0 ? (quantile(entry->samples, 0.75) - quantile(entry->samples, 0.25)) / median_s : 0;
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
    const KernelTime *time = &((Entry *)value)->time;
    sum_up(value);
    if (time->median_s > 0 && time->median_s >= times->least_s)
      g_array_append_val(times->sorted, *time);
  }
  g_array_sort(times->sorted, compare_times);
  *n = (int)times->sorted->len;
  return (const KernelTime *)(const void *)times->sorted->data;
}

int kernel_times_n_short(KernelTimes *times) {
  int n;
  kernel_times_all(times, &n);
  return (int)g_hash_table_size(times->entries) - n;
}

/* Adds the medians that one rank wrote. */
static void add_medians(KernelTimes *sums, char *text) {
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    g_autoptr(KernelTimes) one = kernel_times_new();
    int n = 0;
    if (!kernel_times_read_line(one, *line))
      continue;
    const KernelTime *time = kernel_times_all(one, &n);
    kernel_times_add(sums, &time->item, time->median_s);
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
    g_array_set_size(entry->samples, 0); /* the median set below is not theirs */
    entry->time.median_s = sum_s / samples->len;
  }
}

static char *line_of(const KernelTime *time) {
  g_autofree char *key = item_key(&time->item);
  return g_strdup_printf("kernel %s = %.9g %.4g %d", key, time->median_s, time->spread, time->n);
}

void kernel_times_write(KernelTimes *times, GString *out) {
  int n;
  const KernelTime *all = kernel_times_all(times, &n);
  for (int i = 0; i < n; i++) {
    g_autofree char *line = line_of(&all[i]);
    g_string_append_printf(out, "%s\n", line);
  }
}

static gboolean is_count(gint64 n) {
  return n >= 1 && n <= G_MAXINT32;
}

/* Whether a machine could have measured this. */
static gboolean is_plausible(const KernelTime *time) {
  const WorkItem *item = &time->item;
  if (!(time->median_s > 0 && time->median_s <= LONGEST_S) || !(time->spread >= 0 && time->spread <= LONGEST_S) ||
      time->n < 1)
    return FALSE;
  if (item->kind == ITEM_MEMORY)
    return item->bytes >= 0 && item->bytes <= MOST_RATE * time->median_s;
  return item->layout <= LAYOUT_NT && is_count(item->batch) && is_count(item->m) && is_count(item->n) &&
         is_count(item->k) && item->v_dim >= 0 &&
         (double)item->batch * item->m * item->n * item->k <= MOST_RATE * time->median_s;
}

gboolean kernel_times_read_line(KernelTimes *times, const char *line) {
  const char *equals = strstr(line, " = ");
  KernelTime time;
  if (!g_str_has_prefix(line, "kernel ") || equals == NULL ||
      sscanf(equals, " = %lf %lf %d", &time.median_s, &time.spread, &time.n) != 3)
    return FALSE;
  g_autofree char *key = g_strndup(line + strlen("kernel "), (gsize)(equals - line) - strlen("kernel "));
  if (!parse_key(key, &time.item) || !is_plausible(&time))
    return FALSE;
  g_autofree char *again = line_of(&time);
  if (strcmp(again, line) != 0) /* trailing text, or a number that overflows its type */
    return FALSE;
  entry_of(times, &time.item)->time = time;
  return TRUE;
}
