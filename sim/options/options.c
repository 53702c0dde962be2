/* From typed options to a Plan: each field is set by its row, then clashing ones are refused. */
#include "options.h"

#include <string.h>

#include "error.h"
#include "launcher.h"
#include "rank_map.h"
#include "topology_check.h"
#include "units.h"

const char options_model_help[] = "Hugging Face config.json, or a name in models/";
const char options_cluster_help[] = "cluster YAML, a name in topologies/, or words: \"8x h100, 400 Gb/s x 8\"";
const char options_plan_help[] =
    "take what is not typed from a plan of --save-plan, Megatron-LM's arguments, DeepSpeed's JSON or torchtitan's TOML";

/* A plan with the fields set up to one of them, in the order in which they are set. Whatever is set in that order from
 * the same texts is the same, so a plan is made from the last one's steps, as far as texts are the same. */
typedef struct {
  const PlanField *field;
  char *text;        /* owned */
  PlanTarget target; /* its plan: owned */
} PlanStep;

static void clear_step(gpointer data) {
  PlanStep *step = data;
  g_free(step->text);
  plan_free(step->target.plan);
}

void plan_options_init(PlanOptions *options) {
  *options = (PlanOptions){.texts = g_new0(char *, plan_n_fields()),
                           .origins = g_new0(char *, plan_n_fields()),
                           .steps = g_array_new(FALSE, FALSE, sizeof(PlanStep))};
  g_array_set_clear_func(options->steps, clear_step);
}

void plan_options_clear(PlanOptions *options) {
  for (int i = 0; options->texts != NULL && i < plan_n_fields(); i++)
    g_free(options->texts[i]);
  g_clear_pointer(&options->texts, g_free);
  for (int i = 0; options->origins != NULL && i < plan_n_fields(); i++)
    g_free(options->origins[i]);
  g_clear_pointer(&options->origins, g_free);
  g_clear_pointer(&options->plan_files, g_strfreev);
  g_clear_pointer(&options->file, plan_file_free);
  g_clear_pointer(&options->model_file, g_free);
  g_clear_pointer(&options->cluster_file, g_free);
  g_clear_pointer(&options->repeated, g_strfreev);
  g_clear_pointer(&options->model, model_free);
  g_clear_pointer(&options->cluster, cluster_free);
  g_clear_pointer(&options->plan, plan_free);
  g_clear_pointer(&options->steps, g_array_unref);
}

/* --- the options --- */

static void add_files(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"model", 0, 0, G_OPTION_ARG_FILENAME, &o->model_file, options_model_help, "FILE"},
      {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &o->cluster_file, options_cluster_help, "FILE"},
      {"plan", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->plan_files, options_plan_help, "FILE"},
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

/* --- the cluster --- */

/* A verb may read a cluster for each of many plans, on several threads. */
static gboolean is_said_first(const char *notice) {
  static GMutex mutex;
  static GHashTable *said;
  g_mutex_lock(&mutex);
  if (said == NULL)
    said = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  const gboolean is_first = g_hash_table_add(said, g_strdup(notice));
  g_mutex_unlock(&mutex);
  return is_first;
}

Cluster *options_read_cluster(const char *file, GError **error) {
  Cluster *cluster = cluster_read(file, error);
  const char *verb = g_get_prgname();
  const gboolean speaks = verb != NULL && g_str_has_prefix(verb, "stepsim ") &&
                          (launcher_n_processes() == 1 || g_str_equal(launcher_rank(), "0"));
  if (cluster == NULL || !speaks)
    return cluster;
  g_autofree char *of_words = cluster_notice_of_words(file);
  if (of_words != NULL && is_said_first(of_words))
    g_printerr("%s: notice: %s\n", verb, of_words);
  g_autoptr(GPtrArray) notices = topology_notices(cluster);
  for (guint i = 0; i < notices->len; i++)
    if (is_said_first(notices->pdata[i]))
      g_printerr("%s: warning: %s\n", verb, (const char *)notices->pdata[i]);
  return cluster;
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

static PlanStep *nth_step(const PlanOptions *o, guint i) {
  return &g_array_index(o->steps, PlanStep, i);
}

/* The plan of the first n steps. Owned by the caller. */
static Plan *plan_behind(const PlanOptions *o, guint n) {
  return n > 0 ? plan_copy(nth_step(o, n - 1)->target.plan) : plan_new();
}

/* Step i sets the field from the text. */
static gboolean set_field(PlanOptions *o, guint i, const PlanField *field, const char *text, GError **error) {
  if (i < o->steps->len && nth_step(o, i)->field == field && strcmp(nth_step(o, i)->text, text) == 0)
    return TRUE;
  g_array_set_size(o->steps, i);
  PlanStep step = {.field = field, .target = {.frameworks = o->frameworks}};
  if (i > 0)
    step.target = nth_step(o, i - 1)->target;
  step.target.plan = plan_behind(o, i);
  if (!plan_field_set(field, &step.target, text, error)) {
    plan_free(step.target.plan);
    return FALSE;
  }
  step.text = g_strdup(text);
  g_array_append_val(o->steps, step);
  return TRUE;
}

static gboolean set_fields(PlanOptions *o, GError **error) {
  const int n_fields = plan_n_fields();
  g_autofree int *typed = g_new(int, n_fields);
  int n_typed = 0;
  guint n = 0;
  for (int i = 0; i < n_fields; i++)
    if (o->texts[i] != NULL)
      typed[n_typed++] = i;
  for (int turn = 0; turn < N_PLAN_TURNS; turn++)
    for (int k = 0; k < n_typed; k++)
      if (plan_field(typed[k])->turn == turn && !set_field(o, n++, plan_field(typed[k]), o->texts[typed[k]], error)) {
        if (o->origins[typed[k]] != NULL)
          g_prefix_error(error, "%s: ", o->origins[typed[k]]);
        return FALSE;
      }
  for (char **text = o->repeated; text != NULL && *text != NULL; text++)
    if (!set_field(o, n++, plan_field(find("slow-rank")), *text, error))
      return FALSE;
  g_array_set_size(o->steps, n);
  o->plan = plan_behind(o, n);
  return TRUE;
}

/* --- a plan's file --- */

static const PlanFileNotice *nth_notice(const PlanFile *file, guint i) {
  return &g_array_index(file->notices, PlanFileNotice, i);
}

/* One line for all that are left of the first one's message. `told`, of all notices, is set. */
static char *joined_notices(const PlanFile *file, guint first, gboolean *told) {
  GString *line = g_string_new(NULL);
  g_autoptr(GString) options = g_string_new(NULL);
  for (guint i = first; i < file->notices->len; i++) {
    const PlanFileNotice *notice = nth_notice(file, i);
    if (told[i] || strcmp(notice->message, nth_notice(file, first)->message) != 0)
      continue;
    told[i] = TRUE;
    g_string_append_printf(line, i == first ? "%u: %s" : ", line %u: %s", notice->line, notice->what);
    g_autofree char *option = g_strdup_printf(" --%s", notice->option != NULL ? notice->option : "");
    if (notice->option != NULL && strstr(options->str, option) == NULL)
      g_string_append_printf(options, "%s%s", options->len > 0 ? "," : "", option);
  }
  g_string_append_printf(line, ": %s%s%s", nth_notice(file, first)->message, options->len > 0 ? ":" : "", options->str);
  return g_string_free(line, FALSE);
}

void plan_file_tell(const PlanFile *file, PlanFileTyped typed, gconstpointer options, const char *verb) {
  if (launcher_n_processes() > 1 && strcmp(launcher_rank(), "0") != 0)
    return;
  if (file->format != NULL && typed(options, "framework") == NULL)
    g_printerr("%s: notice: %s: read as %s, --framework %s\n", verb, file->path, file->format,
               plan_file_text(file, "framework"));
  g_autofree gboolean *told = g_new0(gboolean, file->notices->len);
  for (guint i = 0; i < file->notices->len; i++)
    told[i] = nth_notice(file, i)->option != NULL && typed(options, nth_notice(file, i)->option) != NULL;
  for (guint i = 0; i < file->notices->len; i++)
    if (!told[i]) {
      g_autofree char *line = joined_notices(file, i, told);
      g_printerr("%s: notice: %s:%s\n", verb, file->path, line);
    }
}

static const char *typed_text(gconstpointer options, const char *option) {
  return plan_options_typed(options, option);
}

/* What one entry says, unless it was typed. `is_typed`: of the field that may be repeated. */
static void take_entry(PlanOptions *o, const PlanFileEntry *entry, gboolean is_typed) {
  const int field = plan_field_find(entry->option);
  char **at = field >= 0 ? &o->texts[field] : strcmp(entry->option, "model") == 0 ? &o->model_file : &o->cluster_file;
  if (field >= 0 && (plan_field(field)->uses & PLAN_FIELD_REPEATED)) {
    const guint n = o->repeated != NULL ? g_strv_length(o->repeated) : 0;
    if (is_typed)
      return;
    o->repeated = g_renew(char *, o->repeated, n + 2);
    o->repeated[n] = g_strdup(entry->text);
    o->repeated[n + 1] = NULL;
  } else if (*at == NULL || (field >= 0 && o->origins[field] != NULL)) { /* the later of a file's counts */
    g_free(*at);
    *at = g_strdup(entry->text);
    if (field >= 0) {
      g_free(o->origins[field]);
      o->origins[field] = g_strdup_printf("%s:%u", o->file->path, entry->line);
    }
  }
}

gboolean plan_options_take_file(PlanOptions *options, const char *verb, GError **error) {
  if (options->plan_files == NULL)
    return TRUE;
  gint64 gpus = 0;
  const char *typed_gpus = plan_options_typed(options, "gpus");
  const gboolean is_repeated = options->repeated != NULL;
  if (typed_gpus != NULL && !units_parse_whole(typed_gpus, 1, PLAN_MOST_RANKS, &gpus, NULL))
    gpus = 0; /* told when the plan is made */
  options->file = plan_file_read(options->plan_files[g_strv_length(options->plan_files) - 1], gpus, error);
  if (options->file == NULL)
    return FALSE;
  if (verb != NULL)
    plan_file_tell(options->file, typed_text, options, verb);
  for (guint i = 0; i < options->file->entries->len; i++)
    take_entry(options, &g_array_index(options->file->entries, PlanFileEntry, i), is_repeated);
  return TRUE;
}

void plan_options_drop_taken(PlanOptions *options, const char *field) {
  const int i = find(field);
  if (options->origins[i] == NULL)
    return;
  g_clear_pointer(&options->origins[i], g_free);
  g_clear_pointer(&options->texts[i], g_free);
}

PlanFile *plan_options_file(const PlanOptions *options, const char *path) {
  PlanFile *file = plan_file_new(path);
  if (options->model_file != NULL)
    plan_file_add(file, "model", options->model_file, 0);
  if (options->cluster_file != NULL)
    plan_file_add(file, "cluster", options->cluster_file, 0);
  for (int i = 0; i < plan_n_fields(); i++)
    if (options->texts[i] != NULL)
      plan_file_add(file, plan_field(i)->name, options->texts[i], 0);
  for (char **text = options->repeated; text != NULL && *text != NULL; text++)
    plan_file_add(file, "slow-rank", *text, 0);
  return file;
}

/* Words as a command line of their own, into options that stand behind those typed before. */
static gboolean parse_text(PlanOptions *own, const char *text, PlanOptionSet set, GError **error) {
  g_autoptr(Parser) parser = parser_new(NULL, "A plan, as simulate takes it.", "");
  g_autoptr(GError) problem = NULL;
  g_autofree char *line = g_strconcat("plan ", text, NULL);
  int n_words;
  g_auto(GStrv) words = NULL;
  if (!g_shell_parse_argv(line, &n_words, &words, &problem))
    return fail_input(error, "\"%.200s\": %s", text, problem->message);
  g_autofree char **argv = g_memdup2(words, sizeof *words * (gsize)(n_words + 1)); /* parsing moves them */
  char **at = argv;
  plan_options_add(own, set, parser);
  return parser_run(parser, &n_words, &at, FALSE, error);
}

static void take_unless_given(char **at, const char *text) {
  if (*at == NULL)
    *at = g_strdup(text);
}

gboolean plan_options_read_text(PlanOptions *options, const char *text, PlanOptionSet set, const char *verb,
                                GError **error) {
  PlanOptions own;
  plan_options_init(&own);
  const char *start = text + strspn(text, " \t\n");
  const gboolean is_file = g_file_test(text, G_FILE_TEST_EXISTS) || strpbrk(text, " \t\n") == NULL;
  if (*start != '-' && *start != '\0' && is_file)
    own.plan_files = g_strdupv((char *[]){(char *)text, NULL});
  if (own.plan_files == NULL && !parse_text(&own, text, set, error)) {
    plan_options_clear(&own);
    return FALSE;
  }
  take_unless_given(&own.model_file, options->model_file);
  take_unless_given(&own.cluster_file, options->cluster_file);
  for (int i = 0; i < plan_n_fields(); i++)
    take_unless_given(&own.texts[i], options->texts[i]);
  if (own.repeated == NULL)
    own.repeated = g_strdupv(options->repeated);
  if (own.plan_files == NULL)
    own.plan_files = g_strdupv(options->plan_files);
  own.cluster = g_steal_pointer(&options->cluster);
  plan_options_clear(options);
  *options = own;
  return plan_options_take_file(options, verb, error);
}

/* Whether a switch was typed to be `on` or off: what other programs' files have is not meant for a framework here. */
static gboolean is_typed(const PlanOptions *o, const char *field, const char *switched) {
  const char *text = plan_options_typed(o, field);
  if (text != NULL && o->origins[find(field)] != NULL && o->file != NULL && o->file->format != NULL)
    return FALSE;
  return text != NULL && g_ascii_strcasecmp(text, switched) == 0;
}

static gboolean is_asked_for(const PlanOptions *o, const char *field) {
  return is_typed(o, field, "on");
}

static gboolean check_overlap(const PlanOptions *o, const Plan *plan, GError **error) {
  if (plan_overlaps_shards(plan)) {
    const char *without = is_typed(o, "overlap-grad", "off")    ? "--overlap-grad off"
                          : is_typed(o, "overlap-param", "off") ? "--overlap-param off"
                                                                : NULL;
    return without == NULL ||
           fail_impossible(error, "%s and --framework %s clash: its ZeRO-3 always overlaps", without, plan->framework);
  }
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
  if ((plan->jitter == 0 && o->repeated == NULL) || !is_asked_for(o, "fold"))
    return TRUE;
  return fail_input(error, "--fold on and %s clash: ranks that differ cannot be stood for by one of them",
                    o->repeated != NULL ? "--slow-rank" : "--jitter");
}

gboolean plan_options_make_plan(PlanOptions *options, GError **error) {
  g_clear_pointer(&options->plan, plan_free);
  return set_fields(options, error) && check_overlap(options, options->plan, error) &&
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
  if (!options->plan->fold || cluster->other_gpus == NULL || plan_options_typed(options, "fold") == NULL)
    return TRUE;
  return fail_input(error, "--fold on and other_gpus of %s clash: ranks that differ cannot be stood for by one of them",
                    cluster->name);
}

gboolean plan_options_read(PlanOptions *options, GError **error) {
  if (!plan_options_make_plan(options, error))
    return FALSE;
  if (options->model == NULL && options->model_file != NULL &&
      (options->model = model_read(options->model_file, error)) == NULL)
    return FALSE;
  if (options->model != NULL && !plan_options_check_model(options->plan, options->model, error))
    return FALSE;
  if (options->model != NULL && options->file != NULL && !plan_file_check_model(options->file, options->model, error))
    return FALSE;
  if (options->cluster == NULL && options->cluster_file != NULL &&
      (options->cluster = options_read_cluster(options->cluster_file, error)) == NULL)
    return FALSE;
  return options->cluster == NULL ||
         (plan_options_check_cluster(options, options->cluster, error) && read_rank_map(options, error));
}

gboolean plan_options_finish(PlanOptions *options, GError **error) {
  if (options->model_file == NULL)
    return fail_input(error, "--model is missing: a Hugging Face config.json, or a name in models/ such as llama-3-8b");
  if (options->cluster_file == NULL)
    return fail_input(error, "--cluster is missing: a cluster YAML, or a name in topologies/ such as dgx-h100");
  return plan_options_read(options, error);
}
