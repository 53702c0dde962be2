/* Where verbs write. */
#pragma once
#include <glib.h>

/* `file` "-" is standard output. INPUT naming the file and the reason. */
gboolean output_text(const char *file, const char *text, GError **error);
