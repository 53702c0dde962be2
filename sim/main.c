/* stepsim: how long will one training step of this transformer take on this cluster under this parallel plan, where do
 * the time and the memory go?
 *
 * A map of the program, from what the user says to what they see:
 *
 *     describe/   Model (Hugging Face config), Cluster (YAML), Plan (options)
 *     workload/   what must be computed and held: kernels, bytes, layout of ranks
 *     schedule/   in which order: actions → passes → the Program, its verifier, its text form
 *     cost/       how long each distinct thing takes on the described hardware
 *     engine/     the virtual clock: events in (time, sequence) order
 *     trace/      what happened
 *     report/     metrics, tables, JSON, Chrome trace, pictures: from the Trace alone
 *     predict     the façade over all of it
 *     commands/   one verb each: options → library → print
 */
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <unistd.h>

#include "command.h"
#include "error.h"
#include "suggest.h"

static const Command commands[] = {
    {"simulate", "one configuration: step time, MFU, where the time goes, memory", command_simulate},
    {"schedule", "a pipeline order alone: drawing, bubble, micro-batches in flight", command_schedule},
    {"memory", "who holds what, per GPU, under each ZeRO stage", command_memory},
    {"collective", "time and bus bandwidth of a collective, as nccl-tests prints it", command_collective},
    {"plot", "bubble, MFU and memory curves over many configurations", command_plot},
    {"compare", "a predicted trace beside a measured one of the same Program", command_compare},
};

static void print_usage(FILE *out) {
  fprintf(out, "usage: stepsim VERB [OPTION…]\n\n");
  for (gsize i = 0; i < G_N_ELEMENTS(commands); i++)
    fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
  fprintf(out, "\nstepsim VERB --help shows the options of a verb with their defaults and an example.\n"
               "Exit status: 0 done, 1 the configuration is impossible or does not fit, 2 bad usage or input.\n");
}

static const Command *find_command(const char *name, GError **error) {
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

/* A standard stream that was closed would be taken by the next file opened, and what is printed would land in it: here
 * it is one that cannot be written, so that printing fails as it should. */
static void hold_standard_streams(void) {
  int fd;
  do
    fd = open("/dev/null", O_RDONLY);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0)
    close(fd);
}

static int run(int argc, char **argv, GError **error) {
  static const char *const help[] = {"--help", "-h", "help", NULL};
  if (argc < 2) {
    print_usage(stderr);
    return 2;
  }
  if (g_strv_contains(help, argv[1])) {
    print_usage(stdout);
    return 0;
  }
  if (g_strcmp0(argv[1], "--version") == 0) {
    puts("stepsim " STEPSIM_VERSION);
    return 0;
  }
  const Command *command = find_command(argv[1], error);
  if (command == NULL)
    return 2;
  g_autofree char *program = g_strdup_printf("stepsim %s", command->name);
  g_set_prgname(program);
  return command->run(argc - 1, argv + 1, error);
}

/* The exit status of an error, which is printed here and nowhere else. */
static int report(const GError *error) {
  if (g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_HELP)) {
    fputs(error->message, stdout);
    return 0;
  }
  fprintf(stderr, "stepsim: %s\n", error->message);
  return g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE) ? 1 : 2;
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  hold_standard_streams();
  setlocale(LC_CTYPE, "");
  int status = run(argc, argv, &error);
  if (error != NULL)
    status = report(error);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    perror("stepsim: standard output");
    return 2;
  }
  return status;
}
