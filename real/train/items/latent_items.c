/* Latent attention between the layer's norm and attention, and back. Widths: r of Q's latent, c of K and V's latent,
 * o of the rotated part shared by every head's K; d = p + o; v of V. A row of kv_latent holds c, then o:
 *
 *     norm1 → q_down → q_latent (T′ × r) → q_norm in place → q_up → Q of qkv, o of each head rotated
 *     norm1 → kv_down → kv_latent (T′ × (c + o)) → kv_norm in place, of c → kv_up → made (T × a·(p + v))
 *     made, o of kv_latent → kv_join → K and V of qkv
 *
 * Under sequence parallelism the inputs of q_up and kv_up are gathered. Without r, q_up reads norm1. Backward:
 * attention writes dQ to d_q, where it is rotated back, and dK and dV to scratch; the output gradients of the down
 * projections are summed over tp into d_q_down and d_kv_down, where the norms' backward runs. */
#include "item_parts.h"

typedef enum { Q_DOWN, Q_UP, KV_DOWN, KV_UP } LatentLinear;

static const Role weight_roles[] = {
    [Q_DOWN] = ROLE_Q_DOWN, [Q_UP] = ROLE_Q, [KV_DOWN] = ROLE_KV_DOWN, [KV_UP] = ROLE_KV_UP};

static const ModelLatent *latent_of(const ItemCall *call) {
  return &item_local_sizes(call)->model->latent;
}

static gboolean has_q_latent(const ItemCall *call) {
  return latent_of(call)->q_rank > 0;
}

/* Columns of a row of kv_latent. */
static gint64 kv_columns(const ItemCall *call) {
  return latent_of(call)->kv_rank + latent_of(call)->rope_dim;
}

/* --- products ----------------------------------------------------------------------------------------------------- */

/* The input before it is gathered. */
static char *linear_input(const ItemCall *call, LatentLinear name) {
  if (name == KV_UP)
    return item_saved(call).kv_latent;
  return name == Q_UP && has_q_latent(call) ? item_saved(call).q_latent : item_saved(call).norm1;
}

static char *whole_input(const ItemCall *call, LatentLinear name) {
  const Activations *activations = item_memory(call);
  if (!activations->local->sequence_parallel || name == Q_DOWN || name == KV_DOWN)
    return linear_input(call, name);
  if (name == KV_UP)
    return activations->latent.kv_all;
  return has_q_latent(call) ? activations->latent.q_all : activations->gathered;
}

static char *output_gradient(const ItemCall *call, LatentLinear name) {
  const LayerGradients g = item_gradients(call);
  char *const outputs[] = {[Q_DOWN] = g.d_q_down, [Q_UP] = g.d_q, [KV_DOWN] = g.d_kv_down, [KV_UP] = g.d_kv_up};
  return outputs[name];
}

/* Input gradient of an up projection, before its sum over tp. */
static char *partial_gradient(const ItemCall *call, LatentLinear name) {
  const Activations *activations = item_memory(call);
  const gboolean is_cut = activations->local->tp > 1;
  if (name == KV_UP)
    return is_cut ? activations->latent.d_kv_partial : item_gradients(call).d_kv_down;
  if (!has_q_latent(call))
    return activations->partial;
  return is_cut ? activations->latent.d_q_partial : item_gradients(call).d_q_down;
}

/* The down projections write theirs where the two are later added, as the gradient of the layer's norm. */
static char *input_gradient(const ItemCall *call, LatentLinear name) {
  if (name == KV_DOWN)
    return item_memory(call)->latent.d_from_kv;
  return name == Q_DOWN ? (char *)item_reduced(call) : partial_gradient(call, name);
}

static void run_linear(const ItemCall *call) {
  const LatentLinear name = (LatentLinear)call->argument;
  const SavedLayer layer = item_saved(call);
  const LocalSizes *local = item_local_sizes(call);
  char *const outputs[] = {[Q_DOWN] = layer.q_latent,
                           [Q_UP] = layer.qkv,
                           [KV_DOWN] = layer.kv_latent,
                           [KV_UP] = item_memory(call)->latent.made};
  Linear linear = {.block = BLOCK_LAYER,
                   .weight = weight_roles[name],
                   .input = whole_input(call, name),
                   .input_ld = name == KV_UP ? kv_columns(call) : 0,
                   .output = outputs[name],
                   .output_ld = name == Q_UP ? local_qkv_width(local) : 0};
  if (item_reads_gradient(call))
    linear.output_gradient = output_gradient(call, name);
  if (call->is_backward)
    linear.input_gradient = input_gradient(call, name);
  item_linear(call, &linear);
}

/* --- tp collectives ----------------------------------------------------------------------------------------------- */

static void run_collective(const ItemCall *call, LatentLinear name, const char *in, char *out) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 width = name == KV_UP        ? kv_columns(call)
                       : has_q_latent(call) ? latent_of(call)->q_rank
                                            : local->model->hidden;
  item_collective(call, item_number(call), in, out, local->tokens * width);
}

static void gather_input(const ItemCall *call) {
  const LatentLinear name = (LatentLinear)call->argument;
  run_collective(call, name, linear_input(call, name), whole_input(call, name));
}

static void reduce_input_gradient(const ItemCall *call) {
  const LatentLinear name = (LatentLinear)call->argument;
  char *out = name == KV_UP        ? item_gradients(call).d_kv_down
              : has_q_latent(call) ? item_gradients(call).d_q_down
                                   : item_memory(call)->reduced;
  run_collective(call, name, partial_gradient(call, name), out);
}

const ItemKernel latent_collectives[] = {
    {"q_up", gather_input, Q_UP},
    {"q_up.wgrad", gather_input, Q_UP},
    {"kv_up", gather_input, KV_UP},
    {"kv_up.wgrad", gather_input, KV_UP},
    {"q_up.dgrad", reduce_input_gradient, Q_UP},
    {"kv_up.dgrad", reduce_input_gradient, KV_UP},
    {NULL, NULL, 0},
};

/* --- norms, rotation, the sum ------------------------------------------------------------------------------------- */

/* Copies `width` columns of this rank's tokens from one matrix to another. */
static void copy_columns(const ItemCall *call, gint64 width, Rows from, Rows to) {
  item_copy(call, (Extent){1, item_local_sizes(call)->split_tokens, width}, from, to);
}

/* If what follows the norms is recomputed: forward saves o, and recomputation copies the norms' inputs back to where
 * the norms run, and o with them. */
static void put_back(const ItemCall *call, gboolean of_kv) {
  const SavedLayer layer = item_saved(call);
  const gint64 c = latent_of(call)->kv_rank, r = latent_of(call)->q_rank, o = latent_of(call)->rope_dim;
  char *rotated = of_kv ? layer.kv_latent + c * (gint64)item_local_sizes(call)->element_bytes : NULL;
  if (layer.rotated == NULL)
    return;
  if (!call->item->recompute && of_kv)
    copy_columns(call, o, (Rows){rotated, c + o, 0}, (Rows){layer.rotated, o, 0});
  if (!call->item->recompute)
    return;
  if (!of_kv) {
    copy_columns(call, r, (Rows){layer.q_norm.kept, r, 0}, (Rows){layer.q_latent, r, 0});
    return;
  }
  copy_columns(call, c, (Rows){layer.k_norm.kept, c, 0}, (Rows){layer.kv_latent, c + o, 0});
  copy_columns(call, o, (Rows){layer.rotated, o, 0}, (Rows){rotated, c + o, 0});
}

/* In place; the product's output is kept separately. */
static void run_norm(const ItemCall *call) {
  const gboolean of_kv = call->argument;
  const SavedLayer layer = item_saved(call);
  Kernel kernel = {.kind = call->is_backward ? KERNEL_NORM_BACKWARD : KERNEL_NORM_FORWARD,
                   .norm = item_norm(call, item_block(call, BLOCK_LAYER), of_kv ? ROLE_K_NORM : ROLE_Q_NORM,
                                     of_kv ? &layer.k_norm : &layer.q_norm)};
  kernel.norm.is_rms = TRUE;
  kernel.norm.width = of_kv ? latent_of(call)->kv_rank : latent_of(call)->q_rank;
  kernel.norm.per_line = 1;
  kernel.norm.ld = of_kv ? kv_columns(call) : latent_of(call)->q_rank;
  if (call->is_backward) {
    kernel.norm.dy = kernel.norm.dx = output_gradient(call, of_kv ? KV_DOWN : Q_DOWN);
  } else {
    put_back(call, of_kv);
    kernel.norm.x = kernel.norm.y = of_kv ? layer.kv_latent : layer.q_latent;
  }
  item_launch(call, &kernel);
}

/* The last columns of each head of Q, or of its gradient. */
static void run_rope(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const gboolean is_backward = call->argument;
  const gint64 plain = local->model->head_dim - latent_of(call)->rope_dim;
  char *q = is_backward ? item_gradients(call).d_q : item_saved(call).qkv;
  item_rope(call, local->heads, latent_of(call)->rope_dim,
            local->q_width + (is_backward ? 0 : local->kv_width + local->v_width),
            q + plain * (gint64)local->element_bytes);
}

static void run_join(const ItemCall *call) {
  const Activations *activations = item_memory(call);
  const LocalSizes *local = item_local_sizes(call);
  const ModelLatent *latent = latent_of(call);
  const gint64 e = (gint64)local->element_bytes, plain = local->model->head_dim - latent->rope_dim;
  const gboolean is_backward = call->argument;
  char *joined = is_backward ? partial_gradient(call, KV_UP) : whole_input(call, KV_UP);
  char *kv = is_backward ? activations->latent.d_kv : item_saved(call).qkv + local->q_width * e;
  char *made = is_backward ? item_gradients(call).d_kv_up : activations->latent.made;
  const gint64 ld_kv = local->kv_width + local->v_width + (is_backward ? 0 : local->q_width);
  for (guint i = 0; i < item_documents(call)->len; i++) {
    const Document *document = &g_array_index(item_documents(call), Document, i);
    char *k = kv + document->first * ld_kv * e;
    Kernel kernel = {.kind = is_backward ? KERNEL_LATENT_SPLIT : KERNEL_LATENT_JOIN,
                     .latent = {.number = (guint8)call->trainer->parameters->number,
                                .rows = document->length * document->sequences,
                                .seq_len = document->length,
                                .n_heads = local->heads,
                                .plain_dim = plain,
                                .rotated_dim = latent->rope_dim,
                                .v_dim = latent->v_head_dim,
                                .ld_shared = kv_columns(call),
                                .ld_kv = ld_kv,
                                .base = item_rope_base,
                                .pieces = item_pieces(call),
                                .made = made + document->first * local->heads * (plain + latent->v_head_dim) * e,
                                .shared = joined + (document->first * kv_columns(call) + latent->kv_rank) * e,
                                .k = k,
                                .v = k + local->kv_width * e}};
    item_launch(call, &kernel);
  }
}

static void run_gradient_sum(const ItemCall *call) {
  char *sum = (char *)item_reduced(call);
  item_add(call, sum, item_memory(call)->latent.d_from_kv, sum);
}

const ItemKernel latent_kernels[] = {
    {"q_norm", run_norm, FALSE},
    {"kv_norm", run_norm, TRUE},
    {"q_norm.backward", run_norm, FALSE},
    {"kv_norm.backward", run_norm, TRUE},
    {"rope", run_rope, FALSE},
    {"rope.backward", run_rope, TRUE},
    {"kv_join", run_join, FALSE},
    {"kv_join.backward", run_join, TRUE},
    LINEAR_KERNELS("q_down", run_linear, Q_DOWN),
    LINEAR_KERNELS("q_up", run_linear, Q_UP),
    LINEAR_KERNELS("kv_down", run_linear, KV_DOWN),
    LINEAR_KERNELS("kv_up", run_linear, KV_UP),
    {"latent.grad_sum", run_gradient_sum, 0},
    {NULL, NULL, 0},
};
