/* Records of one stream follow each other, so their starts are sorted and so are their ends: the ops that allocate
 * and those that free on each stream form two sorted lists, and a rank's history is a merge of at most N_LISTS lists.
 * The lists of frees come first, so that at equal times memory is freed before it is allocated. */
#include "memory_profile.h"

#include <string.h>

enum { N_LISTS = 2 * N_STREAMS }; /* drops of each stream, then holds of each stream */
enum { HAS_DROP = 1, HAS_HOLD = 2 };

typedef struct {
  gint32 op;             /* the next of the list; −1: none is left */
  const gint32 *next;    /* [ops] the next op on each op's list */
  const gint64 *time_ns; /* of the rank's ops */
  gboolean holds;
} Cursor;

/* The non-empty lists, by the time of their next op, ties in list order. A list whose op was taken moves back,
 * usually by a place or two. */
typedef struct {
  Cursor cursors[N_LISTS];
  gint64 next_ns[N_LISTS]; /* of each in `order`; G_MAXINT64 when none is left */
  int order[N_LISTS];      /* of cursors */
  int n;
} Merge;

typedef struct {
  const Trace *trace;
  guint8 *flags;         /* [effects] HAS_DROP | HAS_HOLD; owned */
  MemorySample *changes; /* [effects][2] what the drop, what the hold adds; owned */
  double *totals;        /* [effects][2] their sums; owned */
  gint32 *next_drop;     /* of one rank, [ops] the next op of its stream that drops something; −1: none; owned */
  gint32 *next_hold;     /* the same that hold; owned */
} Replay;

static void replay_init(Replay *replay, const Trace *trace) {
  const Program *program = trace->program;
  int n_most = 0;
  for (int pp = 0; pp < program->n_ranks; pp++)
    n_most = MAX(n_most, program->ranks[pp].n_ops);
  replay->trace = trace;
  replay->next_drop = g_new(gint32, n_most + 1);
  replay->next_hold = g_new(gint32, n_most + 1);
  replay->flags = g_new0(guint8, program->effects->len + 1);
  replay->changes = g_new(MemorySample, 2 * (gsize)program->effects->len + 1);
  replay->totals = g_new0(double, 2 * (gsize)program->effects->len + 1);
  for (guint e = 0; e < program->effects->len; e++) {
    const Effect *effect = &g_array_index(program->effects, Effect, e);
    for (int c = 0; c < N_MEMORY; c++) {
      replay->changes[2 * e].bytes[c] = -effect->drop[c];
      replay->changes[2 * e + 1].bytes[c] = effect->hold[c];
      replay->totals[2 * e] -= effect->drop[c];
      replay->totals[2 * e + 1] += effect->hold[c];
      replay->flags[e] |= (effect->drop[c] != 0 ? HAS_DROP : 0) | (effect->hold[c] != 0 ? HAS_HOLD : 0);
    }
  }
}

static void replay_clear(Replay *replay) {
  g_free(replay->flags);
  g_free(replay->changes);
  g_free(replay->totals);
  g_free(replay->next_drop);
  g_free(replay->next_hold);
}

/* Which lists an op belongs to; an op that never started or ended is not on the respective one. */
static inline guint8 op_flags(const Replay *replay, const Op *op, gsize record) {
  guint8 flags = replay->flags[op->effect];
  if (flags && replay->trace->start_ns[record] < 0)
    flags &= ~HAS_HOLD;
  if (flags && replay->trace->end_ns[record] < 0)
    flags &= ~HAS_DROP;
  return flags;
}

/* Chain the rank's ops into lists; first[l] is where list l begins, −1 where it is empty. */
static void chain_ops(Replay *replay, int rank, gint32 first[N_LISTS]) {
  const OpList *list = trace_list(replay->trace, rank);
  const gsize first_record = replay->trace->first[rank];
  for (int l = 0; l < N_LISTS; l++)
    first[l] = -1;
  for (gint32 i = list->n_ops; i-- > 0;) {
    const Op *op = &list->ops[i];
    const guint8 flags = op_flags(replay, op, first_record + (gsize)i);
    if (flags & HAS_DROP) {
      replay->next_drop[i] = first[op->stream];
      first[op->stream] = i;
    }
    if (flags & HAS_HOLD) {
      replay->next_hold[i] = first[N_STREAMS + op->stream];
      first[N_STREAMS + op->stream] = i;
    }
  }
}

/* Insert cursor `c` among those after `from`, which are sorted; `from` itself is free. */
static inline void merge_place_back(Merge *merge, int c, int from, int n) {
  const Cursor *cursor = &merge->cursors[c];
  gint64 next_ns = cursor->op >= 0 ? cursor->time_ns[cursor->op] : G_MAXINT64;
  int at = from;
  for (; at + 1 < n &&
         (merge->next_ns[at + 1] < next_ns || (merge->next_ns[at + 1] == next_ns && merge->order[at + 1] < c));
       at++) {
    merge->next_ns[at] = merge->next_ns[at + 1];
    merge->order[at] = merge->order[at + 1];
  }
  merge->next_ns[at] = next_ns;
  merge->order[at] = c;
}

static void merge_begin(Merge *merge) {
  for (int c = merge->n - 1; c >= 0; c--) /* the later ones are in order behind it */
    merge_place_back(merge, c, c, merge->n);
}

static void merge_init(Merge *merge, Replay *replay, int rank) {
  const Trace *trace = replay->trace;
  gint32 first[N_LISTS];
  chain_ops(replay, rank, first);
  merge->n = 0;
  for (int l = 0; l < N_LISTS; l++) {
    if (first[l] < 0)
      continue;
    gboolean holds = l >= N_STREAMS;
    merge->cursors[merge->n] = (Cursor){.op = first[l],
                                        .next = holds ? replay->next_hold : replay->next_drop,
                                        .time_ns = (holds ? trace->start_ns : trace->end_ns) + trace->first[rank],
                                        .holds = holds};
    merge->n++;
  }
  merge_begin(merge);
}

/* The next change of the merge, as an index into replay->changes; −1 when none is left. */
static inline int merge_next(Merge *merge, const OpList *list, gint64 *time_ns) {
  *time_ns = merge->n > 0 ? merge->next_ns[0] : G_MAXINT64;
  if (*time_ns == G_MAXINT64)
    return -1;
  int first = merge->order[0];
  Cursor *cursor = &merge->cursors[first];
  int change = 2 * list->ops[cursor->op].effect + cursor->holds;
  cursor->op = cursor->next[cursor->op];
  merge_place_back(merge, first, 0, merge->n);
  return change;
}

static void replay_rank(Replay *replay, int rank, void (*visit)(gint64, const MemorySample *, gpointer),
                        gpointer data) {
  const OpList *list = trace_list(replay->trace, rank);
  Merge merge;
  MemorySample sample;
  merge_init(&merge, replay, rank);
  memcpy(sample.bytes, list->resident, sizeof sample.bytes);
  gint64 now_ns = 0, time_ns;
  for (int change; (change = merge_next(&merge, list, &time_ns)) >= 0;) {
    for (int c = 0; c < N_MEMORY; c++)
      sample.bytes[c] += replay->changes[change].bytes[c];
    now_ns = MAX(now_ns, time_ns); /* measured clocks may step back a little */
    visit(now_ns, &sample, data);
  }
}

static double sample_total(const MemorySample *sample) {
  double total = 0;
  for (int c = 0; c < N_MEMORY; c++)
    total += sample->bytes[c];
  return total;
}

/* For most ranks only the peak is needed: the total is enough. */
static double peak_total(Replay *replay, int rank) {
  const OpList *list = trace_list(replay->trace, rank);
  Merge merge;
  MemorySample resident;
  merge_init(&merge, replay, rank);
  memcpy(resident.bytes, list->resident, sizeof resident.bytes);
  double total = sample_total(&resident), peak = total;
  gint64 time_ns;
  for (int change; (change = merge_next(&merge, list, &time_ns)) >= 0;) {
    total += replay->totals[change];
    peak = MAX(peak, total);
  }
  return peak;
}

typedef struct {
  double peak_bytes;
  MemorySample at_peak;
} Peak;

static void raise_peak(gint64 time_ns, const MemorySample *sample, gpointer data) {
  Peak *peak = data;
  double total = sample_total(sample);
  if (total > peak->peak_bytes)
    *peak = (Peak){total, *sample};
}

static Peak peak_of_rank(Replay *replay, int rank) {
  Peak peak;
  memcpy(peak.at_peak.bytes, trace_list(replay->trace, rank)->resident, sizeof peak.at_peak.bytes);
  peak.peak_bytes = sample_total(&peak.at_peak);
  replay_rank(replay, rank, raise_peak, &peak);
  return peak;
}

MemoryProfile *memory_profile_new(const Trace *trace) {
  MemoryProfile *profile = g_new0(MemoryProfile, 1);
  profile->rank_peak = g_new(double, trace->n_ranks);
  Replay replay;
  replay_init(&replay, trace);
  for (int r = 0; r < trace->n_ranks; r++) {
    profile->rank_peak[r] = peak_total(&replay, r);
    if (profile->rank_peak[r] > profile->rank_peak[profile->worst_rank])
      profile->worst_rank = r;
  }
  Peak worst = peak_of_rank(&replay, profile->worst_rank);
  profile->peak_bytes = profile->rank_peak[profile->worst_rank] = worst.peak_bytes;
  profile->at_peak = worst.at_peak;
  profile->worst_first = trace_first_rank(trace, profile->worst_rank);
  replay_clear(&replay);
  return profile;
}

void memory_profile_free(MemoryProfile *profile) {
  if (!profile)
    return;
  g_free(profile->rank_peak);
  g_free(profile);
}

void memory_profile_visit(const Trace *trace, int rank,
                          void (*visit)(gint64 time_ns, const MemorySample *sample, gpointer data), gpointer data) {
  Replay replay;
  replay_init(&replay, trace);
  replay_rank(&replay, rank, visit, data);
  replay_clear(&replay);
}
