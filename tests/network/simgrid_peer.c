/* The same platform and messages simulated by SimGrid and by our network: end times and speeds side by side.
 *
 *     simgrid_peer ring|flows-crossbar|flows-shared|flows-tree HOSTS
 *     simgrid_peer pipeline|pipeline-shared|pipeline-tree STAGES MICRO_BATCHES
 *
 * SimGrid reads the links and routes from a platform file and runs actors that send and receive, written for its
 * interface and sharing no code with message programs. Its model is set to plain max-min: no factors, no TCP window, no
 * cross-traffic. SimGrid weights shares by 1 / route latency; all routes here have the same. Prints both end times, the
 * largest difference, and both speeds; exits 1 if an end differs by more than 0.1 %.
 *
 * Pipelines compute enough that links are contended, not overloaded. If messages pile up, which one overtakes another
 * at a stage decides when the next ones start, and the end becomes chaotic: with a twentieth of the compute, 8 stages
 * and 64 micro-batches on shared links, 1 ns more per forward moves the end by 2.3 % here and by 1.5 % in SimGrid. */
#include "message_run.h"
#include "network_platforms.h"

#include <glib/gstdio.h>
#include <math.h>
#include <simgrid/actor.h>
#include <simgrid/comm.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <simgrid/mailbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double host_Bps = 50e9, latency_s = 250e-9, ring_bytes = 67108864;
static const PipelineSteps pipeline_steps = {0, 10000000, 20000000, 50331648};

enum { FLOWS_PER_HOST = 8 };

typedef struct {
  gint32 from, to;
  gint64 start_ns;
  gint64 bytes;
  gint32 route;
} RandomFlow;

typedef struct {
  const char *name;
  Network *network;
  Routes *routes;
  MessageProgram *program;
  gint32 n_hosts, n_micro_batches;
  double steps_share; /* of pipeline_steps' times: less computing, more contention */
  gint32 *hosts;      /* of rank or stage r */
  RandomFlow *random;
  gint32 n_random;
  gint64 *ends_ticks; /* ours; [items] */
  gint64 end_ns;
  double *peer_ends_s; /* of random flows */
  gint64 wall_us, peer_wall_us;
} Scenario;

/* Actors have no argument but strings, and run in one process: what they do stands here. */
static Scenario scenario;

static PipelineSteps steps_of_scenario(void) {
  PipelineSteps steps = pipeline_steps;
  steps.n_micro_batches = scenario.n_micro_batches;
  steps.forward_ns = (gint64)((double)steps.forward_ns * scenario.steps_share);
  steps.backward_ns = (gint64)((double)steps.backward_ns * scenario.steps_share);
  return steps;
}

/* --- platform --- */

static void write_route(FILE *file, gint32 from, gint32 to) {
  g_autoptr(GError) error = NULL;
  gint32 id = routes_find(scenario.routes, from, to, 0, &error);
  g_assert_no_error(error);
  NetRoute route = routes_get(scenario.routes, id);
  fprintf(file, "<route src=\"h%d\" dst=\"h%d\" symmetrical=\"NO\">", from, to);
  for (gint32 i = 0; i < route.n_links; i++)
    fprintf(file, "<link_ctn id=\"l%d\"/>", route.links[i]);
  fprintf(file, "</route>\n");
}

/* Routes of the pairs that talk, each once. */
static void write_routes(FILE *file) {
  g_autoptr(GHashTable) written = g_hash_table_new(NULL, NULL);
  gint32 n_pairs = scenario.random != NULL ? scenario.n_random : scenario.n_hosts;
  for (gint32 i = 0; i < n_pairs; i++) {
    gint32 next = (i + 1) % scenario.n_hosts;
    gint32 from = scenario.random != NULL ? scenario.random[i].from : scenario.hosts[i];
    gint32 to = scenario.random != NULL ? scenario.random[i].to : scenario.hosts[next];
    if (g_hash_table_add(written, GINT_TO_POINTER(from * 65536 + to)))
      write_route(file, from, to);
    if (scenario.random == NULL && from != to && g_hash_table_add(written, GINT_TO_POINTER(to * 65536 + from)))
      write_route(file, to, from);
  }
}

static char *write_platform(void) {
  char *path = NULL;
  g_autoptr(GError) error = NULL;
  int descriptor = g_file_open_tmp("stepsim-platform-XXXXXX.xml", &path, &error);
  g_assert_no_error(error);
  FILE *file = fdopen(descriptor, "w");
  g_assert(file != NULL);
  fprintf(file, "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
                "<platform version=\"4.1\">\n<zone id=\"all\" routing=\"Full\">\n");
  for (gint32 v = 0; v < network_n_vertices(scenario.network); v++)
    if (network_vertex(scenario.network, v)->kind == NET_GPU)
      fprintf(file, "<host id=\"h%d\" speed=\"1Gf\"/>\n", v);
  for (gint32 l = 0; l < network_n_links(scenario.network); l++) {
    const NetLink *link = network_link(scenario.network, l);
    fprintf(file, "<link id=\"l%d\" bandwidth=\"%.17gBps\" latency=\"%.17gs\" sharing_policy=\"SHARED\"/>\n", l,
            link->capacity_Bps, (double)link->latency_ticks / TICKS_PER_S);
  }
  write_routes(file);
  fprintf(file, "</zone>\n</platform>\n");
  fclose(file);
  return path;
}

/* --- actors --- */

static sg_mailbox_t mailbox_of(const char *kind, gint32 number) {
  g_autofree char *name = g_strdup_printf("%s%d", kind, number);
  return sg_mailbox_by_name(name);
}

static char payload[] = "x";

static void ring_actor(int argc, char **argv) {
  gint32 rank = atoi(argv[1]), n = scenario.n_hosts;
  sg_mailbox_t own = mailbox_of("ring", rank), next = mailbox_of("ring", (rank + 1) % n);
  for (gint32 step = 0; step < 2 * (n - 1); step++) {
    sg_comm_t sent = sg_mailbox_put_async(next, payload, (long)(ring_bytes / n));
    sg_mailbox_get(own);
    sg_comm_wait(sent);
  }
}

static void flow_sender(int argc, char **argv) {
  const RandomFlow *flow = &scenario.random[atoi(argv[1])];
  sg_actor_sleep_for((double)flow->start_ns / 1e9);
  sg_mailbox_put(mailbox_of("flow", atoi(argv[1])), payload, (long)flow->bytes);
}

static void flow_receiver(int argc, char **argv) {
  sg_mailbox_get(mailbox_of("flow", atoi(argv[1])));
  scenario.peer_ends_s[atoi(argv[1])] = simgrid_get_clock();
}

static void send_detached(sg_mailbox_t mailbox) {
  sg_comm_detach(sg_mailbox_put_init(mailbox, payload, (long)pipeline_steps.bytes), NULL);
}

static void stage_actor(int argc, char **argv) {
  gint32 s = atoi(argv[1]), p = scenario.n_hosts, m = scenario.n_micro_batches;
  PipelineSteps steps = steps_of_scenario();
  g_autofree char *forward_name = g_strdup_printf("forward%d", s), *backward_name = g_strdup_printf("backward%d", s);
  sg_mailbox_set_receiver(forward_name);
  sg_mailbox_set_receiver(backward_name);
  sg_mailbox_t forward = mailbox_of("forward", s), backward = mailbox_of("backward", s);
  sg_mailbox_t next = mailbox_of("forward", s + 1), before = mailbox_of("backward", s - 1);
  gint32 warm_up = MIN(p - 1 - s, m);
  for (gint32 i = 0; i < m + warm_up; i++) {
    if (i < m) {
      if (s > 0)
        sg_mailbox_get(forward);
      sg_actor_sleep_for((double)steps.forward_ns / 1e9);
      if (s < p - 1)
        send_detached(next);
    }
    if (i >= warm_up) {
      if (s < p - 1)
        sg_mailbox_get(backward);
      sg_actor_sleep_for((double)steps.backward_ns / 1e9);
      if (s > 0)
        send_detached(before);
    }
  }
}

static void create_actor(const char *name, gint32 host, void (*code)(int, char **), gint32 number) {
  g_autofree char *host_name = g_strdup_printf("h%d", host), *text = g_strdup_printf("%d", number);
  const char *arguments[] = {name, text, NULL};
  sg_actor_create_(name, sg_host_by_name(host_name), code, 2, arguments);
}

static double run_simgrid(char *program_name) {
  g_autofree char *path = write_platform();
  char *arguments[] = {program_name,
                       "--cfg=network/model:CM02",
                       "--cfg=network/TCP-gamma:0",
                       "--cfg=network/crosstraffic:0",
                       "--cfg=network/latency-factor:1",
                       "--cfg=network/bandwidth-factor:1",
                       "--cfg=network/weight-S:0",
                       "--cfg=surf/precision:1e-12",
                       "--cfg=maxmin/precision:1e-9",
                       "--cfg=contexts/stack-size:64",
                       "--log=root.thres:error",
                       NULL};
  int n_arguments = G_N_ELEMENTS(arguments) - 1;
  gint64 start_us = g_get_monotonic_time();
  simgrid_init(&n_arguments, arguments);
  simgrid_load_platform(path);
  if (scenario.random != NULL)
    for (gint32 i = 0; i < scenario.n_random; i++) {
      create_actor("receiver", scenario.random[i].to, flow_receiver, i);
      create_actor("sender", scenario.random[i].from, flow_sender, i);
    }
  else
    for (gint32 r = 0; r < scenario.n_hosts; r++)
      create_actor("rank", scenario.hosts[r], scenario.n_micro_batches > 0 ? stage_actor : ring_actor, r);
  simgrid_run();
  scenario.peer_wall_us = g_get_monotonic_time() - start_us;
  g_unlink(path);
  return simgrid_get_clock();
}

/* --- the network here --- */

static void make_random_flows(void) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(11);
  g_autoptr(GError) error = NULL;
  scenario.n_random = FLOWS_PER_HOST * scenario.n_hosts;
  scenario.random = g_new(RandomFlow, scenario.n_random);
  scenario.peer_ends_s = g_new0(double, scenario.n_random);
  scenario.program = message_program_new();
  for (gint32 i = 0; i < scenario.n_random; i++) {
    RandomFlow *flow = &scenario.random[i];
    flow->from = g_rand_int_range(rand, 0, scenario.n_hosts);
    flow->to = (flow->from + g_rand_int_range(rand, 1, scenario.n_hosts)) % scenario.n_hosts;
    flow->start_ns = g_rand_int_range(rand, 0, 2000000);
    flow->bytes = g_rand_int_range(rand, 1, 64000000);
    flow->route = routes_find(scenario.routes, flow->from, flow->to, 0, &error);
    g_assert_no_error(error);
    gint32 wait = message_program_delay(scenario.program, flow->start_ns);
    message_program_send(scenario.program, flow->route, (double)flow->bytes, 1);
    message_program_after(scenario.program, wait);
  }
}

static void run_here(void) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Flows) flows = flows_new(scenario.network);
  gint64 start_us = g_get_monotonic_time();
  PipelineSteps steps = steps_of_scenario();
  if (scenario.n_micro_batches > 0)
    scenario.program = message_pipeline(scenario.routes, scenario.hosts, scenario.n_hosts, &steps, &error);
  else if (g_str_has_prefix(scenario.name, "flows"))
    make_random_flows();
  else
    scenario.program =
        message_ring_all_reduce(scenario.routes, scenario.hosts, scenario.n_hosts, ring_bytes, FALSE, &error);
  g_assert_no_error(error);
  scenario.ends_ticks = g_new(gint64, message_program_n_items(scenario.program));
  scenario.end_ns = message_run(scenario.program, scenario.routes, flows, scenario.ends_ticks);
  scenario.wall_us = g_get_monotonic_time() - start_us;
}

/* Leaves of 16 hosts under 4 spines: 4 to 1. Stages and ranks go from leaf to leaf, so that they meet on the uplinks.
 */
static gboolean make_scenario(int argc, char **argv) {
  scenario.name = argv[1];
  scenario.n_hosts = atoi(argv[2]);
  scenario.n_micro_batches = argc > 3 ? atoi(argv[3]) : 0;
  if (scenario.n_hosts < 2 || scenario.n_hosts > 4096 || (argc > 3 && scenario.n_micro_batches < 1))
    return FALSE;
  gboolean is_tree = strstr(argv[1], "tree") != NULL, is_shared = strstr(argv[1], "shared") != NULL;
  scenario.steps_share = is_shared ? 0.3 : 1;
  gint32 n_leaves = (scenario.n_hosts + 15) / 16;
  if (is_tree)
    scenario.network = fat_tree_new(MAX(n_leaves, 2), 16, 4, host_Bps, host_Bps, latency_s);
  else
    scenario.network = crossbar_new(scenario.n_hosts, host_Bps, latency_s, is_shared);
  scenario.routes = routes_new(scenario.network, ROUTE_BY_LATENCY, ROUTE_HASHED);
  scenario.hosts = g_new(gint32, scenario.n_hosts);
  for (gint32 r = 0; r < scenario.n_hosts; r++)
    scenario.hosts[r] = is_tree ? r % MAX(n_leaves, 2) * 16 + r / MAX(n_leaves, 2) : r;
  return TRUE;
}

static double greatest_difference(double peer_end_s) {
  double end_s = (double)scenario.ends_ticks[0] / TICKS_PER_S;
  for (gint32 i = 1; i < message_program_n_items(scenario.program); i++)
    end_s = MAX(end_s, (double)scenario.ends_ticks[i] / TICKS_PER_S);
  double difference = fabs(end_s / peer_end_s - 1);
  for (gint32 i = 0; i < scenario.n_random; i++) /* items: a wait, then its message */
    difference =
        MAX(difference, fabs((double)scenario.ends_ticks[2 * i + 1] / TICKS_PER_S / scenario.peer_ends_s[i] - 1));
  return difference;
}

int main(int argc, char **argv) {
  if (argc < 3 || !make_scenario(argc, argv)) {
    fprintf(
        stderr,
        "usage: simgrid_peer ring|flows-crossbar|flows-shared|flows-tree|pipeline|pipeline-shared|pipeline-tree HOSTS "
        "[MICRO_BATCHES]\n");
    return 2;
  }
  run_here();
  double peer_end_s = run_simgrid(argv[0]), difference = greatest_difference(peer_end_s);
  printf("%s %s%s%s: end %.9f s, SimGrid %.9f s, greatest difference %.2g %%, wall %.2f ms, SimGrid %.2f ms, %.0f "
         "times as "
         "fast\n",
         argv[1], argv[2], argc > 3 ? " " : "", argc > 3 ? argv[3] : "", (double)scenario.end_ns / 1e9, peer_end_s,
         100 * difference, (double)scenario.wall_us / 1e3, (double)scenario.peer_wall_us / 1e3,
         (double)scenario.peer_wall_us / (double)MAX(scenario.wall_us, 1));
  return difference <= 1e-3 ? 0 : 1;
}
