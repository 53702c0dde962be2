/* Measured training steps: rows of CSV files that say what was run, on what, and how long a step took.
 *
 * Columns are found by name, in any order; unknown ones are left alone. Required: layers, hidden, heads, cluster,
 * step_time_s. An empty cell, like a column that is not there, stands for what is not known:
 *
 *     kv_heads       as many as heads            gated         1 with rotary positions, else 0
 *     ffn_hidden     4·hidden; gated ⅔ of that,  positions     rotary in a gated model, else learned
 *                    up to a multiple of 256     tied          0 with rotary positions, else 1
 *     vocab          51200 (GPT-2's in Megatron) gpus, dp, tp, pp, chunks, zero, zero_ranks, micro_batch,
 *     step_time_s    the run ended out of        global_batch, seq_len, schedule, recompute, precision, attention,
 *                    memory                      sequence_parallel, norm_kernel, overlap_grad, overlap_param,
 *                                                expert_dispatch, overlap_experts, cuda_graphs, expert_tp,
 *                                                mtp_layers, cp_comm, recompute_modules (parted by +),
 *                                                pipeline_layout (Megatron-LM's letters too): a Plan's
 *
 * A count may be written as 8 or 8.0, a switch as 0, 1, off, on, false or true. memory_gb is the framework's peak on
 * the fullest GPU (without context and libraries) in GB = 1e9 bytes, so a source that prints GiB has to be converted.
 *
 * framework names one of topologies/frameworks/, whose memory and time are then counted; any other word stands for
 * none. Notes may say more of it, and of norm_kernel where that is empty (row_notes.h); where they list no techniques
 * the model may tell which release it was (published_releases.h).
 *
 * A gated model is Llama-like: RMSNorm, no biases. Any other is GPT-like: LayerNorm with biases, and dropout, as
 * GPT-2's config and Megatron-LM's arguments have it, where positions are learned or ALiBi's (BigScience's runs
 * inherited these: train/tr11-176B-ml/README.md, 2022), but not with pytorch-fsdp: LLM Foundry's MPT trains without. */
#pragma once
#include "ablation.h"
#include "measured_row.h"
#include "named_models.h"
#include "published_releases.h"

typedef struct {
  GPtrArray *tables;           /* of CsvTable, in file order */
  GArray *rows;                /* of MeasuredRow */
  GHashTable *frameworks;      /* name → Framework, or NULL where none is described */
  NamedModels *named;          /* shipped models */
  PublishedReleases *releases; /* NULL: names are taken literally */
  Parts without;               /* parts of the model left out of their plans */
} MeasuredRows;

/* INPUT as csv_table_read(), and with file:line for a missing required column. A row that describes something not
 * modelled (heads that do not divide), cannot be read (a malformed or absurd number, an unknown word; the message
 * gives column, found and expected), or has more or fewer cells than the header is not an error: it gets a
 * `problem`, and the others are read.
 *
 * A row whose model_name is that of a shipped model with experts (named_models.h), with the row's hidden size and
 * heads, uses that model, cut to the row's layers; if the row states a number of experts, it must be the same.
 * Otherwise experts, experts_per_token and moe_ffn_hidden say what replaces every layer's MLP. A row whose
 * model_name is that of a shipped model without experts, with the row's layers too, takes that model's vocabulary if
 * its own differs by more than 10 %.
 *
 * `by_release`: a bare framework name is read as the release of the model's time; otherwise every name is taken
 * literally. */
MeasuredRows *measured_rows_read(char **files, int n_files, gboolean by_release, GError **error);
void measured_rows_free(MeasuredRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MeasuredRows, measured_rows_free)

/* Leave `parts` of the model out of every row's plan. */
void measured_rows_take_away(MeasuredRows *rows, Parts parts);

/* What was run, as text: equal for rows with the same prediction, whatever was measured. Owned by the caller. */
char *measured_row_run(const MeasuredRow *row);
