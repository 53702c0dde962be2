#include "expand_entries.h"

#include <string.h>

#include "lowering.h"

/* --- segments --- */

static gboolean starts_segment(const WorkList *list, const gboolean *ends_run, int i) {
  if (i == 0)
    return TRUE;
  const WorkItem *item = &list->items[i], *previous = &list->items[i - 1];
  return item->kind == ITEM_COLLECTIVE || previous->kind == ITEM_COLLECTIVE || item->after >= 0 || ends_run[i - 1] ||
         item->recompute != previous->recompute || item->host_waits;
}

static SegmentList segments_of(const WorkList *list, gboolean counts_on_host) {
  if (list->n_items == 0)
    return (SegmentList){0};
  g_autofree gboolean *ends_run = g_new0(gboolean, list->n_items + 1);
  g_autofree int *segment_of = g_new(int, list->n_items + 1);
  for (int i = 0; i < list->n_items; i++)
    if (list->items[i].after >= 0)
      ends_run[list->items[i].after] = TRUE;
  GArray *segments = g_array_new(FALSE, FALSE, sizeof(Segment));
  for (int i = 0; i < list->n_items; i++) {
    if (starts_segment(list, ends_run, i)) {
      Segment segment = {.is_collective = list->items[i].kind == ITEM_COLLECTIVE,
                         .is_awaited = list->items[i].host_waits || (list->items[i].counted && counts_on_host),
                         .axis = list->items[i].axis,
                         .first_item = i,
                         .entry = -1,
                         .waits_for = list->items[i].after >= 0 ? segment_of[list->items[i].after] : -1};
      g_array_append_val(segments, segment);
    }
    g_array_index(segments, Segment, segments->len - 1).last_item = i;
    segment_of[i] = segments->len - 1;
  }
  SegmentList result = {.n_segments = segments->len};
  result.segments = (Segment *)(void *)g_array_free(segments, FALSE);
  return result;
}

static void segments_init(Segments *segments, const Workload *workload) {
  *segments = (Segments){0};
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++)
      segments->of[piece][phase] = segments_of(&workload->work[piece][phase], workload->method->counts_on_host);
}

static void segments_clear(Segments *segments) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++)
      g_free(segments->of[piece][phase].segments);
}

/* --- entries --- */

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
                             .shares = g_hash_table_new(g_direct_hash, g_direct_equal)};
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
}

static gint32 run_work(const ExpandEntries *entries, Phase phase, Piece piece, gint32 lengths, const Segment *segment) {
  const WorkItem *items = workload_list(entries->workload, lengths, piece, phase)->items;
  Work work = {.phase = phase,
               .recompute = items[segment->first_item].recompute,
               .lengths = lengths,
               .stage = -1,
               .piece = piece,
               .first_item = segment->first_item,
               .last_item = segment->last_item};
  for (int i = segment->first_item; i <= segment->last_item; i++)
    work.flops += items[i].flops;
  return program_work(entries->target, &work);
}

static gint32 item_transfer(const ExpandEntries *entries, Phase phase, Piece piece, gint32 lengths,
                            const Segment *segment) {
  const int i = segment->first_item;
  const WorkItem *item = &workload_list(entries->workload, lengths, piece, phase)->items[i];
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
                             .is_item = TRUE,
                             .size = SIZE_ITEM,
                             .of = (gint32)phase,
                             .piece = piece,
                             .item = i,
                             .lengths = lengths};
  return sized_transfer(entries->target, entries->workload, &transfer);
}

static gint32 kept_transfer(const ExpandEntries *entries, gint32 old) {
  const Program *source = entries->source;
  Transfer transfer = g_array_index(source->transfers, Transfer, old);
  if (transfer.group >= 0)
    transfer.group = program_group(entries->target, &g_array_index(source->groups, Group, transfer.group));
  return program_transfer(entries->target, &transfer);
}

static gint32 part_effect(const ExpandEntries *entries, gint32 of, const EffectSource *part) {
  Effect effect = g_array_index(entries->source->effects, Effect, of);
  const EffectSource whole = effect.source;
  effect.source = *part;
  effect.source.chain = whole.chain;
  effect.source.is_apart = whole.is_apart;
  effect_take_part(entries->workload, &effect);
  return program_effect(entries->target, &effect);
}

static gint32 moved_effect(const ExpandEntries *entries, EntryKind kind, gint32 of) {
  const EffectSource part = {.part = kind == ENTRY_HELD      ? EFFECT_HELD
                                     : kind == ENTRY_DROPPED ? EFFECT_DROPPED
                                                             : EFFECT_WHOLE};
  return part_effect(entries, of, &part);
}

/* Pieces of the work with kernels or collectives. */
static void saving_pieces(const ExpandEntries *entries, const Work *work, gint32 saving[N_PIECES]) {
  int counts[N_PIECES];
  work_pieces(work, counts);
  for (int piece = 0; piece < N_PIECES; piece++)
    saving[piece] = entries->segments.of[piece][work->phase].n_segments > 0 ? counts[piece] : 0;
}

/* Activations of the op that they save. */
static double saved_by_pieces(const ExpandEntries *entries, const Work *work) {
  gint32 saving[N_PIECES];
  double saved = 0;
  saving_pieces(entries, work, saving);
  for (int piece = 0; piece < N_PIECES; piece++)
    saved += saving[piece] * entries->workload->memory[piece].saved_bytes;
  return saved;
}

static gint32 shared_effect(const ExpandEntries *entries, gint32 of, gint32 cut_work, Piece piece, guint8 roles) {
  const Work *work = &g_array_index(entries->source->works, Work, cut_work);
  EffectSource part = {.part = EFFECT_SHARE, .roles = roles, .phase = work->phase, .piece = (guint8)piece};
  saving_pieces(entries, work, part.saving);
  return part_effect(entries, of, &part);
}

static gint32 make_of_source(const ExpandEntries *entries, EntryKind kind, gint32 of) {
  if (kind == ENTRY_WORK)
    return program_work(entries->target, &g_array_index(entries->source->works, Work, of));
  return kind == ENTRY_TRANSFER ? kept_transfer(entries, of) : moved_effect(entries, kind, of);
}

gint32 expand_entries_of_source(ExpandEntries *entries, EntryKind kind, gint32 of) {
  gint32 *const numbers[] = {[ENTRY_WORK] = entries->works,
                             [ENTRY_TRANSFER] = entries->transfers,
                             [ENTRY_EFFECT] = entries->effects,
                             [ENTRY_HELD] = entries->held,
                             [ENTRY_DROPPED] = entries->dropped};
  gint32 *number = &numbers[kind][of];
  if (*number < 0)
    *number = make_of_source(entries, kind, of);
  return *number;
}

gint32 expand_entries_of_segment(ExpandEntries *entries, Phase phase, Piece piece, gint32 lengths, gint32 i) {
  Segment *segment = &entries->segments.of[piece][phase].segments[i];
  if (segment->entry < 0 || segment->lengths != lengths)
    segment->entry = segment->is_collective ? item_transfer(entries, phase, piece, lengths, segment)
                                            : run_work(entries, phase, piece, lengths, segment);
  segment->lengths = lengths;
  return segment->entry;
}

gint32 expand_entries_no_kernels(ExpandEntries *entries, Phase phase) {
  gint32 *number = &entries->no_kernels[phase];
  if (*number < 0)
    *number = program_work(entries->target,
                           &(Work){.phase = phase, .stage = -1, .piece = -1, .first_item = -1, .last_item = -1});
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
  const gpointer key = GSIZE_TO_POINTER((gsize)of << 35 | (gsize)work << 7 | of_piece << 3 | roles);
  gpointer known = g_hash_table_lookup(entries->shares, key);
  if (known == NULL) {
    known = GINT_TO_POINTER(shared_effect(entries, of, work, (Piece)of_piece, roles) + 1);
    g_hash_table_insert(entries->shares, key, known);
  }
  return GPOINTER_TO_INT(known) - 1;
}
