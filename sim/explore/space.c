/* An index is written in mixed radix: its digit on each axis is the place of a value in that axis's list. A reader puts
 * the values into the very options that a command line fills, so that a configuration of a space means what the same
 * options mean to every other verb.
 *
 *     text of an axis  →  values (ranges written out)  →  each checked alone  →  index → digits → options → plan */
#include "space.h"

#include <string.h>

#include "error.h"
#include "options.h"
#include "plan_order.h"
#include "suggest.h"
#include "yaml_node.h"

enum { MOST_VALUES = 65536 };

typedef struct {
  const char *name, *description; /* borrowed from the options' table */
  gboolean is_whole;              /* its values are whole numbers */
  char *text;                     /* owned: as given; NULL: not given */
  char *origin;                   /* owned: "file:line", or NULL: the command line */
  GPtrArray *values;              /* of char *; once finished */
} SpaceAxis;

struct Space {
  SpaceAxis *axes; /* all there can be, in the order of --help */
  int n_axes;
  GArray *given;       /* of int: indices of those given; once finished */
  int model, cluster;  /* of these, −1: not given */
  GPtrArray *models;   /* of Model *, per value of the model's axis */
  GPtrArray *clusters; /* the same */
  gint64 count;
};

/* A list of options by themselves cannot be an axis: slow ranks are one value that is itself a list. */
static gboolean is_axis(const GOptionEntry *entry) {
  return entry->arg != G_OPTION_ARG_STRING_ARRAY && entry->arg != G_OPTION_ARG_NONE;
}

/* The options' table says which axes there are. */
static void make_axes(Space *space) {
  PlanOptions options;
  plan_options_init(&options);
  g_autoptr(Parser) parser = parser_new(NULL, NULL, NULL);
  plan_options_add(&options, PLAN_OPTIONS_SIMULATED, parser);
  g_autoptr(GArray) axes = g_array_new(FALSE, TRUE, sizeof(SpaceAxis));
  for (const GOptionEntry *entry = parser_entries(parser); entry->long_name != NULL; entry++) {
    SpaceAxis axis = {.name = entry->long_name, .description = entry->description};
    axis.is_whole = entry->arg == G_OPTION_ARG_INT || entry->arg == G_OPTION_ARG_INT64;
    if (is_axis(entry))
      g_array_append_val(axes, axis);
  }
  plan_options_clear(&options);
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
  g_array_unref(space->given);
  g_ptr_array_unref(space->models);
  g_ptr_array_unref(space->clusters);
  g_free(space);
}

void space_add_options(Space *space, Parser *parser) {
  g_autofree GOptionEntry *entries = g_new0(GOptionEntry, space->n_axes + 1);
  for (int i = 0; i < space->n_axes; i++)
    entries[i] = (GOptionEntry){space->axes[i].name,        0,     0, G_OPTION_ARG_STRING, &space->axes[i].text,
                                space->axes[i].description, "LIST"};
  parser_add(parser, entries);
}

gboolean space_is_given(const Space *space) {
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

/* --- a file --- */

/* The text of a leaf, or of a list's items joined by commas. */
static char *text_of_node(YamlNode node, GError **error) {
  int n = yaml_list_length(node, MOST_VALUES, NULL);
  if (n < 0)
    return g_strdup(yaml_text(node, error));
  g_autoptr(GString) text = g_string_new(NULL);
  for (YamlNode item = yaml_list_item(node, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    const char *value = yaml_text(item, error);
    if (value == NULL)
      return NULL;
    g_string_append_printf(text, "%s%s", text->len > 0 ? "," : "", value);
  }
  return g_string_free(g_steal_pointer(&text), FALSE);
}

gboolean space_read(Space *space, const char *file, GError **error) {
  g_autoptr(YamlFile) yaml = yaml_file_read(file, error);
  if (yaml == NULL)
    return FALSE;
  g_autofree YamlField *fields = g_new0(YamlField, space->n_axes);
  g_autofree YamlNode *nodes = g_new0(YamlNode, space->n_axes);
  for (int i = 0; i < space->n_axes; i++)
    fields[i] = (YamlField){space->axes[i].name, FIELD_NODE, FALSE, (size_t)i * sizeof(YamlNode)};
  if (!yaml_map_read(yaml_file_root(yaml), fields, space->n_axes, nodes, error))
    return FALSE;
  for (int i = 0; i < space->n_axes; i++) {
    if (!yaml_is_present(nodes[i]) || space->axes[i].text != NULL)
      continue;
    g_autofree char *text = text_of_node(nodes[i], error);
    if (text == NULL)
      return FALSE;
    g_autofree char *origin = g_strdup_printf("%s:%d", file, yaml_line(nodes[i]));
    set_text(&space->axes[i], text, origin);
  }
  return TRUE;
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

/* Prefix a mistake in an axis's values by where they stand. */
static gboolean fail_axis(const SpaceAxis *axis, GError **error) {
  if (axis->origin != NULL)
    g_prefix_error(error, "%s: ", axis->origin);
  return FALSE;
}

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

static gboolean add_number(SpaceAxis *axis, gint64 number, GHashTable *known, GError **error) {
  char text[32];
  g_snprintf(text, sizeof text, "%" G_GINT64_FORMAT, number);
  return add_value(axis, text, known, error);
}

typedef struct {
  gint64 first, last, step;
  gboolean multiplies;
} Range;

/* "1..8", "1..8*2", "1..8+2"; FALSE for anything else. */
static gboolean parse_range(const char *text, Range *range) {
  static const gint64 most = G_GINT64_CONSTANT(1) << 52;
  g_auto(GStrv) ends = g_strsplit(text, "..", 2);
  char *step = ends[1] != NULL ? strpbrk(ends[1], "*+") : NULL;
  *range = (Range){.step = 1, .multiplies = step != NULL && *step == '*'};
  if (ends[1] == NULL ||
      (step != NULL && !g_ascii_string_to_signed(step + 1, 10, range->multiplies ? 2 : 1, most, &range->step, NULL)))
    return FALSE;
  if (step != NULL)
    *step = '\0';
  return g_ascii_string_to_signed(ends[0], 10, range->multiplies ? 1 : 0, most, &range->first, NULL) &&
         g_ascii_string_to_signed(ends[1], 10, range->first, most, &range->last, NULL);
}

static gboolean add_range(SpaceAxis *axis, const char *text, GHashTable *known, GError **error) {
  Range range;
  if (!parse_range(text, &range))
    return fail_input(error,
                      "--%s: found \"%.80s\", expected FIRST..LAST, FIRST..LAST+STEP or FIRST..LAST*FACTOR with FIRST "
                      "≤ LAST",
                      axis->name, text);
  gint64 value = range.first;
  do {
    if (!add_number(axis, value, known, error))
      return FALSE;
    if (range.multiplies && value > range.last / range.step)
      break; /* the next would be beyond the last, or beyond int64 */
    value = range.multiplies ? value * range.step : value + range.step;
  } while (value <= range.last);
  return TRUE;
}

static gboolean expand(SpaceAxis *axis, GError **error) {
  axis->values = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
  g_auto(GStrv) parts = g_strsplit(axis->text, ",", -1);
  if (parts[0] == NULL)
    return fail_input(error, "--%s: found nothing, expected values such as 1,2,4", axis->name);
  for (char **part = parts; *part != NULL; part++) {
    gint64 number;
    const char *text = g_strstrip(*part);
    gboolean ok = TRUE;
    if (axis->is_whole && strstr(text, "..") != NULL)
      ok = add_range(axis, text, known, error);
    else if (axis->is_whole && g_ascii_string_to_signed(text, 10, G_MININT64, G_MAXINT64, &number, NULL))
      ok = add_number(axis, number, known, error);
    else
      ok = add_value(axis, text, known, error);
    if (!ok)
      return FALSE;
  }
  return TRUE;
}

/* --- a reader --- */

struct SpaceReader {
  const Space *space;
  PlanOptions options;
  Parser *parser; /* into `options` */
};

SpaceReader *space_reader_new(const Space *space) {
  SpaceReader *reader = g_new0(SpaceReader, 1);
  reader->space = space;
  plan_options_init(&reader->options);
  reader->parser = parser_new(NULL, NULL, NULL);
  plan_options_add(&reader->options, PLAN_OPTIONS_SIMULATED, reader->parser);
  return reader;
}

void space_reader_free(SpaceReader *reader) {
  if (reader == NULL)
    return;
  parser_free(reader->parser);
  plan_options_clear(&reader->options);
  g_free(reader);
}

static void reset(SpaceReader *reader) {
  plan_options_clear(&reader->options);
  plan_options_init(&reader->options);
}

/* Place of an index's value in each given axis's list: the last axis turns fastest. */
static int digit(const Space *space, int given, gint64 index) {
  for (int g = (int)space->given->len - 1; g > given; g--)
    index /= space_axis_n_values(space, g);
  return (int)(index % space_axis_n_values(space, given));
}

gboolean space_reader_read(SpaceReader *reader, gint64 index, SpacePoint *point, GError **error) {
  const Space *space = reader->space;
  reset(reader);
  *point = (SpacePoint){0};
  for (int g = (int)space->given->len - 1; g >= 0; g--) {
    const SpaceAxis *axis = &space->axes[g_array_index(space->given, int, g)];
    const guint value = (guint)(index % axis->values->len);
    index /= axis->values->len;
    if (g == space->model)
      point->model = g_ptr_array_index(space->models, value);
    else if (g == space->cluster)
      point->cluster = g_ptr_array_index(space->clusters, value);
    else if (!parser_set(reader->parser, axis->name, g_ptr_array_index(axis->values, value), error))
      return FALSE;
  }
  if (!plan_options_make_plan(&reader->options, error) ||
      !plan_options_check_cluster(&reader->options, point->cluster, error))
    return FALSE;
  point->plan = reader->options.plan;
  return TRUE;
}

/* --- finishing --- */

/* The value makes sense by itself: other options as they are by default, or as it needs them. */
static gboolean check_value(SpaceReader *reader, const SpaceAxis *axis, const char *value, GError **error) {
  reset(reader);
  if (strcmp(axis->name, "memory-cap") == 0 && !parser_set(reader->parser, "schedule", "auto", error))
    return FALSE;
  if (!parser_set(reader->parser, axis->name, value, error) || !plan_options_make_plan(&reader->options, error))
    return FALSE;
  g_auto(PlanOrder) order = {0};
  g_autoptr(GError) problem = NULL;
  if ((plan_order_open(&order, reader->options.plan, &problem) &&
       plan_complete(reader->options.plan, NULL, NULL, &problem)) ||
      g_error_matches(problem, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE)) /* alone, but perhaps not with others */
    return TRUE;
  g_propagate_error(error, g_steal_pointer(&problem));
  return FALSE;
}

static gboolean check_values(const Space *space, const SpaceAxis *axis, GError **error) {
  if (strcmp(axis->name, "model") == 0 || strcmp(axis->name, "cluster") == 0)
    return TRUE; /* checked by being read */
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  for (guint v = 0; v < axis->values->len; v++)
    if (!check_value(reader, axis, g_ptr_array_index(axis->values, v), error))
      return FALSE;
  return TRUE;
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
  return cluster_read(file, error);
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
    if (!check_values(space, axis, error))
      return fail_axis(axis, error);
  }
  return read_values(space, space->model, space->models, read_model, error) &&
         read_values(space, space->cluster, space->clusters, read_cluster, error);
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

const char *space_axis_value(const Space *space, int axis, gint64 index) {
  return space_axis_nth(space, axis, digit(space, axis, index));
}

char *space_label(const Space *space, gint64 index) {
  GString *label = g_string_new(NULL);
  for (int g = 0; g < space_n_axes(space); g++)
    if (space_axis_n_values(space, g) > 1)
      g_string_append_printf(label, "%s%s=%s", label->len > 0 ? " " : "", space_axis_name(space, g),
                             space_axis_value(space, g, index));
  return g_string_free(label, FALSE);
}

int space_n_models(const Space *space) {
  return (int)space->models->len;
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
