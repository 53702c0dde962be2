#include "toml.h"

#include <string.h>

#include "error.h"

enum { MOST_DEPTH = 16 };

typedef struct {
  const char *name, *at;
  guint line;
  int depth;
  TomlVisit visit;
  gpointer data;
  GHashTable *seen; /* keys → lines */
} Toml;

static gboolean fail(const Toml *toml, GError **error, const char *expected) {
  g_autofree char *found = g_strndup(toml->at, MIN(strcspn(toml->at, "\r\n"), 40));
  return fail_input(error, "%s:%u: found \"%s\", expected %s", toml->name, toml->line, found, expected);
}

static void skip_blanks(Toml *toml) {
  toml->at += strspn(toml->at, " \t");
}

/* Blanks, comments and ends of lines. */
static void skip_lines(Toml *toml) {
  for (;;) {
    toml->at += strspn(toml->at, " \t\r");
    if (*toml->at == '#')
      toml->at += strcspn(toml->at, "\n");
    if (*toml->at != '\n')
      return;
    toml->line++;
    toml->at++;
  }
}

static gboolean end_line(Toml *toml, GError **error) {
  skip_blanks(toml);
  return *toml->at == '\0' || strchr("#\r\n", *toml->at) != NULL || fail(toml, error, "the end of the line");
}

/* --- strings and keys --- */

static gboolean append_escape(Toml *toml, GString *out, GError **error) {
  static const char letters[] = "btnfr\"\\", meant[] = "\b\t\n\f\r\"\\";
  const char c = *toml->at;
  const char *letter = c != '\0' ? strchr(letters, c) : NULL;
  if (letter != NULL) {
    g_string_append_c(out, meant[letter - letters]);
    toml->at++;
    return TRUE;
  }
  const gsize n = c == 'u' ? 4 : c == 'U' ? 8 : 0;
  gunichar code = 0;
  for (gsize i = 1; i <= n && n > 0; i++) {
    if (!g_ascii_isxdigit(toml->at[i]))
      return fail(toml, error, "an escape such as \\n or \\u00e9");
    code = code * 16 + (gunichar)g_ascii_xdigit_value(toml->at[i]);
  }
  if (n == 0 || code == 0 || !g_unichar_validate(code))
    return fail(toml, error, "an escape such as \\n or \\u00e9");
  g_string_append_unichar(out, code);
  toml->at += n + 1;
  return TRUE;
}

static gboolean read_string(Toml *toml, GString *out, GError **error) {
  const char quote = *toml->at;
  if (toml->at[1] == quote && toml->at[2] == quote)
    return fail(toml, error, "a string of one line");
  for (toml->at++; *toml->at != quote;) {
    if (*toml->at == '\0' || *toml->at == '\n')
      return fail(toml, error, quote == '"' ? "a closing \"" : "a closing '");
    if (quote == '"' && *toml->at == '\\') {
      toml->at++;
      if (!append_escape(toml, out, error))
        return FALSE;
    } else {
      g_string_append_c(out, *toml->at++);
    }
  }
  toml->at++;
  return TRUE;
}

/* One or more names with dots between them, appended to `key`. */
static gboolean read_key(Toml *toml, GString *key, GError **error) {
  do {
    skip_blanks(toml);
    const gsize bare = strspn(toml->at, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_-");
    if (*toml->at != '"' && *toml->at != '\'' && bare == 0)
      return fail(toml, error, "a key");
    if (key->len > 0)
      g_string_append_c(key, '.');
    if (bare > 0)
      g_string_append_len(key, toml->at, (gssize)bare);
    else if (!read_string(toml, key, error))
      return FALSE;
    toml->at += bare;
    skip_blanks(toml);
  } while (*toml->at == '.' && toml->at++);
  return TRUE;
}

/* --- values --- */

static gboolean read_value(Toml *toml, const char *key, GString *out, GError **error);
static gboolean read_pair(Toml *toml, const char *table, GError **error);

static gboolean read_list(Toml *toml, const char *key, GString *out, GError **error) {
  gboolean is_nested = FALSE;
  const gsize start = out->len;
  toml->at++;
  for (skip_lines(toml); *toml->at != ']'; skip_lines(toml)) {
    is_nested = is_nested || *toml->at == '[';
    if (*toml->at == '{')
      return fail(toml, error, "values: lists of tables are not read");
    if (out->len > start)
      g_string_append_c(out, is_nested ? ';' : ',');
    if (!read_value(toml, key, out, error))
      return FALSE;
    skip_lines(toml);
    if (*toml->at != ',' && *toml->at != ']')
      return fail(toml, error, ", or ] in a list");
    toml->at += *toml->at == ',';
  }
  toml->at++;
  return TRUE;
}

static gboolean read_table(Toml *toml, const char *key, GError **error) {
  toml->at++;
  for (skip_blanks(toml); *toml->at != '}'; skip_blanks(toml)) {
    if (!read_pair(toml, key, error))
      return FALSE;
    skip_blanks(toml);
    if (*toml->at != ',' && *toml->at != '}')
      return fail(toml, error, ", or } in a table");
    toml->at += *toml->at == ',';
  }
  toml->at++;
  return TRUE;
}

static gboolean is_number(const char *text) {
  static const char *const others[] = {"true", "false", "inf", "nan", "+inf", "-inf", "+nan", "-nan", NULL};
  char *end;
  if (g_strv_contains(others, text))
    return TRUE;
  g_ascii_strtod(text, &end);
  return *text != '\0' && *end == '\0' && strspn(text, "0123456789+-.eE") == strlen(text);
}

/* 0xff, 0o17, 0b101 as tens. */
static gboolean is_of_base(const char *text, gint64 *value) {
  const guint base = *text != '0' ? 0 : text[1] == 'x' ? 16 : text[1] == 'o' ? 8 : text[1] == 'b' ? 2 : 0;
  guint64 number;
  if (base == 0 || !g_ascii_string_to_unsigned(text + 2, base, 0, G_MAXINT64, &number, NULL))
    return FALSE;
  *value = (gint64)number;
  return TRUE;
}

static gboolean read_bare(Toml *toml, GString *out, GError **error) {
  const gsize length = strcspn(toml->at, " \t\r\n,]}#");
  g_autoptr(GString) text = g_string_new_len(toml->at, (gssize)length);
  gint64 value;
  g_string_replace(text, "_", "", 0);
  if (is_of_base(text->str, &value))
    g_string_printf(text, "%" G_GINT64_FORMAT, value);
  else if (!is_number(text->str))
    return fail(toml, error, "a value: \"text\", a number, true, false, a list or a table in braces");
  g_string_append(out, text->str);
  toml->at += length;
  return TRUE;
}

/* Of a table in braces the values are visited. */
static gboolean read_value(Toml *toml, const char *key, GString *out, GError **error) {
  gboolean is_read;
  if (++toml->depth > MOST_DEPTH)
    return fail(toml, error, "values nested less deep");
  if (*toml->at == '"' || *toml->at == '\'')
    is_read = read_string(toml, out, error);
  else if (*toml->at == '[')
    is_read = read_list(toml, key, out, error);
  else if (*toml->at == '{')
    is_read = read_table(toml, key, error);
  else
    is_read = read_bare(toml, out, error);
  toml->depth--;
  return is_read;
}

static gboolean check_once(Toml *toml, const char *key, GError **error) {
  const guint before = GPOINTER_TO_UINT(g_hash_table_lookup(toml->seen, key));
  g_hash_table_replace(toml->seen, g_strdup(key), GUINT_TO_POINTER(toml->line));
  return before == 0 ||
         fail_input(error, "%s:%u: %s: found twice, first in line %u", toml->name, toml->line, key, before);
}

/* `key = value`. */
static gboolean read_pair(Toml *toml, const char *table, GError **error) {
  g_autoptr(GString) key = g_string_new(table), value = g_string_new(NULL);
  const guint line = toml->line;
  if (!read_key(toml, key, error) || !check_once(toml, key->str, error))
    return FALSE;
  if (*toml->at != '=')
    return fail(toml, error, "= behind a key");
  toml->at++;
  skip_blanks(toml);
  const gboolean is_table = *toml->at == '{';
  if (!read_value(toml, key->str, value, error))
    return FALSE;
  if (!is_table)
    toml->visit(key->str, value->str, line, toml->data);
  return TRUE;
}

static gboolean read_header(Toml *toml, GString *table, GError **error) {
  if (toml->at[1] == '[')
    return fail(toml, error, "[table]: lists of tables are not read");
  toml->at++;
  g_string_truncate(table, 0);
  if (!read_key(toml, table, error))
    return FALSE;
  if (*toml->at != ']')
    return fail(toml, error, "] behind a table's name");
  toml->at++;
  return TRUE;
}

gboolean toml_read(const char *name, const char *text, TomlVisit visit, gpointer data, GError **error) {
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  Toml toml = {.name = name, .at = text, .line = 1, .visit = visit, .data = data, .seen = seen};
  g_autoptr(GString) table = g_string_new(NULL);
  for (skip_lines(&toml); *toml.at != '\0'; skip_lines(&toml)) {
    const gboolean is_read = *toml.at == '[' ? read_header(&toml, table, error) : read_pair(&toml, table->str, error);
    if (!is_read || !end_line(&toml, error))
      return FALSE;
  }
  return TRUE;
}
