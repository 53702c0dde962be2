/* The identity of a sweep, so that its results are never mixed with those of another: the program, the space, and
 * the contents of every file that was read. */
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
