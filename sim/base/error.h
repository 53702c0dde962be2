/* The one error domain. Every reader and check fills a GError; only main() prints and exits. */
#pragma once
#include <glib.h>

#define STEPSIM_ERROR (stepsim_error_quark())

typedef enum {
  STEPSIM_ERROR_INPUT,      /* bad usage or input: exit status 2 */
  STEPSIM_ERROR_IMPOSSIBLE, /* the configuration cannot run or cannot be modelled: exit status 1 */
  STEPSIM_ERROR_HELP,       /* not an error: the message is the requested text, for standard output: exit status 0 */
} StepsimError;

GQuark stepsim_error_quark(void);

/* Fill *error with STEPSIM_ERROR_INPUT, _IMPOSSIBLE or _HELP and a printf-style message. Always FALSE, so a caller may
 * write `return fail_input(error, …)`. */
gboolean fail_input(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
gboolean fail_impossible(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
gboolean fail_help(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
