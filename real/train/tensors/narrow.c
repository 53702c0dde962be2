#include "narrow.h"

#include <string.h>

enum { ALIGN_BYTES = 256 };

static const struct {
  const char *names[2]; /* of the items that are its products */
  NarrowInput input;
  gboolean is_column; /* tp gathers what it reads */
} linears[N_NARROW_LINEARS] = {
    [NARROW_QKV] = {{"qkv"}, INPUT_NORM1, TRUE},
    [NARROW_Q_DOWN] = {{"q_down"}, INPUT_NORM1, FALSE},
    [NARROW_Q_UP] = {{"q_up"}, INPUT_Q_LATENT, TRUE},
    [NARROW_KV_DOWN] = {{"kv_down"}, INPUT_NORM1, FALSE},
    [NARROW_KV_UP] = {{"kv_up"}, INPUT_KV_LATENT, TRUE},
    [NARROW_ATTN_OUT] = {{"attn_out"}, INPUT_ATTENTION, FALSE},
    [NARROW_MLP_UP] = {{"mlp_up", "shared_up"}, INPUT_NORM2, TRUE},
    [NARROW_MLP_DOWN] = {{"mlp_down", "shared_down"}, INPUT_ACTIVATION, FALSE},
    [NARROW_EXPERT_UP] = {{"expert_up"}, INPUT_ROWS, FALSE},
    [NARROW_EXPERT_DOWN] = {{"expert_down"}, INPUT_EXPERT_ACTIVATION, FALSE},
};

/* Whether the name is `linear`, or begins with it and a point. */
static gboolean belongs_to(const char *name, const char *linear) {
  const gsize length = linear != NULL ? strlen(linear) : 0;
  return length > 0 && strncmp(name, linear, length) == 0 && (name[length] == '\0' || name[length] == '.');
}

NarrowLinear narrow_linear_of(const char *item_name) {
  for (int linear = 0; linear < N_NARROW_LINEARS; linear++)
    if (belongs_to(item_name, linears[linear].names[0]) || belongs_to(item_name, linears[linear].names[1]))
      return (NarrowLinear)linear;
  return NARROW_NONE;
}

gboolean narrow_is_of_experts(NarrowLinear linear) {
  return linear == NARROW_EXPERT_UP || linear == NARROW_EXPERT_DOWN;
}

NarrowInput narrow_input_of(const LocalSizes *local, NarrowLinear linear) {
  if (linear == NARROW_Q_UP && local->model->latent.q_rank == 0)
    return INPUT_NORM1;
  return linear == NARROW_MLP_UP && local->shared_norm ? INPUT_NORM1 : linears[linear].input;
}

gboolean narrow_is_gathered(const LocalSizes *local, NarrowLinear linear) {
  return local->sequence_parallel && linears[linear].is_column;
}

static gboolean in_blocks(const LocalSizes *local) {
  return local->method->time.scales == SCALES_BLOCKS;
}

Number narrow_number(const LocalSizes *local) {
  return local->linear_bytes > 1 ? NUMBER_FP32 : NUMBER_FP8;
}

Fp8Scaling narrow_scaling(const LocalSizes *local, gboolean of_weight) {
  return !in_blocks(local) ? FP8_TENSOR : of_weight ? FP8_BLOCKS : FP8_ROWS;
}

Fp8Format narrow_format(const LocalSizes *local, gboolean of_gradient) {
  return of_gradient && !in_blocks(local) ? FP8_E5M2 : FP8_E4M3;
}

NarrowSize narrow_input_size(NarrowShape shape) {
  return (NarrowSize){shape.batch, shape.rows, shape.inputs};
}

NarrowSize narrow_gradient_size(NarrowShape shape) {
  return (NarrowSize){shape.batch, shape.rows, shape.outputs};
}

NarrowSize narrow_weight_size(NarrowShape shape) {
  return (NarrowSize){shape.batch, shape.outputs, shape.inputs};
}

NarrowSize narrow_turned(NarrowSize size) {
  return (NarrowSize){size.batch, size.columns, size.rows};
}

static gint64 align(gint64 bytes) {
  return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

static gint64 data_bytes(const LocalSizes *local, NarrowSize size) {
  return align(size.batch * size.rows * size.columns * (gint64)local->linear_bytes);
}

gint64 narrow_bytes(const LocalSizes *local, NarrowSize size, gboolean of_weight) {
  const gint64 n_scales = size.batch * fp8_n_scales(narrow_scaling(local, of_weight), size.rows, size.columns);
  return data_bytes(local, size) + align(n_scales * (gint64)sizeof(float));
}

float *narrow_scales(const LocalSizes *local, char *copy, NarrowSize size) {
  return narrow_number(local) == NUMBER_FP8 ? (float *)(gpointer)(copy + data_bytes(local, size)) : NULL;
}

gboolean narrow_is_used(const Workload *workload) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int i = 0; i < workload->work[piece][PHASE_F].n_items; i++)
      if (workload->work[piece][PHASE_F].items[i].number == NUMBER_FP8)
        return TRUE;
  return FALSE;
}
