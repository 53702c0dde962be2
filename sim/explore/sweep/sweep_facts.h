/* What a sweep is, so that results of one are never mixed with those of another: the program, the space, and the
 * contents of every file it was read from. */
#pragma once
#include "result_store.h"

typedef struct {
  Space *space;    /* finished; owned */
  gint64 n_sample; /* configurations drawn at random; 0: all */
  gint64 seed;     /* of the drawing */
  double price;    /* dollars per GPU-hour; < 0: the clusters' own */
  gboolean prune;
  MemoryMargin margin; /* of every GPU */
} SweepSetup;
void sweep_setup_clear(SweepSetup *setup);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(SweepSetup, sweep_setup_clear)

/* Configurations that the sweep has. */
gint64 sweep_setup_count(const SweepSetup *setup);
/* Facts of a setup whose space was finished with its files. NULL with INPUT when a file cannot be read any more. */
GArray *sweep_facts(const SweepSetup *setup, GError **error);
/* The setup that facts describe; reads models and clusters unless `closed` (space.h). */
gboolean sweep_setup_from(SweepSetup *setup, const GArray *facts, gboolean closed, GError **error);
