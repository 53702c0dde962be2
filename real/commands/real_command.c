#include "real_command.h"

#include <stdio.h>

#include "error.h"

int real_command_report(const GError *error) {
  if (g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_HELP)) {
    fputs(error->message, stdout);
    return 0;
  }
  fprintf(stderr, "stepreal: %s\n", error->message);
  return g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE) ? 1 : 2;
}

int real_command_close(World *world, int status, GError **error) {
  const gboolean failed = error != NULL && *error != NULL;
  /* all ranks read the same command line and files: rank 0 speaks for those that found the same mistake */
  const double first = -world_max(world, failed ? -world_rank(world) : -(double)G_MAXINT);
  if (first >= G_MAXINT)
    return world_close(world, status);
  const gboolean is_impossible = failed && g_error_matches(*error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE);
  if (failed && world_rank(world) == (int)first)
    real_command_report(*error);
  if (error != NULL)
    g_clear_error(error);
  fflush(NULL);
  return world_close(world, is_impossible ? 1 : 2);
}
