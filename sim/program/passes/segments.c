#include "segments.h"

static gboolean starts_segment(const WorkList *list, const gboolean *ends_run, int i) {
  if (i == 0)
    return TRUE;
  const WorkItem *item = &list->items[i], *previous = &list->items[i - 1];
  return item->kind == ITEM_COLLECTIVE || previous->kind == ITEM_COLLECTIVE || item->after >= 0 || ends_run[i - 1] ||
         item->recompute != previous->recompute || item->host_waits;
}

static SegmentList segments_of(const WorkList *list, gboolean counts_on_host) {
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

void segments_init(Segments *segments, const Workload *workload) {
  *segments = (Segments){0};
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++)
      segments->of[piece][phase] = segments_of(&workload->work[piece][phase], workload->method->counts_on_host);
}

void segments_clear(Segments *segments) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++)
      g_free(segments->of[piece][phase].segments);
}
