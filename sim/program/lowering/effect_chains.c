/* An op's terms form a chain in the order they were added, which is also the order in which their bytes are summed:
 * equal chains give bitwise equal sums. Ops with the same terms so far share the same last link, so adding a term to an
 * op is one lookup in a table of links, keyed by the previous link and the term:
 *
 *     none ── ACTIVATIONS F, work 0            the F of a first stage
 *       └──── DROP_BUFFER 3 ── ACTIVATIONS B, work 2        a B and what it received
 *                        └──── ACTIVATIONS F, work 1
 *
 * Each term is a whole number of bytes, so sums over ops are exact in any order, and everything held is dropped to the
 * last byte. */
#include "effect_chains.h"

#include <math.h>

/* The link of a term with the same index in Program.terms. */
typedef struct {
  gint32 number; /* of the sum among the Program's effects; −1: not looked up yet */
  Effect sum;    /* of the chain that ends here */
} Link;

struct EffectChains {
  Program *program;
  const Workload *workload;
  GArray *terms; /* of EffectTerm: the program's */
  GArray *links; /* of Link; [0] ends the chain without terms */
  gint32 *slots; /* link; 0 = free */
  guint n_slots; /* a power of two */
};

/* What a backward has dropped when it comes to a piece that was recomputed: the layers behind it that were kept. */
static double gone_before(const Workload *workload, gint32 lengths, const int counts[N_PIECES], int piece) {
  double gone = 0;
  for (int behind = piece + 1; behind < PIECE_HEAD && workload->method->recomputes == RECOMPUTE_BLOCK; behind++)
    gone += piece_is_apart((Piece)behind)
                ? counts[behind] * workload_memory(workload, lengths, (Piece)behind)->released_by_I
                : 0;
  return gone;
}

PieceMemory part_memory(const Workload *workload, const Part *part) {
  int counts[N_PIECES];
  PieceMemory sum = {0};
  part_pieces(part, counts);
  for (int piece = 0; piece < N_PIECES; piece++) {
    const PieceMemory *one = workload_memory(workload, part->lengths, (Piece)piece);
    sum.saved_bytes += counts[piece] * one->saved_bytes;
    sum.released_by_I += counts[piece] * one->released_by_I;
    sum.held_for_W += counts[piece] * one->held_for_W;
    if (counts[piece] > 0 && piece != PIECE_EMBEDDING)
      sum.transient_bytes =
          MAX(sum.transient_bytes, one->transient_bytes - gone_before(workload, part->lengths, counts, piece));
  }
  if (part->n_embedding > 0) { /* last in a backward, when the other pieces' saved activations are gone */
    const PieceMemory *embedding = workload_memory(workload, part->lengths, PIECE_EMBEDDING);
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
  return round(workload_table_bytes(workload));
}

/* Bytes per parameter, beyond what a rank holds of its gradient during the whole step. A layer's gradients that are
 * copied into the reduction's buffer, in its format, wait there; the head's are made once its logits' have gone. */
static double held_of_gradient(const Workload *workload, gboolean of_experts, gboolean of_stage, gboolean of_layers) {
  const Method *method = workload->method;
  const int shards = of_experts ? lowering_expert_shards(workload) : lowering_shards(workload);
  const gboolean leaves = workload_gradients_leave(workload, of_experts);
  if (shards <= 1 && !leaves)
    return 0;
  if (of_stage)
    return method->whole_gradient_bytes - (leaves ? 0 : method->recipe.gradients / shards);
  const gboolean is_copied = zero_shards_weights(method->zero) && method->time.zero3.buffers == ZERO3_BUFFERS_COPIED;
  return is_copied && of_layers ? method->whole_gradient_bytes : method->recipe.gradients;
}

double effect_gradient_bytes(const Workload *workload, const Part *part, gboolean of_stage) {
  const int n_tables = part->n_embedding + (workload->shared_parameters > 0 ? part->n_head : 0);
  const double experts = part_trained_experts(workload, part);
  const double others = part_trained(workload, part) - n_tables * lowering_common_table(workload) - experts;
  const gboolean of_layers = part->n_embedding + part->n_head == 0;
  return round(others * held_of_gradient(workload, FALSE, of_stage, of_layers) +
               experts * held_of_gradient(workload, TRUE, of_stage, of_layers));
}

double effect_table_gradient_bytes(const Workload *workload, gboolean of_stage) {
  return round(lowering_common_table(workload) * held_of_gradient(workload, FALSE, of_stage, FALSE));
}

/* Adds what `term` holds and drops. Each is a whole number of bytes. */
static void add_term(Effect *effect, const EffectTerm *term, const Program *program, const Workload *workload) {
  const TermKind kind = (TermKind)term->kind;
  const gint32 of = term->of;
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
    const double copies = round(parameters * workload->method->update_bytes);
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
    add_activations(effect, (ActionKind)term->action, &memory);
  } else {
    gboolean holds = kind == TERM_HOLD_GRADIENT || kind == TERM_HOLD_STAGE_GRADIENT;
    *(holds ? hold : drop) += effect_gradient_bytes(workload, &part, of_stage);
  }
}

Effect *effect_chains_sums(const Program *program, const Workload *workload) {
  const guint n = program->terms->len;
  Effect *sums = g_new0(Effect, n);
  for (guint i = 1; i < n; i++) {
    const EffectTerm *term = &g_array_index(program->terms, EffectTerm, i);
    sums[i] = sums[term->before];
    add_term(&sums[i], term, program, workload);
  }
  return sums;
}

/* --- chains --- */

EffectChains *effect_chains_new(Program *program, const Workload *workload) {
  EffectChains *chains = g_new(EffectChains, 1);
  g_assert(program->terms == NULL);
  program->terms = g_array_new(FALSE, TRUE, sizeof(EffectTerm));
  g_array_set_size(program->terms, 1);
  *chains = (EffectChains){program, workload, program->terms, g_array_new(FALSE, FALSE, sizeof(Link)), .n_slots = 256};
  chains->slots = g_new0(gint32, chains->n_slots);
  const Link none = {.number = 0};
  g_array_append_val(chains->links, none);
  return chains;
}

void effect_chains_free(EffectChains *chains) {
  if (chains == NULL)
    return;
  g_array_unref(chains->links);
  g_free(chains->slots);
  g_free(chains);
}

static inline Link *link_at(const EffectChains *chains, gint32 link) {
  return &g_array_index(chains->links, Link, link);
}

static inline const EffectTerm *term_at(const EffectChains *chains, gint32 link) {
  return &g_array_index(chains->terms, EffectTerm, link);
}

/* The slot of the link for this term, or the free slot for it. */
static inline gint32 *find_slot(const EffectChains *chains, const EffectTerm *term) {
  const guint64 spread = 0x9E3779B97F4A7C15u; /* 2⁶⁴ / golden ratio */
  const guint64 code = (guint64)term->kind << 40 | (guint64)term->action << 32 | (guint32)term->of;
  const guint64 hash = code * spread ^ ((guint64)term->before + 1) * (spread << 1 | 1);
  const guint mask = chains->n_slots - 1;
  for (guint at = (guint)(hash >> 40) & mask;; at = (at + 1) & mask) {
    gint32 *slot = &chains->slots[at];
    const EffectTerm *link = term_at(chains, *slot);
    if (*slot == 0 || (link->before == term->before && link->of == term->of && link->kind == term->kind &&
                       link->action == term->action))
      return slot;
  }
}

/* Doubles the slots, so that at least half of them stay free. */
static G_NO_INLINE void make_room(EffectChains *chains) {
  g_free(chains->slots);
  chains->n_slots *= 2;
  chains->slots = g_new0(gint32, chains->n_slots);
  for (gint32 i = 1; i < (gint32)chains->links->len; i++)
    *find_slot(chains, term_at(chains, i)) = i;
}

static G_NO_INLINE gint32 add_link(EffectChains *chains, const EffectTerm *term) {
  Link link = {-1, link_at(chains, term->before)->sum};
  add_term(&link.sum, term, chains->program, chains->workload);
  g_array_append_val(chains->links, link);
  g_array_append_vals(chains->terms, term, 1);
  const gint32 index = (gint32)chains->links->len - 1;
  if (2 * chains->links->len >= chains->n_slots)
    make_room(chains);
  return *find_slot(chains, term) = index;
}

void effect_chains_add(EffectChains *chains, gint32 *chain, TermKind kind, ActionKind action, gint32 of) {
  const EffectTerm term = {(guint8)kind, (guint8)action, of, *chain};
  const gint32 known = *find_slot(chains, &term);
  *chain = known != 0 ? known : add_link(chains, &term);
}

void effect_chains_number(EffectChains *chains, const OpList *list) {
  for (gint32 i = 0; i < list->n_ops; i++) {
    Link *last = link_at(chains, list->ops[i].effect);
    if (last->number < 0) {
      last->sum.source.chain = list->ops[i].effect;
      last->sum.source.is_apart = chains->workload->micro_batches != NULL && list->ops[i].effect != 0;
      last->number = program_effect(chains->program, &last->sum);
    }
    list->ops[i].effect = last->number;
  }
}
