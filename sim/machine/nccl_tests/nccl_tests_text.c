/* Read line by line. Comment lines begin a run, count its ranks and name the columns; a line that begins with a
 * number is a row of the table that the last header began. */
#include "nccl_tests_parts.h"

#include <math.h>
#include <string.h>

#include "error.h"

enum { MAX_COLUMNS = 40, MAX_SETS = 2 };

/* Where in a row a set of results is. */
typedef struct {
  int time, algbw, busbw, wrong; /* columns; −1: absent */
} Columns;

typedef struct {
  NcclTestsLog *log;
  NcclTestsTable *table; /* of the run being read; NULL: none yet */
  GHashTable *hosts;     /* of the run's first group of ranks */
  char *group;           /* of the first rank; NULL: none yet; owned */
  Columns sets[MAX_SETS];
  int n_sets, n_columns; /* 0 columns: no header yet */
  int n_stamps;          /* words of a time stamp after the columns */
  int header_line;
  int line;
} Reader;

static gboolean fail_at(const Reader *reader, GError **error, const char *what) {
  return fail_input(error, "%s:%d: %s", reader->log->file, reader->line, what);
}

/* Split `text` into words, at most MAX_COLUMNS; `copy` is modified. */
static int split_words(char *copy, char **words) {
  int n = 0;
  char *rest = NULL;
  for (char *word = strtok_r(copy, " \t\r", &rest); word != NULL && n < MAX_COLUMNS;
       word = strtok_r(NULL, " \t\r", &rest))
    words[n++] = word;
  return n;
}

static void begin_run(Reader *reader) {
  reader->table = nccl_tests_add_table(reader->log, reader->line);
  reader->n_columns = 0;
  g_hash_table_remove_all(reader->hosts);
  g_clear_pointer(&reader->group, g_free);
}

/* "nThread 1 nGpus 8 …": the number of ranks, unless they are listed. */
static void read_parameters(Reader *reader, char **words, int n_words) {
  if (reader->table == NULL || reader->n_columns > 0)
    begin_run(reader);
  guint64 n_threads = 0, n_gpus = 0;
  if (n_words >= 4 && strcmp(words[2], "nGpus") == 0 &&
      g_ascii_string_to_unsigned(words[1], 10, 1, 4096, &n_threads, NULL) &&
      g_ascii_string_to_unsigned(words[3], 10, 1, 4096, &n_gpus, NULL) && n_threads * n_gpus > 1) {
    reader->table->n_gpus = (int)(n_threads * n_gpus);
    reader->table->n_nodes = 1;
  }
}

/* "Rank 0 Group 0 Pid 4711 on node1 device 0 …" */
static void read_rank(Reader *reader, char **words, int n_words) {
  const char *group = "0", *host = NULL;
  for (int i = 1; i + 1 < n_words; i++) {
    if (strcmp(words[i], "Group") == 0)
      group = words[i + 1];
    if (strcmp(words[i], "on") == 0 && host == NULL)
      host = words[i + 1];
  }
  if (reader->table == NULL || reader->n_columns > 0)
    begin_run(reader);
  if (reader->group == NULL) {
    reader->group = g_strdup(group);
    reader->table->n_gpus = 0;
  }
  if (host == NULL || strcmp(group, reader->group) != 0)
    return;
  g_hash_table_add(reader->hosts, g_strdup(host));
  reader->table->n_gpus++;
  reader->table->n_nodes = (int)g_hash_table_size(reader->hosts);
}

static gboolean read_header(Reader *reader, char **words, int n_words, GError **error) {
  if (reader->table == NULL || reader->n_columns > 0)
    begin_run(reader);
  reader->n_sets = reader->n_stamps = 0;
  reader->header_line = reader->line;
  for (int i = 0; i < n_words; i++) {
    Columns *set = reader->n_sets > 0 ? &reader->sets[reader->n_sets - 1] : NULL;
    if (strcmp(words[i], "cputime") == 0)
      return fail_at(reader, error, "found cputime, expected time: this run (-C 1) measured how long the CPU took");
    if (strcmp(words[i], "time") == 0 && reader->n_sets < MAX_SETS)
      reader->sets[reader->n_sets++] = (Columns){i, -1, -1, -1};
    else if (set != NULL && strcmp(words[i], "algbw") == 0)
      set->algbw = i;
    else if (set != NULL && strcmp(words[i], "busbw") == 0)
      set->busbw = i;
    else if (set != NULL && strcmp(words[i], "#wrong") == 0)
      set->wrong = i;
  }
  if (strcmp(words[n_words - 1], "timestamp") == 0) {
    n_words--;
    reader->n_stamps = 2; /* date and time of day */
  }
  for (int s = 0; s < reader->n_sets; s++)
    if (reader->sets[s].algbw < 0 || reader->sets[s].busbw < 0)
      return fail_at(reader, error, "found a header without algbw or busbw beside time");
  reader->n_columns = n_words;
  return reader->n_sets > 0 || fail_at(reader, error, "found a header without the column time");
}

/* Every unit must be the expected one of its kind. */
static gboolean read_units(Reader *reader, char **words, int n_words, GError **error) {
  static const char *const known[] = {"(B)", "(elements)", "(us)", "(GB/s)", "(%)", NULL};
  for (int i = 0; i < n_words && words[i][0] == '('; i++)
    if (!g_strv_contains(known, words[i]))
      return fail_input(error, "%s:%d: found the unit %.20s, expected (B), (us) and (GB/s)", reader->log->file,
                        reader->line, words[i]);
  return TRUE;
}

static gboolean read_number(const Reader *reader, const char *word, double *value, GError **error) {
  char *end;
  *value = g_ascii_strtod(word, &end);
  return (*end == '\0' && end != word && isfinite(*value)) ||
         fail_input(error, "%s:%d: found \"%.40s\", expected a number", reader->log->file, reader->line, word);
}

static gboolean is_missing(const char *word) {
  return g_ascii_strcasecmp(word, "N/A") == 0 || strcmp(word, "-") == 0;
}

static gboolean read_set(Reader *reader, char **words, const Columns *set, double bytes, GError **error) {
  double time_us, algbw_GBps, busbw_GBps, n_wrong = 0;
  if (is_missing(words[set->time]))
    return TRUE; /* the operation has no such variant */
  if (!read_number(reader, words[set->time], &time_us, error) ||
      !read_number(reader, words[set->algbw], &algbw_GBps, error) ||
      !read_number(reader, words[set->busbw], &busbw_GBps, error))
    return FALSE;
  if (set->wrong >= 0 && !is_missing(words[set->wrong]) && !read_number(reader, words[set->wrong], &n_wrong, error))
    return FALSE;
  if (n_wrong != 0)
    return fail_input(error, "%s:%d: found %g wrong elements, expected a run with right results", reader->log->file,
                      reader->line, n_wrong);
  return nccl_tests_add_point(reader->log, reader->table, reader->line, bytes, time_us, algbw_GBps, busbw_GBps, error);
}

static gboolean read_row(Reader *reader, char **words, int n_words, GError **error) {
  if (reader->table == NULL || reader->n_columns == 0)
    return fail_at(reader, error, "found numbers before a header that names their columns (size count type … time)");
  if (n_words != reader->n_columns && n_words != reader->n_columns + reader->n_stamps)
    return fail_input(error, "%s:%d: found %d columns, expected the header's %d; is the log cut off?",
                      reader->log->file, reader->line, n_words, reader->n_columns);
  double bytes;
  if (!read_number(reader, words[0], &bytes, error))
    return FALSE;
  for (int s = 0; s < reader->n_sets; s++)
    if (!read_set(reader, words, &reader->sets[s], bytes, error))
      return FALSE;
  return TRUE;
}

static gboolean read_comment(Reader *reader, char **words, int n_words, GError **error) {
  if (n_words == 0)
    return TRUE;
  if (n_words >= 3 && strcmp(words[0], "nccl-tests") == 0 && strcmp(words[1], "version") == 0 &&
      reader->log->version == NULL)
    reader->log->version = g_strdup(words[2]);
  if (n_words >= 4 && strcmp(words[0], "Collective") == 0 && strcmp(words[2], "starting:") == 0) {
    begin_run(reader);
    return nccl_tests_op(reader->log, reader->line, words[3], &reader->table->op, error);
  }
  if (strcmp(words[0], "nThread") == 0)
    read_parameters(reader, words, n_words);
  if (strcmp(words[0], "Rank") == 0)
    read_rank(reader, words, n_words);
  if (strcmp(words[0], "size") == 0)
    return read_header(reader, words, n_words, error);
  if (words[0][0] == '(' && reader->n_columns > 0 && reader->line == reader->header_line + 1)
    return read_units(reader, words, n_words, error);
  return TRUE;
}

/* Launchers that tag their ranks' output write "[1,0]<stdout>:" before each line. */
static char *without_tag(char *line) {
  char *tag = line[0] == '[' ? strstr(line, "<stdout>:") : NULL;
  return tag != NULL ? tag + strlen("<stdout>:") : line;
}

static gboolean read_line(Reader *reader, char *line, GError **error) {
  char *words[MAX_COLUMNS];
  char *text = g_strchug(without_tag(line));
  if (*text == '#') {
    int n_words = split_words(text + 1, words);
    return read_comment(reader, words, n_words, error);
  }
  int n_words = split_words(text, words);
  /* a row's second word is a number too; other lines that begin with a digit come from elsewhere */
  gboolean is_row = n_words >= 1 && strspn(words[0], "0123456789") == strlen(words[0]) &&
                    (n_words == 1 || g_ascii_isdigit(words[1][0]));
  return !is_row || read_row(reader, words, n_words, error);
}

gboolean nccl_tests_read_text(NcclTestsLog *log, const char *text, GError **error) {
  Reader reader = {.log = log, .hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL)};
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  gboolean ok = TRUE;
  for (int i = 0; lines[i] != NULL && ok; i++) {
    reader.line = i + 1;
    ok = read_line(&reader, lines[i], error);
  }
  g_hash_table_unref(reader.hosts);
  g_free(reader.group);
  return ok;
}
