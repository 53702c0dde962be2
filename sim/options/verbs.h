/* A program that is a table of verbs: shared by stepsim and stepreal. */
#pragma once
#include <glib.h>

/* A verb takes its own argv (argv[0] is the verb), prints to standard output and returns the exit status: 0 done, 1
 * the answer is no (does not fit, numbers are wrong). If it sets *error, the return value is ignored: the error is
 * printed once and its code gives the status. */
typedef struct {
  const char *name, *summary;
  int (*run)(int argc, char **argv, GError **error);
} Command;

typedef struct {
  const char *program;  /* "stepsim" */
  const char *usage;    /* "stepsim VERB [OPTION…]" */
  const char *about;    /* what the program does, in a line */
  const char *statuses; /* meanings of the exit statuses */
  const Command *commands;
  gsize n_commands;
  gboolean is_silent; /* another process of the same launch prints what all of them would: help, usage errors */
} VerbTable;

/* All of main(): usage, --help, --version, the verb, its error. Returns the exit status. */
int verbs_main(const VerbTable *table, int argc, char **argv);
/* Print an error and return its exit status: 0 for requested help, 1 impossible, 2 bad usage or input. */
int verbs_report(const char *program, const GError *error);
