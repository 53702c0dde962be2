/* A term is one number: kind, action, and which work, transfer or stage. Terms of an op are chained in the order they
 * came, which is the order in which their bytes are added: so equal recipes give equal sums, bit for bit. Recipes are
 * found by an open-addressing table over their terms. Each term is a whole number of bytes, so sums over ops are exact
 * in any order, and what is held is dropped to the last byte. */
#include "effect_recipes.h"

#include "offload_state.h"

#include <math.h>
#include <string.h>

struct Term {
  guint64 code;
  gint32 next; /* −1 last */
};

typedef struct {
  guint first, n; /* of codes */
} TermRange;

struct EffectRecipes {
  GArray *codes;   /* of guint64: the terms of all recipes */
  GArray *recipes; /* of TermRange; [0] has none */
  guint64 *wanted; /* terms of the op asked for */
  guint n_wanted;  /* room for them */
  gint32 *slots;   /* recipe; 0 = free */
  guint n_slots;   /* a power of two */
};

static guint64 term_code(TermKind kind, ActionKind action, gint32 of) {
  return (guint64)kind << 40 | (guint64)action << 32 | (guint32)of;
}

void term_list_init(TermList *list, int n_ops) {
  list->n_terms = 0;
  list->n_slots = 2 * n_ops + 8;
  list->terms = g_new(Term, list->n_slots);
  list->first = g_new(gint32, n_ops + 1);
  list->last = g_new(gint32, n_ops + 1);
  memset(list->first, 0xff, sizeof(gint32) * (gsize)(n_ops + 1));
}

void term_list_add(TermList *list, gint32 op, TermKind kind, ActionKind action, gint32 of) {
  gint32 index = list->n_terms++;
  if (index == list->n_slots) {
    list->n_slots *= 2;
    list->terms = g_renew(Term, list->terms, list->n_slots);
  }
  list->terms[index] = (Term){term_code(kind, action, of), -1};
  if (list->first[op] < 0)
    list->first[op] = index;
  else
    list->terms[list->last[op]].next = index;
  list->last[op] = index;
}

void term_list_clear(TermList *list) {
  g_clear_pointer(&list->terms, g_free);
  g_clear_pointer(&list->first, g_free);
  g_clear_pointer(&list->last, g_free);
}

EffectRecipes *effect_recipes_new(void) {
  EffectRecipes *recipes = g_new0(EffectRecipes, 1);
  TermRange none = {0};
  recipes->codes = g_array_new(FALSE, FALSE, sizeof(guint64));
  recipes->recipes = g_array_new(FALSE, FALSE, sizeof(TermRange));
  g_array_append_val(recipes->recipes, none);
  recipes->n_slots = 64;
  recipes->slots = g_new0(gint32, recipes->n_slots);
  return recipes;
}

void effect_recipes_free(EffectRecipes *recipes) {
  if (recipes == NULL)
    return;
  g_array_unref(recipes->codes);
  g_array_unref(recipes->recipes);
  g_free(recipes->wanted);
  g_free(recipes->slots);
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

static inline guint64 mix_code(guint64 hash, guint64 code) {
  hash = (hash ^ code) * 0x9E3779B97F4A7C15u; /* 2⁶⁴ / golden ratio */
  return hash ^ hash >> 32;
}

static guint hash_codes(const guint64 *codes, guint n) {
  guint64 hash = 0;
  for (guint i = 0; i < n; i++)
    hash = mix_code(hash, codes[i]);
  return (guint)hash;
}

static gint32 *find_slot(const EffectRecipes *recipes, guint hash, const guint64 *codes, guint n) {
  guint mask = recipes->n_slots - 1;
  for (guint at = hash & mask;; at = (at + 1) & mask) {
    gint32 *slot = &recipes->slots[at];
    if (*slot == 0)
      return slot;
    const TermRange *recipe = recipe_at(recipes, *slot);
    if (recipe->n == n && memcmp(codes_of(recipes, recipe), codes, n * sizeof *codes) == 0)
      return slot;
  }
}

static void make_room(EffectRecipes *recipes) {
  if (2 * recipes->recipes->len < recipes->n_slots)
    return;
  g_free(recipes->slots);
  recipes->n_slots *= 2;
  recipes->slots = g_new0(gint32, recipes->n_slots);
  for (guint i = 1; i < recipes->recipes->len; i++) {
    const TermRange *recipe = recipe_at(recipes, (gint32)i);
    const guint64 *codes = codes_of(recipes, recipe);
    *find_slot(recipes, hash_codes(codes, recipe->n), codes, recipe->n) = (gint32)i;
  }
}

/* Returns how many. */
static guint gather_codes(EffectRecipes *recipes, const TermList *list, gint32 op, guint *hash) {
  guint n = 0;
  guint64 mixed = 0;
  for (gint32 at = list->first[op]; at >= 0; at = list->terms[at].next) {
    if (n == recipes->n_wanted) {
      recipes->n_wanted = 2 * n + 8;
      recipes->wanted = g_renew(guint64, recipes->wanted, recipes->n_wanted);
    }
    recipes->wanted[n++] = list->terms[at].code;
    mixed = mix_code(mixed, list->terms[at].code);
  }
  *hash = (guint)mixed;
  return n;
}

gint32 effect_recipes_find(EffectRecipes *recipes, const TermList *list, gint32 op) {
  if (list->first[op] < 0)
    return EFFECT_RECIPE_NONE;
  guint hash, n = gather_codes(recipes, list, op, &hash);
  make_room(recipes);
  gint32 *slot = find_slot(recipes, hash, recipes->wanted, n);
  if (*slot == 0) {
    TermRange range = {recipes->codes->len, n};
    g_array_append_vals(recipes->codes, recipes->wanted, n);
    g_array_append_val(recipes->recipes, range);
    *slot = (gint32)recipes->recipes->len - 1;
  }
  return *slot;
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
  if (part->n_embedding > 0) { /* last of all in a backward: what the others saved is gone by then */
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
    break; /* optimizer: in place */
  }
}

/* ZeRO-3: what embedding and head share stays from the embedding's forward, which drops that much less, to the head's.
 */
static double kept_bytes(const Workload *workload, const Part *part) {
  const double bytes = workload->plan->recipe.weights;
  return round(part_parameters_once(workload, part, PIECE_HEAD) * bytes) -
         round(part_parameters_once(workload, part, PIECE_EMBEDDING) * bytes);
}

/* Of what is reduced into shards or leaves: all else is added to where it stays. */
static double gradient_bytes(const Workload *workload, const Part *part) {
  const double experts = part_expert_parameters(workload, part), others = part_parameters(workload, part) - experts;
  const gboolean others_go = lowering_shards(workload) > 1 || workload_gradients_leave(workload, FALSE);
  const gboolean experts_go = lowering_expert_shards(workload) > 1 || workload_gradients_leave(workload, TRUE);
  return round(((others_go ? others : 0) + (experts_go ? experts : 0)) * workload->plan->recipe.gradients);
}

static void add_term(Effect *effect, guint64 code, const Program *program, const Workload *workload) {
  const gint32 of = (gint32)(guint32)code;
  const TermKind kind = (TermKind)(code >> 40);
  double *hold = &effect->hold[MEMORY_BUFFERS], *drop = &effect->drop[MEMORY_BUFFERS];
  if (kind == TERM_HOLD_BUFFER || kind == TERM_DROP_BUFFER) {
    *(kind == TERM_HOLD_BUFFER ? hold : drop) += round(g_array_index(program->transfers, Transfer, of).bytes);
    return;
  }
  if (kind == TERM_HOLD_SAVED || kind == TERM_DROP_SAVED) {
    double *saved = kind == TERM_HOLD_SAVED ? effect->hold : effect->drop;
    saved[MEMORY_ACTIVATIONS] += g_array_index(program->transfers, Transfer, of).bytes;
    return;
  }
  gboolean of_stage = kind == TERM_HOLD_STAGE_GRADIENT || kind == TERM_DROP_STAGE_GRADIENT;
  const Part part = of_stage ? part_of_stage(workload, of) : part_of_work(&g_array_index(program->works, Work, of), 0);
  if (kind == TERM_ACTIVATIONS) {
    const PieceMemory memory = part_memory(workload, &part);
    add_activations(effect, (ActionKind)(code >> 32 & 0xff), &memory);
  } else if (kind == TERM_KEPT) {
    *drop += kept_bytes(workload, &part);
  } else {
    gboolean holds = kind == TERM_HOLD_GRADIENT || kind == TERM_HOLD_STAGE_GRADIENT;
    *(holds ? hold : drop) += gradient_bytes(workload, &part);
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
