#include "binding.h"

#include <string.h>

#include "effect_chains.h"
#include "expand_entries.h"

/* --- a work --- */

static double items_flops(const Workload *workload, const Work *work) {
  const WorkItem *items = workload_list(workload, work->lengths, (Piece)work->piece, (Phase)work->phase)->items;
  double flops = 0;
  for (gint32 i = work->first_item; i <= work->last_item; i++)
    flops += items[i].flops;
  return flops;
}

static void bind_work(const Workload *workload, Work *work) {
  if (work->phase == PHASE_OPTIMIZER) {
    work->parameters = optimizer_parameters(workload, work->owner);
    work->passed = optimizer_passed(workload, work->owner);
    return;
  }
  const Part part = part_of_work(work, 0);
  work->flops = work->piece >= 0 ? items_flops(workload, work) : part_flops(workload, (Phase)work->phase, &part);
}

/* --- an effect --- */

void effect_take_part(const Workload *workload, Effect *effect) {
  const EffectSource *source = &effect->source;
  const Effect whole = *effect;
  const double none[N_MEMORY] = {0};
  const gboolean holds = source->part == EFFECT_SHARE ? source->roles & SHARE_FIRST : source->part != EFFECT_DROPPED;
  const gboolean drops = source->part == EFFECT_SHARE ? source->roles & SHARE_LAST : source->part != EFFECT_HELD;
  memcpy(effect->hold, holds ? whole.hold : none, sizeof none);
  memcpy(effect->drop, drops ? whole.drop : none, sizeof none);
  if (source->part != EFFECT_SHARE)
    return;
  double *saved = source->phase == PHASE_F ? effect->hold : effect->drop, saved_by_pieces = 0;
  for (int piece = 0; piece < N_PIECES; piece++)
    saved_by_pieces += source->saving[piece] * workload->memory[piece].saved_bytes;
  if (source->roles & (source->phase == PHASE_F ? SHARE_FIRST : SHARE_LAST))
    saved[MEMORY_ACTIVATIONS] -= saved_by_pieces;
  if (source->roles & SHARE_PIECE)
    saved[MEMORY_ACTIVATIONS] += workload->memory[source->piece].saved_bytes;
}

/* --- a program --- */

typedef struct {
  Program *program;
  const Workload *workload;
  const Effect *sums; /* [terms] */
} Binding;

static void bind_transfer(const Binding *binding, Transfer *transfer) {
  transfer->bytes = transfer_bytes(binding->workload, binding->program, transfer);
}

static void bind_effect(const Binding *binding, Effect *effect) {
  const Effect *sum = &binding->sums[effect->source.chain];
  memcpy(effect->hold, sum->hold, sizeof sum->hold);
  memcpy(effect->drop, sum->drop, sizeof sum->drop);
  effect_take_part(binding->workload, effect);
}

/* Of each table the numbers that have sources. */
static gboolean same_numbers(ProgramTable table, gconstpointer a, gconstpointer b) {
  if (table == TABLE_WORKS) {
    const Work *x = a, *y = b;
    return x->parameters == y->parameters && x->passed == y->passed && x->flops == y->flops;
  }
  if (table == TABLE_TRANSFERS)
    return ((const Transfer *)a)->bytes == ((const Transfer *)b)->bytes;
  const Effect *x = a, *y = b;
  for (int category = 0; category < N_MEMORY; category++)
    if (x->hold[category] != y->hold[category] || x->drop[category] != y->drop[category])
      return FALSE;
  return TRUE;
}

static void bind_entry(const Binding *binding, ProgramTable table, gpointer entry) {
  if (table == TABLE_WORKS)
    bind_work(binding->workload, entry);
  else if (table == TABLE_TRANSFERS)
    bind_transfer(binding, entry);
  else
    bind_effect(binding, entry);
}

static gboolean bind_table(const Binding *binding, ProgramTable table, GArray *entries) {
  const GArray *aliases = binding->program->aliases[table];
  const gsize size = g_array_get_element_size(entries);
  union {
    Work work;
    Transfer transfer;
    Effect effect;
  } bound;
  for (guint i = table == TABLE_EFFECTS; i < entries->len; i++) /* effect 0 is empty */
    bind_entry(binding, table, entries->data + i * size);
  for (guint i = 0; aliases != NULL && i < aliases->len; i++) {
    const char *alias = aliases->data + i * (PROGRAM_ALIAS_ENTRY + size);
    const gint32 number = *(const gint32 *)(const void *)alias;
    memcpy(&bound, alias + PROGRAM_ALIAS_ENTRY, size);
    bind_entry(binding, table, &bound);
    if (!same_numbers(table, &bound, entries->data + (gsize)number * size))
      return FALSE;
  }
  return TRUE;
}

static gboolean bind_effects(Program *program, const Program *whole, const Workload *workload) {
  g_autofree Effect *sums = effect_chains_sums(whole, workload);
  const Binding binding = {program, workload, sums};
  program_set_residents(program, workload);
  return bind_table(&binding, TABLE_EFFECTS, program->effects);
}

static gboolean bind_others(Program *program, const Workload *workload) {
  const Binding binding = {program, workload};
  return bind_table(&binding, TABLE_WORKS, program->works) && bind_table(&binding, TABLE_TRANSFERS, program->transfers);
}

gboolean program_bind(Program *program, const Workload *workload) {
  return bind_others(program, workload) && bind_effects(program, program, workload);
}

gboolean program_bind_expanded(Program *program, const Program *whole, const Workload *workload) {
  return bind_others(program, workload) && bind_effects(program, whole, workload);
}
