/* How long ranks wait for one another: options that `run` and `calibrate` share. */
#pragma once
#include "parser.h"
#include "world.h"

typedef struct {
  gdouble start_s;           /* for all ranks to start */
  gdouble stall_s, kernel_s; /* world_set_stall_timeouts() */
} RankTimeouts;

/* The defaults. */
void rank_timeouts_init(RankTimeouts *timeouts);
/* --start-timeout, --stall-timeout and --kernel-timeout. */
void rank_timeouts_add(RankTimeouts *timeouts, Parser *parser);
/* INPUT, naming an option that is out of range. */
gboolean rank_timeouts_check(const RankTimeouts *timeouts, GError **error);
/* Applies stall_s and kernel_s from now on. */
void rank_timeouts_apply(const RankTimeouts *timeouts, World *world);
