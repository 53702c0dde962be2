/* What is swept: a space, or a sample of it, and by what it is told from other sweeps, so that results are never mixed:
 * the program, the space, and the contents of every file that was read. */
#pragma once
#include "result_store.h"

typedef struct {
  Space *space;    /* finished; owned */
  gint64 n_sample; /* configurations to draw at random; 0: all */
  gint64 seed;     /* seed of the drawing */
  double price;    /* dollars per GPU-hour; < 0: the clusters' own */
  gboolean prune;
  MemoryMargin margin; /* for every GPU */
} SweepSetup;
void sweep_setup_clear(SweepSetup *setup);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SweepSetup, sweep_setup_clear)

/* Number of configurations in the sweep. */
gint64 sweep_setup_count(const SweepSetup *setup);
/* The facts of a setup whose space was finished with its files. NULL with INPUT if a file can no longer be read. */
GArray *sweep_facts(const SweepSetup *setup, GError **error);
/* The setup that the facts describe; reads models and clusters unless `closed` (space.h). */
gboolean sweep_setup_from(SweepSetup *setup, const GArray *facts, gboolean closed, GError **error);
/* Which configuration is at a position of the order in which a sweep visits them (from 0 to the number of them). */
gint64 sweep_setup_index(const SweepSetup *setup, gint64 position);

/* The numbers below n in a random order that is computed, not stored: draws without replacement from spaces of any
 * size, the same for the same seed. */
typedef struct {
  gint64 n;
  guint64 seed;
  int half_bits; /* (computed) of the smallest square power of two ≥ n */
} Shuffle;

Shuffle shuffle_of(gint64 n, guint64 seed);
/* The number at `position` (both from 0 to n − 1); every number occurs at exactly one position. */
gint64 shuffle_at(const Shuffle *shuffle, gint64 position);
