/* Broken cluster and GPU descriptions are refused with file, line and what was expected, whatever the bytes. */
#include "cluster.h"
#include "run_suite.h"

#include "broken_text.h"
#include "text_file.h"

#include <glib/gstdio.h>

#define FIXTURES STEPSIM_SOURCE_DATA "/tests/data"

static char *folder;                  /* temporary; holds cluster.yaml and gpu.yaml as the tests break them */
static char *cluster_text, *gpu_text; /* of the sound ones */

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
  cluster_text = text_file_read(FIXTURES "/cluster.yaml");
  gpu_text = text_file_read(FIXTURES "/gpu.yaml");
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

static const BrokenText cluster_breaks[] = {
    {"efficiency: 0.78", "efficency: 0.78", "unknown key \"efficency\", expected one of kind"},
    {"efficiency: 0.78", "efficency: 0.78", "did you mean \"efficiency\"?"},
    {"efficiency: 0.78", "efficiency: 1.2", "found \"1.2\", expected a number from 0.001 to 1"},
    {"efficiency: 0.78", "efficiency: 0", "found \"0\""},
    {"efficiency: 0.78", "efficiency: nan", "found \"nan\""},
    {"efficiency: 0.78", "efficiency: 78 %", "found \"78 %\""},
    {"efficiency: 0.78", "efficiency:", "found nothing"},
    {"domain: 16", "domain: 16.5", "found \"16.5\", expected a whole number from 1 to 65536"},
    {"domain: 16", "domain: 0x10", "found \"0x10\", expected a whole number"},
    {"domain: 16", "domain: 1e5", "found \"1e5\", expected a whole number from 1 to 65536"},
    {"efficiency: 0.78", "efficiency: [0.78]", "found a list, expected a text"},
    {"efficiency: 0.78", "<<: {efficiency: 0.78}", "unknown key \"<<\""},
    {"bandwidth: 450 GB/s", "bandwidth: 450", "bandwidth: found \"450\" without a unit, expected one of b/s"},
    {"bandwidth: 450 GB/s", "bandwidth: 450 GBs", "did you mean"},
    {"bandwidth: 450 GB/s", "bandwidth: 450 GB", "found unit \"GB\""},
    {"bandwidth: 450 GB/s", "bandwidth: 450 us", "found unit \"us\""},
    {"bandwidth: 450 GB/s", "bandwidth: -450 GB/s", "found \"-450 GB/s\""},
    {"bandwidth: 450 GB/s", "bandwidth: 1e999 GB/s", "found \"1e999 GB/s\""},
    {"bandwidth: 450 GB/s", "bandwidth: 450 kB/s", "expected 1.000 MB/s to 100.0 TB/s"},
    {"    bandwidth: 450 GB/s", "    bandwidth: 450 GB/s\n    bandwidth: 450 GB/s", "found twice in one mapping", 1},
    {"bandwidth: 400 Gb/s", "rate: 400 Gb/s", "unknown key \"rate\""},
    {"    bandwidth: 400 Gb/s\n", "", "nic: the key \"bandwidth\" is missing", -1},
    {"    bandwidth: 400 Gb/s\n    efficiency: 0.9\n", "",
     "the key \"bandwidth\" is missing; missing too: \"efficiency\"", -1},
    {"kind: nvswitch", "kind: nvswich", "expected one of nvswitch, nvlink_mesh, pcie; did you mean"},
    {"  gpus: 8", "  gpus: 0", "expected a whole number from 1 to 4096"},
    {"  gpus: 8", "  gpus: 8.5", "found \"8.5\""},
    {"  gpus: 8", "  gpus: 99999999999999999999", "expected a whole number"},
    {"domain: 16", "domain: 12", "found domain 12, expected a multiple of the node's", -5},
    {"domain: 16", "domain: 16\n    segment: 12", "found segment 12, expected a multiple of the node's 8 GPUs", -5},
    {"domain: 16", "domain: 16\n    segment: 24", "found segment 24, expected a multiple of the node's 8 GPUs, at", -5},
    {"nics: 4", "nics: 0", "nic: found a description, but nics is 0", 1},
    {"span: 24576", "span: 3072", "expected more than the 3072 GPUs of the tier before it"},
    {"span: 3072", "span: 8", "expected more than the 8 GPUs of the node"},
    {"oversubscription: 7", "oversubscription: 0.5", "expected a number from 1"},
    {"gpu: gpu.yaml", "gpu: h100-sxm-80gb", "did you mean \"h100-sxm5-80gb\"?"},
    {"gpu: gpu.yaml", "gpu: gpus/none.yaml", "gpu: gpus/none.yaml: no such file"},
    {"collectives: \"2.30\"\n", "", "the key \"collectives\" is missing: constants of the collective library", -3},
    {"gpu: gpu.yaml", "gpu: nccl/2.30.yaml", "gpu: nccl/2.30.yaml: no such file"},
    {"gpu: gpu.yaml", "gpu: {name: x}", "found a mapping, expected a text"},
    {"collectives: \"2.30\"", "collectives: 2.3", "did you mean \"2.30\"?"},
    {"price: 3.50 $/h", "price: 3.50", "without a unit"},
    {"node:", "node: &n", "found an anchor"},
    {"name: fixture", "name: *n", "found an alias (*n)"},
    {"name: fixture", "name: !!str fixture", "found a tag"},
    {"name: fixture", "? [a]\n: b", "found a list as a key"},
    {"price: 3.50 $/h", "---\na: b", "found a second document"},
    {"price: 3.50 $/h", "price: [3.50 $/h", "flow sequence from line 28 on", 1},
    {"kind: nvswitch", "\tkind: nvswitch", "cannot start any token"},
};

TEST(a_broken_cluster_is_refused_with_its_line) {
  for (guint i = 0; i < G_N_ELEMENTS(cluster_breaks); i++) {
    int line;
    g_autofree char *text = broken_text(cluster_text, &cluster_breaks[i], &line);
    g_autofree char *path = write_bytes("cluster.yaml", text, -1);
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(cluster_read(path, &error));
    assert_refused(error, path, line, &cluster_breaks[i]);
  }
}

static const BrokenText gpu_breaks[] = {
    {"sms: 132", "sms: 0", "expected a whole number from 1 to 10000"},
    {"sms: 132", "sm: 132", "did you mean \"sms\"?"},
    {"clock: 1.83 GHz", "clock: 1.83 Hz", "expected 100.0 MHz to 100.0 GHz"},
    {"  bf16: 989.4 TFLOP/s", "  bf61: 989.4 TFLOP/s", "unknown key \"bf61\", expected one of fp32, tf32, fp16, bf16"},
    {"  bf16: 989.4 TFLOP/s", "  bf16: 989.4 TB/s", "found unit \"TB/s\""},
    {"  fp8: 1978.9 TFLOP/s\n", "", "sustained: found the key \"fp8\", which peak lacks", 6},
    {"fp32: 0.80, ", "", "sustained: the key \"fp32\" is missing, as peak has it"},
    {"reserved: 2 GiB", "reserved: 200 GiB", "memory reserved", -2},
    {"k_ramp: 140", "k_ramp: -1", "expected a number from 0"},
    {"backward: 0.42", "backward: 0.42\n  ramp: -1", "expected a number from 0", 1},
    {"{m: 128, n: 256, efficiency: 1.00}", "{m: 128, efficiency: 1.00}", "the key \"n\" is missing"},
    {"{m: 128, n: 256, efficiency: 1.00}", "128", "found \"128\", expected a mapping"},
    {"forward: 0.50", "forward: 0.50\n  of_generation: 2", "expected a number from 0.05 to 1", 1},
    {"forward: 0.50", "forwards: 0.50", "did you mean \"forward\"?"},
    {"4 B: 0.69, 8 B: 0.69}", "4 B: 0.69, 8 B: 0.6}", "found less at \"8 B\" than at \"4 B\""},
    {"kernel: 3 us", "kernel: 3 m", "found unit \"m\""},
};

TEST(a_broken_gpu_is_refused_with_its_line) {
  for (guint i = 0; i < G_N_ELEMENTS(gpu_breaks); i++) {
    int line;
    g_autofree char *text = broken_text(gpu_text, &gpu_breaks[i], &line);
    g_autofree char *path = write_bytes("gpu.yaml", text, -1);
    g_autoptr(GError) error = NULL;
    Gpu gpu;
    ck_assert(!gpu_read(path, &gpu, &error));
    assert_refused(error, path, line, &gpu_breaks[i]);
  }
}

TEST(more_tiles_than_there_is_room_for_are_refused) {
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

static void assert_bytes_refused(const char *bytes, gssize length, const char *expected) {
  g_autofree char *path = write_bytes("cluster.yaml", bytes, length);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(cluster_read(path, &error));
  ck_assert_ptr_nonnull(error);
  ck_assert_msg(g_str_has_prefix(error->message, path), "\"%s\"", error->message);
  ck_assert_msg(strstr(error->message, expected) != NULL, "\"%s\" lacks \"%s\"", error->message, expected);
}

TEST(files_that_are_no_description_are_refused) {
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

/* `n` times `piece`. */
static void assert_flood_refused(const char *piece, int n, const char *expected) {
  gsize length = strlen(piece);
  GString *flood = g_string_sized_new(length * (gsize)n);
  for (int i = 0; i < n; i++)
    g_string_append_len(flood, piece, (gssize)length);
  assert_bytes_refused(flood->str, (gssize)flood->len, expected);
  g_string_free(flood, TRUE);
}

TEST(floods_are_refused_at_once) {
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

/* Whatever the bytes, a reader either returns a cluster or says why not. */
static void assert_answers(const char *path) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = cluster_read(path, &error);
  ck_assert((cluster == NULL) == (error != NULL));
}

TEST(noise_is_refused) {
  g_autoptr(GRand) random = g_rand_new_with_seed(1);
  gsize length = 10 << 20;
  g_autofree guint32 *noise = g_new(guint32, length / sizeof(guint32));
  for (gsize i = 0; i < length / sizeof *noise; i++)
    noise[i] = g_rand_int(random);
  assert_bytes_refused((const char *)noise, (gssize)length, "");
}

TEST(a_file_cut_anywhere_is_read_or_refused) {
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

TEST(a_file_with_changed_bytes_is_read_or_refused) {
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

int main(void) {
  tcase_add_checked_fixture(listed_tests(), set_up, tear_down);
  return run_tests();
}
