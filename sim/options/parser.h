/* A verb's options, and small value parsers. Entries are GLib's, of the types NONE, INT, INT64, DOUBLE, STRING,
 * FILENAME and STRING_ARRAY. An option given twice counts as given last; an unknown one is an error that names the
 * nearest. */
#pragma once
#include <glib.h>

typedef struct Parser Parser;

/* `words` (may be NULL) stands in the usage line after the options, `example` at the end of --help. */
Parser *parser_new(const char *words, const char *summary, const char *example);
void parser_free(Parser *parser);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Parser, parser_free)
void parser_add(Parser *parser, const GOptionEntry *entries);
/* What was added, in that order; ends with a NULL long_name. Borrowed, until more is added. */
const GOptionEntry *parser_entries(const Parser *parser);
/* As if "--name text" stood on a command line. INPUT naming the option and what was expected. */
gboolean parser_set(Parser *parser, const char *name, const char *text, GError **error);
/* Parse argv in place; what is left are argv[0] and words. Words are an error unless `allows_words`. With --help or -h
 * among the options the error is STEPSIM_ERROR_HELP, its message the help text. */
gboolean parser_run(Parser *parser, int *argc, char ***argv, gboolean allows_words, GError **error);

/* "on" or "off"; NULL leaves *value. */
gboolean parse_switch(const char *option, const char *text, gboolean *value, GError **error);
/* Positive counts: "1,2,8", "1..16" (each), "8..64+8" (every eighth), "8..1024*2" (each twice the one before), mixed; 1
 * to 4096 values, each once. GArray of gint64, owned by the caller; NULL with INPUT. */
GArray *parse_count_list(const char *option, const char *text, GError **error);
/* INPUT when one of the NULL-terminated `values` that were read from `text` stands there twice. */
gboolean parse_check_once(const char *option, const char *text, char *const *values, GError **error);
