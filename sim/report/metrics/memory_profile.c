/* Records of one stream follow each other, so their starts are sorted and so are their ends: the ops that allocate
 * and those that free on each stream form two sorted lists, and a rank's history is a merge of at most N_LISTS lists.
 * The lists of frees come first, so that at equal times memory is freed before it is allocated. */
#include "memory_profile.h"

#include <string.h>

enum { N_LISTS = 2 * N_STREAMS, LIST_BITS = 5 }; /* drops of each stream, then holds of each stream */
G_STATIC_ASSERT(N_LISTS == 1 << LIST_BITS);

/* A hold or a drop on its list. */
typedef struct {
  gint64 key;    /* its time and its list, by which the lists merge */
  gint32 next;   /* on its list */
  gint32 change; /* 2 · effect, and 1 for a hold */
} Event;

/* Of one rank at a time. */
typedef struct {
  const Trace *trace;
  const Program *program; /* whose effects they are */
  double *totals; /* [effects][2] bytes that a drop, a hold adds in all; owned, as one block with what follows */
  Event *events;  /* [1 + ops][2]: [0] ends every list, [2 + 2 · op] its drop and then its hold */
  gint32 *order;  /* [1 + ops][2] changes in the order of time */
  guint8 *is_any; /* [effects][2] whether it adds anything */
  gint64 keys[N_LISTS + 1]; /* of lists, in order; the last is G_MAXINT64. A list whose event was taken moves back,
                               usually by a place or two */
  gint32 next[N_LISTS];     /* the next event of each list; 0: none */
} Replay;

static double added(const Program *program, gsize change, int category) {
  const Effect *effect = &g_array_index(program->effects, Effect, change / 2);
  return change % 2 != 0 ? effect->hold[category] : -effect->drop[category];
}

/* What changes add for this rank. */
static void take_effects(Replay *replay, int rank) {
  const Program *program = trace_program(replay->trace, rank);
  if (replay->program == program)
    return;
  replay->program = program;
  for (gsize k = 0; k < 2 * program->effects->len; k++) {
    replay->totals[k] = replay->is_any[k] = 0;
    for (int c = 0; c < N_MEMORY; c++) {
      replay->totals[k] += added(program, k, c);
      replay->is_any[k] |= added(program, k, c) != 0;
    }
  }
}

static void replay_init(Replay *replay, const Trace *trace) {
  const gsize n_changes = 2 * trace->program->effects->len;
  const gsize n_events = 2 * (1 + trace_longest_list(trace));
  replay->trace = trace;
  replay->program = NULL;
  replay->totals = g_malloc(n_changes * (sizeof *replay->totals + sizeof *replay->is_any) +
                            n_events * (sizeof *replay->events + sizeof *replay->order));
  replay->events = (Event *)(replay->totals + n_changes);
  replay->order = (gint32 *)(replay->events + n_events);
  replay->is_any = (guint8 *)(replay->order + n_events);
  replay->events[0] = (Event){.key = G_MAXINT64};
}

static void replay_clear(Replay *replay) {
  g_free(replay->totals);
}

/* Insert a key among those behind keys[0], which are sorted; keys[0] itself is free. */
static inline void keep_in_order(gint64 *keys, gint64 key) {
  for (; keys[1] < key; keys++)
    keys[0] = keys[1];
  keys[0] = key;
}

static inline void chain(Replay *replay, gint32 event, gint32 change, guint list, gint64 time_ns) {
  const gint64 latest_ns = (G_MAXINT64 >> LIST_BITS) - 1;
  replay->events[event] = (Event){MIN(time_ns, latest_ns) << LIST_BITS | list, replay->next[list], change};
  replay->next[list] = event;
}

/* Chain the rank's changes into lists. An op that never started or ended is not on the respective one. */
static void replay_begin(Replay *replay, int rank) {
  const OpList *list = trace_list(replay->trace, rank);
  const gint64 *start_ns = replay->trace->start_ns + replay->trace->first[rank];
  const gint64 *end_ns = replay->trace->end_ns + replay->trace->first[rank];
  take_effects(replay, rank);
  memset(replay->next, 0, sizeof replay->next);
  for (gint32 i = list->n_ops; i-- > 0;) {
    const gint32 change = 2 * list->ops[i].effect;
    if (change == 0)
      continue;
    if (replay->is_any[change] && end_ns[i] >= 0)
      chain(replay, 2 + 2 * i, change, list->ops[i].stream, end_ns[i]);
    if (replay->is_any[change + 1] && start_ns[i] >= 0)
      chain(replay, 3 + 2 * i, change + 1, N_STREAMS + list->ops[i].stream, start_ns[i]);
  }
  gint64 *keys = replay->keys + N_LISTS;
  *keys = G_MAXINT64;
  for (int l = 0; l < N_LISTS; l++)
    if (replay->next[l] != 0)
      keep_in_order(--keys, replay->events[replay->next[l]].key);
  memmove(replay->keys, keys, sizeof *keys * (gsize)(replay->keys + N_LISTS + 1 - keys));
}

/* The next event; NULL when none is left. */
static inline const Event *replay_next(Replay *replay) {
  const gint64 key = replay->keys[0];
  if (key == G_MAXINT64)
    return NULL;
  gint32 *next = &replay->next[key & (N_LISTS - 1)];
  const Event *event = &replay->events[*next];
  *next = event->next;
  keep_in_order(replay->keys, replay->events[event->next].key);
  return event;
}

static double sum_of(const double bytes[N_MEMORY]) {
  double sum = 0;
  for (int c = 0; c < N_MEMORY; c++)
    sum += bytes[c];
  return sum;
}

/* For most ranks only the total is needed; *n_until: changes until it is highest. */
static double peak_of_rank(Replay *replay, int rank, int *n_until) {
  double total = sum_of(trace_list(replay->trace, rank)->resident), peak = total;
  int n = 0;
  *n_until = 0;
  replay_begin(replay, rank);
  for (const Event *event; (event = replay_next(replay)) != NULL;) {
    total += replay->totals[event->change];
    replay->order[n++] = event->change;
    if (total > peak) {
      peak = total;
      *n_until = n;
    }
  }
  return peak;
}

static void sample_after(const Replay *replay, int rank, int n, MemorySample *sample) {
  memcpy(sample->bytes, trace_list(replay->trace, rank)->resident, sizeof sample->bytes);
  for (int i = 0; i < n; i++)
    for (int c = 0; c < N_MEMORY; c++)
      sample->bytes[c] += added(replay->program, (gsize)replay->order[i], c);
}

MemoryProfile *memory_profile_new(const Trace *trace) {
  MemoryProfile *profile = g_malloc0(sizeof *profile + sizeof *profile->rank_peak * (gsize)trace->n_ranks);
  profile->rank_peak = (double *)(profile + 1);
  Replay replay;
  replay_init(&replay, trace);
  for (int r = 0; r < trace->n_ranks; r++) {
    int n_until;
    profile->rank_peak[r] = peak_of_rank(&replay, r, &n_until);
    if (r > 0 && profile->rank_peak[r] <= profile->peak_bytes)
      continue;
    profile->worst_rank = r;
    profile->peak_bytes = profile->rank_peak[r];
    sample_after(&replay, r, n_until, &profile->at_peak);
  }
  profile->worst_first = trace_first_rank(trace, profile->worst_rank);
  replay_clear(&replay);
  return profile;
}

void memory_profile_free(MemoryProfile *profile) {
  g_free(profile);
}

void memory_profile_visit(const Trace *trace, int rank,
                          void (*visit)(gint64 time_ns, const MemorySample *sample, gpointer data), gpointer data) {
  Replay replay;
  MemorySample sample;
  replay_init(&replay, trace);
  replay_begin(&replay, rank);
  sample_after(&replay, rank, 0, &sample);
  gint64 now_ns = 0;
  for (const Event *event; (event = replay_next(&replay)) != NULL;) {
    for (int c = 0; c < N_MEMORY; c++)
      sample.bytes[c] += added(replay.program, (gsize)event->change, c);
    now_ns = MAX(now_ns, event->key >> LIST_BITS); /* measured clocks may step back a little */
    visit(now_ns, &sample, data);
  }
  replay_clear(&replay);
}
