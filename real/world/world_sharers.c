/* Which ranks share a processor: rank 0 counts equal ids and tells every rank. */
#include "world_state.h"

#include <string.h>

/* A rank's processor. */
typedef struct {
  char id[64], name[64]; /* id "": its own */
} Processor;

typedef struct {
  int n, most;
  char most_shared[64];
} Sharing;

static Sharing *count_sharers(const Processor *all, int n_ranks) {
  Sharing *sharing = g_new0(Sharing, n_ranks);
  g_autoptr(GHashTable) counts = g_hash_table_new(g_str_hash, g_str_equal); /* by id */
  for (int rank = 0; rank < n_ranks; rank++) {
    const int n = GPOINTER_TO_INT(g_hash_table_lookup(counts, all[rank].id));
    g_hash_table_insert(counts, (gpointer)all[rank].id, GINT_TO_POINTER(n + 1));
  }
  int most = 0;
  for (int rank = 0; rank < n_ranks; rank++) {
    const gboolean is_own = all[rank].id[0] == '\0';
    sharing[rank].n = is_own ? 1 : GPOINTER_TO_INT(g_hash_table_lookup(counts, all[rank].id));
    most = sharing[rank].n > sharing[most].n ? rank : most;
  }
  for (int rank = 0; rank < n_ranks; rank++) {
    sharing[rank].most = sharing[most].n;
    memcpy(sharing[rank].most_shared, all[most].name, sizeof all[most].name);
  }
  return sharing;
}

void world_find_sharers(World *world, const char *id, const char *name) {
  Processor own = {{0}, {0}};
  g_strlcpy(own.id, id != NULL ? id : "", sizeof own.id);
  g_strlcpy(own.name, name, sizeof own.name);
  g_autofree gsize *sizes = NULL;
  g_autofree Processor *all = world_gather(world, &own, sizeof own, &sizes);
  g_autofree Sharing *sharing = all != NULL ? count_sharers(all, world->size) : g_new0(Sharing, world->size);
  world_broadcast(world, sharing, (gsize)world->size * sizeof *sharing, 0);
  world->n_sharers = sharing[world->rank].n;
  world->most_sharers = sharing[world->rank].most;
  memcpy(world->most_shared, sharing[world->rank].most_shared, sizeof world->most_shared);
}

int world_n_sharers(const World *world) {
  return world->n_sharers;
}

int world_most_sharers(const World *world, const char **name) {
  *name = world->most_shared;
  return world->most_sharers;
}
