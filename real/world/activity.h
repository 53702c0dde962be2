/* What kind of work a rank is doing, for stall detection. */
#pragma once

typedef enum {
  RANK_BUSY,     /* work of unknown length: reading, comparing, writing */
  RANK_COMPUTES, /* in an op; each kernel that ends counts as progress */
  RANK_WAITS,    /* for another rank */
} RankActivity;
