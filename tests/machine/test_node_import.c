/* A machine's own dump of its node becomes an equivalent cluster; anything else is refused with its line, whatever the
 * bytes. */
#include "error.h"
#include "node_import.h"
#include "run_suite.h"

#include "text_file.h"
#include "topology_fixture.h"

#define DATA STEPSIM_SOURCE_DATA "/tests/data/topology/"

/* The cluster an import becomes; the text is what cluster_read() would take. */
static Cluster *import_of(NodeImportParser parse, const char *file, const ImportChoices *choices) {
  GError *error = NULL;
  g_autoptr(NodeImport) import = node_import_read(file, parse, &error);
  ck_assert_msg(import != NULL, "%s", error != NULL ? error->message : "?");
  g_autofree char *text = node_import_yaml(import, choices, &error);
  ck_assert_msg(text != NULL, "%s", error != NULL ? error->message : "?");
  return cluster_of(text);
}

/* The made-up file: GPU 1's slot has 8 lanes behind a bridge of 16; both switches have an uplink of 16 lanes of 32
 * GT/s: 16 · 32 · 128/130 / 8 = 63.015 GB/s. Each GPU has 2 · 9 NVLinks of 25 GB/s. 400,000 Mb/s are 50 GB/s. */
TEST(ncclsxml_becomes_the_node_it_describes) {
  g_autoptr(Cluster) cluster = import_of(nccl_xml_parse, DATA "hopper-4.xml", &(ImportChoices){.name = "t"});
  const NodeTopology *node = &cluster->node;
  ck_assert_int_eq(cluster->gpus_per_node, 4);
  ck_assert_int_eq(cluster->nics_per_node, 2); /* the storage NIC is slower and left out */
  ck_assert_int_eq(cluster->scale_up, SCALE_UP_NVSWITCH);
  ck_assert_double_eq(cluster->scale_up_Bps, 450e9);
  ck_assert_double_eq(cluster->nic_Bps, 50e9);
  ck_assert_str_eq(cluster->gpu.name, "h100-sxm5-80gb");
  ck_assert_int_eq(node->n_sockets, 2);
  ck_assert_int_eq(node->n_switches, 2);             /* the bridge above GPU 1 alone is part of its link */
  ck_assert_double_eq(node->inter_socket_Bps, 22e9); /* model 143 */
  const double x16_Bps = 16 * 32e9 * 128 / 130 / 8;
  ck_assert_double_eq_tol(node->switches[0].uplink_Bps, x16_Bps, 1);
  ck_assert_double_eq_tol(node->gpu_ports[1].Bps, x16_Bps / 2, 1);
  ck_assert_double_eq_tol(node->gpu_ports[2].Bps, x16_Bps, 1);
  for (int gpu = 0; gpu < 4; gpu++) {
    ck_assert_int_eq(node->gpu_ports[gpu].pcie_switch, gpu / 2);
    ck_assert_int_eq(node->rails[gpu].nic, gpu / 2);
  }
}

/* GPU 2 and 3 have 4 + 2 links, the others 8; a ring goes at the pace of 6 · 25 GB/s. The file says no PCIe rates: 31.5
 * GB/s are those of a x16 slot of Ampere. */
TEST(wired_gpus_become_a_mesh) {
  g_autoptr(Cluster) cluster = import_of(nccl_xml_parse, DATA "mesh-4.xml", &(ImportChoices){.name = "t"});
  ck_assert_int_eq(cluster->scale_up, SCALE_UP_NVLINK_MESH);
  ck_assert_double_eq(cluster->scale_up_Bps, 150e9);
  ck_assert_int_eq(cluster->node.n_pairs, 4);
  ck_assert_int_eq(cluster->node.pairs[3].a, 2);
  ck_assert_int_eq(cluster->node.pairs[3].b, 3);
  ck_assert_int_eq(cluster->node.pairs[3].n_links, 2);
  ck_assert_int_eq(cluster->nics_per_node, 0);
  ck_assert_double_eq(cluster->node.gpu_ports[0].Bps, 31.5e9);
}

/* NV12 to each of 3 others would be 36 links where an A100 has 12: a switch. GPU 1 is one bridge farther from NIC 0. */
TEST(a_matrix_on_a_switch_becomes_sockets_and_switches) {
  const ImportChoices choices = {.name = "t", .generation = "ampere", .nic_Bps = 25e9};
  g_autoptr(Cluster) cluster = import_of(smi_matrix_parse, DATA "switched-4.txt", &choices);
  const NodeTopology *node = &cluster->node;
  ck_assert_int_eq(cluster->scale_up, SCALE_UP_NVSWITCH);
  ck_assert_double_eq(cluster->scale_up_Bps, 300e9);
  ck_assert_int_eq(node->n_sockets, 2);
  ck_assert_int_eq(node->n_switches, 2);
  ck_assert_int_eq(node->switches[1].parent, 0);
  ck_assert_int_eq(node->gpu_ports[0].pcie_switch, 1);
  ck_assert_int_eq(node->nic_ports[0].pcie_switch, 1);
  ck_assert_int_eq(node->gpu_ports[1].pcie_switch, 0);
  ck_assert_int_eq(node->gpu_ports[3].pcie_switch, -1);
  ck_assert_int_eq(node->gpu_ports[3].socket, 1); /* by NUMA node: NVLink hides it from GPU 2 */
  ck_assert(node_topology_is_gpudirect(node, 1, 0));
  ck_assert(!node_topology_is_gpudirect(node, 2, 1)); /* PHB */
}

TEST(an_old_matrix_with_named_nics_is_read) {
  const ImportChoices choices = {.name = "t", .generation = "volta", .nic_Bps = 12.5e9};
  g_autoptr(Cluster) cluster = import_of(smi_matrix_parse, DATA "pcie-4.txt", &choices);
  const NodeTopology *node = &cluster->node;
  ck_assert_int_eq(cluster->scale_up, SCALE_UP_PCIE);
  ck_assert_double_eq(cluster->scale_up_Bps, 15.75e9);
  ck_assert_int_eq(cluster->nics_per_node, 1);
  ck_assert_int_eq(node->n_sockets, 2); /* SOC is what SYS was called */
  ck_assert_int_eq(node->n_switches, 3);
  ck_assert_int_eq(node->gpu_ports[0].pcie_switch, node->gpu_ports[1].pcie_switch);
  ck_assert_int_eq(node->gpu_ports[2].pcie_switch, node->nic_ports[0].pcie_switch);
  ck_assert_int_eq(node->switches[node->gpu_ports[0].pcie_switch].parent,
                   node->switches[node->gpu_ports[2].pcie_switch].parent);
}

TEST(what_neither_dump_nor_user_says_is_asked_for) {
  static const struct {
    ImportChoices choices;
    const char *expected;
  } cases[] = {{{.name = "t", .nic_Bps = 25e9}, "--generation is missing"},
               {{.name = "t", .generation = "amper", .nic_Bps = 25e9}, "did you mean \"ampere\"?"},
               {{.name = "t", .generation = "ampere"}, "--nic-bandwidth is missing"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(NodeImport) import = node_import_read(DATA "switched-4.txt", smi_matrix_parse, NULL);
    ck_assert_ptr_null(node_import_yaml(import, &cases[i].choices, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_msg(strstr(error->message, cases[i].expected) != NULL, "%s", error->message);
  }
}

TEST(names_of_any_kind_survive_the_text) {
  static const char *const names[] = {"a \"quoted\" \\ name", "x: y # z", "- [", "line\nbreak", "\xff\xfe", "ü"};
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autoptr(Cluster) cluster = import_of(nccl_xml_parse, DATA "mesh-4.xml", &(ImportChoices){.name = names[i]});
    if (i != 3 && i != 4) /* control characters and stray bytes are replaced */
      ck_assert_str_eq(cluster->name, names[i]);
  }
}

typedef struct {
  NodeImportParser parse;
  const char *file, *from, *to;
  int line; /* 0: of the whole file */
  const char *expected;
} Break;

TEST(each_mistake_is_refused_where_it_stands) {
  static const Break breaks[] = {
      {nccl_xml_parse, "hopper-4.xml", "<system version=\"1\">", "<systems version=\"1\">", 3, "expected <system>"},
      {nccl_xml_parse, "hopper-4.xml", "</cpu>\n</system>", "</system>", 52, "not XML as expected"},
      {nccl_xml_parse, "hopper-4.xml", "dev=\"1\" sm", "dev=\"0\" sm", 14, "dev 0 is that of two GPUs"},
      {nccl_xml_parse, "hopper-4.xml", "dev=\"1\" sm", "dev=\"x\" sm", 14, "found \"x\""},
      {nccl_xml_parse, "hopper-4.xml", "dev=\"1\" sm", "sm", 14, "<gpu> has no dev"},
      {nccl_xml_parse, "hopper-4.xml", "32.0 GT/s PCIe\" link_width=\"8\"", "32 TB\" link_width=\"8\"", 13,
       "expected a rate"},
      {nccl_xml_parse, "hopper-4.xml", "link_width=\"8\">\n          <gpu", "link_width=\"800\">\n          <gpu", 13,
       "link_width"},
      {nccl_xml_parse, "hopper-4.xml", "speed=\"25000\"", "speed=\"fast\"", 49, "speed"},
      {nccl_xml_parse, "mesh-4.xml",
       "target=\"0000:02:00.0\" count=\"4\" tclass=\"0x030200\"/>\n        <nvlink target=\"0000:03",
       "target=\"0000:01:00.0\" count=\"4\"/>\n        <nvlink target=\"0000:03", 6, "wired to itself"},
      {smi_matrix_parse, "pcie-4.txt", "GPU0  GPU1", "gpu0  gpu1", 1, "no line of names"},
      {smi_matrix_parse, "pcie-4.txt", "GPU2    PXB", "GPU2    PBX", 4, "found \"PBX\", expected one of"},
      {smi_matrix_parse, "pcie-4.txt", "GPU2    PXB", "GPU2    PIX", 4, "disagree"},
      {smi_matrix_parse, "pcie-4.txt", "mlx5_0  PXB   PXB   PIX   SOC    X\n", "", 0, "the row of mlx5_0 is missing"},
      {smi_matrix_parse, "pcie-4.txt", "SOC   PXB     0-15\nGPU1", "SOC\nGPU1", 2, "found 4 cells, expected 5"},
      {smi_matrix_parse, "pcie-4.txt", "GPU3    SOC", "GPU2    SOC", 5, "is there twice"},
      {smi_matrix_parse, "pcie-4.txt", "PIX    X    PXB", "PIX   PXB   PXB", 3, "expected X where"},
      {smi_matrix_parse, "pcie-4.txt", "PXB     0-15\nGPU1", "NV4     0-15\nGPU1", 2, "NVLinks join GPUs only"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(breaks); i++) {
    g_autofree char *path = g_strconcat(DATA, breaks[i].file, NULL), *text = text_file_read(path);
    g_auto(GStrv) parts = g_strsplit(text, breaks[i].from, 2);
    ck_assert_msg(g_strv_length(parts) == 2, "\"%s\" is not there", breaks[i].from);
    g_autofree char *broken = g_strjoinv(breaks[i].to, parts);
    g_autoptr(GError) error = NULL;
    g_autoptr(NodeImport) import = breaks[i].parse("dump", broken, strlen(broken), &error);
    ck_assert_msg(import == NULL, "\"%s\" is accepted", breaks[i].to);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    g_autofree char *place = breaks[i].line > 0 ? g_strdup_printf("dump:%d: ", breaks[i].line) : g_strdup("dump: ");
    ck_assert_msg(g_str_has_prefix(error->message, place), "\"%s\": %s", breaks[i].to, error->message);
    ck_assert_msg(strstr(error->message, breaks[i].expected) != NULL, "\"%s\": %s", breaks[i].to, error->message);
  }
}

/* Fuzz: copies of a sound text with a few bytes, words or lines changed. Whatever comes of it, it is an error with a
 * message or a cluster whose graph, checks and first path can be had. */

static const char *const words[] = {"0",     "-1",
                                    "1024",  "99999999999999999999",
                                    "1e308", "nan",
                                    "<",     ">",
                                    "\"",    "</pci>",
                                    "<pci>", "<gpu dev=\"0\">",
                                    "[",     "]",
                                    "{}",    ": ",
                                    "\n",    "\t",
                                    "NV12",  "PIX",
                                    "SYS",   "X",
                                    "GPU0",  "NIC0",
                                    "dead",  "GB/s",
                                    "&#0;",  "\x1b[4m",
                                    "\xff",  "link_width=\"0\""};

static void mutate(GString *text, GRand *random) {
  for (int n = g_rand_int_range(random, 1, 5); n > 0 && text->len > 1; n--) {
    gsize at = (gsize)g_rand_int_range(random, 0, (int)text->len);
    gsize most = text->len - at, length = (gsize)g_rand_int_range(random, 1, 40);
    length = MIN(length, most);
    switch (g_rand_int_range(random, 0, 5)) {
    case 0:
      text->str[at] = (char)g_rand_int_range(random, 1, 256);
      break;
    case 1:
      g_string_erase(text, (gssize)at, (gssize)length);
      break;
    case 2:
      g_string_insert(text, (gssize)at, words[g_rand_int_range(random, 0, G_N_ELEMENTS(words))]);
      break;
    case 3: {
      g_autofree char *piece = g_strndup(text->str + at, length);
      g_string_insert(text, g_rand_int_range(random, 0, (int)text->len), piece);
      break;
    }
    default:
      g_string_truncate(text, at + 1);
    }
  }
}

static gboolean use_cluster(const Cluster *cluster) {
  gint64 n_gpus = cluster->nics_per_node > 0 ? 2 * (gint64)cluster->domain_gpus : cluster->domain_gpus;
  g_autoptr(GError) error = NULL;
  g_autoptr(Topology) t = n_gpus <= 512 ? topology_new(cluster, n_gpus, &error) : NULL;
  if (t == NULL)
    return n_gpus > 512 || error != NULL;
  g_array_unref(topology_check(t));
  g_autoptr(GError) no_way = NULL;
  g_autoptr(Route) route = route_new(t, 0, t->n_gpus - 1, &no_way);
  return (route != NULL) != (no_way != NULL);
}

/* Whether what came of a text is sound. */
static gboolean use_text(const char *text, GError *error) {
  g_autoptr(GError) refused = NULL;
  g_autoptr(Cluster) cluster = text != NULL ? cluster_parse("fuzz.yaml", text, &refused) : NULL;
  return cluster != NULL ? use_cluster(cluster) : text != NULL ? refused != NULL : error != NULL;
}

/* The way to a cluster reads other files, each of which costs more than parsing: one in FEW goes it. */
enum { FEW = 16 };

static gboolean fuzz_dump(NodeImportParser parse, const GString *text, int k) {
  static const ImportChoices choices = {.name = "fuzz", .generation = "ampere", .nic_Bps = 25e9};
  g_autoptr(GError) error = NULL;
  g_autoptr(NodeImport) import = parse("dump", text->str, text->len, &error);
  if (import == NULL || k % FEW != 0)
    return (import != NULL) == (error == NULL);
  g_autofree char *yaml = node_import_yaml(import, &choices, &error);
  return use_text(yaml, error);
}

/* STEPSIM_FUZZ=N: N texts of each seed file, others than those of another N. */
static int count_fuzz(void) {
  const char *given = g_getenv("STEPSIM_FUZZ");
  return given != NULL ? atoi(given) : 3000;
}

TEST(mutated_dumps_are_read_or_refused) {
  static const struct {
    const char *file;
    NodeImportParser parse; /* NULL: a cluster file */
  } seeds[] = {{DATA "hopper-4.xml", nccl_xml_parse},
               {DATA "mesh-4.xml", nccl_xml_parse},
               {DATA "switched-4.txt", smi_matrix_parse},
               {DATA "pcie-4.txt", smi_matrix_parse},
               {STEPSIM_SOURCE_DATA "/topologies/dgx-1-v100.yaml", NULL},
               {DATA "everything.yaml", NULL}};
  int n = count_fuzz(), n_bad = 0;
  g_autoptr(GRand) random = g_rand_new_with_seed((guint32)n);
  for (gsize i = 0; i < G_N_ELEMENTS(seeds); i++) {
    g_autofree char *sound = text_file_read(seeds[i].file);
    for (int k = 0; k < n; k++) {
      g_autoptr(GString) text = g_string_new(sound);
      mutate(text, random);
      n_bad += seeds[i].parse != NULL ? !fuzz_dump(seeds[i].parse, text, k) : !use_text(text->str, NULL);
    }
  }
  ck_assert_int_eq(n_bad, 0);
}

int main(void) {
  return run_tests();
}
