/* Sizes and ranks are lists with ranges. An algorithm is checked against the operation, then against the machine. */
#include "collective_request.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "link_health.h"
#include "number_list.h"
#include "options.h"
#include "rank_map.h"
#include "suggest.h"
#include "units.h"

enum { MAX_RANKS = 1 << 22, MAX_SIZES = 4096 };
static const double max_bytes = 1ull << 60; /* beyond any buffer, and exact as a double */

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

/* "a..b*k": a, ka, k²a … up to b; k defaults to 2 */
static gboolean add_powers(GArray *sizes, const char *text, const char *dots, GError **error) {
  g_autofree char *first = g_strndup(text, dots - text), *last = g_strdup(dots + 2);
  char *star = strchr(last, '*');
  double from, to;
  guint64 factor = 2;
  if (star != NULL)
    *star = '\0';
  if (!parse_size(first, &from, error) || !parse_size(last, &to, error))
    return FALSE;
  if (star != NULL && !g_ascii_string_to_unsigned(star + 1, 10, 2, 1 << 20, &factor, NULL))
    return fail_input(error, "--bytes: found \"%.80s\", expected a whole number from 2 after *, as 1MiB..4GiB*4", text);
  if (from < 1 || to < from)
    return fail_input(error, "--bytes: found \"%.80s\", expected FIRST..LAST with 1 <= FIRST <= LAST", text);
  for (double bytes = from; bytes <= to; bytes *= (double)factor)
    g_array_append_val(sizes, bytes);
  return TRUE;
}

static gboolean add_sizes(GArray *sizes, const char *text, GError **error) {
  const char *dots = strstr(text, "..");
  if (dots != NULL)
    return add_powers(sizes, text, dots, error);
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

static int compare_ranks(gconstpointer a, gconstpointer b) {
  return *(const int *)a - *(const int *)b;
}

/* In the order given, without duplicates. */
static GArray *parse_ranks(const char *text, GError **error) {
  g_autoptr(GArray) ranks = g_array_new(FALSE, FALSE, sizeof(int));
  if (!number_list_read(text, "rank", MAX_RANKS - 1, MAX_RANKS, ranks, error)) {
    g_prefix_error(error, "--ranks: ");
    return NULL;
  }
  if (ranks->len == 0) {
    fail_input(error, "--ranks: found nothing, expected ranks such as 0,8,16 or 0..7");
    return NULL;
  }
  g_autoptr(GArray) ascending = g_array_copy(ranks);
  g_array_sort(ascending, compare_ranks);
  for (guint i = 1; i < ascending->len; i++)
    if (g_array_index(ascending, int, i) == g_array_index(ascending, int, i - 1)) {
      fail_input(error, "--ranks: rank %d is listed twice", g_array_index(ascending, int, i));
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

/* The members given by --gpus and --ranks: the first so many, or a list; if both are given, a list of that many ranks
 * or of ranks below that number. `n_default` GPUs if neither is given. */
static GArray *choose_ranks(const CollectiveOptions *o, int n_default, GError **error) {
  const gboolean has_gpus = o->gpus != NOT_GIVEN;
  if (has_gpus && (o->gpus < 1 || o->gpus > MAX_RANKS)) {
    fail_input(error, "--gpus: found %d, expected 1 to %d", o->gpus, MAX_RANKS);
    return NULL;
  }
  if (o->ranks == NULL)
    return first_ranks(has_gpus ? o->gpus : n_default);
  g_autoptr(GArray) ranks = parse_ranks(o->ranks, error);
  if (ranks == NULL)
    return NULL;
  for (guint i = 0; has_gpus && (guint)o->gpus != ranks->len && i < ranks->len; i++)
    if (g_array_index(ranks, int, i) >= o->gpus) {
      fail_input(error, "--gpus %d and --ranks clash: rank %d of the list's %u is none of them", o->gpus,
                 g_array_index(ranks, int, i), ranks->len);
      return NULL;
    }
  return g_steal_pointer(&ranks);
}

/* Replace ranks by their GPUs from --rank-map. */
static gboolean map_ranks(const GArray *map, GArray *ranks, GError **error) {
  for (guint i = 0; i < ranks->len; i++) {
    int *rank = &g_array_index(ranks, int, i);
    if (*rank >= (int)map->len)
      return fail_impossible(error, "rank %d is not in the rank map, which places ranks 0 to %u", *rank, map->len - 1);
    *rank = g_array_index(map, int, *rank);
  }
  return TRUE;
}

/* The index of --root among the ranks; by default the first. */
static gboolean find_root(const CollectiveOptions *o, Request *request, const GArray *ranks, GError **error) {
  request->root = 0;
  if (o->root == NOT_GIVEN)
    return TRUE;
  if (!collective_has_root(request->op))
    return fail_input(error, "--root: %s has no root", collective_name(request->op));
  while (request->root < (int)ranks->len && g_array_index(ranks, int, request->root) != o->root)
    request->root++;
  return request->root < (int)ranks->len ||
         fail_input(error, "--root: rank %d is none of the %u that take part", o->root, ranks->len);
}

/* The members' GPUs, in rank order. */
static GArray *choose_gpus(const CollectiveOptions *o, Request *request, GError **error) {
  const Cluster *cluster = request->cluster;
  g_autoptr(GArray) map = o->rank_map != NULL ? rank_map_read(o->rank_map, cluster, error) : NULL;
  if (o->rank_map != NULL && map == NULL)
    return NULL;
  g_autoptr(GArray) ranks = choose_ranks(o, map != NULL ? (int)map->len : cluster->gpus_per_node, error);
  if (ranks == NULL || !find_root(o, request, ranks, error))
    return NULL;
  return map == NULL || map_ranks(map, ranks, error) ? g_steal_pointer(&ranks) : NULL;
}

static gboolean place_ranks(Request *request, const CollectiveOptions *o, GError **error) {
  const Cluster *cluster = request->cluster;
  g_autoptr(GArray) ranks = choose_gpus(o, request, error);
  if (ranks == NULL)
    return FALSE;
  cluster_place_job(request->cluster, ranks->len, o->ranks != NULL || o->rank_map != NULL);
  const int root = g_array_index(ranks, int, request->root);
  g_array_sort(ranks, compare_ranks);
  int last = g_array_index(ranks, int, ranks->len - 1);
  if (cluster->max_gpus > 0 && last >= cluster->max_gpus)
    return fail_impossible(error, "rank %d is beyond %s, which has %" G_GINT64_FORMAT " GPUs", last, cluster->name,
                           cluster->max_gpus);
  if (cluster->nics_per_node == 0 && last >= cluster->domain_gpus)
    return fail_impossible(error, "rank %d is beyond %s: its %d GPUs are linked, but it has no NICs to others", last,
                           cluster->name, cluster->domain_gpus);
  if (cluster->faults != NULL) {
    request->cluster->health = link_health_new(cluster, (const int *)(void *)ranks->data, (int)ranks->len, error);
    if (cluster->health == NULL)
      return FALSE;
  }
  if (!cluster_check_sound(cluster, error))
    return FALSE;
  request->shape = layout_shape_of(cluster, (const int *)ranks->data, (int)ranks->len);
  layout_set_root(&request->shape, cluster, (const int *)ranks->data, (int)ranks->len, root);
  return TRUE;
}

/* An algorithm that the operation does not have is refused, not replaced. */
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

/* Likewise one that the machine or the group does not support. */
static gboolean check_algorithm(const Request *request, GError **error) {
  if (request->algorithm < 0 || request->shape.n == 1)
    return TRUE;
  const char *lacks = collective_algorithm_lacks(request->cluster, &request->shape, (Algorithm)request->algorithm);
  return lacks == NULL ||
         fail_impossible(error, "--algorithm %s: %d GPUs of %s cannot run it, it needs %s",
                         algorithm_names()[request->algorithm], request->shape.n, request->cluster->name, lacks);
}

gboolean collective_op_parse(const char *text, Collective *op, GError **error) {
  int choice = parse_choice("--op", text, collective_names(), error);
  *op = (Collective)MAX(choice, 0);
  return choice >= 0;
}

gboolean collective_request_read(const CollectiveOptions *o, Request *request, GError **error) {
  if (o->cluster == NULL)
    return fail_input(error, "--cluster is missing: a cluster YAML, or a name in topologies/ such as dgx-h100");
  if (!collective_op_parse(o->op != NULL ? o->op : collective_name(COLLECTIVE_ALL_REDUCE), &request->op, error))
    return FALSE;
  request->sizes = parse_sizes(o->bytes != NULL ? o->bytes : "1KiB..4GiB", error);
  if (request->sizes == NULL || !parse_algorithm(request, o->algorithm, error))
    return FALSE;
  request->cluster = options_read_cluster(o->cluster, error);
  return request->cluster != NULL && place_ranks(request, o, error) && check_algorithm(request, error);
}

void collective_request_clear(Request *request) {
  g_clear_pointer(&request->cluster, cluster_free);
  g_clear_pointer(&request->sizes, g_array_unref);
}
