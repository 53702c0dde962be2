/* One prediction as a page that needs nothing else, no network and no server: the lab's own, with what the engine said
 * inside it. Nothing on it can be changed; it says which command repeats it. */
#pragma once
#include "options.h"

typedef struct {
  const PlanOptions *options;        /* as they were typed */
  const char *numbers, *explanation; /* what simulate --json and explain --json print; explanation may be NULL */
  GBytes *arrays;                    /* step_arrays.h */
} LabHtml;

/* INPUT naming the file and the reason if it cannot be written, or one that was named among the options cannot be
 * read. */
gboolean lab_html_write(const LabHtml *of, const char *file, GError **error);
