#include "seq_lengths.h"

#include <math.h>
#include <string.h>

#include "data_path.h"
#include "error.h"
#include "splitmix.h"
#include "units.h"

enum { MOST_LENGTH = 1 << 27 /* as --seq-len */ };
static const double most_sigma = 10;

const char *const *batching_names(void) {
  static const char *const names[] = {[BATCHING_PADDED] = "padded",     [BATCHING_LONGEST] = "longest",
                                      [BATCHING_PACKED] = "packed",     [BATCHING_CONCATENATED] = "concatenated",
                                      [BATCHING_BALANCED] = "balanced", NULL};
  return names;
}

/* --- distributions --- */

static gboolean parse_uniform(const char *text, SeqLengths *lengths, GError **error) {
  g_auto(GStrv) ends = g_strsplit(text, "-", 2);
  gint64 least, most;
  if (ends[0] == NULL || ends[1] == NULL)
    return fail_input(error, "found \"uniform:%.80s\", expected the least and the most, uniform:512-4096", text);
  if (!units_parse_whole(ends[0], 1, MOST_LENGTH, &least, error) ||
      !units_parse_whole(ends[1], 1, MOST_LENGTH, &most, error))
    return FALSE;
  lengths->least = (double)least;
  lengths->most = (double)most;
  return least <= most || fail_input(error, "found \"uniform:%.80s\", whose least is beyond its most", text);
}

static gboolean parse_sigma(const char *text, double *sigma, GError **error) {
  char *end;
  *sigma = g_ascii_strtod(text, &end);
  return (end != text && *end == '\0' && *sigma >= 0 && *sigma <= most_sigma) ||
         fail_input(error, "found sigma \"%.80s\", expected a number from 0 to %g", text, most_sigma);
}

static gboolean parse_lognormal(const char *text, SeqLengths *lengths, GError **error) {
  g_auto(GStrv) parts = g_strsplit(text, "+", 2);
  gint64 median;
  if (parts[0] == NULL || parts[1] == NULL)
    return fail_input(error, "found \"lognormal:%.80s\", expected median and sigma, lognormal:1200+1.1", text);
  if (!units_parse_whole(parts[0], 1, MOST_LENGTH, &median, error))
    return FALSE;
  lengths->median = (double)median;
  return parse_sigma(parts[1], &lengths->sigma, error);
}

/* --- files --- */

/* Its column called "length"; −1: none. */
static int length_column(char **cells) {
  for (int i = 0; cells[i] != NULL; i++)
    if (g_ascii_strcasecmp(g_strstrip(cells[i]), "length") == 0)
      return i;
  return -1;
}

static gboolean is_number(const char *text) {
  return g_ascii_isdigit(*text) || *text == '-' || *text == '+';
}

static gboolean read_line(const char *file, int number, char *line, int *column, GArray *lengths, GError **error) {
  g_auto(GStrv) cells = g_strsplit(line, ",", -1);
  const int n_cells = (int)g_strv_length(cells);
  gint64 length;
  if (*column < 0) { /* the first line: a header, or all there is to a line */
    const gboolean is_header = n_cells > 1 || !is_number(g_strstrip(cells[0]));
    *column = is_header ? length_column(cells) : 0;
    if (*column < 0)
      return fail_input(error, "%s:%d: found \"%.80s\", expected a length, or a header with a column \"length\"", file,
                        number, line);
    if (is_header)
      return TRUE;
  }
  if (*column >= n_cells)
    return fail_input(error, "%s:%d: found %d cells, expected a length in number %d", file, number, n_cells,
                      *column + 1);
  if (!units_parse_whole(g_strstrip(cells[*column]), 1, MOST_LENGTH, &length, error)) {
    g_prefix_error(error, "%s:%d: ", file, number);
    return FALSE;
  }
  g_array_append_val(lengths, length);
  return TRUE;
}

static gboolean read_file(const char *file, const char *contents, SeqLengths *lengths, GError **error) {
  g_auto(GStrv) lines = g_strsplit(contents, "\n", -1);
  g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(gint64));
  int column = -1;
  for (int i = 0; lines[i] != NULL; i++) {
    const char *line = g_strstrip(lines[i]);
    if (*line != '\0' && *line != '#' && !read_line(file, i + 1, lines[i], &column, all, error))
      return FALSE;
  }
  if (all->len == 0)
    return fail_input(error, "%s: found no lengths, expected one in each line", file);
  lengths->n_listed = all->len;
  lengths->listed = (gint64 *)(void *)g_array_free(g_steal_pointer(&all), FALSE);
  return TRUE;
}

static gboolean parse_file(const char *text, char **contents, SeqLengths *lengths, GError **error) {
  if (strchr(text, ':') != NULL || !g_file_test(text, G_FILE_TEST_EXISTS))
    return fail_input(error, "found \"%.80s\", expected none, uniform:A-B, lognormal:MEDIAN+SIGMA or a file of lengths",
                      text);
  gsize n_bytes;
  *contents = data_file_read(text, &n_bytes, error);
  return *contents != NULL && read_file(text, *contents, lengths, error);
}

/* --- texts --- */

static gboolean parse(const char *text, char **contents, SeqLengths *lengths, GError **error) {
  static const char uniform[] = "uniform:", lognormal[] = "lognormal:";
  lengths->kind = g_str_has_prefix(text, uniform)     ? LENGTHS_UNIFORM
                  : g_str_has_prefix(text, lognormal) ? LENGTHS_LOGNORMAL
                                                      : LENGTHS_LISTED;
  switch (lengths->kind) {
  case LENGTHS_UNIFORM:
    return parse_uniform(text + strlen(uniform), lengths, error);
  case LENGTHS_LOGNORMAL:
    return parse_lognormal(text + strlen(lognormal), lengths, error);
  default:
    return parse_file(text, contents, lengths, error);
  }
}

/* Plans are copied by the thousand, and compared as bytes. */
static const SeqLengths *keep(const SeqLengths *lengths, const char *text, const char *contents) {
  static GMutex mutex;
  static GHashTable *kept;
  g_autofree char *key = g_strdup_printf("%s\n%s", text, contents != NULL ? contents : "");
  g_mutex_lock(&mutex);
  if (kept == NULL)
    kept = g_hash_table_new(g_str_hash, g_str_equal);
  SeqLengths *known = g_hash_table_lookup(kept, key);
  if (known == NULL) {
    known = g_memdup2(lengths, sizeof *lengths);
    known->text = g_intern_string(text);
    g_hash_table_insert(kept, g_steal_pointer(&key), known);
  } else {
    g_free(lengths->listed);
  }
  g_mutex_unlock(&mutex);
  return known;
}

gboolean seq_lengths_parse(const char *what, const char *text, const SeqLengths **lengths, GError **error) {
  SeqLengths read = {0};
  g_autofree char *contents = NULL;
  *lengths = NULL;
  if (strcmp(text, "none") == 0)
    return TRUE;
  if (!parse(text, &contents, &read, error)) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  *lengths = keep(&read, text, contents);
  return TRUE;
}

const char *seq_lengths_text(const SeqLengths *lengths) {
  return lengths != NULL ? lengths->text : "none";
}

/* --- lengths --- */

/* In (0, 1), from 53 bits. */
static double uniform_of(guint64 random) {
  return ((double)(random >> 11) + 0.5) / 9007199254740992.0;
}

/* Normal by Box and Muller, Annals of Mathematical Statistics 29, 1958. */
gint64 seq_lengths_nth(const SeqLengths *lengths, guint64 seed, gint64 i) {
  const guint64 first = splitmix(splitmix(seed) ^ (guint64)i);
  const double u = uniform_of(first);
  if (lengths->kind == LENGTHS_LISTED)
    return lengths->listed[i % lengths->n_listed];
  if (lengths->kind == LENGTHS_UNIFORM)
    return (gint64)(lengths->least + floor(u * (lengths->most - lengths->least + 1)));
  const double z = sqrt(-2 * log(u)) * cos(2 * G_PI * uniform_of(splitmix(first)));
  return (gint64)CLAMP(round(lengths->median * exp(lengths->sigma * z)), 1, MOST_LENGTH);
}

double seq_lengths_mean(const SeqLengths *lengths, gint64 most) {
  double sum = 0;
  if (lengths->kind == LENGTHS_UNIFORM)
    return MIN((lengths->least + lengths->most) / 2, (double)most);
  if (lengths->kind == LENGTHS_LOGNORMAL)
    return MIN(lengths->median, (double)most);
  for (gint64 i = 0; i < lengths->n_listed; i++)
    sum += (double)MIN(lengths->listed[i], most);
  return sum / (double)lengths->n_listed;
}
