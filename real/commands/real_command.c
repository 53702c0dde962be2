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

void rank_timeouts_init(RankTimeouts *timeouts) {
  *timeouts = (RankTimeouts){.start_s = 10, .stall_s = 60, .kernel_s = 600};
}

void rank_timeouts_add(RankTimeouts *timeouts, Parser *parser) {
  const GOptionEntry entries[] = {
      {"start-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &timeouts->start_s,
       "seconds until a rank that has not started ends the others (default 10)", "S"},
      {"stall-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &timeouts->stall_s,
       "seconds until ranks are ended that all wait, or are stopped, while nothing moves (default 60)", "S"},
      {"kernel-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &timeouts->kernel_s,
       "the same while a rank computes and comes to no kernel's end (default 600)", "S"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static gboolean check(const char *option, double value, gboolean is_right, const char *expected, GError **error) {
  return is_right || fail_input(error, "--%s: found %g, expected seconds, %s", option, value, expected);
}

gboolean rank_timeouts_check(const RankTimeouts *timeouts, GError **error) {
  return check("start-timeout", timeouts->start_s, timeouts->start_s > 0, "more than 0", error) &&
         check("stall-timeout", timeouts->stall_s, timeouts->stall_s >= 0, "or 0 for ever", error) &&
         check("kernel-timeout", timeouts->kernel_s, timeouts->kernel_s >= 0, "or 0 for ever", error);
}

void rank_timeouts_apply(const RankTimeouts *timeouts, World *world) {
  world_set_stall_timeouts(world, timeouts->stall_s, timeouts->kernel_s);
}
