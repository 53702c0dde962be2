/* What each struct of tensors takes of a piece of memory: sizes are counted and pointers handed out by one walk, with a
 * Carver that either adds up bytes (no memory yet) or cuts them off: so the two cannot disagree. Bytes of each tensor
 * are rounded up to 256. */
#pragma once
#include "activations.h"

typedef struct {
  char *base; /* NULL: only counts */
  gint64 bytes;
} Carver;

/* The MLP's, or the shared expert's; and the experts beside it. Scratch has room for either. */
typedef struct {
  gint64 ffn_width, up_width;
  gboolean has_experts, has_gate;
} LayerKind;

/* n elements; NULL where only counted. */
void *carve(Carver *carver, double n, int element_bytes);

/* Of the stream between layers on this rank, and of one of them. */
double carve_stream_elements(const Cut *cut);
int carve_element_bytes(const Cut *cut);
gboolean carve_is_flash(const Cut *cut);

LayerKind carve_kind_of(const Cut *cut, const StageLayers *layers, int layer);
LayerKind carve_any_kind(const Cut *cut);

/* What I reads, and what W reads (may be one carver), but for modules that are `dropped`. */
SavedLayer carve_layer(const Cut *cut, LayerKind kind, guint dropped, Carver *for_i, Carver *for_w);
/* Of dropped modules, what I makes again for W. */
SavedLayer carve_again(const Cut *cut, LayerKind kind, guint dropped, Carver *made);
/* What is dropped of the MLP, the shared expert or experts is in scratch. */
void carve_drop_mlp(LayerKind kind, guint dropped, const SavedLayer *scratch, SavedLayer *saved);
/* The same two of selective recompute by products. */
SavedLayer carve_every_other(const Cut *cut, LayerKind kind, Carver *for_i, Carver *for_w);
SavedLayer carve_again_every_other(const Cut *cut, LayerKind kind, Carver *made);
/* With `for_w` those that W reads alone. */
LayerGradients carve_gradients(const Cut *cut, LayerKind kind, gboolean for_w, Carver *carver);
/* Whether the linears read the stream as it is, which W needs then: no norms stand before the branches. */
gboolean carve_reads_stream(const Cut *cut);
/* Whether gradients of what branches add are others than the stream's: it is dropped, or normalised. */
gboolean carve_has_branch_gradients(const Cut *cut);
/* Whether W reads gradients of the stream as they are: neither gathered nor a branch's own. */
gboolean carve_w_reads_stream(const Cut *cut);
SavedHead carve_head(const Cut *cut, Carver *input, Carver *for_i, Carver *for_w);
SavedMtp carve_mtp(const Cut *cut, Carver *for_i, Carver *for_w);
MtpGradients carve_mtp_gradients(const Cut *cut, Carver *carver);
SavedNorm carve_embedding(const Cut *cut, Carver *for_i);
/* What no micro-batch keeps. */
BranchScratch carve_branch_scratch(const Cut *cut, Carver *carver);
LatentScratch carve_latent_scratch(const Cut *cut, Carver *carver);
MtpScratch carve_mtp_scratch(const Cut *cut, Carver *carver);
ExpertScratch carve_expert_scratch(const Cut *cut, Carver *carver);
ContextScratch carve_context_scratch(const Cut *cut, Carver *carver);
