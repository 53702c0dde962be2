/* From a cluster file, or from what a machine says of itself (imports), to the graph of its links; then what was asked
 * for: the tree, a path, a picture, JSON, a cluster file. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "error.h"
#include "output.h"
#include "parser.h"
#include "topology_report.h"

enum { MAX_GPUS = 262144, DEFAULT_MAX_GPUS = 65536 };

typedef struct {
  char *route, *svg;
  gint gpus;
  gboolean json;
  gboolean replaces_report; /* standard output has taken something else */
} TopologyOptions;

enum { NOT_GIVEN = G_MININT };

static void clear_options(TopologyOptions *o) {
  g_free(o->route);
  g_free(o->svg);
}

static gboolean check_outputs(TopologyOptions *o, GError **error) {
  const Printed printed[] = {
      {"--json", o->json, NULL, FALSE}, {"--svg", FALSE, o->svg, FALSE}, {NULL, FALSE, NULL, FALSE}};
  if (o->svg != NULL && strcmp(o->svg, "-") != 0 && !g_str_has_suffix(o->svg, ".svg"))
    return fail_input(error, "--svg: found \"%.80s\", expected a name that ends in .svg", o->svg);
  return output_check_printed(printed, &o->replaces_report, error);
}

static gboolean parse_options(TopologyOptions *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser = parser_new(
      "CLUSTER",
      "Shows how a cluster is wired: its fabric and a node as trees with bandwidths, who shares what, and what looks "
      "like a mistake.",
      "Examples:\n  stepsim topology dgx-h100\n  stepsim topology llama3-h100 --route 0,3072\n"
      "  stepsim topology selene --svg selene.svg\n\n"
      "Names of devices and switches are those that faults: in a cluster file takes: node0/gpu3, node0/nic1, "
      "leaf0.3, …\n\nExit status: 0 done, with or without warnings; 1 errors in the description or no such path; 2 bad "
      "usage or input.");
  const GOptionEntry entries[] = {
      {"route", 0, 0, G_OPTION_ARG_STRING, &o->route,
       "the path between two GPUs by rank, hop by hop, with bandwidths and latencies", "A,B"},
      {"gpus", 0, 0, G_OPTION_ARG_INT, &o->gpus,
       "how many GPUs to look at (default: max_gpus, or a block of the last tier, or two domains)", "N"},
      {"svg", 0, 0, G_OPTION_ARG_FILENAME, &o->svg, "draw the first node and the fabric above it", "FILE.svg"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object: vertices, links, findings, the route", NULL},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  return parser_run(parser, argc, argv, TRUE, error) && check_outputs(o, error);
}

/* Two ranks; −1 where there is no route to show. */
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

static gboolean choose_gpus(const TopologyOptions *o, const Cluster *cluster, const Ends *ends, gint64 *n_gpus,
                            GError **error) {
  if (o->gpus != NOT_GIVEN && (o->gpus < 1 || o->gpus > MAX_GPUS))
    return fail_input(error, "--gpus: found %d, expected 1 to %d", o->gpus, MAX_GPUS);
  *n_gpus = o->gpus != NOT_GIVEN ? o->gpus : default_gpus(cluster);
  *n_gpus = MAX(*n_gpus, MAX(ends->from, ends->to) + 1);
  return TRUE;
}

static gboolean print(const TopologyOptions *o, const Topology *t, const GArray *findings, const Route *route,
                      GError **error) {
  g_autofree char *svg = o->svg != NULL ? topology_svg(t) : NULL;
  if (svg != NULL && !output_text(o->svg, svg, error))
    return FALSE;
  g_autoptr(GString) out = g_string_new(NULL);
  g_autofree char *json = o->json ? topology_json(t, findings, route) : NULL;
  if (json != NULL)
    g_string_append(out, json);
  else if (!o->replaces_report && route != NULL)
    topology_text_route(out, t, route);
  else if (!o->replaces_report)
    topology_text(out, t, findings);
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
static int show(const TopologyOptions *o, const Cluster *cluster, GError **error) {
  Ends ends;
  gint64 n_gpus = 0;
  if (!parse_route(o->route, &ends, error) || !choose_gpus(o, cluster, &ends, &n_gpus, error))
    return 2;
  g_autoptr(Topology) topology = topology_new(cluster, n_gpus, error);
  if (topology == NULL)
    return 2;
  g_autoptr(GArray) findings = topology_check(topology);
  g_autoptr(Route) route = ends.from >= 0 ? route_new(topology, (int)ends.from, (int)ends.to, error) : NULL;
  if (ends.from >= 0 && route == NULL)
    return 2;
  if (!print(o, topology, findings, route, error))
    return 2;
  gboolean shows_findings = o->json || route == NULL;
  return shows_findings && count_errors(findings) > 0 ? 1 : 0;
}

static int run(const TopologyOptions *o, int argc, char **argv, GError **error) {
  if (argc != 2) {
    fail_input(error, "found %d cluster%s, expected one: a cluster YAML, or a name in topologies/ such as dgx-h100",
               argc - 1, argc == 2 ? "" : "s");
    return 2;
  }
  g_autoptr(Cluster) cluster = cluster_read(argv[1], error);
  return cluster != NULL ? show(o, cluster, error) : 2;
}

int command_topology(int argc, char **argv, GError **error) {
  TopologyOptions options = {.gpus = NOT_GIVEN};
  int status = parse_options(&options, &argc, &argv, error) ? run(&options, argc, argv, error) : 2;
  clear_options(&options);
  return status;
}
