/* From a cluster file, or a machine's own description (imports), to the graph of its links; then to the requested
 * output: tree, path, a plan's ranks, picture, JSON, cluster file. */
#include <stdio.h>
#include <string.h>

#include "cluster_words.h"
#include "command.h"
#include "error.h"
#include "node_import.h"
#include "options.h"
#include "output.h"
#include "parser.h"
#include "rank_grid.h"
#include "topology_report.h"
#include "units.h"

enum { MAX_GPUS = 262144, DEFAULT_MAX_GPUS = 65536 };

typedef struct {
  char *cluster, *route, *svg, *plan;
  char *nccl_xml, *nvidia_smi, *output; /* imports */
  char *name, *gpu, *generation, *nic_bandwidth;
  gint gpus;
  gboolean json;
  gboolean replaces_report; /* standard output is used for something else */
} TopologyOptions;

enum { NOT_GIVEN = G_MININT };

static void clear_options(TopologyOptions *o) {
  g_free(o->cluster);
  g_free(o->route);
  g_free(o->svg);
  g_free(o->plan);
  g_free(o->nccl_xml);
  g_free(o->nvidia_smi);
  g_free(o->output);
  g_free(o->name);
  g_free(o->gpu);
  g_free(o->generation);
  g_free(o->nic_bandwidth);
}

static gboolean check_outputs(TopologyOptions *o, GError **error) {
  const Printed printed[] = {{"--json", o->json, NULL, FALSE},
                             {"--svg", FALSE, o->svg, FALSE},
                             {"--output", FALSE, o->output, FALSE},
                             {NULL, FALSE, NULL, FALSE}};
  if (o->plan != NULL && o->route != NULL)
    return fail_input(error, "--plan and --route clash: the report is of one of them");
  if (o->svg != NULL && o->plan != NULL ? !picture_check_file(o->svg, error) : FALSE)
    return FALSE;
  if (o->svg != NULL && o->plan == NULL && strcmp(o->svg, "-") != 0 && !g_str_has_suffix(o->svg, ".svg"))
    return fail_input(error, "--svg: found \"%.80s\", expected a name that ends in .svg", o->svg);
  return output_check_printed(printed, &o->replaces_report, error);
}

static gboolean parse_options(TopologyOptions *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser = parser_new(
      "CLUSTER",
      "Shows how a cluster is wired: fabric and node as trees with bandwidths, what is shared, and what looks wrong.",
      "Examples:\n  stepsim topology dgx-h100\n  stepsim topology llama3-h100 --route 0,3072\n"
      "  stepsim topology selene --svg selene.svg\n"
      "  stepsim topology llama3-h100 --plan \"--tp 8 --pp 16 --dp 128\"\n"
      "  stepsim topology \"8x h100, 400 Gb/s x 8\" --output our-cluster.yaml\n"
      "  stepsim topology --from-nccl-xml topo.xml --output our-node.yaml\n"
      "  nvidia-smi topo -m >matrix; stepsim topology --from-nvidia-smi matrix --generation hopper --nic-bandwidth "
      "\"400 Gb/s\"\n\n"
      "Device and switch names are the ones to use under faults: in a cluster file: node0/gpu3, node0/nic1, "
      "leaf0.3, …\n\nExit status: 0 done, with or without warnings; 1 errors in the description or no such path; 2 bad "
      "usage or input.");
  const GOptionEntry entries[] = {
      {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &o->cluster, "same as the argument CLUSTER", "FILE"},
      {"route", 0, 0, G_OPTION_ARG_STRING, &o->route,
       "the path between two GPUs by rank, hop by hop, with bandwidths and latencies", "A,B"},
      {"gpus", 0, 0, G_OPTION_ARG_INT, &o->gpus,
       "GPUs to include (default: max_gpus, or a block of the last tier, or two domains)", "N"},
      {"plan", 0, 0, G_OPTION_ARG_STRING, &o->plan,
       "which rank of a plan is which GPU, its groups and their links: options as of simulate, --model if its limits "
       "count, or a file as of simulate --plan",
       "OPTIONS|FILE"},
      {"svg", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->svg,
       "draw the first node and the fabric above it; with --plan the ranks (also .png, .pdf)", "FILE.svg"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json,
       "print one JSON object: vertices, links, findings, the route, the plan's ranks", NULL},
      {"from-nccl-xml", 0, 0, G_OPTION_ARG_FILENAME, &o->nccl_xml,
       "instead of CLUSTER: import a node from NCCL (NCCL_TOPO_DUMP_FILE)", "FILE.xml"},
      {"from-nvidia-smi", 0, 0, G_OPTION_ARG_FILENAME, &o->nvidia_smi,
       "instead of CLUSTER: import a node from nvidia-smi topo -m", "FILE"},
      {"output", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->output,
       "with an import or a cluster in words: write a cluster file (- is standard output, without a report)",
       "FILE.yaml"},
      {"name", 0, 0, G_OPTION_ARG_STRING, &o->name, "name of the imported cluster (default: the file's)", "NAME"},
      {"gpu", 0, 0, G_OPTION_ARG_STRING, &o->gpu,
       "GPU of the imported cluster, a name in topologies/gpus (default: the usual one of its generation)", "NAME"},
      {"generation", 0, 0, G_OPTION_ARG_STRING, &o->generation,
       "generation of the imported GPUs: volta, ampere, ada, hopper, blackwell or blackwell-rtx (default: what the XML "
       "says)",
       "NAME"},
      {"nic-bandwidth", 0, 0, G_OPTION_ARG_STRING, &o->nic_bandwidth,
       "bandwidth of an imported NIC, e.g. \"400 Gb/s\" (default: what the XML says)", "RATE"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  return parser_run(parser, argc, argv, TRUE, error) && check_outputs(o, error);
}

/* Two ranks; −1: no route to show. */
typedef struct {
  gint64 from, to;
} Ends;

static gboolean parse_route(const char *text, Ends *ends, GError **error) {
  *ends = (Ends){-1, -1};
  if (text == NULL)
    return TRUE;
  g_auto(GStrv) parts = g_strsplit(text, ",", 3);
  if (g_strv_length(parts) != 2 || !g_ascii_string_to_signed(parts[0], 10, 0, MAX_GPUS - 1, &ends->from, NULL) ||
      !g_ascii_string_to_signed(parts[1], 10, 0, MAX_GPUS - 1, &ends->to, NULL))
    return fail_input(error, "--route: found \"%.80s\", expected two ranks such as 0,8, each below %d", text, MAX_GPUS);
  return TRUE;
}

static gint64 default_gpus(const Cluster *cluster) {
  gint64 n_gpus = cluster->max_gpus;
  if (n_gpus == 0 && cluster->nics_per_node == 0)
    n_gpus = cluster->domain_gpus;
  if (n_gpus == 0)
    n_gpus = cluster->n_tiers > 0 ? cluster->tiers[cluster->n_tiers - 1].span_gpus : 2 * (gint64)cluster->domain_gpus;
  return MIN(n_gpus, MAX(DEFAULT_MAX_GPUS, cluster->domain_gpus));
}

static gboolean check_gpus(const TopologyOptions *o, GError **error) {
  return o->gpus == NOT_GIVEN || (o->gpus >= 1 && o->gpus <= MAX_GPUS) ||
         fail_input(error, "--gpus: found %d, expected 1 to %d", o->gpus, MAX_GPUS);
}

static gboolean choose_gpus(const TopologyOptions *o, const Cluster *cluster, const Ends *ends, gint64 *n_gpus,
                            GError **error) {
  if (!check_gpus(o, error))
    return FALSE;
  *n_gpus = o->gpus != NOT_GIVEN ? o->gpus : default_gpus(cluster);
  *n_gpus = MAX(*n_gpus, MAX(ends->from, ends->to) + 1);
  return TRUE;
}

/* What is shown of a topology. */
typedef struct {
  const Topology *topology;
  GArray *findings;     /* owned */
  const Route *route;   /* NULL: none */
  const RankGrid *grid; /* of the plan; NULL: none */
} Shown;

static gboolean draw(const TopologyOptions *o, const Shown *shown, GError **error) {
  if (o->svg == NULL)
    return TRUE;
  if (shown->grid != NULL)
    return picture_take(rank_grid_picture(shown->grid, NULL, error), o->svg, error);
  g_autofree char *svg = topology_svg(shown->topology);
  return output_text(o->svg, svg, error);
}

static gboolean print(const TopologyOptions *o, const Shown *shown, const char *notes, GError **error) {
  if (!draw(o, shown, error))
    return FALSE;
  g_autoptr(GString) out = g_string_new(NULL);
  g_autofree char *json = o->json ? topology_json(shown->topology, shown->findings, shown->route, shown->grid) : NULL;
  if (json != NULL)
    g_string_append(out, json);
  else if (!o->replaces_report && shown->grid != NULL)
    rank_grid_text(out, shown->grid);
  else if (!o->replaces_report && shown->route != NULL)
    topology_text_route(out, shown->topology, shown->route);
  else if (!o->replaces_report)
    topology_text(out, shown->topology, shown->findings);
  if (json == NULL && !o->replaces_report)
    g_string_append(out, notes);
  fputs(out->str, stdout);
  return TRUE;
}

static int count_errors(const GArray *findings) {
  int n = 0;
  for (guint i = 0; i < findings->len; i++)
    n += g_array_index(findings, Finding, i).is_error;
  return n;
}

/* The exit status. */
static int show(const TopologyOptions *o, Shown *shown, const char *notes, GError **error) {
  shown->findings = topology_check(shown->topology);
  const gboolean shows_findings = o->json || (shown->route == NULL && shown->grid == NULL);
  int status = !print(o, shown, notes, error) ? 2 : shows_findings && count_errors(shown->findings) > 0 ? 1 : 0;
  g_array_unref(shown->findings);
  return status;
}

static int show_cluster(const TopologyOptions *o, const Cluster *cluster, const char *notes, GError **error) {
  Ends ends;
  gint64 n_gpus = 0;
  if (!parse_route(o->route, &ends, error) || !choose_gpus(o, cluster, &ends, &n_gpus, error))
    return 2;
  g_autoptr(Topology) topology = topology_new(cluster, n_gpus, error);
  if (topology == NULL)
    return 2;
  g_autoptr(Route) route = ends.from >= 0 ? route_new(topology, (int)ends.from, (int)ends.to, error) : NULL;
  if (ends.from >= 0 && route == NULL)
    return 2;
  return show(o, &(Shown){.topology = topology, .route = route}, notes, error);
}

static gboolean parse_plan(const char *text, PlanOptions *options, GError **error) {
  const PlanOptionSet set = PLAN_OPTIONS_SIMULATED | PLAN_OPTIONS_PLACED;
  if (!plan_options_read_text(options, text, set, "stepsim topology", error)) {
    g_prefix_error(error, "--plan: ");
    return FALSE;
  }
  /* a file of a plan may name the cluster that it is for */
  return options->file != NULL || options->cluster_file == NULL ||
         fail_input(error, "--plan: --cluster %.80s clashes with the cluster that is shown", options->cluster_file);
}

/* Takes over the cluster; the exit status. */
static int show_plan(const TopologyOptions *o, Cluster *cluster, const char *notes, GError **error) {
  PlanOptions options;
  int status = 2;
  plan_options_init(&options);
  options.cluster = cluster;
  if (check_gpus(o, error) && parse_plan(o->plan, &options, error) && plan_options_read(&options, error)) {
    g_autoptr(RankGrid) grid =
        rank_grid_new(options.model, cluster, options.plan, o->gpus != NOT_GIVEN ? o->gpus : 0, error);
    if (grid != NULL)
      status = show(o, &(Shown){.topology = grid->topology, .grid = grid}, notes, error);
  }
  plan_options_clear(&options);
  return status;
}

/* Imports. */

static gboolean check_import(const TopologyOptions *o, int n_clusters, gboolean is_words, GError **error) {
  gboolean is_import = o->nccl_xml != NULL || o->nvidia_smi != NULL;
  if (n_clusters + (o->nccl_xml != NULL) + (o->nvidia_smi != NULL) != 1)
    return fail_input(
        error,
        "found %d cluster%s%s, expected one: a cluster YAML, a name in topologies/ such as dgx-h100, words "
        "such as \"8x h100, 400 Gb/s x 8\", --from-nccl-xml or --from-nvidia-smi",
        n_clusters, n_clusters == 1 ? "" : "s", is_import ? " and an import" : "");
  const struct {
    const char *option, *given;
  } only[] = {{"--output", o->output},
              {"--name", o->name},
              {"--gpu", o->gpu},
              {"--generation", o->generation},
              {"--nic-bandwidth", o->nic_bandwidth}};
  for (gsize i = is_words ? 1 : 0; i < G_N_ELEMENTS(only) && !is_import; i++)
    if (only[i].given != NULL)
      return fail_input(error, "%s goes with %s--from-nccl-xml or --from-nvidia-smi", only[i].option,
                        i == 0 ? "a cluster in words, " : "");
  return TRUE;
}

/* "our-node" of "/tmp/our-node.yaml". Owned by the caller. */
static char *default_name(const TopologyOptions *o) {
  const char *file = o->output != NULL && strcmp(o->output, "-") != 0 ? o->output
                     : o->nccl_xml != NULL                            ? o->nccl_xml
                                                                      : o->nvidia_smi;
  char *base = g_path_get_basename(file), *dot = strrchr(base, '.');
  if (dot != NULL && dot > base)
    *dot = '\0';
  return base;
}

/* The text of a cluster file; owned by the caller. What was left out or assumed goes into `notes`. */
static char *import_text(const TopologyOptions *o, GString *notes, GError **error) {
  g_autofree char *name = o->name != NULL ? g_strdup(o->name) : default_name(o);
  ImportChoices choices = {.name = name, .gpu = o->gpu, .generation = o->generation};
  if (o->nic_bandwidth != NULL && !units_parse(o->nic_bandwidth, UNIT_BYTES_PER_SECOND, &choices.nic_Bps, error)) {
    g_prefix_error(error, "--nic-bandwidth: ");
    return NULL;
  }
  g_autoptr(NodeImport) import = o->nccl_xml != NULL ? node_import_read(o->nccl_xml, nccl_xml_parse, error)
                                                     : node_import_read(o->nvidia_smi, smi_matrix_parse, error);
  if (import == NULL)
    return NULL;
  char *text = node_import_yaml(import, &choices, error);
  for (guint i = 0; i < import->notes->len; i++)
    g_string_append_printf(notes, "note: %s\n", (const char *)import->notes->pdata[i]);
  return text;
}

/* The cluster is read from the same text that is written. `words`: NULL for an import. */
static Cluster *written_cluster(const TopologyOptions *o, const char *words, GString *notes, GError **error) {
  g_autofree char *text = words != NULL ? cluster_text_of_words(words, error) : import_text(o, notes, error);
  const char *name = words != NULL ? words : o->output != NULL ? o->output : "import";
  g_autoptr(Cluster) cluster = text != NULL ? cluster_parse(name, text, error) : NULL;
  if (words != NULL && cluster != NULL && o->output == NULL)
    g_string_append_printf(notes, "\nas a file, which --output writes:\n\n%s", text);
  if (cluster == NULL || (o->output != NULL && !output_text(o->output, text, error)))
    return NULL;
  return g_steal_pointer(&cluster);
}

static int run(const TopologyOptions *o, int argc, char **argv, GError **error) {
  const char *named = o->cluster != NULL ? o->cluster : argc > 1 ? argv[1] : NULL;
  const gboolean is_words = cluster_words_are(named);
  if (!check_import(o, argc - 1 + (o->cluster != NULL), is_words, error))
    return 2;
  g_autoptr(GString) notes = g_string_new(NULL);
  g_autoptr(Cluster) cluster =
      named != NULL && !is_words ? cluster_read(named, error) : written_cluster(o, named, notes, error);
  if (cluster != NULL && o->plan != NULL)
    return show_plan(o, g_steal_pointer(&cluster), notes->str, error);
  return cluster != NULL ? show_cluster(o, cluster, notes->str, error) : 2;
}

int command_topology(int argc, char **argv, GError **error) {
  TopologyOptions options = {.gpus = NOT_GIVEN};
  int status = parse_options(&options, &argc, &argv, error) ? run(&options, argc, argv, error) : 2;
  clear_options(&options);
  return status;
}
