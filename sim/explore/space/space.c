/* An index is written in mixed radix: its digit on each axis is the place of a value in that axis's list.
 *
 *     text of an axis  →  values (ranges written out)  →  each checked alone  →  index → digits → options → plan
 *                         space_values.c                  space_reader.c                          space_reader.c */
#include "space_parts.h"

#include <string.h>

#include "error.h"
#include "options.h"
#include "suggest.h"
#include "yaml_node.h"

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
}

void space_add_slow_ranks(Space *space, Parser *parser) {
  const PlanField *field = plan_field(plan_field_find("slow-rank"));
  const GOptionEntry entries[] = {
      {field->name, 0, 0, G_OPTION_ARG_STRING_ARRAY, &space->slow_ranks, field->help, field->value},
      G_OPTION_ENTRY_NULL};
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

/* YAML's own words for a switch are options' on and off; of what is none they stay what was written. */
static const char *text_of_leaf(YamlNode leaf, gboolean is_switch, GError **error) {
  const char *text = yaml_text(leaf, error);
  if (text == NULL || !is_switch)
    return text;
  return g_ascii_strcasecmp(text, "true") == 0 ? "on" : g_ascii_strcasecmp(text, "false") == 0 ? "off" : text;
}

/* The text of a leaf, or of a list's items joined by commas. */
static char *text_of_node(YamlNode node, gboolean is_switch, GError **error) {
  if (yaml_is_map(node)) {
    yaml_fail(node, error, "found a mapping, expected a value or a list of some");
    return NULL;
  }
  if (!yaml_is_list(node))
    return g_strdup(text_of_leaf(node, is_switch, error));
  if (yaml_list_length(node, MOST_VALUES, error) < 0)
    return NULL;
  g_autoptr(GString) text = g_string_new(NULL);
  for (YamlNode item = yaml_list_item(node, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    const char *value = text_of_leaf(item, is_switch, error);
    if (value == NULL)
      return NULL;
    g_string_append_printf(text, "%s%s", text->len > 0 ? "," : "", value);
  }
  return g_string_free(g_steal_pointer(&text), FALSE);
}

/* The key of an axis in a file: its name, or as columns of tables have it, global_batch. Owned by the caller; NULL: the
 * file has both. */
static char *key_of_axis(YamlNode root, const char *name, GError **error) {
  g_autofree char *column = g_strdelimit(g_strdup(name), "-", '_');
  if (!yaml_is_map(root) || strcmp(name, column) == 0)
    return g_strdup(name);
  const YamlNode as_column = yaml_map_value(root, column), as_option = yaml_map_value(root, name);
  if (yaml_is_present(as_column) && yaml_is_present(as_option)) {
    yaml_fail(as_column, error, "found %s beside %s in line %d, expected one of the two", column, name,
              yaml_line(as_option));
    return NULL;
  }
  return yaml_is_present(as_column) ? g_steal_pointer(&column) : g_strdup(name);
}

gboolean space_read(Space *space, const char *file, GError **error) {
  g_autoptr(YamlFile) yaml = yaml_file_read(file, error);
  if (yaml == NULL)
    return FALSE;
  g_autofree YamlField *fields = g_new0(YamlField, space->n_axes);
  g_autofree YamlNode *nodes = g_new0(YamlNode, space->n_axes);
  g_autoptr(GPtrArray) keys = g_ptr_array_new_with_free_func(g_free);
  for (int i = 0; i < space->n_axes; i++) {
    char *key = key_of_axis(yaml_file_root(yaml), space->axes[i].name, error);
    if (key == NULL)
      return FALSE;
    g_ptr_array_add(keys, key);
    fields[i] = (YamlField){key, FIELD_NODE, FALSE, (size_t)i * sizeof(YamlNode)};
  }
  if (!yaml_map_read(yaml_file_root(yaml), fields, space->n_axes, nodes, error))
    return FALSE;
  for (int i = 0; i < space->n_axes; i++) {
    if (!yaml_is_present(nodes[i]) || space->axes[i].text != NULL)
      continue;
    g_autofree char *text = text_of_node(nodes[i], space->axes[i].is_switch, error);
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
  return cluster_read(file, error);
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
    if (!space_axis_expand(axis, error))
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
    if (!space_axis_check(space, axis, error))
      return fail_axis(axis, error);
  }
  return read_values(space, space->model, space->models, read_model, error) &&
         read_values(space, space->cluster, space->clusters, read_cluster, error) && apply_margin(space, error);
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
