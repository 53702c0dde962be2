/* What an op holds and drops, as terms that say where each number comes from: the same for every micro-batch of a
 * stage, and for every workload under which the Program is the same. A few recipes stand for all ops; a workload makes
 * an Effect of each. */
#pragma once
#include "lowering.h"

typedef enum {
  TERM_HOLD_BUFFER, /* of a transfer: its bytes */
  TERM_DROP_BUFFER,
  TERM_ACTIVATIONS,   /* of a work: what this action holds and drops of them */
  TERM_KEPT,          /* of a work: dropped, what its head still needs of it (ZeRO-3; negative: the head's own) */
  TERM_HOLD_GRADIENT, /* of a work: the gradient of its parameters */
  TERM_DROP_GRADIENT,
  TERM_HOLD_STAGE_GRADIENT, /* of a stage */
  TERM_DROP_STAGE_GRADIENT,
  TERM_HOLD_SAVED, /* of a transfer: its bytes, of activations */
  TERM_DROP_SAVED,
  TERM_GRADIENT_COPIES, /* of a work, the optimizer's: held while it runs */
} TermKind;

enum { EFFECT_RECIPE_NONE = 0 }; /* the recipe without terms */

typedef struct EffectRecipes EffectRecipes;
EffectRecipes *effect_recipes_new(void);
/* Kept for one more, who frees it as well. */
EffectRecipes *effect_recipes_share(EffectRecipes *recipes);
void effect_recipes_free(EffectRecipes *recipes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(EffectRecipes, effect_recipes_free)

gint32 effect_recipes_count(const EffectRecipes *recipes);
/* One term more behind those of *chain, which is 0 as long as there are none. `of`: index of the work, transfer or
 * stage. `action`: TERM_ACTIVATIONS; else 0. */
void effect_recipes_add_term(EffectRecipes *recipes, gint32 *chain, TermKind kind, ActionKind action, gint32 of);
/* The effects of these ops, which are chains, become recipes with their terms, made where there are none. */
void effect_recipes_of_chains(EffectRecipes *recipes, Op *ops, gint32 n_ops);
/* With the works and transfers of `program`, whose flops and bytes are this workload's. */
Effect effect_recipes_evaluate(const EffectRecipes *recipes, gint32 recipe, const Program *program,
                               const Workload *workload);

/* Numbers the recipes of a program's ops in op->effect, all its steps; its works and transfers stand. Owned by the
 * caller. */
EffectRecipes *memory_recipes(Program *program, const Lowering *lowering, int n_steps);
/* Bytes each rank holds from start to end, added to OpList.resident. */
void memory_set_residents(Program *program, const Workload *workload);
