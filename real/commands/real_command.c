#include "real_command.h"

#include <stdio.h>

#include "error.h"

int real_command_close(World *world, int status, GError **error) {
  const gboolean failed = error != NULL && *error != NULL;
  if (failed)
    status = g_error_matches(*error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE) ? 1 : 2;
  /* all ranks read the same command line and files, so the first with an error speaks for the others */
  const double first = -world_max(world, failed ? -world_rank(world) : -(double)G_MAXINT);
  if (failed && world_rank(world) == (int)first)
    verbs_report("stepreal", *error);
  if (failed)
    g_clear_error(error);
  fflush(NULL);
  status = (int)world_max(world, status);
  world_close(world, 0); /* all ranks are here and know the status: none has to be ended */
  return status;
}
