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

/* Fill *error with that code and a printf-style message. Always FALSE, so a caller may write
 * `return fail_input(error, …)`. */
gboolean fail_with(GError **error, StepsimError code, const char *format, ...) G_GNUC_PRINTF(3, 4);
#define fail_input(error, ...) fail_with(error, STEPSIM_ERROR_INPUT, __VA_ARGS__)
#define fail_impossible(error, ...) fail_with(error, STEPSIM_ERROR_IMPOSSIBLE, __VA_ARGS__)
#define fail_help(error, ...) fail_with(error, STEPSIM_ERROR_HELP, __VA_ARGS__)
