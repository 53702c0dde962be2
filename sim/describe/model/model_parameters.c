/* One block, h = hidden, a = heads, k = kv heads, d = head_dim, f = ffn_hidden:
 *
 *     norm   h or 2h                          RMSNorm: scale; LayerNorm: scale and shift
 *     QKV    h·(a + 2k)·d   [+ (a + 2k)·d]    in brackets: biases
 *     out    a·d·h          [+ h]
 *     norm
 *     up     h·f            [+ f]             twice when gated
 *     down   f·h            [+ h]
 */
#include "model.h"

static gint64 norm_parameters(const Model *model) {
  return model->norm == NORM_LAYERNORM && !model->bare_norms ? 2 * model->hidden : model->hidden;
}

gint64 model_layer_parameters(const Model *model) {
  gint64 h = model->hidden, f = model->ffn_hidden;
  gint64 qkv_width = (model->n_heads + 2 * model->n_kv_heads) * model->head_dim;
  gint64 out_width = model->n_heads * model->head_dim;
  gint64 n_ups = model->gated ? 2 : 1;
  gint64 matrices = h * qkv_width + out_width * h + (n_ups + 1) * h * f;
  gint64 biases = (model->qkv_bias ? qkv_width : 0) + (model->linear_bias ? h + n_ups * f + h : 0);
  return matrices + biases + model->n_norms_per_layer * norm_parameters(model) + model->other_layer_parameters;
}

gint64 model_embedding_parameters(const Model *model) {
  gint64 rows = model->vocab + (model->positions == POSITIONS_LEARNED ? model->max_positions : 0);
  return rows * model->hidden + model->other_embedding_parameters;
}

gint64 model_head_parameters(const Model *model) {
  return norm_parameters(model) + (model->tied ? 0 : model->vocab * model->hidden);
}

gint64 model_parameters(const Model *model) {
  return model_embedding_parameters(model) + model->n_layers * model_layer_parameters(model) +
         model_head_parameters(model);
}
