/* What an op holds and drops, as a chain of terms that name the source of each number: the same for every micro-batch
 * of a stage, so that few chains cover all ops. */
#pragma once
#include "lowering.h"

typedef enum {
  TERM_HOLD_BUFFER, /* of a transfer: its bytes */
  TERM_DROP_BUFFER,
  TERM_ACTIVATIONS,   /* of a work: what the action holds and drops of its activations */
  TERM_HOLD_GRADIENT, /* of a work: the gradient of its parameters */
  TERM_DROP_GRADIENT,
  TERM_HOLD_STAGE_GRADIENT, /* of a stage: the gradient of all its parameters */
  TERM_DROP_STAGE_GRADIENT,
  TERM_HOLD_TABLE, /* the matrix that embedding and head share, which the terms above leave out */
  TERM_DROP_TABLE,
  TERM_HOLD_TABLE_GRADIENT, /* of 0, or 1 if stages are reduced as a whole: the gradient of the matrix that both add
                               to, likewise left out above */
  TERM_DROP_TABLE_GRADIENT,
  TERM_HOLD_SAVED, /* of a transfer: its bytes, held as activations */
  TERM_DROP_SAVED,
  TERM_GRADIENT_COPIES, /* of an optimizer's work: copies held while it runs */
} TermKind;

/* Bytes of a part's gradients beyond what the state counts for the whole step: of those that are reduced into shards or
 * leave the GPU; all others accumulate in place. A whole stage's (`of_stage`) are held in the precision of their
 * reduction, and their shard does not exist before that. The table that embedding and head of a rank both add to
 * (lowering_common_table()) is counted separately, by the second function: a rank has one. */
double effect_gradient_bytes(const Workload *workload, const Part *part, gboolean of_stage);
double effect_table_gradient_bytes(const Workload *workload, gboolean of_stage);

/* [terms] the sum of each chain that ends there. Owned by the caller. */
Effect *effect_chains_sums(const Program *program, const Workload *workload);

typedef struct EffectChains EffectChains;
/* Begins the Program's terms, of its works and transfers, all of which must be there. */
EffectChains *effect_chains_new(Program *program, const Workload *workload);
void effect_chains_free(EffectChains *chains);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EffectChains, effect_chains_free)

/* Appends a term to *chain, which starts as 0. `of`: index of the work, transfer or stage. `action`: for
 * TERM_ACTIVATIONS; else 0. */
void effect_chains_add(EffectChains *chains, gint32 *chain, TermKind kind, ActionKind action, gint32 of);
/* Replaces the chains of a list's ops by the Program's effects that they come to, in op order. */
void effect_chains_number(EffectChains *chains, const OpList *list);
