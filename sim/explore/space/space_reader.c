/* A reader puts an index's values into the very options that a command line fills, so that a configuration of a space
 * means what the same options mean to every other verb. */
#include <string.h>

#include "error.h"
#include "options.h"
#include "space_parts.h"

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

gboolean space_reader_read(SpaceReader *reader, gint64 index, SpacePoint *point, GError **error) {
  const Space *space = reader->space;
  reset(reader);
  reader->options.repeated = g_strdupv(space->slow_ranks);
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
      reader->options.texts[axis->field] = g_strdup(g_ptr_array_index(axis->values, value));
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
  plan_options_set_default(&reader->options, axis->name, value);
  g_autoptr(GError) problem = NULL;
  if ((plan_options_make_plan(&reader->options, &problem) &&
       plan_complete(reader->options.plan, NULL, NULL, &problem)) ||
      g_error_matches(problem, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE)) /* alone, but perhaps not with others */
    return TRUE;
  g_propagate_error(error, g_steal_pointer(&problem));
  return FALSE;
}

gboolean space_axis_check(const Space *space, const SpaceAxis *axis, GError **error) {
  if (strcmp(axis->name, "model") == 0 || strcmp(axis->name, "cluster") == 0)
    return TRUE; /* checked by being read */
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  for (guint v = 0; v < axis->values->len; v++)
    if (!check_value(reader, axis, g_ptr_array_index(axis->values, v), error))
      return FALSE;
  return TRUE;
}
