#include "shell_words.h"

#include <string.h>

/* Of options in variables in variables; and bytes of a variable, as a few that double each other have no end. */
enum { MOST_DEPTH = 8, MOST_BYTES = 1 << 16 };

/* What ends a word. */
#define SEPARATORS " \t\r\n;&|()<>"

typedef struct {
  GArray *words;
  GHashTable *variables; /* name → text */
  int parentheses, depth;
} Shell;

/* The place that is read, and its line. */
typedef struct {
  const char *at;
  guint line;
} Place;

static void read_text(Shell *shell, Place place);

static void clear_word(gpointer data) {
  g_free(((ShellWord *)data)->text);
}

static void end_command(Shell *shell) {
  if (shell->words->len > 0)
    g_array_index(shell->words, ShellWord, shell->words->len - 1).ends = TRUE;
}

static gsize name_length(const char *text) {
  return g_ascii_isdigit(*text) ? 0 : strspn(text, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_");
}

/* --- $ --- */

static void append_variable(Shell *shell, const char *name, const char *whole, gsize length, const char *otherwise,
                            GString *out) {
  const char *text = g_hash_table_lookup(shell->variables, name);
  if (text == NULL)
    text = otherwise;
  if (text != NULL && out->len <= MOST_BYTES)
    g_string_append(out, text);
  else
    g_string_append_len(out, whole, (gssize)length);
}

/* "${NAME}", "${NAME:-text}", "${NAME[@]}": behind it. */
static void expand_braces(Shell *shell, Place *place, GString *out) {
  const char *start = place->at, *name = start + 2, *end = strchr(name, '}');
  if (end == NULL) {
    g_string_append_c(out, *place->at++);
    return;
  }
  gsize length = strspn(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_");
  g_autofree char *own = g_strndup(name, length), *rest = g_strndup(name + length, (gsize)(end - name) - length);
  place->at = end + 1;
  if (strcmp(rest, "[@]") == 0 || strcmp(rest, "[*]") == 0)
    return; /* words where they were set */
  const char *otherwise = g_str_has_prefix(rest, ":-") ? rest + 2 : *rest == '-' ? rest + 1 : NULL;
  append_variable(shell, own, start, (gsize)(place->at - start), otherwise, out);
}

/* "$(…)" and "$((…))" as they are. */
static void copy_command(Place *place, GString *out) {
  int open = 0;
  do {
    open += *place->at == '(';
    open -= *place->at == ')';
    place->line += *place->at == '\n';
    g_string_append_c(out, *place->at++);
  } while (*place->at != '\0' && (open > 0 || place->at[-1] == '$'));
}

static void expand(Shell *shell, Place *place, GString *out) {
  const char *name = place->at + 1;
  const gsize length = name_length(name);
  if (*name == '{') {
    expand_braces(shell, place, out);
  } else if (*name == '(') {
    copy_command(place, out);
  } else if (length > 0) {
    g_autofree char *own = g_strndup(name, length);
    append_variable(shell, own, place->at, length + 1, NULL, out);
    place->at = name + length;
  } else {
    g_string_append_c(out, *place->at++);
  }
}

/* --- words --- */

static void append_quoted(Shell *shell, Place *place, GString *out) {
  const char quote = *place->at++;
  while (*place->at != '\0' && *place->at != quote) {
    if (quote == '"' && *place->at == '$') {
      expand(shell, place, out);
      continue;
    }
    const gboolean is_escape = quote == '"' && *place->at == '\\' && strchr("\"\\$`", place->at[1]) != NULL;
    place->at += is_escape && place->at[1] != '\0';
    place->line += *place->at == '\n';
    g_string_append_c(out, *place->at++);
  }
  place->at += *place->at == quote;
}

static void append_escaped(Place *place, GString *out) {
  place->at++;
  if (*place->at == '\0')
    return;
  place->line += *place->at == '\n';
  if (*place->at != '\n')
    g_string_append_c(out, *place->at);
  place->at++;
}

/* A variable; its options are words of their own. */
static void assign(Shell *shell, const char *name, const char *text, guint line) {
  const gboolean has_options = strstr(text, "--") != NULL && shell->depth < MOST_DEPTH;
  if (has_options) {
    shell->depth++;
    read_text(shell, (Place){text, line});
    shell->depth--;
    end_command(shell);
  }
  if (has_options || (strchr(text, '$') == NULL && strlen(text) <= MOST_BYTES))
    g_hash_table_replace(shell->variables, g_strdup(name), g_strdup(has_options ? "" : text));
}

static void add_word(Shell *shell, const char *text, guint line) {
  const gsize length = name_length(text);
  if (length > 0 && (text[length] == '=' || g_str_has_prefix(text + length, "+="))) {
    g_autofree char *name = g_strndup(text, length);
    assign(shell, name, strchr(text, '=') + 1, line);
  } else if (*text != '\0') {
    const ShellWord word = {g_strdup(text), line, FALSE};
    g_array_append_val(shell->words, word);
  }
}

/* ">log", "2>&1", "&>log", "<in": behind what it names, which is none of the command's words. What looks like an option
 * stays one: "<path> --option" is a form to be filled in. */
static Place skip_redirection(Place place) {
  place.at += *place.at == '&';
  place.at += strspn(place.at, "<>");
  if (*place.at == '(') /* <(command) */
    return place;
  place.at += *place.at == '&' || *place.at == '|';
  const char *target = place.at + strspn(place.at, " \t");
  if (g_str_has_prefix(target, "--"))
    return place;
  place.at = target;
  while (*place.at != '\0' && strchr(SEPARATORS, *place.at) == NULL)
    place.at += *place.at == '\\' && strchr("\r\n", place.at[1]) == NULL ? 2 : 1;
  return place;
}

static gboolean is_redirection(const char *at) {
  return *at == '>' || *at == '<' || (*at == '&' && at[1] == '>');
}

static Place read_word(Shell *shell, Place place) {
  g_autoptr(GString) word = g_string_new(NULL);
  const guint line = place.line;
  const gsize n_digits = strspn(place.at, G_CSET_DIGITS);
  if (n_digits > 0 && (place.at[n_digits] == '>' || place.at[n_digits] == '<'))
    return (Place){place.at + n_digits, line};
  while (*place.at != '\0' && strchr(SEPARATORS, *place.at) == NULL) {
    if (*place.at == '\'' || *place.at == '"')
      append_quoted(shell, &place, word);
    else if (*place.at == '\\')
      append_escaped(&place, word);
    else if (*place.at == '$')
      expand(shell, &place, word);
    else
      g_string_append_c(word, *place.at++);
  }
  add_word(shell, word->str, line);
  return place;
}

static void read_text(Shell *shell, Place place) {
  while (*place.at != '\0') {
    const char c = *place.at;
    const gsize continued = c != '\\' ? 0 : place.at[1] == '\n' ? 2 : g_str_has_prefix(place.at + 1, "\r\n") ? 3 : 0;
    if (continued > 0) {
      place.at += continued;
      place.line++;
    } else if (c == '#') {
      place.at += strcspn(place.at, "\n");
    } else if (is_redirection(place.at)) {
      place = skip_redirection(place);
    } else if (strchr(SEPARATORS, c) != NULL) {
      shell->parentheses += (c == '(') - (c == ')' && shell->parentheses > 0);
      if (strchr(";&|)", c) != NULL || (c == '\n' && shell->parentheses == 0))
        end_command(shell);
      place.line += c == '\n';
      place.at++;
    } else {
      place = read_word(shell, place);
    }
  }
}

GArray *shell_words(const char *text) {
  Shell shell = {.words = g_array_new(FALSE, FALSE, sizeof(ShellWord)),
                 .variables = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free)};
  g_array_set_clear_func(shell.words, clear_word);
  read_text(&shell, (Place){text, 1});
  end_command(&shell);
  g_hash_table_unref(shell.variables);
  return shell.words;
}
