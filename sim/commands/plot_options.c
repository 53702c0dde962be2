/* Each variant is read as if it had been typed: with "--tp 4 --pp 2" behind the command line, of which the last counts,
 * so that every option can be varied and is checked as usual. */
#include "plot_options.h"

#include <string.h>

#include "cluster_words.h"
#include "error.h"

enum { MOST_VARIANTS = 4096 };

static const struct {
  const char *name;
  Heed heed;
  gsize offset;
  const char *help, *value;
} figure_options[] = {
    {"schedules", HEED_SCHEDULES, offsetof(PlotOptions, schedules),
     "bubble: schedules (default 1f1b, and interleaved with --chunks above 1)", "NAME,…"},
    {"micro-batches", HEED_SCHEDULES, offsetof(PlotOptions, micro_batches), "bubble: counts (default pp..16·pp*2)",
     "LIST"},
    {"gpu-list", HEED_GPU_LIST, offsetof(PlotOptions, gpu_list),
     "mfu, and memory with --params: numbers of GPUs, e.g. 1024..16384*2", "LIST"},
    {"params", HEED_PARAMS, offsetof(PlotOptions, params),
     "memory: number of parameters, e.g. 7e9 or 70B, instead of --model and --cluster: the state alone", "N"},
    {"capacity", HEED_PARAMS, offsetof(PlotOptions, capacity), "memory with --params: of a GPU, e.g. 80GB, a line",
     "BYTES"},
    {"value", HEED_VALUE, offsetof(PlotOptions, value), "heat: mfu, tokens_per_s or step_time_s (default mfu)", "NAME"},
    {"op", HEED_COLLECTIVE, offsetof(PlotOptions, op), "busbw: the collective (default all_reduce)", "NAME"},
    {"ranks", HEED_COLLECTIVE, offsetof(PlotOptions, ranks),
     "busbw: ranks that take part, e.g. 0,8,16 (default: --gpus)", "LIST"},
    {"bytes", HEED_COLLECTIVE, offsetof(PlotOptions, bytes), "busbw: sizes (default 1KiB..4GiB)", "SIZES"},
    {"algorithm", HEED_COLLECTIVE, offsetof(PlotOptions, algorithm), "busbw: a single algorithm (default: all)",
     "NAME"},
    {"x", HEED_AXES, offsetof(PlotOptions, x), "pareto: column to minimize (default: memory)", "COLUMN"},
    {"y", HEED_AXES, offsetof(PlotOptions, y), "pareto: column to maximize (default tokens_per_s)", "COLUMN"},
    {"by", HEED_BY, offsetof(PlotOptions, by), "validation: column that groups rows (default source)", "COLUMN"},
};

static char **string_at(const PlotOptions *o, gsize offset) {
  return (char **)((char *)o + offset);
}

static void add_own_options(PlotOptions *o, Parser *parser) {
  const GOptionEntry shared[] = {
      {"output", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->output, "write the picture", "FILE.svg|png|pdf"},
      {"terminal", 0, 0, G_OPTION_ARG_NONE, &o->terminal, "draw it in the terminal, as text", NULL},
      {"data", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->data,
       "write the numbers and the gnuplot commands (- is standard output); that of a plan is --vary data=LIST", "FILE"},
      {"title", 0, 0, G_OPTION_ARG_STRING, &o->title, "title above the picture (default: says what is drawn)", "TEXT"},
      {"vary", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->vary,
       "mfu, breakdown, memory, heat, pareto: an option of the plan and its values, e.g. pp=1,2,4 or tp=1..8*2 or "
       "schedule=1f1b,zb-h1; repeatable: all combinations",
       "NAME=LIST"},
      {"jobs", 0, 0, G_OPTION_ARG_INT, &o->jobs, "threads (default: one per processor)", "N"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, shared);
  for (gsize i = 0; i < G_N_ELEMENTS(figure_options); i++) {
    const GOptionEntry entry[] = {{figure_options[i].name, 0, 0, G_OPTION_ARG_STRING,
                                   string_at(o, figure_options[i].offset), figure_options[i].help,
                                   figure_options[i].value},
                                  G_OPTION_ENTRY_NULL};
    parser_add(parser, entry);
  }
}

/* With numbers of GPUs of its own a figure heeds none that a plan was saved with. */
static void drop_sizes(const PlotOptions *o, PlanOptions *plan) {
  if (o->gpu_list == NULL)
    return;
  plan_options_drop_taken(plan, "gpus");
  plan_options_drop_taken(plan, "dp");
}

/* A single file is as if it had been typed; of several each is a plan of its own, beside what --vary varies. */
static gboolean take_plans(PlotOptions *o, GError **error) {
  const guint n = o->plan.plan_files != NULL ? g_strv_length(o->plan.plan_files) : 0;
  if (n < 2) {
    const gboolean is_taken = plan_options_take_file(&o->plan, "stepsim plot", error);
    drop_sizes(o, &o->plan);
    return is_taken;
  }
  g_autofree char *files = g_strjoinv(",", o->plan.plan_files), *plans = g_strconcat("plan=", files, NULL);
  g_autoptr(GStrvBuilder) axes = g_strv_builder_new();
  g_strv_builder_add(axes, plans);
  if (o->vary != NULL)
    g_strv_builder_addv(axes, (const char **)o->vary);
  g_strfreev(o->vary);
  o->vary = g_strv_builder_end(axes);
  o->has_plans = TRUE;
  return TRUE;
}

gboolean plot_options_parse(PlotOptions *o, const char *summary, const char *example, int *argc, char ***argv,
                            GError **error) {
  *o = (PlotOptions){.jobs = OPTION_NOT_GIVEN, .arguments = g_new0(char *, *argc + 1)};
  for (int i = 0; i < *argc; i++)
    o->arguments[i] = g_strdup((*argv)[i]);
  g_autoptr(Parser) parser = parser_new("FIGURE [FILE]", summary, example);
  plan_options_init(&o->plan);
  add_own_options(o, parser);
  plan_options_add(&o->plan, PLAN_OPTIONS_SIMULATED, parser);
  if (!parser_run(parser, argc, argv, TRUE, error) || !take_plans(o, error))
    return FALSE;
  return o->jobs == OPTION_NOT_GIVEN || o->jobs >= 1 ||
         fail_input(error, "--jobs: found %d, expected at least 1", o->jobs);
}

void plot_options_clear(PlotOptions *o) {
  for (gsize i = 0; i < G_N_ELEMENTS(figure_options); i++)
    g_clear_pointer(string_at(o, figure_options[i].offset), g_free);
  char **strings[] = {&o->output, &o->data, &o->title};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
  g_clear_pointer(&o->vary, g_strfreev);
  g_clear_pointer(&o->arguments, g_strfreev);
  plan_options_clear(&o->plan);
}

gboolean plot_options_check(const PlotOptions *o, const char *figure, guint heeds, GError **error) {
  if (o->has_plans && !(heeds & HEED_VARY))
    return fail_input(error, "plot %s draws a single plan, found --plan %u times", figure,
                      g_strv_length(o->plan.plan_files));
  if (o->vary != NULL && !(heeds & HEED_VARY))
    return fail_input(error, "plot %s and --vary clash: that picture does not depend on it", figure);
  for (gsize i = 0; i < G_N_ELEMENTS(figure_options); i++)
    if (*string_at(o, figure_options[i].offset) != NULL && !(heeds & figure_options[i].heed))
      return fail_input(error, "plot %s and --%s clash: that picture does not depend on it", figure,
                        figure_options[i].name);
  return TRUE;
}

/* Whether it is an option of this verb, not of a plan. */
static gboolean is_own(const char *name) {
  static const char *const shared[] = {"output", "terminal", "data", "title", "vary", "jobs", NULL};
  for (gsize i = 0; i < G_N_ELEMENTS(figure_options); i++)
    if (strcmp(name, figure_options[i].name) == 0)
      return TRUE;
  return g_strv_contains(shared, name);
}

static gboolean is_varied(const PlotOptions *o, const char *name) {
  gsize length = strlen(name);
  for (char **vary = o->vary; vary != NULL && *vary != NULL; vary++)
    if (strncmp(*vary, name, length) == 0 && (*vary)[length] == '=')
      return TRUE;
  return FALSE;
}

/* The name and value of the option at arguments[*i], which moves past both; NULL: a word. Owned by the caller. */
static char *next_option(char **arguments, guint *i, const char **value) {
  const char *argument = arguments[(*i)++];
  if (!g_str_has_prefix(argument, "--"))
    return NULL;
  const char *equals = strchr(argument, '=');
  char *name = equals != NULL ? g_strndup(argument + 2, (gsize)(equals - argument) - 2) : g_strdup(argument + 2);
  *value = "";
  if (equals != NULL)
    *value = equals + 1;
  else if (strcmp(name, "terminal") != 0 && arguments[*i] != NULL)
    *value = arguments[(*i)++];
  return name;
}

gboolean plot_options_check_plan(const PlotOptions *o, const char *const *heeded, const char *picture, const char *why,
                                 GError **error) {
  for (guint i = 1; o->arguments[i] != NULL;) {
    const char *value;
    g_autofree char *name = next_option(o->arguments, &i, &value);
    if (name != NULL && !is_own(name) && !g_strv_contains(heeded, name))
      return fail_input(error, "%s and --%s clash: %s", picture, name, why);
  }
  return TRUE;
}

char *plot_options_fixed(const PlotOptions *o) {
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
  for (guint i = 1; o->arguments[i] != NULL;) {
    const char *value;
    char *name = next_option(o->arguments, &i, &value);
    gboolean is_left_out = name == NULL || is_own(name) || is_varied(o, name) || strcmp(name, "model") == 0 ||
                           strcmp(name, "cluster") == 0;
    guint at;
    if (is_left_out) {
      g_free(name);
      continue;
    }
    if (g_ptr_array_find_with_equal_func(names, name, g_str_equal, &at)) {
      g_ptr_array_remove_index(names, at);
      g_ptr_array_remove_index(texts, at);
    }
    g_ptr_array_add(names, name);
    g_ptr_array_add(texts, g_strdup_printf("%s %s", name, value));
  }
  g_ptr_array_add(texts, NULL);
  return g_strjoinv(", ", (char **)texts->pdata);
}

static void vary_axis_clear(gpointer data) {
  VaryAxis *axis = data;
  g_free(axis->name);
  g_strfreev(axis->values);
}

/* "4" and names as they are; "1..16*2" and "0..3" expanded to numbers. */
static gboolean add_values(const char *option, const char *text, GPtrArray *values, GError **error) {
  if (!g_ascii_isdigit(*text) || strstr(text, "..") == NULL) {
    g_ptr_array_add(values, g_strdup(text));
    return TRUE;
  }
  gboolean from_zero = g_str_has_prefix(text, "0..");
  g_autofree char *range = from_zero ? g_strconcat("1", text + 1, NULL) : g_strdup(text);
  g_autoptr(GArray) numbers = parse_count_list(option, range, error);
  if (numbers == NULL)
    return FALSE;
  if (from_zero)
    g_ptr_array_add(values, g_strdup("0"));
  for (guint i = 0; i < numbers->len; i++)
    g_ptr_array_add(values, g_strdup_printf("%" G_GINT64_FORMAT, g_array_index(numbers, gint64, i)));
  return TRUE;
}

static gboolean add_axis(GArray *axes, const char *text, GError **error) {
  const char *equals = strchr(text, '=');
  if (equals == NULL || equals == text || equals[1] == '\0')
    return fail_input(error, "--vary: found \"%.80s\", expected NAME=LIST, e.g. pp=1,2,4", text);
  g_autofree char *name = g_strndup(text, (gsize)(equals - text));
  if (is_own(name) && strcmp(name, "data") != 0) /* which is a plan's, too */
    return fail_input(error, "--vary: --%s is no option of a plan", name);
  for (guint i = 0; i < axes->len; i++)
    if (strcmp(g_array_index(axes, VaryAxis, i).name, name) == 0)
      return fail_input(error, "--vary: %s is varied twice; give one list", name);
  g_autofree char *option = g_strdup_printf("--vary %s", name);
  g_auto(GStrv) parts =
      strcmp(name, "cluster") == 0 ? cluster_words_split(equals + 1) : g_strsplit(equals + 1, ",", -1);
  g_autoptr(GPtrArray) values = g_ptr_array_new_with_free_func(g_free);
  for (char **part = parts; *part != NULL; part++)
    if (!add_values(option, *part, values, error))
      return FALSE;
  g_ptr_array_add(values, NULL);
  if (!parse_check_once(option, equals + 1, (char *const *)values->pdata, error))
    return FALSE;
  VaryAxis axis = {g_steal_pointer(&name), g_strdupv((char **)values->pdata)};
  g_array_append_val(axes, axis);
  return TRUE;
}

/* The value of an axis in combination `index`, the last axis fastest. */
static const char *value_at(const GArray *axes, guint axis, guint index) {
  for (guint i = axes->len - 1; i > axis; i--)
    index /= g_strv_length(g_array_index(axes, VaryAxis, i).values);
  const VaryAxis *at = &g_array_index(axes, VaryAxis, axis);
  return at->values[index % g_strv_length(at->values)];
}

/* An earlier variant with the same model and cluster files. */
static const PlanOptions *find_source(const Variants *variants, const PlanOptions *wanted) {
  for (guint i = 0; i < variants->sources->len; i++) {
    const PlanOptions *source = g_ptr_array_index(variants->sources, i);
    if (g_strcmp0(source->model_file, wanted->model_file) == 0 &&
        g_strcmp0(source->cluster_file, wanted->cluster_file) == 0)
      return source;
  }
  return NULL;
}

static void free_source(gpointer data) {
  plan_options_clear(data);
  g_free(data);
}

/* Whether the axes behind that of --plan, which is the first, have their first values. */
static gboolean is_first_of_plan(const GArray *axes, guint index) {
  for (guint axis = 1; axis < axes->len; axis++)
    if (value_at(axes, axis, index) != g_array_index(axes, VaryAxis, axis).values[0])
      return FALSE;
  return TRUE;
}

/* What was typed, with the values of combination `index` as if they were typed behind it. NULL: one cannot be. */
static PlanOptions *options_of(const PlotOptions *o, const GArray *axes, guint index, GError **error) {
  PlanOptions *varied = g_new(PlanOptions, 1);
  plan_options_init(varied);
  g_autoptr(Parser) parser = parser_new(NULL, NULL, NULL);
  plan_options_add(varied, PLAN_OPTIONS_SIMULATED, parser);
  for (guint axis = 0; axis < axes->len; axis++)
    if (!parser_set(parser, g_array_index(axes, VaryAxis, axis).name, value_at(axes, axis, index), error)) {
      free_source(varied);
      return NULL;
    }
  if (varied->model_file == NULL)
    varied->model_file = g_strdup(o->plan.model_file);
  if (varied->cluster_file == NULL)
    varied->cluster_file = g_strdup(o->plan.cluster_file);
  for (int i = 0; i < plan_n_fields(); i++)
    if (varied->texts[i] == NULL)
      varied->texts[i] = g_strdup(o->plan.texts[i]);
  g_autoptr(GStrvBuilder) repeated = g_strv_builder_new();
  char **parts[] = {o->plan.repeated, varied->repeated};
  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++)
    if (parts[i] != NULL)
      g_strv_builder_addv(repeated, (const char **)parts[i]);
  g_strfreev(varied->repeated);
  varied->repeated = g_strv_builder_end(repeated);
  if (*varied->repeated == NULL)
    g_clear_pointer(&varied->repeated, g_strfreev);
  if (!plan_options_take_file(varied, is_first_of_plan(axes, index) ? "stepsim plot" : NULL, error)) {
    free_source(varied);
    return NULL;
  }
  drop_sizes(o, varied);
  return varied;
}

/* Its file's, without the folder and the ending. */
static char *name_of_plan(const char *path) {
  char *name = g_path_get_basename(path), *dot = strrchr(name, '.');
  if (dot != NULL && dot > name)
    *dot = '\0';
  return name;
}

static char *label_of(const GArray *axes, guint index) {
  GString *label = g_string_new(NULL);
  for (guint axis = 0; axis < axes->len; axis++) {
    const char *name = g_array_index(axes, VaryAxis, axis).name, *value = value_at(axes, axis, index);
    g_autofree char *file = strcmp(name, "plan") == 0 ? name_of_plan(value) : NULL;
    g_string_append_printf(label, "%s%s%s%s", axis > 0 ? ", " : "", file != NULL ? "" : name, file != NULL ? "" : " ",
                           file != NULL ? file : value);
  }
  return g_string_free(label, FALSE);
}

static gboolean add_variant(Variants *variants, const PlotOptions *o, guint index, GError **error) {
  g_autofree char *label = label_of(variants->axes, index);
  PlanOptions *varied = options_of(o, variants->axes, index, error);
  const PlanOptions *source = varied != NULL ? find_source(variants, varied) : NULL;
  const gboolean is_made = varied != NULL && (source != NULL      ? plan_options_make_plan(varied, error)
                                              : o->params != NULL ? plan_options_read(varied, error)
                                                                  : plan_options_finish(varied, error));
  if (!is_made)
    g_prefix_error(error, "%s: ", label);
  const PlanOptions *of = source != NULL ? source : varied;
  if (is_made)
    variants_add(variants->runs, of->model, of->cluster, g_steal_pointer(&varied->plan))->label =
        g_steal_pointer(&label);
  if (is_made && source == NULL)
    g_ptr_array_add(variants->sources, varied);
  else if (varied != NULL)
    free_source(varied);
  return is_made;
}

gboolean variants_make(Variants *variants, const PlotOptions *o, char **vary, GError **error) {
  variants->axes = g_array_new(FALSE, FALSE, sizeof(VaryAxis));
  g_array_set_clear_func(variants->axes, vary_axis_clear);
  variants->sources = g_ptr_array_new_with_free_func(free_source);
  variants->runs = variants_new();
  guint n = 1;
  for (char **text = vary; *text != NULL; text++) {
    if (!add_axis(variants->axes, *text, error))
      return FALSE;
    n *= g_strv_length(g_array_index(variants->axes, VaryAxis, variants->axes->len - 1).values);
    if (n > MOST_VARIANTS)
      return fail_input(error, "--vary: more than %d combinations", MOST_VARIANTS);
  }
  for (guint index = 0; index < n; index++)
    if (!add_variant(variants, o, index, error))
      return FALSE;
  return TRUE;
}

void variants_clear(Variants *variants) {
  g_clear_pointer(&variants->runs, g_array_unref);
  g_clear_pointer(&variants->axes, g_array_unref);
  g_clear_pointer(&variants->sources, g_ptr_array_unref);
}
