/* Commands are stored contiguously in chunks; the last command of a chunk points to the next chunk:
 *
 *      taker ↓                                         ↓ pusher
 *      [ … wait record LAUNCH copy … next ]──▶[ launch wait … ········ ]
 *        taken      └ n_taken                          └ n_pushed
 *
 * The threads synchronize through the counters: a command's bytes are written before n_pushed counts it (release) and
 * read after (acquire). The taker frees a chunk when it leaves it. */
#include "cpu_queue.h"

#include <string.h>

enum { CHUNK_BYTES = 32 << 10 };

struct CpuChunk {
  _Alignas(8) char bytes[CHUNK_BYTES];
};

/* Bytes of a command up to the end of `member`, the last that its kind uses. */
#define BYTES_TO(member) (offsetof(CpuCommand, member) + sizeof(((CpuCommand *)0)->member))
static const gsize bytes_of_kind[] = {
    [COMMAND_LAUNCH] = BYTES_TO(kernel), [COMMAND_COPY] = BYTES_TO(copy),      [COMMAND_RECORD] = BYTES_TO(event),
    [COMMAND_WAIT] = BYTES_TO(event),    [COMMAND_HOST_TASK] = BYTES_TO(task), [COMMAND_NEXT_CHUNK] = BYTES_TO(chunk),
};
_Static_assert(sizeof(CpuCommand) < 1024, "commands are small beside a chunk");

void cpu_queue_init(CpuQueue *queue) {
  memset(queue, 0, sizeof *queue);
  queue->read_chunk = queue->write_chunk = g_new(CpuChunk, 1);
}

void cpu_queue_clear(CpuQueue *queue) {
  while (cpu_queue_head(queue) != NULL)
    cpu_queue_pop(queue);
  g_clear_pointer(&queue->read_chunk, g_free);
  queue->write_chunk = NULL;
}

static void append(CpuQueue *queue, const CpuCommand *command) {
  CpuCommand *slot = (CpuCommand *)(void *)(queue->write_chunk->bytes + queue->write_at);
  gsize bytes = bytes_of_kind[command->kind];
  memcpy((void *)slot, command, bytes);
  slot->bytes = (guint16)((bytes + 7) / 8 * 8);
  queue->write_at += slot->bytes;
}

void cpu_queue_push(CpuQueue *queue, const CpuCommand *command) {
  gint64 n_new = 1;
  /* room for this command and for the link to the next chunk */
  if (queue->write_at + 2 * sizeof(CpuCommand) > CHUNK_BYTES) {
    CpuChunk *chunk = g_new(CpuChunk, 1);
    append(queue, &(CpuCommand){.kind = COMMAND_NEXT_CHUNK, .chunk = chunk});
    queue->write_chunk = chunk;
    queue->write_at = 0;
    n_new = 2;
  }
  append(queue, command);
  gint64 n_pushed = atomic_load_explicit(&queue->n_pushed, memory_order_relaxed) + n_new;
  atomic_store_explicit(&queue->n_pushed, n_pushed, memory_order_release);
}

CpuCommand *cpu_queue_head(CpuQueue *queue) {
  gint64 n_taken = atomic_load_explicit(&queue->n_taken, memory_order_relaxed);
  if (n_taken == atomic_load_explicit(&queue->n_pushed, memory_order_acquire))
    return NULL;
  CpuCommand *command = (CpuCommand *)(void *)(queue->read_chunk->bytes + queue->read_at);
  if (command->kind != COMMAND_NEXT_CHUNK)
    return command;
  CpuChunk *left = queue->read_chunk;
  queue->read_chunk = command->chunk;
  queue->read_at = 0;
  g_free(left);
  atomic_store_explicit(&queue->n_taken, n_taken + 1, memory_order_release);
  return (CpuCommand *)(void *)queue->read_chunk->bytes; /* pushed together with the link to this chunk */
}

void cpu_queue_pop(CpuQueue *queue) {
  const CpuCommand *command = (const CpuCommand *)(const void *)(queue->read_chunk->bytes + queue->read_at);
  queue->read_at += command->bytes;
  gint64 n_taken = atomic_load_explicit(&queue->n_taken, memory_order_relaxed) + 1;
  atomic_store_explicit(&queue->n_taken, n_taken, memory_order_release);
}

gboolean cpu_queue_is_empty(const CpuQueue *queue) {
  return atomic_load_explicit(&queue->n_taken, memory_order_acquire) ==
         atomic_load_explicit(&queue->n_pushed, memory_order_acquire);
}
