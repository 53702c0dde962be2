/* What a page asks: a verb, its options and the files that these name, as JSON:
 *
 *     {"verb": "simulate", "options": [["model", "llama-3-8b"], ["tp", "8"], ["cluster", "@mine"]],
 *      "files": {"cluster": "name: mine\n…"}, "writes": "npz", "aside": false}
 *
 * `writes` is what simulate shall write besides: its trace as npz or json (for Perfetto), its timeline as svg, the step
 * as html. A value that begins with @ stands for the file of that option: it is written into the lab's folder. No other
 * value may lead out of the data folders. */
#pragma once
#include <glib.h>

typedef struct {
  GStrv arguments;             /* the verb first, then --option=value, --json; owned */
  GStrv files;                 /* written for it; owned */
  const char *option, *suffix; /* of the file that it writes: "trace", "npz"; NULL: none. Static */
  gboolean aside;
} LabQuestion;

/* INPUT: not of that form; a verb that the lab does not run; an option that this verb does not take from a page, with
 * the nearest that it does; a path. Files that were written are gone then. */
gboolean lab_question_read(LabQuestion *question, const char *folder, const char *text, gsize length, GError **error);
/* The same of a recording that was dropped on the page, for `stepsim trace`, which draws it too; `text` are its bytes,
 * `name` what it was called. */
gboolean lab_question_of_recording(LabQuestion *question, const char *folder, const char *name, const char *text,
                                   gsize length, GError **error);
void lab_question_clear(LabQuestion *question);
