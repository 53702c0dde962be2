/* stepreal's verbs: as stepsim's, but run by all ranks of a world at once. */
#pragma once
#include "verbs.h"
#include "world.h"

int command_run(int argc, char **argv, GError **error);
int command_calibrate(int argc, char **argv, GError **error);

/* `run` in a world that is open already, and stays so unless the run fails in the middle: one run after another, by the
 * same processes. */
int command_run_again(World *world, int argc, char **argv, GError **error);

/* Ends a verb: with an error of any rank all end; the first rank that has one reports it. Returns the exit status. */
int real_command_close(World *world, int status, GError **error);
