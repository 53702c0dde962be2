/* From typed options to a Plan: each field is set by its row, then clashing ones are refused. */
#include "options.h"

#include <string.h>

#include "error.h"
#include "rank_map.h"

const char options_model_help[] = "Hugging Face config.json, or a name in models/";
const char options_cluster_help[] = "cluster YAML, or a name in topologies/";

void plan_options_init(PlanOptions *options) {
  *options = (PlanOptions){.texts = g_new0(char *, plan_n_fields())};
}

void plan_options_clear(PlanOptions *options) {
  for (int i = 0; options->texts != NULL && i < plan_n_fields(); i++)
    g_free(options->texts[i]);
  g_clear_pointer(&options->texts, g_free);
  g_clear_pointer(&options->model_file, g_free);
  g_clear_pointer(&options->cluster_file, g_free);
  g_clear_pointer(&options->repeated, g_strfreev);
  g_clear_pointer(&options->model, model_free);
  g_clear_pointer(&options->cluster, cluster_free);
  g_clear_pointer(&options->plan, plan_free);
}

/* --- the options --- */

static void add_files(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"model", 0, 0, G_OPTION_ARG_FILENAME, &o->model_file, options_model_help, "FILE"},
      {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &o->cluster_file, options_cluster_help, "FILE"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_json(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {{"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
                                  G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

/* A verb's default instead of the field's. */
static const char *help_of(const PlanField *field, const char *by_default) {
  const char *help = plan_field_help(field), *end = strstr(help, " (default");
  if (by_default == NULL || end == NULL)
    return help;
  g_autofree char *own = g_strdup_printf("%.*s (default %s)", (int)(end - help), help, by_default);
  return g_intern_string(own);
}

static void add_field(Parser *parser, PlanOptions *o, int i) {
  const PlanField *field = plan_field(i);
  const gboolean repeats = (field->uses & PLAN_FIELD_REPEATED) != 0;
  const GOptionEntry entry[] = {{field->name, 0, 0,
                                 repeats                         ? G_OPTION_ARG_STRING_ARRAY
                                 : field->uses & PLAN_FIELD_FILE ? G_OPTION_ARG_FILENAME
                                                                 : G_OPTION_ARG_STRING,
                                 repeats ? (gpointer)&o->repeated : &o->texts[i], help_of(field, o->texts[i]),
                                 field->value},
                                G_OPTION_ENTRY_NULL};
  parser_add(parser, entry);
}

void plan_options_add(PlanOptions *options, PlanOptionSet set, Parser *parser) {
  const guint left_out =
      (set & PLAN_OPTIONS_SIMULATED ? 0 : PLAN_FIELD_SIMULATED) | (set & PLAN_OPTIONS_PLACED ? 0 : PLAN_FIELD_PLACED);
  add_files(parser, options);
  if (set & PLAN_OPTIONS_JSON)
    add_json(parser, options);
  for (int i = 0; i < plan_n_fields(); i++)
    if (!(plan_field(i)->uses & left_out))
      add_field(parser, options, i);
}

/* --- from them to a plan --- */

static int find(const char *field) {
  const int found = plan_field_find(field);
  g_assert(found >= 0);
  return found;
}

const char *plan_options_typed(const PlanOptions *options, const char *field) {
  return options->texts[find(field)];
}

void plan_options_set_default(PlanOptions *options, const char *field, const char *text) {
  char **at = &options->texts[find(field)];
  g_free(*at);
  *at = g_strdup(text);
}

static gboolean set_fields(const PlanOptions *o, PlanTarget *target, GError **error) {
  for (int turn = 0; turn < N_PLAN_TURNS; turn++)
    for (int i = 0; i < plan_n_fields(); i++)
      if (o->texts[i] != NULL && plan_field(i)->turn == turn &&
          !plan_field_set(plan_field(i), target, o->texts[i], error))
        return FALSE;
  const PlanField *repeated = plan_field(find("slow-rank"));
  for (char **text = o->repeated; text != NULL && *text != NULL; text++)
    if (!plan_field_set(repeated, target, *text, error))
      return FALSE;
  return TRUE;
}

/* Whether a switch was typed to be on. */
static gboolean is_asked_for(const PlanOptions *o, const char *field) {
  const char *text = plan_options_typed(o, field);
  return text != NULL && g_ascii_strcasecmp(text, "on") == 0;
}

static gboolean check_overlap(const PlanOptions *o, const Plan *plan, GError **error) {
  if (plan->time.data_parallel != DP_ALONE)
    return TRUE;
  const char *asked = is_asked_for(o, "overlap-grad")    ? "--overlap-grad on"
                      : is_asked_for(o, "overlap-param") ? "--overlap-param on"
                                                         : NULL;
  return asked == NULL ||
         fail_impossible(error, "%s and --framework %s clash: it runs collectives of dp beside nothing", asked,
                         plan->framework);
}

/* Folding is dropped silently only if nobody asked for it. */
static gboolean check_fold(const PlanOptions *o, const Plan *plan, GError **error) {
  if (!is_asked_for(o, "fold") || (plan->jitter == 0 && o->repeated == NULL))
    return TRUE;
  return fail_input(error, "--fold on and %s clash: ranks that differ cannot be stood for by one of them",
                    o->repeated != NULL ? "--slow-rank" : "--jitter");
}

gboolean plan_options_make_plan(PlanOptions *options, GError **error) {
  plan_free(options->plan);
  options->plan = plan_new();
  PlanTarget target = {.plan = options->plan, .frameworks = options->frameworks};
  return set_fields(options, &target, error) && check_overlap(options, options->plan, error) &&
         check_fold(options, options->plan, error);
}

static gboolean read_rank_map(PlanOptions *o, GError **error) {
  const char *file = plan_options_typed(o, "rank-map");
  if (file == NULL)
    return TRUE;
  o->plan->rank_map = rank_map_read(file, o->cluster, error);
  if (o->plan->rank_map == NULL)
    return FALSE;
  if (o->plan->gpus == 0 && o->plan->dp == 0)
    o->plan->gpus = (int)o->plan->rank_map->len;
  return TRUE;
}

gboolean plan_options_check_cluster(const PlanOptions *options, const Cluster *cluster, GError **error) {
  const char *fold = plan_options_typed(options, "fold");
  if (fold == NULL || !options->plan->fold || cluster->other_gpus == NULL)
    return TRUE;
  return fail_input(error, "--fold on and other_gpus of %s clash: ranks that differ cannot be stood for by one of them",
                    cluster->name);
}

gboolean plan_options_finish(PlanOptions *options, GError **error) {
  if (options->model_file == NULL)
    return fail_input(error, "--model is missing: a Hugging Face config.json, or a name in models/ such as llama-3-8b");
  if (options->cluster_file == NULL)
    return fail_input(error, "--cluster is missing: a cluster YAML, or a name in topologies/ such as dgx-h100");
  if (!plan_options_make_plan(options, error))
    return FALSE;
  options->model = model_read(options->model_file, error);
  if (options->model == NULL || !plan_options_check_model(options->plan, options->model, error))
    return FALSE;
  options->cluster = cluster_read(options->cluster_file, error);
  return options->cluster != NULL && plan_options_check_cluster(options, options->cluster, error) &&
         read_rank_map(options, error);
}
