/* Equal pieces of device memory, or of host memory for copies, that ops take and give back in list order, while the
 * work on them runs later: whoever takes a piece next first waits, on its own stream, for the events of those who used
 * it last. There is always one piece more than are held at a time, so that this wait is rarely felt. */
#pragma once
#include "device.h"

typedef struct {
  char *memory;
  GPtrArray *users; /* of DeviceEvent: ends of the ops that used it last */
  gboolean is_held;
  guint64 freed; /* when, counted in releases: the longest free is taken first */
} PoolPiece;

typedef struct {
  Device *device;
  gint64 piece_bytes;
  gboolean is_on_host;
  GPtrArray *pieces; /* of PoolPiece */
  guint64 n_releases;
} Pool;

void pool_init(Pool *pool, Device *device, gint64 piece_bytes);
void pool_init_on_host(Pool *pool, Device *device, gint64 piece_bytes);
void pool_clear(Pool *pool); /* of zeros, too */
/* NULL with the error set when memory is out. Later work on `stream` comes after the piece's last users. */
PoolPiece *pool_take(Pool *pool, DeviceStream *stream, GError **error);
/* `event`: recorded (now or later in issue order) behind a use of the piece. Once per user before the release. */
void pool_piece_used(PoolPiece *piece, DeviceEvent *event);
void pool_release(Pool *pool, PoolPiece *piece);
