/* Resident memory over time, from a Trace: each record allocates at its start and frees at its end (frees come
 * before allocations at equal times). */
#pragma once
#include "trace.h"

typedef struct {
  double bytes[N_MEMORY];
} MemorySample;

typedef struct {
  int worst_rank;  /* recorded rank with the highest peak; the lowest on a tie */
  int worst_first; /* the first rank of the plan that it stands for */
  double peak_bytes;
  MemorySample at_peak; /* of the worst rank */
  double *rank_peak;    /* [trace ranks]; in the same block of memory */
} MemoryProfile;

MemoryProfile *memory_profile_new(const Trace *trace);
void memory_profile_free(MemoryProfile *profile);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MemoryProfile, memory_profile_free)

/* Every change of one rank's memory, in time order. */
void memory_profile_visit(const Trace *trace, int rank,
                          void (*visit)(gint64 time_ns, const MemorySample *sample, gpointer data), gpointer data);
