/* Clusters in words: what they come to, what they leave to the usual cluster, which words are refused. */
#include "cluster.h"
#include "cluster_words.h"
#include "data_path.h"
#include "run_suite.h"
#include "topology_check.h"

#include <string.h>

static Cluster *read_words(const char *words) {
  GError *error = NULL;
  Cluster *cluster = cluster_read(words, &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : words);
  return cluster;
}

/* Every GPU that is shipped has one, which is of such GPUs or lends itself to them. */
TEST(every_gpu_has_a_usual_cluster) {
  g_auto(GStrv) names = data_path_list("topologies/gpus", ".yaml");
  g_autoptr(GArray) usual = usual_clusters_read(NULL);
  ck_assert_ptr_nonnull(usual);
  ck_assert_uint_eq(usual->len, g_strv_length(names));
  for (guint i = 0; i < usual->len; i++) {
    const UsualCluster *row = &g_array_index(usual, UsualCluster, i);
    ck_assert_msg(g_strv_contains((const char *const *)names, row->gpu), "%s is no GPU", row->gpu);
    g_autoptr(Cluster) base = read_words(row->cluster);
    g_autofree char *words = g_strdup_printf("%dx %s", base->domain_gpus, row->gpu);
    g_autoptr(Cluster) cluster = read_words(words);
    ck_assert_str_eq(cluster->gpu.name, row->gpu);
    ck_assert_int_eq(cluster->gpus_per_node, base->gpus_per_node);
    ck_assert_int_eq(cluster->domain_gpus, base->domain_gpus);
    ck_assert_int_eq(cluster->nics_per_node, base->nics_per_node);
    ck_assert_double_eq(cluster->scale_up_Bps, base->scale_up_Bps);
    ck_assert_double_eq(cluster->host.memory_Bps, base->host.memory_Bps);
  }
}

/* The words of what the file says change nothing. */
TEST(the_usual_numbers_are_the_usual_cluster) {
  g_autoptr(Cluster) words = read_words("8x h100, 400 Gb/s x 8"), file = read_words("dgx-h100");
  ck_assert_str_eq(words->gpu.file, file->gpu.file);
  ck_assert_double_eq(words->nic_Bps, file->nic_Bps);
  ck_assert_double_eq(words->nic_efficiency, file->nic_efficiency);
  ck_assert_double_eq(words->dollars_per_gpu_hour, file->dollars_per_gpu_hour);
  ck_assert_int_eq(words->leaves.n_nodes, file->leaves.n_nodes);
  ck_assert_int_eq(words->node.n_switches, 8);
}

static const struct {
  const char *words, *gpu;
  int n_gpus, domain, n_nics;
  double nic_Bps, scale_up_Bps;
} read_as[] = {
    {"8x h100", "h100-sxm5-80gb", 8, 8, 8, 50e9, 450e9},
    {"8×H100 , 400 Gb/s × 8", "h100-sxm5-80gb", 8, 8, 8, 50e9, 450e9},
    {"8x h100-sxm, 100 Gb/s", "h100-sxm5-80gb", 8, 8, 1, 12.5e9, 450e9},
    {"8x h100, pcie", "h100-pcie-80gb", 8, 8, 2, 50e9, 50e9},
    {"8x h100, nvlink 300 GB/s", "h100-sxm5-80gb", 8, 8, 8, 50e9, 300e9},
    {"8x h100, no nics", "h100-sxm5-80gb", 8, 8, 0, 50e9, 450e9},
    {"4x a100-80gb, 200 Gb/s x 4", "a100-sxm4-80gb", 4, 4, 4, 25e9, 300e9},
    {"8x a100-40gb", "a100-sxm4-40gb", 8, 8, 8, 25e9, 300e9},
    {"4x a100", "a100-sxm4-80gb", 4, 4, 4, 25e9, 300e9}, /* half of the base's NICs for half of its GPUs */
    {"8x l40s, pcie, 100 Gb/s", "l40s", 8, 8, 1, 12.5e9, 25e9},
    {"2x 4090", "rtx-4090", 2, 2, 1, 25e9, 25e9}, /* 2 · 2 / 8 NICs would be none */
    {"72x gb200", "gb200", 4, 72, 4, 50e9, 900e9},
    {"36x gb200, 800 Gb/s x 36", "gb200", 4, 36, 4, 100e9, 900e9},
    {"2x gb200", "gb200", 2, 2, 2, 50e9, 900e9},
    {"4x mi300x", "mi300x", 4, 4, 4, 50e9, 192e9}, /* 3 links of 64 GB/s are left */
    {"4x gh200, nvlink 300 GB/s", "gh200-96gb", 4, 4, 4, 25e9, 300e9},
};

TEST(words_say_gpus_links_and_nics) {
  for (gsize i = 0; i < G_N_ELEMENTS(read_as); i++) {
    g_autoptr(Cluster) cluster = read_words(read_as[i].words);
    ck_assert_str_eq(cluster->name, read_as[i].words);
    ck_assert_str_eq(cluster->file, read_as[i].words);
    ck_assert_str_eq(cluster->gpu.name, read_as[i].gpu);
    ck_assert_msg(cluster->gpus_per_node == read_as[i].n_gpus && cluster->domain_gpus == read_as[i].domain &&
                      cluster->nics_per_node == read_as[i].n_nics,
                  "%s: %d of %d, %d NICs", read_as[i].words, cluster->gpus_per_node, cluster->domain_gpus,
                  cluster->nics_per_node);
    if (read_as[i].n_nics > 0)
      ck_assert_double_eq_tol(cluster->nic_Bps, read_as[i].nic_Bps, 1);
    ck_assert_double_eq_tol(cluster->scale_up_Bps, read_as[i].scale_up_Bps, 1);
    g_autoptr(GPtrArray) notices = topology_notices(cluster);
    ck_assert_msg(notices->len == 0, "%s", notices->len > 0 ? (const char *)notices->pdata[0] : "");
  }
}

TEST(a_fabric_is_said_in_words) {
  g_autoptr(Cluster) cluster = read_words("8x h100, 400 Gb/s x 8, leaves of 16 nodes, 2:1");
  ck_assert_int_eq(cluster->leaves.n_nodes, 16);
  ck_assert_int_eq(cluster->n_tiers, 1);
  ck_assert_double_eq(cluster->tiers[0].oversubscription, 2);
}

/* What the words come to can be saved, and is the same cluster from then on. */
TEST(words_are_a_file) {
  g_autofree char *text = cluster_text_of_words("4x a100, 200 Gb/s x 4", NULL);
  ck_assert_ptr_nonnull(strstr(text, "\nbase: dgx-a100-80gb\n"));
  g_autoptr(Cluster) saved = cluster_parse("saved.yaml", text, NULL), words = read_words("4x a100, 200 Gb/s x 4");
  ck_assert_ptr_nonnull(saved);
  ck_assert_int_eq(saved->nics_per_node, words->nics_per_node);
  ck_assert_int_eq(saved->node.n_switches, words->node.n_switches);
}

/* What is typed can be edited in the file, although the base has the same. */
TEST(what_is_typed_is_in_the_file) {
  g_autofree char *text = cluster_text_of_words("8x h200, 400 Gb/s x 8", NULL);
  ck_assert_ptr_nonnull(
      strstr(text, "\ngpu: h200-sxm5-141gb\nnode:\n  gpus: 8\n  nics: 8\n  nic: {bandwidth: 400 Gb/s}\n"));
  g_autofree char *rack = cluster_text_of_words("72x gb200, 400 Gb/s x 72", NULL);
  ck_assert_ptr_nonnull(
      strstr(rack, "\n  gpus: 4\n  nics: 4\n  nic: {bandwidth: 400 Gb/s}\n  scale_up:\n    domain: 72\n"));
}

TEST(what_looks_wrong_in_them_is_noticed) {
  g_autoptr(Cluster) cluster = read_words("8x h100, nvlink 900 GB/s, 800 Gb/s x 8");
  g_autoptr(GPtrArray) notices = topology_notices(cluster);
  ck_assert_uint_eq(notices->len, 2);
  ck_assert_ptr_nonnull(strstr(notices->pdata[0], "(and 7 more like it)"));
  ck_assert_ptr_nonnull(strstr(notices->pdata[1], "node.scale_up.bandwidth is that of one direction"));
}

/* A rate alone is one NIC, which is noticed where such a node has more: 8, and half of them for half of its GPUs. */
TEST(one_nic_where_more_are_usual_is_noticed) {
  g_autofree char *eight = cluster_notice_of_words("8x h200, 400 Gb/s"),
                  *four = cluster_notice_of_words("4x h200, 400 Gb/s"),
                  *said = cluster_notice_of_words("8x h200, 400 Gb/s x 1"),
                  *usual = cluster_notice_of_words("1x h200, 400 Gb/s"), *file = cluster_notice_of_words("dgx-h200");
  ck_assert_str_eq(eight, "8x h200, 400 Gb/s: 1 NIC of 400 Gb/s per node, where a usual h200 node has 8: "
                          "\"400 Gb/s x 8\"");
  ck_assert_ptr_nonnull(strstr(four, "\"400 Gb/s x 4\""));
  ck_assert_ptr_null(said);
  ck_assert_ptr_null(usual);
  ck_assert_ptr_null(file);
}

static const struct {
  const char *words, *message;
} refused[] = {
    {"8x", "found no GPU behind \"8x\""},
    {"0x h100", "found \"0\" in \"0x h100\""},
    {"99999999999999999999x h100", "expected a number of GPUs in a node"},
    {"64x h100", "found 64 GPUs, expected those of one node, at most 16; --gpus says how many"},
    {"74x gb200", "at most 72, whole nodes of 4"},
    {"42x gb200", "whole nodes of 4"},
    {"8x h10", "found GPU \"h10\"; did you mean"},
    {"8x xyzzy", "stepsim list gpus has the names"},
    {"8x h100 + 400 Gb/s", "stepsim list gpus has the names, and words are \"GPUSx GPU, RATE x NICS\""},
    {"8x H200 400Gb/s x8", "separated by commas, e.g. \"8x h200, 400 Gb/s x 8\""},
    {"16 nodes of 8x h200, 400 Gb/s", "no such file, and words are \"GPUSx GPU, RATE x NICS\""},
    {"8 h100", "nodes follow from --gpus"},
    {"8x h100-", "found GPU \"h100-\""},
    {"8x b200, pcie", "no cluster with b200-sxm-180gb on PCIe is known"},
    {"8x l40s, nvlink 400 GB/s", "found \"nvlink\", but l40s has none"},
    {"3x v100", "a mesh of 8, of which only all can be had"},
    {"16x mi300x", "joined by a mesh of 8"},
    {"8x h100, 400", "found \"400\" without a unit"},
    {"8x h100, 400G", "found unit \"G\""},
    {"8x h100, 400 Gb/s y 8", "found \"y 8\" behind \"400 Gb/s\""},
    {"8x h100, 400 Gb/s x many", "expected a number of NICs"},
    {"8x h100, 400 Gb/s, 200 Gb/s", "NICs are said twice"},
    {"8x h100, 400 Gb/s, no nics", "found NICs and \"no nics\""},
    {"8x h100, no nics, 400 Gb/s", "NICs are said twice"},
    {"8x h100, nvlink 1 GB/s, nvlink 2 GB/s", "is said twice"},
    {"36x gb200, 400 Gb/s x 7", "expected a multiple of the 9 nodes"},
    {"8x h100, leaves of few", "expected a number of nodes"},
    {"8x h100, 1:2", "such as 2:1"},
    {"8x h100, infiniband", "found \"infiniband\", expected NICs as \"400 Gb/s x 8\""},
    {"8x h100,", "found \"\", expected NICs"},
    {"8x h100, \"", "found \"\"\""},
};

TEST(other_words_are_refused) {
  for (gsize i = 0; i < G_N_ELEMENTS(refused); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = cluster_read(refused[i].words, &error);
    ck_assert_msg(cluster == NULL, "%s", refused[i].words);
    ck_assert_msg(strstr(error->message, refused[i].message) != NULL, "%s", error->message);
    ck_assert_msg(g_str_has_prefix(error->message, "cluster \""), "%s", error->message);
  }
}

TEST(commas_within_words_part_no_list) {
  g_auto(GStrv) parts = cluster_words_split("8x h100, 400 Gb/s x 8, 2:1,dgx-h200, 8x l40s, pcie, no nics,4x a100");
  const char *const expected[] = {"8x h100, 400 Gb/s x 8, 2:1", "dgx-h200", " 8x l40s, pcie, no nics", "4x a100", NULL};
  ck_assert(g_strv_equal((const char *const *)parts, expected));
}

int main(void) {
  return run_tests();
}
