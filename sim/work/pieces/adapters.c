/* Low-rank adapters beside frozen linears (LoRA, arXiv 2106.09685 §4.1): T tokens, X(T, k), rank r.
 *
 *     forward    Z(T, r) = X·A         Y(T, n) += s·Z·B
 *     backward   dZ = s·dY·Bᵀ          dX += dZ·Aᵀ          dB += s·Zᵀ·dY    dA += Xᵀ·dZ
 *
 * The weights' own gradient is not computed. A product that stands for several linears (queries, keys and values; a
 * gate and what it multiplies) has an adapter for each, with its own A, as Hugging Face's PEFT and torchtune have them.
 * Around the products are, as single operations, the scaling (read and write Y) and the sum (read two, write one),
 * fused one kernel of three passes; back the scaling of dY (2; fused none) and the sum of dX (3).
 *
 * Cut by tp like its linear: B along with columns, A along with rows; the other matrix is whole on each rank, and adds
 * a partial result before the linear's own reduction, so that activations need no further collective. Each rank has
 * then only a part of the whole matrix's gradient: tp sums those. Dropout of X is not counted. */
#include "pieces.h"

#define ADAPTER_NAMES(name)                                                                                            \
  {                                                                                                                    \
    name ".lora_a", name ".lora_b", name ".lora_sum", name ".lora_b.dgrad", name ".lora_a.dgrad",                      \
        name ".lora_grad_sum", name ".lora_b.wgrad", name ".lora_a.wgrad"                                              \
  }

static const AdapterNames adapter_names[N_ADAPTED] = {
    [ADAPTED_Q] = ADAPTER_NAMES("q_proj"),       [ADAPTED_K] = ADAPTER_NAMES("k_proj"),
    [ADAPTED_V] = ADAPTER_NAMES("v_proj"),       [ADAPTED_O] = ADAPTER_NAMES("o_proj"),
    [ADAPTED_GATE] = ADAPTER_NAMES("gate_proj"), [ADAPTED_UP] = ADAPTER_NAMES("up_proj"),
    [ADAPTED_DOWN] = ADAPTER_NAMES("down_proj")};

static gboolean is_row(LinearKind kind) {
  return kind == LINEAR_ATTN_OUT || kind == LINEAR_MLP_DOWN || kind == LINEAR_EXPERT_DOWN || kind == LINEAR_SHARED_DOWN;
}

/* `n` columns of the linear's output. */
static int add(const LocalSizes *local, const Linear *linear, LinearKind kind, Adapted adapted, gint64 n,
               Adapter *adapter) {
  if (!training_adapts(&local->method->training, adapted))
    return 0;
  *adapter = (Adapter){&adapter_names[adapted], n, linear->k, linear->tokens, linear->group};
  if (linear->is_whole)
    adapter->n_summed = local->sequence_parallel ? n + linear->k : 0;
  else if (linear->is_local ? local->method->expert_tp > 1 : local->tp > 1)
    adapter->n_summed = is_row(kind) ? n : linear->k;
  return 1;
}

int adapters_of(const LocalSizes *local, LinearKind kind, const Linear *linear, Adapter adapters[MOST_ADAPTERS]) {
  const gboolean gated = local->model->gated;
  int n = 0;
  switch (kind) {
  case LINEAR_QKV:
    n += add(local, linear, kind, ADAPTED_Q, local->q_width, &adapters[n]);
    n += add(local, linear, kind, ADAPTED_K, local->kv_width, &adapters[n]);
    n += add(local, linear, kind, ADAPTED_V, local->v_width, &adapters[n]);
    return n;
  case LINEAR_Q_DOWN:
  case LINEAR_Q_UP:
    return add(local, linear, kind, ADAPTED_Q, linear->n, adapters);
  case LINEAR_KV_DOWN:
  case LINEAR_KV_UP:
    n = add(local, linear, kind, ADAPTED_K, linear->n, adapters);
    return n > 0 ? n : add(local, linear, kind, ADAPTED_V, linear->n, adapters);
  case LINEAR_ATTN_OUT:
    return add(local, linear, kind, ADAPTED_O, linear->n, adapters);
  case LINEAR_MLP_UP:
  case LINEAR_EXPERT_UP:
  case LINEAR_SHARED_UP:
    n += gated ? add(local, linear, kind, ADAPTED_GATE, linear->n / 2, &adapters[n]) : 0;
    n += add(local, linear, kind, ADAPTED_UP, gated ? linear->n / 2 : linear->n, &adapters[n]);
    return n;
  case LINEAR_MLP_DOWN:
  case LINEAR_EXPERT_DOWN:
  case LINEAR_SHARED_DOWN:
    return add(local, linear, kind, ADAPTED_DOWN, linear->n, adapters);
  default: /* the router, and what is no part of a layer */
    return 0;
  }
}

static gboolean is_plain(const LocalSizes *local) {
  return local->method->time.kernels == FRAMEWORK_KERNELS_PLAIN;
}

static void product(ItemList *list, const char *name, MatmulLayout layout, const Adapter *adapter, gint64 n, gint64 k) {
  const double e = list->local->element_bytes, t = adapter->tokens, group = adapter->group;
  item_list_matmul(list, name, precision_info(list->local->method->precision)->element, layout,
                   (MatmulShape){adapter->group, adapter->tokens, n, k},
                   e * group * (t * (double)k + (double)k * (double)n + t * (double)n));
}

static void weight_gradient(ItemList *list, const char *name, const Adapter *adapter, gint64 n, gint64 k) {
  const double e = list->local->element_bytes, t = adapter->tokens;
  item_list_weight_gradient(list, name, precision_info(list->local->method->precision)->element,
                            (MatmulShape){adapter->group, n, k, adapter->tokens},
                            e * adapter->group * t * (double)(n + k));
}

static double tensor_bytes(const ItemList *list, const Adapter *adapter, gint64 width) {
  return list->local->element_bytes * adapter->group * adapter->tokens * width;
}

void adapters_forward(ItemList *list, LinearKind kind, const Linear *linear) {
  Adapter adapters[MOST_ADAPTERS];
  const gint64 r = list->local->method->training.rank;
  const int n = list->is_adapted ? adapters_of(list->local, kind, linear, adapters) : 0;
  for (int i = 0; i < n; i++) {
    const Adapter *adapter = &adapters[i];
    product(list, adapter->names->a, LAYOUT_TN, adapter, r, adapter->k);
    product(list, adapter->names->b, LAYOUT_TN, adapter, adapter->n, r);
    item_list_operations(list, adapter->names->sum, is_plain(list->local) ? 2 : 1,
                         (is_plain(list->local) ? 5 : 3) * tensor_bytes(list, adapter, adapter->n));
  }
}

void adapters_input_gradient(ItemList *list, LinearKind kind, const Linear *linear) {
  Adapter adapters[MOST_ADAPTERS];
  const gint64 r = list->local->method->training.rank;
  const int n = list->is_adapted ? adapters_of(list->local, kind, linear, adapters) : 0;
  for (int i = 0; i < n; i++) {
    const Adapter *adapter = &adapters[i];
    product(list, adapter->names->b_dgrad, LAYOUT_NN, adapter, r, adapter->n);
    product(list, adapter->names->a_dgrad, LAYOUT_NN, adapter, adapter->k, r);
    item_list_operations(list, adapter->names->grad_sum, is_plain(list->local) ? 2 : 1,
                         3 * tensor_bytes(list, adapter, adapter->k) +
                             (is_plain(list->local) ? 2 : 0) * tensor_bytes(list, adapter, adapter->n));
  }
}

void adapters_weight_gradient(ItemList *list, LinearKind kind, const Linear *linear) {
  Adapter adapters[MOST_ADAPTERS];
  const gint64 r = list->local->method->training.rank;
  const int n = list->is_adapted ? adapters_of(list->local, kind, linear, adapters) : 0;
  for (int i = 0; i < n; i++) {
    weight_gradient(list, adapters[i].names->b_wgrad, &adapters[i], adapters[i].n, r);
    weight_gradient(list, adapters[i].names->a_wgrad, &adapters[i], r, adapters[i].k);
  }
}
