/* Copies of the operands of linear layers for products in fp8. A product sums over the columns of both operands
 * (kernels/kernel.h), so each is copied as it is, turned, or both:
 *
 *     forward           Y(T,n)  = X · W            X as it is · W as it is       W: n × k
 *     input gradient    dX(T,k) = dY · Wᵀ          dY as it is · W turned
 *     weight gradient   dW(n,k) += dYᵀ · X         dY turned · X turned
 *
 * X and dY are copied by the items "….cast" and "….grad_cast". What is read by the next product only is in scratch.
 * What W reads is kept: X turned with what forward saves, in place of X; dY turned among the gradients. Where tp
 * gathers X again for W, its shards are saved and copied when they have been gathered.
 *
 * W is copied when a step first uses it; under ZeRO-3, whose weights come and go, at every use. The Program counts
 * neither these copies nor those of what is gathered again.
 *
 * Products of fp8 are accumulated in fp32; on GPUs forward with scales of tensors may be summed in less, as Transformer
 * Engine's are. Formats and scales: per tensor e4m3, of gradients e5m2, as Transformer Engine's Float8CurrentScaling;
 * of blocks e4m3, in 1 × 128 elements of X and dY and 128 × 128 of W, as DeepSeek-V3 (arXiv 2412.19437 §3.3.2). Every
 * rank finds the scales of its own shards, as they are powers of two (kernels/fp8.h).
 *
 * When a Program in fp8 is checked in fp32 (numerics.h), the copies are fp32 too. */
#pragma once
#include "fp8.h"
#include "local_sizes.h"
#include "workload.h"

/* The linears that multiply in fp8. MLP_UP and MLP_DOWN: the shared expert's too. */
typedef enum {
  NARROW_QKV,
  NARROW_Q_DOWN,
  NARROW_Q_UP,
  NARROW_KV_DOWN,
  NARROW_KV_UP,
  NARROW_ATTN_OUT,
  NARROW_MLP_UP,
  NARROW_MLP_DOWN,
  NARROW_EXPERT_UP,
  NARROW_EXPERT_DOWN,
  N_NARROW_LINEARS,
  NARROW_NONE = -1
} NarrowLinear;

/* What they read: several may read the same. */
typedef enum {
  INPUT_NORM1,
  INPUT_NORM2,
  INPUT_Q_LATENT,
  INPUT_KV_LATENT,
  INPUT_ATTENTION,
  INPUT_ACTIVATION,
  INPUT_ROWS,
  INPUT_EXPERT_ACTIVATION,
  N_NARROW_INPUTS
} NarrowInput;

/* `batch` products (experts) of rows × inputs with inputs × outputs; all 0 where there is none. */
typedef struct {
  gint64 batch, rows, inputs, outputs;
} NarrowShape;

/* `batch` matrices. */
typedef struct {
  gint64 batch, rows, columns;
} NarrowSize;

/* That an item belongs to, by its name, as a product or as what is done for one ("qkv.cast", "qkv.wgrad" …). */
NarrowLinear narrow_linear_of(const char *item_name);
gboolean narrow_is_of_experts(NarrowLinear linear);
NarrowInput narrow_input_of(const LocalSizes *local, NarrowLinear linear);
/* Whether tp gathers the linear's input. */
gboolean narrow_is_gathered(const LocalSizes *local, NarrowLinear linear);
/* Of the copies: FP8, or FP32. */
Number narrow_number(const LocalSizes *local);
Fp8Scaling narrow_scaling(const LocalSizes *local, gboolean of_weight);
Fp8Format narrow_format(const LocalSizes *local, gboolean of_gradient);
/* Of its operands, as they are, and the other way round. */
NarrowSize narrow_input_size(NarrowShape shape);
NarrowSize narrow_gradient_size(NarrowShape shape);
NarrowSize narrow_weight_size(NarrowShape shape);
NarrowSize narrow_turned(NarrowSize size);
/* A copy's bytes, scales included, whole multiples of what tensors are aligned to. */
gint64 narrow_bytes(const LocalSizes *local, NarrowSize size, gboolean of_weight);
/* The scales of a copy, behind it; NULL for copies in fp32. */
float *narrow_scales(const LocalSizes *local, char *copy, NarrowSize size);
/* Whether a workload's lists have products in fp8, whatever the precision of its plan. */
gboolean narrow_is_used(const Workload *workload);
