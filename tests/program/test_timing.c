/* Max-plus times of op lists against brute-force replays of the same items. */
#include "run_suite.h"
#include "timing.h"
#include <check.h>
#include <string.h>

enum { MAX_ITEMS = 12, N_TRIALS = 3000 };

static guint32 random_state = 12345;

/* 0 … n − 1 (Numerical Recipes' generator). */
static int draw(int n) {
  random_state = random_state * 1664525u + 1013904223u;
  return (int)((random_state >> 8) % (guint32)n);
}

/* A list as workloads have them: kernels and collectives, `after` on an earlier item of the other stream. */
static TimedList random_list(int least_items) {
  TimedList list = {.n_items = least_items + draw(MAX_ITEMS - least_items)};
  list.items = g_new0(TimedItem, list.n_items + 1);
  for (int i = 0; i < list.n_items; i++) {
    TimedItem *item = &list.items[i];
    *item = (TimedItem){.name = "item",
                        .duration_ns = draw(30),
                        .launch_ns = draw(3) ? draw(20) : 0,
                        .after = -1,
                        .is_collective = draw(3) == 0,
                        .recompute = draw(4) == 0,
                        .axis = draw(2) ? AXIS_CP : AXIS_TP};
    int other = i > 0 ? draw(i) : 0;
    if (i > 0 && draw(2) && list.items[other].is_collective != item->is_collective)
      item->after = other;
  }
  timed_list_finish(&list);
  return list;
}

static gboolean same_stream(const TimedItem *a, const TimedItem *b) {
  return a->is_collective == b->is_collective && (!a->is_collective || a->axis == b->axis);
}

/* The definition in timing.h, word by word; for lists in a row s is where all streams ended. */
static gint64 brute_end(const TimedList *list, gint64 s, gint64 *h) {
  gint64 ends[MAX_ITEMS], latest = s;
  for (int i = 0; i < list->n_items; i++) {
    const TimedItem *item = &list->items[i];
    *h += item->launch_ns;
    gint64 start = MAX(s, *h);
    for (int j = 0; j < i; j++)
      if (same_stream(&list->items[j], item) || j == item->after)
        start = MAX(start, ends[j]);
    ends[i] = start + item->duration_ns;
    latest = MAX(latest, ends[i]);
  }
  return latest;
}

static void assert_same_time(OpTime a, OpTime b) {
  ck_assert_int_eq(a.run_ns, b.run_ns);
  ck_assert_int_eq(a.tail_ns, b.tail_ns);
  ck_assert_int_eq(a.host_ns, b.host_ns);
}

TEST(a_list_ends_as_its_two_numbers_say_for_any_start_and_issue) {
  for (int trial = 0; trial < N_TRIALS; trial++) {
    TimedList list = random_list(1);
    gint64 s = draw(400), h = draw(400), issued = h;
    gint64 end = brute_end(&list, s, &issued);
    gint64 formula = MAX(s + list.time.run_ns, h + list.time.tail_ns);
    if (end != formula || issued != h + list.time.host_ns)
      ck_abort_msg("trial %d: replay ends at %d, formula at %d", trial, (int)end, (int)formula);
    g_free(list.items);
  }
}

TEST(joined_lists_end_as_their_replay_one_after_the_other) {
  for (int trial = 0; trial < N_TRIALS; trial++) {
    TimedList first = random_list(1), second = random_list(1);
    gint64 s = draw(400), h = draw(400), issued = h;
    gint64 end = brute_end(&second, brute_end(&first, s, &issued), &issued);
    OpTime joined = op_time_join(first.time, second.time);
    if (end != MAX(s + joined.run_ns, h + joined.tail_ns) || issued != h + joined.host_ns)
      ck_abort_msg("trial %d: replay ends at %d", trial, (int)end);
    g_free(first.items);
    g_free(second.items);
  }
}

TEST(repeating_is_joining_with_itself) {
  for (int trial = 0; trial < 200; trial++) {
    TimedList list = random_list(0);
    OpTime joined = {0};
    for (int n = 0; n <= 6; n++) {
      assert_same_time(op_time_repeat(list.time, n), joined);
      joined = op_time_join(joined, list.time);
    }
    assert_same_time(op_time_join(list.time, (OpTime){0}), list.time); /* nothing joined changes nothing */
    g_free(list.items);
  }
}

/* Worked example. Durations in brackets, launch 10 each, the host far ahead:
 *
 *     compute   k0 [0,100)                 k2 [100,130)   idle     k3 [180,200)
 *     tp                      c1 [100,180): needs k0; k3 needs c1          c4 [200,260): needs k3
 *
 * run = 260. Compute 100+30+20 = 150, of it k2 recomputed 30; idle for c1 50, for c4 at the end 60. Hidden: c1 beside
 * k2 = 30. Issued at 10, 20, 30, 40, 50 from h: tail = 10 + 260, as the first launch delays all. host = 50. */
static TimedList example(gint64 launch_ns) {
  TimedList list = {.n_items = 5, .items = g_new0(TimedItem, 5)};
  list.items[0] = (TimedItem){"k0", 100, launch_ns, -1, FALSE, FALSE};
  list.items[1] = (TimedItem){"c1", 80, launch_ns, 0, TRUE, FALSE};
  list.items[2] = (TimedItem){"k2", 30, launch_ns, -1, FALSE, TRUE};
  list.items[3] = (TimedItem){"k3", 20, launch_ns, 1, FALSE, FALSE};
  list.items[4] = (TimedItem){"c4", 60, launch_ns, 3, TRUE, FALSE};
  timed_list_finish(&list);
  return list;
}

TEST(a_list_is_charged_as_its_compute_stream_spends_the_time) {
  TimedList list = example(10);
  assert_same_time(list.time, (OpTime){.run_ns = 260, .tail_ns = 270, .host_ns = 50});
  ck_assert_int_eq(list.split.charged_ns[CHARGE_COMPUTE], 120);
  ck_assert_int_eq(list.split.charged_ns[CHARGE_RECOMPUTE], 30);
  ck_assert_int_eq(list.split.charged_ns[CHARGE_TP], 110);
  ck_assert_int_eq(list.split.charged_ns[CHARGE_HOST], 0);
  ck_assert_int_eq(list.split.hidden_ns[AXIS_TP], 30);
  g_free(list.items);
}

TEST(an_empty_list_takes_no_time) {
  TimedList list = {0};
  timed_list_finish(&list);
  assert_same_time(list.time, (OpTime){0});
  ck_assert_int_eq(list.split.hidden_ns[AXIS_TP], 0);
}

/* Moves the items of the lists to where a Timing owns them. */
static void gather_items(Timing *timing) {
  g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(TimedItem));
  TimedList *lists = timing->lists[0];
  for (int i = 0; i < N_PIECES * N_PHASES; i++)
    g_array_append_vals(all, lists[i].items, (guint)lists[i].n_items);
  TimedItem *items = timing->items = g_memdup2(all->data, all->len * sizeof *items);
  for (int i = 0; i < N_PIECES * N_PHASES; i++) {
    g_free(lists[i].items);
    lists[i].items = items;
    items += lists[i].n_items;
  }
}

static Timing *random_timing(void) {
  Timing *timing = g_new0(Timing, 1);
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++)
      timing->lists[piece][phase] = random_list(1);
  gather_items(timing);
  return timing;
}

static Work random_work(const Timing *timing) {
  Work work = {.phase = (guint8)draw(PHASE_OPTIMIZER),
               .n_embedding = (guint8)draw(2),
               .n_layers = draw(4),
               .n_head = (guint8)draw(2),
               .piece = -1,
               .first_item = -1,
               .last_item = -1,
               .stage = -1};
  if (draw(3) > 0)
    return work;
  work = (Work){.phase = work.phase, .piece = draw(N_PIECES), .stage = -1, .recompute = (guint8)draw(2)};
  int n_items = timing->lists[work.piece][work.phase].n_items;
  work.first_item = draw(n_items);
  work.last_item = work.first_item + draw(n_items - work.first_item);
  return work;
}

typedef struct {
  gint64 last_end[1 + N_ITEM_AXES]; /* of compute, and of each axis */
  gint64 busy_ns, latest;
  int n, n_wrong;
} Visits;

static void visit_span(const ItemSpan *span, gpointer data) {
  Visits *visits = data;
  gint64 *last = &visits->last_end[span->item->is_collective ? 1 + span->item->axis : 0];
  visits->n_wrong += span->start_ns < *last || span->end_ns - span->start_ns != span->item->duration_ns;
  *last = span->end_ns;
  visits->latest = MAX(visits->latest, span->end_ns);
  visits->busy_ns += span->item->is_collective ? 0 : span->item->duration_ns;
  visits->n++;
}

TEST(a_replay_ends_where_the_work_s_time_says_and_keeps_streams_in_order) {
  for (int trial = 0; trial < N_TRIALS; trial++) {
    g_autoptr(Timing) timing = random_timing();
    Work work = random_work(timing);
    OpTime time = timing_of_work(timing, &work);
    gint64 s = draw(400), h = draw(400);
    Visits visits = {.last_end = {s, s, s}, .latest = s};
    gint64 end = timing_replay(timing, &work, s, h, visit_span, &visits);
    gint64 formula = visits.n > 0 ? MAX(s + time.run_ns, h + time.tail_ns) : s;
    if (end != formula || end != visits.latest || visits.n_wrong > 0)
      ck_abort_msg("trial %d: replay ends at %d, formula at %d, %d spans wrong", trial, (int)end, (int)formula,
                   visits.n_wrong);
  }
}

TEST(pieces_run_forward_in_F_and_backward_in_the_other_phases) {
  Timing *timing = g_new0(Timing, 1);
  /* one kernel each */
  const gint64 durations_ns[N_PIECES] = {
      [PIECE_EMBEDDING] = 100, [PIECE_DENSE_LAYER] = 30, [PIECE_LAYER] = 10, [PIECE_HEAD] = 1};
  const gint64 launches_ns[N_PIECES] = {
      [PIECE_EMBEDDING] = 1, [PIECE_DENSE_LAYER] = 3, [PIECE_LAYER] = 10, [PIECE_HEAD] = 100};
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++) {
      TimedList *list = &timing->lists[piece][phase];
      *list = (TimedList){.n_items = 1, .items = g_new0(TimedItem, 1)};
      list->items[0] = (TimedItem){"k", durations_ns[piece], launches_ns[piece], -1, FALSE, FALSE};
      timed_list_finish(list);
    }
  gather_items(timing);
  Work work = {.phase = PHASE_F, .n_embedding = 1, .n_layers = 2, .n_head = 1, .piece = -1};
  /* issued at 1, 11, 21, 121; F: embedding ends 101, layers 111 and 121, head starts at 121, ends 122 */
  assert_same_time(timing_of_work(timing, &work), (OpTime){.run_ns = 121, .tail_ns = 122, .host_ns = 121});
  work.phase = PHASE_B;
  /* issued at 100, 110, 120, 121; B: head 100–101, layers 110–120, 120–130, embedding 130–230 */
  assert_same_time(timing_of_work(timing, &work), (OpTime){.run_ns = 121, .tail_ns = 230, .host_ns = 121});
  /* one of the layers dense. F: issued at 1, 4, 14, 114; embedding ends 101, dense layer 131, layer 141, head 142 */
  work.n_dense = 1, work.phase = PHASE_F;
  assert_same_time(timing_of_work(timing, &work), (OpTime){.run_ns = 141, .tail_ns = 142, .host_ns = 114});
  /* B: issued at 100, 110, 113, 114; head 100–101, layer 110–120, dense layer 120–150, embedding 150–250 */
  work.phase = PHASE_B;
  assert_same_time(timing_of_work(timing, &work), (OpTime){.run_ns = 141, .tail_ns = 250, .host_ns = 114});
  timing_free(timing);
}

TEST(an_expanded_run_takes_its_kernels_only) {
  Timing *timing = g_new0(Timing, 1);
  timing->lists[PIECE_LAYER][PHASE_F] = example(40);
  timing->items = timing->lists[PIECE_LAYER][PHASE_F].items;
  Work run = {.phase = PHASE_F, .piece = PIECE_LAYER, .first_item = 1, .last_item = 3, .stage = -1};
  /* k2 [40, 70), k3 issued at 80, [80, 100): c1 between them belongs to another op */
  assert_same_time(timing_of_work(timing, &run), (OpTime){.run_ns = 50, .tail_ns = 100, .host_ns = 80});
  ChargeSplit split = {0};
  timing_charge(timing, &run, 1000, 1000, 1100, &split);
  ck_assert_int_eq(split.charged_ns[CHARGE_COMPUTE], 50);
  ck_assert_int_eq(split.charged_ns[CHARGE_HOST], 50);
  run.recompute = TRUE;
  timing_charge(timing, &run, 1000, 0, 1050, &split);
  ck_assert_int_eq(split.charged_ns[CHARGE_RECOMPUTE], 50);
  ck_assert_int_eq(split.hidden_ns[AXIS_TP], 0);
  timing_free(timing);
}

TEST(a_launch_bound_op_is_charged_to_the_host_where_the_host_ends_the_wait) {
  Timing *timing = g_new0(Timing, 1);
  timing->lists[PIECE_LAYER][PHASE_F] = example(100);
  timing->items = timing->lists[PIECE_LAYER][PHASE_F].items;
  Work work = {.phase = PHASE_F, .n_layers = 1, .piece = -1, .stage = -1};
  ChargeSplit split = {0};
  /* From s = h = 0, issued at 100 … 500:   k0 [100,200)   c1 [200,280)   k2 [300,330)   k3 [400,420)   c4 [500,560)
   * compute idles 100 before k0, 100 before k2, 70 before k3 and, at the end, 80 until c4 is issued: the host's; the 60
   * that c4 runs: tp's. */
  timing_charge(timing, &work, 0, 0, 560, &split);
  ck_assert_int_eq(split.charged_ns[CHARGE_HOST], 350);
  ck_assert_int_eq(split.charged_ns[CHARGE_COMPUTE], 120);
  ck_assert_int_eq(split.charged_ns[CHARGE_RECOMPUTE], 30);
  ck_assert_int_eq(split.charged_ns[CHARGE_TP], 60);
  ck_assert_int_eq(split.hidden_ns[AXIS_TP], 0); /* no kernel runs beside c1 or c4 */
  timing_free(timing);
}

TEST(a_stretched_record_adds_to_compute_and_a_short_one_never_turns_negative) {
  Timing *timing = g_new0(Timing, 1);
  timing->lists[PIECE_LAYER][PHASE_F] = example(0);
  timing->items = timing->lists[PIECE_LAYER][PHASE_F].items;
  Work work = {.phase = PHASE_F, .n_layers = 2, .piece = -1, .stage = -1};
  ChargeSplit split = {0};
  timing_charge(timing, &work, 0, 0, 2 * 260 + 33, &split);
  ck_assert_int_eq(split.charged_ns[CHARGE_COMPUTE], 2 * 120 + 33);
  ck_assert_int_eq(split.charged_ns[CHARGE_TP], 2 * 110);
  ck_assert_int_eq(split.hidden_ns[AXIS_TP], 2 * 30);
  memset(split.charged_ns, 0, sizeof split.charged_ns);
  /* 520 − 270 = 250 shorter: 240 from compute, the last 10 from recompute's 60 */
  timing_charge(timing, &work, 0, 0, 2 * 260 - 250, &split);
  ck_assert_int_eq(split.charged_ns[CHARGE_COMPUTE], 0);
  ck_assert_int_eq(split.charged_ns[CHARGE_RECOMPUTE], 50);
  ck_assert_int_eq(split.charged_ns[CHARGE_TP], 220);
  timing_free(timing);
}

TEST(charges_sum_to_the_record_whatever_it_is) {
  for (int trial = 0; trial < N_TRIALS; trial++) {
    g_autoptr(Timing) timing = random_timing();
    Work work = random_work(timing);
    OpTime time = timing_of_work(timing, &work);
    gint64 s = draw(400), h = draw(400);
    gint64 end = MAX(s + time.run_ns, h + time.tail_ns);
    end = MAX(s, end);
    if (draw(2))
      end = s + draw(1000);
    ChargeSplit split = {0};
    gint64 sum = 0;
    timing_charge(timing, &work, s, h, end, &split);
    gboolean negative = split.hidden_ns[AXIS_TP] < 0 || split.hidden_ns[AXIS_CP] < 0;
    for (int charge = 0; charge < N_CHARGES; charge++) {
      sum += split.charged_ns[charge];
      negative = negative || split.charged_ns[charge] < 0;
    }
    if (sum != end - s || negative)
      ck_abort_msg("trial %d: charges sum to %d of %d%s", trial, (int)sum, (int)(end - s),
                   negative ? ", negative" : "");
  }
}

TEST(parts_of_a_replay_are_charged_what_the_whole_is) {
  for (int trial = 0; trial < N_TRIALS; trial++) {
    g_autoptr(Timing) timing = random_timing();
    Work work = random_work(timing);
    OpTime time = timing_of_work(timing, &work);
    gint64 s = draw(400), h = draw(400);
    gint64 end = MAX(s, MAX(s + time.run_ns, h + time.tail_ns));
    gint64 cut = s + draw((int)(end - s) + 1);
    ChargeSplit whole = {0}, parts = {0};
    timing_charge(timing, &work, s, h, end, &whole);
    timing_charge_part(timing, &work, s, h, s, cut, &parts);
    timing_charge_part(timing, &work, s, h, cut, end, &parts);
    if (memcmp(&whole, &parts, sizeof whole) != 0)
      ck_abort_msg("trial %d: cut at %d of [%d, %d)", trial, (int)cut, (int)s, (int)end);
  }
}

typedef struct {
  gint64 starts[2 * N_PIECES * 4 * MAX_ITEMS];
  int n;
} Starts;

static void note_start(const ItemSpan *span, gpointer data) {
  Starts *starts = data;
  g_assert(starts->n < (int)G_N_ELEMENTS(starts->starts));
  starts->starts[starts->n++] = span->start_ns;
}

static Starts starts_of(const Timing *timing, const Work *work, gint64 start_ns, gint64 issue_ns) {
  Starts starts = {.n = 0};
  timing_replay(timing, work, start_ns, issue_ns, note_start, &starts);
  return starts;
}

TEST(the_lead_is_just_what_lets_every_item_start_on_time) {
  for (int trial = 0; trial < N_TRIALS; trial++) {
    g_autoptr(Timing) timing = random_timing();
    Work work = random_work(timing);
    gint64 lead = timing_host_lead(timing, &work);
    Starts ahead = starts_of(timing, &work, 0, -1000000);
    if (ahead.n == 0)
      continue;
    Starts just = starts_of(timing, &work, 0, -lead), late = starts_of(timing, &work, 0, 1 - lead);
    if (memcmp(&ahead, &just, sizeof ahead) != 0 || memcmp(&ahead, &late, sizeof ahead) == 0)
      ck_abort_msg("trial %d: lead %d", trial, (int)lead);
  }
}

/* A stage of the pipeline may have an op for a phase that nothing is done in. */
TEST(without_kernels_there_is_no_lead_and_all_of_a_record_is_compute) {
  g_autoptr(Timing) timing = random_timing();
  const Work none = {.phase = PHASE_I, .piece = -1, .first_item = -1, .last_item = -1, .stage = -1};
  ChargeSplit split = {0};
  ck_assert_int_eq(timing_host_lead(timing, &none), 0);
  timing_charge(timing, &none, 100, 100, 107, &split);
  ck_assert_int_eq(split.charged_ns[CHARGE_COMPUTE], 7);
  ck_assert_int_eq(split.hidden_ns[AXIS_TP], 0);
}

TEST(stored_sums_are_the_replay_s_when_the_host_is_ahead) {
  for (int trial = 0; trial < 300; trial++) {
    TimedList list = random_list(1);
    gint64 busy = 0, sum = 0;
    for (int i = 0; i < list.n_items; i++)
      busy += list.items[i].is_collective ? 0 : list.items[i].duration_ns;
    for (int charge = 0; charge < N_CHARGES; charge++)
      sum += list.split.charged_ns[charge];
    if (sum != list.time.run_ns ||
        list.split.charged_ns[CHARGE_COMPUTE] + list.split.charged_ns[CHARGE_RECOMPUTE] != busy ||
        list.split.charged_ns[CHARGE_HOST] != 0)
      ck_abort_msg("trial %d: charges sum to %d of %d", trial, (int)sum, (int)list.time.run_ns);
    g_free(list.items);
  }
}

int main(void) {
  return run_tests();
}
