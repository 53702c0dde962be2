/* How many layers each pipeline stage has: the value of `--pipeline-layout`.
 *
 *     auto             equal if the layers divide; else, if layers + 2 divide, the embedding and the head count
 *                      as a layer each; else balanced, with the larger stages in the middle (first and last carry
 *                      embedding and head). With n_mtp multi-token-prediction heads it first tries to let the last
 *                      stage count each of them as two layers, its own and its head, and the model's head as one:
 *                      layers + 1 + 2·n_mtp divide (DeepSeek-V3's 61 layers, and 1, over 16)
 *     balanced         so that no rank has more FLOPs than necessary (balance.h); here dealt as auto, to begin with
 *     embedding, loss, embedding+loss
 *                      these count as a layer of the first, of the last stage; then all are equal (Megatron-LM's
 *                      --account-for-embedding- and --account-for-loss-in-pipeline-split)
 *     7+8*14+6         layers of each stage, in the order a micro-batch passes them: 7, fourteen times 8, 6
 *     7+even+6         the stages in between share the rest equally (Megatron-LM's --decoder-first- and
 *                      --decoder-last-pipeline-num-layers); even alone: all of them
 *
 * There are pp × chunks stages, or half as many if two copies of the model run in opposite directions (dualpipe). The
 * schedule decides which rank has which stage. The embedding is on the first stage and the heads on the last; only
 * these two may have no layers. */
#pragma once
#include <glib.h>

typedef struct {
  int n_layers; /* of the model */
  int n_mtp;    /* multi-token-prediction heads */
  int n_stages; /* ≥ 1 */
} PipelineCounts;

/* INPUT if `text` is not a layout. */
gboolean pipeline_layout_check(const char *text, GError **error);
/* Layers of each stage: layers[n_stages]. `text`: a layout; NULL is auto. IMPOSSIBLE if the layout does not fit the
 * counts: another number of stages or layers, or a middle stage without layers. Auto needs n_stages ≤ n_layers, or
 * n_stages = n_layers + 2. */
gboolean pipeline_layout_deal(const char *text, const PipelineCounts *counts, int *layers, GError **error);
gboolean pipeline_layout_is_balanced(const char *text);
/* Auto (NULL too) or balanced: works for any number of stages that auto accepts. */
gboolean pipeline_layout_is_open(const char *text);
/* "7+8*14+6"; owned by the caller. */
char *pipeline_layout_text(const int *layers, int n_stages);

/* Whether `text` is one of Megatron-LM's layouts, "Et*3|(tt|)*29,mL" (layout_letters.c). */
gboolean pipeline_layout_is_letters(const char *text);
/* Convert it to a list, "3+2*29+0", and count its multi-token-prediction heads, which stand with the loss. Owned by
 * the caller; NULL with INPUT. */
char *pipeline_layout_of_letters(const char *text, int *n_mtp, GError **error);
