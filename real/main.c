/* stepreal: the Program that stepsim simulates, executed on real processors.
 *
 * A map of the program, from the floor up:
 *
 *     kernels/    what a transformer step is made of: plain data, run by cpu (OpenBLAS) and cuda (cuBLASLt)
 *     device/     in-order streams and events: cpu (worker threads), cuda, null
 *     comm/       the world of ranks; collectives and sends: mpi, nccl, null
 *     train/      a real model: parameters, activations, items → kernels; the executor; the numerics check
 *     calibrate/  measured times → a GPU file and a cluster file for stepsim
 *     commands/   one verb each
 */
#include <locale.h>
#include <stdio.h>

#include "error.h"
#include "real_command.h"
#include "suggest.h"

static const RealCommand commands[] = {
    {"run", "execute a training step's Program on this machine's processors, check its numbers", command_run},
    {"calibrate", "measure this machine; write a cluster file and a GPU file for stepsim", command_calibrate},
};

static void print_usage(FILE *out) {
  fprintf(out, "usage: [mpirun -n RANKS] stepreal VERB [OPTION…]\n\n");
  for (gsize i = 0; i < G_N_ELEMENTS(commands); i++)
    fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
  fprintf(out, "\nstepreal VERB --help shows the options of a verb with their defaults and an example.\n"
               "Exit status: 0 done, 1 the run failed or its numbers are wrong, 2 bad usage or input.\n");
}

static const RealCommand *find_command(const char *name, GError **error) {
  const char *names[G_N_ELEMENTS(commands) + 1] = {NULL};
  for (gsize i = 0; i < G_N_ELEMENTS(commands); i++) {
    if (g_strcmp0(name, commands[i].name) == 0)
      return &commands[i];
    names[i] = commands[i].name;
  }
  g_autofree char *message = suggest_message(name, names);
  fail_input(error, "no verb \"%s\": %s", name, message);
  return NULL;
}

static int run(int argc, char **argv, GError **error) {
  static const char *const help[] = {"--help", "-h", "help", NULL};
  if (argc < 2) {
    if (world_is_first_launched())
      print_usage(stderr);
    return 2;
  }
  if (g_strv_contains(help, argv[1])) {
    if (world_is_first_launched())
      print_usage(stdout);
    return 0;
  }
  if (g_strcmp0(argv[1], "--version") == 0) {
    puts("stepreal " STEPSIM_VERSION);
    return 0;
  }
  const RealCommand *command = find_command(argv[1], error);
  if (command == NULL)
    return 2;
  g_autofree char *program = g_strdup_printf("stepreal %s", command->name);
  g_set_prgname(program);
  return command->run(argc - 1, argv + 1, error);
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  setlocale(LC_CTYPE, "");
  int status = run(argc, argv, &error);
  if (error != NULL)
    status = real_command_report(error);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    perror("stepreal: standard output");
    return 2;
  }
  return status;
}
