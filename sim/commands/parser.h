/* A verb's options: GLib's parser, plus the nearest valid name for an unknown one, and small value parsers. */
#pragma once
#include <glib.h>

typedef struct Parser Parser;

/* `words` (may be NULL) stands in the usage line after the options, `example` at the end of --help. */
Parser *parser_new(const char *words, const char *summary, const char *example);
void parser_free(Parser *parser);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Parser, parser_free)
void parser_add(Parser *parser, const GOptionEntry *entries);
/* Parse argv in place; what is left are argv[0] and words. Words are an error unless `allows_words`. --help prints and
 * ends the program with 0. */
gboolean parser_run(Parser *parser, int *argc, char ***argv, gboolean allows_words, GError **error);

/* "on" or "off"; NULL leaves *value. */
gboolean parse_switch(const char *option, const char *text, gboolean *value, GError **error);
/* Positive counts: "1,2,8", "1..16" (each), "8..1024*2" (each twice the one before), mixed; at most 4096 values.
 * GArray of gint64, owned by the caller; NULL with INPUT. */
GArray *parse_count_list(const char *option, const char *text, GError **error);
