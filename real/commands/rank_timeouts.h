/* How long the ranks of a verb wait for one another: options that run and calibrate share. */
#pragma once
#include "parser.h"
#include "world.h"

typedef struct {
  gdouble start_s;           /* for ranks that have not started */
  gdouble stall_s, kernel_s; /* world_set_stall_timeouts() */
} RankTimeouts;

/* The defaults. */
void rank_timeouts_init(RankTimeouts *timeouts);
/* --start-timeout, --stall-timeout and --kernel-timeout. */
void rank_timeouts_add(RankTimeouts *timeouts, Parser *parser);
/* INPUT naming the option that is out of its range. */
gboolean rank_timeouts_check(const RankTimeouts *timeouts, GError **error);
/* The last two, from now on. */
void rank_timeouts_apply(const RankTimeouts *timeouts, World *world);
