/* Writers never wait and readers never lock: a line's text is guarded by a sequence number that is odd while it is
 * being written (a seqlock; Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012).
 *
 *   header │ line 0: pid start state progress  sequence activity text │ failure │ line 1: …
 *                                              └────── seqlock ──────┘   └─ written once, before state = FAILED */
#include "board.h"

#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TEXT_WORDS = BOARD_TEXT_BYTES / 8, CACHE_LINE = 64, MAX_READS = 1000 };

typedef struct {
  _Alignas(CACHE_LINE) _Atomic gint64 pid;
  _Atomic gint64 start_time;
  _Atomic guint64 progress;
  _Atomic int rank, state, lifeline;
  _Atomic guint32 sequence;
  _Atomic int activity;
  _Atomic guint64 text[TEXT_WORDS];
  char failure[BOARD_FAILURE_BYTES];
} Line;

typedef struct {
  _Alignas(CACHE_LINE) _Atomic int stall; /* 0: none; else 2·(cause + 2), and 1 for one that is stopped */
  _Atomic int has_witness, is_told;
} Header;

struct Board {
  int n_lines, fd;
  gsize bytes;
  Header *header;
  Line *lines;
};

static gsize board_bytes(int n_lines) {
  return sizeof(Header) + (gsize)n_lines * sizeof(Line);
}

/* Takes over `fd`. */
static Board *map(int fd, int n_lines, GError **error) {
  void *memory = mmap(NULL, board_bytes(n_lines), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    fail_impossible(error, "the status board cannot be mapped: %s", g_strerror(errno));
    close(fd);
    return NULL;
  }
  Board *board = g_new0(Board, 1);
  board->n_lines = n_lines;
  board->fd = fd;
  board->bytes = board_bytes(n_lines);
  board->header = memory;
  board->lines = (Line *)((char *)memory + sizeof(Header));
  return board;
}

Board *board_new(int n_lines, int *fd, GError **error) {
  *fd = memfd_create("stepreal-board", MFD_CLOEXEC);
  if (*fd >= 0 && ftruncate(*fd, (off_t)board_bytes(n_lines)) == 0)
    return map(*fd, n_lines, error);
  fail_impossible(error, "no memory for the status board: %s", g_strerror(errno));
  if (*fd >= 0)
    close(*fd);
  return NULL;
}

Board *board_join(gint64 pid, int fd, int n_lines, GError **error) {
  g_autofree char *path = g_strdup_printf("/proc/%" G_GINT64_FORMAT "/fd/%d", pid, fd);
  int own = open(path, O_RDWR | O_CLOEXEC);
  if (own >= 0)
    return map(own, n_lines, error);
  fail_impossible(error, "the status board %s cannot be opened: %s", path, g_strerror(errno));
  return NULL;
}

void board_free(Board *board) {
  if (board == NULL)
    return;
  munmap(board->header, board->bytes);
  close(board->fd);
  g_free(board);
}

int board_n_lines(const Board *board) {
  return board->n_lines;
}

int board_fd(const Board *board) {
  return board->fd;
}

void board_enter(Board *board, int line, int rank, int lifeline) {
  Line *own = &board->lines[line];
  atomic_store(&own->pid, getpid());
  atomic_store(&own->start_time, board_process_start(getpid()));
  atomic_store(&own->rank, rank);
  atomic_store(&own->lifeline, lifeline);
  atomic_store(&own->state, LINE_RUNS);
}

static gboolean says_already(Line *own, RankActivity activity, const guint64 *words) {
  gboolean same = atomic_load_explicit(&own->activity, memory_order_relaxed) == (int)activity;
  for (int i = 0; i < TEXT_WORDS && same; i++)
    same = atomic_load_explicit(&own->text[i], memory_order_relaxed) == words[i];
  return same;
}

void board_say(Board *board, int line, RankActivity activity, const char *text) {
  Line *own = &board->lines[line];
  guint64 words[TEXT_WORDS] = {0};
  memcpy(words, text, strnlen(text, sizeof words));
  if (says_already(own, activity, words))
    return;
  board_progress(board, line); /* before what it says: who has read that sees that something has moved */
  guint32 sequence = atomic_load_explicit(&own->sequence, memory_order_relaxed);
  atomic_store_explicit(&own->sequence, sequence + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&own->activity, (int)activity, memory_order_relaxed);
  for (int i = 0; i < TEXT_WORDS; i++)
    atomic_store_explicit(&own->text[i], words[i], memory_order_relaxed);
  atomic_store_explicit(&own->sequence, sequence + 2, memory_order_release);
}

void board_progress(Board *board, int line) {
  atomic_fetch_add_explicit(&board->lines[line].progress, 1, memory_order_relaxed);
}

void board_set_state(Board *board, int line, LineState state) {
  atomic_store(&board->lines[line].state, state);
}

void board_fail(Board *board, int line, const char *failure) {
  g_strlcpy(board->lines[line].failure, failure, BOARD_FAILURE_BYTES);
  board_set_state(board, line, LINE_FAILED);
}

void board_set_stalled(Board *board, int cause, gboolean is_stopped) {
  int none = 0;
  atomic_compare_exchange_strong(&board->header->stall, &none, 2 * (cause + 2) + (is_stopped ? 1 : 0));
}

gboolean board_is_stalled(const Board *board) {
  return atomic_load(&board->header->stall) != 0;
}

int board_stall_cause(const Board *board, gboolean *is_stopped) {
  const int stall = atomic_load(&board->header->stall);
  g_assert(stall != 0);
  *is_stopped = stall % 2 == 1;
  return stall / 2 - 2;
}

void board_set_witness(Board *board) {
  atomic_store(&board->header->has_witness, TRUE);
}

gboolean board_has_witness(const Board *board) {
  return atomic_load(&board->header->has_witness);
}

void board_set_told(Board *board) {
  atomic_store(&board->header->is_told, TRUE);
}

gboolean board_is_told(const Board *board) {
  return atomic_load(&board->header->is_told);
}

LineState board_state(const Board *board, int line) {
  return (LineState)atomic_load(&board->lines[line].state);
}

/* FALSE when the writer came between (or died in the middle). */
static gboolean read_text(Line *line, BoardLine *copy) {
  guint64 words[TEXT_WORDS];
  guint32 before = atomic_load_explicit(&line->sequence, memory_order_acquire);
  copy->activity = (RankActivity)atomic_load_explicit(&line->activity, memory_order_relaxed);
  for (int i = 0; i < TEXT_WORDS; i++)
    words[i] = atomic_load_explicit(&line->text[i], memory_order_relaxed);
  atomic_thread_fence(memory_order_acquire);
  guint32 after = atomic_load_explicit(&line->sequence, memory_order_relaxed);
  memcpy(copy->text, words, sizeof words);
  copy->text[BOARD_TEXT_BYTES] = '\0';
  return before == after && before % 2 == 0;
}

BoardLine board_read(const Board *board, int line) {
  Line *from = &board->lines[line];
  BoardLine copy = {
      .state = board_state(board, line),
      .rank = atomic_load(&from->rank),
      .pid = atomic_load(&from->pid),
      .start_time = atomic_load(&from->start_time),
      .lifeline = atomic_load(&from->lifeline),
      .progress = atomic_load(&from->progress),
  };
  for (int i = 0; i < MAX_READS && !read_text(from, &copy); i++)
    continue;
  if (copy.state == LINE_FAILED)
    g_strlcpy(copy.failure, from->failure, sizeof copy.failure);
  return copy;
}

guint64 board_total_progress(const Board *board) {
  guint64 total = 0;
  for (int i = 0; i < board->n_lines; i++)
    total += atomic_load(&board->lines[i].progress);
  return total;
}

/* "S 1 …": what follows the name in /proc/PID/stat; the name may hold anything, so count from the last bracket. NULL:
 * there is no such process. Owned by the caller. */
static char *process_fields(gint64 pid) {
  g_autofree char *path = g_strdup_printf("/proc/%" G_GINT64_FORMAT "/stat", pid);
  g_autofree char *text = NULL;
  if (!g_file_get_contents(path, &text, NULL, NULL))
    return NULL;
  const char *bracket = strrchr(text, ')');
  return bracket != NULL && bracket[1] == ' ' ? g_strdup(bracket + 2) : NULL;
}

gint64 board_process_start(gint64 pid) {
  g_autofree char *fields = process_fields(pid);
  if (fields == NULL || fields[0] == 'Z' || fields[0] == 'X')
    return -1;
  const char *field = fields;
  for (int i = 3; i < 22 && field != NULL; i++) { /* from state, field 3, to starttime */
    field = strchr(field, ' ');
    field = field == NULL ? NULL : field + 1;
  }
  return field == NULL ? -1 : g_ascii_strtoll(field, NULL, 10);
}

gboolean board_process_is_stopped(gint64 pid) {
  g_autofree char *fields = process_fields(pid);
  return fields != NULL && (fields[0] == 'T' || fields[0] == 't');
}
