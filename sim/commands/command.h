/* The verbs of the command line. Each takes its own argv (argv[0] is the verb), prints to standard output and returns
 * the exit status: 0 done, 1 the answer is no (does not fit). With *error set the return value means nothing: main()
 * prints the error once and turns its code into the status. */
#pragma once
#include <glib.h>

typedef struct {
  const char *name, *summary;
  int (*run)(int argc, char **argv, GError **error);
} Command;

int command_simulate(int argc, char **argv, GError **error);
int command_schedule(int argc, char **argv, GError **error);
int command_memory(int argc, char **argv, GError **error);
int command_collective(int argc, char **argv, GError **error);
int command_plot(int argc, char **argv, GError **error);
int command_compare(int argc, char **argv, GError **error);
