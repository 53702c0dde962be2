/* stepreal's verbs. Like stepsim's, but all ranks of a world run them together. */
#pragma once
#include "verbs.h"
#include "world.h"

int command_run(int argc, char **argv, GError **error);
int command_calibrate(int argc, char **argv, GError **error);

/* `run` in a world that is already open, and stays open unless the run fails midway: for several runs in the same
 * processes. */
int command_run_again(World *world, int argc, char **argv, GError **error);

/* Ends a verb on all ranks. If any rank has an error, the lowest such rank reports it. Returns the exit status. */
int real_command_close(World *world, int status, GError **error);
