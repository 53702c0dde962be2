/* The first significant line determines the form: a table's header has the word rank in it, a list begins with a
 * digit and is the only line, anything else names a host. All forms end in place(), which knows the line at which
 * each rank and each GPU was placed. */
#include "rank_map.h"

#include <string.h>

#include "data_path.h"
#include "error.h"
#include "number_list.h"
#include "plan.h"

enum { MOST_RANKS = 1 << 24, N_COLUMNS = 3 };
enum { COLUMN_RANK, COLUMN_NODE, COLUMN_GPU };
static const char *const column_names[N_COLUMNS + 1] = {"rank", "node", "gpu", NULL};

typedef struct {
  int rank, line;
} Holder;

typedef struct {
  const char *file;
  const Cluster *cluster;
  int line; /* currently read */
  int most_gpu;
  GHashTable *gpu_of;    /* rank → GPU */
  GHashTable *holder_of; /* GPU → Holder, owned */
  int next_rank;         /* for forms that number ranks themselves */
  int columns[N_COLUMNS];
} Reader;

static gboolean fail_line(const Reader *reader, GError **error, const char *format, ...) G_GNUC_PRINTF(3, 4);
static gboolean fail_line(const Reader *reader, GError **error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  return fail_input(error, "%s:%d: %s", reader->file, reader->line, message);
}

static gboolean place(Reader *reader, int rank, int gpu, GError **error) {
  const int per_node = reader->cluster->gpus_per_node;
  if (gpu > reader->most_gpu)
    return fail_line(reader, error, "GPU %d of node %d is beyond cluster %s, which has %d GPUs", gpu % per_node,
                     gpu / per_node, reader->cluster->name, reader->most_gpu + 1);
  if (rank >= MOST_RANKS)
    return fail_line(reader, error, "more than %d ranks", MOST_RANKS);
  const Holder *other = g_hash_table_lookup(reader->holder_of, GINT_TO_POINTER(gpu));
  if (other != NULL)
    return fail_line(reader, error, "GPU %d of node %d for rank %d holds rank %d already (line %d)", gpu % per_node,
                     gpu / per_node, rank, other->rank, other->line);
  Holder *holder = g_new(Holder, 1);
  *holder = (Holder){rank, reader->line};
  g_hash_table_insert(reader->holder_of, GINT_TO_POINTER(gpu), holder);
  gpointer taken;
  if (g_hash_table_lookup_extended(reader->gpu_of, GINT_TO_POINTER(rank), NULL, &taken)) {
    other = g_hash_table_lookup(reader->holder_of, taken);
    return fail_line(reader, error, "rank %d is placed twice: on line %d it is on GPU %d of node %d", rank, other->line,
                     GPOINTER_TO_INT(taken) % per_node, GPOINTER_TO_INT(taken) / per_node);
  }
  g_hash_table_insert(reader->gpu_of, GINT_TO_POINTER(rank), GINT_TO_POINTER(gpu));
  return TRUE;
}

/* "3" or, with `word` in front, "node3". */
static gboolean read_number(const Reader *reader, const char *text, const char *word, int most, int *number,
                            GError **error) {
  const char *digits = g_str_has_prefix(text, word) ? text + strlen(word) : text;
  gint64 value;
  if (!g_ascii_string_to_signed(digits, 10, 0, most, &value, NULL))
    return fail_line(reader, error, "found \"%.80s\", expected %s 0 to %d of cluster %s", text, word, most,
                     reader->cluster->name);
  *number = (int)value;
  return TRUE;
}

static int most_node(const Reader *reader) {
  return reader->most_gpu / reader->cluster->gpus_per_node;
}

/* --- one line --- */

static gboolean read_list(Reader *reader, const char *text, GError **error) {
  if (reader->next_rank > 0)
    return fail_line(reader, error,
                     "a second line of GPUs; expected one, or a table (rank,node,gpu), or hosts (node0 slots=8)");
  g_autoptr(GArray) gpus = g_array_new(FALSE, FALSE, sizeof(int));
  g_autoptr(GError) reason = NULL;
  if (!number_list_read(text, "GPU", reader->most_gpu, MOST_RANKS, gpus, &reason))
    return fail_line(reader, error, "%s%s", reason->message,
                     strchr(text, ',') == NULL && strpbrk(text, " \t") != NULL ? "; commas go between GPUs" : "");
  for (guint i = 0; i < gpus->len; i++)
    if (!place(reader, reader->next_rank++, g_array_index(gpus, int, i), error))
      return FALSE;
  return TRUE;
}

/* --- table --- */

static gboolean read_header(Reader *reader, const char *text, GError **error) {
  g_auto(GStrv) cells = g_strsplit(text, ",", N_COLUMNS + 1);
  for (int column = 0; column < N_COLUMNS; column++)
    reader->columns[column] = -1;
  for (int i = 0; cells[i] != NULL; i++) {
    g_autoptr(GError) reason = NULL;
    int column = parse_choice("column", g_strstrip(cells[i]), column_names, &reason);
    if (column < 0)
      return fail_line(reader, error, "%s", reason->message);
    if (reader->columns[column] >= 0)
      return fail_line(reader, error, "column %s is there twice", column_names[column]);
    reader->columns[column] = i;
  }
  for (int column = 0; column < N_COLUMNS; column++)
    if (reader->columns[column] < 0)
      return fail_line(reader, error, "column %s is missing; expected rank,node,gpu", column_names[column]);
  return TRUE;
}

static gboolean read_row(Reader *reader, const char *text, GError **error) {
  g_auto(GStrv) cells = g_strsplit(text, ",", N_COLUMNS + 1);
  if (g_strv_length(cells) != N_COLUMNS)
    return fail_line(reader, error, "found \"%.80s\", expected three values, rank,node,gpu as the header has them",
                     text);
  for (int i = 0; i < N_COLUMNS; i++)
    g_strstrip(cells[i]);
  const int per_node = reader->cluster->gpus_per_node;
  int rank, node, gpu;
  return read_number(reader, cells[reader->columns[COLUMN_RANK]], "rank", MOST_RANKS - 1, &rank, error) &&
         read_number(reader, cells[reader->columns[COLUMN_NODE]], "node", most_node(reader), &node, error) &&
         read_number(reader, cells[reader->columns[COLUMN_GPU]], "gpu", per_node - 1, &gpu, error) &&
         place(reader, rank, node * per_node + gpu, error);
}

/* --- hosts --- */

static gboolean place_listed(Reader *reader, int node, const char *list, GError **error) {
  g_autoptr(GArray) gpus = g_array_new(FALSE, FALSE, sizeof(int));
  g_autoptr(GError) reason = NULL;
  const int per_node = reader->cluster->gpus_per_node;
  if (!number_list_read(list, "GPU", per_node - 1, MOST_RANKS, gpus, &reason))
    return fail_line(reader, error, "gpus: %s", reason->message);
  for (guint i = 0; i < gpus->len; i++)
    if (!place(reader, reader->next_rank++, node * per_node + g_array_index(gpus, int, i), error))
      return FALSE;
  return TRUE;
}

/* `slots` −1: all free ones. */
static gboolean place_slots(Reader *reader, int node, int slots, GError **error) {
  const int per_node = reader->cluster->gpus_per_node;
  int n_placed = 0;
  for (int gpu = node * per_node; gpu < (node + 1) * per_node && n_placed != slots; gpu++)
    if (!g_hash_table_contains(reader->holder_of, GINT_TO_POINTER(gpu))) {
      if (!place(reader, reader->next_rank++, gpu, error))
        return FALSE;
      n_placed++;
    }
  if (n_placed == 0 || n_placed < slots)
    return fail_line(reader, error, "node %d has %d of its %d GPUs free, too few for %d slots", node, n_placed,
                     per_node, MAX(slots, 1));
  return TRUE;
}

/* "node0", "node0:4", "node0 slots=4", "node0 gpus=4..7" */
static gboolean read_host(Reader *reader, const char *text, GError **error) {
  const gsize name_length = strcspn(text, ": \t");
  g_autofree char *name = g_strndup(text, name_length);
  g_autofree char *rest = g_strstrip(g_strdup(text + name_length));
  int node, slots = -1;
  if (!read_number(reader, name, "node", most_node(reader), &node, error))
    return FALSE;
  if (g_str_has_prefix(rest, "gpus="))
    return place_listed(reader, node, rest + strlen("gpus="), error);
  const char *count = g_str_has_prefix(rest, "slots=") ? rest + strlen("slots=") : rest[0] == ':' ? rest + 1 : NULL;
  gint64 value;
  if (count != NULL && g_ascii_string_to_signed(count, 10, 1, MOST_RANKS, &value, NULL))
    slots = (int)value;
  else if (rest[0] != '\0')
    return fail_line(reader, error, "found \"%.80s\" after %s, expected slots=4, :4 or gpus=0,2..4", rest, name);
  return place_slots(reader, node, slots, error);
}

/* --- file --- */

typedef gboolean (*ReadLine)(Reader *reader, const char *text, GError **error);

static gboolean read_lines(Reader *reader, const char *text, GError **error) {
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  ReadLine read_line = NULL;
  for (int i = 0; lines[i] != NULL; i++) {
    reader->line = i + 1;
    lines[i][strcspn(lines[i], "#")] = '\0';
    const char *line = g_strstrip(lines[i]);
    if (line[0] == '\0')
      continue;
    const gboolean is_header = read_line == NULL && strstr(line, "rank") != NULL;
    if (read_line == NULL)
      read_line = is_header ? read_row : g_ascii_isdigit(line[0]) ? read_list : read_host;
    if (!(is_header ? read_header : read_line)(reader, line, error))
      return FALSE;
  }
  if (g_hash_table_size(reader->gpu_of) == 0)
    return fail_input(error, "%s: found no ranks, expected GPUs (0,8,16), a table (rank,node,gpu) or hosts (node0)",
                      reader->file);
  return TRUE;
}

/* Ranks must be 0 to n − 1. */
static GArray *map_of(const Reader *reader, GError **error) {
  const int n = (int)g_hash_table_size(reader->gpu_of);
  g_autoptr(GArray) map = g_array_sized_new(FALSE, FALSE, sizeof(int), (guint)n);
  for (int rank = 0; rank < n; rank++) {
    gpointer gpu;
    if (!g_hash_table_lookup_extended(reader->gpu_of, GINT_TO_POINTER(rank), NULL, &gpu)) {
      fail_input(error, "%s: rank %d is missing: %d ranks are placed, expected 0 to %d", reader->file, rank, n, n - 1);
      return NULL;
    }
    const int number = GPOINTER_TO_INT(gpu);
    g_array_append_val(map, number);
  }
  return g_steal_pointer(&map);
}

GArray *rank_map_read(const char *file, const Cluster *cluster, GError **error) {
  gsize length;
  if (file[0] == '\0') {
    fail_input(error, "--rank-map: found an empty name, expected a file of GPUs (0,8,16), a table (rank,node,gpu) or "
                      "hosts (node0)");
    return NULL;
  }
  g_autofree char *text = data_file_read(file, &length, error);
  if (text == NULL)
    return NULL;
  if (strlen(text) != length) {
    fail_input(error, "%s: found a zero byte, expected a rank map", file);
    return NULL;
  }
  const gint64 n_gpus = cluster->nics_per_node == 0 ? cluster->domain_gpus : cluster->max_gpus; /* 0: not stated */
  Reader reader = {.file = file,
                   .cluster = cluster,
                   .most_gpu = (int)(n_gpus > 0 ? MIN(n_gpus, MOST_RANKS) : MOST_RANKS) - 1,
                   .gpu_of = g_hash_table_new(NULL, NULL),
                   .holder_of = g_hash_table_new_full(NULL, NULL, NULL, g_free)};
  GArray *map = read_lines(&reader, text, error) ? map_of(&reader, error) : NULL;
  g_hash_table_unref(reader.gpu_of);
  g_hash_table_unref(reader.holder_of);
  return map;
}

gint64 rank_map_extent(const GArray *map, int n_ranks) {
  gint64 extent = map == NULL ? n_ranks : 0;
  for (guint i = 0; map != NULL && i < map->len; i++)
    extent = MAX(extent, (gint64)g_array_index(map, int, i) + 1);
  return extent;
}

gboolean rank_map_check(const GArray *map, int gpus, const Cluster *cluster, GError **error) {
  if (map->len != (guint)gpus)
    return fail_impossible(error, "the rank map places %u ranks, the plan has %d", map->len, gpus);
  if (cluster == NULL || cluster->nics_per_node > 0)
    return TRUE;
  const int domain = g_array_index(map, int, 0) / cluster->domain_gpus;
  for (int rank = 1; rank < gpus; rank++)
    if (g_array_index(map, int, rank) / cluster->domain_gpus != domain)
      return fail_impossible(error, "ranks 0 and %d need a network: cluster %s joins %d GPUs and has no NICs", rank,
                             cluster->name, cluster->domain_gpus);
  return TRUE;
}
