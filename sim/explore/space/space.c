/* An index is written in mixed radix: its digit on each axis is the place of a value in that axis's list.
 *
 *     text of an axis  →  values (ranges written out)  →  each checked alone  →  index → digits → options → plan
 */
#include "space.h"

#include <string.h>

#include "cluster_words.h"
#include "error.h"
#include "number_list.h"
#include "options.h"
#include "suggest.h"
#include "units.h"

enum { MOST_VALUES = 65536 }; /* of one axis */

typedef struct {
  const char *name, *description; /* static */
  int field;                      /* of the plan (plan_fields.h); −1: model, cluster */
  gboolean is_whole, is_switch;   /* its values are whole numbers; on and off */
  char *text;                     /* owned: as given; NULL: not given */
  char *origin;                   /* owned: "file:line", or NULL: the command line */
  const char *file;               /* of `origin`; static */
  GPtrArray *values;              /* of char *; set once finished */
} SpaceAxis;

struct Space {
  SpaceAxis *axes; /* all possible axes, in the order of --help */
  int n_axes;
  GArray *given;       /* of int: indices of the axes given; set once finished */
  int model, cluster;  /* of these, −1: not given */
  GPtrArray *models;   /* of Model *, per value of the model's axis */
  GPtrArray *clusters; /* the same */
  MemoryMargin margin;
  char **plan_files; /* of --plan; owned; NULL: none */
  PlanFile *plan;    /* the last of these, read; owned */
  gboolean takes_slow_ranks;
  char **slow_ranks; /* for every plan, as given by --slow-rank; owned; NULL: none */
  gint64 count;
};

static void add_axis(GArray *axes, const char *name, const char *help, int field) {
  const gboolean is_whole =
      field >= 0 && (plan_field(field)->kind == PLAN_COUNT || plan_field(field)->kind == PLAN_COUNT64);
  const SpaceAxis axis = {.name = name,
                          .description = help,
                          .field = field,
                          .is_whole = is_whole,
                          .is_switch = field >= 0 && plan_field(field)->kind == PLAN_SWITCH};
  g_array_append_val(axes, axis);
}

/* Model, cluster, and every field of a plan. */
static void make_axes(Space *space) {
  g_autoptr(GArray) axes = g_array_new(FALSE, TRUE, sizeof(SpaceAxis));
  add_axis(axes, "model", options_model_help, -1);
  add_axis(axes, "cluster", options_cluster_help, -1);
  for (int i = 0; i < plan_n_fields(); i++)
    if (plan_field_is_axis(plan_field(i)))
      add_axis(axes, plan_field(i)->name, plan_field_help(plan_field(i)), i);
  space->n_axes = (int)axes->len;
  space->axes = (SpaceAxis *)(void *)g_array_free(g_steal_pointer(&axes), FALSE);
}

Space *space_new(void) {
  Space *space = g_new0(Space, 1);
  make_axes(space);
  space->given = g_array_new(FALSE, FALSE, sizeof(int));
  space->models = g_ptr_array_new_with_free_func((GDestroyNotify)model_free);
  space->clusters = g_ptr_array_new_with_free_func((GDestroyNotify)cluster_free);
  space->model = space->cluster = -1;
  return space;
}

void space_free(Space *space) {
  if (space == NULL)
    return;
  for (int i = 0; i < space->n_axes; i++) {
    g_free(space->axes[i].text);
    g_free(space->axes[i].origin);
    g_clear_pointer(&space->axes[i].values, g_ptr_array_unref);
  }
  g_free(space->axes);
  g_strfreev(space->slow_ranks);
  g_strfreev(space->plan_files);
  plan_file_free(space->plan);
  g_array_unref(space->given);
  g_ptr_array_unref(space->models);
  g_ptr_array_unref(space->clusters);
  g_free(space);
}

void space_add_options(Space *space, Parser *parser) {
  g_autofree GOptionEntry *entries = g_new0(GOptionEntry, space->n_axes + 1);
  for (int i = 0; i < space->n_axes; i++) {
    const SpaceAxis *axis = &space->axes[i];
    const gboolean is_file = axis->field < 0 || (plan_field(axis->field)->uses & PLAN_FIELD_FILE);
    entries[i] = (GOptionEntry){
        axis->name,        0,     0, is_file ? G_OPTION_ARG_FILENAME : G_OPTION_ARG_STRING, &space->axes[i].text,
        axis->description, "LIST"};
  }
  parser_add(parser, entries);
  const GOptionEntry plan[] = {{"plan", 0, 0, G_OPTION_ARG_STRING_ARRAY, &space->plan_files, options_plan_help, "FILE"},
                               G_OPTION_ENTRY_NULL};
  parser_add(parser, plan);
}

void space_add_slow_ranks(Space *space, Parser *parser) {
  const PlanField *field = plan_field(plan_field_find("slow-rank"));
  const GOptionEntry entries[] = {
      {field->name, 0, 0, G_OPTION_ARG_STRING_ARRAY, &space->slow_ranks, field->help, field->value},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  space->takes_slow_ranks = TRUE;
}

gboolean space_is_given(const Space *space) {
  if (space->plan_files != NULL)
    return TRUE;
  for (int i = 0; i < space->n_axes; i++)
    if (space->axes[i].text != NULL)
      return TRUE;
  return FALSE;
}

static SpaceAxis *find_axis(const Space *space, const char *name) {
  for (int i = 0; i < space->n_axes; i++)
    if (strcmp(name, space->axes[i].name) == 0)
      return &space->axes[i];
  return NULL;
}

const char *space_given(const Space *space, const char *name) {
  const SpaceAxis *axis = find_axis(space, name);
  return axis != NULL ? axis->text : NULL;
}

void space_describe(Space *space, const char *name, const char *description) {
  SpaceAxis *axis = find_axis(space, name);
  g_assert(axis != NULL);
  axis->description = description;
}

static void set_text(SpaceAxis *axis, const char *text, const char *origin) {
  g_free(axis->text);
  g_free(axis->origin);
  axis->text = g_strdup(text);
  axis->origin = g_strdup(origin);
}

gboolean space_set(Space *space, const char *name, const char *text, GError **error) {
  g_autofree const char **names = g_new0(const char *, space->n_axes + 1);
  for (int i = 0; i < space->n_axes; i++) {
    names[i] = space->axes[i].name;
    if (strcmp(name, names[i]) == 0) {
      set_text(&space->axes[i], text, NULL);
      return TRUE;
    }
  }
  g_autofree char *expected = suggest_message(name, names);
  return fail_input(error, "no option \"%.80s\", %s", name, expected);
}

/* --- files --- */

/* Ranks that are slow are no axis; where the verb takes them they count if none were typed. */
static gboolean take_entry(Space *space, const PlanFile *file, const PlanFileEntry *entry, gboolean is_typed,
                           GError **error) {
  SpaceAxis *axis = find_axis(space, entry->option);
  if (axis == NULL && space->takes_slow_ranks && strcmp(entry->option, "slow-rank") == 0) {
    const guint n = space->slow_ranks != NULL ? g_strv_length(space->slow_ranks) : 0;
    if (is_typed)
      return TRUE;
    space->slow_ranks = g_renew(char *, space->slow_ranks, n + 2);
    space->slow_ranks[n] = g_strdup(entry->text);
    space->slow_ranks[n + 1] = NULL;
    return TRUE;
  }
  if (axis == NULL)
    return fail_input(error, "%s:%u: %s: found an option of single plans, which this verb does not take", file->path,
                      entry->line, entry->option);
  g_autofree char *origin = g_strdup_printf("%s:%u", file->path, entry->line);
  if (axis->text == NULL || g_strcmp0(axis->file, file->path) == 0)
    set_text(axis, entry->text, origin);
  axis->file = axis->origin != NULL ? g_intern_string(file->path) : NULL;
  return TRUE;
}

static gboolean take_entries(Space *space, const PlanFile *file, GError **error) {
  const gboolean is_typed = space->slow_ranks != NULL;
  for (guint i = 0; i < file->entries->len; i++)
    if (!take_entry(space, file, &g_array_index(file->entries, PlanFileEntry, i), is_typed, error))
      return FALSE;
  return TRUE;
}

gboolean space_read(Space *space, const char *path, GError **error) {
  g_autoptr(PlanFile) file = plan_file_read_own(path, error);
  return file != NULL && take_entries(space, file, error);
}

static const char *given_text(gconstpointer space, const char *option) {
  return space_given(space, option);
}

gboolean space_take_plan(Space *space, const char *verb, GError **error) {
  gint64 gpus = 0;
  if (space->plan_files == NULL)
    return TRUE;
  if (space_given(space, "gpus") != NULL && !units_parse_whole(space_given(space, "gpus"), 1, G_MAXINT, &gpus, NULL))
    gpus = 0; /* a list, or a mistake that is told later */
  space->plan = plan_file_read(space->plan_files[g_strv_length(space->plan_files) - 1], gpus, error);
  if (space->plan == NULL)
    return FALSE;
  if (verb != NULL)
    plan_file_tell(space->plan, given_text, space, verb);
  return take_entries(space, space->plan, error);
}

/* --- texts of whole spaces --- */

char *space_text(const Space *space) {
  GString *text = g_string_new(NULL);
  for (guint g = 0; g < space->given->len; g++) {
    const SpaceAxis *axis = &space->axes[g_array_index(space->given, int, g)];
    g_string_append_printf(text, "%s=", axis->name);
    for (guint v = 0; v < axis->values->len; v++)
      g_string_append_printf(text, "%s%s", v > 0 ? "," : "", (const char *)g_ptr_array_index(axis->values, v));
    g_string_append_c(text, '\n');
  }
  return g_string_free(text, FALSE);
}

gboolean space_set_text(Space *space, const char *text, GError **error) {
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    char *equals = strchr(*line, '=');
    if (**line == '\0')
      continue;
    if (equals == NULL)
      return fail_input(error, "found \"%.80s\", expected option=values", *line);
    *equals = '\0';
    if (!space_set(space, *line, equals + 1, error))
      return FALSE;
  }
  return TRUE;
}

/* --- values --- */

/* The text of an axis as its values: commas part them, ranges are written out, a layout in letters stays whole. */

static gboolean add_value(SpaceAxis *axis, const char *value, GHashTable *known, GError **error) {
  if (axis->values->len >= MOST_VALUES)
    return fail_input(error, "--%s: more than %d values", axis->name, MOST_VALUES);
  if (*value == '\0')
    return fail_input(error, "--%s: found nothing between commas in \"%.80s\", expected values such as 1,2,4 or 1..8*2",
                      axis->name, axis->text);
  char *copy = g_strdup(value);
  g_ptr_array_add(axis->values, copy);
  return g_hash_table_add(known, copy) ||
         fail_input(error, "--%s: %.80s stands twice in \"%.80s\"", axis->name, value, axis->text);
}

/* 1-8 and 1:8, as others write a range. */
static gboolean is_foreign_range(const char *text) {
  const size_t first = strspn(text, "0123456789");
  if (first == 0 || strchr("-:", text[first]) == NULL || text[first] == '\0')
    return FALSE;
  const size_t last = strspn(text + first + 1, "0123456789");
  return last > 0 && text[first + 1 + last] == '\0';
}

static gboolean add_number(SpaceAxis *axis, gint64 number, GHashTable *known, GError **error) {
  char text[32];
  g_snprintf(text, sizeof text, "%" G_GINT64_FORMAT, number);
  return add_value(axis, text, known, error);
}

static gboolean add_range(SpaceAxis *axis, const char *text, GHashTable *known, GError **error) {
  NumberRange range;
  if (!number_range_parse(text, 0, &range))
    return fail_input(error, "--%s: found \"%.80s\", expected %s", axis->name, text, number_range_form());
  gint64 value = range.first;
  do
    if (!add_number(axis, value, known, error))
      return FALSE;
  while (number_range_next(&range, &value));
  return TRUE;
}

/* Megatron-LM's letters may have commas within: a layout is one value from its E to its L. The last of its parts. */
static char **layout_end(const SpaceAxis *axis, char **part) {
  if (strcmp(axis->name, "pipeline-layout") != 0 || !g_str_has_prefix(g_strstrip(*part), "E"))
    return part;
  char **end = part;
  while (!g_str_has_suffix(g_strstrip(*end), "L") && end[1] != NULL)
    end++;
  return end;
}

/* Parts as they stand between commas, clusters in words and layouts in letters whole. */
static char **split_values(const SpaceAxis *axis) {
  g_auto(GStrv) parts =
      strcmp(axis->name, "cluster") == 0 ? cluster_words_split(axis->text) : g_strsplit(axis->text, ",", -1);
  g_autoptr(GStrvBuilder) values = g_strv_builder_new();
  for (char **part = parts; *part != NULL; part++) {
    char **end = layout_end(axis, part);
    g_autoptr(GString) value = g_string_new(g_strstrip(*part));
    while (part < end)
      g_string_append_printf(value, ",%s", *++part);
    g_strv_builder_add(values, value->str);
  }
  return g_strv_builder_end(values);
}

/* Fill `values` from `text`. INPUT naming the option. */
static gboolean expand(SpaceAxis *axis, GError **error) {
  axis->values = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
  g_auto(GStrv) parts = split_values(axis);
  if (parts[0] == NULL)
    return fail_input(error, "--%s: found nothing, expected values such as 1,2,4", axis->name);
  for (char **part = parts; *part != NULL; part++) {
    gint64 number;
    const char *text = *part;
    gboolean ok = TRUE;
    if (axis->is_whole && strstr(text, "..") != NULL)
      ok = add_range(axis, text, known, error);
    else if (axis->is_whole && units_parse_whole(text, G_MININT64, G_MAXINT64, &number, NULL))
      ok = add_number(axis, number, known, error);
    else if (axis->is_whole && is_foreign_range(text))
      ok = fail_input(error, "--%s: found \"%.80s\", expected whole numbers or %s", axis->name, text,
                      number_range_form());
    else
      ok = add_value(axis, text, known, error);
    if (!ok)
      return FALSE;
  }
  return TRUE;
}

/* --- reading a configuration --- */

/* A reader puts an index's values into the very options that a command line fills, so that a configuration of a space
 * means what the same options mean to every other verb. */

struct SpaceReader {
  const Space *space;
  PlanOptions options;
  GHashTable *frameworks; /* of `options`: each is read once */
};

static void reset(SpaceReader *reader) {
  plan_options_clear(&reader->options);
  plan_options_init(&reader->options);
  reader->options.frameworks = reader->frameworks;
}

SpaceReader *space_reader_new(const Space *space) {
  SpaceReader *reader = g_new0(SpaceReader, 1);
  reader->space = space;
  reader->frameworks = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  reset(reader);
  reader->options.repeated = g_strdupv(space->slow_ranks);
  return reader;
}

void space_reader_free(SpaceReader *reader) {
  if (reader == NULL)
    return;
  plan_options_clear(&reader->options);
  g_hash_table_unref(reader->frameworks);
  g_free(reader);
}

/* What says nothing of the model is a mistake in a single configuration; of many it is one that is impossible. */
static gboolean check_model(const SpaceReader *reader, const Model *model, GError **error) {
  g_autoptr(GError) problem = NULL;
  if (model == NULL || plan_options_check_model(reader->options.plan, model, &problem))
    return TRUE;
  if (reader->space->count > 1)
    return fail_impossible(error, "%s", problem->message);
  g_propagate_error(error, g_steal_pointer(&problem));
  return FALSE;
}

static void type(char **text, const char *value) {
  if (g_strcmp0(*text, value) != 0) {
    g_free(*text);
    *text = g_strdup(value);
  }
}

gboolean space_reader_read(SpaceReader *reader, gint64 index, SpacePoint *point, GError **error) {
  const Space *space = reader->space;
  *point = (SpacePoint){0};
  for (int g = (int)space->given->len - 1; g >= 0; g--) {
    const SpaceAxis *axis = &space->axes[g_array_index(space->given, int, g)];
    const guint value = (guint)(index % axis->values->len);
    index /= axis->values->len;
    if (g == space->model)
      point->model = g_ptr_array_index(space->models, value);
    else if (g == space->cluster)
      point->cluster = g_ptr_array_index(space->clusters, value);
    else
      type(&reader->options.texts[axis->field], g_ptr_array_index(axis->values, value));
  }
  if (!plan_options_make_plan(&reader->options, error) || !check_model(reader, point->model, error) ||
      !plan_options_check_cluster(&reader->options, point->cluster, error))
    return FALSE;
  point->plan = reader->options.plan;
  return TRUE;
}

/* The value makes sense by itself: other options as they are by default, or as it needs them. */
static gboolean check_value(SpaceReader *reader, const SpaceAxis *axis, const char *value, GError **error) {
  reset(reader);
  if (strcmp(axis->name, "memory-cap") == 0)
    plan_options_set_default(&reader->options, "schedule", "auto");
  if (strcmp(axis->name, "global-batch") == 0)
    plan_options_set_default(&reader->options, "seq-len", "1"); /* of which tokens are whole numbers */
  plan_options_set_default(&reader->options, axis->name, value);
  g_autoptr(GError) problem = NULL;
  if ((plan_options_make_plan(&reader->options, &problem) &&
       plan_complete(reader->options.plan, NULL, NULL, &problem)) ||
      g_error_matches(problem, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE)) /* alone, but perhaps not with others */
    return TRUE;
  g_propagate_error(error, g_steal_pointer(&problem));
  return FALSE;
}

/* Check each value on its own, with all other options at their defaults. INPUT. */
static gboolean check_axis(const Space *space, const SpaceAxis *axis, GError **error) {
  if (strcmp(axis->name, "model") == 0 || strcmp(axis->name, "cluster") == 0)
    return TRUE; /* checked by being read */
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  for (guint v = 0; v < axis->values->len; v++)
    if (!check_value(reader, axis, g_ptr_array_index(axis->values, v), error))
      return FALSE;
  return TRUE;
}

/* --- finishing --- */

/* Prefix a mistake in an axis's values by where they stand. */
static gboolean fail_axis(const SpaceAxis *axis, GError **error) {
  if (axis->origin != NULL)
    g_prefix_error(error, "%s: ", axis->origin);
  return FALSE;
}

/* Read what each value of an axis names. */
static gboolean read_values(const Space *space, int given, GPtrArray *things, gpointer (*read)(const char *, GError **),
                            GError **error) {
  const SpaceAxis *axis = &space->axes[g_array_index(space->given, int, given)];
  for (guint v = 0; v < axis->values->len; v++) {
    gpointer thing = read(g_ptr_array_index(axis->values, v), error);
    if (thing == NULL)
      return fail_axis(axis, error);
    g_ptr_array_add(things, thing);
  }
  return TRUE;
}

static gpointer read_model(const char *file, GError **error) {
  return model_read(file, error);
}

static gpointer read_cluster(const char *file, GError **error) {
  return options_read_cluster(file, error);
}

void space_set_memory_margin(Space *space, const MemoryMargin *margin) {
  space->margin = *margin;
}

static gboolean apply_margin(const Space *space, GError **error) {
  for (int i = 0; i < space_n_clusters(space); i++)
    if (!memory_margin_apply(&space->margin, g_ptr_array_index(space->clusters, i), error)) {
      g_prefix_error(error, "%s: ", space_cluster(space, i)->file);
      return FALSE;
    }
  return TRUE;
}

/* Saturates. */
static gint64 count(const Space *space) {
  gint64 product = 1;
  for (int g = 0; g < space_n_axes(space); g++)
    if (__builtin_mul_overflow(product, space_axis_n_values(space, g), &product))
      return G_MAXINT64;
  return product;
}

gboolean space_finish_closed(Space *space, GError **error) {
  for (int i = 0; i < space->n_axes; i++) {
    SpaceAxis *axis = &space->axes[i];
    if (axis->text == NULL)
      continue;
    if (!expand(axis, error))
      return fail_axis(axis, error);
    if (strcmp(axis->name, "model") == 0)
      space->model = (int)space->given->len;
    if (strcmp(axis->name, "cluster") == 0)
      space->cluster = (int)space->given->len;
    g_array_append_val(space->given, i);
  }
  if (space->model < 0)
    return fail_input(error, "--model is missing: a Hugging Face config.json, or a name in models/ such as llama-3-8b");
  if (space->cluster < 0)
    return fail_input(error, "--cluster is missing: a cluster YAML, or a name in topologies/ such as dgx-h100");
  space->count = count(space);
  return TRUE;
}

gboolean space_finish(Space *space, GError **error) {
  if (!space_finish_closed(space, error))
    return FALSE;
  for (int g = 0; g < space_n_axes(space); g++) {
    const SpaceAxis *axis = &space->axes[g_array_index(space->given, int, g)];
    if (!check_axis(space, axis, error))
      return fail_axis(axis, error);
  }
  if (!read_values(space, space->model, space->models, read_model, error))
    return FALSE;
  for (guint i = 0; space->plan != NULL && i < space->models->len; i++)
    if (!plan_file_check_model(space->plan, g_ptr_array_index(space->models, i), error))
      return FALSE;
  return read_values(space, space->cluster, space->clusters, read_cluster, error) && apply_margin(space, error);
}

/* --- looking --- */

gint64 space_count(const Space *space) {
  return space->count;
}

int space_n_axes(const Space *space) {
  return (int)space->given->len;
}

static const SpaceAxis *given_axis(const Space *space, int axis) {
  return &space->axes[g_array_index(space->given, int, axis)];
}

const char *space_axis_name(const Space *space, int axis) {
  return given_axis(space, axis)->name;
}

int space_axis_n_values(const Space *space, int axis) {
  return (int)given_axis(space, axis)->values->len;
}

const char *space_axis_nth(const Space *space, int axis, int i) {
  return g_ptr_array_index(given_axis(space, axis)->values, i);
}

/* Place of an index's value in each given axis's list: the last axis turns fastest. */
static int digit(const Space *space, int given, gint64 index) {
  for (int g = (int)space->given->len - 1; g > given; g--)
    index /= space_axis_n_values(space, g);
  return (int)(index % space_axis_n_values(space, given));
}

const char *space_axis_value(const Space *space, int axis, gint64 index) {
  return space_axis_nth(space, axis, digit(space, axis, index));
}

int space_n_clusters(const Space *space) {
  return (int)space->clusters->len;
}

const Model *space_model(const Space *space, int i) {
  return g_ptr_array_index(space->models, i);
}

const Cluster *space_cluster(const Space *space, int i) {
  return g_ptr_array_index(space->clusters, i);
}
