/* Collectives as pairwise exchanges. The data is cut into one part per member, and each part into chunks. Every member
 * sends each chunk to the member that owns its part, reduces the chunks it receives for its own part, and sends the
 * result to all:
 *
 *              part 0   part 1   part 2        SCATTER  chunk c of part p goes to p
 *   member 0  [███    ][██     ][██     ]      reduce   p adds what it got, in member order
 *   member 1  [███    ][██     ][██     ]      GATHER   p sends the sum to all
 *   member 2  [███    ][██     ][██     ]
 *
 *   all_reduce = SCATTER, GATHER    reduce_scatter = SCATTER    all_gather = GATHER
 *   broadcast = SCATTER by the root, GATHER; a small one is GATHER alone, with the root owning everything
 *   all_to_all = SWAP: the chunk of part p goes to p, and p's chunk takes its place
 *   send_recv = SWAP of everything: to the next member, from the previous one
 *
 * The volume per member is the ring's, 2(n−1)/n·S for all_reduce, but in 2 steps instead of 2(n−1). One member makes
 * each sum, in member order, so all members get the same bits, in every run, and bf16 rounds once. Two chunks are in
 * flight at a time: one is reduced while still in cache, the other travels. An all_reduce that fits in one small
 * message is not cut: every member sends everything to all and makes the whole sum itself.
 *
 * Compared with MPICH 4.0.2's own collectives (bench_comm, 2 ranks), which send and reduce whole buffers in turn. */
#include "mpi_transfer.h"

#include "mpi_call.h"

#include <string.h>

enum {
  N_SLOTS = 2,
  MAX_CHUNK_BYTES = 256 << 10, /* reduced from cache; see bench_comm */
  MIN_CHUNK_BYTES = 16 << 10,
  SCRATCH_BYTES = 1 << 20,     /* per slot, shared by the members */
  PLAIN_CHUNK_BYTES = 4 << 20, /* where nothing is reduced */
  SMALL_BYTES = 8 << 10,
};

typedef enum { SLOT_IDLE, SLOT_SCATTER, SLOT_GATHER, SLOT_SWAP } SlotPhase;

/* A chunk in flight. */
typedef struct {
  SlotPhase phase;
  gint64 chunk;
  RequestSet set;
  char *scratch; /* (size − 1, chunk) */
} Slot;

/* Kept between collectives of a group: memory fresh from the system costs more than the transfer. */
typedef struct {
  CpuScratch *kernels;
  char *chunks; /* (N_SLOTS, size − 1, chunk) */
} Scratch;

struct Exchange {
  TransferSpec spec;
  gboolean has_scatter, has_gather; /* neither: SWAP */
  gboolean is_whole;                /* every member owns everything: small all_reduce, send_recv */
  int root;                         /* broadcast; else −1 */
  gint64 element, chunk;            /* bytes of one; elements */
  gint64 n_chunks, next_chunk;
  char *own_out; /* where the first element of this member's part goes */
  Slot slots[N_SLOTS];
  Scratch *scratch;
};

/* A chunk of a part: elements [first, first + n) of the whole. */
typedef struct {
  gint64 first, n;
} Span;

static gint64 part_first(const Exchange *exchange, int member) {
  gint64 n = exchange->spec.n;
  int size = exchange->spec.group->size;
  if (exchange->is_whole)
    return 0;
  if (exchange->root >= 0 && !exchange->has_scatter)
    return member <= exchange->root ? 0 : n;
  return n / size * member + MIN(member, n % size);
}

static gint64 part_end(const Exchange *exchange, int member) {
  return exchange->is_whole ? exchange->spec.n : part_first(exchange, member + 1);
}

static Span piece_of(const Exchange *exchange, int member, gint64 chunk) {
  gint64 end = part_end(exchange, member), first = part_first(exchange, member) + chunk * exchange->chunk;
  return (Span){first, CLAMP(end - first, 0, exchange->chunk)};
}

static void plan(Exchange *exchange) {
  const TransferSpec *spec = &exchange->spec;
  int size = spec->group->size;
  gint64 bytes = spec->n * exchange->element;
  exchange->root = spec->collective == COLLECTIVE_BROADCAST ? 0 : -1;
  switch (spec->collective) {
  case COLLECTIVE_ALL_REDUCE:
    exchange->is_whole = bytes * (size - 1) <= SMALL_BYTES;
    exchange->has_scatter = TRUE;
    exchange->has_gather = !exchange->is_whole;
    break;
  case COLLECTIVE_REDUCE_SCATTER:
    exchange->has_scatter = TRUE;
    break;
  case COLLECTIVE_ALL_GATHER:
    exchange->has_gather = TRUE;
    break;
  case COLLECTIVE_BROADCAST:
    exchange->has_scatter = size > 2 && bytes > SMALL_BYTES * size;
    exchange->has_gather = TRUE;
    break;
  case COLLECTIVE_SEND_RECV:
    exchange->is_whole = TRUE;
    break;
  case COLLECTIVE_ALL_TO_ALL:
    break;
  default:
    g_assert_not_reached();
  }
}

/* The group's scratch serves one collective at a time; a second concurrent one gets its own. */
static Scratch *take_scratch(MpiGroup *group) {
  Scratch *scratch = g_atomic_pointer_exchange(&group->scratch, NULL);
  if (scratch != NULL)
    return scratch;
  scratch = g_new0(Scratch, 1);
  scratch->kernels = cpu_scratch_new();
  scratch->chunks = g_malloc(N_SLOTS * MAX(SCRATCH_BYTES, (group->size - 1) * MIN_CHUNK_BYTES));
  return scratch;
}

static void give_scratch(MpiGroup *group, Scratch *scratch) {
  if (!g_atomic_pointer_compare_and_exchange(&group->scratch, NULL, scratch))
    exchange_scratch_free(scratch);
}

void exchange_scratch_free(gpointer data) {
  Scratch *scratch = data;
  if (scratch == NULL)
    return;
  cpu_scratch_free(scratch->kernels);
  g_free(scratch->chunks);
  g_free(scratch);
}

Exchange *exchange_new(const TransferSpec *spec) {
  Exchange *exchange = g_new0(Exchange, 1);
  int size = spec->group->size;
  exchange->spec = *spec;
  exchange->element = element_bytes(spec->element);
  plan(exchange);
  gint64 chunk_bytes = CLAMP(SCRATCH_BYTES / (size - 1), MIN_CHUNK_BYTES, MAX_CHUNK_BYTES);
  if (!exchange->has_scatter || exchange->root >= 0)
    chunk_bytes = PLAIN_CHUNK_BYTES;
  exchange->chunk = chunk_bytes / exchange->element;
  gint64 longest = 0;
  for (int p = 0; p < size; p++)
    longest = MAX(longest, part_end(exchange, p) - part_first(exchange, p));
  exchange->n_chunks = (longest + exchange->chunk - 1) / exchange->chunk;
  exchange->own_out = spec->out;
  if (spec->collective != COLLECTIVE_REDUCE_SCATTER)
    exchange->own_out += part_first(exchange, spec->group->rank) * exchange->element;
  for (int i = 0; i < N_SLOTS; i++)
    request_set_init(&exchange->slots[i].set, 2 * (size - 1));
  return exchange;
}

void exchange_free(Exchange *exchange) {
  if (exchange == NULL)
    return;
  for (int i = 0; i < N_SLOTS; i++)
    request_set_clear(&exchange->slots[i].set);
  if (exchange->scratch != NULL)
    give_scratch(exchange->spec.group, exchange->scratch);
  g_free(exchange);
}

/* Tags distinguish the chunks of a collective, the phases of a chunk, and overlapping collectives. */
static int tag_of(const Exchange *exchange, gint64 chunk, SlotPhase phase) {
  return (int)(exchange->spec.ticket % 64 * 512 + (guint)(chunk % 256) * 2 + (phase == SLOT_GATHER));
}

static char *scratch_of(const Exchange *exchange, const Slot *slot, int member) {
  int index = member - (member > exchange->spec.group->rank);
  return slot->scratch + index * exchange->chunk * exchange->element;
}

static gboolean send_piece(Exchange *exchange, Slot *slot, const char *data, gint64 n, int to, GError **error) {
  return n == 0 || request_set_send(&slot->set, exchange->spec.group, data, n * exchange->element, to,
                                    tag_of(exchange, slot->chunk, slot->phase), error);
}

static gboolean receive_piece(Exchange *exchange, Slot *slot, char *data, gint64 n, int from, GError **error) {
  return n == 0 || request_set_receive(&slot->set, exchange->spec.group, data, n * exchange->element, from,
                                       tag_of(exchange, slot->chunk, slot->phase), error);
}

/* Sends `member` its piece of this member's data; receives this member's piece of its data. */
static gboolean scatter_with(Exchange *exchange, Slot *slot, int member, GError **error) {
  const TransferSpec *spec = &exchange->spec;
  int rank = spec->group->rank;
  gboolean is_broadcast = exchange->root >= 0;
  Span theirs = piece_of(exchange, member, slot->chunk), own = piece_of(exchange, rank, slot->chunk);
  if (!is_broadcast || member == exchange->root) {
    char *to = is_broadcast ? exchange->own_out + slot->chunk * exchange->chunk * exchange->element
                            : scratch_of(exchange, slot, member);
    if (!receive_piece(exchange, slot, to, own.n, member, error))
      return FALSE;
  }
  if (is_broadcast && rank != exchange->root)
    return TRUE;
  return send_piece(exchange, slot, (const char *)spec->in + theirs.first * exchange->element, theirs.n, member, error);
}

/* Sends `member` this member's piece and receives its piece; a broadcast's root needs to receive nothing. */
static gboolean gather_with(Exchange *exchange, Slot *slot, int member, GError **error) {
  const TransferSpec *spec = &exchange->spec;
  int rank = spec->group->rank;
  Span theirs = piece_of(exchange, member, slot->chunk), own = piece_of(exchange, rank, slot->chunk);
  const char *from = exchange->own_out + slot->chunk * exchange->chunk * exchange->element;
  if (rank != exchange->root &&
      !receive_piece(exchange, slot, (char *)spec->out + theirs.first * exchange->element, theirs.n, member, error))
    return FALSE;
  return member == exchange->root || send_piece(exchange, slot, from, own.n, member, error);
}

/* Exchanges with `member`; in a send_recv only with the two neighbours. */
static gboolean swap_with(Exchange *exchange, Slot *slot, int member, GError **error) {
  const TransferSpec *spec = &exchange->spec;
  const MpiGroup *group = spec->group;
  const gboolean is_ring = spec->collective == COLLECTIVE_SEND_RECV;
  const int ahead = (member - group->rank + group->size) % group->size;
  const Span piece = piece_of(exchange, member, slot->chunk); /* as long as this member's */
  const gint64 at = piece.first * exchange->element;
  return ((is_ring && ahead != group->size - 1) ||
          receive_piece(exchange, slot, (char *)spec->out + at, piece.n, member, error)) &&
         ((is_ring && ahead != 1) || send_piece(exchange, slot, (const char *)spec->in + at, piece.n, member, error));
}

static gboolean post(Exchange *exchange, Slot *slot, SlotPhase phase, GError **error) {
  static gboolean (*const posts[])(Exchange * exchange, Slot * slot, int member, GError **error) = {
      [SLOT_SCATTER] = scatter_with, [SLOT_GATHER] = gather_with, [SLOT_SWAP] = swap_with};
  const MpiGroup *group = exchange->spec.group;
  slot->phase = phase;
  for (int i = 1; i < group->size; i++) {
    int member = (group->rank + i) % group->size; /* not all to member 0 first */
    if (!posts[phase](exchange, slot, member, error))
      return FALSE;
  }
  return TRUE;
}

static void copy_piece(Exchange *exchange, const Slot *slot, int member) {
  const TransferSpec *spec = &exchange->spec;
  const Span piece = piece_of(exchange, member, slot->chunk);
  const gint64 at = piece.first * exchange->element;
  memcpy((char *)spec->out + at, (const char *)spec->in + at, (gsize)(piece.n * exchange->element));
}

/* Copies what this member already has to where it belongs: its part of an all_gather or all_to_all, a broadcast's
 * data. */
static void place_own(Exchange *exchange, Slot *slot) {
  const TransferSpec *spec = &exchange->spec;
  gint64 offset = slot->chunk * exchange->chunk * exchange->element;
  if (spec->collective == COLLECTIVE_ALL_GATHER) {
    Span own = piece_of(exchange, spec->group->rank, slot->chunk);
    const char *from = (const char *)spec->in + offset;
    if (from != exchange->own_out + offset)
      memcpy(exchange->own_out + offset, from, (gsize)(own.n * exchange->element));
  }
  if (spec->collective == COLLECTIVE_ALL_TO_ALL)
    copy_piece(exchange, slot, spec->group->rank);
  if (exchange->root != spec->group->rank || spec->in == spec->out)
    return;
  for (int p = 0; p < spec->group->size; p++)
    copy_piece(exchange, slot, p);
}

static void reduce(Exchange *exchange, Slot *slot) {
  const TransferSpec *spec = &exchange->spec;
  const MpiGroup *group = spec->group;
  Span own = piece_of(exchange, group->rank, slot->chunk);
  g_autofree const void **parts = g_new(const void *, group->size);
  for (int p = 0; p < group->size; p++)
    parts[p] =
        p == group->rank ? (const char *)spec->in + own.first * exchange->element : scratch_of(exchange, slot, p);
  reduce_parts(spec->element, spec->reduce, parts, group->size,
               exchange->own_out + slot->chunk * exchange->chunk * exchange->element, own.n,
               exchange->scratch->kernels);
}

static gboolean begin_chunk(Exchange *exchange, Slot *slot, GError **error) {
  slot->chunk = exchange->next_chunk++;
  place_own(exchange, slot);
  return post(exchange, slot,
              exchange->has_scatter  ? SLOT_SCATTER
              : exchange->has_gather ? SLOT_GATHER
                                     : SLOT_SWAP,
              error);
}

/* Advances the slot as far as possible without waiting. */
static gboolean advance(Exchange *exchange, Slot *slot, GError **error) {
  for (;;) {
    if (slot->phase == SLOT_IDLE) {
      if (exchange->next_chunk == exchange->n_chunks)
        return TRUE;
      if (!begin_chunk(exchange, slot, error))
        return FALSE;
    }
    gboolean is_done;
    if (!request_set_test(&slot->set, exchange->spec.group, &is_done, error))
      return FALSE;
    if (!is_done)
      return TRUE;
    if (slot->phase == SLOT_SCATTER && exchange->root < 0)
      reduce(exchange, slot);
    if (slot->phase == SLOT_SCATTER && exchange->has_gather) {
      if (!post(exchange, slot, SLOT_GATHER, error))
        return FALSE;
    } else {
      slot->phase = SLOT_IDLE;
    }
  }
}

gboolean exchange_step(Exchange *exchange, gboolean *is_done, GError **error) {
  if (exchange->scratch == NULL && exchange->has_scatter && exchange->root < 0) {
    exchange->scratch = take_scratch(exchange->spec.group);
    for (int i = 0; i < N_SLOTS; i++)
      exchange->slots[i].scratch =
          exchange->scratch->chunks + i * (exchange->spec.group->size - 1) * exchange->chunk * exchange->element;
  }
  for (int i = 0; i < N_SLOTS; i++)
    if (!advance(exchange, &exchange->slots[i], error))
      return FALSE;
  *is_done = exchange->next_chunk == exchange->n_chunks;
  for (int i = 0; i < N_SLOTS; i++)
    *is_done = *is_done && exchange->slots[i].phase == SLOT_IDLE;
  return TRUE;
}
