/* Private to the CPU device: the commands of one stream, first in, first out. One thread pushes, one takes; neither
 * blocks. Grows without bound; a command takes only the bytes its kind needs. */
#pragma once
#include "device.h"

#include <stdatomic.h>

typedef struct CpuEvent CpuEvent;
typedef struct CpuChunk CpuChunk;

typedef enum {
  COMMAND_LAUNCH,
  COMMAND_COPY,
  COMMAND_RECORD,
  COMMAND_WAIT,
  COMMAND_HOST_TASK,
  COMMAND_NEXT_CHUNK
} CommandKind;

typedef struct {
  guint16 kind;  /* CommandKind */
  guint16 bytes; /* of this command, a multiple of 8 (computed by push) */
  union {
    struct {
      char *to;
      const char *from;
      gint64 bytes; /* left */
    } copy;
    CpuEvent *event; /* RECORD, WAIT */
    struct {
      HostStep step;
      gpointer data;
    } task;
    CpuChunk *chunk; /* NEXT_CHUNK */
    Kernel kernel;
  };
} CpuCommand;

typedef struct {
  CpuChunk *write_chunk; /* the pusher's */
  gsize write_at;
  CpuChunk *read_chunk; /* the taker's */
  gsize read_at;
  _Atomic gint64 n_pushed, n_taken; /* each written by one side, read by the other */
} CpuQueue;

void cpu_queue_init(CpuQueue *queue);
void cpu_queue_clear(CpuQueue *queue); /* only when no thread pushes or takes; drops what is queued */
/* `command` is copied. */
void cpu_queue_push(CpuQueue *queue, const CpuCommand *command);
/* The oldest command, which stays where it is until it is popped; NULL: none. The taker may change it. */
CpuCommand *cpu_queue_head(CpuQueue *queue);
void cpu_queue_pop(CpuQueue *queue);
gboolean cpu_queue_is_empty(const CpuQueue *queue);
