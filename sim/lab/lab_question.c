#include "lab_question.h"

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "cluster_words.h"
#include "error.h"
#include "plan_fields.h"
#include "suggest.h"

enum { MOST_LEVELS = 32 };

/* The verbs that a page may ask for, what they take besides model, cluster and the fields of a plan, and the option
 * that makes them print what the page reads. */
static const struct {
  const char *name, *prints; /* prints NULL: nothing of the kind */
  gboolean has_plan;
  const char *options[12]; /* NULL-terminated */
} verbs[] = {
    {"simulate",
     "--json",
     TRUE,
     {"tokens", "gpu-hours", "price", "mtbf", "checkpoint-every", "restart", "checkpoint", "spares", "elastic", NULL}},
    {"explain", "--json", TRUE, {NULL}},
    {"plan", "--json", TRUE, {"objective", "top", "tokens", "price", "memory-margin", "emit", NULL}},
    {"schedule", "--csv=-", FALSE, {"schedule", "pp", "chunks", "micro-batches", "micro-batch-group", NULL}},
    {"topology", "--json", FALSE, {"cluster", "plan", "gpus", NULL}},
    {"collective", NULL, FALSE, {"steps-of", "gpus", "op", NULL}},
    {"validate", "--rows=-", FALSE, {"rows", NULL}},
};

/* Names that files of an option end with, for readers that look at them. */
static const char *suffix_of(const char *option) {
  return strcmp(option, "model") == 0                                         ? ".json"
         : strcmp(option, "schedule") == 0 || strcmp(option, "rows") == 0     ? ".csv"
         : strcmp(option, "cluster") == 0 || strcmp(option, "framework") == 0 ? ".yaml"
                                                                              : ".txt";
}

/* The options that a verb takes. NULL-terminated; owned by the caller, the names are not. */
static const char **options_of(gsize verb) {
  GPtrArray *names = g_ptr_array_new();
  for (const char *const *name = verbs[verb].options; *name != NULL; name++)
    g_ptr_array_add(names, (gpointer)*name);
  if (verbs[verb].has_plan) {
    g_ptr_array_add(names, (gpointer) "model");
    g_ptr_array_add(names, (gpointer) "cluster");
    for (int field = 0; field < plan_n_fields(); field++)
      g_ptr_array_add(names, (gpointer)plan_field(field)->name);
  }
  g_ptr_array_add(names, NULL);
  return (const char **)g_ptr_array_free(names, FALSE);
}

typedef struct {
  const char *folder;
  JsonObject *files; /* NULL: none came */
  GPtrArray *arguments, *written;
} Reading;

/* NULL: none, or no text. */
static const char *text_of(JsonObject *object, const char *name) {
  JsonNode *node = json_object_get_member(object, name);
  return node != NULL && json_node_get_value_type(node) == G_TYPE_STRING ? json_node_get_string(node) : NULL;
}

/* The path of an option's file, written there. The name has what the file is called on the page, so that reports name
 * it, and is unique. */
static char *write_file(Reading *reading, const char *option, const char *name, GError **error) {
  const char *text = reading->files != NULL ? text_of(reading->files, option) : NULL;
  if (text == NULL) {
    fail_input(error, "--%s=@%.80s: found no file of that option in the question, expected its text under \"files\"",
               option, name);
    return NULL;
  }
  g_autofree char *plain = g_strdup(name);
  g_strcanon(plain, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-_.", '-');
  g_autofree char *own = g_strdup_printf("%s/%sXXXXXX", reading->folder, option);
  if (g_mkdtemp(own) == NULL) {
    fail_input(error, "%s: no folder can be made in it", reading->folder);
    return NULL;
  }
  g_ptr_array_add(reading->written, g_strdup(own));
  char *path = g_strdup_printf("%s/%.100s%s", own, *plain != '\0' && *plain != '.' ? plain : option, suffix_of(option));
  g_ptr_array_insert(reading->written, 0, g_strdup(path));
  if (g_file_set_contents_full(path, text, -1, G_FILE_SET_CONTENTS_NONE, 0600, error))
    return path;
  g_free(path);
  return NULL;
}

/* Prices are per hour, rates of a cluster in words per second: the only texts with a slash that are not paths. */
static gboolean is_path(const char *option, const char *value) {
  const gboolean is_words = strcmp(option, "cluster") == 0 && cluster_words_are(value);
  return strchr(value, '/') != NULL && strcmp(option, "price") != 0 && !is_words;
}

static gboolean add_option(Reading *reading, const char *option, const char *value, GError **error) {
  const char *at = g_str_has_prefix(value, "file:@") ? value + strlen("file:@") : value[0] == '@' ? value + 1 : NULL;
  if (at != NULL) {
    g_autofree char *path = write_file(reading, option, at, error);
    if (path == NULL)
      return FALSE;
    g_ptr_array_add(reading->arguments,
                    strcmp(option, "rows") == 0
                        ? g_steal_pointer(&path)
                        : g_strdup_printf("--%s=%s%s", option, value[0] == '@' ? "" : "file:", path));
    return TRUE;
  }
  if (is_path(option, value))
    return fail_input(error, "--%s: found the path %.80s, expected a name, or the file's own text: open it on the page",
                      option, value);
  g_ptr_array_add(reading->arguments, g_strdup_printf("--%s=%s", option, value));
  return TRUE;
}

static const char *text_at(JsonArray *pair, guint i) {
  JsonNode *node = json_array_get_length(pair) == 2 ? json_array_get_element(pair, i) : NULL;
  return node != NULL && json_node_get_value_type(node) == G_TYPE_STRING ? json_node_get_string(node) : NULL;
}

static gboolean add_options(Reading *reading, gsize verb, JsonArray *options, GError **error) {
  g_autofree const char **known = options_of(verb);
  for (guint i = 0; i < json_array_get_length(options); i++) {
    JsonNode *node = json_array_get_element(options, i);
    JsonArray *pair = JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    const char *option = pair != NULL ? text_at(pair, 0) : NULL, *value = pair != NULL ? text_at(pair, 1) : NULL;
    if (option == NULL || value == NULL)
      return fail_input(error, "options: found something else at %u, expected [name, value], both texts", i);
    if (!g_strv_contains(known, option)) {
      g_autofree char *question = suggest_question(option, known);
      return fail_input(error, "--%.80s: %s takes no such option from a page%s%s", option, verbs[verb].name,
                        question != NULL ? "; " : "", question != NULL ? question : "");
    }
    if (!add_option(reading, option, value, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean find_verb(JsonObject *root, gsize *verb, GError **error) {
  const char *names[G_N_ELEMENTS(verbs) + 1] = {NULL};
  for (gsize i = 0; i < G_N_ELEMENTS(verbs); i++)
    names[i] = verbs[i].name;
  const char *given = text_of(root, "verb"), *name = given != NULL ? given : "";
  for (*verb = 0; *verb < G_N_ELEMENTS(verbs); ++*verb)
    if (strcmp(names[*verb], name) == 0)
      return TRUE;
  g_autofree char *expected = suggest_message(name, names);
  return fail_input(error, "verb: found \"%.80s\", %s", name, expected);
}

/* `suffix` NULL: nothing is to be written. */
static gboolean find_written(LabQuestion *question, gsize verb, const char *suffix, GError **error) {
  static const char *const known[][2] = {{"npz", "trace"}, {"json", "trace"}, {"svg", "timeline"}, {"html", "html"}};
  for (gsize i = 0; suffix != NULL && i < G_N_ELEMENTS(known); i++)
    if (strcmp(suffix, known[i][0]) == 0) {
      question->suffix = known[i][0];
      question->option = known[i][1];
    }
  return suffix == NULL || (question->suffix != NULL && strcmp(verbs[verb].name, "simulate") == 0) ||
         fail_input(error, "writes: found \"%.80s\" of %s, expected npz, json, svg or html of simulate", suffix,
                    verbs[verb].name);
}

static gboolean read_object(Reading *reading, LabQuestion *question, JsonObject *root, GError **error) {
  gsize verb;
  JsonNode *options = json_object_get_member(root, "options"), *files = json_object_get_member(root, "files");
  if (!find_verb(root, &verb, error))
    return FALSE;
  if (options == NULL || !JSON_NODE_HOLDS_ARRAY(options) || (files != NULL && !JSON_NODE_HOLDS_OBJECT(files)))
    return fail_input(error, "found no list under \"options\", or no object under \"files\"");
  reading->files = files != NULL ? json_node_get_object(files) : NULL;
  if (!find_written(question, verb, text_of(root, "writes"), error))
    return FALSE;
  question->aside = json_object_get_boolean_member_with_default(root, "aside", FALSE);
  g_ptr_array_add(reading->arguments, g_strdup(verbs[verb].name));
  if (!add_options(reading, verb, json_node_get_array(options), error))
    return FALSE;
  if (verbs[verb].prints != NULL)
    g_ptr_array_add(reading->arguments, g_strdup(verbs[verb].prints));
  return TRUE;
}

static void remove_written(char **paths) {
  for (; paths != NULL && *paths != NULL; paths++)
    g_remove(*paths);
}

static GStrv end_list(GPtrArray *list) {
  g_ptr_array_add(list, NULL);
  return (GStrv)g_ptr_array_free(list, FALSE);
}

/* The parser calls itself at each level: what is nested without end would overflow the stack. */
static gboolean is_deep(const char *text, gsize length) {
  gsize depth = 0;
  gboolean is_quoted = FALSE;
  for (gsize i = 0; i < length && depth <= MOST_LEVELS; i++) {
    if (text[i] == '"')
      is_quoted = !is_quoted;
    else if (is_quoted)
      i += text[i] == '\\';
    else if (text[i] == '[' || text[i] == '{')
      depth++;
    else if ((text[i] == ']' || text[i] == '}') && depth > 0)
      depth--;
  }
  return depth > MOST_LEVELS;
}

gboolean lab_question_read(LabQuestion *question, const char *folder, const char *text, gsize length, GError **error) {
  *question = (LabQuestion){0};
  g_autoptr(JsonParser) parser = json_parser_new();
  Reading reading = {folder, NULL, g_ptr_array_new(), g_ptr_array_new()};
  g_autoptr(GError) reason = NULL;
  gboolean is_read = FALSE;
  if (is_deep(text, length))
    fail_input(error, "the question: nested more than %d deep", MOST_LEVELS);
  else if (!json_parser_load_from_data(parser, text, (gssize)length, &reason))
    fail_input(error, "the question: %s", reason->message);
  else if (json_parser_get_root(parser) == NULL || !JSON_NODE_HOLDS_OBJECT(json_parser_get_root(parser)))
    fail_input(error, "the question: found no object, expected {\"verb\": …, \"options\": […]}");
  else
    is_read = read_object(&reading, question, json_node_get_object(json_parser_get_root(parser)), error);
  question->arguments = end_list(reading.arguments);
  question->files = end_list(reading.written);
  if (!is_read)
    lab_question_clear(question);
  return is_read;
}

gboolean lab_question_of_recording(LabQuestion *question, const char *folder, const char *name, const char *text,
                                   gsize length, GError **error) {
  const char *dot = strchr(name, '.');
  g_autofree char *suffix = g_strdup(dot != NULL && strlen(dot) < 32 ? dot : ".json");
  g_strcanon(suffix, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS ".", '-');
  g_autofree char *own = g_strdup_printf("%s/recordingXXXXXX", folder);
  g_autofree char *path = g_mkdtemp(own) != NULL ? g_strconcat(own, "/recording", suffix, NULL) : NULL;
  *question = (LabQuestion){0};
  if (path == NULL)
    return fail_input(error, "%s: no folder can be made in it", folder);
  const char *files[] = {path, own, NULL}, *arguments[] = {"trace", path, "--json", NULL};
  question->files = g_strdupv((char **)files);
  question->arguments = g_strdupv((char **)arguments);
  question->option = "timeline";
  question->suffix = "svg";
  if (g_file_set_contents_full(path, text, (gssize)length, G_FILE_SET_CONTENTS_NONE, 0600, error))
    return TRUE;
  lab_question_clear(question);
  return FALSE;
}

void lab_question_clear(LabQuestion *question) {
  remove_written(question->files);
  g_clear_pointer(&question->files, g_strfreev);
  g_clear_pointer(&question->arguments, g_strfreev);
}
