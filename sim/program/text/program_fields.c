/* Words and fields of one line. Every message goes through line_fail(), which adds the location. */
#include "program_fields.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "suggest.h"

const char *const phase_words[N_PHASES + 1] = {"F", "I", "W", "B", "OPTIMIZER", NULL};
const char *const piece_words[N_PIECES + 1] = {"embedding",
                                               "frozen_dense",
                                               "frozen_dense_apart",
                                               "dense_layer",
                                               "dense_layer_apart",
                                               "frozen_layer",
                                               "frozen_layer_apart",
                                               "layer",
                                               "layer_apart",
                                               "head",
                                               NULL};
const char *const op_kind_words[N_OP_KINDS + 1] = {"compute", "send", "recv", "collective", "host", NULL};
const char *const axis_words[N_AXIS_BITS + 1] = {"tp",       "cp",         "ep",           "dp",        "pp",
                                                 "dp_shard", "dp_replica", "expert_shard", "dp_island", NULL};

const char *const route_words[N_ROUTE_BITS + 1] = {"link_in", "link_out", "nvme_read", "nvme_write", "storage",
                                                   "push",    "serve",    "pull",      NULL};

OpKind usual_op_kind(Stream stream) {
  static const OpKind kinds[N_STREAMS] = {
      [STREAM_COMPUTE] = OP_COMPUTE,    [STREAM_TP] = OP_COLLECTIVE,    [STREAM_CP] = OP_COLLECTIVE,
      [STREAM_EP] = OP_COLLECTIVE,      [STREAM_SEND_F] = OP_SEND,      [STREAM_RECV_F] = OP_RECV,
      [STREAM_SEND_B] = OP_SEND,        [STREAM_RECV_B] = OP_RECV,      [STREAM_DP] = OP_COLLECTIVE,
      [STREAM_SEND_F_BACK] = OP_SEND,   [STREAM_RECV_F_BACK] = OP_RECV, [STREAM_SEND_B_BACK] = OP_SEND,
      [STREAM_RECV_B_BACK] = OP_RECV,   [STREAM_COPY] = OP_COLLECTIVE,  [STREAM_HOST] = OP_HOST,
      [STREAM_COPY_OUT] = OP_COLLECTIVE};
  return kinds[stream];
}

gboolean line_fail(const Line *line, GError **error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  return fail_input(error, "%s:%d: %s", line->name, line->number, message);
}

gboolean line_fail_word(const Line *line, const char *what, const char *found, const char *const *words,
                        GError **error) {
  g_autofree char *typed = g_strndup(found, 40);
  g_autofree char *hint = suggest_message(typed, words);
  return line_fail(line, error, "%s " FOUND ": %s", what, found, hint);
}

static int find_word(const char *text, const char *const *words) {
  for (int i = 0; words[i]; i++)
    if (strcmp(words[i], text) == 0)
      return i;
  return -1;
}

int line_word_of(const Line *line, const char *what, const char *text, const char *const *words, GError **error) {
  int i = find_word(text, words);
  if (i < 0)
    line_fail_word(line, what, text, words, error);
  return i;
}

gboolean field_parse_int(const char *text, const char **end, gint32 least, gint32 *value) {
  if (!g_ascii_isdigit(*text) && *text != '-')
    return FALSE;
  char *after;
  gint64 number = g_ascii_strtoll(text, &after, 10);
  if (after == text || number < least || number > G_MAXINT32)
    return FALSE;
  *end = after;
  *value = (gint32)number;
  return TRUE;
}

static gboolean is_count(const char *text, gint32 *value) {
  const char *end;
  return field_parse_int(text, &end, 0, value) && *end == '\0';
}

gboolean field_count(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  return is_count(value, target) ||
         line_fail(line, error, "%s=" FOUND "; expected a whole number from 0 to %d", key, value, G_MAXINT32);
}

gboolean field_byte(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  gint32 number;
  if (!is_count(value, &number) || number > G_MAXUINT8)
    return line_fail(line, error, "%s=" FOUND "; expected a whole number from 0 to %d", key, value, G_MAXUINT8);
  *(guint8 *)target = (guint8)number;
  return TRUE;
}

gboolean field_int(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  const char *end;
  return (field_parse_int(value, &end, G_MININT32, target) && *end == '\0') ||
         line_fail(line, error, "%s=" FOUND "; expected a whole number of 32 bits", key, value);
}

gboolean field_number(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  char *end;
  double number = g_ascii_strtod(value, &end);
  if (end == value || *end != '\0' || !isfinite(number) || number < 0)
    return line_fail(line, error, "%s=" FOUND "; expected a finite number, not negative", key, value);
  *(double *)target = number;
  return TRUE;
}

gboolean field_piece(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  gint32 *piece = target;
  *piece = line_word_of(line, key, value, piece_words, error);
  return *piece >= 0;
}

gboolean field_others(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  OtherLayers *others = target;
  g_auto(GStrv) parts = g_strsplit(value, ",", N_PIECES + 1);
  for (int i = 0; parts[i] != NULL; i++) {
    char *count = strchr(parts[i], ':');
    const char *end;
    gint32 n;
    if (count == NULL || !field_parse_int(count + 1, &end, 1, &n) || *end != '\0')
      return line_fail(line, error, "%s=" FOUND "; expected kinds of layers with their numbers, as layer_apart:3", key,
                       value);
    *count = '\0';
    const int piece = line_word_of(line, key, parts[i], piece_words, error);
    if (piece < 0)
      return FALSE;
    if (!piece_is_layer((Piece)piece) || piece == (int)piece_family((Piece)piece) || others->n[piece] > 0)
      return line_fail(line, error, "%s=" FOUND "; expected each kind of layer but layer and dense_layer once", key,
                       parts[i]);
    others->n[piece] = n;
  }
  return TRUE;
}

gboolean field_kind(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  int kind = line_word_of(line, key, value, op_kind_words, error);
  *(guint8 *)target = (guint8)kind;
  return kind >= 0;
}

gboolean field_items(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  Work *work = target;
  const char *at;
  if (field_parse_int(value, &at, -1, &work->first_item) && g_str_has_prefix(at, "..") &&
      field_parse_int(at + 2, &at, -1, &work->last_item) && *at == '\0')
    return TRUE;
  return line_fail(line, error, "%s=" FOUND "; expected the first and last item, as 3..7", key, value);
}

static gboolean read_bits(const Line *line, const char *key, const char *value, const char *const *words, guint *bits,
                          GError **error) {
  *bits = 0;
  if (strcmp(value, "none") == 0)
    return TRUE;
  g_auto(GStrv) names = g_strsplit(value, "+", (int)g_strv_length((char **)words) + 1);
  for (int i = 0; names[i]; i++) {
    int bit = line_word_of(line, key, names[i], words, error);
    if (bit < 0)
      return FALSE;
    if (*bits & 1u << bit)
      return line_fail(line, error, "%s: %s is there twice", key, names[i]);
    *bits |= 1u << bit;
  }
  return *bits != 0 || line_fail(line, error, "%s=; expected %s joined by +, or none", key, key);
}

gboolean field_axes(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  return read_bits(line, key, value, axis_words, target, error);
}

gboolean field_route(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  guint bits;
  if (!read_bits(line, key, value, route_words, &bits, error))
    return FALSE;
  *(guint8 *)target = (guint8)bits;
  return TRUE;
}

gboolean field_charge(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  const char *axes[N_AXES + 1] = {NULL};
  memcpy(axes, axis_words, N_AXES * sizeof *axes);
  int axis = line_word_of(line, key, value, axes, error);
  *(guint8 *)target = (guint8)axis;
  return axis >= 0;
}

gboolean field_pp(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  Group *group = target;
  const char *at;
  group->spans_pp = TRUE;
  if (strcmp(value, "all") == 0)
    return TRUE;
  if (field_parse_int(value, &at, 0, &group->pp_first) && *at == ',' &&
      field_parse_int(at + 1, &at, 0, &group->pp_last) && *at == '\0')
    return TRUE;
  return line_fail(line, error, "%s=" FOUND "; expected all, or two pipeline ranks as 0,3", key, value);
}

gboolean field_after(const Line *line, const char *key, const char *value, gpointer target, GError **error) {
  gint32 *after = target;
  const char *at = value;
  for (int i = 0; i < OP_MAX_AFTER; i++) {
    if (!field_parse_int(at, &at, 0, &after[i]))
      break;
    if (*at == '\0')
      return TRUE;
    if (*at++ != ',')
      break;
  }
  return line_fail(line, error, "%s=" FOUND "; expected 1 to %d op numbers joined by commas", key, value, OP_MAX_AFTER);
}

static gboolean fail_key(const Line *line, const char *key, const Field *fields, int n_fields, GError **error) {
  const char *keys[MAX_FIELDS + 1] = {NULL};
  for (int i = 0; i < n_fields; i++)
    keys[i] = fields[i].key;
  return line_fail_word(line, "unknown key", key, keys, error);
}

static gboolean read_field(const Line *line, char *word, const Field *fields, int n_fields, guint *seen,
                           GError **error) {
  char *equals = strchr(word, '=');
  if (!equals)
    return line_fail(line, error, "found " FOUND "; expected key=value", word);
  *equals = '\0';
  for (int i = 0; i < n_fields; i++) {
    if (strcmp(fields[i].key, word) != 0)
      continue;
    if (*seen & 1u << i)
      return line_fail(line, error, "%s is there twice", word);
    *seen |= 1u << i;
    return fields[i].read(line, word, equals + 1, fields[i].target, error);
  }
  return fail_key(line, word, fields, n_fields, error);
}

gboolean line_read_fields(const Line *line, guint first, guint end, const Field *fields, int n_fields, GError **error) {
  g_assert(n_fields <= MAX_FIELDS);
  guint seen = 0;
  for (guint i = first; i < end; i++)
    if (!read_field(line, g_ptr_array_index(line->words, i), fields, n_fields, &seen, error))
      return FALSE;
  for (int i = 0; i < n_fields; i++)
    if (fields[i].is_required && !(seen & 1u << i))
      return line_fail(line, error, "%s= is missing", fields[i].key);
  return TRUE;
}

guint line_n_words(const Line *line) {
  return line->words->len - 1; /* without the NULL */
}

const char *line_word(const Line *line, guint i) {
  return i < line_n_words(line) ? g_ptr_array_index(line->words, i) : "";
}

gboolean line_check_number(const Line *line, const char *text, guint expected, GError **error) {
  gint32 number;
  return (is_count(text, &number) && (guint)number == expected) ||
         line_fail(line, error, "found number " FOUND "; expected %u, the next", text, expected);
}
