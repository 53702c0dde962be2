#include "real_command.h"

#include <stdio.h>

#include "error.h"

static int status_of(const GError *error) {
  if (g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_HELP))
    return 0;
  return g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE) ? 1 : 2;
}

static void print_error(const GError *error) {
  if (status_of(error) == 0)
    fputs(error->message, stdout);
  else
    fprintf(stderr, "stepreal: %s\n", error->message);
}

int real_command_report(const GError *error) {
  /* a mistake in the command line is every rank's; that MPI does not come up may be this one's alone */
  if (status_of(error) == 1 || world_is_first_launched())
    print_error(error);
  return status_of(error);
}

int real_command_close(World *world, int status, GError **error) {
  const gboolean failed = error != NULL && *error != NULL;
  if (failed)
    status = status_of(*error);
  /* all ranks read the same command line and files: the first speaks for those that found the same mistake */
  const double first = -world_max(world, failed ? -world_rank(world) : -(double)G_MAXINT);
  if (failed && world_rank(world) == (int)first)
    print_error(*error);
  if (failed)
    g_clear_error(error);
  fflush(NULL);
  status = (int)world_max(world, status);
  world_close(world, 0); /* all are here and know: nobody has to be ended */
  return status;
}
