/* Model on its own: plausibility of its sizes, cutting its depth, copying. model_read.c reads it, model_parameters.c
 * counts its parameters. */
#include "model.h"

#include <string.h>

#include "error.h"

static const double most_parameters = 1e16; /* keeps its products with bytes and ranks below 2^63 */

gboolean model_check(const Model *model, const char *where, GError **error) {
  if (model->n_heads % model->n_kv_heads != 0)
    return fail_input(error,
                      "%s: found %" G_GINT64_FORMAT " attention heads and %" G_GINT64_FORMAT
                      " key-value heads, expected the second to divide the first",
                      where, model->n_heads, model->n_kv_heads);
  double width = (double)(model->n_heads + model->n_kv_heads) * (double)model->head_dim + (double)model->ffn_hidden;
  const ModelExperts *experts = &model->experts;
  width += (double)(experts->n + 1) * (double)experts->ffn_hidden + (double)experts->shared_ffn_hidden;
  double matrices = 3.0 * (double)model->hidden * width * (double)model->n_layers;
  double tables = 2.0 * (double)model->hidden * (double)(model->vocab + model->max_positions);
  if (matrices + tables > most_parameters)
    return fail_input(error, "%s: found sizes that make about %.0e parameters, expected at most %.0e", where,
                      matrices + tables, most_parameters);
  return TRUE;
}

gint64 model_dense_layers(const Model *model, gint64 first, gint64 n) {
  const ModelExperts *experts = &model->experts;
  gint64 n_dense = 0;
  for (gint64 layer = first; layer < first + n && experts->n > 0; layer++)
    n_dense += layer < experts->n_leading || (layer + experts->phase) % experts->every != 0;
  return n_dense;
}

void model_cut_depth(Model *model, gint64 n_layers) {
  gint64 leading = model->experts.n_leading;
  if (leading > 0 && n_layers < model->n_layers) {
    leading = (leading * n_layers + model->n_layers / 2) / model->n_layers;
    model->experts.n_leading = MAX(1, leading);
  }
  model->n_layers = n_layers;
}

Model *model_copy(const Model *model) {
  Model *copy = g_memdup2(model, sizeof *model);
  copy->name = g_strdup(model->name);
  copy->file = g_strdup(model->file);
  copy->windowed_layers = g_strdup(model->windowed_layers);
  copy->unrotated_layers = g_strdup(model->unrotated_layers);
  return copy;
}

void model_free(Model *model) {
  if (model == NULL)
    return;
  g_free(model->name);
  g_free(model->file);
  g_free(model->windowed_layers);
  g_free(model->unrotated_layers);
  g_free(model);
}
