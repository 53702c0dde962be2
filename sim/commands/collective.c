/* stepsim collective: time of one collective on a cluster, size by size, as nccl-tests prints it; the same as a
 * picture; the steps of one collective; latency and bandwidth fitted to nccl-tests' logs. */
#include "collective_text.h"

#include <stdio.h>
#include <string.h>

#include "collective_request.h"
#include "command.h"
#include "curves.h"
#include "error.h"
#include "output.h"
#include "parser.h"
#include "picture.h"
#include "suggest.h"
#include "text_report.h"
#include "units.h"

enum { DEFAULT_STEPS_GPUS = 4 };

static const char *const link_names[N_LINKS] = {
    [LINK_NVLINK] = "NVLink",
    [LINK_PCIE] = "PCIe",
    [LINK_NET] = "the network",
};

static void clear_options(CollectiveOptions *o) {
  char **strings[] = {&o->cluster,   &o->op,   &o->ranks,    &o->rank_map, &o->bytes,
                      &o->algorithm, &o->plot, &o->steps_of, &o->output};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
  g_clear_pointer(&o->logs, g_strfreev);
}

static Parser *new_parser(void) {
  return parser_new(
      NULL, "Time, algbw and busbw of a collective on a cluster, as nccl-tests prints them (GB = 1e9 bytes).",
      "Examples:\n  stepsim collective --cluster dgx-h100 --op all_reduce --gpus 64 --bytes 1MiB..1GiB --plot ar.svg\n"
      "  stepsim collective --steps-of ring --gpus 4\n"
      "  stepsim collective --fit all_reduce.log --output fitted.yaml\n\n"
      "A size is that of the full buffer: for all_gather and reduce_scatter, the larger side. The other GPUs of these "
      "nodes\n"
      "run the same collective at the same time, in groups like this one.\n"
      "--fit prints lines to append to a cluster's YAML; its collectives then take the fitted times.\n\n"
      "Exit status: 0 done, 1 the collective is impossible there, 2 bad usage or input.");
}

static gboolean parse_options(CollectiveOptions *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser = new_parser();
  const GOptionEntry entries[] = {
      {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &o->cluster, "cluster YAML, or a name in topologies/", "FILE"},
      {"op", 0, 0, G_OPTION_ARG_STRING, &o->op,
       "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, send_recv or "
       "parameter_server (default all_reduce; with --fit, what the log says)",
       "NAME"},
      {"gpus", 0, 0, G_OPTION_ARG_INT, &o->gpus, "ranks 0 to N-1 take part (default: those of one node)", "N"},
      {"ranks", 0, 0, G_OPTION_ARG_STRING, &o->ranks,
       "ranks that take part (out of --gpus, if given), e.g. 0,8,16 or 0..7,16", "LIST"},
      {"root", 0, 0, G_OPTION_ARG_INT, &o->root, "root of broadcast, reduce, gather and scatter (default: the first)",
       "RANK"},
      {"rank-map", 0, 0, G_OPTION_ARG_FILENAME, &o->rank_map,
       "which GPU each rank runs on: a list of GPUs, a table rank,node,gpu or a host list (default: rank r on GPU r)",
       "FILE"},
      {"bytes", 0, 0, G_OPTION_ARG_STRING, &o->bytes,
       "sizes: a list 1MiB,4MB, or a range: 1KiB..4GiB doubles, 1KiB..4GiB*8 multiplies by eight (default 1KiB..4GiB)",
       "SIZES"},
      {"algorithm", 0, 0, G_OPTION_ARG_STRING, &o->algorithm,
       "auto, ring, tree, nvls, nvls_tree, pat, hierarchical, naive, pairwise or direct, as operation, machine and "
       "group "
       "allow; auto chooses as NCCL's own tuning model does, which ignores the time to fill a ring (default auto)",
       "NAME"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object, or an array of them for several sizes", NULL},
      {"plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->plot, "draw busbw against size, a line for each algorithm",
       "FILE.svg|png|pdf"},
      {"steps-of", 0, 0, G_OPTION_ARG_STRING, &o->steps_of,
       "ring, tree or naive: print instead who sends which chunk to whom in each step (default 4 GPUs)", "NAME"},
      {"fit", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->logs,
       "fit latency and bandwidth to an nccl-tests log instead, text or JSON (-J); repeatable", "LOG"},
      {"curves", 0, 0, G_OPTION_ARG_NONE, &o->curves,
       "with --fit: write the measured times as curves (`measured`), not latency and bandwidth (`fitted`)", NULL},
      {"output", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->output,
       "with --fit: file for the cluster YAML lines (default -)", "FILE.yaml"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  return parser_run(parser, argc, argv, FALSE, error);
}

static void print_head(const Request *request, GString *out) {
  const GroupShape *shape = &request->shape;
  CollectiveCost cost = collective_cost(request->cluster, request->op, shape, 0, request->algorithm);
  g_autofree char *bus = units_format(cost.bus_Bps, UNIT_BYTES_PER_SECOND);
  g_string_append_printf(out, "# %s on %s: %d GPUs on %d node%s (at most %d on one), %d scale-up domain%s\n",
                         collective_name(request->op), request->cluster->name, shape->n, shape->n_nodes,
                         shape->n_nodes == 1 ? "" : "s", shape->max_per_node, shape->n_domains,
                         shape->n_domains == 1 ? "" : "s");
  g_string_append_printf(out, "# bus %s, the slowest link is %s; library %s\n", bus, link_names[cost.link],
                         request->cluster->collectives.version);
  if (request->cluster->wiring != NULL) {
    g_string_append(out, "# ");
    text_report_wiring(out, request->cluster);
  }
  if (request->cluster->health != NULL) {
    g_string_append(out, "# ");
    text_report_health(out, request->cluster);
  }
  if (request->op == COLLECTIVE_PARAMETER_SERVER)
    g_string_append_printf(out, "# the server takes in %d x size, answers with as much, and its link carries both\n",
                           shape->n);
  else
    g_string_append(out, "# sent: bytes each GPU sends; the root's, where there is one\n");
}

static char *way_text(const CollectiveWay *way) {
  g_autofree char *time = units_format(way->time_s, UNIT_SECONDS);
  return g_strdup_printf("%s %s, %s", algorithm_names()[way->algorithm], protocol_names()[way->protocol], time);
}

/* Where the library's tuner does not choose the fastest; NULL: it does, or the time is not the model's. */
static char *note_of(const Request *request, const CollectiveCost *cost) {
  const CollectiveChoice *choice = &cost->choice;
  if (choice->estimated.time_s <= choice->fastest.time_s)
    return NULL;
  g_autofree char *tuner = way_text(&choice->estimated), *fastest = way_text(&choice->fastest);
  const gboolean is_taken = cost->time_s == choice->estimated.time_s;
  return g_strdup_printf("the tuning model of the library (sources in %s) chooses %s, though %s would be faster%s",
                         request->cluster->collectives.file, tuner, fastest,
                         is_taken ? "" : "; with links half as fast or less it chooses better, which is taken here");
}

static CollectiveReport report_of_size(const Request *request, double bytes) {
  CollectiveCost cost = collective_cost(request->cluster, request->op, &request->shape, bytes, request->algorithm);
  return (CollectiveReport){.op = collective_name(request->op),
                            .n_gpus = request->shape.n,
                            .bytes = (gint64)bytes,
                            .time_s = cost.time_s,
                            .algbw_Bps = cost.algbw_Bps,
                            .busbw_Bps = cost.busbw_Bps,
                            .algorithm = algorithm_names()[cost.algorithm],
                            .protocol = protocol_names()[cost.protocol],
                            .sent_bytes = collective_sent_bytes(request->op, request->shape.n, bytes),
                            .n_sms = cost.sms,
                            .root = collective_has_root(request->op) ? request->root : -1,
                            .note = note_of(request, &cost)};
}

static void print_reports(const Request *request, gboolean as_json) {
  int n = (int)request->sizes->len;
  g_autofree CollectiveReport *reports = g_new(CollectiveReport, n);
  for (int i = 0; i < n; i++)
    reports[i] = report_of_size(request, g_array_index(request->sizes, double, i));
  g_autoptr(GString) out = g_string_new(NULL);
  if (as_json) {
    g_autofree char *json = json_report_collectives(reports, n);
    g_string_append(out, json);
  } else {
    print_head(request, out);
    text_collectives(reports, n, out);
  }
  for (int i = 0; i < n; i++)
    g_free(reports[i].note);
  fputs(out->str, stdout);
}

/* The chosen algorithm, and all those it was chosen from or that could be requested. */
Picture *collective_picture(const Request *request, const char *title, GError **error) {
  g_autoptr(GArray) points =
      curves_busbw(request->cluster, request->op, &request->shape, request->algorithm, request->sizes);
  g_autofree char *own =
      g_strdup_printf("%s over %d GPUs of %s", collective_name(request->op), request->shape.n, request->cluster->name);
  return plot_busbw((const BusbwPoint *)(void *)points->data, (int)points->len,
                    curves_busbw_limit(request->cluster, request->op, &request->shape), title != NULL ? title : own,
                    error);
}

static gboolean print_costs(const CollectiveOptions *o, GError **error) {
  Request request = {0};
  gboolean done = (o->plot == NULL || picture_check_file(o->plot, error)) &&
                  collective_request_read(o, &request, error) &&
                  (o->plot == NULL || picture_take(collective_picture(&request, NULL, error), o->plot, error));
  if (done)
    print_reports(&request, o->json);
  collective_request_clear(&request);
  return done;
}

static gboolean print_steps(const CollectiveOptions *o, GError **error) {
  static const char *const names[] = {"ring", "tree", "naive", NULL};
  Collective op;
  int which = parse_choice("--steps-of", o->steps_of, names, error);
  if (which < 0 || !collective_op_parse(o->op != NULL ? o->op : collective_name(COLLECTIVE_ALL_REDUCE), &op, error))
    return FALSE;
  int n = o->gpus != NOT_GIVEN ? o->gpus : DEFAULT_STEPS_GPUS;
  if (n < 2 || n > MAX_STEPS_GPUS)
    return fail_input(error, "--gpus: found %d, expected 2 to %d with --steps-of", n, MAX_STEPS_GPUS);
  if (which > 0 ? op != COLLECTIVE_ALL_REDUCE : op > COLLECTIVE_REDUCE_SCATTER)
    return fail_input(error, "--steps-of %s: found --op %s, expected %s", names[which], collective_name(op),
                      which > 0 ? "all_reduce" : "all_reduce, all_gather or reduce_scatter");
  CollectiveSteps steps = which == 0   ? collective_steps_ring(op, n)
                          : which == 1 ? collective_steps_tree(n)
                                       : collective_steps_naive(n);
  g_autoptr(GString) out = g_string_new(NULL);
  g_string_append_printf(out,
                         "# %s %s over %d GPUs: the buffer is cut into %d chunk%s, %d steps; a send adds (reduce) or "
                         "replaces\n# right: what each GPU then has of each chunk: . nothing, 1 to %d summed, * all\n",
                         names[which], collective_name(op), n, steps.n_chunks, steps.n_chunks == 1 ? "" : "s",
                         steps.n_steps, n - 1);
  text_collective_steps(&steps, out);
  fputs(out->str, stdout);
  collective_steps_clear(&steps);
  return TRUE;
}

/* Modes that replace the table use few of the options; the others are refused. */
static gboolean check_clashes(const CollectiveOptions *o, GError **error) {
  const char *mode = o->logs != NULL ? "--fit" : o->steps_of != NULL ? "--steps-of" : NULL;
  const struct {
    const char *option;
    gboolean given;
  } unheeded[] = {{"--steps-of", o->logs != NULL && o->steps_of != NULL},
                  {"--cluster", o->cluster != NULL},
                  {"--ranks", o->ranks != NULL},
                  {"--root", o->root != NOT_GIVEN},
                  {"--rank-map", o->rank_map != NULL},
                  {"--bytes", o->bytes != NULL},
                  {"--algorithm", o->algorithm != NULL},
                  {"--plot", o->plot != NULL},
                  {"--json", o->json}};
  if (o->logs == NULL && (o->output != NULL || o->curves))
    return fail_input(error, "%s goes with --fit", o->curves ? "--curves" : "--output");
  for (gsize i = 0; mode != NULL && i < G_N_ELEMENTS(unheeded); i++)
    if (unheeded[i].given)
      return fail_input(error, "%s and %s clash: one takes the other's place", mode, unheeded[i].option);
  return TRUE;
}

int command_collective(int argc, char **argv, GError **error) {
  CollectiveOptions options = {.gpus = NOT_GIVEN, .root = NOT_GIVEN};
  gboolean done = parse_options(&options, &argc, &argv, error) && check_clashes(&options, error);
  if (done)
    done = options.logs != NULL       ? collective_fit(&options, error)
           : options.steps_of != NULL ? print_steps(&options, error)
                                      : print_costs(&options, error);
  clear_options(&options);
  return done ? 0 : 2;
}
