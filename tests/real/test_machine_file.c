/* The files that a calibration writes for known times, read back by stepsim's readers: two nodes of two ranks.
 *
 *     all_reduce   2 ranks, one node     1 KiB  20 µs      64 MiB  10 ms       by itself  35 µs, 11 ms
 *                  4 ranks, two nodes    1 KiB  40 µs      64 MiB  40 ms                  56 µs, 41 ms
 *     send         one node              1 KiB   3 µs      64 MiB  12 ms                  the same */
#include "error.h"
#include "machine_file.h"
#include "run_suite.h"

#include "cluster.h"
#include "data_path.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };
static const double precision = 1e-5; /* relative, of what is written: 6 digits */

static char *folder, *file;
static gboolean is_gpu; /* what is measured is a GPU */

static void set_up(void) {
  is_gpu = FALSE;
  folder = g_dir_make_tmp("stepsim-machine-XXXXXX", NULL);
  ck_assert_ptr_nonnull(folder);
  file = g_build_filename(folder, "known.yaml", NULL);
}

static void tear_down(void) {
  g_autofree char *gpu = machine_gpu_file(file), *library = machine_library_file(file);
  const char *const files[] = {file, gpu, library};
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autofree char *of_file = g_path_get_dirname(files[i]);
    g_unlink(files[i]);
    g_rmdir(of_file);
  }
  g_rmdir(folder);
  g_clear_pointer(&file, g_free);
  g_clear_pointer(&folder, g_free);
}

static WorkItem pass(double bytes) {
  return (WorkItem){.kind = ITEM_MEMORY, .name = "memory", .bytes = bytes};
}

static WorkItem attention(gboolean backward) {
  return (WorkItem){.kind = ITEM_ATTENTION,
                    .number = NUMBER_FP32,
                    .backward = backward != FALSE,
                    .batch = 2,
                    .m = 256,
                    .n = 256,
                    .k = 64,
                    .v_dim = 64};
}

/* Written and read. */
/* `update_Bps`: of AdamW on the host. */
static Cluster *known_machine_that_updates(const Gpu *base, double update_Bps) {
  const WorkItem product = {.kind = ITEM_MATMUL, .number = NUMBER_FP32, .batch = 1, .m = 1024, .n = 1024, .k = 1024};
  const KernelTime kernels[] = {{product, 1e-3, 0, 5},
                                {pass(64 * 1000), 1e-6, 0, 5},
                                {pass(64e6), 4e-3, 0, 5},
                                {attention(FALSE), 100e-6, 0, 5},
                                {attention(TRUE), 200e-6, 0, 5}};
  const LinkTime times[] = {
      {COLLECTIVE_ALL_REDUCE, 2, 1, KIB, 20e-6, 0, 35e-6}, {COLLECTIVE_ALL_REDUCE, 2, 1, 64 * MIB, 10e-3, 0, 11e-3},
      {COLLECTIVE_ALL_REDUCE, 4, 2, KIB, 40e-6, 0, 56e-6}, {COLLECTIVE_ALL_REDUCE, 4, 2, 64 * MIB, 40e-3, 0, 41e-3},
      {COLLECTIVE_SEND_RECV, 2, 1, KIB, 3e-6, 0, 3e-6},    {COLLECTIVE_SEND_RECV, 2, 1, 64 * MIB, 12e-3, 0, 12e-3}};
  LinkTimes links = {.times = g_array_new(FALSE, FALSE, sizeof(LinkTime)),
                     .eager_bytes = 8 * KIB,
                     .products_beside = 1.5,
                     .collective_beside = 2,
                     .tax = 0.625};
  g_array_append_vals(links.times, times, G_N_ELEMENTS(times));
  const DeviceFacts facts = {.memory_bytes = 8e9, .launch_s = 2e-6, .kernel_s = 5e-6, .is_host_memory = !is_gpu};
  const HostTimes host = {
      .link_Bps = 10e9, .links_Bps = 16e9, .memory_Bps = 40e9, .update_Bps = update_Bps, .memory_bytes = 64e9};
  const MachineDescription machine = {.file = file,
                                      .source = "a test",
                                      .facts = &facts,
                                      .kernels = kernels,
                                      .n_kernels = G_N_ELEMENTS(kernels),
                                      .links = &links,
                                      .host = &host,
                                      .base = base,
                                      .n_ranks = 4,
                                      .n_local = 2};
  g_autoptr(GError) error = NULL;
  ck_assert_msg(machine_files_write(&machine, &error), "%s", error != NULL ? error->message : "");
  link_times_clear(&links);
  Cluster *cluster = cluster_read(file, &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "");
  return cluster;
}

static Cluster *known_machine(const Gpu *base) {
  return known_machine_that_updates(base, 18e9);
}

static void assert_near(double found, double expected) {
  ck_assert_double_eq_tol(found, expected, precision * expected);
}

/* A ring of n moves 2(n − 1)/n of the bytes over each link: 1 of 2 ranks, 1.5 of 4. The latency is the shortest send's.
 */
TEST(links_have_the_rates_of_the_largest_all_reduce_and_the_shortest_send) {
  g_autoptr(Cluster) cluster = known_machine(NULL);
  ck_assert_int_eq(cluster->gpus_per_node, 2);
  ck_assert_int_eq(cluster->nics_per_node, 2);
  assert_near(cluster->scale_up_Bps, 64.0 * MIB / 10e-3);
  assert_near(cluster->nic_Bps, 1.5 * 64 * MIB / 40e-3);
  assert_near(cluster->scale_up_latency_s, 3e-6);
  assert_near(cluster->nic_latency_s, 3e-6);
  ck_assert_int_eq(cluster->max_gpus, 4);
  ck_assert_int_eq(cluster->eager_bytes, 8 * KIB);
  for (int link = 0; link < N_LINKS; link++)
    assert_near(cluster->transfer_tax.of_link[link], 0.625);
}

/* Each operation's and group's smallest; sends were not timed in rows. */
TEST(a_transfer_by_itself_is_written_apart) {
  g_autoptr(Cluster) cluster = known_machine(NULL);
  g_autofree char *text = NULL;
  ck_assert(g_file_get_contents(file, &text, NULL, NULL));
  ck_assert_ptr_nonnull(strstr(text, "all_reduce over 2 GPUs, 1024 B: 35 us by itself, with its launch, beside 20 us"));
  ck_assert_ptr_nonnull(strstr(text, "all_reduce over 4 GPUs, 1024 B: 56 us by itself, with its launch, beside 40 us"));
  ck_assert_ptr_null(strstr(text, "11000 us"));
  ck_assert_ptr_null(strstr(text, "3 us by itself"));
}

/* Of the smallest all-reduce in a node, 20 µs, half is fixed and half its 2(2 − 1) steps'. */
TEST(the_library_halves_the_smallest_all_reduce) {
  g_autoptr(Cluster) cluster = known_machine(NULL);
  const CollectiveLibrary *library = &cluster->collectives;
  assert_near(library->base_s[ALGORITHM_RING][PROTOCOL_SIMPLE], 10e-6);
  assert_near(library->hop_s[LINK_NET][ALGORITHM_TREE][PROTOCOL_LL], 5e-6);
}

TEST(measured_curves_are_what_was_measured) {
  g_autoptr(Cluster) cluster = known_machine(NULL);
  const MeasuredLinks *measured = cluster->measured;
  ck_assert_ptr_nonnull(measured);
  ck_assert_int_eq(measured->n_collectives, 2);
  const MeasuredCollective *over_nodes = &measured->collectives[1];
  ck_assert(over_nodes->gpus == 4 && over_nodes->nodes == 2 && over_nodes->span.n_points == 2);
  const CurvePoint *points = &measured->points[over_nodes->span.first_point];
  assert_near(points[0].time_s, 40e-6);
  assert_near(points[1].size_bytes, 64 * MIB);
  assert_near(points[1].time_s, 40e-3);
  ck_assert_int_eq(measured->sends[SEND_IN_NODE].n_points, 2);
  assert_near(measured->send_points[measured->sends[SEND_IN_NODE].first_point].time_s, 3e-6);
}

/* One rank's copies alone reach 10 GB/s, those of two their half of 16. The update reads and writes 18 of 40. */
TEST(the_host_has_the_rates_of_copies_and_of_the_update) {
  g_autoptr(Cluster) cluster = known_machine(NULL);
  const Host *host = &cluster->host;
  assert_near(host_link_Bps(host, &cluster->node, 1), 10e9);
  assert_near(host_link_Bps(host, &cluster->node, 2), 8e9);
  assert_near(host->memory_Bps * host->update_efficiency, 18e9);
  assert_near(cluster->host_memory_bytes, 64e9);
}

/* A 4,000th of the memory's rate is less than a cluster file takes. */
TEST(an_update_too_slow_to_state_is_said) {
  g_autoptr(Cluster) cluster = known_machine_that_updates(NULL, 10e6);
  g_autofree char *text = NULL;
  ck_assert(g_file_get_contents(file, &text, NULL, NULL));
  ck_assert_ptr_nonnull(
      strstr(text, "    update_efficiency: 0.001  # the least that can be stated; measured: 0.00025\n"));
  ck_assert_double_eq(cluster->host.update_efficiency, 0.001);
  g_autoptr(Cluster) fast = known_machine(NULL);
  g_autofree char *other = NULL;
  ck_assert(g_file_get_contents(file, &other, NULL, NULL));
  ck_assert_ptr_nonnull(strstr(other, "    update_efficiency: 0.45\n"));
  assert_near(fast->host.update_efficiency, 0.45);
}

/* Product: 2·1024³ FLOPs in 1 ms. Memory: 64 MB in 4 ms; the pass of 64 kB is too small to tell. Attention: 2 heads ×
 * 256·257/2 pairs × 4·64 FLOPs forward in 100 µs, 10·64 backward in 200 µs, as shares of that peak. */
TEST(without_a_base_the_best_that_was_measured_is_the_peak) {
  g_autoptr(Cluster) cluster = known_machine(NULL);
  const Gpu *gpu = &cluster->gpu;
  const double peak = 2.0 * 1024 * 1024 * 1024 / 1e-3, pairs = 2 * 256.0 * 257 / 2;
  assert_near(gpu->peak_flops[NUMBER_FP32], peak);
  assert_near(gpu->hbm_Bps, 64e6 / 4e-3);
  assert_near(gpu->hbm_efficiency, 1);
  ck_assert_double_eq_tol(gpu->attention_forward, pairs * 4 * 64 / 100e-6 / peak, 1e-4);
  ck_assert_double_eq_tol(gpu->attention_backward, pairs * 10 * 64 / 200e-6 / peak, 1e-4);
  assert_near(gpu->kernel_latency_s, 5e-6);
  assert_near(gpu->host_launch_s, 2e-6);
  assert_near(gpu->hbm_bytes, 8e9);
}

/* Launches and memory-bound kernels of a GPU are not a framework's; on a CPU nothing else runs. */
TEST(kernels_of_a_gpu_are_said_to_be_stepreals) {
  for (int gpu = 0; gpu < 2; gpu++) {
    is_gpu = gpu;
    g_autoptr(Cluster) cluster = known_machine(NULL);
    ck_assert_int_eq(cluster->gpu.measured->origin, gpu ? ORIGIN_STEPREAL : ORIGIN_ANY);
    assert_near(cluster->gpu.host_launch_s, 2e-6);
  }
}

/* What two GPUs have in common, whatever is said of them: all but names, files and tables. */
static Gpu described(const Gpu *gpu) {
  Gpu alone;
  memcpy(&alone, gpu, sizeof alone); /* its padding, too */
  alone.name = alone.file = NULL;
  alone.bases = NULL;
  alone.measured = NULL;
  return alone;
}

static Gpu shipped_gpu(const char *name) {
  g_autoptr(GError) error = NULL;
  g_autofree char *base = data_path_find("topologies/gpus", name, ".yaml", &error);
  Gpu gpu = {0};
  ck_assert_msg(base != NULL && gpu_read(base, &gpu, &error), "%s", error != NULL ? error->message : "");
  return gpu;
}

/* Of every GPU that is shipped: each field of the struct is the base's. What was measured stands in the tables, where
 * launches and the least kernel are too: those of `latency` are a framework's. */
TEST(a_base_keeps_everything_it_says) {
  g_auto(GStrv) names = data_path_list("topologies/gpus", ".yaml");
  ck_assert_uint_gt(g_strv_length(names), 10);
  for (char **name = names; *name != NULL; name++) {
    Gpu base = shipped_gpu(*name);
    g_autoptr(Cluster) cluster = known_machine(&base);
    const MeasuredKernels *measured = cluster->gpu.measured;
    ck_assert_str_eq(cluster->gpu.source, base.source);
    Gpu found = described(&cluster->gpu), expected = described(&base);
    found.source = expected.source;
    ck_assert_msg(memcmp(&found, &expected, sizeof found) == 0, "%s: a field is lost", *name);
    ck_assert_int_eq(measured->origin, ORIGIN_STEPREAL);
    assert_near(measured->kernel_s, 5e-6);
    assert_near(measured->host_launch_s, 2e-6);
    ck_assert_str_eq(measured->source, "a test");
    ck_assert_int_eq(measured->n_products, base.peak_flops[NUMBER_FP32] > 0);
    gpu_clear(&base);
  }
}

/* The file names its base by name, so that it can be read on another machine; by its path where that name would lead to
 * another file. Tables of the base give way, and so does its own share under load. */
TEST(a_base_is_named_so_that_it_is_found) {
  Gpu shipped = shipped_gpu("h200-sxm5-141gb");
  cluster_free(known_machine(&shipped));
  g_autofree char *gpu_file = machine_gpu_file(file), *text = NULL;
  ck_assert(g_file_get_contents(gpu_file, &text, NULL, NULL));
  ck_assert_ptr_nonnull(strstr(text, "\nbase: h200-sxm5-141gb\n"));
  gpu_clear(&shipped);

  g_autofree char *own = g_build_filename(folder, "h200's.yaml", NULL);
  ck_assert(g_file_set_contents(own,
                                "name: own\nbase: h200-sxm5-141gb\npower: 600 W\nmeasured:\n  source: x\n"
                                "  under_load: 0.9\n  kernels:\n    - {name: norm, bytes: 1 MB, time: 3 us}\n",
                                -1, NULL));
  Gpu base = {0};
  ck_assert(gpu_read(own, &base, NULL));
  ck_assert(machine_base_check(file, &base, NULL));
  g_autoptr(Cluster) cluster = known_machine(&base);
  assert_near(cluster->gpu.power_W, 600);
  ck_assert_double_eq(cluster->gpu.measured->under_load, 1);
  ck_assert_int_eq(cluster->gpu.measured->n_curves, 1); /* memory; the base has norm */
  gpu_clear(&base);
  g_unlink(own);
}

/* Whether it is the base of the file, or the base's base. */
TEST(a_file_is_not_written_over_its_own_base) {
  g_autoptr(Cluster) cluster = known_machine(NULL);
  g_autofree char *other = g_build_filename(folder, "other.yaml", NULL), *gpu_file = machine_gpu_file(file);
  g_autofree char *text = g_strdup_printf("name: other\nbase: %s\n", gpu_file);
  ck_assert(g_file_set_contents(other, text, -1, NULL));
  for (int i = 0; i < 2; i++) {
    g_autoptr(GError) error = NULL;
    Gpu base = {0};
    ck_assert(gpu_read(i == 0 ? gpu_file : other, &base, NULL));
    ck_assert(!machine_base_check(file, &base, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_ptr_nonnull(strstr(error->message, "would be written over its own base"));
    gpu_clear(&base);
  }
  g_unlink(other);
}

/* A file, its base, and so on: the chain of the file to be written may not get longer than its readers follow. */
TEST(a_base_of_too_long_a_chain_is_refused_before_anything_is_measured) {
  g_autofree char *last = g_strdup("h200-sxm5-141gb");
  g_autoptr(GError) error = NULL;
  gboolean fits = TRUE;
  for (int i = 0; i < 6 && fits; i++) {
    g_autofree char *path = g_strdup_printf("%s/%d.yaml", folder, i), *text = NULL;
    text = g_strdup_printf("name: x\nbase: %s\n", last);
    ck_assert(g_file_set_contents(path, text, -1, NULL));
    g_free(g_steal_pointer(&last));
    last = g_steal_pointer(&path);
    Gpu base = {0};
    ck_assert(gpu_read(last, &base, NULL));
    fits = machine_base_check(file, &base, &error);
    if (fits)
      cluster_free(known_machine(&base));
    gpu_clear(&base);
  }
  ck_assert(!fits && g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  for (int i = 0; i < 6; i++) {
    g_autofree char *path = g_strdup_printf("%s/%d.yaml", folder, i);
    g_unlink(path);
  }
}

int main(void) {
  tcase_add_checked_fixture(listed_tests(), set_up, tear_down);
  return run_tests();
}
