/* stepreal's verbs. Like stepsim's, but all ranks of a world run them together. */
#pragma once
#include "parser.h"
#include "verbs.h"
#include "world.h"

int command_run(int argc, char **argv, GError **error);
int command_calibrate(int argc, char **argv, GError **error);

/* `run` in a world that is already open, and stays open unless the run fails midway: for several runs in the same
 * processes. */
int command_run_again(World *world, int argc, char **argv, GError **error);

/* Ends a verb on all ranks. If any rank has an error, the lowest such rank reports it. Returns the exit status. */
int real_command_close(World *world, int status, GError **error);

/* How long ranks wait for one another: options that `run` and `calibrate` share. */
typedef struct {
  gdouble start_s;           /* for all ranks to start */
  gdouble stall_s, kernel_s; /* world_set_stall_timeouts() */
} RankTimeouts;

/* The defaults. */
void rank_timeouts_init(RankTimeouts *timeouts);
/* --start-timeout, --stall-timeout and --kernel-timeout. */
void rank_timeouts_add(RankTimeouts *timeouts, Parser *parser);
/* INPUT, naming an option that is out of range. */
gboolean rank_timeouts_check(const RankTimeouts *timeouts, GError **error);
/* Applies stall_s and kernel_s from now on. */
void rank_timeouts_apply(const RankTimeouts *timeouts, World *world);
