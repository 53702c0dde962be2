/* GLib's option table and help text, with a parser of its own: values are bytes as typed (GLib refuses UTF-8 in the C
 * locale), numbers are decimal (GLib reads 010 as 8), and a mistake names the option and the nearest valid one. */
#include "parser.h"

#include <string.h>
#include <sys/stat.h>

#include "completion.h"
#include "data_path.h"
#include "error.h"
#include "number_list.h"
#include "schedules.h"
#include "suggest.h"
#include "units.h"

enum { MAX_LIST = 4096 };

struct Parser {
  const char *words, *summary, *example;
  GArray *entries;  /* of GOptionEntry */
  GPtrArray *names; /* of "--name"; owned strings */
};

Parser *parser_new(const char *words, const char *summary, const char *example) {
  Parser *parser = g_new0(Parser, 1);
  parser->words = words;
  parser->summary = summary;
  parser->example = example;
  parser->entries = g_array_new(TRUE, TRUE, sizeof(GOptionEntry));
  parser->names = g_ptr_array_new_with_free_func(g_free);
  g_ptr_array_add(parser->names, g_strdup("--help"));
  return parser;
}

void parser_free(Parser *parser) {
  if (parser == NULL)
    return;
  g_array_unref(parser->entries);
  g_ptr_array_free(parser->names, TRUE);
  g_free(parser);
}

void parser_add(Parser *parser, const GOptionEntry *entries) {
  for (; entries->long_name != NULL; entries++) {
    g_array_append_val(parser->entries, *entries);
    g_ptr_array_add(parser->names, g_strdup_printf("--%s", entries->long_name));
  }
}

const GOptionEntry *parser_entries(const Parser *parser) {
  return (const GOptionEntry *)(void *)parser->entries->data;
}

static char *help_text(const Parser *parser) {
  GOptionContext *context = g_option_context_new(parser->words);
  g_option_context_set_summary(context, parser->summary);
  g_option_context_set_description(context, parser->example);
  g_option_context_add_main_entries(context, parser_entries(parser), NULL);
  char *text = g_option_context_get_help(context, TRUE, NULL);
  g_option_context_free(context);
  return text;
}

/* The candidates for the last word behind --complete. */
static gboolean answer_completion(const Parser *parser, int argc, char **argv, GError **error) {
  const Completed verb = {parser_entries(parser), parser->words, {parser->summary, parser->example}};
  g_autofree char *text = completion_of(&verb, argc - 2, argv + 2);
  g_set_error_literal(error, STEPSIM_ERROR, STEPSIM_ERROR_HELP, text); /* as it is, tabs included */
  return FALSE;
}

static gboolean asks_for_help(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
      return TRUE;
  return FALSE;
}

/* Other programs' and people's names for an option that have no similar spelling. */
static const struct {
  const char *typed, *option;
} elsewhere[] = {
    {"--tensor-parallel", "--tp"},
    {"--tensor-model-parallel", "--tp"}, /* Megatron-LM: …-size */
    {"--pipeline-parallel", "--pp"},
    {"--pipeline-model-parallel", "--pp"},
    {"--data-parallel", "--dp"},
    {"--context-parallel", "--cp"},
    {"--expert-parallel", "--ep"},
    {"--expert-model-parallel", "--ep"},
    {"--expert-tensor-parallel", "--expert-tp"},
    {"--virtual-pipeline-model-parallel", "--chunks"},
    {"--num-layers-per-virtual-pipeline-stage", "--chunks"},
    {"--num-virtual-stages-per-pipeline-rank", "--chunks"},
    {"--gradient-accumulation", "--global-batch"},
    {"--activation-checkpointing", "--recompute"},
    {"--checkpoint-activations", "--recompute"},
    {"--gradient-checkpointing", "--recompute"},
    {"--use-distributed-optimizer", "--zero"},
    {"--zero-stage", "--zero"},
    {"--fsdp", "--zero"},
    {"--hsdp", "--zero-ranks"},
    {"--batch", "--global-batch"},
    {"--packing", "--batching"},
    {"--train-batch", "--global-batch"},
    {"--per-device-train-batch", "--micro-batch"},
    {"--ulysses", "--cp-comm"},
    {"--vp", "--chunks"},
    {"--vpp", "--chunks"},
    {"--virtual-stages", "--chunks"},
    {"--virtual-pipeline", "--chunks"},
    {"--gbs", "--global-batch"},
    {"--mbs", "--micro-batch"},
    {"--context-length", "--seq-len"},
    {"--grad-accum", "--global-batch"},
    {"--num-layers", "--model"},
    {"--layers", "--model"},
    {"--hidden", "--model"},
    {"--num-attention-heads", "--model"},
    {"--vocab", "--model"},
    {"--max-position-embeddings", "--model"},
    {"--max-seq-length", "--seq-len"},
    {"--num-nodes", "--gpus"},
    {"--fp8", "--precision"},
    {"--bf16", "--precision"},
    {"--moe-token-dispatcher-type", "--expert-dispatch"},
    {"--cpu-offload", "--offload-optimizer"},
    {"--hardware", "--cluster"}, /* described there, like links */
    {"--system", "--cluster"},
    {"--bandwidth", "--cluster"},
    {"--ib-bandwidth", "--cluster"},
    {"--nic-bandwidth", "--cluster"},
    {"--network-bandwidth", "--cluster"},
    {"--nvlink-bandwidth", "--cluster"},
    {"--hbm-bandwidth", "--cluster"},
    {"--nic", "--cluster"},
    {"--latency", "--cluster"},
    {"--etp", "--expert-tp"},
    {"--use-flash-attn", "--attention"},
    {"--flash", "--attention"},
    {"--overlap-grad-reduce", "--overlap-grad"},
    {"--overlap-param-gather", "--overlap-param"},
    {"--world-size", "--gpus"},
    {"--nodes", "--gpus"},
    {"--nnodes", "--gpus"},
    {"--num-gpus", "--gpus"},
    {"--dtype", "--precision"},
};

/* Whether `name` is `typed` ("--tensor-parallel"), possibly with "-size" or the like, with or without "=8". */
static gboolean is_called(const char *name, const char *typed) {
  static const char *const ends[] = {"", "-size", "-degree", "-steps", "-world-size"};
  if (!g_str_has_prefix(name, typed))
    return FALSE;
  const char *rest = name + strlen(typed);
  const gsize length = strcspn(rest, "=");
  for (gsize i = 0; i < G_N_ELEMENTS(ends); i++)
    if (length == strlen(ends[i]) && strncmp(rest, ends[i], length) == 0)
      return TRUE;
  return FALSE;
}

/* The parser's option that `name` means elsewhere; NULL: none. */
static const char *called_elsewhere(const Parser *parser, const char *name) {
  for (gsize i = 0; i < G_N_ELEMENTS(elsewhere); i++)
    for (guint k = 0; is_called(name, elsewhere[i].typed) && k < parser->names->len; k++)
      if (g_strcmp0(parser->names->pdata[k], elsewhere[i].option) == 0)
        return elsewhere[i].option;
  return NULL;
}

static gboolean fail_unknown_option(Parser *parser, const char *name, GError **error) {
  g_autofree char *hyphened = g_strdelimit(g_strdup(name), "_", '-'); /* configuration files use underscores */
  const char *option = called_elsewhere(parser, hyphened);
  g_ptr_array_add(parser->names, NULL);
  g_autofree char *question = option != NULL ? g_strdup_printf("did you mean %s?", option)
                                             : suggest_question(name, (const char *const *)parser->names->pdata);
  return fail_input(error, "unknown option %.80s%s%s (--help lists all)", name, question != NULL ? "; " : "",
                    question != NULL ? question : "");
}

static const GOptionEntry *find_name(const Parser *parser, const char *name, gsize length) {
  return completion_entry(parser_entries(parser), name, length);
}

/* The entry of "--name" or "--name=value"; NULL: none. */
static const GOptionEntry *find_entry(const Parser *parser, const char *argument) {
  if (!g_str_has_prefix(argument, "--"))
    return NULL;
  const char *name = argument + 2, *value = strchr(name, '=');
  return find_name(parser, name, value != NULL ? (gsize)(value - name) : strlen(name));
}

static gboolean set_integer(const GOptionEntry *entry, const char *text, GError **error) {
  const gboolean is_wide = entry->arg == G_OPTION_ARG_INT64;
  const gint64 most = is_wide ? G_MAXINT64 : G_MAXINT;
  gint64 value;
  if (!units_parse_whole(text, -most, most, &value, error)) {
    g_prefix_error(error, "--%s: ", entry->long_name);
    return FALSE;
  }
  if (is_wide)
    *(gint64 *)entry->arg_data = value;
  else
    *(gint *)entry->arg_data = (gint)value;
  return TRUE;
}

static gboolean set_double(const GOptionEntry *entry, const char *text, GError **error) {
  char *end;
  double value = g_ascii_strtod(text, &end);
  if (end == text || *end != '\0' || g_ascii_isspace(text[0]) || strpbrk(text, "xX") != NULL)
    return fail_input(error, "--%s: found \"%.80s\", expected a number", entry->long_name, text);
  *(double *)entry->arg_data = value;
  return TRUE;
}

static void add_string(char ***list, const char *text) {
  guint n = *list != NULL ? g_strv_length(*list) : 0;
  *list = g_renew(char *, *list, n + 2);
  (*list)[n] = g_strdup(text);
  (*list)[n + 1] = NULL;
}

static gboolean set_value(const GOptionEntry *entry, const char *text, GError **error) {
  char **string = entry->arg_data;
  switch (entry->arg) {
  case G_OPTION_ARG_INT:
  case G_OPTION_ARG_INT64:
    return set_integer(entry, text, error);
  case G_OPTION_ARG_DOUBLE:
    return set_double(entry, text, error);
  case G_OPTION_ARG_STRING:
  case G_OPTION_ARG_FILENAME:
    g_free(*string);
    *string = g_strdup(text);
    return TRUE;
  case G_OPTION_ARG_STRING_ARRAY:
    add_string(entry->arg_data, text);
    return TRUE;
  default:
    g_assert_not_reached();
  }
}

gboolean parser_set(Parser *parser, const char *name, const char *text, GError **error) {
  const GOptionEntry *entry = find_name(parser, name, strlen(name));
  if (entry != NULL)
    return set_value(entry, text, error);
  g_autofree char *argument = g_strconcat("--", name, NULL);
  return fail_unknown_option(parser, argument, error);
}

/* One option of argv and its value; *i moves past both. */
static gboolean take_option(Parser *parser, int argc, char **argv, int *i, GError **error) {
  const char *argument = argv[(*i)++], *equals = strchr(argument, '=');
  const GOptionEntry *entry = find_entry(parser, argument);
  if (entry == NULL) {
    g_autofree char *name = g_strndup(argument, strcspn(argument, "="));
    return fail_unknown_option(parser, name, error);
  }
  if (entry->arg == G_OPTION_ARG_NONE && equals != NULL)
    return fail_input(error, "--%s takes no value, found \"%.80s\"", entry->long_name, equals + 1);
  if (entry->arg == G_OPTION_ARG_NONE) {
    *(gboolean *)entry->arg_data = TRUE;
    return TRUE;
  }
  if (equals != NULL)
    return set_value(entry, equals + 1, error);
  if (*i >= argc || find_entry(parser, argv[*i]) != NULL)
    return fail_input(error, "--%s: its value is missing (%s)", entry->long_name, entry->arg_description);
  return set_value(entry, argv[(*i)++], error);
}

/* --- files --- */

/* Whether both are, or will be, the same file. */
static gboolean is_same_file(const char *a, const char *b) {
  g_autofree char *path_a = g_canonicalize_filename(a, NULL), *path_b = g_canonicalize_filename(b, NULL);
  struct stat stat_a, stat_b;
  if (stat(path_a, &stat_a) != 0 || stat(path_b, &stat_b) != 0)
    return strcmp(path_a, path_b) == 0;
  return S_ISREG(stat_a.st_mode) && stat_a.st_dev == stat_b.st_dev && stat_a.st_ino == stat_b.st_ino;
}

/* Whether an argument names the file, or something shipped that is in it. */
static gboolean means_file(const char *argument, const char *file) {
  if (is_same_file(argument, file))
    return TRUE;
  for (int i = 0; i < N_SHIPPED; i++) {
    g_autofree char *path = data_path_find(shipped[i].subdir, argument, shipped[i].suffix, NULL);
    if (path != NULL && is_same_file(path, file))
      return TRUE;
  }
  return FALSE;
}

/* The same of a list's values, of what stands behind "file:", and behind "NAME=". */
static gboolean reads_file(const char *argument, const char *file) {
  if (argument == NULL || strcmp(argument, "-") == 0)
    return FALSE;
  const char *equals = strchr(argument, '=');
  g_auto(GStrv) values = g_strsplit(argument, ",", -1);
  gboolean is_read = means_file(argument, file) || (equals != NULL && reads_file(equals + 1, file));
  for (char **value = values; *value != NULL && !is_read; value++) {
    const char *name = g_strstrip(*value);
    is_read = means_file(schedule_file(name) != NULL ? schedule_file(name) : name, file);
  }
  return is_read;
}

/* The file that an entry writes; NULL: none, or standard output. */
static const char *file_written(const GOptionEntry *entry) {
  const char *file = entry->flags & OPTION_WRITES ? *(char **)entry->arg_data : NULL;
  return g_strcmp0(file, "-") != 0 ? file : NULL;
}

static gboolean entry_reads(const GOptionEntry *entry, const char *file) {
  if (entry->flags & OPTION_WRITES)
    return FALSE;
  if (entry->arg == G_OPTION_ARG_FILENAME)
    return reads_file(*(char **)entry->arg_data, file);
  char **values = entry->arg == G_OPTION_ARG_STRING_ARRAY ? *(char ***)entry->arg_data : NULL;
  for (; values != NULL && *values != NULL; values++)
    if (reads_file(*values, file))
      return TRUE;
  return FALSE;
}

static gboolean check_file(const Parser *parser, const GOptionEntry *entry, char **words, GError **error) {
  const char *file = file_written(entry);
  const GOptionEntry *other = parser_entries(parser);
  for (; file != NULL && other->long_name != NULL; other++) {
    const char *also = other < entry ? file_written(other) : NULL;
    if (also != NULL && is_same_file(also, file))
      return fail_input(error, "--%s and --%s are both %s: one would be written over the other", other->long_name,
                        entry->long_name, file);
    if (entry_reads(other, file))
      return fail_input(error, "--%s would write over what --%s reads: %s", entry->long_name, other->long_name, file);
  }
  for (; file != NULL && *words != NULL; words++)
    if (reads_file(*words, file))
      return fail_input(error, "--%s would write over what is read: %s", entry->long_name, *words);
  return TRUE;
}

static gboolean check_files(const Parser *parser, char **words, GError **error) {
  for (const GOptionEntry *entry = parser_entries(parser); entry->long_name != NULL; entry++)
    if (!check_file(parser, entry, words, error))
      return FALSE;
  return TRUE;
}

/* Options in quotes, "--tp 8 --pp 4", which are one word: no option's name has a blank. */
static gboolean is_list_of_options(const char *argument) {
  return strcspn(argument, " \t\n") < strcspn(argument, "=");
}

gboolean parser_run(Parser *parser, int *argc, char ***argv, gboolean allows_words, GError **error) {
  if (*argc > 1 && strcmp((*argv)[1], PARSER_COMPLETE) == 0)
    return answer_completion(parser, *argc, *argv, error);
  if (asks_for_help(*argc, *argv)) {
    g_autofree char *text = help_text(parser);
    return fail_help(error, "%s", text);
  }
  int n_words = 1;
  gboolean options_ended = FALSE;
  for (int i = 1; i < *argc;) {
    char *argument = (*argv)[i];
    if (options_ended || argument[0] != '-' || argument[1] == '\0' || (allows_words && is_list_of_options(argument))) {
      if (!allows_words)
        return fail_input(error, "unexpected \"%.80s\": every value belongs to an option (--help lists them)",
                          argument);
      (*argv)[n_words++] = argument;
      i++;
    } else if (strcmp(argument, "--") == 0) {
      options_ended = TRUE;
      i++;
    } else if (!take_option(parser, *argc, *argv, &i, error)) {
      return FALSE;
    }
  }
  *argc = n_words;
  g_autoptr(GPtrArray) words = g_ptr_array_new();
  for (int i = 1; i < n_words; i++)
    g_ptr_array_add(words, (*argv)[i]);
  g_ptr_array_add(words, NULL);
  return check_files(parser, (char **)words->pdata, error);
}

static gboolean add_value(const char *option, gint64 value, GArray *list, GError **error) {
  if (list->len >= MAX_LIST)
    return fail_input(error, "%s: more than %d values", option, MAX_LIST);
  g_array_append_val(list, value);
  return TRUE;
}

static gboolean parse_one_count(const char *option, const char *text, gint64 *value, GError **error) {
  double count = 0;
  if (units_parse_whole(text, 1, G_GINT64_CONSTANT(1000000000000000), value, NULL))
    return TRUE;
  if (!units_parse_count(text, &count, NULL) || count < 1 || count > 1e15 || count != (double)(gint64)count)
    return fail_input(error, "%s: found \"%.80s\", expected a positive whole number", option, text);
  *value = (gint64)count;
  return TRUE;
}

static gboolean add_range(const char *option, const char *text, GArray *list, GError **error) {
  NumberRange range;
  if (!number_range_parse(text, 1, &range))
    return fail_input(error, "%s: found \"%.80s\", expected %s", option, text, number_range_form());
  gint64 value = range.first;
  do
    if (!add_value(option, value, list, error))
      return FALSE;
  while (number_range_next(&range, &value));
  return TRUE;
}

gboolean parse_check_once(const char *option, const char *text, char *const *values, GError **error) {
  g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
  for (; *values != NULL; values++)
    if (!g_hash_table_add(known, *values))
      return fail_input(error, "%s: %.80s stands twice in \"%.80s\"", option, *values, text);
  return TRUE;
}

static gboolean check_counts_once(const char *option, const char *text, const GArray *list, GError **error) {
  g_autoptr(GPtrArray) values = g_ptr_array_new_with_free_func(g_free);
  for (guint i = 0; i < list->len; i++)
    g_ptr_array_add(values, g_strdup_printf("%" G_GINT64_FORMAT, g_array_index(list, gint64, i)));
  g_ptr_array_add(values, NULL);
  return parse_check_once(option, text, (char *const *)values->pdata, error);
}

GArray *parse_count_list(const char *option, const char *text, GError **error) {
  g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(gint64));
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);
  for (char **part = parts; *part != NULL; part++) {
    gint64 value = 0;
    gboolean ok = strstr(*part, "..") != NULL
                      ? add_range(option, *part, list, error)
                      : parse_one_count(option, *part, &value, error) && add_value(option, value, list, error);
    if (!ok)
      return NULL;
  }
  if (!check_counts_once(option, text, list, error))
    return NULL;
  if (list->len == 0) {
    fail_input(error, "%s: found nothing, expected counts such as 8 or 1,2,4 or 8..128*2", option);
    return NULL;
  }
  return g_steal_pointer(&list);
}
