/* Speed of the network simulation: ring all-reduce of 64 MiB step by step and folded, a 1F1B pipeline, random flows on
 * a fat tree, all on one core, in CPU time (other processes change it little). Best of a few runs, including making the
 * program; also instructions, if the kernel lets them be counted. Optional argument: runs of each case. */
#include "message_run.h"
#include "network_platforms.h"

#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  double best_us;
  guint64 n_instructions; /* 0: not counted */
  clock_t start;
  int counter;
} Meter;

static void meter_start(Meter *meter) {
  struct perf_event_attr attributes = {.type = PERF_TYPE_HARDWARE,
                                       .size = sizeof attributes,
                                       .config = PERF_COUNT_HW_INSTRUCTIONS,
                                       .exclude_kernel = 1,
                                       .exclude_hv = 1};
  meter->counter = (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
  meter->start = clock();
}

static void meter_stop(Meter *meter) {
  meter->best_us = MIN(meter->best_us, (double)(clock() - meter->start) * 1e6 / CLOCKS_PER_SEC);
  if (meter->counter < 0)
    return;
  if (read(meter->counter, &meter->n_instructions, sizeof meter->n_instructions) != sizeof meter->n_instructions)
    meter->n_instructions = 0;
  close(meter->counter);
}

static void print_line(const char *name, gint64 end_ns, const Meter *meter, FlowsStats stats) {
  printf("%-44s end %14.3f us  %10.3f ms  %6.2f M messages/s  %6.1f ns/event  %7.2f M solves", name, end_ns / 1e3,
         meter->best_us / 1e3, (double)stats.n_starts / MAX(meter->best_us, 1),
         meter->best_us * 1e3 / MAX(stats.n_events, 1), stats.n_solves / 1e6);
  if (meter->n_instructions > 0)
    printf("  %6.0f instructions/message", (double)meter->n_instructions / MAX(stats.n_starts, 1));
  printf("\n");
}

typedef MessageProgram *(*Maker)(Routes *routes, gint32 n, GError **error);

static gint32 *first_vertices(gint32 n) {
  gint32 *vertices = g_new(gint32, n);
  for (gint32 i = 0; i < n; i++)
    vertices[i] = i;
  return vertices;
}

static MessageProgram *make_ring(Routes *routes, gint32 n, GError **error) {
  g_autofree gint32 *ranks = first_vertices(n);
  return message_ring_all_reduce(routes, ranks, n, 67108864, FALSE, error);
}

static MessageProgram *make_folded_ring(Routes *routes, gint32 n, GError **error) {
  g_autofree gint32 *ranks = first_vertices(n);
  return message_ring_all_reduce(routes, ranks, n, 67108864, TRUE, error);
}

static MessageProgram *make_pipeline(Routes *routes, gint32 n, GError **error) {
  g_autofree gint32 *stages = first_vertices(n);
  return message_pipeline(routes, stages, n, &(PipelineSteps){1024, 10000000, 20000000, 50331648}, error);
}

/* 32 flows per host, one after another to hosts drawn at random, each of 1 to 64 MB. */
static MessageProgram *make_random(Routes *routes, gint32 n, GError **error) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(5);
  MessageProgram *program = message_program_new();
  for (int round = 0; round < 32; round++)
    for (gint32 h = 0; h < n; h++) {
      gint32 route = routes_find(routes, h, g_rand_int_range(rand, 0, n), 0, error);
      gint32 item = message_program_send(program, route, g_rand_double_range(rand, 1e6, 64e6), 1);
      if (round > 0)
        message_program_after(program, item - n);
    }
  return program;
}

/* Everybody to a host drawn at random, 16 MB to 64 MB: one flow each, all at once. */
static MessageProgram *make_scatter(Routes *routes, gint32 n, GError **error) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(6);
  MessageProgram *program = message_program_new();
  for (gint32 h = 0; h < n; h++) {
    gint32 route = routes_find(routes, h, g_rand_int_range(rand, 0, n), 0, error);
    message_program_send(program, route, g_rand_double_range(rand, 16e6, 64e6), 1);
  }
  return program;
}

/* As many rings as a leaf has hosts, ring r over host r of every leaf (data parallel groups on rails), one flow per
 * hop. */
static MessageProgram *make_rail_rings(Routes *routes, gint32 n, GError **error) {
  enum { N_PER_LEAF = 32 };
  MessageProgram *program = message_program_new();
  gint32 n_leaves = n / N_PER_LEAF;
  for (gint32 step = 0; step < 8; step++) /* of as many buckets */
    for (gint32 h = 0; h < n; h++) {
      gint32 route = routes_find(routes, h, (h + N_PER_LEAF) % n, 0, error);
      gint32 item = message_program_send(program, route, 2.0 * (n_leaves - 1) / n_leaves * 64e6, 2 * (n_leaves - 1));
      if (step > 0)
        message_program_after(program, item - n);
    }
  return program;
}

static void run_case(const char *name, const Network *network, Maker make, gint32 n, int n_runs) {
  Meter meter = {.best_us = G_MAXDOUBLE};
  FlowsStats stats = {0};
  gint64 end_ns = 0;
  g_autoptr(Routes) routes = routes_new(network, ROUTE_BY_LATENCY, ROUTE_BY_RAIL);
  for (int i = 0; i < n_runs; i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Flows) flows = flows_new(network);
    meter_start(&meter);
    g_autoptr(MessageProgram) program = make(routes, n, &error);
    g_assert_no_error(error);
    end_ns = message_run(program, routes, flows, NULL);
    meter_stop(&meter);
    stats = flows_stats(flows);
  }
  print_line(name, end_ns, &meter, stats);
}

int main(int argc, char **argv) {
  int n_runs = argc > 1 ? atoi(argv[1]) : 3;
  g_autoptr(Network) crossbar = crossbar_new(1024, 50e9, 250e-9, FALSE);
  g_autoptr(Network) tree = fat_tree_new(32, 32, 16, 50e9, 50e9, 500e-9);
  run_case("ring all-reduce, 1,024 hosts, step by step", crossbar, make_ring, 1024, n_runs);
  run_case("ring all-reduce, 1,024 hosts, folded", crossbar, make_folded_ring, 1024, n_runs);
  run_case("1F1B, 128 stages, 1,024 micro-batches", crossbar, make_pipeline, 128, n_runs);
  run_case("ring all-reduce, 1,024 hosts, fat tree 2:1", tree, make_ring, 1024, n_runs);
  run_case("random flows, 1,024 hosts, fat tree 2:1", tree, make_random, 1024, 1);
  for (gint32 n = 1024; n <= 16384; n *= 4) {
    g_autoptr(Network) many = fat_tree_new(n / 32, 32, 16, 50e9, 50e9, 500e-9);
    g_autofree char *rings = g_strdup_printf("8 all-reduces of 32 rings, %d hosts, 2:1", n);
    g_autofree char *scatter = g_strdup_printf("a random flow per host, %d hosts, 2:1", n);
    run_case(rings, many, make_rail_rings, n, 1);
    run_case(scatter, many, make_scatter, n, 1);
  }
  return 0;
}
