#include <stdio.h>
#include <unistd.h>

#include "command.h"
#include "compare.h"
#include "compare_plot.h"
#include "compare_text.h"
#include "error.h"
#include "json_report.h"
#include "output.h"
#include "parser.h"
#include "picture.h"
#include "profile_compare.h"
#include "text_report.h"

enum { NOT_GIVEN = G_MININT };

typedef struct {
  char *plot, *csv;
  gint rank;
  gboolean json;
  gboolean no_report; /* standard output is used for something else */
} CompareOptions;

static void clear_options(CompareOptions *o) {
  g_clear_pointer(&o->plot, g_free);
  g_clear_pointer(&o->csv, g_free);
}

static gboolean check_outputs(CompareOptions *o, GError **error) {
  const Printed printed[] = {{"--json", .given = o->json}, {"--csv", .file = o->csv}, {NULL}};
  return output_check_printed(printed, &o->no_report, error) && (o->plot == NULL || picture_check_file(o->plot, error));
}

static gboolean parse_options(CompareOptions *o, int *argc, char ***argv, GError **error) {
  *o = (CompareOptions){.rank = NOT_GIVEN};
  g_autoptr(Parser) parser = parser_new(
      "PREDICTED.json MEASURED…",
      "Compares two traces of one Program: step, kinds of op, phases, ranks, order of execution.",
      "Examples:\n"
      "  stepsim simulate --model gpt2 --cluster dgx-h100 --gpus 8 --tp 2 --pp 2 --global-batch 8 --trace "
      "predicted.json\n"
      "  stepsim compare predicted.json measured.json --plot compare.svg --csv ops.csv\n\n"
      "Both are Chrome traces written by simulate --trace and stepreal run --trace. The predicted one may be folded:\n"
      "each measured rank is then compared with its representative. Error is predicted / measured - 1. Against what\n"
      "PyTorch's profiler or Nsight Systems recorded (see stepsim trace), kinds of kernel are compared.\n\n"
      "Exit status: 0 done, whatever the errors are; 2 bad usage or input, or traces not of one Program.");
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
      {"plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->plot,
       "draw both timelines, predicted above measured (default: the first 16 ranks, or one per pipeline rank)",
       "FILE.svg|png|pdf"},
      {"csv", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->csv,
       "write one row per op: times in both traces (- is standard output, without a report)", "FILE"},
      {"rank", 0, 0, G_OPTION_ARG_INT, &o->rank, "show and draw only this rank (default: all)", "N"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  return parser_run(parser, argc, argv, TRUE, error) && check_outputs(o, error);
}

static gboolean print_outputs(const CompareOptions *o, const Compare *compare, int row, GError **error) {
  if (o->plot != NULL && !picture_take(compare_picture(compare, row), o->plot, error))
    return FALSE;
  g_autofree char *csv = o->csv != NULL ? compare_csv(compare, row) : NULL;
  if (csv != NULL && !output_text(o->csv, csv, error))
    return FALSE;
  g_autoptr(GString) out = g_string_new(NULL);
  g_autofree char *json = o->json ? json_report_compare(compare, row) : NULL;
  if (json != NULL)
    g_string_append(out, json);
  else if (!o->no_report)
    compare_text(out, compare, row, text_report_wants_colour(STDOUT_FILENO));
  fputs(out->str, stdout);
  return TRUE;
}

/* What another program's profiler recorded, by kinds of kernel: the two need not be of one Program. */
static gboolean run_recorded(const CompareOptions *o, char **argv, GError **error) {
  g_autoptr(Profile) predicted = profile_new(), measured = profile_new();
  if (o->plot != NULL || o->csv != NULL || o->rank != NOT_GIVEN)
    return fail_input(error, "%s is a profiler's: --plot, --csv and --rank need a trace of stepreal", argv[2]);
  if (!profile_read(predicted, argv[1], error) || !profile_complete(predicted, error))
    return FALSE;
  for (int i = 2; argv[i] != NULL; i++)
    if (!profile_read(measured, argv[i], error))
      return FALSE;
  if (!profile_complete(measured, error))
    return FALSE;
  g_autoptr(ProfileCompare) compare = profile_compare_new(predicted, measured);
  g_autofree char *json = o->json ? profile_compare_json(compare) : NULL;
  g_autoptr(GString) out = g_string_new(json);
  if (json == NULL)
    profile_compare_text(out, compare, text_report_wants_colour(STDOUT_FILENO));
  fputs(out->str, stdout);
  return TRUE;
}

static gboolean run(const CompareOptions *o, int argc, char **argv, GError **error) {
  ProfileSource of_predicted, of_measured;
  if (argc >= 3 && profile_source(argv[1], &of_predicted, error) && profile_source(argv[2], &of_measured, error) &&
      of_predicted == PROFILE_OWN && of_measured != PROFILE_OWN)
    return run_recorded(o, argv, error);
  g_clear_error(error);
  if (argc != 3)
    return fail_input(error, "found %d file%s, expected two: PREDICTED.json MEASURED.json", argc - 1,
                      argc == 2 ? "" : "s");
  g_autoptr(ChromeTrace) predicted = chrome_read(argv[1], error);
  g_autoptr(ChromeTrace) measured = predicted != NULL ? chrome_read(argv[2], error) : NULL;
  g_autoptr(Compare) compare = measured != NULL ? compare_new(predicted, measured, error) : NULL;
  if (compare == NULL)
    return FALSE;
  int row = o->rank != NOT_GIVEN ? compare_find_row(compare, o->rank) : -1;
  if (o->rank != NOT_GIVEN && row < 0)
    return fail_input(error, "--rank: found %d, expected 0 to %d", o->rank, compare->n_rows - 1);
  return print_outputs(o, compare, row, error);
}

int command_compare(int argc, char **argv, GError **error) {
  CompareOptions options;
  gboolean ok = parse_options(&options, &argc, &argv, error) && run(&options, argc, argv, error);
  clear_options(&options);
  return ok ? 0 : 2;
}
