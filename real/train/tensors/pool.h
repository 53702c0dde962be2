/* Equal pieces of device memory, or of host memory for copies. Ops take and return them in list order, while the work
 * on them runs later: the next taker first waits, on its own stream, for the events of the last users. There is
 * always one piece more than are held at a time, so this wait rarely costs anything. */
#pragma once
#include "device.h"

typedef struct {
  char *memory;
  GPtrArray *users; /* of DeviceEvent: ends of the ops that last used it */
  gboolean is_held;
  guint64 freed; /* release count at its release: the piece free for longest is taken first */
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
void pool_clear(Pool *pool); /* zeroed is fine */
/* NULL with the error set if memory is short. Later work on `stream` runs after the piece's last users. */
PoolPiece *pool_take(Pool *pool, DeviceStream *stream, GError **error);
/* `event`: recorded (now or later in issue order) after a use of the piece. Once per user, before the release. */
void pool_piece_used(PoolPiece *piece, DeviceEvent *event);
void pool_release(Pool *pool, PoolPiece *piece);
