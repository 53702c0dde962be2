/* A verb's options, and small value parsers. Entries are GLib's, of the types NONE, INT, INT64, DOUBLE, STRING,
 * FILENAME and STRING_ARRAY. The last of repeated options counts; for an unknown one the error names the nearest. */
#pragma once
#include <glib.h>

/* Flag of a FILENAME entry whose file is written; any other is read: it is a file, a name of what is shipped, or a list
 * of some, as are the values of a STRING_ARRAY (maybe behind NAME=) and the words. */
#define OPTION_WRITES G_OPTION_FLAG_NOALIAS

/* As the first argument: shells ask what the last may be (completion.h). */
#define PARSER_COMPLETE "--complete"

typedef struct Parser Parser;

/* `words` (may be NULL) follows the options in the usage line; `example` ends --help. */
Parser *parser_new(const char *words, const char *summary, const char *example);
void parser_free(Parser *parser);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Parser, parser_free)
void parser_add(Parser *parser, const GOptionEntry *entries);
/* The entries in the order added; ends with a NULL long_name. Borrowed, until more are added. */
const GOptionEntry *parser_entries(const Parser *parser);
/* Set an option as if "--name text" were on the command line. INPUT naming the option and what was expected. */
gboolean parser_set(Parser *parser, const char *name, const char *text, GError **error);
/* Parse argv in place, leaving argv[0] and words; options in quotes, "--tp 8 --pp 4", are one. Words are an error
 * unless `allows_words`. With --help or -h among the options the error is STEPSIM_ERROR_HELP, with the help text as its
 * message; so it is with candidates behind PARSER_COMPLETE. INPUT where a file to be written is, under whatever name, another one that is written or one that is read;
 * standard output (-) and devices are exempt. */
gboolean parser_run(Parser *parser, int *argc, char ***argv, gboolean allows_words, GError **error);

/* Positive counts: "1,2,8", "1..16" (each), "8..64+8" (every eighth), "8..1024*2" (each twice the one before), or a
 * mix; 1 to 4096 values without duplicates. GArray of gint64, owned by the caller; NULL with INPUT. */
GArray *parse_count_list(const char *option, const char *text, GError **error);
/* INPUT if the NULL-terminated `values`, read from `text`, contain a duplicate. */
gboolean parse_check_once(const char *option, const char *text, char *const *values, GError **error);
