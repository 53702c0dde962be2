/* The verbs of the command line; verbs.h states their contract. */
#pragma once
#include "verbs.h"

int command_simulate(int argc, char **argv, GError **error);
int command_schedule(int argc, char **argv, GError **error);
int command_memory(int argc, char **argv, GError **error);
int command_collective(int argc, char **argv, GError **error);
int command_plan(int argc, char **argv, GError **error);
int command_explain(int argc, char **argv, GError **error);
int command_plot(int argc, char **argv, GError **error);
int command_diff(int argc, char **argv, GError **error);
int command_compare(int argc, char **argv, GError **error);
int command_trace(int argc, char **argv, GError **error);
int command_lab(int argc, char **argv, GError **error);
int command_fit(int argc, char **argv, GError **error);
int command_validate(int argc, char **argv, GError **error);
int command_topology(int argc, char **argv, GError **error);
int command_sweep(int argc, char **argv, GError **error);
int command_list(int argc, char **argv, GError **error);

/* All that command_schedule() prints, for the library. */
gboolean schedule_answer(int argc, char **argv, GString *out, GError **error);
