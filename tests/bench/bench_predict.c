/* Whole predictions per second of CPU time: GPT-3 175B class plans, folded, event-level, memory included, one core.
 * Sets of plans: each plan predicted whole, and in numbers only, as in sweeps, which runs few micro-batches if that is
 * enough. Then single plans; and the same on a GPU whose file has 3,000 measured products around the shapes wanted, 200
 * points of memory kernels and 300 of attention, in a cluster whose file has 24 curves of collectives.
 *
 * Instructions per event, which do not depend on the machine's load:
 *
 *     valgrind --tool=callgrind build/tests/bench_predict count 1      I₁ instructions, E events
 *     valgrind --tool=callgrind build/tests/bench_predict count 2      I₂: each plan once more
 *     (I₂ − I₁) / E
 *
 * `numbers` instead of `count` does the same in numbers only. Both take `SET`, 0 and up, for that set alone (with
 * callgrind's --toggle-collect=predict_numbers: the cost of a set's predictions), or `PP CHUNKS M` for one plan. */
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plan.h"
#include "predict.h"

typedef struct {
  const char *name, *schedule;
  int tp, pp, dp, chunks, global_batch, zero;
} Case;

static const Case cases[] = {
    {"tp 8, pp 8, 1f1b, m 16", "1f1b", 8, 8, 16, 1, 256, 1},
    {"tp 8, pp 16, 1f1b, m 64", "1f1b", 8, 16, 8, 1, 512, 1},
    {"tp 8, pp 8, interleaved 4 chunks, m 32", "interleaved", 8, 8, 8, 4, 256, 1},
    {"tp 8, dp 64, ZeRO-3, m 4", "1f1b", 8, 1, 64, 1, 256, 3},
};

/* Every pp ≤ 16 and m ≤ most_m in powers of two, each with two stages of ZeRO, dp 8. Where tp leaves room in a node dp
 * is beside it on its links: collectives of tp beside those of ZeRO are followed one by one. */
typedef struct {
  const char *name;
  const char *schedules[4];
  int tp, least_pp, chunks, most_m, least_zero;
} Set;

static const Set sets[] = {
    {"pp 1..16, m 8..64, 1f1b", {"1f1b"}, 8, 1, 1, 64, 0},
    {"pp 1..16, m 8..64, gpipe", {"gpipe"}, 8, 1, 1, 64, 0},
    {"pp 2..16, m 8..64, zb-h1 and zb-v (3 steps)", {"zb-h1", "zb-v"}, 8, 2, 0, 64, 0},
    {"pp 2..16, m 8..64, interleaved, 4 chunks", {"interleaved"}, 8, 2, 4, 64, 0},
    {"pp 2..16, m 8..16, 1f1b, ZeRO 2 and 3, tp 4", {"1f1b"}, 4, 2, 1, 16, 2},
    {"pp 2..16, m 8..64, 1f1b, ZeRO 2 and 3", {"1f1b"}, 8, 2, 1, 64, 2},
};

static Plan *plan_of(const Case *c) {
  Plan *plan = plan_new();
  g_free(plan->schedule);
  plan->schedule = g_strdup(c->schedule);
  plan->tp = c->tp;
  plan->pp = c->pp;
  plan->dp = c->dp;
  plan->chunks = c->chunks;
  plan->zero = c->zero;
  plan->global_batch = c->global_batch;
  plan->sequence_parallel = TRUE;
  return plan;
}

/* Of Plan. Those that the model has too few layers for are left out. */
static GPtrArray *plans_of(const Set *set, const Model *model, const Cluster *cluster) {
  GPtrArray *plans = g_ptr_array_new_with_free_func((GDestroyNotify)plan_free);
  for (int s = 0; s < 4 && set->schedules[s] != NULL; s++)
    for (int pp = set->least_pp; pp <= 16; pp *= 2)
      for (int m = 8; m <= set->most_m; m *= 2)
        for (int zero = set->least_zero; zero < set->least_zero + 2; zero++) {
          const Case c = {"", set->schedules[s], set->tp, pp, 8, set->chunks, 8 * m, zero};
          g_autoptr(Plan) plan = plan_of(&c);
          g_autoptr(Prediction) prediction = predict(model, cluster, plan, NULL);
          if (prediction != NULL)
            g_ptr_array_add(plans, g_steal_pointer(&plan));
        }
  return plans;
}

typedef Prediction *(*Way)(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);

/* Each plan `n` times in a row. Returns the events of once all. */
static guint64 predict_all(Way way, const GPtrArray *plans, guint n, const Model *model, const Cluster *cluster) {
  guint64 n_events = 0;
  for (guint i = 0; i < plans->len * n; i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) prediction = way(model, cluster, g_ptr_array_index(plans, i / n), &error);
    g_assert_no_error(error);
    n_events += prediction->engine.n_events;
  }
  return n_events / n;
}

/* In numbers, with what the plans before it are remembered by. */
static Predictor *predictor;
static Prediction *in_numbers(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  return predict_numbers(predictor, model, cluster, plan, error);
}

static double seconds_of(Way way, const Plan *plan, const Model *model, const Cluster *cluster) {
  clock_t begin = clock();
  Prediction *prediction = way(model, cluster, plan, NULL);
  g_assert_nonnull(prediction);
  prediction_free(prediction);
  return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

static int compare_seconds(gconstpointer a, gconstpointer b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

enum { ROUNDS = 5 };

static double median(double seconds[ROUNDS]) {
  qsort(seconds, ROUNDS, sizeof *seconds, compare_seconds);
  return seconds[ROUNDS / 2];
}

static void bench_set(const Set *set, const Model *model, const Cluster *cluster) {
  g_autoptr(GPtrArray) plans = plans_of(set, model, cluster);
  double whole[ROUNDS] = {0}, numbers[ROUNDS] = {0};
  guint64 n_events = predict_all(predict, plans, 1, model, cluster);
  for (int i = 0; i < ROUNDS; i++)
    for (guint k = 0; k < plans->len; k++) {
      const Plan *plan = g_ptr_array_index(plans, k);
      whole[i] += seconds_of(predict, plan, model, cluster);
      numbers[i] += seconds_of(in_numbers, plan, model, cluster);
    }
  double whole_s = median(whole);
  printf("%-46s %3u plans, %5.0f events each: whole %6.0f/s (%.0f ns/event), in numbers %6.0f/s\n", set->name,
         plans->len, (double)n_events / plans->len, plans->len / whole_s, whole_s * 1e9 / (double)n_events,
         plans->len / median(numbers));
}

/* Each plan of sets first … end − 1 `n` times. */
static void count_events(Way way, int n, gsize first, gsize end, const Model *model, const Cluster *cluster) {
  for (gsize s = first; s < end; s++) {
    g_autoptr(GPtrArray) plans = plans_of(&sets[s], model, cluster);
    guint64 n_events = predict_all(way, plans, (guint)n, model, cluster);
    printf("%-46s %3u plans, E = %" G_GUINT64_FORMAT " events\n", sets[s].name, plans->len, n_events);
  }
}

/* One plan of `m` micro-batches, `n` times. */
static void repeat_one(Way way, int n, int pp, int chunks, int m, const Model *model, const Cluster *cluster) {
  g_autoptr(GPtrArray) plans = g_ptr_array_new_with_free_func((GDestroyNotify)plan_free);
  const Case c = {"", chunks > 1 ? "interleaved" : "1f1b", 8, pp, 8, chunks, 8 * m, 1};
  g_ptr_array_add(plans, plan_of(&c));
  printf("E = %" G_GUINT64_FORMAT " events\n", predict_all(way, plans, (guint)n, model, cluster));
}

static double seconds_per_prediction(const Model *model, const Cluster *cluster, const Plan *plan, Timing *counts) {
  clock_t begin = clock(), end = begin;
  int n = 0;
  while (end - begin < CLOCKS_PER_SEC / 2) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
    g_assert_no_error(error);
    *counts = *prediction->timing;
    n++;
    end = clock();
  }
  return (double)(end - begin) / CLOCKS_PER_SEC / n;
}

/* Half octaves around the shapes of a 175B layer on 8 GPUs, none of them hit. */
static const int rows[] = {400, 600, 800, 1200, 1600, 2400, 3200, 4800, 6400, 9600};
static const int widths[] = {900, 1300, 1800, 2600, 3600, 5200, 7200, 10400, 14400, 20800};

static void add_products(GString *text, const char *layout, const char *accumulate) {
  for (int i = 0; i < 1000; i++) {
    int m = rows[i / 100], n = widths[i / 10 % 10], k = widths[i % 10];
    g_string_append_printf(text,
                           "    - {number: bf16, layout: %s, accumulate: %s, batch: 1, m: %d, n: %d, k: %d, time: "
                           "%.3f us}\n",
                           layout, accumulate, m, n, k, 5 + 1e-8 * m * n * k);
  }
}

static char *measured_text(void) {
  GString *text = g_string_new("measured:\n  source: this benchmark\n  products:\n");
  add_products(text, "tn", "no");
  add_products(text, "nn", "no");
  add_products(text, "nt", "yes");
  const char *names[] = {"norm",          "norm.backward", "residual",         "residual.grad", "gelu",
                         "gelu.backward", "dropout",       "dropout.backward", "adam",          "memory"};
  g_string_append(text, "  kernels:\n");
  for (int i = 0; i < 200; i++)
    g_string_append_printf(text, "    - {name: %s, bytes: %d kB, time: %d us}\n", names[i / 20], 1 << i % 20,
                           5 + (1 << i % 20) / 1000);
  g_string_append(text, "  attention:\n");
  for (int i = 0; i < 300; i++)
    g_string_append_printf(text,
                           "    - {number: bf16, backward: %s, batch: %d, seq_len: %d, head_dim: 128, time: %d us}\n",
                           i % 2 ? "yes" : "no", 1 + i / 2 % 15, 256 * (1 + i / 30), 10 + i);
  return g_string_free(text, FALSE);
}

/* A shipped file with more text behind it, as a temporary one. Owned by the caller; to be unlinked. */
static char *extended_file(const char *shipped, const char *more) {
  g_autofree char *bare = NULL, *path = NULL, *source = g_build_filename(STEPSIM_SOURCE_DATA, shipped, NULL);
  g_assert_true(g_file_get_contents(source, &bare, NULL, NULL));
  GString *text = g_string_new(bare);
  g_string_replace(text, "gpu: gpus/", "gpu: " STEPSIM_SOURCE_DATA "/topologies/gpus/", 1);
  g_string_replace(text, "collectives: nccl/", "collectives: " STEPSIM_SOURCE_DATA "/topologies/nccl/", 1);
  g_string_append(text, more);
  int file = g_file_open_tmp("stepsim-bench-XXXXXX.yaml", &path, NULL);
  g_assert_cmpint(file, >=, 0);
  g_close(file, NULL);
  g_assert_true(g_file_set_contents(path, text->str, (gssize)text->len, NULL));
  g_string_free(text, TRUE);
  return g_steal_pointer(&path);
}

static void add_kernels(Cluster *cluster) {
  g_autofree char *tables = measured_text(), *path = extended_file("topologies/gpus/a100-sxm4-80gb.yaml", tables);
  g_autoptr(GError) error = NULL;
  gpu_clear(&cluster->gpu);
  gint64 begin_us = g_get_monotonic_time();
  gpu_read(path, &cluster->gpu, &error);
  g_assert_no_error(error);
  printf("%-42s %8.1f ms\n", "reading 3,000 products", (double)(g_get_monotonic_time() - begin_us) * 1e-3);
  g_unlink(path);
}

static void add_links(Cluster *cluster) {
  const char *ops[] = {"all_reduce", "all_gather", "reduce_scatter"};
  GString *text = g_string_new("measured:\n  source: this benchmark\n  collectives:\n");
  for (int i = 0; i < 24 * 20; i++) {
    int octave = 1 + i / 60, size = i % 20; /* groups of 2, 4 … 256, those beyond a node over several */
    g_string_append_printf(text, "    - {op: %s, gpus: %d, nodes: %d, bytes: %d kB, time: %d us}\n", ops[i / 20 % 3],
                           1 << octave, MAX(1 << octave >> 3, 1), 1 << size, 20 * octave + (1 << size) / 100);
  }
  g_autofree char *path = extended_file("topologies/selene.yaml", text->str);
  g_string_free(text, TRUE);
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) measured = cluster_read(path, &error);
  g_assert_no_error(error);
  cluster->measured = g_steal_pointer(&measured->measured);
  g_unlink(path);
}

static void bench(const Model *model, const Cluster *cluster) {
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const Case *c = &cases[i];
    g_autoptr(Plan) plan = plan_of(c);
    Timing counts; /* of its numbers only */
    double seconds = seconds_per_prediction(model, cluster, plan, &counts);
    printf("%-42s %8.0f us/prediction  %8.0f predictions/s, %d of %d products interpolated\n", c->name, seconds * 1e6,
           1 / seconds, counts.n_interpolated, counts.n_measured + counts.n_interpolated + counts.n_modelled);
  }
}

int main(int argc, char **argv) {
  predictor = predictor_new();
  g_autoptr(GError) error = NULL;
  g_autoptr(Model) model = model_read("megatron-175b", &error);
  g_assert_no_error(error);
  g_autoptr(Cluster) cluster = cluster_read("selene", &error);
  g_assert_no_error(error);
  if (argc > 2) {
    const Way way = strcmp(argv[1], "numbers") == 0 ? in_numbers : predict;
    if (argc > 5)
      repeat_one(way, atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), model, cluster);
    else if (argc > 3)
      count_events(way, atoi(argv[2]), (gsize)atoi(argv[3]), MIN((gsize)atoi(argv[3]) + 1, G_N_ELEMENTS(sets)), model,
                   cluster);
    else
      count_events(way, atoi(argv[2]), 0, G_N_ELEMENTS(sets), model, cluster);
    return 0;
  }
  for (gsize i = 0; i < G_N_ELEMENTS(sets); i++)
    bench_set(&sets[i], model, cluster);
  bench(model, cluster);
  add_kernels(cluster);
  add_links(cluster);
  bench(model, cluster);
  return 0;
}
