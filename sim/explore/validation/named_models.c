/* "DEEPSEEK_V3", "deepseekv3" and "deepseek-v3-l4" all begin with what is left of deepseek-v3: deepseekv3. */
#include "named_models.h"

#include <string.h>

#include "data_path.h"

struct NamedModels {
  GPtrArray *models; /* of Model; owned */
};

/* Letters and digits alone, lower case; owned by the caller. */
static char *bare_name(const char *name) {
  GString *bare = g_string_new(NULL);
  for (const char *at = name; *at != '\0'; at++)
    if (g_ascii_isalnum(*at))
      g_string_append_c(bare, g_ascii_tolower(*at));
  return g_string_free(bare, FALSE);
}

NamedModels *named_models_read(GError **error) {
  g_autoptr(NamedModels) found = g_new0(NamedModels, 1);
  found->models = g_ptr_array_new_with_free_func((GDestroyNotify)model_free);
  g_auto(GStrv) names = data_path_list("models", ".json");
  for (int i = 0; names[i] != NULL; i++) {
    g_autoptr(Model) model = model_read(names[i], error);
    if (model == NULL)
      return NULL;
    g_ptr_array_add(found->models, g_steal_pointer(&model));
  }
  return g_steal_pointer(&found);
}

void named_models_free(NamedModels *models) {
  if (models == NULL)
    return;
  g_ptr_array_unref(models->models);
  g_free(models);
}

const Model *named_models_find(const NamedModels *models, const char *name, gint64 hidden, gint64 n_heads) {
  g_autofree char *wanted = bare_name(name);
  const Model *best = NULL;
  for (guint i = 0; i < models->models->len; i++) {
    const Model *model = g_ptr_array_index(models->models, i);
    g_autofree char *bare = bare_name(model->name);
    if (model->hidden == hidden && model->n_heads == n_heads && g_str_has_prefix(wanted, bare) &&
        (best == NULL || strlen(model->name) > strlen(best->name)))
      best = model;
  }
  return best;
}
