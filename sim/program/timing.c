/* The arithmetic of timing.h. Everything rests on one recursion over a list's items, replay_items(): given s and h,
 * it fills in each item's start and end. The computed fields come from two replays:
 *
 *     run    s = 0, h = −(host time of the whole list): every item is issued by 0, only the streams matter
 *     tail   s = h = 0: paths from the streams are never longer than those from the first issue (launches ≥ 0)
 *
 * At a list's end all streams must have ended, so the next list starts with all of them free at the same time; that
 * is why lists join by the formulas of timing.h.
 *
 * For n equal lists in a row, unrolling tail = max(tail₁ + run₂, host₁ + tail₂) gives a maximum over k, the number of
 * lists during which the host limits; from the k-th on, the streams do:
 *
 *     tail(n) = max over k in 0 … n−1 of   k·host + tail + (n−1−k)·run
 *
 * It is linear in k, so the maximum is at one of the ends:  tail(n) = tail + (n−1)·max(run, host). */
#include "timing.h"

#include <string.h>

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
  gint64 issue_ns; /* when the host begins to issue it */
  gint64 start_ns, end_ns;
} Span;

/* A stretch of a list, and which of its items count: in an expanded run, collectives belong to other ops. */
typedef struct {
  const TimedItem *items;
  int n_items;
  int first; /* index of items[0] in its list; `after` counts from the list's start */
  gboolean compute_only;
} Stretch;

static gboolean is_left_out(const Stretch *stretch, int i) {
  return stretch->compute_only && stretch->items[i].is_collective;
}

/* End of the item on another stream that item i waits for; G_MININT64 if it waits for none in this stretch. */
static inline gint64 awaited_end(const Stretch *stretch, const Span *spans, int i) {
  int after = stretch->items[i].after - stretch->first;
  if (stretch->items[i].after < 0 || after < 0 || is_left_out(stretch, after))
    return G_MININT64;
  g_assert(after < i);
  return spans[after].end_ns;
}

/* 0: compute, then one per axis. */
static int stream_of(const TimedItem *item) {
  return item->is_collective ? 1 + item->axis : 0;
}

/* The recursion. `spans` has room for every item; skipped items are left untouched. Returns when all streams have
 * ended. */
static gint64 replay_items(const Stretch *stretch, gint64 streams_ns, gint64 host_ns, Span *spans) {
  gint64 free_ns[1 + N_ITEM_AXES] = {streams_ns, streams_ns, streams_ns, streams_ns}, end_ns = streams_ns;
  G_STATIC_ASSERT(G_N_ELEMENTS(free_ns) == 4);
  gint64 issued_ns = host_ns;
  for (int i = 0; i < stretch->n_items; i++) {
    const TimedItem *item = &stretch->items[i];
    if (is_left_out(stretch, i))
      continue;
    gint64 *stream_ns = &free_ns[stream_of(item)];
    spans[i].issue_ns = issued_ns;
    issued_ns += item->launch_ns;
    spans[i].start_ns = MAX(MAX(*stream_ns, issued_ns), awaited_end(stretch, spans, i));
    *stream_ns = spans[i].end_ns = spans[i].start_ns + item->duration_ns;
    end_ns = MAX(end_ns, spans[i].end_ns);
  }
  return end_ns;
}

static gint64 host_time(const Stretch *stretch) {
  gint64 host_ns = 0;
  for (int i = 0; i < stretch->n_items; i++)
    if (!is_left_out(stretch, i))
      host_ns += stretch->items[i].launch_ns;
  return host_ns;
}

/* `spans` as in the run of a whole list. How long before the streams are free the host must begin, so that every item
 * starts as in the run. The list's end is not enough to tell: an item off the critical path may be late without moving
 * it. */
static gint64 lead_of(const TimedList *list, const Span *spans) {
  gint64 lead_ns = G_MININT64, issued_ns = 0;
  for (int i = 0; i < list->n_items; i++) {
    issued_ns += list->items[i].launch_ns;
    lead_ns = MAX(lead_ns, issued_ns - spans[i].start_ns);
  }
  return lead_ns;
}

/* What the compute stream does in a part of a replay. */
typedef struct {
  gint64 from_ns, to_ns; /* the part */
  ChargeSplit split;
} ChargeSum;

static gint64 overlap(const ChargeSum *sum, gint64 from_ns, gint64 to_ns) {
  return MAX(MIN(to_ns, sum->to_ns) - MAX(from_ns, sum->from_ns), 0);
}

static void charge(ChargeSum *sum, Charge kind, gint64 from_ns, gint64 to_ns) {
  sum->split.charged_ns[kind] += overlap(sum, from_ns, to_ns);
}

/* The previous collective on the same axis; −1 none. */
static int collective_before(const Stretch *stretch, int i, int axis) {
  while (--i >= 0 && !(stretch->items[i].is_collective && stretch->items[i].axis == axis))
    ;
  return i;
}

static const Charge axis_charges[N_ITEM_AXES] = {[AXIS_TP] = CHARGE_TP, [AXIS_CP] = CHARGE_CP, [AXIS_EP] = CHARGE_EP};

/* The collective that must end before `i` may start: the previous one on its stream, or one on another axis that it
 * waits for; −1 none. */
static int collective_ahead(const Stretch *stretch, const Span *spans, int i) {
  const int before = collective_before(stretch, i, stretch->items[i].axis);
  const int after = stretch->items[i].after - stretch->first;
  if (stretch->items[i].after < 0 || after < 0 || !stretch->items[after].is_collective)
    return before;
  return before < 0 || spans[after].end_ns > spans[before].end_ns ? after : before;
}

/* The compute stream is idle in [from, to) until collective `i` ends. Charges its axis while it runs, the collective
 * it follows while that runs, and the host while it only waits for its launch. */
static void charge_wait(const Stretch *stretch, const Span *spans, int i, gint64 from_ns, gint64 to_ns,
                        ChargeSum *sum) {
  while (to_ns > from_ns) {
    gint64 start_ns = CLAMP(spans[i].start_ns, from_ns, to_ns);
    charge(sum, axis_charges[stretch->items[i].axis], start_ns, to_ns);
    int before = collective_ahead(stretch, spans, i);
    gboolean follows = before >= 0 && spans[before].end_ns > from_ns && spans[before].end_ns >= spans[i].issue_ns;
    to_ns = follows ? MIN(spans[before].end_ns, start_ns) : from_ns;
    charge(sum, CHARGE_HOST, to_ns, start_ns);
    i = before;
  }
}

/* The collective that ends last; −1 none. */
static int last_collective(const Stretch *stretch, const Span *spans) {
  int last = -1;
  for (int axis = 0; axis < N_ITEM_AXES; axis++) {
    int i = collective_before(stretch, stretch->n_items, axis);
    if (i >= 0 && (last < 0 || spans[i].end_ns > spans[last].end_ns))
      last = i;
  }
  return last;
}

/* Covers start_ns to end_ns: kernels, and idle intervals charged to what ended them. */
static void charge_spans(const Stretch *stretch, const Span *spans, gint64 start_ns, gint64 end_ns, ChargeSum *sum) {
  gint64 at_ns = start_ns;
  for (int i = 0; i < stretch->n_items; i++) {
    const TimedItem *item = &stretch->items[i];
    if (item->is_collective)
      continue;
    gint64 awaited_ns = awaited_end(stretch, spans, i);
    if (awaited_ns > at_ns) {
      charge_wait(stretch, spans, item->after - stretch->first, at_ns, awaited_ns, sum);
      at_ns = awaited_ns;
    }
    charge(sum, CHARGE_HOST, at_ns, spans[i].start_ns);
    charge(sum, item->recompute ? CHARGE_RECOMPUTE : CHARGE_COMPUTE, spans[i].start_ns, spans[i].end_ns);
    at_ns = spans[i].end_ns;
  }
  if (end_ns > at_ns) /* only collectives can still be running */
    charge_wait(stretch, spans, last_collective(stretch, spans), at_ns, end_ns, sum);
}

/* Collective time overlapped with running kernels. Streams are in order, so one cursor per axis meets every
 * overlap. */
static void add_hidden_time(const Stretch *stretch, const Span *spans, ChargeSum *sum) {
  int kernels[N_ITEM_AXES] = {0};
  for (int i = 0; i < stretch->n_items; i++) {
    if (!stretch->items[i].is_collective || is_left_out(stretch, i))
      continue;
    const int axis = stretch->items[i].axis;
    for (int k = kernels[axis]; k < stretch->n_items; k++) {
      if (stretch->items[k].is_collective)
        continue;
      if (spans[k].end_ns <= spans[i].start_ns)
        kernels[axis] = k + 1; /* ended before this collective, hence before all later ones */
      else if (spans[k].start_ns >= spans[i].end_ns)
        break;
      else
        sum->split.hidden_ns[axis] +=
            overlap(sum, MAX(spans[k].start_ns, spans[i].start_ns), MIN(spans[k].end_ns, spans[i].end_ns));
    }
  }
}

static Stretch whole_list(const TimedList *list) {
  return (Stretch){.items = list->items, .n_items = list->n_items};
}

void timed_list_finish(TimedList *list) {
  g_autofree Span *spans = g_new(Span, list->n_items);
  Stretch stretch = whole_list(list);
  list->time.host_ns = host_time(&stretch);
  list->time.tail_ns = replay_items(&stretch, 0, 0, spans);
  list->time.run_ns = replay_items(&stretch, 0, -list->time.host_ns, spans);
  list->lead_ns = lead_of(list, spans);
  ChargeSum sum = {.from_ns = 0, .to_ns = list->time.run_ns};
  charge_spans(&stretch, spans, 0, list->time.run_ns, &sum);
  add_hidden_time(&stretch, spans, &sum);
  list->split = sum.split;
}

static gboolean is_run(const Work *work) {
  return work->piece >= 0;
}

static Stretch run_stretch(const Timing *timing, const Work *work) {
  const TimedList *list = timing_list(timing, work, work->piece);
  g_assert(work->first_item >= 0 && work->first_item <= work->last_item && work->last_item < list->n_items);
  return (Stretch){.items = list->items + work->first_item,
                   .n_items = work->last_item - work->first_item + 1,
                   .first = work->first_item,
                   .compute_only = TRUE};
}

/* Pieces of a whole op in the order they run, with their counts; those it has none of are left out. */
typedef struct {
  Piece piece;
  int n;
} PieceCount;

static int pieces_of(const Work *work, PieceCount pieces[N_PIECES]) {
  int counts[N_PIECES], n = 0;
  work_pieces(work, counts);
  for (int i = 0; i < N_PIECES; i++) {
    Piece piece = work->phase == PHASE_F ? i : N_PIECES - 1 - i;
    if (counts[piece] > 0)
      pieces[n++] = (PieceCount){piece, counts[piece]};
  }
  return n;
}

/* The same of a run, in one pass: on its one stream each item waits only for the one before it. */
static OpTime run_time(const Timing *timing, const Work *work, gint64 *lead_ns) {
  const Stretch run = run_stretch(timing, work);
  OpTime time = {0};
  *lead_ns = G_MININT64;
  for (int i = 0; i < run.n_items; i++) {
    if (is_left_out(&run, i))
      continue;
    time.host_ns += run.items[i].launch_ns;
    *lead_ns = MAX(*lead_ns, time.host_ns - time.run_ns);
    time.tail_ns = MAX(time.tail_ns, time.host_ns) + run.items[i].duration_ns;
    time.run_ns += run.items[i].duration_ns;
  }
  return time;
}

OpTime timing_of_work(const Timing *timing, const Work *work) {
  gint64 lead_ns;
  if (is_run(work))
    return run_time(timing, work, &lead_ns);
  PieceCount pieces[N_PIECES];
  const int n = pieces_of(work, pieces);
  OpTime time = {0};
  for (int i = 0; i < n; i++)
    time = op_time_join(time, op_time_repeat(timing_list(timing, work, pieces[i].piece)->time, pieces[i].n));
  return time;
}

gint64 timing_collectives_ns(const Timing *timing, const Work *work, Axis axis, gint64 *latency_ns) {
  PieceCount pieces[N_PIECES];
  gint64 sum_ns = 0;
  *latency_ns = 0;
  const int n = work->phase != PHASE_OPTIMIZER && !is_run(work) ? pieces_of(work, pieces) : 0;
  for (int i = 0; i < n; i++) {
    const TimedList *list = timing_list(timing, work, pieces[i].piece);
    for (int k = 0; k < list->n_items; k++)
      if (list->items[k].is_collective && list->items[k].axis == axis) {
        sum_ns += pieces[i].n * list->items[k].duration_ns;
        *latency_ns += pieces[i].n * list->items[k].latency_ns;
      }
  }
  return sum_ns;
}

/* n equal lists in a row, and lists one after another: each has (host time − run) less slack than the one before. */
static gint64 lead_of_pieces(const Timing *timing, const Work *work, const PieceCount *pieces, int n_pieces) {
  gint64 lead_ns = G_MININT64, behind_ns = 0;
  for (int i = 0; i < n_pieces; i++) {
    const TimedList *list = timing_list(timing, work, pieces[i].piece);
    if (list->n_items == 0)
      continue;
    gint64 each_ns = list->time.host_ns - list->time.run_ns;
    lead_ns = MAX(lead_ns, list->lead_ns + behind_ns + MAX((pieces[i].n - 1) * each_ns, 0));
    behind_ns += pieces[i].n * each_ns;
  }
  return lead_ns > G_MININT64 ? lead_ns : 0; /* without kernels, any host is far enough ahead */
}

gint64 timing_host_lead(const Timing *timing, const Work *work) {
  if (!is_run(work)) {
    PieceCount pieces[N_PIECES];
    const int n = pieces_of(work, pieces);
    return lead_of_pieces(timing, work, pieces, n);
  }
  gint64 lead_ns;
  run_time(timing, work, &lead_ns);
  return lead_ns;
}

/* Replays a work stretch by stretch, each from where the previous one ended. */
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
  const int n_pieces = pieces_of(work, pieces);
  for (int i = 0; i < n_pieces; i++) {
    Stretch stretch = whole_list(timing_list(timing, work, pieces[i].piece));
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

static void visit_charges(const Replayed *replayed, gpointer data) {
  charge_spans(&replayed->stretch, replayed->spans, replayed->start_ns, replayed->end_ns, data);
  add_hidden_time(&replayed->stretch, replayed->spans, data);
}

static void add_split(ChargeSplit *to, const ChargeSplit *split, gint64 times) {
  for (int charge = 0; charge < N_CHARGES; charge++)
    to->charged_ns[charge] += times * split->charged_ns[charge];
  for (int axis = 0; axis < N_ITEM_AXES; axis++)
    to->hidden_ns[axis] += times * split->hidden_ns[axis];
}

/* With the host far ahead: the lists' own sums, times their counts. */
static void charge_ahead(const Timing *timing, const Work *work, const PieceCount *pieces, int n_pieces,
                         ChargeSum *sum) {
  for (int i = 0; i < n_pieces; i++)
    add_split(&sum->split, &timing_list(timing, work, pieces[i].piece)->split, pieces[i].n);
}

/* A whole op from start to end: list by list, until the host is far enough ahead for all that remain. Once it is as
 * far ahead of the next as it was of one, the rest of them are like that one. */
static void charge_pieces(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns, ChargeSum *sum) {
  PieceCount pieces[N_PIECES];
  const int n_pieces = pieces_of(work, pieces);
  for (int i = 0; i < n_pieces; i++) {
    const TimedList *list = timing_list(timing, work, pieces[i].piece);
    const Stretch stretch = whole_list(list);
    g_autofree Span *spans = NULL;
    while (pieces[i].n > 0) {
      const gint64 lead_ns = start_ns - issue_ns;
      if (lead_ns >= lead_of_pieces(timing, work, &pieces[i], n_pieces - i)) {
        charge_ahead(timing, work, &pieces[i], n_pieces - i, sum);
        return;
      }
      if (spans == NULL)
        spans = g_new(Span, stretch.n_items);
      ChargeSum one = {.from_ns = start_ns, .to_ns = G_MAXINT64};
      const gint64 run_ns =
          replay_stretch(&stretch, pieces[i].piece, start_ns, &issue_ns, spans, visit_charges, &one) - start_ns;
      const int n_alike = start_ns + run_ns - issue_ns == lead_ns ? pieces[i].n : 1;
      add_split(&sum->split, &one.split, n_alike);
      start_ns += n_alike * run_ns;
      issue_ns += (n_alike - 1) * list->time.host_ns;
      pieces[i].n -= n_alike;
    }
  }
}

/* A record may be longer or shorter than its replay (speed factors, jitter); kernels absorb the difference. If it is
 * shorter by more than the kernels, the rest is taken from the waits, so that no charge turns negative. */
static void charge_difference(ChargeSum *sum, gint64 length_ns) {
  gint64 difference_ns = length_ns;
  for (int charge = 0; charge < N_CHARGES; charge++)
    difference_ns -= sum->split.charged_ns[charge];
  for (int charge = 0; charge < N_CHARGES; charge++) {
    gint64 part_ns = MAX(difference_ns, -sum->split.charged_ns[charge]);
    sum->split.charged_ns[charge] += part_ns;
    difference_ns -= part_ns;
  }
}

static void charge_replay(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns, ChargeSum *sum) {
  replay_work(timing, work, start_ns, issue_ns, visit_charges, sum);
  if (!is_run(work))
    return;
  gint64 kernels_ns = sum->split.charged_ns[CHARGE_COMPUTE] + sum->split.charged_ns[CHARGE_RECOMPUTE];
  sum->split.charged_ns[CHARGE_COMPUTE] = work->recompute ? 0 : kernels_ns; /* a run is all recomputed or not at all */
  sum->split.charged_ns[CHARGE_RECOMPUTE] = work->recompute ? kernels_ns : 0;
}

void timing_charge(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns, gint64 end_ns,
                   ChargeSplit *split) {
  ChargeSum sum = {.from_ns = start_ns, .to_ns = G_MAXINT64};
  if (!is_run(work))
    charge_pieces(timing, work, start_ns, issue_ns, &sum);
  else
    charge_replay(timing, work, start_ns, issue_ns, &sum);
  charge_difference(&sum, end_ns - start_ns);
  add_split(split, &sum.split, 1);
}

void timing_charge_part(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns, gint64 from_ns,
                        gint64 to_ns, ChargeSplit *split) {
  ChargeSum sum = {.from_ns = from_ns, .to_ns = to_ns};
  charge_replay(timing, work, start_ns, issue_ns, &sum);
  charge_difference(&sum, to_ns - from_ns);
  add_split(split, &sum.split, 1);
}

static gpointer append(gpointer to, int n_to, gconstpointer other, int n_other, gsize size) {
  gpointer all = g_realloc_n(to, (gsize)(n_to + n_other), size);
  memcpy((char *)all + (gsize)n_to * size, other, (gsize)n_other * size);
  return all;
}

/* Loads and taxes end with one of nothing, or with nothing. */
void timing_append(Timing *timing, const Timing *other) {
  const int n = timing->n_transfers, n_other = other->n_transfers;
  timing->works = append(timing->works, timing->n_works, other->works, other->n_works, sizeof *timing->works);
  timing->transfers = append(timing->transfers, n, other->transfers, n_other, sizeof *timing->transfers);
  if (timing->loads != NULL)
    timing->loads = append(timing->loads, n, other->loads, n_other + 1, sizeof *timing->loads);
  if (timing->taxes != NULL)
    timing->taxes = append(timing->taxes, n, other->taxes, n_other, sizeof *timing->taxes);
  timing->n_works += other->n_works;
  timing->n_transfers += n_other;
}

void timing_free(Timing *timing) {
  if (!timing)
    return;
  g_free(timing->items);
  g_free(timing->of_lengths);
  g_free(timing->works);
  g_free(timing->transfers);
  g_free(timing->loads);
  g_free(timing->taxes);
  g_free(timing->kernels_ns);
  g_free(timing->server_routes);
  g_free(timing);
}
