/* How each struct of tensors divides a piece of memory. One walk both counts sizes and hands out pointers, with a
 * Carver that either only adds up bytes (no memory yet) or also returns pointers, so the two cannot disagree. Each
 * tensor's bytes are rounded up to 256. */
#pragma once
#include "activations.h"

typedef struct {
  char *base; /* NULL: only counts */
  gint64 bytes;
} Carver;

/* Widths of the MLP or the shared expert, and whether there are experts beside it. Scratch has room for any kind, and
 * for tensors that are not kept. */
typedef struct {
  gint64 ffn_width, up_width;
  gboolean has_experts, has_gate, is_scratch;
} LayerKind;

/* n elements; NULL if only counting. */
void *carve(Carver *carver, double n, int element_bytes);

/* Elements of the stream between layers on this rank, and bytes per element. */
double carve_stream_elements(const LocalSizes *local);
int carve_element_bytes(const LocalSizes *local);
gboolean carve_is_flash(const LocalSizes *local);

LayerKind carve_kind_of(const LocalSizes *local, const StageLayers *layers, int layer);
LayerKind carve_any_kind(const LocalSizes *local);

/* The products of a linear in fp8; also those of precisions that have none. */
NarrowShape carve_narrow_shape(const LocalSizes *local, LayerKind kind, NarrowLinear linear);
/* What a layer saves for I and for W (may be one carver), except modules in `dropped`. */
SavedLayer carve_layer(const LocalSizes *local, LayerKind kind, guint dropped, Carver *for_i, Carver *for_w);
/* What I recomputes for W, of dropped modules. */
SavedLayer carve_again(const LocalSizes *local, LayerKind kind, guint dropped, Carver *made);
/* Points dropped tensors of the MLP, the shared expert or the experts to scratch. */
void carve_drop_mlp(LayerKind kind, guint dropped, const SavedLayer *scratch, SavedLayer *saved);
/* carve_layer() and carve_again() for selective recompute by products. */
SavedLayer carve_every_other(const LocalSizes *local, LayerKind kind, Carver *for_i, Carver *for_w);
SavedLayer carve_again_every_other(const LocalSizes *local, LayerKind kind, Carver *made);
/* `for_w`: only those that W reads. */
LayerGradients carve_gradients(const LocalSizes *local, LayerKind kind, gboolean for_w, Carver *carver);
/* Whether there are no norms before the branches: the linears read the stream itself; and whether so does W. */
gboolean carve_reads_stream(const LocalSizes *local);
gboolean carve_w_reads_input(const LocalSizes *local);
/* Whether a branch's output gradient differs from the stream's, because of dropout or a post-norm. */
gboolean carve_has_branch_gradients(const LocalSizes *local);
/* Whether W reads the stream's gradients directly: they are neither gathered nor a branch's own. */
gboolean carve_w_reads_stream(const LocalSizes *local);
SavedHead carve_head(const LocalSizes *local, Carver *input, Carver *for_i, Carver *for_w);
SavedMtp carve_mtp(const LocalSizes *local, Carver *for_i, Carver *for_w);
MtpGradients carve_mtp_gradients(const LocalSizes *local, Carver *carver);
SavedNorm carve_embedding(const LocalSizes *local, Carver *for_i);
/* Scratch that no micro-batch keeps. */
char *carve_adapted(const LocalSizes *local, Carver *carver);
BranchScratch carve_branch_scratch(const LocalSizes *local, Carver *carver);
LatentScratch carve_latent_scratch(const LocalSizes *local, Carver *carver);
MtpScratch carve_mtp_scratch(const LocalSizes *local, Carver *carver);
ExpertScratch carve_expert_scratch(const LocalSizes *local, Carver *carver);
NarrowScratch carve_narrow_scratch(const LocalSizes *local, gboolean has_weight, Carver *carver);
ContextScratch carve_context_scratch(const LocalSizes *local, Carver *carver);
