/* Shipped descriptions are read and make physical sense; every value in a file is read. */
#include "cluster.h"
#include "run_suite.h"

#include "broken_text.h"
#include "text_file.h"

#define TOPOLOGIES STEPSIM_SOURCE_DATA "/topologies"
#define FIXTURES STEPSIM_SOURCE_DATA "/tests/data"

static GStrv shipped(const char *subfolder) {
  g_autofree char *path = g_build_filename(TOPOLOGIES, subfolder, NULL);
  g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
  ck_assert_ptr_nonnull(dir);
  GStrvBuilder *builder = g_strv_builder_new();
  const char *name;
  while ((name = g_dir_read_name(dir)) != NULL)
    if (g_str_has_suffix(name, ".yaml") && !g_str_has_prefix(name, "this-machine")) /* calibrated here */
      g_strv_builder_add(builder, name);
  GStrv names = g_strv_builder_end(builder);
  g_strv_builder_unref(builder);
  return names;
}

static void assert_named_after(const char *name, const char *file) {
  g_autofree char *expected = g_strconcat(name, ".yaml", NULL);
  ck_assert_str_eq(expected, file);
}

/* 8.0 is the integer 8. */
static void assert_same_with_points(const Cluster *cluster, const char *path) {
  g_autofree char *text = text_file_read(path);
  g_autoptr(GRegex) integer = g_regex_new("\\b(gpus|nics|domain|segment|span|max_gpus): \\d+(?=[,}\\s])", 0, 0, NULL);
  g_autofree char *points = g_regex_replace(integer, text, -1, 0, "\\0.0", 0, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) other = cluster_parse(path, points, &error);
  ck_assert_msg(other != NULL, "%s", error != NULL ? error->message : path);
  ck_assert_int_eq(other->gpus_per_node, cluster->gpus_per_node);
  ck_assert_int_eq(other->nics_per_node, cluster->nics_per_node);
  ck_assert_int_eq(other->domain_gpus, cluster->domain_gpus);
  ck_assert_int_eq(other->segment_gpus, cluster->segment_gpus);
  ck_assert_int_eq(other->max_gpus, cluster->max_gpus);
  ck_assert_int_eq(other->n_tiers, cluster->n_tiers);
  for (int tier = 0; tier < cluster->n_tiers; tier++)
    ck_assert_int_eq(other->tiers[tier].span_gpus, cluster->tiers[tier].span_gpus);
}

TEST(every_shipped_cluster_is_read) {
  g_auto(GStrv) files = shipped("");
  ck_assert_uint_ge(g_strv_length(files), 24);
  for (int i = 0; files[i] != NULL; i++) {
    g_autofree char *path = g_build_filename(TOPOLOGIES, files[i], NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = cluster_read(path, &error);
    ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : files[i]);
    assert_named_after(cluster->name, files[i]);
    ck_assert_int_eq(cluster->domain_gpus % cluster->gpus_per_node, 0);
    ck_assert_msg(cluster->host_memory_bytes > 0 && host_link_Bps(&cluster->host, &cluster->node, 1) > 0,
                  "%s says nothing of its hosts", files[i]);
    assert_same_with_points(cluster, path);
  }
}

TEST(every_shipped_gpu_is_read) {
  g_auto(GStrv) files = shipped("gpus");
  ck_assert_uint_ge(g_strv_length(files), 12);
  for (int i = 0; files[i] != NULL; i++) {
    g_autofree char *path = g_build_filename(TOPOLOGIES "/gpus", files[i], NULL);
    g_autoptr(GError) error = NULL;
    Gpu gpu;
    ck_assert_msg(gpu_read(path, &gpu, &error), "%s", error != NULL ? error->message : files[i]);
    assert_named_after(gpu.name, files[i]);
    gpu_clear(&gpu);
    ck_assert_ptr_null(gpu.name);
  }
}

static gboolean is_near(double found, double expected, double share) {
  return ABS(found - expected) <= share * expected;
}

TEST(peaks_follow_from_sms_and_clock) {
  g_auto(GStrv) files = shipped("gpus");
  for (int i = 0; files[i] != NULL; i++) {
    g_autofree char *path = g_build_filename(TOPOLOGIES "/gpus", files[i], NULL);
    Gpu gpu;
    ck_assert(gpu_read(path, &gpu, NULL));
    /* A tensor core does a power of two FLOP per cycle: an SM 512 (GeForce and L40 with sums in fp32), 1024
     * (Volta, Ada), 2048 (Ampere), 4096 (Hopper), 8192 (Blackwell) in 16 bits. Clocks are printed to three digits. */
    double per_cycle = gpu.peak_flops[NUMBER_FP16] / (gpu.n_sms * gpu.clock_Hz);
    ck_assert_msg(is_near(per_cycle, 512, .01) || is_near(per_cycle, 1024, .01) || is_near(per_cycle, 2048, .01) ||
                      is_near(per_cycle, 4096, .01) || is_near(per_cycle, 8192, .01),
                  "%s: %g FLOP per cycle and SM", files[i], per_cycle);
    /* Half the bits, twice the rate; tf32 moves 32 bits. */
    if (gpu.peak_flops[NUMBER_FP8] > 0)
      ck_assert(is_near(gpu.peak_flops[NUMBER_FP8], 2 * gpu.peak_flops[NUMBER_FP16], .001));
    if (gpu.peak_flops[NUMBER_TF32] > 0)
      ck_assert(is_near(gpu.peak_flops[NUMBER_TF32], gpu.peak_flops[NUMBER_FP16] / 2, .001));
    gpu_clear(&gpu);
  }
}

/* One row of the reference table: name,gpu,hbm_gb,gpus_per_node,scale_up,GB/s,nics,Gb/s,… */
static void assert_row_agrees(char **row) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = cluster_read(row[0], &error);
  ck_assert_msg(cluster != NULL, "%s: %s", row[0], error != NULL ? error->message : "");
  /* Vendors' memory "GB" are GiB, as device drivers report it. */
  ck_assert_double_eq(cluster->gpu.hbm_bytes, g_ascii_strtod(row[2], NULL) * 1073741824);
  ck_assert_int_eq(cluster->gpus_per_node, atoi(row[3]));
  ck_assert_int_eq(cluster->domain_gpus, strstr(row[0], "nvl72") != NULL ? 72 : atoi(row[3]));
  ck_assert_int_eq(cluster->scale_up, strstr(row[4], "PCIe") != NULL ? SCALE_UP_PCIE : SCALE_UP_NVSWITCH);
  ck_assert_double_eq_tol(cluster->scale_up_Bps, g_ascii_strtod(row[5], NULL) * 1e9, 1);
  ck_assert_int_eq(cluster->nics_per_node, atoi(row[6]));
  ck_assert_double_eq_tol(cluster->nic_Bps, g_ascii_strtod(row[7], NULL) * 1e9 / 8, 1);
  ck_assert_msg(g_ascii_strncasecmp(cluster->gpu.name, row[1], 4) == 0, "%s has %s", row[0], cluster->gpu.name);
}

TEST(clusters_agree_with_the_reference_table) {
  const char *shared = g_getenv("STEPSIM_SHARED");
  g_autofree char *path = g_build_filename(shared != NULL ? shared : "", "reference", "clusters.csv", NULL);
  if (shared == NULL || !g_file_test(path, G_FILE_TEST_EXISTS))
    return; /* the table is not part of the source */
  g_autofree char *text = text_file_read(path);
  g_auto(GStrv) lines = g_strsplit(g_strchomp(text), "\n", -1);
  int n_rows = 0;
  for (int i = 0; lines[i] != NULL; i++) {
    g_auto(GStrv) row = g_strsplit(lines[i], ",", -1);
    if (lines[i][0] == '#' || g_strcmp0(row[0], "name") == 0)
      continue;
    ck_assert_uint_ge(g_strv_length(row), 8);
    assert_row_agrees(row);
    n_rows++;
  }
  ck_assert_int_eq(n_rows, 24);
}

TEST(values_arrive_in_base_units) {
  g_autoptr(Cluster) cluster = cluster_read("llama3-h100", NULL);
  ck_assert_ptr_nonnull(cluster);
  ck_assert(g_str_has_suffix(cluster->file, "topologies/llama3-h100.yaml"));
  ck_assert_double_eq_tol(cluster->nic_Bps, 50e9, 1); /* 400 Gb/s / 8 */
  ck_assert_double_eq_tol(cluster->scale_up_Bps, 450e9, 1);
  ck_assert_double_eq_tol(cluster->gpu.peak_flops[NUMBER_BF16], 989.4e12, 1e6);
  ck_assert_double_eq_tol(cluster->gpu.hbm_bytes, 80 * 1073741824.0, 1);
  ck_assert_double_eq(cluster->gpu.power_W, 700);
  ck_assert_double_eq(cluster->node_egress_gpus, 1); /* 8 GPUs, 8 NICs */
  ck_assert_double_eq_tol(cluster->dollars_per_gpu_hour, 6.16, 1e-12);
  ck_assert_int_eq(cluster->max_gpus, 24576);
  ck_assert_int_eq(cluster->n_tiers, 2);
  ck_assert_int_eq(cluster->tiers[1].span_gpus, 24576);
  ck_assert_double_eq(cluster->tiers[1].oversubscription, 7);
  ck_assert_int_eq(cluster->eager_bytes, 131072); /* 128 KiB */
  /* NCCL 2.30: LL ring step over NVLink 0.6 us, Simple tree step over the network 14 us, Tree LL 0.92/3.8. */
  const CollectiveLibrary *library = &cluster->collectives;
  ck_assert_str_eq(library->version, "2.30");
  ck_assert_double_eq_tol(library->hop_s[LINK_NVLINK][ALGORITHM_RING][PROTOCOL_LL], 0.6e-6, 1e-15);
  ck_assert_double_eq_tol(library->hop_s[LINK_NET][ALGORITHM_TREE][PROTOCOL_SIMPLE], 14e-6, 1e-15);
  ck_assert_double_eq_tol(library->base_s[ALGORITHM_TREE][PROTOCOL_LL], 6.8e-6, 1e-15);
  ck_assert_double_eq_tol(library->bandwidth_share[ALGORITHM_TREE][PROTOCOL_LL], 0.92 / 3.8, 1e-3);
}

TEST(a_node_without_nics_has_no_egress) {
  g_autoptr(Cluster) cluster = cluster_read("simumax-b200", NULL);
  ck_assert_ptr_nonnull(cluster);
  ck_assert_int_eq(cluster->nics_per_node, 0);
  ck_assert_double_eq(cluster->node_egress_gpus, 0);
  ck_assert_double_eq(cluster->nic_Bps, 0);
}

TEST(fewer_nics_than_gpus_share) {
  g_autoptr(Cluster) cluster = cluster_read("ibm-a100", NULL);
  ck_assert_ptr_nonnull(cluster);
  ck_assert_double_eq(cluster->node_egress_gpus, 4); /* 8 GPUs, 2 NICs */
}

TEST(everything_a_cluster_can_say_arrives) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = cluster_read(FIXTURES "/cluster.yaml", &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_int_eq(cluster->domain_gpus, 16);
  ck_assert_double_eq(cluster->node_egress_gpus, 2); /* 8 GPUs, 4 NICs */
  ck_assert_double_eq_tol(cluster->nic_latency_s, 20e-6, 1e-15);
  ck_assert_double_eq_tol(cluster->host_memory_bytes, 2e12, 1);
  ck_assert_int_eq(cluster->n_tiers, 2);
  ck_assert_str_eq(cluster->gpu.name, "fixture"); /* beside the cluster file */
  ck_assert_int_eq(cluster->gpu.n_tiles, 2);
  ck_assert_int_eq(cluster->gpu.tiles[1].m, 64);
  ck_assert_double_eq(cluster->gpu.sustained[NUMBER_FP8], 0.75);
  ck_assert_double_eq(cluster->gpu.peak_flops[NUMBER_FP4], 0); /* not supported */
  ck_assert_double_eq(cluster->gpu.sustained[NUMBER_FP4], 0);
  ck_assert_double_eq_tol(cluster->gpu.host_launch_s, 5e-6, 1e-15);
}

TEST(a_bare_name_means_a_shipped_gpu) {
  static const BrokenText shipped_gpu = {"gpu: gpu.yaml", "gpu: b200-sxm-180gb"};
  g_autofree char *sound = text_file_read(FIXTURES "/cluster.yaml"), *text = broken_text(sound, &shipped_gpu, NULL);
  g_autoptr(Cluster) cluster = cluster_parse("cluster.yaml", text, NULL);
  ck_assert_ptr_nonnull(cluster);
  ck_assert_str_eq(cluster->gpu.name, "b200-sxm-180gb");
}

TEST(a_missing_cluster_suggests_the_nearest) {
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(cluster_read("lama3-h100", &error));
  ck_assert_ptr_nonnull(strstr(error->message, "did you mean \"llama3-h100\"?"));
  ck_assert_ptr_null(cluster_read(NULL, NULL));
  ck_assert_ptr_null(cluster_read("", NULL));
}

int main(void) {
  return run_tests();
}
