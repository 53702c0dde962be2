/* stepreal's verbs: as stepsim's, but run by all ranks of a world at once. */
#pragma once
#include "world.h"

typedef struct {
  const char *name, *summary;
  int (*run)(int argc, char **argv, GError **error);
} RealCommand;

int command_run(int argc, char **argv, GError **error);
int command_calibrate(int argc, char **argv, GError **error);

/* An error (or help) without a world to agree in: printed once, where the launcher tells its ranks apart. Returns the exit
 * status it stands for. */
int real_command_report(const GError *error);
/* Ends a verb: with an error of any rank all end; the first rank that has one reports it. Returns the exit status. */
int real_command_close(World *world, int status, GError **error);
