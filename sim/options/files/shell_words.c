#include "shell_words.h"

#include <string.h>

/* Of options in variables in variables; and bytes of a variable, as a few that double each other have no end. */
enum { MOST_DEPTH = 8, MOST_BYTES = 1 << 16 };

/* What ends a word. */
#define SEPARATORS " \t\r\n;&|()<>"

typedef struct {
  char *text;        /* owned; NULL: not known */
  char *said;        /* as it was set; owned */
  guint line;        /* where it was set */
  guint first, last; /* the words that it has of options, up to the latter */
  gboolean is_used;
  const char *name; /* borrowed; once all are set */
} Variable;

typedef struct {
  const char *name; /* of the file */
  GArray *words;
  GHashTable *variables; /* name → Variable */
  GHashTable *asked;     /* names that were used before they were set, as functions do */
  GPtrArray *notices;
  gboolean has_options; /* of a command */
  char *array;          /* the variable whose words are within the parentheses; owned; NULL: none */
  int parentheses, depth;
} Shell;

/* The place that is read, and its line. */
typedef struct {
  const char *at;
  guint line;
} Place;

static void read_text(Shell *shell, Place place);

static void free_variable(gpointer data) {
  Variable *variable = data;
  g_free(variable->text);
  g_free(variable->said);
  g_free(variable);
}

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

/* --- variables --- */

static const char *use_variable(Shell *shell, const char *name) {
  Variable *variable = g_hash_table_lookup(shell->variables, name);
  if (variable == NULL) {
    g_hash_table_add(shell->asked, g_strdup(name));
    return NULL;
  }
  variable->is_used = TRUE;
  return variable->text;
}

static void drop_words(Shell *shell, const Variable *variable) {
  for (guint i = variable->first; i < variable->last; i++)
    g_clear_pointer(&g_array_index(shell->words, ShellWord, i).text, g_free);
}

/* What was set before and used by nothing is set for nothing: its options are none. Branches are not followed, so that
 * it is told. */
static void overwrite(Shell *shell, const char *name, const char *said, guint line) {
  const Variable *before = g_hash_table_lookup(shell->variables, name);
  if (before == NULL || before->is_used || (strchr(said, '$') != NULL && strstr(said, name) != NULL))
    return;
  const gboolean has_words = before->first < before->last, is_same = strcmp(before->said, said) == 0;
  drop_words(shell, before);
  if (is_same ? has_words && *said == '\0' : has_words || *before->said != '\0')
    g_ptr_array_add(shell->notices,
                    g_strdup_printf("%s:%u: %s: set again in line %u before it is used: what is said there counts",
                                    shell->name, before->line, name, line));
}

static void set_variable(Shell *shell, const char *name, const char *text, const char *said, guint line) {
  Variable *variable = g_new(Variable, 1);
  const guint n = shell->words->len;
  *variable = (Variable){g_strdup(text), g_strdup(said), line, n, n, FALSE, NULL};
  g_hash_table_replace(shell->variables, g_strdup(name), variable);
}

/* The words since it was set are its options. */
static void end_options(Shell *shell, const char *name) {
  Variable *variable = g_hash_table_lookup(shell->variables, name);
  variable->last = shell->words->len;
}

static gboolean is_known(const char *text) {
  return strpbrk(text, "$`") == NULL && strlen(text) <= MOST_BYTES;
}

/* A variable; its options are words of their own. */
static void assign(Shell *shell, const char *name, const char *text, guint line) {
  const gboolean has_options = strstr(text, "--") != NULL && shell->depth < MOST_DEPTH;
  overwrite(shell, name, text, line);
  set_variable(shell, name, has_options ? "" : is_known(text) ? text : NULL, text, line);
  if (!has_options)
    return;
  shell->depth++;
  read_text(shell, (Place){text, line});
  shell->depth--;
  end_command(shell);
  end_options(shell, name);
}

/* "NAME+=text": what it was is used by that. */
static void append(Shell *shell, const char *name, const char *text, guint line) {
  const Variable *before = g_hash_table_lookup(shell->variables, name);
  const char *known = use_variable(shell, name);
  g_autofree char *whole =
      before == NULL || known != NULL ? g_strconcat(known != NULL ? known : "", text, NULL) : g_strdup("$");
  assign(shell, name, whole, line);
}

/* --- $ --- */

static void append_variable(Shell *shell, const char *name, const char *whole, gsize length, const char *otherwise,
                            GString *out) {
  const char *text = use_variable(shell, name);
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
  if (strcmp(rest, "[@]") == 0 || strcmp(rest, "[*]") == 0) {
    use_variable(shell, own);
    return; /* words where they were set */
  }
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

static gboolean is_behind(const Shell *shell, const char *command) {
  const guint n = shell->words->len;
  const ShellWord *last = n > 0 ? &g_array_index(shell->words, ShellWord, n - 1) : NULL;
  return last != NULL && !last->ends && g_strcmp0(last->text, command) == 0;
}

static void add_word(Shell *shell, const char *text, guint line) {
  const gsize length = name_length(text);
  if (length > 0 && (text[length] == '=' || g_str_has_prefix(text + length, "+="))) {
    g_autofree char *name = g_strndup(text, length);
    const gboolean is_exported = is_behind(shell, "export");
    (text[length] == '+' ? append : assign)(shell, name, strchr(text, '=') + 1, line);
    if (is_exported)
      use_variable(shell, name);
  } else if (*text != '\0') {
    shell->has_options |=
        shell->depth == 0 && shell->array == NULL && g_str_has_prefix(text, "--") && g_ascii_isalpha(text[2]);
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
  const gsize length = name_length(word->str);
  if (*place.at == '(' && length > 0 && strcmp(word->str + length, "=") == 0 && shell->parentheses == 0) {
    g_free(shell->array);
    shell->array = g_strndup(word->str, length);
  }
  return place;
}

/* "NAME=(…)". */
static void end_array(Shell *shell) {
  if (shell->array != NULL)
    end_options(shell, shell->array);
  g_clear_pointer(&shell->array, g_free);
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
      if (shell->parentheses == 0 && c == ')')
        end_array(shell);
      place.line += c == '\n';
      place.at++;
    } else {
      place = read_word(shell, place);
    }
  }
}

static gint compare_places(gconstpointer a, gconstpointer b) {
  const Variable *one = *(const Variable *const *)a, *other = *(const Variable *const *)b;
  return (one->first > other->first) - (one->first < other->first);
}

/* Where a command has options, those of variables that nothing expands are none of its own. */
static void drop_unused(Shell *shell) {
  g_autoptr(GPtrArray) unused = g_ptr_array_new();
  GHashTableIter each;
  gpointer name, value;
  g_hash_table_iter_init(&each, shell->variables);
  while (g_hash_table_iter_next(&each, &name, &value)) {
    Variable *variable = value;
    variable->name = name;
    if (shell->has_options && variable->first < variable->last && !variable->is_used &&
        !g_hash_table_contains(shell->asked, name))
      g_ptr_array_add(unused, variable);
  }
  g_ptr_array_sort(unused, compare_places);
  for (guint i = 0; i < unused->len; i++) {
    const Variable *variable = unused->pdata[i];
    drop_words(shell, variable);
    g_ptr_array_add(shell->notices, g_strdup_printf("%s:%u: %s: no command uses it, its options are left out",
                                                    shell->name, variable->line, variable->name));
  }
}

/* Without those of variables that nothing used. */
static GArray *words_left(Shell *shell) {
  GArray *left = g_array_new(FALSE, FALSE, sizeof(ShellWord));
  g_array_set_clear_func(left, clear_word);
  for (guint i = 0; i < shell->words->len; i++) {
    const ShellWord word = g_array_index(shell->words, ShellWord, i);
    if (word.text != NULL)
      g_array_append_val(left, word);
    else if (word.ends && left->len > 0)
      g_array_index(left, ShellWord, left->len - 1).ends = TRUE;
  }
  g_array_unref(shell->words); /* whose texts are the others' */
  return left;
}

GArray *shell_words(const char *name, const char *text, GPtrArray *notices) {
  Shell shell = {.name = name,
                 .words = g_array_new(FALSE, FALSE, sizeof(ShellWord)),
                 .variables = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, free_variable),
                 .asked = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
                 .notices = notices};
  read_text(&shell, (Place){text, 1});
  end_command(&shell);
  end_array(&shell);
  drop_unused(&shell);
  g_hash_table_unref(shell.variables);
  g_hash_table_unref(shell.asked);
  return words_left(&shell);
}
