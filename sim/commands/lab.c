#include "lab.h"
#include "command.h"
#include "error.h"

typedef struct {
  PlanOptions plan;
  gint port;
  gboolean no_browser;
} LabVerb;

static gboolean parse_options(LabVerb *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser =
      parser_new(NULL,
                 "Serves a page on this machine: change a plan and see the step, its timeline, memory and links.\n"
                 "Options are where the page starts (default: a published run of Llama 3 405B on 16,384 GPUs).",
                 "Example:\n  stepsim lab --model llama-3-70b --cluster dgx-h100 --gpus 64 --tp 8\n\n"
                 "Exit status: 0 ended by Ctrl-C or SIGTERM, 2 bad usage or input.");
  const GOptionEntry entries[] = {
      {"port", 0, 0, G_OPTION_ARG_INT, &o->port, "port on 127.0.0.1; 0: any free one (default 8713)", "N"},
      {"no-browser", 0, 0, G_OPTION_ARG_NONE, &o->no_browser, "only print the address", NULL},
      G_OPTION_ENTRY_NULL};
  o->port = 8713;
  plan_options_init(&o->plan);
  parser_add(parser, entries);
  plan_options_add(&o->plan, PLAN_OPTIONS_SIMULATED | PLAN_OPTIONS_PLACED, parser);
  if (!parser_run(parser, argc, argv, FALSE, error))
    return FALSE;
  if (o->port < 0 || o->port > 65535)
    return fail_input(error, "--port: found %d, expected 0 to 65535", o->port);
  return plan_options_take_file(&o->plan, "stepsim lab", error) && plan_options_read(&o->plan, error);
}

int command_lab(int argc, char **argv, GError **error) {
  LabVerb o = {0};
  if (parse_options(&o, &argc, &argv, error))
    lab_serve(&(LabOptions){o.port, !o.no_browser, &o.plan}, error);
  plan_options_clear(&o.plan);
  return *error == NULL ? 0 : 2;
}
