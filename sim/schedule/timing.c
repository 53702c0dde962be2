/* The arithmetic of timing.h. Everything rests on one recursion over a list's items, replay_items(): give it s and h,
 * it fills each item's start and end. The computed fields are two replays of it:
 *
 *     run    s = 0, h = −(host time of the whole list): every item is issued by 0, the streams alone decide
 *     tail   s = h = 0: paths from the streams are never longer than those from the first issue (launches ≥ 0)
 *
 * Both streams must have ended at a list's end, so a list that follows starts with both free at the same time; that is
 * what lets lists join by the formulas of timing.h.
 *
 * n equal lists in a row. Unrolling tail = max(tail₁ + run₂, host₁ + tail₂), the host is ahead up to the k-th list and
 * the streams decide from there on:
 *
 *     tail(n) = max over k in 0 … n−1 of   k·host + tail + (n−1−k)·run
 *
 * which is linear in k, so one of its ends is the maximum:  tail(n) = tail + (n−1)·max(run, host). */
#include "timing.h"

OpTime op_time_join(OpTime first, OpTime second) {
  return (OpTime){.run_ns = first.run_ns + second.run_ns,
                  .tail_ns = MAX(first.tail_ns + second.run_ns, first.host_ns + second.tail_ns),
                  .host_ns = first.host_ns + second.host_ns};
}

OpTime op_time_repeat(OpTime time, int n) {
  if (n <= 0)
    return (OpTime){0};
  return (OpTime){.run_ns = n * time.run_ns,
                  .tail_ns = time.tail_ns + (n - 1) * MAX(time.run_ns, time.host_ns),
                  .host_ns = n * time.host_ns};
}

typedef struct {
  gint64 start_ns, end_ns;
} Span;

/* A stretch of a list, and which of its items count: an expanded run leaves the tp stream to other ops. */
typedef struct {
  const TimedItem *items;
  int n_items;
  int first; /* place of items[0] in its list; `after` counts from the list's start */
  gboolean compute_only;
} Stretch;

static gboolean is_left_out(const Stretch *stretch, int i) {
  return stretch->compute_only && stretch->items[i].is_collective;
}

/* End of the item that item i waits for on the other stream; G_MININT64 when it waits for none of this stretch. */
static gint64 awaited_end(const Stretch *stretch, const Span *spans, int i) {
  int after = stretch->items[i].after - stretch->first;
  if (stretch->items[i].after < 0 || after < 0 || is_left_out(stretch, after))
    return G_MININT64;
  g_assert(after < i);
  return spans[after].end_ns;
}

/* The recursion. `spans` has room for every item; those left out are untouched. Returns when both streams ended. */
static gint64 replay_items(const Stretch *stretch, gint64 streams_ns, gint64 host_ns, Span *spans) {
  gint64 free_ns[2] = {streams_ns, streams_ns}; /* compute, tp */
  gint64 issued_ns = host_ns;
  for (int i = 0; i < stretch->n_items; i++) {
    const TimedItem *item = &stretch->items[i];
    if (is_left_out(stretch, i))
      continue;
    gint64 *stream_ns = &free_ns[item->is_collective != 0];
    issued_ns += item->launch_ns;
    spans[i].start_ns = MAX(MAX(*stream_ns, issued_ns), awaited_end(stretch, spans, i));
    *stream_ns = spans[i].end_ns = spans[i].start_ns + item->duration_ns;
  }
  return MAX(free_ns[0], free_ns[1]);
}

static gint64 host_time(const Stretch *stretch) {
  gint64 host_ns = 0;
  for (int i = 0; i < stretch->n_items; i++)
    if (!is_left_out(stretch, i))
      host_ns += stretch->items[i].launch_ns;
  return host_ns;
}

/* `spans` is left as the run has it: host far ahead, streams free at 0. */
static OpTime stretch_time(const Stretch *stretch, Span *spans) {
  OpTime time = {.host_ns = host_time(stretch)};
  time.tail_ns = replay_items(stretch, 0, 0, spans);
  time.run_ns = replay_items(stretch, 0, -time.host_ns, spans);
  return time;
}

/* What the compute stream does from `start_ns` to `end_ns`: kernels, and idle intervals charged to what ended them. */
static void charge_spans(const Stretch *stretch, const Span *spans, gint64 start_ns, gint64 end_ns,
                         gint64 charged[N_CHARGES]) {
  gint64 at_ns = start_ns;
  for (int i = 0; i < stretch->n_items; i++) {
    const TimedItem *item = &stretch->items[i];
    if (item->is_collective)
      continue;
    gboolean waited = awaited_end(stretch, spans, i) == spans[i].start_ns;
    charged[waited ? CHARGE_TP : CHARGE_HOST] += spans[i].start_ns - at_ns;
    charged[item->recompute ? CHARGE_RECOMPUTE : CHARGE_COMPUTE] += item->duration_ns;
    at_ns = spans[i].end_ns;
  }
  charged[CHARGE_TP] += end_ns - at_ns; /* only the tp stream can still be running */
}

/* Collective time beside running kernels. Both streams are in order, so two cursors meet every overlap. */
static gint64 hidden_time(const Stretch *stretch, const Span *spans) {
  gint64 hidden_ns = 0;
  int kernel = 0;
  for (int i = 0; i < stretch->n_items; i++) {
    if (!stretch->items[i].is_collective || is_left_out(stretch, i))
      continue;
    for (int k = kernel; k < stretch->n_items; k++) {
      if (stretch->items[k].is_collective)
        continue;
      if (spans[k].end_ns <= spans[i].start_ns)
        kernel = k + 1; /* over before this collective, so before all later ones */
      else if (spans[k].start_ns >= spans[i].end_ns)
        break;
      else
        hidden_ns += MIN(spans[k].end_ns, spans[i].end_ns) - MAX(spans[k].start_ns, spans[i].start_ns);
    }
  }
  return hidden_ns;
}

static Stretch whole_list(const TimedList *list) {
  return (Stretch){.items = list->items, .n_items = list->n_items};
}

void timed_list_finish(TimedList *list) {
  g_autofree Span *spans = g_new(Span, list->n_items);
  Stretch stretch = whole_list(list);
  list->time = stretch_time(&stretch, spans);
  for (int charge = 0; charge < N_CHARGES; charge++)
    list->charged[charge] = 0;
  charge_spans(&stretch, spans, 0, list->time.run_ns, list->charged);
  list->tp_hidden_ns = hidden_time(&stretch, spans);
}

static gboolean is_run(const Work *work) {
  return work->piece >= 0;
}

static Stretch run_stretch(const Timing *timing, const Work *work) {
  const TimedList *list = &timing->lists[work->piece][work->phase];
  g_assert(work->first_item >= 0 && work->first_item <= work->last_item && work->last_item < list->n_items);
  return (Stretch){.items = list->items + work->first_item,
                   .n_items = work->last_item - work->first_item + 1,
                   .first = work->first_item,
                   .compute_only = TRUE};
}

/* Pieces of a whole op in the order they run, with their counts. */
typedef struct {
  Piece piece;
  int n;
} PieceCount;

static void pieces_of(const Work *work, PieceCount pieces[N_PIECES]) {
  const int counts[N_PIECES] = {work->n_embedding, work->n_layers, work->n_head};
  for (int i = 0; i < N_PIECES; i++) {
    Piece piece = work->phase == PHASE_F ? i : N_PIECES - 1 - i;
    pieces[i] = (PieceCount){piece, counts[piece]};
  }
}

OpTime timing_of_work(const Timing *timing, const Work *work) {
  if (is_run(work)) {
    Stretch stretch = run_stretch(timing, work);
    g_autofree Span *spans = g_new(Span, stretch.n_items);
    return stretch_time(&stretch, spans);
  }
  PieceCount pieces[N_PIECES];
  pieces_of(work, pieces);
  OpTime time = {0};
  for (int i = 0; i < N_PIECES; i++)
    time = op_time_join(time, op_time_repeat(timing->lists[pieces[i].piece][work->phase].time, pieces[i].n));
  return time;
}

/* One stretch after another of a work, each replayed from where the one before it ended. */
typedef struct {
  Stretch stretch;
  Piece piece;
  Span *spans;
  gint64 start_ns, end_ns;
} Replayed;

typedef void (*ReplayVisitor)(const Replayed *replayed, gpointer data);

static gint64 replay_stretch(const Stretch *stretch, Piece piece, gint64 start_ns, gint64 *issue_ns, Span *spans,
                             ReplayVisitor visit, gpointer data) {
  Replayed replayed = {.stretch = *stretch, .piece = piece, .spans = spans, .start_ns = start_ns};
  replayed.end_ns = replay_items(stretch, start_ns, *issue_ns, spans);
  *issue_ns += host_time(stretch);
  visit(&replayed, data);
  return replayed.end_ns;
}

static gint64 replay_work(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns, ReplayVisitor visit,
                          gpointer data) {
  if (is_run(work)) {
    Stretch stretch = run_stretch(timing, work);
    g_autofree Span *spans = g_new(Span, stretch.n_items);
    return replay_stretch(&stretch, work->piece, start_ns, &issue_ns, spans, visit, data);
  }
  PieceCount pieces[N_PIECES];
  pieces_of(work, pieces);
  for (int i = 0; i < N_PIECES; i++) {
    Stretch stretch = whole_list(&timing->lists[pieces[i].piece][work->phase]);
    g_autofree Span *spans = g_new(Span, stretch.n_items);
    for (int n = 0; n < pieces[i].n; n++)
      start_ns = replay_stretch(&stretch, pieces[i].piece, start_ns, &issue_ns, spans, visit, data);
  }
  return start_ns;
}

typedef struct {
  void (*visit)(const ItemSpan *span, gpointer data);
  gpointer data;
} ItemVisitor;

static void visit_items(const Replayed *replayed, gpointer data) {
  const ItemVisitor *visitor = data;
  const Stretch *stretch = &replayed->stretch;
  for (int i = 0; i < stretch->n_items; i++) {
    if (is_left_out(stretch, i))
      continue;
    ItemSpan span = {&stretch->items[i], replayed->piece, replayed->spans[i].start_ns, replayed->spans[i].end_ns};
    visitor->visit(&span, visitor->data);
  }
}

gint64 timing_replay(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns,
                     void (*visit)(const ItemSpan *span, gpointer data), gpointer data) {
  ItemVisitor visitor = {visit, data};
  return replay_work(timing, work, start_ns, issue_ns, visit_items, &visitor);
}

typedef struct {
  gint64 charged[N_CHARGES];
  gint64 tp_hidden_ns;
} ChargeSum;

static void visit_charges(const Replayed *replayed, gpointer data) {
  ChargeSum *sum = data;
  charge_spans(&replayed->stretch, replayed->spans, replayed->start_ns, replayed->end_ns, sum->charged);
  sum->tp_hidden_ns += hidden_time(&replayed->stretch, replayed->spans);
}

/* The host far ahead: the lists' own sums, as often as they run. */
static void charge_ahead(const Timing *timing, const Work *work, ChargeSum *sum) {
  const int counts[N_PIECES] = {work->n_embedding, work->n_layers, work->n_head};
  for (int piece = 0; piece < N_PIECES; piece++) {
    const TimedList *list = &timing->lists[piece][work->phase];
    for (int charge = 0; charge < N_CHARGES; charge++)
      sum->charged[charge] += counts[piece] * list->charged[charge];
    sum->tp_hidden_ns += counts[piece] * list->tp_hidden_ns;
  }
}

/* Kernels of one kind on one stream: what is not theirs is the host's. */
static void charge_run(const Work *work, OpTime time, gint64 length_ns, ChargeSum *sum) {
  sum->charged[work->recompute ? CHARGE_RECOMPUTE : CHARGE_COMPUTE] += time.run_ns;
  sum->charged[CHARGE_HOST] += length_ns - time.run_ns;
}

/* A record may be longer or shorter than its replay (speed factors, jitter): the difference is the kernels'. What a
 * short one takes away beyond them comes from the waits, so that no charge turns negative. */
static void charge_difference(ChargeSum *sum, gint64 difference_ns) {
  for (int charge = 0; charge < N_CHARGES; charge++) {
    gint64 part_ns = MAX(difference_ns, -sum->charged[charge]);
    sum->charged[charge] += part_ns;
    difference_ns -= part_ns;
  }
}

void timing_charge(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns, gint64 end_ns,
                   gint64 charged[N_CHARGES], gint64 *tp_hidden_ns) {
  OpTime time = timing_of_work(timing, work);
  gint64 length_ns = MAX(time.run_ns, time.tail_ns > 0 ? issue_ns + time.tail_ns - start_ns : 0);
  ChargeSum sum = {0};
  if (is_run(work))
    charge_run(work, time, length_ns, &sum);
  else if (length_ns == time.run_ns)
    charge_ahead(timing, work, &sum);
  else
    replay_work(timing, work, start_ns, issue_ns, visit_charges, &sum);
  charge_difference(&sum, end_ns - start_ns - length_ns);
  for (int charge = 0; charge < N_CHARGES; charge++)
    charged[charge] += sum.charged[charge];
  *tp_hidden_ns += sum.tp_hidden_ns;
}

void timing_free(Timing *timing) {
  if (!timing)
    return;
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++)
      g_free(timing->lists[piece][phase].items);
  g_free(timing->works);
  g_free(timing->transfers);
  g_free(timing);
}
