#include "parser.h"

#include <string.h>

#include "error.h"
#include "suggest.h"
#include "units.h"

enum { MAX_LIST = 4096 };

struct Parser {
  GOptionContext *context;
  GPtrArray *names; /* of "--name"; owned strings */
};

Parser *parser_new(const char *words, const char *summary, const char *example) {
  Parser *parser = g_new0(Parser, 1);
  parser->context = g_option_context_new(words);
  g_option_context_set_summary(parser->context, summary);
  g_option_context_set_description(parser->context, example);
  parser->names = g_ptr_array_new_with_free_func(g_free);
  g_ptr_array_add(parser->names, g_strdup("--help"));
  return parser;
}

void parser_free(Parser *parser) {
  if (parser == NULL)
    return;
  g_option_context_free(parser->context);
  g_ptr_array_free(parser->names, TRUE);
  g_free(parser);
}

void parser_add(Parser *parser, const GOptionEntry *entries) {
  g_option_context_add_main_entries(parser->context, entries, NULL);
  for (; entries->long_name != NULL; entries++)
    g_ptr_array_add(parser->names, g_strdup_printf("--%s", entries->long_name));
}

/* GLib says only which option it does not know: the first of argv that is none of ours. */
static gboolean fail_unknown_option(Parser *parser, int argc, char **argv, GError **error) {
  g_ptr_array_add(parser->names, NULL);
  const char *const *names = (const char *const *)parser->names->pdata;
  for (int i = 1; i < argc; i++) {
    g_autofree char *name = g_strndup(argv[i], strcspn(argv[i], "="));
    if (!g_str_has_prefix(name, "-") || g_strv_contains(names, name))
      continue;
    const char *nearest = suggest_nearest(name, names);
    return nearest != NULL ? fail_input(error, "unknown option %s; did you mean %s? (--help lists all)", name, nearest)
                           : fail_input(error, "unknown option %s (--help lists all)", name);
  }
  return fail_input(error, "unknown option (--help lists all)");
}

gboolean parser_run(Parser *parser, int *argc, char ***argv, gboolean allows_words, GError **error) {
  g_autoptr(GError) local = NULL;
  int given = *argc;
  g_auto(GStrv) copy = g_new0(char *, given + 1);
  for (int i = 0; i < given; i++)
    copy[i] = g_strdup((*argv)[i]);
  if (!g_option_context_parse(parser->context, argc, argv, &local)) {
    if (g_error_matches(local, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION))
      return fail_unknown_option(parser, given, copy, error);
    return fail_input(error, "%s", local->message);
  }
  if (!allows_words && *argc > 1)
    return fail_input(error, "unexpected \"%s\": every value belongs to an option (--help lists them)", (*argv)[1]);
  return TRUE;
}

gboolean parse_switch(const char *option, const char *text, gboolean *value, GError **error) {
  if (text == NULL)
    return TRUE;
  gboolean is_on = g_strcmp0(text, "on") == 0;
  if (!is_on && g_strcmp0(text, "off") != 0)
    return fail_input(error, "%s: found \"%s\", expected on or off", option, text);
  *value = is_on;
  return TRUE;
}

static gboolean add_value(const char *option, gint64 value, GArray *list, GError **error) {
  if (list->len >= MAX_LIST)
    return fail_input(error, "%s: more than %d values", option, MAX_LIST);
  g_array_append_val(list, value);
  return TRUE;
}

static gboolean parse_one_count(const char *option, const char *text, gint64 *value, GError **error) {
  double count = 0;
  g_autoptr(GError) local = NULL;
  if (!units_parse_count(text, &count, &local))
    return fail_input(error, "%s: %s", option, local->message);
  if (count < 1 || count > 1e15 || count != (double)(gint64)count)
    return fail_input(error, "%s: found \"%s\", expected a positive whole number", option, text);
  *value = (gint64)count;
  return TRUE;
}

/* "a..b" or "a..b*f" */
static gboolean add_range(const char *option, const char *text, GArray *list, GError **error) {
  g_auto(GStrv) ends = g_strsplit(text, "..", 2);
  g_auto(GStrv) last_and_factor = g_strsplit(ends[1], "*", 2);
  gint64 first, last, factor = 1;
  if (!parse_one_count(option, ends[0], &first, error) || !parse_one_count(option, last_and_factor[0], &last, error))
    return FALSE;
  if (last_and_factor[1] != NULL && !parse_one_count(option, last_and_factor[1], &factor, error))
    return FALSE;
  if (last < first || (last_and_factor[1] != NULL && factor < 2))
    return fail_input(error, "%s: found \"%s\", expected FIRST..LAST or FIRST..LAST*FACTOR with FIRST ≤ LAST", option,
                      text);
  for (gint64 value = first; value <= last; value = factor > 1 ? value * factor : value + 1)
    if (!add_value(option, value, list, error))
      return FALSE;
  return TRUE;
}

GArray *parse_count_list(const char *option, const char *text, GError **error) {
  g_autoptr(GArray) list = g_array_new(FALSE, FALSE, sizeof(gint64));
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);
  for (char **part = parts; *part != NULL; part++) {
    gint64 value;
    gboolean ok = strstr(*part, "..") != NULL
                      ? add_range(option, *part, list, error)
                      : parse_one_count(option, *part, &value, error) && add_value(option, value, list, error);
    if (!ok)
      return NULL;
  }
  return g_steal_pointer(&list);
}
