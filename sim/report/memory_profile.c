/* Records of one stream follow each other, so their starts are sorted and their ends are sorted: the ops that hold and
 * the ops that drop something on each stream are two sorted lists, and a rank's history is a merge of at most 2 × 11 of
 * them. Lists of drops stand first, so that at equal times memory is given back before it is taken. */
#include "memory_profile.h"

#include <string.h>

enum { N_LISTS = 2 * N_STREAMS }; /* drops of each stream, then holds of each stream */
enum { HAS_DROP = 1, HAS_HOLD = 2 };

typedef struct {
  const gint32 *next, *end; /* op indices yet to come */
  const gint64 *time_ns;    /* of the rank's ops */
  gint64 next_ns;           /* G_MAXINT64 when none is left */
  gboolean holds;
} Cursor;

typedef struct {
  const Trace *trace;
  guint8 *flags;   /* [effects] HAS_DROP | HAS_HOLD; owned */
  gint32 *indices; /* ops of one rank by list; twice the longest op list; owned */
} Replay;

static void replay_init(Replay *replay, const Trace *trace) {
  const Program *program = trace->program;
  int n_most = 0;
  for (int pp = 0; pp < program->n_ranks; pp++)
    n_most = MAX(n_most, program->ranks[pp].n_ops);
  replay->trace = trace;
  replay->indices = g_new(gint32, 2 * (gsize)n_most + 1);
  replay->flags = g_new0(guint8, program->effects->len + 1);
  for (guint e = 0; e < program->effects->len; e++) {
    const Effect *effect = &g_array_index(program->effects, Effect, e);
    for (int c = 0; c < N_MEMORY; c++)
      replay->flags[e] |= (effect->drop[c] != 0 ? HAS_DROP : 0) | (effect->hold[c] != 0 ? HAS_HOLD : 0);
  }
}

static void replay_clear(Replay *replay) {
  g_free(replay->flags);
  g_free(replay->indices);
}

/* Which lists an op belongs to; an op that never started or ended changes nothing there. */
static guint8 op_flags(const Replay *replay, const Op *op, gsize record) {
  guint8 flags = replay->flags[op->effect];
  if (flags && replay->trace->start_ns[record] < 0)
    flags &= ~HAS_HOLD;
  if (flags && replay->trace->end_ns[record] < 0)
    flags &= ~HAS_DROP;
  return flags;
}

/* Sort the rank's ops into lists by counting; offsets[l] … offsets[l + 1] bound list l in replay->indices. */
static void sort_ops(Replay *replay, int rank, int offsets[N_LISTS + 1]) {
  const OpList *list = trace_list(replay->trace, rank);
  gsize first = replay->trace->first[rank];
  int fill[N_LISTS] = {0};
  for (int i = 0; i < list->n_ops; i++) {
    guint8 flags = op_flags(replay, &list->ops[i], first + (gsize)i);
    fill[list->ops[i].stream] += (flags & HAS_DROP) != 0;
    fill[N_STREAMS + list->ops[i].stream] += (flags & HAS_HOLD) != 0;
  }
  offsets[0] = 0;
  for (int l = 0; l < N_LISTS; l++) {
    offsets[l + 1] = offsets[l] + fill[l];
    fill[l] = offsets[l];
  }
  for (gint32 i = 0; i < list->n_ops; i++) {
    guint8 flags = op_flags(replay, &list->ops[i], first + (gsize)i);
    if (flags & HAS_DROP)
      replay->indices[fill[list->ops[i].stream]++] = i;
    if (flags & HAS_HOLD)
      replay->indices[fill[N_STREAMS + list->ops[i].stream]++] = i;
  }
}

static void cursor_look(Cursor *cursor) {
  cursor->next_ns = cursor->next < cursor->end ? cursor->time_ns[*cursor->next] : G_MAXINT64;
}

static int cursors_init(Replay *replay, int rank, Cursor cursors[N_LISTS]) {
  const Trace *trace = replay->trace;
  int offsets[N_LISTS + 1], n = 0;
  sort_ops(replay, rank, offsets);
  for (int l = 0; l < N_LISTS; l++) {
    if (offsets[l] == offsets[l + 1])
      continue;
    Cursor *cursor = &cursors[n++];
    cursor->holds = l >= N_STREAMS;
    cursor->next = replay->indices + offsets[l];
    cursor->end = replay->indices + offsets[l + 1];
    cursor->time_ns = (cursor->holds ? trace->start_ns : trace->end_ns) + trace->first[rank];
    cursor_look(cursor);
  }
  return n;
}

static void replay_rank(Replay *replay, int rank, void (*visit)(gint64, const MemorySample *, gpointer),
                        gpointer data) {
  const OpList *list = trace_list(replay->trace, rank);
  Cursor cursors[N_LISTS];
  int n_cursors = cursors_init(replay, rank, cursors);
  MemorySample sample;
  memcpy(sample.bytes, list->resident, sizeof sample.bytes);
  for (gint64 now_ns = 0;;) {
    Cursor *first = NULL;
    for (int c = 0; c < n_cursors; c++)
      if (cursors[c].next < cursors[c].end && (!first || cursors[c].next_ns < first->next_ns))
        first = &cursors[c];
    if (!first)
      return;
    const Effect *effect = &g_array_index(replay->trace->program->effects, Effect, list->ops[*first->next].effect);
    for (int c = 0; c < N_MEMORY; c++)
      sample.bytes[c] += first->holds ? effect->hold[c] : -effect->drop[c];
    now_ns = MAX(now_ns, first->next_ns); /* measured clocks may step back a little */
    visit(now_ns, &sample, data);
    first->next++;
    cursor_look(first);
  }
}

typedef struct {
  double peak_bytes;
  MemorySample at_peak;
} Peak;

static double sample_total(const MemorySample *sample) {
  double total = 0;
  for (int c = 0; c < N_MEMORY; c++)
    total += sample->bytes[c];
  return total;
}

static void raise_peak(gint64 time_ns, const MemorySample *sample, gpointer data) {
  Peak *peak = data;
  double total = sample_total(sample);
  if (total > peak->peak_bytes)
    *peak = (Peak){total, *sample};
}

MemoryProfile *memory_profile_new(const Trace *trace) {
  MemoryProfile *profile = g_new0(MemoryProfile, 1);
  profile->rank_peak = g_new(double, trace->n_ranks);
  Replay replay;
  replay_init(&replay, trace);
  for (int r = 0; r < trace->n_ranks; r++) {
    Peak peak;
    memcpy(peak.at_peak.bytes, trace_list(trace, r)->resident, sizeof peak.at_peak.bytes);
    peak.peak_bytes = sample_total(&peak.at_peak);
    replay_rank(&replay, r, raise_peak, &peak);
    profile->rank_peak[r] = peak.peak_bytes;
    if (r == 0 || peak.peak_bytes > profile->peak_bytes) {
      profile->worst_rank = r;
      profile->peak_bytes = peak.peak_bytes;
      profile->at_peak = peak.at_peak;
    }
  }
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
