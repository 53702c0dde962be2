/* From what a profiler recorded to where the time went. */
#include <stdio.h>
#include <unistd.h>

#include "command.h"
#include "data_path.h"
#include "error.h"
#include "output.h"
#include "parser.h"
#include "profile_report.h"
#include "profile_shapes.h"
#include "text_report.h"

typedef struct {
  char *trace, *timeline, *gpu, *cluster, *output;
  gint kernels;
  gboolean json;
  gboolean no_report; /* standard output is used for something else */
} TraceOptions;

static gboolean parse_options(TraceOptions *o, int *argc, char ***argv, GError **error) {
  *o = (TraceOptions){.kernels = 15};
  g_autoptr(Parser) parser = parser_new(
      "FILE…",
      "Shows where the time of a recorded training step went: computing, communicating, waiting for the host, idle.",
      "Examples:\n"
      "  stepsim simulate --model gpt2 --cluster dgx-h100 --gpus 8 --tp 2 --pp 2 --global-batch 8 --trace step.json\n"
      "  stepsim trace step.json --kernels 30\n\n"
      "FILE is what PyTorch's profiler exports (export_chrome_trace, tensorboard_trace_handler), plain or compressed\n"
      "with gzip, one per rank; what nsys export --type sqlite makes of a report of Nsight Systems; or what simulate\n"
      "--trace and stepreal run --trace write. Several ranks are set on one clock, and who comes late is said.\n\n"
      "Exit status: 0 done, 1 the cluster cannot run anything, 2 bad usage or input.");
  const GOptionEntry entries[] = {
      {"kernels", 0, 0, G_OPTION_ARG_INT, &o->kernels, "kernels to list, those that take the most time (default 15)",
       "N"},
      {"timeline", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->timeline,
       "draw the last step: a lane per rank, the first 16", "FILE.svg|png|pdf"},
      {"trace", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->trace,
       "write all ranks on one clock as a Chrome trace (- is standard output, without a report)", "FILE.json"},
      {"gpu", 0, 0, G_OPTION_ARG_FILENAME, &o->gpu,
       "set products, attention and passes over memory beside the model of this GPU: a name in topologies/gpus, or a "
       "file",
       "NAME"},
      {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &o->cluster,
       "set collectives beside the model of this cluster, whose nodes have the job's ranks in order: a name in "
       "topologies, or a file",
       "NAME"},
      {"output", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->output,
       "with --gpu: write a GPU file with the measured times; with --cluster: a cluster file (- is standard output, "
       "without a report)",
       "FILE.yaml"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  if (!parser_run(parser, argc, argv, TRUE, error))
    return FALSE;
  const Printed printed[] = {
      {"--json", .given = o->json}, {"--trace", .file = o->trace}, {"--output", .file = o->output}, {NULL}};
  if (o->output != NULL && (o->gpu == NULL) == (o->cluster == NULL))
    return fail_input(error, "--output: found %s, expected the GPU or the cluster that the file is based on",
                      o->gpu == NULL ? "no --gpu and no --cluster" : "both --gpu and --cluster");
  return (o->kernels >= 0 || fail_input(error, "--kernels: found %d, expected 0 or more", o->kernels)) &&
         output_check_printed(printed, &o->no_report, error) &&
         (o->timeline == NULL || picture_check_file(o->timeline, error));
}

/* What was asked for beside the profile. */
typedef struct {
  Gpu gpu;
  Cluster *cluster;
  ProfileShapes *shapes; /* NULL: not asked for, as below */
  ProfileRings *rings;
} Beside;

static void beside_clear(Beside *beside) {
  gpu_clear(&beside->gpu);
  g_clear_pointer(&beside->cluster, cluster_free);
  g_clear_pointer(&beside->shapes, profile_shapes_free);
  g_clear_pointer(&beside->rings, profile_rings_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Beside, beside_clear)

static gboolean read_beside(const TraceOptions *o, const Profile *profile, Beside *beside, GError **error) {
  if (o->gpu != NULL) {
    g_autofree char *file = data_path_find("topologies/gpus", o->gpu, ".yaml", error);
    if (file == NULL || !gpu_read(file, &beside->gpu, error))
      return FALSE;
    beside->shapes = profile_shapes_new(profile, &beside->gpu);
  }
  if (o->cluster != NULL) {
    beside->cluster = cluster_read(o->cluster, error);
    if (beside->cluster == NULL || !cluster_check_sound(beside->cluster, error))
      return FALSE;
    beside->rings = profile_rings_new(profile, beside->cluster);
  }
  return TRUE;
}

/* As `base:` names it; owned by the caller. */
static char *base_of(const char *given, const char *name) {
  return g_file_test(given, G_FILE_TEST_EXISTS) ? g_canonicalize_filename(given, NULL) : g_strdup(name);
}

static gboolean write_tables(const TraceOptions *o, const Profile *profile, const Beside *beside, GError **error) {
  const char *file = profile_rank(profile, 0)->file;
  if (beside->shapes != NULL && beside->shapes->shapes->len + beside->shapes->passes->len == 0)
    return fail_input(error,
                      "--output: found no kernel with its sizes in %s, expected some to write (record with "
                      "record_shapes=True)",
                      file);
  if (beside->rings != NULL && beside->rings->rings->len == 0)
    return fail_input(error,
                      "--output: found no collective with its group and bytes in %s, expected some to write (PyTorch "
                      "tells them since 2.3)",
                      file);
  g_autofree char *base =
      beside->shapes != NULL ? base_of(o->gpu, beside->gpu.name) : base_of(o->cluster, beside->cluster->name);
  g_autofree char *yaml = beside->shapes != NULL ? profile_shapes_yaml(beside->shapes, profile, &beside->gpu, base)
                                                 : profile_rings_yaml(beside->rings, profile, beside->cluster, base);
  return output_text(o->output, yaml, error);
}

static void append_report(const TraceOptions *o, const ProfileSums *sums, const Beside *beside, GString *out) {
  const gboolean colour = text_report_wants_colour(STDOUT_FILENO);
  profile_text(out, sums, o->kernels, colour);
  if (beside->shapes != NULL)
    profile_shapes_text(out, beside->shapes, &beside->gpu, o->kernels, colour);
  if (beside->rings != NULL)
    profile_rings_text(out, beside->rings, beside->cluster, o->kernels, colour);
}

static gboolean print_outputs(const TraceOptions *o, const Profile *profile, GError **error) {
  g_autofree char *chrome = o->trace != NULL ? profile_chrome(profile) : NULL;
  if (chrome != NULL && !output_text(o->trace, chrome, error))
    return FALSE;
  g_auto(Beside) beside = {.cluster = NULL};
  if (!read_beside(o, profile, &beside, error) || (o->output != NULL && !write_tables(o, profile, &beside, error)))
    return FALSE;
  g_autoptr(ProfileSums) sums = profile_sums_new(profile);
  if (o->timeline != NULL && !picture_take(profile_picture(sums, error), o->timeline, error))
    return FALSE;
  g_autofree char *json = o->json ? profile_json(sums, beside.shapes, beside.rings, o->kernels) : NULL;
  g_autoptr(GString) out = g_string_new(json);
  if (json == NULL && !o->no_report)
    append_report(o, sums, &beside, out);
  fputs(out->str, stdout);
  return TRUE;
}

static gboolean run(const TraceOptions *o, int argc, char **argv, GError **error) {
  if (argc < 2)
    return fail_input(error, "found no file, expected what a profiler wrote: stepsim trace FILE…");
  g_autoptr(Profile) profile = profile_new();
  for (int i = 1; i < argc; i++)
    if (!profile_read(profile, argv[i], error))
      return FALSE;
  return profile_complete(profile, error) && print_outputs(o, profile, error);
}

int command_trace(int argc, char **argv, GError **error) {
  TraceOptions options;
  const gboolean ok = parse_options(&options, &argc, &argv, error) && run(&options, argc, argv, error);
  g_free(options.trace);
  g_free(options.timeline);
  g_free(options.gpu);
  g_free(options.cluster);
  g_free(options.output);
  return ok ? 0 : 2;
}
