/* The key base: of clusters and GPUs: what is merged, removed and refused. */
#include "cluster.h"
#include "run_suite.h"
#include "yaml_base.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

static char *folder;

static void make_folder(void) {
  folder = g_dir_make_tmp("stepsim-base-XXXXXX", NULL);
  ck_assert_ptr_nonnull(folder);
}

static void remove_folder(void) {
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  const char *name;
  while ((name = g_dir_read_name(dir)) != NULL) {
    g_autofree char *path = g_build_filename(folder, name, NULL);
    g_unlink(path);
  }
  g_rmdir(folder);
  g_clear_pointer(&folder, g_free);
}

/* The path of a file in the folder. Owned by the caller. */
static char *write_file(const char *name, const char *text) {
  char *path = g_build_filename(folder, name, NULL);
  ck_assert(g_file_set_contents(path, text, -1, NULL));
  return path;
}

/* The same for one that others name. */
static void add_file(const char *name, const char *text) {
  g_free(write_file(name, text));
}

static Cluster *cluster_of(const char *name, const char *text) {
  g_autofree char *path = write_file(name, text);
  g_autoptr(GError) error = NULL;
  Cluster *cluster = cluster_read(path, &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "");
  return cluster;
}

/* What is wrong in the file itself is not put down to its base. */
static void assert_refused_at(const char *text, const char *place) {
  g_autofree char *path = write_file("refused.yaml", text), *begin = g_strconcat(path, place, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = cluster_read(path, &error);
  ck_assert_ptr_null(cluster);
  ck_assert_msg(g_str_has_prefix(error->message, begin), "\"%s\" does not begin: %s", begin, error->message);
}

static void assert_refused(const char *text, const char *expected) {
  g_autofree char *path = write_file("refused.yaml", text);
  g_autoptr(GError) error = NULL;
  g_autoptr(Cluster) cluster = cluster_read(path, &error);
  ck_assert_ptr_null(cluster);
  ck_assert_msg(strstr(error->message, expected) != NULL, "\"%s\" is not in: %s", expected, error->message);
}

TEST(a_cluster_is_its_base_but_for_what_it_says) {
  g_autoptr(Cluster) base = cluster_read("dgx-h100", NULL);
  g_autoptr(Cluster) cluster =
      cluster_of("own.yaml", "name: own\nbase: dgx-h100\nnode: {nics: 4, pcie: none, nic: {latency: 7 us}}\n");
  ck_assert_str_eq(cluster->name, "own");
  ck_assert_str_eq(cluster->source, base->source);
  ck_assert_int_eq(cluster->nics_per_node, 4);
  ck_assert_double_eq(cluster->nic_latency_s, 7e-6);
  ck_assert_double_eq(cluster->nic_Bps, base->nic_Bps); /* beside latency in the same mapping */
  ck_assert_int_gt(base->node.n_sockets, 0);
  ck_assert_int_eq(cluster->node.n_sockets, 0);
  ck_assert_str_eq(cluster->gpu.name, base->gpu.name);
  ck_assert(g_str_has_suffix(cluster->bases->pdata[0], "/dgx-h100.yaml"));
  ck_assert(g_str_has_suffix(base->bases->pdata[0], "/hosts/dgx-h100.yaml")); /* of its node */
  ck_assert_uint_eq(cluster->bases->len, 1 + base->bases->len);
}

TEST(bases_stand_on_bases_and_beside_the_file) {
  add_file("gpu.yaml", "name: half\nbase: h100-sxm5-80gb\nhbm: {bandwidth: 1675 GB/s}\n");
  add_file("middle.yaml", "name: middle\nbase: dgx-h100\nprice: 3 $/h\nmax_gpus: 64\n");
  g_autoptr(Cluster) cluster = cluster_of("top.yaml", "name: top\nbase: middle.yaml\ngpu: gpu.yaml\nmax_gpus: 8\n");
  ck_assert_double_eq(cluster->dollars_per_gpu_hour, 3);
  ck_assert_int_eq(cluster->max_gpus, 8);
  ck_assert_double_eq(cluster->gpu.hbm_Bps, 1675e9);
  ck_assert_double_gt(cluster->gpu.hbm_bytes, 80e9); /* its base's */
  ck_assert_str_eq(cluster->gpu.name, "half");
  ck_assert(g_str_has_suffix(cluster->bases->pdata[0], "/middle.yaml"));
  ck_assert(g_str_has_suffix(cluster->bases->pdata[1], "/topologies/dgx-h100.yaml"));
  ck_assert_uint_eq(cluster->gpu.bases->len, 1);
  g_autoptr(Cluster) unpriced = cluster_of("free.yaml", "name: free\nbase: middle.yaml\nprice: none\n");
  ck_assert_double_eq(unpriced->dollars_per_gpu_hour, 0); /* a number is taken away too */
  ck_assert_int_eq(unpriced->max_gpus, 64);
}

typedef struct {
  char *name;
  YamlNode list, map, gone, new, a, b;
} Top;

typedef struct {
  char *c, *e;
} Leaves;

/* A host has all but the drives that its base lacks; the cluster takes another memory and no drives, and one over it
 * gets back what its own host says. */
TEST(a_node_may_have_a_base_of_its_own) {
  add_file("slow.yaml", "name: slow\nsource: s\nhost: {link_efficiency: 0.5, update_efficiency: 0.25}\n");
  add_file("fast.yaml", "name: fast\nbase: slow.yaml\nsource: s\nhost_memory: 2 TB\nhost: {link_efficiency: 0.75, "
                        "memory_bandwidth: 400 GB/s}\nnvme: {capacity: 30 TB, read: 50 GB/s, write: 20 GB/s}\n");
  g_autoptr(Cluster) cluster =
      cluster_of("c.yaml", "name: c\nbase: dgx-h100\nnode: {base: fast.yaml, host_memory: 1 TB, nvme: none}\n");
  ck_assert_double_eq(cluster->host.link_efficiency, 0.75);
  ck_assert_double_eq(cluster->host.update_efficiency, 0.25);
  ck_assert_double_eq(cluster->host.memory_Bps, 400e9);
  ck_assert_double_eq(cluster->host_memory_bytes, 1e12);
  ck_assert_double_eq(cluster->host.nvme_bytes, 30.72e12); /* those of dgx-h100: this node's own have been taken away */
  g_autoptr(Cluster) over = cluster_of("o.yaml", "name: o\nbase: c.yaml\nnode: {base: fast.yaml, nvme: none}\n");
  ck_assert_double_eq(over->host_memory_bytes, 2e12);
}

TEST(lists_and_texts_stand_for_the_whole) {
  g_autofree char *base =
      write_file("base.yaml", "name: b\nlist: [1, 2, 3]\nmap: {a: 1, b: {c: word}}\ngone: {d: 4}\n");
  g_autofree char *over =
      write_file("over.yaml", "name: o\nbase: base.yaml\nlist: [9]\nmap: {b: {c: none, e: 5}}\ngone: none\nnew: 6\n");
  Top top = {0};
  const YamlField fields[] = {{"name", FIELD_TEXT, TRUE, offsetof(Top, name)},
                              {"list", FIELD_NODE, TRUE, offsetof(Top, list)},
                              {"map", FIELD_NODE, TRUE, offsetof(Top, map)},
                              {"gone", FIELD_NODE, FALSE, offsetof(Top, gone)},
                              {"new", FIELD_NODE, TRUE, offsetof(Top, new)}};
  g_autoptr(GError) error = NULL;
  g_autoptr(YamlFile) file = yaml_read_over_bases(over, "topologies", NULL, &error);
  ck_assert_msg(file != NULL, "%s", error != NULL ? error->message : "");
  ck_assert(yaml_map_read(yaml_file_root(file), fields, G_N_ELEMENTS(fields), &top, &error));
  ck_assert_str_eq(top.name, "o");
  ck_assert_int_eq(yaml_list_length(top.list, 9, NULL), 1);
  ck_assert(!yaml_is_present(top.gone));
  ck_assert_str_eq(yaml_text(top.new, NULL), "6");
  const YamlField inner[] = {{"a", FIELD_NODE, TRUE, offsetof(Top, a)}, {"b", FIELD_NODE, TRUE, offsetof(Top, b)}};
  ck_assert(yaml_map_read(top.map, inner, G_N_ELEMENTS(inner), &top, &error));
  ck_assert_str_eq(yaml_path(top.a), base); /* where a value is from is what errors name */
  ck_assert_str_eq(yaml_path(top.b), over);
  Leaves last = {0};
  const YamlField leaves[] = {{"c", FIELD_TEXT, TRUE, offsetof(Leaves, c)},
                              {"e", FIELD_TEXT, TRUE, offsetof(Leaves, e)}};
  ck_assert(yaml_map_read(top.b, leaves, G_N_ELEMENTS(leaves), &last, &error));
  ck_assert_str_eq(last.c, "none"); /* of a word, none is another */
  ck_assert_str_eq(last.e, "5");
  g_free(last.c);
  g_free(last.e);
  g_free(top.name);
}

/* As GPU files have heads up to some size at a rate of their own. */
TEST(a_gpu_is_its_base_but_for_a_key_deep_inside) {
  g_autofree char *other = write_file("o.yaml", "name: o\nbase: gb200\nattention: {narrow_heads: {rate: 0.6}}\n");
  g_autofree char *none = write_file("n.yaml", "name: n\nbase: gb200\nattention: {narrow_heads: none}\n");
  g_autofree char *half =
      write_file("h.yaml", "name: h\nbase: h100-sxm5-80gb\nattention: {narrow_heads: {up_to: 64}}\n");
  Gpu gpu;
  g_autoptr(GError) error = NULL;
  ck_assert(gpu_read(other, &gpu, NULL));
  ck_assert(gpu.attention_narrow == 0.6 && gpu.attention_narrow_head == 64);
  gpu_clear(&gpu);
  ck_assert(gpu_read(none, &gpu, NULL));
  ck_assert_int_eq(gpu.attention_narrow_head, 0);
  gpu_clear(&gpu);
  ck_assert(!gpu_read(half, &gpu, &error));
  ck_assert_msg(strstr(error->message, "h.yaml:3: narrow_heads: the key \"rate\" is missing") != NULL, "%s",
                error->message);
}

TEST(what_cannot_be_a_base_is_refused) {
  assert_refused("base: dgx-h100\n", "refused.yaml:1: the key \"name\" is missing");
  assert_refused("name: x\nbase: dgx-h10\n", "refused.yaml:2: base: dgx-h10: no such file");
  assert_refused("name: x\nbase: refused.yaml\n", "expected at most 4 files, each the base of the one before");
  assert_refused("name: x\nbase: [dgx-h100]\n", "refused.yaml:2: base: found a list, expected a text");
  assert_refused("name: x\nbase: dgx-h100\nnode: {nic: {bandwith: 1 GB/s}}\n", "did you mean \"bandwidth\"");
  assert_refused("name: x\nbase: dgx-h100\nnode: {nics: 4, nics: 8}\n", "refused.yaml:3: nics: found twice");
  assert_refused_at("name: x\nbase: dgx-h100\nnode: {nics: four}\n", ":3: nics: found \"four\"");
  assert_refused("name: x\nbase: dgx-h100\nbase: dgx-a100\n",
                 "refused.yaml:3: base: found twice in one mapping, first in "
                 "line 2");
  assert_refused(
      "name: x\nbase: dgx-h100\nmeasured: none\n",
      "refused.yaml:3: measured: found \"none\", expected a mapping: none takes away what a base has, and no "
      "base has this; leave it out");
  assert_refused("name: x\nbase: dgx-h100\nfabric: {tiers: none}\n", "expected a list: none takes away");
  add_file("list.yaml", "[1, 2]\n");
  assert_refused("name: x\nbase: list.yaml\n", "refused.yaml:2: base: found a file without keys");
  assert_refused("name: x\nbase: dgx-h100\nnode: {base: dgx-h10}\n", "refused.yaml:3: base: dgx-h10: no such file");
  assert_refused("name: x\nbase: dgx-h100\nnode: {base: cpu-adam, base: pcie-4}\n", "base: found twice in one mapping");
  assert_refused("name: x\nbase: dgx-h100\nnode: {base: list.yaml}\n", "found a file without keys");
  assert_refused("name: x\nbase: dgx-h100\nfabric: {base: cpu-adam}\n", "refused.yaml:3: unknown key \"base\"");
  add_file("bare.yaml", "name: bare\nhost_memory: 1 TB\n");
  assert_refused("name: x\nbase: dgx-h100\nnode: {base: bare.yaml}\n", "bare.yaml:1: the key \"source\" is missing");
  add_file("odd.yaml", "name: odd\nsource: s\nhost: {link_speed: 1 GB/s}\n");
  assert_refused("name: x\nbase: dgx-h100\nnode: {base: odd.yaml}\n", "odd.yaml:3: unknown key \"link_speed\"");
  /* what the base has and the file does not go together with: told where it stands */
  assert_refused("name: x\nbase: dgx-h100\nnode: {nics: 4}\n", "refused.yaml, over its base: ");
  assert_refused("name: x\nbase: dgx-h100\nnode: {nics: 4}\n", "dgx-h100.yaml:");
  assert_refused("name: x\nbase: dgx-h100\nnode: {nics: 4}\n", "expected 0 to 3 (\"pcie: none\" takes the base's");
}

int main(void) {
  tcase_add_checked_fixture(listed_tests(), make_folder, remove_folder);
  return run_tests();
}
