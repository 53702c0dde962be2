/* A run is a chain of segments. A segment is training at one level without an event that stops it:
 *
 *     start_s                                                                         now_s
 *     |k steps      |stall|k steps      |stall|k steps      |stall| …           steps |
 *                   └─ written ┐        └─ written ┐        └─ written ┐
 *                        1st durable         2nd durable         3rd durable
 *                   |←───── cycle ─────→|
 *
 * All of it follows from the time since its start. Segments are remembered: numbers that went wrong unnoticed are
 * undone with the last checkpoint before, which may be many segments ago. */
#include "training_run.h"

#include <math.h>
#include <string.h>

#include "sort_doubles.h"
#include "splitmix.h"

const char *const run_elastic_names[] = {
    [ELASTIC_OFF] = "off", [ELASTIC_RESTART] = "restart", [ELASTIC_LIVE] = "live", NULL};
const char *const run_part_names[] = {
    [RUN_KEPT] = "kept",       [RUN_REDONE] = "redone",   [RUN_SAVING] = "saving", [RUN_DOWN] = "down",
    [RUN_PLANNED] = "planned", [RUN_WAITING] = "waiting", [RUN_FEWER] = "fewer"};

/* A run that has not ended after so many is given up; all runs together, after so many. */
enum { MOST_EVENTS = 4 * 1000 * 1000, MOST_EVENTS_OF_ALL = 5 * MOST_EVENTS, FEWEST_RUNS = 10 };

typedef struct {
  double start_s, steps; /* kept when it began */
  double saved_s;        /* when the checkpoint was begun that has these steps; INFINITY: none has */
  RunLevel level;
  gint64 n_durable; /* (set at its end) checkpoints of its own to restart from */
  double stepped_s; /* (set at its end) time of its steps */
} Segment;

/* A node is repaired, or a copy has restarted. */
typedef struct {
  double time_s;
  gboolean is_repair;
} Return;

typedef struct {
  const TrainingRun *run;
  guint64 random;
  double now_s;
  double hazard;        /* until the next interruption, in mean times between them */
  double maintenance_s; /* when it is due */

  double wrong_since_s, noticed_s; /* INFINITY: numbers are right */
  int wrong_kind;
  gboolean has_silent; /* that can happen */

  int n_up;         /* nodes that work, spares included */
  int n_recovering; /* copies of the state that restart while the others go on */
  GArray *returns;  /* of Return, in order of time */

  RunLevel level;
  double steps, saved_s; /* as in Segment */
  GArray *segments;      /* of Segment */
  double stepped_s, dp_s;
  gboolean is_done;
  RunOutcome out;
  GArray *moments;
} State;

/* --- chance --- */

static double uniform(State *s) { /* in [0, 1) */
  const guint64 bits = splitmix(s->random);
  s->random += G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);
  return (double)(bits >> 11) * 0x1p-53;
}

static double exponential(State *s) {
  return -log1p(-uniform(s));
}

static int draw_kind(State *s) {
  const TrainingRun *run = s->run;
  double sum = 0;
  for (int i = 0; i < run->n_kinds; i++)
    sum += run->kinds[i].share;
  double at = uniform(s) * sum;
  int kind = 0;
  while (kind < run->n_kinds - 1 && at >= run->kinds[kind].share)
    at -= run->kinds[kind++].share;
  return kind;
}

/* --- time --- */

static double rate(const State *s) { /* of interruptions */
  return s->level.dp / (s->run->mtbf_s * s->run->whole.dp);
}

static gboolean gives_up(const State *s) {
  return s->out.n_events > MOST_EVENTS;
}

static double failure_s(const State *s) {
  return gives_up(s) || rate(s) == 0 ? INFINITY : s->now_s + s->hazard / rate(s);
}

static void advance(State *s, double to_s) {
  s->hazard -= (to_s - s->now_s) * rate(s);
  s->now_s = to_s;
}

static void mark(State *s, int kind, int dp) {
  const RunMoment moment = {s->now_s, s->steps, kind, dp};
  if (s->moments != NULL)
    g_array_append_val(s->moments, moment);
}

/* An interruption, now. */
static int strike(State *s) {
  const int kind = draw_kind(s);
  s->out.n_of_kind[kind]++;
  s->out.n_events++;
  s->hazard = exponential(s);
  if (s->run->kinds[kind].is_silent && s->wrong_since_s == INFINITY) {
    s->wrong_since_s = s->now_s;
    s->noticed_s = s->now_s + uniform(s) * s->run->kinds[kind].detection_s;
    s->wrong_kind = kind;
  }
  return kind;
}

static void spend(State *s, double to_s, RunPart part) {
  s->out.part_s[part] += to_s - s->now_s;
  advance(s, to_s);
}

/* Let time pass while nothing is trained, until it is over or cut short by an interruption, which is returned; −1:
 * none. */
static int pass(State *s, double duration_s, RunPart part) {
  const double end_s = s->now_s + duration_s;
  for (;;) {
    const double next_s = failure_s(s);
    spend(s, MIN(next_s, end_s), part);
    if (next_s >= end_s)
      return -1;
    const int kind = strike(s);
    if (s->run->kinds[kind].is_silent)
      continue;
    mark(s, kind, 0);
    return kind;
  }
}

/* --- nodes --- */

static void add_return(State *s, double time_s, gboolean is_repair) {
  const Return new = {time_s, is_repair};
  guint i = s->returns->len;
  while (i > 0 && g_array_index(s->returns, Return, i - 1).time_s > time_s)
    i--;
  g_array_insert_val(s->returns, i, new);
}

static double return_s(const State *s) {
  return s->returns->len > 0 ? MAX(g_array_index(s->returns, Return, 0).time_s, s->now_s) : INFINITY;
}

static void take_return(State *s) {
  *(g_array_index(s->returns, Return, 0).is_repair ? &s->n_up : &s->n_recovering) +=
      g_array_index(s->returns, Return, 0).is_repair ? 1 : -1;
  g_array_remove_index(s->returns, 0);
}

static gboolean has_spares(const State *s) {
  return s->run->n_spares == SPARES_UNLIMITED || s->n_up >= s->run->n_nodes;
}

static void lose_nodes(State *s, int kind) {
  if (s->run->n_spares == SPARES_UNLIMITED)
    return;
  for (int i = 0; i < s->run->kinds[kind].nodes && s->n_up > 0; i++) {
    s->n_up--;
    add_return(s, s->now_s + s->run->repair_s, TRUE);
  }
}

static RunLevel possible_level(const State *s) {
  const TrainingRun *run = s->run;
  const int of_copy = s->n_recovering > 0 ? MAX(run->n_nodes / run->n_copies, 1) : 0; /* all of these restart */
  const int n = (has_spares(s) ? run->n_nodes : s->n_up) - s->n_recovering * of_copy;
  if (n >= run->n_nodes)
    return run->whole;
  return run->elastic == ELASTIC_OFF || n <= 0 ? (RunLevel){0} : run->level_of(run->data, n);
}

/* The level that what there is now allows. TRUE: it is another one. */
static gboolean set_level(State *s) {
  const RunLevel level = possible_level(s);
  const gboolean is_new = level.dp != s->level.dp;
  s->out.n_reshaped += is_new;
  s->level = level;
  return is_new;
}

static gboolean wait_for_nodes(State *s) {
  while (return_s(s) <= s->now_s)
    take_return(s);
  while (possible_level(s).dp == 0) { /* a job that waits is not interrupted */
    const double at_s = return_s(s);
    s->out.part_s[RUN_WAITING] += at_s - s->now_s;
    s->now_s = at_s;
    take_return(s);
  }
  return set_level(s);
}

/* --- segments --- */

typedef struct {
  double whole_s, cycle_s; /* of the steps between two checkpoints, of these with one */
  gint64 n_steps, n_saves; /* until the run ends; the last checkpoint not counted */
  gint64 n_last;           /* steps behind the last of n_saves */
  double last_save_s;      /* since the start: when the run's last checkpoint begins */
  double end_s;            /* since the start */
} Course;

static Course course_of(const TrainingRun *run, const Segment *segment) {
  const double step_s = segment->level.step_s;
  Course c = {.whole_s = (double)run->interval_steps * step_s};
  c.cycle_s = run->stall_s + MAX(c.whole_s, run->write_s);
  c.n_steps = MAX((gint64)ceil((run->n_steps - segment->steps) / segment->level.gain - 1e-9), 0);
  c.n_saves = MAX(c.n_steps - 1, 0) / run->interval_steps;
  c.n_last = c.n_steps - c.n_saves * run->interval_steps;
  const double last_s = (double)c.n_last * step_s;
  c.last_save_s = c.n_saves == 0
                      ? last_s
                      : c.whole_s + (double)(c.n_saves - 1) * c.cycle_s + run->stall_s + MAX(last_s, run->write_s);
  c.end_s = c.last_save_s + run->stall_s + run->write_s;
  return c;
}

typedef struct {
  gint64 n_steps, n_durable;
  double stepped_s; /* with the step that is not done yet */
} Progress;

static Progress progress_at(const TrainingRun *run, const Segment *segment, double now_s) {
  const Course c = course_of(run, segment);
  const double step_s = segment->level.step_s, since_s = now_s - segment->start_s;
  if (now_s >= segment->start_s + c.end_s)
    return (Progress){c.n_steps, c.n_saves + 1, (double)c.n_steps * step_s};
  /* the save begun last, and the time for steps since it */
  const gint64 begun =
      c.n_saves > 0 && since_s >= c.whole_s ? MIN((gint64)((since_s - c.whole_s) / c.cycle_s) + 1, c.n_saves) : 0;
  const double begun_s = begun > 0 ? c.whole_s + (double)(begun - 1) * c.cycle_s + run->stall_s : 0;
  const gint64 most = begun == c.n_saves ? c.n_last : run->interval_steps;
  const double steps_s = CLAMP(since_s - begun_s, 0, (double)most * step_s);
  const double durable = (since_s - c.whole_s - run->stall_s - run->write_s) / c.cycle_s + 1;
  return (Progress){.n_steps = begun * run->interval_steps + MIN((gint64)(steps_s / step_s + 1e-9), most),
                    .n_durable = CLAMP((gint64)floor(durable), 0, begun),
                    .stepped_s = (double)begun * c.whole_s + steps_s};
}

/* The segment ends, now. The step under way is lost. */
static void end_segment(State *s, Segment *segment, int kind) {
  const Progress progress = progress_at(s->run, segment, s->now_s);
  segment->n_durable = progress.n_durable;
  segment->stepped_s = (double)progress.n_steps * segment->level.step_s;
  s->out.part_s[RUN_REDONE] += progress.stepped_s - segment->stepped_s;
  s->out.part_s[RUN_SAVING] += s->now_s - segment->start_s - progress.stepped_s;
  s->stepped_s += progress.stepped_s;
  s->dp_s += progress.stepped_s * segment->level.dp;
  s->out.n_saves += (double)progress.n_durable;
  s->steps = segment->steps + (double)progress.n_steps * segment->level.gain;
  s->saved_s = INFINITY;
  if (segment->n_durable > 0 && !s->has_silent) /* nothing goes back further */
    g_array_set_size(s->segments, 0);
  g_array_append_val(s->segments, *segment);
  mark(s, kind, 0);
}

/* When the checkpoint was begun. */
static double save_s(const TrainingRun *run, const Segment *segment, gint64 save) {
  const Course c = course_of(run, segment);
  return segment->start_s + c.whole_s + (double)(save - 1) * c.cycle_s;
}

/* Back to the last checkpoint that was begun before then. */
static void roll_back(State *s, double before_s) {
  const TrainingRun *run = s->run;
  s->steps = s->saved_s = 0;
  while (s->segments->len > 0) {
    Segment *last = &g_array_index(s->segments, Segment, s->segments->len - 1);
    while (last->n_durable > 0 && save_s(run, last, last->n_durable) > before_s)
      last->n_durable--;
    const double kept_s = (double)(last->n_durable * run->interval_steps) * last->level.step_s;
    s->out.part_s[RUN_REDONE] += last->stepped_s - kept_s;
    last->stepped_s = kept_s;
    s->steps = last->steps + (double)(last->n_durable * run->interval_steps) * last->level.gain;
    s->saved_s = last->n_durable > 0 ? save_s(run, last, last->n_durable) : last->saved_s;
    if (last->n_durable > 0)
      break;
    g_array_set_size(s->segments, s->segments->len - 1);
    if (s->saved_s <= before_s && s->saved_s != INFINITY)
      break;
  }
  if (s->saved_s <= s->wrong_since_s)
    s->wrong_since_s = s->noticed_s = INFINITY;
  mark(s, -1, 0);
}

/* --- events --- */

static double restart_of(const State *s, int kind) {
  const double own_s = s->run->kinds[kind].restart_s;
  return own_s >= 0 ? own_s : s->run->restart_s;
}

static double detection_of(const State *s, int kind) {
  return s->run->kinds[kind].is_silent ? 0 : s->run->kinds[kind].detection_s;
}

/* All restart from the checkpoint that the run was rolled back to. What strikes meanwhile is dealt with anew. */
static void restart(State *s, int kind) {
  while (kind >= 0) {
    int again = pass(s, detection_of(s, kind), RUN_DOWN);
    if (again < 0) {
      const gboolean is_new = wait_for_nodes(s);
      again = pass(s, is_new ? MAX(restart_of(s, kind), s->run->leave_s) : restart_of(s, kind), RUN_DOWN);
    }
    kind = again;
    if (kind >= 0)
      lose_nodes(s, kind);
  }
}

/* A copy is lost; the others go on, if there are any. */
static void go_on(State *s, int kind) {
  while (kind >= 0) {
    lose_nodes(s, kind);
    if (s->run->kinds[kind].nodes == 0 || has_spares(s)) {
      s->n_recovering++;
      add_return(s, s->now_s + detection_of(s, kind) + restart_of(s, kind), FALSE);
    }
    if (possible_level(s).dp == 0) {
      roll_back(s, INFINITY);
      restart(s, kind);
      return;
    }
    set_level(s);
    kind = pass(s, detection_of(s, kind) + s->run->leave_s, RUN_DOWN);
  }
}

static void interrupt(State *s, int kind) {
  if (s->run->elastic == ELASTIC_LIVE) {
    go_on(s, kind);
    return;
  }
  lose_nodes(s, kind);
  roll_back(s, INFINITY);
  restart(s, kind);
}

/* Write a checkpoint and let that time pass, from which the job goes on; TRUE: neither was cut short. */
static gboolean save_and_pass(State *s, double duration_s, RunPart part) {
  int kind = pass(s, s->run->stall_s + s->run->write_s, RUN_SAVING);
  if (kind >= 0) {
    interrupt(s, kind);
    return FALSE;
  }
  s->out.n_saves++;
  s->saved_s = s->now_s;
  kind = pass(s, duration_s, part);
  if (kind >= 0) {
    lose_nodes(s, kind);
    restart(s, kind);
  }
  return kind < 0;
}

/* Nodes are back. */
static void grow(State *s) {
  if (s->run->elastic == ELASTIC_RESTART) {
    if (save_and_pass(s, MAX(s->run->restart_s, s->run->join_s), RUN_FEWER))
      set_level(s);
    return;
  }
  set_level(s);
  const int kind = pass(s, s->run->join_s, RUN_FEWER);
  if (kind >= 0)
    go_on(s, kind);
}

static void maintain(State *s) {
  s->maintenance_s += s->run->maintenance_every_s;
  s->out.n_of_kind[s->run->n_kinds]++;
  s->out.n_events++;
  save_and_pass(s, s->run->maintenance_s, RUN_PLANNED);
}

/* Numbers are seen to have been wrong for some time. */
static void notice(State *s) {
  const int kind = s->wrong_kind;
  lose_nodes(s, kind);
  roll_back(s, s->wrong_since_s);
  restart(s, kind);
}

/* Until something stops it. */
static void train(State *s) {
  const TrainingRun *run = s->run;
  Segment segment = {.start_s = s->now_s, .steps = s->steps, .saved_s = s->saved_s, .level = s->level};
  const double end_s = s->now_s + course_of(run, &segment).end_s;
  mark(s, -1, s->level.dp);
  for (;;) {
    /* what came due while the job was down is due now */
    const double struck_s = failure_s(s), due_s = MAX(s->maintenance_s, s->now_s);
    const double noticed_s = MAX(s->noticed_s, s->now_s);
    const double next_s = MIN(MIN(struck_s, noticed_s), MIN(due_s, end_s));
    if (return_s(s) <= next_s) {
      advance(s, return_s(s));
      take_return(s);
      if (possible_level(s).dp <= segment.level.dp)
        continue;
      end_segment(s, &segment, -1);
      grow(s);
      return;
    }
    advance(s, next_s);
    if (next_s == struck_s) {
      const int kind = strike(s);
      if (run->kinds[kind].is_silent)
        continue;
      end_segment(s, &segment, kind);
      interrupt(s, kind);
      return;
    }
    const gboolean is_wrong = s->wrong_since_s != INFINITY && (next_s == noticed_s || next_s == end_s);
    end_segment(s, &segment, is_wrong ? s->wrong_kind : next_s == end_s ? -1 : run->n_kinds);
    if (is_wrong) /* the end is a check, too */
      notice(s);
    else if (next_s == end_s)
      s->is_done = TRUE;
    else
      maintain(s);
    return;
  }
}

RunOutcome training_run_once(const TrainingRun *run, guint64 seed, GArray *moments) {
  State s = {.run = run,
             .random = seed,
             .maintenance_s = run->maintenance_every_s,
             .wrong_since_s = INFINITY,
             .noticed_s = INFINITY,
             .n_up = run->n_nodes + MAX(run->n_spares, 0),
             .level = run->whole,
             .returns = g_array_new(FALSE, FALSE, sizeof(Return)),
             .segments = g_array_new(FALSE, FALSE, sizeof(Segment)),
             .out.n_of_kind = g_new0(double, run->n_kinds + 1),
             .moments = moments};
  for (int i = 0; i < run->n_kinds; i++)
    s.has_silent |= run->kinds[i].is_silent;
  s.hazard = exponential(&s);
  while (!s.is_done && !gives_up(&s))
    train(&s);
  s.out.ends = s.is_done;
  s.out.total_s = s.now_s;
  s.out.part_s[RUN_KEPT] = run->n_steps * run->whole.step_s;
  s.out.part_s[RUN_FEWER] += s.stepped_s - s.out.part_s[RUN_REDONE] - s.out.part_s[RUN_KEPT];
  s.out.mean_dp = s.stepped_s > 0 ? s.dp_s / s.stepped_s : run->whole.dp;
  g_array_unref(s.returns);
  g_array_unref(s.segments);
  return s.out;
}

void run_outcome_clear(RunOutcome *outcome) {
  g_clear_pointer(&outcome->n_of_kind, g_free);
}

/* --- many --- */

static void add(RunOutcome *sum, const RunOutcome *one, int n_kinds) {
  sum->ends = one->ends;
  sum->total_s += one->total_s;
  for (int i = 0; i < N_RUN_PARTS; i++)
    sum->part_s[i] += one->part_s[i];
  for (int i = 0; i <= n_kinds; i++)
    sum->n_of_kind[i] += one->n_of_kind[i];
  sum->n_saves += one->n_saves;
  sum->n_reshaped += one->n_reshaped;
  sum->mean_dp += one->mean_dp;
  sum->n_events += one->n_events;
}

static void divide(RunOutcome *sum, int n, int n_kinds) {
  sum->total_s /= n;
  for (int i = 0; i < N_RUN_PARTS; i++)
    sum->part_s[i] /= n;
  for (int i = 0; i <= n_kinds; i++)
    sum->n_of_kind[i] /= n;
  sum->n_saves /= n;
  sum->n_reshaped /= n;
  sum->mean_dp /= n;
}

/* Between the two nearest. */
static double quantile(const double *sorted, int n, double share) {
  const double at = share * (n - 1);
  const int below = MIN((int)at, n - 1), above = MIN(below + 1, n - 1);
  return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

RunSummary training_run_many(const TrainingRun *run, guint64 seed, int n_runs) {
  RunSummary summary = {.level = 0.8, .mean.n_of_kind = g_new0(double, run->n_kinds + 1)};
  RunOutcome *mean = &summary.mean;
  g_autofree double *totals_s = g_new(double, n_runs);
  do {
    RunOutcome one = training_run_once(run, splitmix(splitmix(seed) + (guint64)summary.n_runs), NULL);
    add(mean, &one, run->n_kinds);
    totals_s[summary.n_runs++] = one.total_s;
    run_outcome_clear(&one);
  } while (mean->ends && summary.n_runs < n_runs &&
           (mean->n_events < MOST_EVENTS_OF_ALL || summary.n_runs < FEWEST_RUNS));
  divide(mean, summary.n_runs, run->n_kinds);
  sort_doubles(totals_s, (gsize)summary.n_runs);
  summary.low_s = quantile(totals_s, summary.n_runs, (1 - summary.level) / 2);
  summary.high_s = quantile(totals_s, summary.n_runs, (1 + summary.level) / 2);
  return summary;
}

void run_summary_clear(RunSummary *summary) {
  run_outcome_clear(&summary->mean);
}
