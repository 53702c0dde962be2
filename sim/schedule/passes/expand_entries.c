#include "expand_entries.h"

#include "lowering.h"

#include <string.h>

/* All −1. */
static gint32 *no_numbers(guint n) {
  return memset(g_new(gint32, n + 1), 0xff, sizeof(gint32) * (n + 1));
}

void expand_entries_init(ExpandEntries *entries, const Program *source, const Workload *workload, Program *target) {
  *entries = (ExpandEntries){.source = source,
                             .workload = workload,
                             .target = target,
                             .works = no_numbers(source->works->len),
                             .transfers = no_numbers(source->transfers->len),
                             .effects = no_numbers(source->effects->len),
                             .held = no_numbers(source->effects->len),
                             .dropped = no_numbers(source->effects->len),
                             .shares = g_hash_table_new(g_direct_hash, g_direct_equal),
                             .made = g_array_new(FALSE, FALSE, sizeof(ExpandEntry))};
  memset(entries->no_kernels, 0xff, sizeof entries->no_kernels);
  segments_init(&entries->segments, workload);
}

void expand_entries_clear(ExpandEntries *entries) {
  segments_clear(&entries->segments);
  g_free(entries->works);
  g_free(entries->transfers);
  g_free(entries->effects);
  g_free(entries->held);
  g_free(entries->dropped);
  g_hash_table_unref(entries->shares);
  g_array_unref(entries->made);
}

static const Segment *segment_of(const ExpandEntries *entries, const ExpandEntry *entry) {
  return &entries->segments.of[entry->piece][entry->phase].segments[entry->of];
}

static gint32 run_work(const ExpandEntries *entries, const ExpandEntry *entry) {
  const WorkItem *items = entries->workload->work[entry->piece][entry->phase].items;
  const Segment *segment = segment_of(entries, entry);
  Work work = {.phase = entry->phase,
               .recompute = items[segment->first_item].recompute,
               .stage = -1,
               .piece = entry->piece,
               .first_item = segment->first_item,
               .last_item = segment->last_item};
  for (int i = segment->first_item; i <= segment->last_item; i++)
    work.flops += items[i].flops;
  return program_work(entries->target, &work);
}

static gint32 item_transfer(const ExpandEntries *entries, const ExpandEntry *entry) {
  const int i = segment_of(entries, entry)->first_item;
  const WorkItem *item = &entries->workload->work[entry->piece][entry->phase].items[i];
  const Axis axis = (Axis)item->axis;
  const Group group = {.name = item->spans_tp ? "ep_tp" : axis_name(axis),
                       .axes = work_item_axes(item),
                       .pp_first = -1,
                       .pp_last = -1,
                       .charge = axis};
  const Transfer transfer = {.group = program_group(entries->target, &group),
                             .source = -1,
                             .target = -1,
                             .collective = item->collective,
                             .bytes = item->bytes,
                             .is_item = TRUE,
                             .piece = entry->piece,
                             .item = i};
  return program_transfer(entries->target, &transfer);
}

static gint32 kept_transfer(const ExpandEntries *entries, gint32 old) {
  const Program *source = entries->source;
  Transfer transfer = g_array_index(source->transfers, Transfer, old);
  if (transfer.group >= 0)
    transfer.group = program_group(entries->target, &g_array_index(source->groups, Group, transfer.group));
  return program_transfer(entries->target, &transfer);
}

static gint32 moved_effect(const ExpandEntries *entries, const ExpandEntry *entry) {
  Effect effect = g_array_index(entries->source->effects, Effect, entry->of);
  for (int i = 0; i < N_MEMORY && entry->kind != ENTRY_EFFECT; i++)
    *(entry->kind == ENTRY_HELD ? &effect.drop[i] : &effect.hold[i]) = 0;
  return program_effect(entries->target, &effect);
}

/* Activations of the op that are saved by pieces with kernels or collectives. */
static double saved_by_pieces(const ExpandEntries *entries, const Work *work) {
  int counts[N_PIECES];
  double saved = 0;
  work_pieces(work, counts);
  for (int piece = 0; piece < N_PIECES; piece++)
    if (entries->segments.of[piece][work->phase].n_segments > 0)
      saved += counts[piece] * entries->workload->memory[piece].saved_bytes;
  return saved;
}

static gint32 shared_effect(const ExpandEntries *entries, const ExpandEntry *entry) {
  const Effect whole = g_array_index(entries->source->effects, Effect, entry->of);
  const Work *work = &g_array_index(entries->source->works, Work, entry->work);
  Effect effect = {0};
  if (entry->roles & SHARE_FIRST)
    memcpy(effect.hold, whole.hold, sizeof effect.hold);
  if (entry->roles & SHARE_LAST)
    memcpy(effect.drop, whole.drop, sizeof effect.drop);
  double *saved = work->phase == PHASE_F ? effect.hold : effect.drop;
  if (entry->roles & (work->phase == PHASE_F ? SHARE_FIRST : SHARE_LAST))
    saved[MEMORY_ACTIVATIONS] -= saved_by_pieces(entries, work);
  if (entry->roles & SHARE_PIECE)
    saved[MEMORY_ACTIVATIONS] += entries->workload->memory[entry->piece].saved_bytes;
  return program_effect(entries->target, &effect);
}

static gint32 find(const ExpandEntries *entries, const ExpandEntry *entry) {
  switch ((EntryKind)entry->kind) {
  case ENTRY_RUN:
    return run_work(entries, entry);
  case ENTRY_NO_KERNELS:
    return program_work(entries->target,
                        &(Work){.phase = entry->phase, .stage = -1, .piece = -1, .first_item = -1, .last_item = -1});
  case ENTRY_ITEM:
    return item_transfer(entries, entry);
  case ENTRY_WORK:
    return program_work(entries->target, &g_array_index(entries->source->works, Work, entry->of));
  case ENTRY_TRANSFER:
    return kept_transfer(entries, entry->of);
  case ENTRY_SHARE:
    return shared_effect(entries, entry);
  default:
    return moved_effect(entries, entry);
  }
}

static gint32 make(ExpandEntries *entries, ExpandEntry entry) {
  entry.number = find(entries, &entry);
  g_array_append_val(entries->made, entry);
  return entry.number;
}

gint32 expand_entries_of_source(ExpandEntries *entries, EntryKind kind, gint32 of) {
  gint32 *const numbers[] = {[ENTRY_WORK] = entries->works,
                             [ENTRY_TRANSFER] = entries->transfers,
                             [ENTRY_EFFECT] = entries->effects,
                             [ENTRY_HELD] = entries->held,
                             [ENTRY_DROPPED] = entries->dropped};
  gint32 *number = &numbers[kind][of];
  if (*number < 0)
    *number = make(entries, (ExpandEntry){.kind = (guint8)kind, .of = of});
  return *number;
}

gint32 expand_entries_of_segment(ExpandEntries *entries, Phase phase, Piece piece, gint32 i) {
  Segment *segment = &entries->segments.of[piece][phase].segments[i];
  if (segment->entry < 0)
    segment->entry = make(entries, (ExpandEntry){.kind = segment->is_collective ? ENTRY_ITEM : ENTRY_RUN,
                                                 .phase = (guint8)phase,
                                                 .piece = (guint8)piece,
                                                 .of = i});
  return segment->entry;
}

gint32 expand_entries_no_kernels(ExpandEntries *entries, Phase phase) {
  gint32 *number = &entries->no_kernels[phase];
  if (*number < 0)
    *number = make(entries, (ExpandEntry){.kind = ENTRY_NO_KERNELS, .phase = (guint8)phase});
  return *number;
}

gboolean expand_entries_are_shared(const ExpandEntries *entries, gint32 of, gint32 work) {
  const Effect *effect = &g_array_index(entries->source->effects, Effect, of);
  const Work *cut = &g_array_index(entries->source->works, Work, work);
  const double *saved = cut->phase == PHASE_F ? effect->hold : effect->drop;
  return lowering_takes_turns(entries->workload) && (cut->phase == PHASE_F || cut->phase == PHASE_B) &&
         saved[MEMORY_ACTIVATIONS] >= saved_by_pieces(entries, cut); /* FALSE for a Program without effects */
}

gint32 expand_entries_share(ExpandEntries *entries, gint32 of, gint32 work, Piece piece, guint8 roles) {
  const gsize of_piece = roles & SHARE_PIECE ? (gsize)piece : 0;
  const gpointer key = GSIZE_TO_POINTER((gsize)of << 34 | (gsize)work << 6 | of_piece << 3 | roles);
  gpointer known = g_hash_table_lookup(entries->shares, key);
  if (known == NULL) {
    const ExpandEntry entry = {.kind = ENTRY_SHARE, .piece = (guint8)of_piece, .roles = roles, .of = of, .work = work};
    known = GINT_TO_POINTER(make(entries, entry) + 1);
    g_hash_table_insert(entries->shares, key, known);
  }
  return GPOINTER_TO_INT(known) - 1;
}

gboolean expand_entries_repeat(ExpandEntries *entries, const GArray *made) {
  for (guint i = 0; i < made->len; i++) {
    const ExpandEntry *entry = &g_array_index(made, ExpandEntry, i);
    if (find(entries, entry) != entry->number)
      return FALSE;
  }
  return TRUE;
}
