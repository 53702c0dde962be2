/* stepsim collective: what one collective takes on a cluster, size by size, as nccl-tests prints it. */
#include "collective_cost.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "error.h"
#include "json_report.h"
#include "parser.h"
#include "units.h"

enum { MAX_RANKS = 1 << 22, MAX_SIZES = 4096, NOT_GIVEN = G_MININT };
static const double max_bytes = 1ull << 60; /* beyond any buffer, and far from where doubles stop being whole */

static const char *const link_names[N_LINKS] = {
    [LINK_NVLINK] = "NVLink",
    [LINK_PCIE] = "PCIe",
    [LINK_NET] = "the network",
};

typedef struct {
  char *cluster, *op, *ranks, *bytes, *algorithm;
  gint gpus;
  gboolean json;
} CollectiveOptions;

/* What the options ask for. */
typedef struct {
  Cluster *cluster; /* owned */
  Collective op;
  int algorithm; /* −1: the fastest */
  GroupShape shape;
  GArray *sizes; /* of double: bytes; owned */
} Request;

static void clear_options(CollectiveOptions *o) {
  char **strings[] = {&o->cluster, &o->op, &o->ranks, &o->bytes, &o->algorithm};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
}

static void clear_request(Request *request) {
  g_clear_pointer(&request->cluster, cluster_free);
  g_clear_pointer(&request->sizes, g_array_unref);
}

static gboolean parse_options(CollectiveOptions *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser = parser_new(
      NULL, "Time, algbw and busbw of a collective on a cluster, as nccl-tests prints them (GB = 1e9 bytes).",
      "Example:\n  stepsim collective --cluster dgx-h100 --op all_reduce --gpus 64 --bytes 1MiB..1GiB\n\n"
      "A size is the full buffer: of all_gather and reduce_scatter the side that is n times larger. GPUs of the\n"
      "nodes that are no members run the same collective at the same time, in groups like this one.");
  const GOptionEntry entries[] = {
      {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &o->cluster, "cluster YAML, or a name in topologies/", "FILE"},
      {"op", 0, 0, G_OPTION_ARG_STRING, &o->op,
       "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, send_recv or "
       "parameter_server (default all_reduce)",
       "NAME"},
      {"gpus", 0, 0, G_OPTION_ARG_INT, &o->gpus, "members (default: as many as --ranks lists, or one node)", "N"},
      {"ranks", 0, 0, G_OPTION_ARG_STRING, &o->ranks, "which GPUs, e.g. 0,8,16 or 0..7 (default: the first N)", "LIST"},
      {"bytes", 0, 0, G_OPTION_ARG_STRING, &o->bytes,
       "sizes with a unit or as bytes, and ranges that double, e.g. 4e9 or 1MiB,4MB or 1KiB..1GiB (default "
       "1KiB..4GiB)",
       "SIZES"},
      {"algorithm", 0, 0, G_OPTION_ARG_STRING, &o->algorithm,
       "auto, ring, tree or direct; auto takes the fastest (default auto)", "NAME"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object, or an array of them for several sizes", NULL},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  return parser_run(parser, argc, argv, FALSE, error);
}

/* With a unit, or a bare number of bytes. */
static gboolean parse_size(const char *text, double *bytes, GError **error) {
  g_autofree char *trimmed = g_strstrip(g_strdup(text));
  gboolean is_bare = trimmed[0] != '\0' && g_ascii_isdigit(trimmed[strlen(trimmed) - 1]);
  g_autofree char *quantity = g_strconcat(trimmed, is_bare ? " B" : NULL, NULL);
  g_autoptr(GError) local = NULL;
  double value;
  gboolean is_size = units_parse(quantity, UNIT_BYTES, &value, &local);
  if (!is_size && !is_bare)
    return fail_input(error, "--bytes: %s", local->message);
  if (!is_size || value > max_bytes || value != floor(value))
    return fail_input(error, "--bytes: found \"%.80s\", expected whole bytes, at most 2^60 (1048576 TiB)", text);
  *bytes = value;
  return TRUE;
}

/* "a..b": a, 2a, 4a … up to b */
static gboolean add_doubling(GArray *sizes, const char *text, const char *dots, GError **error) {
  g_autofree char *first = g_strndup(text, dots - text);
  double from, to;
  if (!parse_size(first, &from, error) || !parse_size(dots + 2, &to, error))
    return FALSE;
  if (from < 1 || to < from)
    return fail_input(error, "--bytes: found \"%.80s\", expected FIRST..LAST with 1 <= FIRST <= LAST", text);
  for (double bytes = from; bytes <= to; bytes *= 2)
    g_array_append_val(sizes, bytes);
  return TRUE;
}

static gboolean add_sizes(GArray *sizes, const char *text, GError **error) {
  const char *dots = strstr(text, "..");
  if (dots != NULL)
    return add_doubling(sizes, text, dots, error);
  double bytes;
  if (!parse_size(text, &bytes, error))
    return FALSE;
  g_array_append_val(sizes, bytes);
  return TRUE;
}

static GArray *parse_sizes(const char *text, GError **error) {
  g_autoptr(GArray) sizes = g_array_new(FALSE, FALSE, sizeof(double));
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);
  for (char **part = parts; *part != NULL; part++)
    if (!add_sizes(sizes, *part, error))
      return NULL;
  if (sizes->len == 0 || sizes->len > MAX_SIZES) {
    fail_input(error, "--bytes: found %u sizes, expected 1 to %d, such as 1MiB,4MB or 1KiB..1GiB", sizes->len,
               MAX_SIZES);
    return NULL;
  }
  return g_steal_pointer(&sizes);
}

static gboolean parse_rank(const char *text, gint64 *rank, GError **error) {
  g_autofree char *trimmed = g_strstrip(g_strdup(text));
  if (!g_ascii_string_to_signed(trimmed, 10, 0, MAX_RANKS - 1, rank, NULL))
    return fail_input(error, "--ranks: found \"%.80s\", expected a rank from 0 to %d", text, MAX_RANKS - 1);
  return TRUE;
}

/* "5" or "0..7" */
static gboolean add_ranks(GArray *ranks, const char *text, GError **error) {
  const char *dots = strstr(text, "..");
  g_autofree char *first = dots != NULL ? g_strndup(text, dots - text) : g_strdup(text);
  gint64 from, to;
  if (!parse_rank(first, &from, error) || !parse_rank(dots != NULL ? dots + 2 : first, &to, error))
    return FALSE;
  if (to < from)
    return fail_input(error, "--ranks: found \"%.80s\", expected FIRST..LAST with FIRST <= LAST", text);
  if (ranks->len + (to - from) >= MAX_RANKS)
    return fail_input(error, "--ranks: more than %d ranks", MAX_RANKS);
  for (int rank = (int)from; rank <= to; rank++)
    g_array_append_val(ranks, rank);
  return TRUE;
}

static int compare_ranks(gconstpointer a, gconstpointer b) {
  return *(const int *)a - *(const int *)b;
}

/* Ascending, each once. */
static GArray *parse_ranks(const char *text, GError **error) {
  g_autoptr(GArray) ranks = g_array_new(FALSE, FALSE, sizeof(int));
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);
  for (char **part = parts; *part != NULL; part++)
    if (!add_ranks(ranks, *part, error))
      return NULL;
  if (ranks->len == 0) {
    fail_input(error, "--ranks: found nothing, expected ranks such as 0,8,16 or 0..7");
    return NULL;
  }
  g_array_sort(ranks, compare_ranks);
  for (guint i = 1; i < ranks->len; i++)
    if (g_array_index(ranks, int, i) == g_array_index(ranks, int, i - 1)) {
      fail_input(error, "--ranks: rank %d is listed twice", g_array_index(ranks, int, i));
      return NULL;
    }
  return g_steal_pointer(&ranks);
}

static GArray *first_ranks(int n) {
  GArray *ranks = g_array_sized_new(FALSE, FALSE, sizeof(int), n);
  for (int rank = 0; rank < n; rank++)
    g_array_append_val(ranks, rank);
  return ranks;
}

/* The members that --gpus and --ranks name together. */
static GArray *choose_ranks(const CollectiveOptions *o, const Cluster *cluster, GError **error) {
  const gboolean has_gpus = o->gpus != NOT_GIVEN;
  if (has_gpus && (o->gpus < 1 || o->gpus > MAX_RANKS)) {
    fail_input(error, "--gpus: found %d, expected 1 to %d", o->gpus, MAX_RANKS);
    return NULL;
  }
  if (o->ranks == NULL)
    return first_ranks(has_gpus ? o->gpus : cluster->gpus_per_node);
  g_autoptr(GArray) ranks = parse_ranks(o->ranks, error);
  if (ranks == NULL)
    return NULL;
  if (has_gpus && (guint)o->gpus != ranks->len) {
    fail_input(error, "--gpus %d and --ranks clash: the list has %u", o->gpus, ranks->len);
    return NULL;
  }
  return g_steal_pointer(&ranks);
}

static gboolean place_ranks(Request *request, const CollectiveOptions *o, GError **error) {
  const Cluster *cluster = request->cluster;
  g_autoptr(GArray) ranks = choose_ranks(o, cluster, error);
  if (ranks == NULL)
    return FALSE;
  int last = g_array_index(ranks, int, ranks->len - 1);
  if (cluster->max_gpus > 0 && last >= cluster->max_gpus)
    return fail_impossible(error, "rank %d is beyond %s, which has %" G_GINT64_FORMAT " GPUs", last, cluster->name,
                           cluster->max_gpus);
  if (cluster->nics_per_node == 0 && last >= cluster->domain_gpus)
    return fail_impossible(error, "rank %d is beyond %s: its %d GPUs are linked, but it has no NICs to others", last,
                           cluster->name, cluster->domain_gpus);
  if (!cluster_check_sound(cluster, error))
    return FALSE;
  request->shape = layout_shape_of(cluster, (const int *)ranks->data, (int)ranks->len);
  return TRUE;
}

/* An algorithm the operation does not have is refused, not replaced. */
static gboolean parse_algorithm(Request *request, const char *text, GError **error) {
  const char *choices[ALGORITHM_DIRECT + 3] = {"auto"}; /* then those of the operation, then NULL */
  int algorithms[ALGORITHM_DIRECT + 2] = {-1}, n = 1;
  for (int a = 0; a <= ALGORITHM_DIRECT; a++)
    if (collective_algorithms(request->op) & 1u << a) {
      choices[n] = algorithm_names()[a];
      algorithms[n++] = a;
    }
  g_autofree char *what = g_strdup_printf("--algorithm of %s", collective_name(request->op));
  int choice = text != NULL ? parse_choice(what, text, choices, error) : 0;
  request->algorithm = algorithms[MAX(choice, 0)];
  return choice >= 0;
}

static gboolean read_request(const CollectiveOptions *o, Request *request, GError **error) {
  if (o->cluster == NULL)
    return fail_input(error, "--cluster is missing: a cluster YAML, or a name in topologies/ such as dgx-h100");
  int op =
      parse_choice("--op", o->op != NULL ? o->op : collective_name(COLLECTIVE_ALL_REDUCE), collective_names(), error);
  if (op < 0)
    return FALSE;
  request->op = op;
  request->sizes = parse_sizes(o->bytes != NULL ? o->bytes : "1KiB..4GiB", error);
  if (request->sizes == NULL || !parse_algorithm(request, o->algorithm, error))
    return FALSE;
  request->cluster = cluster_read(o->cluster, error);
  return request->cluster != NULL && place_ranks(request, o, error);
}

static CollectiveCost cost_of_size(const Request *request, double bytes) {
  return collective_cost(request->cluster, request->op, &request->shape, bytes, request->algorithm);
}

static void print_head(const Request *request, GString *out) {
  const GroupShape *shape = &request->shape;
  CollectiveCost cost = cost_of_size(request, 0);
  g_autofree char *bus = units_format(cost.bus_Bps, UNIT_BYTES_PER_SECOND);
  g_string_append_printf(out, "# %s on %s: %d GPUs on %d node%s (at most %d on one), %d scale-up domain%s\n",
                         collective_name(request->op), request->cluster->name, shape->n, shape->n_nodes,
                         shape->n_nodes == 1 ? "" : "s", shape->max_per_node, shape->n_domains,
                         shape->n_domains == 1 ? "" : "s");
  g_string_append_printf(out, "# bus %s, the slowest link is %s; library %s\n", bus, link_names[cost.link],
                         request->cluster->collectives.version);
  if (request->op == COLLECTIVE_PARAMETER_SERVER)
    g_string_append_printf(out, "# the server takes in %d x size, answers with as much, and its link carries both\n",
                           shape->n);
  else
    g_string_append(out, "# sent: bytes each GPU sends; the root's, where there is one\n");
  g_string_append_printf(out, "#%15s %12s %10s %10s %10s %9s %15s\n", "size", "time", "algbw", "busbw", "algorithm",
                         "protocol", "sent");
  g_string_append_printf(out, "#%15s %12s %10s %10s %10s %9s %15s\n", "(B)", "(us)", "(GB/s)", "(GB/s)", "", "", "(B)");
}

static void print_table(const Request *request, GString *out) {
  print_head(request, out);
  for (guint i = 0; i < request->sizes->len; i++) {
    double bytes = g_array_index(request->sizes, double, i);
    CollectiveCost cost = cost_of_size(request, bytes);
    g_string_append_printf(out, "%16.0f %12.2f %10.2f %10.2f %10s %9s %15.0f\n", bytes, cost.time_s * 1e6,
                           cost.algbw_Bps / 1e9, cost.busbw_Bps / 1e9, algorithm_names()[cost.algorithm],
                           protocol_names()[cost.protocol],
                           collective_sent_bytes(request->op, request->shape.n, bytes));
  }
}

static void print_json(const Request *request, GString *out) {
  g_autofree CollectiveReport *reports = g_new(CollectiveReport, request->sizes->len);
  for (guint i = 0; i < request->sizes->len; i++) {
    double bytes = g_array_index(request->sizes, double, i);
    CollectiveCost cost = cost_of_size(request, bytes);
    reports[i] = (CollectiveReport){.op = collective_name(request->op),
                                    .n_gpus = request->shape.n,
                                    .bytes = (gint64)bytes,
                                    .time_s = cost.time_s,
                                    .algbw_Bps = cost.algbw_Bps,
                                    .busbw_Bps = cost.busbw_Bps,
                                    .algorithm = algorithm_names()[cost.algorithm],
                                    .protocol = protocol_names()[cost.protocol],
                                    .sent_bytes = collective_sent_bytes(request->op, request->shape.n, bytes)};
  }
  g_autofree char *json = json_report_collectives(reports, (int)request->sizes->len);
  g_string_append(out, json);
}

int command_collective(int argc, char **argv, GError **error) {
  CollectiveOptions options = {.gpus = NOT_GIVEN};
  Request request = {0};
  gboolean done = parse_options(&options, &argc, &argv, error) && read_request(&options, &request, error);
  if (done) {
    g_autoptr(GString) out = g_string_new(NULL);
    (options.json ? print_json : print_table)(&request, out);
    fputs(out->str, stdout);
  }
  clear_request(&request);
  clear_options(&options);
  return done ? 0 : 2;
}
