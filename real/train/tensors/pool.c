#include "pool.h"

static void piece_free(gpointer data) {
  PoolPiece *piece = data;
  g_ptr_array_unref(piece->users);
  g_free(piece);
}

void pool_init(Pool *pool, Device *device, gint64 piece_bytes) {
  *pool = (Pool){.device = device, .piece_bytes = piece_bytes, .pieces = g_ptr_array_new_with_free_func(piece_free)};
}

void pool_init_on_host(Pool *pool, Device *device, gint64 piece_bytes) {
  pool_init(pool, device, piece_bytes);
  pool->is_on_host = TRUE;
}

void pool_clear(Pool *pool) {
  if (pool->pieces == NULL)
    return;
  const DeviceType *type = pool->device->type;
  for (guint i = 0; i < pool->pieces->len; i++)
    (pool->is_on_host ? type->release_host : type->release)(pool->device,
                                                            ((PoolPiece *)g_ptr_array_index(pool->pieces, i))->memory);
  g_clear_pointer(&pool->pieces, g_ptr_array_unref);
}

static PoolPiece *add_piece(Pool *pool, GError **error) {
  const DeviceType *type = pool->device->type;
  char *memory = NULL;
  if (pool->piece_bytes > 0)
    memory = (pool->is_on_host ? type->allocate_host : type->allocate)(pool->device, pool->piece_bytes, error);
  if (pool->piece_bytes > 0 && memory == NULL)
    return NULL;
  PoolPiece *piece = g_new0(PoolPiece, 1);
  piece->memory = memory;
  piece->users = g_ptr_array_new();
  g_ptr_array_add(pool->pieces, piece);
  return piece;
}

PoolPiece *pool_take(Pool *pool, DeviceStream *stream, GError **error) {
  PoolPiece *oldest = NULL;
  int n_free = 0;
  for (guint i = 0; i < pool->pieces->len; i++) {
    PoolPiece *piece = g_ptr_array_index(pool->pieces, i);
    if (piece->is_held)
      continue;
    n_free++;
    if (oldest == NULL || piece->freed < oldest->freed)
      oldest = piece;
  }
  PoolPiece *taken = n_free >= 2 ? oldest : add_piece(pool, error);
  if (taken == NULL)
    return NULL;
  for (guint i = 0; i < taken->users->len; i++)
    pool->device->type->wait(stream, g_ptr_array_index(taken->users, i));
  g_ptr_array_set_size(taken->users, 0);
  taken->is_held = TRUE;
  return taken;
}

void pool_piece_used(PoolPiece *piece, DeviceEvent *event) {
  g_ptr_array_add(piece->users, event);
}

void pool_release(Pool *pool, PoolPiece *piece) {
  g_assert(piece->is_held);
  piece->is_held = FALSE;
  piece->freed = ++pool->n_releases;
}
