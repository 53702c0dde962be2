/* A term is one number: kind, action, and which work, transfer or stage. An op's terms form a chain in the order they
 * were added, which is also the order in which their bytes are summed: equal recipes give bitwise equal sums. Ops
 * with the same terms so far share the same last link, so adding a term to an op is one lookup in a table of links,
 * keyed by the previous link and the term:
 *
 *     none ── ACTIVATIONS F, work 0            the F of a first stage
 *       └──── DROP_BUFFER 3 ── ACTIVATIONS B, work 2        a B and what it received
 *                        └──── ACTIVATIONS F, work 1
 *
 * The last links of all ops are their recipes. Each term is a whole number of bytes, so sums over ops are exact in
 * any order, and everything held is dropped to the last byte. */
#include "effect_recipes.h"

#include <math.h>

enum { NO_TERM = 0 }; /* the link that every chain begins with */

typedef struct {
  guint64 code;
  gint32 before; /* previous link */
  gint32 recipe; /* of the chain that ends here; −1: none yet */
} Link;

typedef struct {
  guint first, n; /* of codes */
} TermRange;

struct EffectRecipes {
  GArray *links;   /* of Link; [0] is empty */
  gint32 *slots;   /* link; 0 = free */
  guint n_slots;   /* a power of two */
  GArray *recipes; /* of TermRange; [0] is empty */
  GArray *codes;   /* of guint64: the terms of all recipes */
};

static guint64 term_code(TermKind kind, ActionKind action, gint32 of) {
  return (guint64)kind << 40 | (guint64)action << 32 | (guint32)of;
}

EffectRecipes *effect_recipes_new(void) {
  EffectRecipes *recipes = g_new(EffectRecipes, 1);
  *recipes = (EffectRecipes){.links = g_array_new(FALSE, FALSE, sizeof(Link)),
                             .n_slots = 256,
                             .recipes = g_array_new(FALSE, FALSE, sizeof(TermRange)),
                             .codes = g_array_new(FALSE, FALSE, sizeof(guint64))};
  recipes->slots = g_new0(gint32, recipes->n_slots);
  const Link no_term = {.recipe = EFFECT_RECIPE_NONE};
  const TermRange none = {0};
  g_array_append_val(recipes->links, no_term);
  g_array_append_val(recipes->recipes, none);
  return recipes;
}

void effect_recipes_free(EffectRecipes *recipes) {
  if (recipes == NULL)
    return;
  g_array_unref(recipes->links);
  g_free(recipes->slots);
  g_array_unref(recipes->recipes);
  g_array_unref(recipes->codes);
  g_free(recipes);
}

gint32 effect_recipes_count(const EffectRecipes *recipes) {
  return (gint32)recipes->recipes->len;
}

static const TermRange *recipe_at(const EffectRecipes *recipes, gint32 recipe) {
  return &g_array_index(recipes->recipes, TermRange, recipe);
}

static const guint64 *codes_of(const EffectRecipes *recipes, const TermRange *recipe) {
  return &g_array_index(recipes->codes, guint64, recipe->first);
}

static inline Link *link_at(const EffectRecipes *recipes, gint32 link) {
  return &g_array_index(recipes->links, Link, link);
}

/* The slot of the link for this term after `before`, or the free slot for it. */
static inline gint32 *find_slot(const EffectRecipes *recipes, gint32 before, guint64 code) {
  const guint64 spread = 0x9E3779B97F4A7C15u; /* 2⁶⁴ / golden ratio */
  const guint64 hash = code * spread ^ ((guint64)before + 1) * (spread << 1 | 1);
  const guint mask = recipes->n_slots - 1;
  for (guint at = (guint)(hash >> 40) & mask;; at = (at + 1) & mask) {
    gint32 *slot = &recipes->slots[at];
    if (*slot == 0 || (link_at(recipes, *slot)->code == code && link_at(recipes, *slot)->before == before))
      return slot;
  }
}

/* Doubles the slots, so that at least half of them stay free. */
static G_NO_INLINE void make_room(EffectRecipes *recipes) {
  g_free(recipes->slots);
  recipes->n_slots *= 2;
  recipes->slots = g_new0(gint32, recipes->n_slots);
  for (gint32 i = 1; i < (gint32)recipes->links->len; i++)
    *find_slot(recipes, link_at(recipes, i)->before, link_at(recipes, i)->code) = i;
}

static gint32 add_link(EffectRecipes *recipes, gint32 before, guint64 code) {
  const Link link = {code, before, -1};
  g_array_append_val(recipes->links, link);
  const gint32 index = (gint32)recipes->links->len - 1;
  if (2 * recipes->links->len >= recipes->n_slots)
    make_room(recipes);
  return *find_slot(recipes, before, code) = index;
}

void effect_recipes_add_term(EffectRecipes *recipes, gint32 *chain, TermKind kind, ActionKind action, gint32 of) {
  const guint64 code = term_code(kind, action, of);
  const gint32 known = *find_slot(recipes, *chain, code);
  *chain = known != 0 ? known : add_link(recipes, *chain, code);
}

static gint32 make_recipe(EffectRecipes *recipes, gint32 chain) {
  TermRange range = {recipes->codes->len, 0};
  for (gint32 link = chain; link != NO_TERM; link = link_at(recipes, link)->before)
    range.n++;
  g_array_set_size(recipes->codes, range.first + range.n);
  guint at = range.first + range.n;
  for (gint32 link = chain; link != NO_TERM; link = link_at(recipes, link)->before)
    g_array_index(recipes->codes, guint64, --at) = link_at(recipes, link)->code;
  g_array_append_val(recipes->recipes, range);
  return (gint32)recipes->recipes->len - 1;
}

void effect_recipes_of_chains(EffectRecipes *recipes, Op *ops, gint32 n_ops) {
  for (gint32 i = 0; i < n_ops; i++) {
    Link *last = link_at(recipes, ops[i].effect);
    if (last->recipe < 0)
      last->recipe = make_recipe(recipes, ops[i].effect);
    ops[i].effect = last->recipe;
  }
}

PieceMemory part_memory(const Workload *workload, const Part *part) {
  int counts[N_PIECES] = {[PIECE_EMBEDDING] = part->n_embedding,
                          [PIECE_DENSE_LAYER] = part->n_dense,
                          [PIECE_LAYER] = part->n_layers - part->n_dense,
                          [PIECE_HEAD] = part->n_head};
  PieceMemory sum = {0};
  for (int piece = 0; piece < N_PIECES; piece++) {
    const PieceMemory *one = &workload->memory[piece];
    sum.saved_bytes += counts[piece] * one->saved_bytes;
    sum.released_by_I += counts[piece] * one->released_by_I;
    sum.held_for_W += counts[piece] * one->held_for_W;
    if (counts[piece] > 0 && piece != PIECE_EMBEDDING)
      sum.transient_bytes = MAX(sum.transient_bytes, one->transient_bytes);
  }
  if (part->n_embedding > 0) { /* last in a backward, when the other pieces' saved activations are gone */
    const PieceMemory *embedding = &workload->memory[PIECE_EMBEDDING];
    const double gone = sum.saved_bytes - counts[PIECE_EMBEDDING] * embedding->saved_bytes;
    sum.transient_bytes = MAX(sum.transient_bytes, embedding->transient_bytes - gone);
  }
  return sum;
}

static void add_activations(Effect *effect, ActionKind action, const PieceMemory *memory) {
  double *hold = &effect->hold[MEMORY_ACTIVATIONS], *drop = &effect->drop[MEMORY_ACTIVATIONS];
  switch (action) {
  case ACTION_F:
    *hold += memory->saved_bytes;
    break;
  case ACTION_B:
    *hold += memory->transient_bytes;
    *drop += memory->transient_bytes + memory->saved_bytes;
    break;
  case ACTION_I:
    *hold += memory->transient_bytes + memory->held_for_W;
    *drop += memory->transient_bytes + memory->released_by_I;
    break;
  case ACTION_W:
    *drop += memory->saved_bytes - memory->released_by_I + memory->held_for_W;
    break;
  default:
    break; /* optimizer: updates in place */
  }
}

/* Of the matrix shared by embedding and head, as gathered. */
static double table_bytes(const Workload *workload) {
  return round((double)workload->shared_parameters * workload->method->recipe.weights);
}

/* Bytes per parameter, beyond what a rank holds of its gradient during the whole step. */
static double held_of_gradient(const Workload *workload, gboolean of_experts, gboolean of_stage) {
  const Method *method = workload->method;
  const int shards = of_experts ? lowering_expert_shards(workload) : lowering_shards(workload);
  const gboolean leaves = workload_gradients_leave(workload, of_experts);
  if (shards <= 1 && !leaves)
    return 0;
  return of_stage ? method->whole_gradient_bytes - (leaves ? 0 : method->recipe.gradients / shards)
                  : method->recipe.gradients;
}

double effect_gradient_bytes(const Workload *workload, const Part *part, gboolean of_stage) {
  const int n_tables = part->n_embedding + (workload->shared_parameters > 0 ? part->n_head : 0);
  const double experts = part_expert_parameters(workload, part);
  const double others = part_parameters(workload, part) - n_tables * lowering_common_table(workload) - experts;
  return round(others * held_of_gradient(workload, FALSE, of_stage) +
               experts * held_of_gradient(workload, TRUE, of_stage));
}

double effect_table_gradient_bytes(const Workload *workload, gboolean of_stage) {
  return round(lowering_common_table(workload) * held_of_gradient(workload, FALSE, of_stage));
}

static void add_term(Effect *effect, guint64 code, const Program *program, const Workload *workload) {
  const gint32 of = (gint32)(guint32)code;
  const TermKind kind = (TermKind)(code >> 40);
  double *hold = &effect->hold[MEMORY_BUFFERS], *drop = &effect->drop[MEMORY_BUFFERS];
  if (kind == TERM_HOLD_BUFFER || kind == TERM_DROP_BUFFER) {
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, of);
    const double table = transfer->n_tables > 0 && !transfer->of_experts ? table_bytes(workload) : 0;
    *(kind == TERM_HOLD_BUFFER ? hold : drop) += round(transfer->bytes) - table;
    return;
  }
  if (kind == TERM_HOLD_SAVED || kind == TERM_DROP_SAVED) {
    double *saved = kind == TERM_HOLD_SAVED ? effect->hold : effect->drop;
    saved[MEMORY_ACTIVATIONS] += g_array_index(program->transfers, Transfer, of).bytes;
    return;
  }
  if (kind == TERM_GRADIENT_COPIES) {
    const double parameters = g_array_index(program->works, Work, of).parameters;
    const double copies = round(parameters * workload->method->copied_gradient_bytes);
    *hold += copies;
    *drop += copies;
    return;
  }
  if (kind == TERM_HOLD_TABLE || kind == TERM_DROP_TABLE) {
    *(kind == TERM_HOLD_TABLE ? hold : drop) += table_bytes(workload);
    return;
  }
  if (kind == TERM_HOLD_TABLE_GRADIENT || kind == TERM_DROP_TABLE_GRADIENT) {
    *(kind == TERM_HOLD_TABLE_GRADIENT ? hold : drop) += effect_table_gradient_bytes(workload, of != 0);
    return;
  }
  gboolean of_stage = kind == TERM_HOLD_STAGE_GRADIENT || kind == TERM_DROP_STAGE_GRADIENT;
  const Part part = of_stage ? part_of_stage(workload, of) : part_of_work(&g_array_index(program->works, Work, of), 0);
  if (kind == TERM_ACTIVATIONS) {
    const PieceMemory memory = part_memory(workload, &part);
    add_activations(effect, (ActionKind)(code >> 32 & 0xff), &memory);
  } else {
    gboolean holds = kind == TERM_HOLD_GRADIENT || kind == TERM_HOLD_STAGE_GRADIENT;
    *(holds ? hold : drop) += effect_gradient_bytes(workload, &part, of_stage);
  }
}

Effect effect_recipes_evaluate(const EffectRecipes *recipes, gint32 index, const Program *program,
                               const Workload *workload) {
  const TermRange *recipe = recipe_at(recipes, index);
  const guint64 *codes = codes_of(recipes, recipe);
  Effect effect = {0};
  for (guint i = 0; i < recipe->n; i++)
    add_term(&effect, codes[i], program, workload);
  return effect;
}
