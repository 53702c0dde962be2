/* From runs of one's own to a machine that predicts others. */
#include <stdio.h>
#include <string.h>

#include "cluster_words.h"
#include "collective_request.h"
#include "command.h"
#include "data_path.h"
#include "error.h"
#include "fit_report.h"
#include "framework_releases.h"
#include "output.h"
#include "parallel.h"
#include "parser.h"
#include "profile_shapes.h"

enum { MOST_JOBS = 1024, MOST_SUGGESTED = 20 };

typedef struct {
  char *cluster, *framework, *output, *releases;
  char **traces, **nccl_tests; /* NULL: not given */
  gboolean by_release;         /* (computed) of `releases` */
  gint jobs, suggest;
  gboolean json;
  gboolean no_report; /* standard output is used for something else */
} FitOptions;

static void clear_options(FitOptions *o) {
  g_free(o->cluster);
  g_free(o->framework);
  g_free(o->output);
  g_free(o->releases);
  g_strfreev(o->traces);
  g_strfreev(o->nccl_tests);
}

/* The name becomes that of its file, as rows name it. */
static gboolean find_framework(char **name, GError **error) {
  g_auto(FrameworkChoice) choice = {0};
  g_auto(GStrv) files =
      *name != NULL && framework_choose(*name, &choice, error) ? framework_files(choice.file, error) : NULL;
  if (*name != NULL && files == NULL) {
    g_prefix_error(error, "--framework: ");
    return FALSE;
  }
  g_free(*name);
  *name = g_steal_pointer(&choice.file);
  return TRUE;
}

static gboolean check_options(FitOptions *o, GError **error) {
  const Printed printed[] = {{"--json", .given = o->json}, {"--output", .file = o->output}, {NULL}};
  if (o->cluster == NULL)
    return fail_input(error, "--cluster is missing: what is known of the machine, a name in topologies/ or a file");
  if (o->jobs != NOT_GIVEN && (o->jobs < 1 || o->jobs > MOST_JOBS))
    return fail_input(error, "--jobs: found %d, expected 1 to %d", o->jobs, MOST_JOBS);
  if (o->suggest < 0 || o->suggest > MOST_SUGGESTED)
    return fail_input(error, "--suggest: found %d, expected 0 to %d", o->suggest, MOST_SUGGESTED);
  return find_framework(&o->framework, error) && parse_switch("--releases", o->releases, &o->by_release, error) &&
         output_check_printed(printed, &o->no_report, error);
}

static gboolean parse_options(FitOptions *o, int *argc, char ***argv, GError **error) {
  *o = (FitOptions){.jobs = NOT_GIVEN, .by_release = TRUE};
  g_autoptr(Parser) parser = parser_new(
      "RUNS.csv…", "Finds what a cluster's file does not know of a machine from runs on it: rates, network, hosts.",
      "Examples:\n"
      "  stepsim fit runs.csv --cluster dgx-h100 --suggest 3\n"
      "  stepsim fit runs.csv --cluster dgx-h100 --output mine.yaml\n"
      "  stepsim simulate --model llama-3-70b --cluster mine.yaml --gpus 256 --tp 8 --pp 4\n\n"
      "A file has one run a row, with the columns of stepsim validate --help; cluster is not needed. One run is "
      "enough\n"
      "to begin with: what the runs say nothing of stays as it is described. Runs that differ in what they wait for\n"
      "say most.\n\n"
      "Exit status: 0 done, 2 bad usage or input.");
  const GOptionEntry entries[] = {
      {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &o->cluster,
       "what is known of the machine: a name in topologies/, or a file; required", "NAME"},
      {"framework", 0, 0, G_OPTION_ARG_STRING, &o->framework,
       "framework of all runs: a product, PRODUCT@RELEASE or a file (default: as the rows say)", "NAME"},
      {"trace", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->traces,
       "take the rate of products and attention from what a profiler recorded (stepsim trace); repeat for more",
       "FILE"},
      {"nccl-tests", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->nccl_tests,
       "take collectives from a log of nccl-tests (stepsim collective --fit); repeat for more", "FILE"},
      {"suggest", 0, 0, G_OPTION_ARG_INT, &o->suggest, "say which runs to do next to learn most", "N"},
      {"output", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->output,
       "write the machine as a cluster's file (- is standard output, without a report)", "FILE.yaml"},
      {"releases", 0, 0, G_OPTION_ARG_STRING, &o->releases,
       "read framework names as of the date of the row's model; off: literally (default on)", "on|off"},
      {"jobs", 0, 0, G_OPTION_ARG_INT, &o->jobs, "threads (default: one per processor)", "N"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  return parser_run(parser, argc, argv, TRUE, error) && check_options(o, error);
}

/* "runs/mine.yaml" is mine. Owned by the caller. */
static char *name_of(const char *file, const Cluster *described) {
  if (file == NULL || g_str_equal(file, "-"))
    return g_strconcat(described->name, "-as-run", NULL);
  char *name = g_path_get_basename(file), *dot = strrchr(name, '.');
  if (dot != NULL && dot > name)
    *dot = '\0';
  return name;
}

/* --cluster, as a file anywhere may name it. Owned by the caller. */
static char *base_of(const FitOptions *o) {
  return g_file_test(o->cluster, G_FILE_TEST_IS_REGULAR) ? g_canonicalize_filename(o->cluster, NULL)
                                                         : g_strdup(o->cluster);
}

/* What is known of the machine, with what nccl-tests measured on it. *section: that part of its file, owned by the
 * caller; NULL: none. */
static Cluster *read_base(const FitOptions *o, char **section, GError **error) {
  g_autoptr(Cluster) described = cluster_read(o->cluster, error);
  if (described != NULL && cluster_words_are(o->cluster)) {
    fail_input(
        error,
        "--cluster: found words, which no file can have as its base: write them to one (stepsim topology \"%.200s\" "
        "--output FILE)",
        o->cluster);
    return NULL;
  }
  if (described == NULL || o->nccl_tests == NULL)
    return g_steal_pointer(&described);
  g_autoptr(GString) report = g_string_new(NULL);
  const CollectiveOptions collective = {.logs = o->nccl_tests, .gpus = NOT_GIVEN, .root = NOT_GIVEN};
  *section = collective_fit_section(&collective, report, error);
  if (*section == NULL) {
    g_prefix_error(error, "--nccl-tests (stepsim collective --fit has the options that a message names): ");
    return NULL;
  }
  g_autofree char *over = base_of(o);
  g_autofree char *value = fit_yaml_value(over);
  g_autofree char *text = g_strdup_printf("name: machine\nbase: %s\n%s", value, *section);
  Cluster *base = cluster_parse("--nccl-tests", text, error);
  if (base != NULL) {
    g_free(base->name);
    base->name = g_strdup(described->name);
  }
  return base;
}

/* Kernels of at least this many FLOPs: in smaller ones launching shows. */
static const double least_flops = 1e10, trace_spread = 0.04, least_rate = 0.5, most_rate = 1.6;

/* The prior of as_run.rate: the time of the trace's products and attention beside what is modelled of them in a step.
 */
static gboolean look_at_traces(const FitOptions *o, const Cluster *base, FitPrior *prior, GError **error) {
  if (o->traces == NULL)
    return TRUE;
  g_autoptr(Profile) profile = profile_new();
  for (char **file = o->traces; *file != NULL; file++)
    if (!profile_read(profile, *file, error))
      return FALSE;
  if (!profile_complete(profile, error))
    return FALSE;
  g_autoptr(ProfileShapes) shapes = profile_shapes_new(profile, &base->gpu);
  double measured_s = 0, modelled_s = 0;
  for (guint i = 0; i < shapes->shapes->len; i++) {
    const ProfileShape *shape = &g_array_index(shapes->shapes, ProfileShape, i);
    if (shape->item.flops < least_flops)
      continue;
    measured_s += (double)shape->n * shape->median_s;
    modelled_s += (double)shape->n * shape->in_step_s;
  }
  if (measured_s == 0)
    return fail_input(error,
                      "--trace: found no product or attention of %.0f GFLOP and more with its sizes in %s, expected "
                      "some (record with record_shapes=True)",
                      least_flops * 1e-9, o->traces[0]);
  const double rate = modelled_s / measured_s;
  if (rate < least_rate || rate > most_rate)
    return fail_input(error,
                      "--trace: found products and attention at %.2f of the rate modelled for %s, expected a recording "
                      "on that GPU, %s is of %s",
                      rate, base->gpu.name, o->traces[0],
                      profile_rank(profile, 0)->gpu != NULL ? profile_rank(profile, 0)->gpu : "an unknown one");
  *prior = (FitPrior){base->as_run.rate * rate, trace_spread, "the trace's products and attention"};
  return TRUE;
}

static gboolean print_outputs(const FitOptions *o, const Fit *fit, const GArray *suggestions, const char *section,
                              const char *files, GError **error) {
  g_autofree char *name = name_of(o->output, fit->base);
  g_autofree char *base = base_of(o);
  g_autofree char *yaml = o->output != NULL ? fit_yaml(fit, name, base, files, section) : NULL;
  if (yaml != NULL && !output_text(o->output, yaml, error))
    return FALSE;
  g_autoptr(GString) out = g_string_new(NULL);
  g_autofree char *json = o->json ? fit_json(fit, suggestions) : NULL;
  if (json != NULL)
    g_string_append(out, json);
  else if (!o->no_report)
    fit_text(out, fit, suggestions);
  fputs(out->str, stdout);
  return TRUE;
}

static gboolean run(const FitOptions *o, int argc, char **argv, GError **error) {
  if (argc < 2)
    return fail_input(error, "no file was given, expected RUNS.csv…");
  g_autofree char *section = NULL;
  g_autoptr(Cluster) base = read_base(o, &section, error);
  if (base == NULL)
    return FALSE;
  g_autofree FitPrior *priors = fit_priors(base);
  const MeasuredAs as = {o->by_release, o->cluster, o->framework};
  g_autoptr(MeasuredRows) rows =
      look_at_traces(o, base, &priors[UNKNOWN_RATE], error) ? measured_rows_read(argv + 1, argc - 1, &as, error) : NULL;
  if (rows == NULL)
    return FALSE;
  const int n_threads = o->jobs != NOT_GIVEN ? o->jobs : parallel_threads();
  g_autoptr(Fit) fit = fit_new(rows, base, priors, n_threads, error);
  if (fit == NULL)
    return FALSE;
  g_autoptr(GArray) suggestions = fit_suggest(fit, o->suggest, n_threads);
  g_autoptr(GString) files = g_string_new(argv[1]);
  for (int i = 2; i < argc; i++)
    g_string_append_printf(files, ", %s", argv[i]);
  return print_outputs(o, fit, suggestions, section, files->str, error);
}

int command_fit(int argc, char **argv, GError **error) {
  FitOptions options;
  const gboolean ok = parse_options(&options, &argc, &argv, error) && run(&options, argc, argv, error);
  clear_options(&options);
  return ok ? 0 : 2;
}
