/* What a transfer takes of its ranks' ways, ready for use in a flow. A flow's rate is expressed in thousandths of its
 * widest share. With s_w its share of way w and s its largest share:
 *
 *     cap = s,   bytes = (run − latency) · s,   on way w it counts s_w · 1000 / s times, of a capacity of 1000 · 1000
 *
 * so that flows on a full way get equal parts of that way's bytes. */
#pragma once
#include "timing.h"

/* A way is two links, one for each direction; those of rank r are r · LINKS_PER_RANK and the following ones. */
enum { OUT, IN, N_DIRECTIONS, LINKS_PER_RANK = TIMING_MAX_WAYS * N_DIRECTIONS };
#define WAY_CAPACITY ((double)TIMING_WHOLE_WAY * TIMING_WHOLE_WAY)

typedef struct {
  int n_ways;
  gint32 link[TIMING_MAX_WAYS]; /* of rank 0, outgoing */
  gint64 count[TIMING_MAX_WAYS];
  double cap;
  double bytes;
  gint64 latency_ticks;
  guint32 out;  /* its outgoing links as bits */
  double alone; /* the rate it has where nobody else is; and how long it then takes to move */
  gint64 alone_ticks;
  gint32 server;    /* the link of parameter servers that it takes once; −1: none. Then that is all it takes, at 1 */
  gint32 narrowest; /* the outgoing link that sets that rate; −1: the cap */
} Demand;
