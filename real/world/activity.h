/* What a rank is at, as far as others can count on it. */
#pragma once

typedef enum {
  RANK_BUSY,     /* with what has no known end: reading, comparing, writing */
  RANK_COMPUTES, /* in an op, whose kernels count as progress when they end */
  RANK_WAITS,    /* for another rank */
} RankActivity;
