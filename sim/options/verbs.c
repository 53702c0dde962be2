#include "verbs.h"

#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "completion.h"
#include "error.h"
#include "no_memory.h"
#include "parser.h"
#include "plain_terminal.h"
#include "suggest.h"

static void print_usage(const VerbTable *table, FILE *out) {
  if (table->is_silent)
    return;
  fprintf(out, "usage: %s\n\n%s\n\n", table->usage, table->about);
  for (gsize i = 0; i < table->n_commands; i++)
    fprintf(out, "  %-12s %s\n", table->commands[i].name, table->commands[i].summary);
  fprintf(out,
          "\n%s VERB --help shows the options of a verb with their defaults and an example.\n"
          "Exit status: %s\n",
          table->program, table->statuses);
}

static const Command *find_command(const VerbTable *table, const char *name, GError **error) {
  g_autofree const char **names = g_new0(const char *, table->n_commands + 1);
  for (gsize i = 0; i < table->n_commands; i++) {
    if (g_strcmp0(name, table->commands[i].name) == 0)
      return &table->commands[i];
    names[i] = table->commands[i].name;
  }
  g_autofree char *message = suggest_message(name, names);
  fail_input(error, "no verb \"%s\": %s", name, message);
  return NULL;
}

/* If a standard stream was closed, the next file opened would take its place, and printed text would land there. So
 * it is replaced by one that cannot be written, and printing fails as it should. */
static void hold_standard_streams(void) {
  int fd;
  do
    fd = open("/dev/null", O_RDONLY);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0)
    close(fd);
}

/* Run the verb with argv[0] its name. */
static int run_command(const VerbTable *table, const Command *command, int argc, char **argv, GError **error) {
  g_autofree char *name = g_strdup_printf("%s %s", table->program, command->name);
  g_set_prgname(name);
  return command->run(argc, argv, error);
}

static const char *const others[][2] = {
    {"help", "the options of a verb"}, {"--help", "all verbs"}, {"--version", "the program's version"}};

/* PROGRAM --complete WORD…: what the last word may be. A verb answers for its own. */
static int complete(const VerbTable *table, int argc, char **argv, GError **error) {
  const char *verb = argc > 3 ? argv[2] : NULL, *typed = argc > 2 ? argv[argc - 1] : "";
  for (gsize i = 0; i < table->n_commands && verb != NULL; i++)
    if (strcmp(table->commands[i].name, verb) == 0) {
      g_autofree char **words = g_memdup2(argv + 1, (gsize)argc * sizeof *argv);
      words[0] = argv[2];
      words[1] = argv[1];
      return run_command(table, &table->commands[i], argc - 1, words, error);
    }
  g_autoptr(GString) text = g_string_new(NULL);
  for (gsize i = 0; i < table->n_commands && (verb == NULL || (strcmp(verb, "help") == 0 && argc == 4)); i++)
    completion_offer(text, typed, "", table->commands[i].name, table->commands[i].summary);
  for (gsize i = 0; i < G_N_ELEMENTS(others) && verb == NULL; i++)
    completion_offer(text, typed, "", others[i][0], others[i][1]);
  g_set_error_literal(error, STEPSIM_ERROR, STEPSIM_ERROR_HELP, text->str); /* as it is, tabs included */
  return 0;
}

static int run(const VerbTable *table, int argc, char **argv, GError **error) {
  static const char *const help[] = {"--help", "-h", "help", NULL};
  if (argc < 2) {
    print_usage(table, stderr);
    return 2;
  }
  if (g_str_equal(argv[1], "help") && argc > 2) { /* help VERB */
    char option[] = "--help", *asked[] = {argv[0], argv[2], option, NULL};
    return run(table, 3, asked, error);
  }
  if (g_strv_contains(help, argv[1])) {
    print_usage(table, stdout);
    return 0;
  }
  if (g_strcmp0(argv[1], "--version") == 0) {
    printf("%s " STEPSIM_VERSION "\n", table->program);
    return 0;
  }
  if (strcmp(argv[1], PARSER_COMPLETE) == 0)
    return complete(table, argc, argv, error);
  const Command *command = find_command(table, argv[1], error);
  return command != NULL ? run_command(table, command, argc - 1, argv + 1, error) : 2;
}

static int status_of(const GError *error) {
  if (g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_HELP))
    return 0;
  return g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE) ? 1 : 2;
}

int verbs_report(const char *program, const GError *error) {
  if (status_of(error) == 0)
    fputs(error->message, stdout);
  else
    fprintf(stderr, "%s: %s\n", program, error->message);
  return status_of(error);
}

/* A configuration may be impossible for this process only, so that is always reported. */
static int report(const VerbTable *table, const GError *error) {
  if (!table->is_silent || status_of(error) == 1)
    return verbs_report(table->program, error);
  return status_of(error);
}

int verbs_main(const VerbTable *table, int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  hold_standard_streams();
  no_memory_ends(table->program);
  setlocale(LC_CTYPE, "");
  plain_terminal_begin();
  int status = run(table, argc, argv, &error);
  if (error != NULL)
    status = report(table, error);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    g_autofree char *what = g_strdup_printf("%s: standard output", table->program);
    perror(what);
    return 2;
  }
  return status;
}
