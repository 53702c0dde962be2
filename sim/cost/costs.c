/* Open addressing; keys and values lie in blocks, so that they stay where they are when the table grows. */
#include "costs.h"

#include <string.h>

enum { MOST_BYTES = 16 << 20, BLOCK_BYTES = 64 << 10, LEAST_SLOTS = 128 };
/* A stretch of more words than this is not hashed whole: what changes there, a plan's sizes, say, shows in many. */
enum { MOST_HASHED_WORDS = 24 };

/* Followed by head, body and value. */
typedef struct {
  guint64 hash;
  gsize head_size, body_size;
} Entry;

struct Costs {
  Entry **slots; /* NULL: free */
  guint n_slots; /* a power of two */
  guint n_entries;
  GPtrArray *blocks; /* owned */
  guint8 *free;      /* in the last block */
  gsize n_free;
  gsize n_bytes; /* of all blocks */
  gint64 n_timings;
  GByteArray *scratch;
};

Costs *costs_new(void) {
  Costs *costs = g_new0(Costs, 1);
  costs->n_slots = LEAST_SLOTS;
  costs->slots = g_new0(Entry *, LEAST_SLOTS);
  costs->blocks = g_ptr_array_new_with_free_func(g_free);
  costs->scratch = g_byte_array_new();
  return costs;
}

void costs_free(Costs *costs) {
  if (costs == NULL)
    return;
  g_free(costs->slots);
  g_ptr_array_unref(costs->blocks);
  g_byte_array_unref(costs->scratch);
  g_free(costs);
}

static void forget_all(Costs *costs) {
  g_ptr_array_set_size(costs->blocks, 0);
  memset(costs->slots, 0, costs->n_slots * sizeof *costs->slots);
  costs->n_entries = 0;
  costs->n_free = costs->n_bytes = 0;
}

gint64 costs_begin(Costs *costs) {
  if (costs->n_bytes > MOST_BYTES)
    forget_all(costs);
  return ++costs->n_timings;
}

gpointer costs_scratch(Costs *costs, gsize size) {
  g_byte_array_set_size(costs->scratch, (guint)size);
  return costs->scratch->data;
}

static gsize whole_words(gsize size) {
  return (size + 7) & ~(gsize)7;
}

gpointer costs_alloc(Costs *costs, gsize size) {
  size = whole_words(size);
  if (size > costs->n_free) {
    costs->n_free = MAX(size, BLOCK_BYTES);
    costs->free = g_malloc(costs->n_free);
    costs->n_bytes += costs->n_free;
    g_ptr_array_add(costs->blocks, costs->free);
  }
  guint8 *taken = costs->free;
  costs->free += size;
  costs->n_free -= size;
  return taken;
}

/* From the last word on, by powers of two, so that each field of records of an odd number of words has its turn. */
static guint64 hash_words(guint64 hash, const guint8 *bytes, gsize size) {
  gssize step = 8;
  for (gsize n = size / 8; n > MOST_HASHED_WORDS; n /= 2)
    step *= 2;
  for (gssize at = (gssize)size - 8; at >= 0; at -= step) {
    guint64 word;
    memcpy(&word, bytes + at, sizeof word);
    hash = ((hash << 5 | hash >> 59) ^ word) * 0x9E3779B97F4A7C15u; /* 2⁶⁴ / golden ratio */
  }
  return hash ^ hash >> 32;
}

static guint64 hash_of(const CostKey *key) {
  return hash_words(hash_words(key->head_size + (key->body_size << 32), key->head, key->head_size), key->body,
                    key->body_size);
}

static guint8 *head_of(const Entry *entry) {
  return (guint8 *)(entry + 1);
}

static guint8 *body_of(const Entry *entry) {
  return head_of(entry) + entry->head_size;
}

static gpointer value_of(const Entry *entry) {
  return body_of(entry) + whole_words(entry->body_size);
}

static gboolean has_key(const Entry *entry, const CostKey *key) {
  return entry->head_size == key->head_size && entry->body_size == key->body_size &&
         memcmp(head_of(entry), key->head, key->head_size) == 0 &&
         (key->body_size == 0 || memcmp(body_of(entry), key->body, key->body_size) == 0);
}

static void grow(Costs *costs) {
  Entry **old = costs->slots;
  const guint n_old = costs->n_slots;
  costs->n_slots *= 2;
  costs->slots = g_new0(Entry *, costs->n_slots);
  for (guint i = 0; i < n_old; i++)
    if (old[i] != NULL) {
      guint at = (guint)old[i]->hash & (costs->n_slots - 1);
      while (costs->slots[at] != NULL)
        at = (at + 1) & (costs->n_slots - 1);
      costs->slots[at] = old[i];
    }
  g_free(old);
}

gpointer costs_at(Costs *costs, CostKey key, gsize value_size, gboolean *is_new) {
  if (2 * costs->n_entries >= costs->n_slots)
    grow(costs);
  const guint64 hash = hash_of(&key);
  guint at = (guint)hash & (costs->n_slots - 1);
  for (; costs->slots[at] != NULL; at = (at + 1) & (costs->n_slots - 1))
    if (costs->slots[at]->hash == hash && has_key(costs->slots[at], &key)) {
      *is_new = FALSE;
      return value_of(costs->slots[at]);
    }
  Entry *entry = costs_alloc(costs, sizeof *entry + key.head_size + whole_words(key.body_size) + value_size);
  *entry = (Entry){hash, key.head_size, key.body_size};
  memcpy(head_of(entry), key.head, key.head_size);
  if (key.body_size > 0)
    memcpy(body_of(entry), key.body, key.body_size);
  costs->slots[at] = entry;
  costs->n_entries++;
  *is_new = TRUE;
  return value_of(entry);
}
