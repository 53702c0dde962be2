/* run_list FILE: runs `stepreal run` once for each line of FILE, with the line as its options, all in one world, so
 * that ranks start and connect only once. After each run's report comes a line "= STATUS MESSAGE": stepreal's exit
 * status, and the error message or "-". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "real_command.h"

/* Owned by the caller; NULL: it cannot be read. */
static GStrv lines_of(const char *file, GError **error) {
  g_autofree char *text = NULL;
  return g_file_get_contents(file, &text, NULL, error) ? g_strsplit(g_strchomp(text), "\n", -1) : NULL;
}

static int run_line(World *world, const char *line, GError **error) {
  g_autofree char *command = g_strconcat("run ", line, NULL);
  g_auto(GStrv) argv = NULL;
  int argc;
  if (!g_shell_parse_argv(command, &argc, &argv, error))
    return 2;
  g_autofree char **words = g_memdup2(argv, sizeof *argv * ((gsize)argc + 1)); /* parsing moves them */
  return command_run_again(world, argc, words, error);
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  World *world = world_open(&argc, &argv, 30, &error);
  g_auto(GStrv) lines = world != NULL && argc == 2 ? lines_of(argv[1], &error) : NULL;
  if (lines == NULL) {
    fprintf(stderr, "run_list: %s\n",
            error != NULL ? error->message : "expected a file of options, a line for each run");
    return world_close(world, 2);
  }
  for (char **line = lines; *line != NULL; line++) {
    g_autoptr(GError) problem = NULL;
    const int status = run_line(world, *line, &problem);
    if (world_rank(world) > 0)
      continue;
    const gboolean is_impossible = g_error_matches(problem, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE);
    printf("= %d %s\n", problem == NULL ? status : is_impossible ? 1 : 2, problem != NULL ? problem->message : "-");
    fflush(stdout);
  }
  return world_close(world, 0);
}
