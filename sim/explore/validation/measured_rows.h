/* Measured training steps: rows of CSV files that say what was run, on what, and how long a step took.
 *
 * Columns are found by name, in any order; unknown ones are left alone. Required: layers, hidden, heads, cluster,
 * step_time_s. An empty cell, like a column that is not there, stands for what is not known:
 *
 *     kv_heads       as many as heads            gated         1 with rotary positions, else 0
 *     ffn_hidden     4·hidden; gated ⅔ of that,  positions     rotary in a gated model, else learned
 *                    up to a multiple of 256     tied          0 with rotary positions, else 1
 *     vocab          51200 (GPT-2's in Megatron) gpus, tp, seq_len and any other field of a plan (plan_fields.h):
 *     step_time_s    the run ended out of        what it is by default
 *                    memory
 *
 * A count may be written as 8 or 8.0, a switch as 0, 1, off, on, false or true. memory_gb is the peak on the fullest
 * GPU in GB = 1e9 bytes, so a source that prints GiB has to be converted. memory_of says who counted it: allocated (the
 * default: tensors), reserved (PyTorch's allocator) or device (the driver), as in shown_memory.h.
 *
 * framework names one of topologies/frameworks/, whose memory and time are then counted; any other word stands for
 * none. read_as names such a file too, for a row whose framework is known more exactly than by that name; where it is
 * empty, rules may say which release a framework's name stands for, and which norm_kernel ran (row_rules.h).
 *
 * A gated model is Llama-like: RMSNorm, no biases. Any other is GPT-like: LayerNorm with biases, and dropout, as
 * GPT-2's config and Megatron-LM's arguments have it, where positions are learned or ALiBi's (BigScience's runs
 * inherited these: train/tr11-176B-ml/README.md, 2022), but not with pytorch-fsdp: LLM Foundry's MPT trains without. */
#pragma once
#include "ablation.h"
#include "cluster.h"
#include "csv_table.h"
#include "model.h"
#include "shown_memory.h"

typedef struct {
  const CsvTable *table;  /* borrowed, as are the texts below */
  guint index;            /* index of the row in it */
  const char *id;         /* "" if unknown */
  const char *cluster;    /* as for cluster_read() */
  const Cluster *machine; /* that one; NULL with a problem */
  const Model *shipped;   /* the model of models/ that it is named for; NULL: none */
  const char *framework;  /* as the row names it, spelled like a file if it is one; "": not at all */
  const char *read_as;    /* the framework file that describes how it ran, by name; "": none */
  gboolean is_by_rule;    /* that file comes from a rule (row_rules.h), not from the row */
  int norm_kernel;        /* FrameworkKernels of its norms by a rule, if no column says; −1: none */
  double step_time_s;     /* NAN: ran out of memory */
  double memory_bytes;    /* NAN: unknown */
  ShownMemory memory_of;  /* what that counts */
  Model *model;           /* owned; NULL with a problem */
  Plan *plan;             /* owned, not completed; NULL with a problem */
  gint64 unused_vocab;    /* vocabulary the row states, if the model it is named for has another and replaces it;
                             0: none */
  char *problem;          /* owned; why the row cannot be read or modelled, else NULL */
} MeasuredRow;

/* The row's cell in the column of that name; "" if its table has no such column. Borrowed. */
const char *measured_row_cell(const MeasuredRow *row, const char *column);
/* "measured.csv:12". Owned by the caller. */
char *measured_row_place(const MeasuredRow *row);

/* How rows are read. */
typedef struct MeasuredAs {
  gboolean by_release;   /* rules may say what a framework's name stands for: a bare name is read as the release of the
                            model's time; otherwise every name is taken literally */
  const char *cluster;   /* the machine of all rows, whatever they say; NULL: as they say */
  const char *framework; /* likewise */
} MeasuredAs;

typedef struct {
  GPtrArray *tables;       /* of CsvTable, in file order */
  GArray *rows;            /* of MeasuredRow */
  GHashTable *frameworks;  /* name → Framework, of those described */
  GHashTable *machines;    /* name → cluster, or why it cannot be read */
  GStrv framework_names;   /* those there are */
  GPtrArray *models;       /* of Model: those of models/ */
  struct RowRules *rules;  /* row_rules.h */
  struct MeasuredAs as;    /* its texts borrowed */
  Parts without;           /* parts of the model left out of their plans */
  gboolean want_intervals; /* (set by who read them) predictions of whole plans get intervals */
} MeasuredRows;

/* INPUT as csv_table_read(), and with file:line for a missing required column. A row that describes something not
 * modelled (heads that do not divide), cannot be read (a malformed or absurd number, an unknown word; the message
 * gives column, found and expected), or has more or fewer cells than the header is not an error: it gets a
 * `problem`, and the others are read.
 *
 * A row whose model_name is that of a shipped model with experts (row_cells.h), with the row's hidden size and
 * heads, uses that model, cut to the row's layers; if the row states a number of experts, it must be the same.
 * Otherwise experts, experts_per_token and moe_ffn_hidden say what replaces every layer's MLP. A row whose
 * model_name is that of a shipped model without experts, with the row's layers too, takes that model's vocabulary if
 * its own differs by more than 10 %.
 *
 * The texts of `as` must outlive the rows. */
MeasuredRows *measured_rows_read(char **files, int n_files, const MeasuredAs *as, GError **error);
void measured_rows_free(MeasuredRows *rows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MeasuredRows, measured_rows_free)

/* Leave `parts` of the model out of every row's plan. */
void measured_rows_take_away(MeasuredRows *rows, Parts parts);

/* What was run, as text: equal for rows with the same prediction, whatever was measured. Owned by the caller. */
char *measured_row_run(const MeasuredRow *row);
