#include <stdio.h>

#include "command.h"
#include "error.h"
#include "error_table.h"
#include "output.h"
#include "parser.h"
#include "picture.h"
#include "validation_report.h"

enum { NOT_GIVEN = G_MININT, MOST_JOBS = 1024 };

typedef struct {
  char *cluster, *rows, *plot, *markdown, *by, *without, *releases, *intervals;
  Parts parts;         /* (computed) those named in `without` */
  gboolean by_release; /* (computed) of `releases` */
  gint jobs;
  gboolean json;
  gboolean no_report; /* standard output is used for something else */
} ValidateOptions;

static void clear_options(ValidateOptions *o) {
  g_clear_pointer(&o->cluster, g_free);
  g_clear_pointer(&o->rows, g_free);
  g_clear_pointer(&o->plot, g_free);
  g_clear_pointer(&o->markdown, g_free);
  g_clear_pointer(&o->by, g_free);
  g_clear_pointer(&o->without, g_free);
  g_clear_pointer(&o->releases, g_free);
  g_clear_pointer(&o->intervals, g_free);
}

static gboolean parse_parts(ValidateOptions *o, GError **error) {
  if (o->without == NULL || parts_parse(o->without, &o->parts, error))
    return TRUE;
  g_prefix_error(error, "--without: ");
  return FALSE;
}

static gboolean check_options(ValidateOptions *o, GError **error) {
  const Printed printed[] = {{"--json", .given = o->json},
                             {"--rows", .file = o->rows},
                             {"--markdown", .file = o->markdown},
                             {"--intervals", .file = o->intervals},
                             {NULL}};
  if (o->intervals != NULL && o->without != NULL)
    return fail_input(error, "--intervals and --without %.80s clash: intervals are of whole predictions", o->without);
  if (o->jobs != NOT_GIVEN && (o->jobs < 1 || o->jobs > MOST_JOBS))
    return fail_input(error, "--jobs: found %d, expected 1 to %d", o->jobs, MOST_JOBS);
  return parse_parts(o, error) && parse_switch("--releases", o->releases, &o->by_release, error) &&
         output_check_printed(printed, &o->no_report, error) && (o->plot == NULL || picture_check_file(o->plot, error));
}

/* The end of --help. Owned by the caller. */
static char *help_text(void) {
  g_autofree char *parts = parts_help();
  return g_strconcat(
      "Example:\n  stepsim validate measured.csv out_of_memory.csv --rows errors.csv --plot errors.svg\n\n"
      "A file has one run a row; columns are found by name: layers, hidden, heads, cluster and step_time_s (empty: "
      "the\n"
      "run ended out of memory) are required; id, source, model_name, kv_heads, ffn_hidden, gated, vocab, tied,\n"
      "positions, experts, seq_len, gpus, tp, pp, chunks, pipeline_layout, cp, ep, dp, zero, zero_ranks, micro_batch,\n"
      "global_batch, schedule, recompute, sequence_parallel, precision, attention, layer_kernels, norm_kernel, loss,\n"
      "overlap_grad, overlap_param, cp_comm, expert_dispatch, overlap_experts, cuda_graphs, expert_tp, mtp_layers, "
      "recompute_modules, framework,\n"
      "read_as, memory_gb (GB = 1e9 bytes) and memory_of (who counted it: allocated, reserved or device) are read, "
      "others left alone. read_as names the file of a framework that\n"
      "says how it ran. Where it is empty, topologies/published/rows.yaml may read a framework's name as a file of "
      "the\n"
      "time of the row's model, and the report says which: runs of your own of today need --releases off, or read_as.\n"
      "Error is predicted / measured - 1. The baseline takes every step of a source at one share of the peak, fitted "
      "to\n"
      "these rows. A row that cannot be predicted is counted, with the reason.\n\n"
      "--without takes parts of the model away, to see what they are worth:\n",
      parts, "\nExit status: 0 done, whatever the errors are; 1 no row can be predicted; 2 bad usage or input.", NULL);
}

static gboolean parse_options(ValidateOptions *o, int *argc, char ***argv, GError **error) {
  *o = (ValidateOptions){.jobs = NOT_GIVEN, .by_release = TRUE};
  g_autofree char *help = help_text();
  g_autoptr(Parser) parser =
      parser_new("FILE.csv...", "Predicts measured training steps and reports the errors by source.", help);
  const GOptionEntry entries[] = {
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
      {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &o->cluster,
       "the machine of all rows, such as one that stepsim fit wrote (default: as the rows say)", "NAME"},
      {"rows", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->rows,
       "write each row with its prediction (- is standard output, without a report)", "FILE"},
      {"plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->plot, "draw predicted against measured",
       "FILE.svg|png|pdf"},
      {"markdown", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->markdown,
       "write the table and the worst rows as Markdown (- is standard output, without a report)", "FILE"},
      {"intervals", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->intervals,
       "write the errors of these rows that predictions' intervals come from, and report how many rows lie in "
       "intervals "
       "made without them (- is standard output, without a report)",
       "FILE.yaml"},
      {"by", 0, 0, G_OPTION_ARG_STRING, &o->by, "column that groups rows (default source)", "COLUMN"},
      {"without", 0, 0, G_OPTION_ARG_STRING, &o->without, "parts of the model to leave out (below)", "PART[,PART...]"},
      {"releases", 0, 0, G_OPTION_ARG_STRING, &o->releases,
       "read framework names as of the date of the row's model; off: literally (default on)", "on|off"},
      {"jobs", 0, 0, G_OPTION_ARG_INT, &o->jobs, "threads (default: one per processor)", "N"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  return parser_run(parser, argc, argv, TRUE, error) && check_options(o, error);
}

/* `intervals`: NULL, none are asked for. */
static gboolean print_outputs(const ValidateOptions *o, const Validation *validation, const ErrorTable *intervals,
                              GError **error) {
  if (o->plot != NULL && !validation_plot(validation, o->plot, error))
    return FALSE;
  g_autofree char *rows = o->rows != NULL ? validation_csv(validation) : NULL;
  if (rows != NULL && !output_text(o->rows, rows, error))
    return FALSE;
  g_autofree char *markdown = o->markdown != NULL ? validation_markdown(validation) : NULL;
  if (markdown != NULL && !output_text(o->markdown, markdown, error))
    return FALSE;
  g_autofree char *yaml = intervals != NULL ? error_table_yaml(intervals) : NULL;
  if (yaml != NULL && !output_text(o->intervals, yaml, error))
    return FALSE;
  g_autoptr(GString) out = g_string_new(NULL);
  g_autofree char *json = o->json ? validation_json(validation) : NULL;
  if (json != NULL)
    g_string_append(out, json);
  else if (!o->no_report)
    validation_text(out, validation);
  if (intervals != NULL && !o->no_report && !o->json)
    error_table_coverage(intervals, out);
  fputs(out->str, stdout);
  return TRUE;
}

/* The exit status. */
static int run(const ValidateOptions *o, int argc, char **argv, GError **error) {
  if (argc < 2) {
    fail_input(error, "no file was given, expected FILE.csv...");
    return 2;
  }
  MeasuredRows *rows = measured_rows_read(argv + 1, argc - 1, &(MeasuredAs){o->by_release, o->cluster}, error);
  if (rows == NULL)
    return 2;
  measured_rows_take_away(rows, o->parts);
  rows->want_intervals = o->intervals == NULL; /* which they are made from */
  g_autoptr(Validation) validation = validation_run(rows, o->by, o->jobs != NOT_GIVEN ? o->jobs : 0, error);
  if (validation == NULL)
    return 2;
  g_autoptr(ErrorTable) intervals =
      o->intervals != NULL ? error_table_new(validation, argv + 1, argc - 1, error) : NULL;
  if ((o->intervals != NULL && intervals == NULL) || !print_outputs(o, validation, intervals, error))
    return 2;
  return validation->all.n_predicted > 0 ? 0 : 1;
}

int command_validate(int argc, char **argv, GError **error) {
  ValidateOptions options;
  int status = parse_options(&options, &argc, &argv, error) ? run(&options, argc, argv, error) : 2;
  clear_options(&options);
  return status;
}
