/* How many layers each stage of the pipeline has: what `--pipeline-layout` says.
 *
 *     auto             alike where the layers divide; else, when layers + 2 divide, the embedding and the head count as
 *                      a layer each; else balanced, the larger stages in the middle (first and last carry embedding and
 *                      head). With n_mtp heads that predict a token further the first to be tried is that the last
 *                      stage counts each of these as two layers, its own and its head, and the model's head as one:
 *                      layers + 1 + 2·n_mtp divide (DeepSeek-V3's 61 layers, and 1, over 16)
 *     balanced         so that no rank has more FLOPs than need be (balance.h); here dealt as auto, to begin with
 *     embedding, loss, embedding+loss
 *                      these count as a layer of the first, of the last stage; all are alike then (Megatron-LM's
 *                      --account-for-embedding- and --account-for-loss-in-pipeline-split)
 *     7+8*14+6         layers of every stage, in the order in which a micro-batch passes them: 7, fourteen times 8, 6
 *     7+even+6         those in between have what is left, all alike (Megatron-LM's --decoder-first- and
 *                      --decoder-last-pipeline-num-layers); even alone: all of them
 *
 * There are pp × chunks stages, or half as many where two copies of the model run against each other (dualpipe): where
 * a stage lies is the schedule's. The embedding is on the first, heads are on the last; these two may be without a
 * layer, no other. */
#pragma once
#include <glib.h>

typedef struct {
  int n_layers; /* of the model */
  int n_mtp;    /* heads that predict a token further */
  int n_stages; /* ≥ 1 */
} PipelineCounts;

/* INPUT when `text` is no layout. */
gboolean pipeline_layout_check(const char *text, GError **error);
/* Layers of each stage: layers[n_stages]. `text`: a layout; NULL is auto. IMPOSSIBLE where the two clash: other counts
 * of stages or layers, a stage within that has none. Auto needs n_stages ≤ n_layers, or two more. */
gboolean pipeline_layout_deal(const char *text, const PipelineCounts *counts, int *layers, GError **error);
gboolean pipeline_layout_is_balanced(const char *text);
/* Auto (NULL too) or balanced: dealt out over any number of stages that auto knows. */
gboolean pipeline_layout_is_open(const char *text);
/* "7+8*14+6"; owned by the caller. */
char *pipeline_layout_text(const int *layers, int n_stages);

/* Whether a text is one of Megatron-LM's layouts, "Et*3|(tt|)*29,mL" (layout_letters.c). */
gboolean pipeline_layout_is_letters(const char *text);
/* It as a list, "3+2*29+0", and its heads that predict a token further, which stand with the loss. Owned by the caller;
 * NULL with INPUT. */
char *pipeline_layout_of_letters(const char *text, int *n_mtp, GError **error);
