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
  GPtrArray *tables;           /* of CsvTable, in the order of the files */
  GArray *rows;                /* of MeasuredRow */
  GHashTable *frameworks;      /* name → Framework, or NULL where none is described */
  NamedModels *named;          /* shipped models */
  PublishedReleases *releases; /* NULL: names are taken as they are */
  Parts without;               /* of the model: left out of their plans */
} MeasuredRows;

/* INPUT as csv_table_read(), and with file:line: a required column that is missing. A row that says what is not
 * modelled (heads that do not divide), what cannot be read (a number that is malformed or out of any sense, an unknown
 * word: column, found and expected are said), or more or fewer cells than the header, is no error: it has a `problem`,
 * and the others are read.
 *
 * A row whose model_name is that of a shipped model with experts (named_models.h), of the row's hidden size and heads,
 * is of that model, cut to the row's layers; its own experts, if it says how many, must then be as many. Else experts,
 * experts_per_token and moe_ffn_hidden say what stands in place of every layer's MLP. One whose model_name is that of a
 * shipped model without, of the row's layers too, has that model's vocabulary if its own differs by more than 10 %.
 *
 * `by_release`: a framework's name alone is read as of the model's time; else each name is taken as it is. */
MeasuredRows *measured_rows_read(char **files, int n_files, gboolean by_release, GError **error);
void measured_rows_free(MeasuredRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MeasuredRows, measured_rows_free)

/* Leave `parts` of the model out of every row's plan. */
void measured_rows_take_away(MeasuredRows *rows, Parts parts);

/* What was run, as text: the same for rows that are predicted alike, whatever was measured. Owned by the caller. */
char *measured_row_run(const MeasuredRow *row);
