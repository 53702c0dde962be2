#include "sweep_request.h"

#include "error.h"
#include "units.h"

enum { MOST_JOBS = 1024, DEFAULT_LIMIT = 1000000 };

void sweep_request_init(SweepRequest *request) {
  *request = (SweepRequest){.space = space_new(),
                            .jobs = OPTION_NOT_GIVEN,
                            .limit = OPTION_NOT_GIVEN,
                            .sample = OPTION_NOT_GIVEN,
                            .sample_seed = OPTION_NOT_GIVEN};
}

void sweep_request_clear(SweepRequest *request) {
  char **strings[] = {&request->space_file, &request->price, &request->prune, &request->margin_text};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
  g_clear_pointer(&request->space, space_free);
}

void sweep_request_add(SweepRequest *request, Parser *parser) {
  const GOptionEntry entries[] = {
      {"space", 0, 0, G_OPTION_ARG_FILENAME, &request->space_file, "read the space from a file; options override it",
       "FILE.yaml"},
      {"price", 0, 0, G_OPTION_ARG_STRING, &request->price, "price of a GPU-hour (default: the cluster file's)",
       "\"2.50 $/h\""},
      {"limit", 0, 0, G_OPTION_ARG_INT64, &request->limit, "refuse a larger space (default 1000000)", "N"},
      {"sample", 0, 0, G_OPTION_ARG_INT64, &request->sample, "try N configurations of the space, drawn at random", "N"},
      {"sample-seed", 0, 0, G_OPTION_ARG_INT64, &request->sample_seed, "seed of the sample (default 1)", "N"},
      {"prune", 0, 0, G_OPTION_ARG_STRING, &request->prune, "skip what provably does not fit in memory (default on)",
       "on|off"},
      {"memory-margin", 0, 0, G_OPTION_ARG_STRING, &request->margin_text,
       "leave this much of each GPU's memory free (default 0; context and libraries are counted already)",
       "5%|\"4 GB\""},
      {"jobs", 0, 0, G_OPTION_ARG_INT, &request->jobs, "threads per MPI rank (default: one per processor)", "N"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  space_add_options(request->space, parser);
}

static gboolean check_range(const char *option, gint64 value, gint64 least, gint64 most, GError **error) {
  return value == OPTION_NOT_GIVEN || (value >= least && value <= most) ||
         fail_input(error, "%s: found %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, option,
                    value, least, most);
}

static gboolean parse_values(SweepRequest *request, GError **error) {
  request->dollars_per_hour = -1;
  if (request->price != NULL &&
      !units_parse(request->price, UNIT_DOLLARS_PER_HOUR, &request->dollars_per_hour, error)) {
    g_prefix_error(error, "--price: ");
    return FALSE;
  }
  if (request->margin_text != NULL && !memory_margin_parse(request->margin_text, &request->margin, error)) {
    g_prefix_error(error, "--memory-margin: ");
    return FALSE;
  }
  request->prunes = TRUE;
  return parse_switch("--prune", request->prune, &request->prunes, error);
}

gboolean sweep_request_check(SweepRequest *request, gboolean resumes, GError **error) {
  if (request->sample_seed != OPTION_NOT_GIVEN && request->sample == OPTION_NOT_GIVEN && !resumes)
    return fail_input(error, "--sample-seed needs --sample");
  return check_range("--jobs", request->jobs, 1, MOST_JOBS, error) &&
         check_range("--limit", request->limit, 1, G_MAXINT64 - 1, error) &&
         check_range("--sample", request->sample, 1, G_MAXINT64 - 1, error) &&
         check_range("--sample-seed", request->sample_seed, 0, G_MAXINT64, error) && parse_values(request, error);
}

static gboolean check_size(const SweepRequest *request, const SweepSetup *setup, GError **error) {
  const gint64 n = sweep_setup_count(setup);
  const gint64 limit = request->limit != OPTION_NOT_GIVEN ? request->limit : DEFAULT_LIMIT;
  const gint64 n_all = space_count(setup->space);
  if (setup->n_sample > n_all)
    return fail_input(error, "--sample %" G_GINT64_FORMAT " of a space of %" G_GINT64_FORMAT " configurations",
                      setup->n_sample, n_all);
  if (n_all == G_MAXINT64)
    return fail_input(error, "the space has more than 9.2e18 configurations, more than can be counted or drawn from: "
                             "shorten the lists");
  if (n <= limit)
    return TRUE;
  return fail_input(error,
                    "%.4g configurations are more than %" G_GINT64_FORMAT
                    ": shorten the lists, draw some with --sample N, or allow them with --limit N",
                    (double)n, limit);
}

gboolean sweep_request_setup(SweepRequest *request, SweepSetup *setup, GError **error) {
  if ((request->space_file != NULL && !space_read(request->space, request->space_file, error)) ||
      !space_take_plan(request->space, request->verb, error))
    return FALSE;
  space_set_memory_margin(request->space, &request->margin);
  if (!space_finish(request->space, error))
    return FALSE;
  *setup = (SweepSetup){.space = g_steal_pointer(&request->space),
                        .n_sample = request->sample != OPTION_NOT_GIVEN ? request->sample : 0,
                        .seed = request->sample_seed != OPTION_NOT_GIVEN ? request->sample_seed : 1,
                        .price = request->dollars_per_hour,
                        .margin = request->margin,
                        .prune = request->prunes};
  return check_size(request, setup, error);
}
