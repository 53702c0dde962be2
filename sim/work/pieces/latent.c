/* Latent attention (arXiv 2405.04434 §2.1) in training, where K and V are made in full. T tokens, T' = T/tp under
 * sequence parallelism, a heads, head dimension d = p + o (plain and rotated), v of V:
 *
 *     x ─┬─ q_down (T', r) ── norm ── q_up (T, a·d) ─────────────── rotate o of each head ── Q
 *        └─ kv_down (T', c + o) ┬ norm of c ── kv_up (T, a·(p + v)) ┬ join with rotated o ── K (T, a·d)
 *                               └──────────── o, one for all heads ─┘                        V (T, a·v)
 *
 * Without a rank r, Q is a single product of x. Rotating Q works in place on its rotated part; the joining kernel
 * reads kv_up's output and o, and writes K and V (the fused kernels of Megatron Core 0.14,
 * fused_mla_yarn_rope_apply.py, 2025). Backward is the same from the end; the input's gradient is the sum of both
 * branches'. Recompute of mla_up_proj keeps the outputs of the down projections and repeats everything after them. */
#include "pieces.h"

static double norm_bytes(const LocalSizes *local, gint64 width, int n_passes) {
  return n_passes * local->element_bytes * local->split_tokens * width;
}

static void rotate(ItemList *list, const char *q_name, const char *kv_name) {
  const LocalSizes *local = list->local;
  const ModelLatent *latent = &local->model->latent;
  const gint64 made = linear_of(local, LINEAR_KV_UP).n + latent->rope_dim;
  const double token_bytes = local->element_bytes * local->tokens;
  item_list_memory(list, q_name, 2 * token_bytes * local->heads * latent->rope_dim);
  item_list_memory(list, kv_name, token_bytes * (made + local->kv_width + local->v_width));
}

static void q_norm(ItemList *list) {
  const ModelLatent *latent = &list->local->model->latent;
  if (latent->q_rank > 0)
    item_list_memory(list, "q_norm", norm_bytes(list->local, latent->q_rank, 2));
}

static void kv_norm(ItemList *list) {
  item_list_memory(list, "kv_norm", norm_bytes(list->local, list->local->model->latent.kv_rank, 2));
}

static void up_projections(ItemList *list) {
  linear_column_forward(list, LINEAR_Q_UP);
  linear_column_forward(list, LINEAR_KV_UP);
  rotate(list, "rope", "kv_join");
}

void latent_forward(ItemList *list) {
  if (list->local->model->latent.q_rank > 0)
    linear_column_forward(list, LINEAR_Q_DOWN);
  q_norm(list);
  linear_column_forward(list, LINEAR_KV_DOWN);
  kv_norm(list);
  up_projections(list);
}

void latent_up_forward(ItemList *list) {
  q_norm(list);
  kv_norm(list);
  up_projections(list);
}

void latent_backward(ItemList *list) {
  const LocalSizes *local = list->local;
  const ModelLatent *latent = &local->model->latent;
  if (list->input_gradients)
    rotate(list, "rope.backward", "kv_join.backward");
  linear_column_backward(list, LINEAR_KV_UP);
  linear_column_backward(list, LINEAR_Q_UP);
  item_list_input_gradient(list, "kv_norm.backward", norm_bytes(local, latent->kv_rank, 3));
  linear_column_backward(list, LINEAR_KV_DOWN);
  if (latent->q_rank > 0) {
    item_list_input_gradient(list, "q_norm.backward", norm_bytes(local, latent->q_rank, 3));
    linear_column_backward(list, LINEAR_Q_DOWN);
  }
  item_list_input_gradient(list, "latent.grad_sum", norm_bytes(local, local->model->hidden, 3));
}
