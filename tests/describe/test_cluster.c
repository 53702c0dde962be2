/* Shipped descriptions are read and make physical sense; broken ones are refused with file, line and what was expected,
 * whatever the bytes. */
#include "cluster.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

#define TOPOLOGIES STEPSIM_SOURCE_DATA "/topologies"
#define FIXTURES STEPSIM_SOURCE_DATA "/tests/data"

static char *folder;                  /* temporary; holds cluster.yaml and gpu.yaml as the tests break them */
static char *cluster_text, *gpu_text; /* of the sound ones */

static char *read_text(const char *path) {
  char *text = NULL;
  ck_assert_msg(g_file_get_contents(path, &text, NULL, NULL), "cannot read %s", path);
  return text;
}

/* Not g_file_set_contents(): it waits for the disk, thousands of times here. */
static char *write_bytes(const char *name, const char *bytes, gssize length) {
  char *path = g_build_filename(folder, name, NULL);
  gsize n_bytes = length < 0 ? strlen(bytes) : (gsize)length;
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(bytes, 1, n_bytes, file), n_bytes);
  ck_assert_int_eq(fclose(file), 0);
  return path;
}

static void set_up(void) {
  folder = g_dir_make_tmp("stepsim-cluster-XXXXXX", NULL);
  ck_assert_ptr_nonnull(folder);
  cluster_text = read_text(FIXTURES "/cluster.yaml");
  gpu_text = read_text(FIXTURES "/gpu.yaml");
  g_free(write_bytes("gpu.yaml", gpu_text, -1));
}

static void tear_down(void) {
  const char *names[] = {"cluster.yaml", "gpu.yaml"};
  for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autofree char *path = g_build_filename(folder, names[i], NULL);
    g_unlink(path);
  }
  g_rmdir(folder);
  g_clear_pointer(&folder, g_free);
  g_clear_pointer(&cluster_text, g_free);
  g_clear_pointer(&gpu_text, g_free);
}

/* `text` with its only `from` replaced by `to`; *line is where that happened, from 1. */
static char *broken_text(const char *text, const char *from, const char *to, int *line) {
  const char *at = strstr(text, from);
  ck_assert_msg(at != NULL && strstr(at + 1, from) == NULL, "\"%s\" is not there exactly once", from);
  *line = 1;
  for (const char *c = text; c < at; c++)
    *line += *c == '\n';
  GString *edited = g_string_new(text);
  g_string_replace(edited, from, to, 1);
  return g_string_free(edited, FALSE);
}

static void assert_refused_at(const char *path, int line, const char *expected, const GError *error) {
  ck_assert_msg(error != NULL, "accepted, expected an error with \"%s\"", expected);
  g_autofree char *place = g_strdup_printf("%s:%d: ", path, line);
  ck_assert_msg(g_str_has_prefix(error->message, place), "\"%s\" does not begin with \"%s\"", error->message, place);
  ck_assert_msg(strstr(error->message, expected) != NULL, "\"%s\" lacks \"%s\"", error->message, expected);
}

typedef struct {
  const char *from, *to;
  int lines_on; /* the error's line, after that of `from` */
  const char *expected;
} Break;

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

START_TEST(every_shipped_cluster_is_read) {
  g_auto(GStrv) files = shipped("");
  ck_assert_uint_ge(g_strv_length(files), 24);
  for (int i = 0; files[i] != NULL; i++) {
    g_autofree char *path = g_build_filename(TOPOLOGIES, files[i], NULL);
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = cluster_read(path, &error);
    ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : files[i]);
    assert_named_after(cluster->name, files[i]);
    ck_assert_int_eq(cluster->domain_gpus % cluster->gpus_per_node, 0);
  }
}
END_TEST

START_TEST(every_shipped_gpu_is_read) {
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
END_TEST

static gboolean is_near(double found, double expected, double share) {
  return ABS(found - expected) <= share * expected;
}

START_TEST(peaks_follow_from_sms_and_clock) {
  g_auto(GStrv) files = shipped("gpus");
  for (int i = 0; files[i] != NULL; i++) {
    g_autofree char *path = g_build_filename(TOPOLOGIES "/gpus", files[i], NULL);
    Gpu gpu;
    ck_assert(gpu_read(path, &gpu, NULL));
    /* A tensor core does a power of two FLOP per cycle: an SM 1024 (Volta), 2048 (Ampere), 4096 (Hopper), 8192
     * (Blackwell) in 16 bits. Clocks are printed to three digits. */
    double per_cycle = gpu.peak_flops[NUMBER_FP16] / (gpu.n_sms * gpu.clock_Hz);
    ck_assert_msg(is_near(per_cycle, 1024, .01) || is_near(per_cycle, 2048, .01) || is_near(per_cycle, 4096, .01) ||
                      is_near(per_cycle, 8192, .01),
                  "%s: %g FLOP per cycle and SM", files[i], per_cycle);
    /* Half the bits, twice the rate; tf32 moves 32 bits. */
    if (gpu.peak_flops[NUMBER_FP8] > 0)
      ck_assert(is_near(gpu.peak_flops[NUMBER_FP8], 2 * gpu.peak_flops[NUMBER_FP16], .001));
    if (gpu.peak_flops[NUMBER_TF32] > 0)
      ck_assert(is_near(gpu.peak_flops[NUMBER_TF32], gpu.peak_flops[NUMBER_FP16] / 2, .001));
    gpu_clear(&gpu);
  }
}
END_TEST

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

START_TEST(clusters_agree_with_the_reference_table) {
  const char *shared = g_getenv("STEPSIM_SHARED");
  g_autofree char *path = g_build_filename(shared != NULL ? shared : "", "reference", "clusters.csv", NULL);
  if (shared == NULL || !g_file_test(path, G_FILE_TEST_EXISTS))
    return; /* the table is not part of the source */
  g_autofree char *text = read_text(path);
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
END_TEST

START_TEST(values_arrive_in_base_units) {
  g_autoptr(Cluster) cluster = cluster_read("llama3-h100", NULL);
  ck_assert_ptr_nonnull(cluster);
  ck_assert(g_str_has_suffix(cluster->file, "topologies/llama3-h100.yaml"));
  ck_assert_double_eq_tol(cluster->nic_Bps, 50e9, 1); /* 400 Gb/s / 8 */
  ck_assert_double_eq_tol(cluster->scale_up_Bps, 450e9, 1);
  ck_assert_double_eq_tol(cluster->gpu.peak_flops[NUMBER_BF16], 989.4e12, 1e6);
  ck_assert_double_eq_tol(cluster->gpu.hbm_bytes, 80 * 1073741824.0, 1);
  ck_assert_double_eq(cluster->node_egress_gpus, 1); /* 8 GPUs, 8 NICs */
  ck_assert_double_eq_tol(cluster->dollars_per_gpu_hour, 3.5, 1e-12);
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
END_TEST

START_TEST(a_node_without_nics_has_no_egress) {
  g_autoptr(Cluster) cluster = cluster_read("simumax-b200", NULL);
  ck_assert_ptr_nonnull(cluster);
  ck_assert_int_eq(cluster->nics_per_node, 0);
  ck_assert_double_eq(cluster->node_egress_gpus, 0);
  ck_assert_double_eq(cluster->nic_Bps, 0);
}
END_TEST

START_TEST(fewer_nics_than_gpus_share) {
  g_autoptr(Cluster) cluster = cluster_read("ibm-a100", NULL);
  ck_assert_ptr_nonnull(cluster);
  ck_assert_double_eq(cluster->node_egress_gpus, 4); /* 8 GPUs, 2 NICs */
}
END_TEST

static const Break cluster_breaks[] = {
    {"efficiency: 0.78", "efficency: 0.78", 0, "unknown key \"efficency\", expected one of kind"},
    {"efficiency: 0.78", "efficency: 0.78", 0, "did you mean \"efficiency\"?"},
    {"efficiency: 0.78", "efficiency: 1.2", 0, "found \"1.2\", expected a number from 0.001 to 1"},
    {"efficiency: 0.78", "efficiency: 0", 0, "found \"0\""},
    {"efficiency: 0.78", "efficiency: nan", 0, "found \"nan\""},
    {"efficiency: 0.78", "efficiency: 78 %", 0, "found \"78 %\""},
    {"efficiency: 0.78", "efficiency:", 0, "found nothing"},
    {"efficiency: 0.78", "efficiency: [0.78]", 0, "found a list, expected a text"},
    {"efficiency: 0.78", "<<: {efficiency: 0.78}", 0, "unknown key \"<<\""},
    {"bandwidth: 450 GB/s", "bandwidth: 450", 0, "bandwidth: found \"450\" without a unit, expected one of b/s"},
    {"bandwidth: 450 GB/s", "bandwidth: 450 GBs", 0, "did you mean"},
    {"bandwidth: 450 GB/s", "bandwidth: 450 GB", 0, "found unit \"GB\""},
    {"bandwidth: 450 GB/s", "bandwidth: 450 us", 0, "found unit \"us\""},
    {"bandwidth: 450 GB/s", "bandwidth: -450 GB/s", 0, "found \"-450 GB/s\""},
    {"bandwidth: 450 GB/s", "bandwidth: 1e999 GB/s", 0, "found \"1e999 GB/s\""},
    {"bandwidth: 450 GB/s", "bandwidth: 450 kB/s", 0, "expected 1.000 MB/s to 100.0 TB/s"},
    {"    bandwidth: 450 GB/s", "    bandwidth: 450 GB/s\n    bandwidth: 450 GB/s", 1, "found twice in one mapping"},
    {"bandwidth: 400 Gb/s", "rate: 400 Gb/s", 0, "unknown key \"rate\""},
    {"    bandwidth: 400 Gb/s\n", "", -1, "nic: the key \"bandwidth\" is missing"},
    {"kind: nvswitch", "kind: nvswich", 0, "expected one of nvswitch, nvlink_mesh, pcie; did you mean"},
    {"  gpus: 8", "  gpus: 0", 0, "expected a whole number from 1 to 4096"},
    {"  gpus: 8", "  gpus: 8.5", 0, "found \"8.5\""},
    {"  gpus: 8", "  gpus: 99999999999999999999", 0, "expected a whole number"},
    {"domain: 16", "domain: 12", -5, "found domain 12, expected a multiple of the node's"},
    {"domain: 16", "domain: 16\n    segment: 12", -5, "found segment 12, expected a multiple of the node's 8 GPUs"},
    {"domain: 16", "domain: 16\n    segment: 24", -5, "found segment 24, expected a multiple of the node's 8 GPUs, at"},
    {"nics: 4", "nics: 0", 1, "nic: found a description, but nics is 0"},
    {"span: 24576", "span: 3072", 0, "expected more than the 3072 below"},
    {"span: 3072", "span: 8", 0, "expected more than the 8 below"},
    {"oversubscription: 7", "oversubscription: 0.5", 0, "expected a number from 1"},
    {"gpu: gpu.yaml", "gpu: h100-sxm-80gb", 0, "did you mean \"h100-sxm5-80gb\"?"},
    {"gpu: gpu.yaml", "gpu: gpus/none.yaml", 0, "gpu: gpus/none.yaml: no such file"},
    {"collectives: \"2.30\"\n", "", -3, "the key \"collectives\" is missing: constants of the collective library"},
    {"gpu: gpu.yaml", "gpu: nccl/2.30.yaml", 0, "gpu: nccl/2.30.yaml: no such file"},
    {"gpu: gpu.yaml", "gpu: {name: x}", 0, "found a mapping, expected a text"},
    {"collectives: \"2.30\"", "collectives: 2.3", 0, "did you mean \"2.30\"?"},
    {"price: 3.50 $/h", "price: 3.50", 0, "without a unit"},
    {"node:", "node: &n", 0, "found an anchor"},
    {"name: fixture", "name: *n", 0, "found an alias (*n)"},
    {"name: fixture", "name: !!str fixture", 0, "found a tag"},
    {"name: fixture", "? [a]\n: b", 0, "found a list as a key"},
    {"price: 3.50 $/h", "---\na: b", 0, "found a second document"},
    {"price: 3.50 $/h", "price: [3.50 $/h", 1, "flow sequence from line 28 on"},
    {"kind: nvswitch", "\tkind: nvswitch", 0, "cannot start any token"},
};

START_TEST(a_broken_cluster_is_refused_with_its_line) {
  for (guint i = 0; i < G_N_ELEMENTS(cluster_breaks); i++) {
    const Break *broken = &cluster_breaks[i];
    int line;
    g_autofree char *edited = broken_text(cluster_text, broken->from, broken->to, &line);
    g_autofree char *path = write_bytes("cluster.yaml", edited, -1);
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(cluster_read(path, &error));
    assert_refused_at(path, line + broken->lines_on, broken->expected, error);
  }
}
END_TEST

static const Break gpu_breaks[] = {
    {"sms: 132", "sms: 0", 0, "expected a whole number from 1 to 10000"},
    {"sms: 132", "sm: 132", 0, "did you mean \"sms\"?"},
    {"clock: 1.83 GHz", "clock: 1.83 Hz", 0, "expected 100.0 MHz to 100.0 GHz"},
    {"  bf16: 989.4 TFLOP/s", "  bf61: 989.4 TFLOP/s", 0,
     "unknown key \"bf61\", expected one of fp32, tf32, fp16, bf16"},
    {"  bf16: 989.4 TFLOP/s", "  bf16: 989.4 TB/s", 0, "found unit \"TB/s\""},
    {"  fp8: 1978.9 TFLOP/s\n", "", 6, "sustained: found the key \"fp8\", which peak lacks"},
    {"fp32: 0.80, ", "", 0, "sustained: the key \"fp32\" is missing, as peak has it"},
    {"reserved: 2 GiB", "reserved: 200 GiB", -2, "memory reserved"},
    {"k_ramp: 140", "k_ramp: -1", 0, "expected a number from 0"},
    {"{m: 128, n: 256, efficiency: 1.00}", "{m: 128, efficiency: 1.00}", 0, "the key \"n\" is missing"},
    {"{m: 128, n: 256, efficiency: 1.00}", "128", 0, "found \"128\", expected a mapping"},
    {"forward: 0.50", "forward: 0.50\n  of_generation: 2", 1, "expected a number from 0.05 to 1"},
    {"forward: 0.50", "forwards: 0.50", 0, "did you mean \"forward\"?"},
    {"4 B: 0.69, 8 B: 0.69}", "4 B: 0.69, 8 B: 0.6}", 0, "found less at \"8 B\" than at \"4 B\""},
    {"kernel: 3 us", "kernel: 3 m", 0, "found unit \"m\""},
};

START_TEST(a_broken_gpu_is_refused_with_its_line) {
  for (guint i = 0; i < G_N_ELEMENTS(gpu_breaks); i++) {
    const Break *broken = &gpu_breaks[i];
    int line;
    g_autofree char *edited = broken_text(gpu_text, broken->from, broken->to, &line);
    g_autofree char *path = write_bytes("gpu.yaml", edited, -1);
    g_autoptr(GError) error = NULL;
    Gpu gpu;
    ck_assert(!gpu_read(path, &gpu, &error));
    assert_refused_at(path, line + broken->lines_on, broken->expected, error);
  }
}
END_TEST

START_TEST(more_tiles_than_there_is_room_for_are_refused) {
  const char *one = "    - {m: 128, n: 256, efficiency: 1.00}\n";
  GString *text = g_string_new(gpu_text);
  for (int i = 0; i < GPU_MAX_TILES; i++)
    g_string_insert(text, strstr(text->str, one) - text->str, one);
  g_autofree char *path = write_bytes("gpu.yaml", text->str, (gssize)text->len);
  g_string_free(text, TRUE);
  g_autoptr(GError) error = NULL;
  Gpu gpu;
  ck_assert(!gpu_read(path, &gpu, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "tiles: found 14 items, expected 1 to 12"));
}
END_TEST

START_TEST(everything_a_cluster_can_say_arrives) {
  g_autofree char *path = write_bytes("cluster.yaml", cluster_text, -1);
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = cluster_read(path, &error);
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
END_TEST

START_TEST(a_bare_name_means_a_shipped_gpu) {
  int line;
  g_autofree char *edited = broken_text(cluster_text, "gpu: gpu.yaml", "gpu: b200-sxm-180gb", &line);
  g_autofree char *path = write_bytes("cluster.yaml", edited, -1);
  g_autoptr(Cluster) cluster = cluster_read(path, NULL);
  ck_assert_ptr_nonnull(cluster);
  ck_assert_str_eq(cluster->gpu.name, "b200-sxm-180gb");
}
END_TEST

START_TEST(a_missing_cluster_suggests_the_nearest) {
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(cluster_read("lama3-h100", &error));
  ck_assert_ptr_nonnull(strstr(error->message, "did you mean \"llama3-h100\"?"));
  ck_assert_ptr_null(cluster_read(NULL, NULL));
  ck_assert_ptr_null(cluster_read("", NULL));
}
END_TEST

static void assert_bytes_refused(const char *bytes, gssize length, const char *expected) {
  g_autofree char *path = write_bytes("cluster.yaml", bytes, length);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(cluster_read(path, &error));
  ck_assert_ptr_nonnull(error);
  ck_assert_msg(g_str_has_prefix(error->message, path), "\"%s\"", error->message);
  ck_assert_msg(strstr(error->message, expected) != NULL, "\"%s\" lacks \"%s\"", error->message, expected);
}

START_TEST(files_that_are_no_description_are_refused) {
  assert_bytes_refused("", 0, "empty");
  assert_bytes_refused("# a comment\n", -1, "empty");
  assert_bytes_refused("---\n...\n", -1, "found nothing, expected a mapping");
  assert_bytes_refused("- a\n- b\n", -1, "found a list, expected a mapping");
  assert_bytes_refused("llama3\n", -1, "found \"llama3\", expected a mapping");
  assert_bytes_refused("name: a\0b\n", 10, "UTF-8");
  assert_bytes_refused("name: \"a\\0b\"\n", -1, "NUL");
  assert_bytes_refused("name: x\nsource: \xff\xfe\n", -1, ":2: found a byte that is not UTF-8");
  assert_bytes_refused("\xff\xfe"
                       "n\0a\0",
                       6, "UTF-8");
  assert_bytes_refused("name: x\n\nsource: \x07\n", -1, ":3: control characters");
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(cluster_read(folder, &error));
  ck_assert_ptr_nonnull(error);
}
END_TEST

/* `n` times `piece`. */
static void assert_flood_refused(const char *piece, int n, const char *expected) {
  gsize length = strlen(piece);
  GString *flood = g_string_sized_new(length * (gsize)n);
  for (int i = 0; i < n; i++)
    g_string_append_len(flood, piece, (gssize)length);
  assert_bytes_refused(flood->str, (gssize)flood->len, expected);
  g_string_free(flood, TRUE);
}

START_TEST(floods_are_refused_at_once) {
  /* 4 MB of each; a reader that resolves or recurses would take minutes, or the stack. */
  assert_flood_refused("[", 4 << 20, "nested more than 32 deep");
  assert_flood_refused("{a: ", 1 << 20, "nested more than 32 deep");
  assert_flood_refused("- ", 2 << 20, "nested more than 32 deep");
  assert_flood_refused("- a\n", 1 << 20, "more than 65536 values");
  assert_flood_refused("- &a x\n", 1 << 19, "found an anchor");
  assert_flood_refused("a: b\n", 60000, "unknown key \"a\"");
  assert_flood_refused("a", 4 << 20, "expected a mapping");
  assert_flood_refused("# noise\n", 1 << 19, "empty");
  assert_flood_refused("# noise\n", (16 << 17) + 1, "larger than 16 MiB");
}
END_TEST

/* Whatever the bytes, a reader either returns a cluster or says why not. */
static void assert_answers(const char *path) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = cluster_read(path, &error);
  ck_assert((cluster == NULL) == (error != NULL));
}

START_TEST(noise_is_refused) {
  g_autoptr(GRand) random = g_rand_new_with_seed(1);
  gsize length = 10 << 20;
  g_autofree guint32 *noise = g_new(guint32, length / sizeof(guint32));
  for (gsize i = 0; i < length / sizeof *noise; i++)
    noise[i] = g_rand_int(random);
  assert_bytes_refused((const char *)noise, (gssize)length, "");
}
END_TEST

START_TEST(a_file_cut_anywhere_is_read_or_refused) {
  for (gsize length = 0; length < strlen(cluster_text); length++) {
    g_autofree char *path = write_bytes("cluster.yaml", cluster_text, (gssize)length);
    assert_answers(path);
  }
  g_autofree char *path = write_bytes("cluster.yaml", cluster_text, -1);
  for (gsize length = 0; length < strlen(gpu_text); length++) {
    g_free(write_bytes("gpu.yaml", gpu_text, (gssize)length)); /* the file that path's refers to */
    assert_answers(path);
  }
}
END_TEST

START_TEST(a_file_with_changed_bytes_is_read_or_refused) {
  gint32 length = (gint32)strlen(cluster_text);
  g_autoptr(GRand) random = g_rand_new_with_seed(2);
  static const char bytes[] = "&*!%@`[]{}:?-|>\"'#,\n\t 0aA\\\x80\xc3";
  for (int round = 0; round < 1000; round++) {
    g_autofree char *changed = g_strdup(cluster_text);
    for (int i = 0; i < 3; i++)
      changed[g_rand_int_range(random, 0, length)] = bytes[g_rand_int_range(random, 0, (gint32)sizeof bytes)];
    g_autofree char *path = write_bytes("cluster.yaml", changed, length);
    assert_answers(path);
  }
}
END_TEST

int main(void) {
  TCase *cases = tcase_create("cluster");
  tcase_add_checked_fixture(cases, set_up, tear_down);
  tcase_set_timeout(cases, 60);
  tcase_add_test(cases, every_shipped_cluster_is_read);
  tcase_add_test(cases, every_shipped_gpu_is_read);
  tcase_add_test(cases, peaks_follow_from_sms_and_clock);
  tcase_add_test(cases, clusters_agree_with_the_reference_table);
  tcase_add_test(cases, values_arrive_in_base_units);
  tcase_add_test(cases, a_node_without_nics_has_no_egress);
  tcase_add_test(cases, fewer_nics_than_gpus_share);
  tcase_add_test(cases, a_broken_cluster_is_refused_with_its_line);
  tcase_add_test(cases, a_broken_gpu_is_refused_with_its_line);
  tcase_add_test(cases, more_tiles_than_there_is_room_for_are_refused);
  tcase_add_test(cases, everything_a_cluster_can_say_arrives);
  tcase_add_test(cases, a_bare_name_means_a_shipped_gpu);
  tcase_add_test(cases, a_missing_cluster_suggests_the_nearest);
  tcase_add_test(cases, files_that_are_no_description_are_refused);
  tcase_add_test(cases, floods_are_refused_at_once);
  tcase_add_test(cases, noise_is_refused);
  tcase_add_test(cases, a_file_cut_anywhere_is_read_or_refused);
  tcase_add_test(cases, a_file_with_changed_bytes_is_read_or_refused);
  Suite *suite = suite_create("cluster");
  suite_add_tcase(suite, cases);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int n_failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return n_failed != 0;
}
