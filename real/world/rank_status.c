/* Writers never wait and readers never lock: a line's text is guarded by a sequence number that is odd while it is
 * being written (a seqlock; Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012).
 *
 *   header │ line 0: pid start state progress  sequence activity text │ failure │ line 1: …
 *                                              └────── seqlock ──────┘   └─ written once, before state = FAILED */
#include "rank_status.h"

#include "error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TEXT_WORDS = STATUS_TEXT_BYTES / 8, CACHE_LINE = 64, MAX_READS = 1000 };

typedef struct {
  _Alignas(CACHE_LINE) _Atomic gint64 pid;
  _Atomic gint64 start_time;
  _Atomic guint64 progress;
  _Atomic int rank, state, lifeline;
  _Atomic guint32 sequence;
  _Atomic int activity;
  _Atomic guint64 text[TEXT_WORDS];
  char failure[STATUS_FAILURE_BYTES];
} Line;

typedef struct {
  _Alignas(CACHE_LINE) _Atomic int stall; /* 0: none; else 2·(cause + 2), and 1 for one that is stopped */
  _Atomic int has_reporter, is_told;
} Header;

struct StatusTable {
  int n_lines, fd;
  gsize bytes;
  Header *header;
  Line *lines;
};

static gsize status_bytes(int n_lines) {
  return sizeof(Header) + (gsize)n_lines * sizeof(Line);
}

/* Takes over `fd`. */
static StatusTable *map(int fd, int n_lines, GError **error) {
  void *memory = mmap(NULL, status_bytes(n_lines), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    fail_impossible(error, "the status table cannot be mapped: %s", g_strerror(errno));
    close(fd);
    return NULL;
  }
  StatusTable *statuses = g_new0(StatusTable, 1);
  statuses->n_lines = n_lines;
  statuses->fd = fd;
  statuses->bytes = status_bytes(n_lines);
  statuses->header = memory;
  statuses->lines = (Line *)((char *)memory + sizeof(Header));
  return statuses;
}

StatusTable *status_new(int n_lines, int *fd, GError **error) {
  *fd = memfd_create("stepreal-status table", MFD_CLOEXEC);
  if (*fd >= 0 && ftruncate(*fd, (off_t)status_bytes(n_lines)) == 0)
    return map(*fd, n_lines, error);
  fail_impossible(error, "no memory for the status table: %s", g_strerror(errno));
  if (*fd >= 0)
    close(*fd);
  return NULL;
}

StatusTable *status_join(gint64 pid, int fd, int n_lines, GError **error) {
  g_autofree char *path = g_strdup_printf("/proc/%" G_GINT64_FORMAT "/fd/%d", pid, fd);
  int own = open(path, O_RDWR | O_CLOEXEC);
  if (own >= 0)
    return map(own, n_lines, error);
  fail_impossible(error, "the status table %s cannot be opened: %s", path, g_strerror(errno));
  return NULL;
}

void status_free(StatusTable *statuses) {
  if (statuses == NULL)
    return;
  munmap(statuses->header, statuses->bytes);
  close(statuses->fd);
  g_free(statuses);
}

int status_n_lines(const StatusTable *statuses) {
  return statuses->n_lines;
}

int status_fd(const StatusTable *statuses) {
  return statuses->fd;
}

void status_enter(StatusTable *statuses, int line, int rank, int lifeline) {
  Line *own = &statuses->lines[line];
  atomic_store(&own->pid, getpid());
  atomic_store(&own->start_time, rank_process_start(getpid()));
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

void status_say(StatusTable *statuses, int line, RankActivity activity, const char *text) {
  Line *own = &statuses->lines[line];
  guint64 words[TEXT_WORDS] = {0};
  memcpy(words, text, strnlen(text, sizeof words));
  if (says_already(own, activity, words))
    return;
  status_progress(statuses, line); /* before what it says: who has read that sees that something has moved */
  guint32 sequence = atomic_load_explicit(&own->sequence, memory_order_relaxed);
  atomic_store_explicit(&own->sequence, sequence + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  atomic_store_explicit(&own->activity, (int)activity, memory_order_relaxed);
  for (int i = 0; i < TEXT_WORDS; i++)
    atomic_store_explicit(&own->text[i], words[i], memory_order_relaxed);
  atomic_store_explicit(&own->sequence, sequence + 2, memory_order_release);
}

void status_progress(StatusTable *statuses, int line) {
  atomic_fetch_add_explicit(&statuses->lines[line].progress, 1, memory_order_relaxed);
}

void status_set_state(StatusTable *statuses, int line, LineState state) {
  atomic_store(&statuses->lines[line].state, state);
}

void status_fail(StatusTable *statuses, int line, const char *failure) {
  g_strlcpy(statuses->lines[line].failure, failure, STATUS_FAILURE_BYTES);
  status_set_state(statuses, line, LINE_FAILED);
}

void status_set_stalled(StatusTable *statuses, int cause, gboolean is_stopped) {
  int none = 0;
  atomic_compare_exchange_strong(&statuses->header->stall, &none, 2 * (cause + 2) + (is_stopped ? 1 : 0));
}

gboolean status_is_stalled(const StatusTable *statuses) {
  return atomic_load(&statuses->header->stall) != 0;
}

int status_stall_cause(const StatusTable *statuses, gboolean *is_stopped) {
  const int stall = atomic_load(&statuses->header->stall);
  g_assert(stall != 0);
  *is_stopped = stall % 2 == 1;
  return stall / 2 - 2;
}

void status_set_reporter(StatusTable *statuses) {
  atomic_store(&statuses->header->has_reporter, TRUE);
}

gboolean status_has_reporter(const StatusTable *statuses) {
  return atomic_load(&statuses->header->has_reporter);
}

void status_set_told(StatusTable *statuses) {
  atomic_store(&statuses->header->is_told, TRUE);
}

gboolean status_is_told(const StatusTable *statuses) {
  return atomic_load(&statuses->header->is_told);
}

LineState status_state(const StatusTable *statuses, int line) {
  return (LineState)atomic_load(&statuses->lines[line].state);
}

/* FALSE when the writer came between (or died in the middle). */
static gboolean read_text(Line *line, RankStatus *copy) {
  guint64 words[TEXT_WORDS];
  guint32 before = atomic_load_explicit(&line->sequence, memory_order_acquire);
  copy->activity = (RankActivity)atomic_load_explicit(&line->activity, memory_order_relaxed);
  for (int i = 0; i < TEXT_WORDS; i++)
    words[i] = atomic_load_explicit(&line->text[i], memory_order_relaxed);
  atomic_thread_fence(memory_order_acquire);
  guint32 after = atomic_load_explicit(&line->sequence, memory_order_relaxed);
  memcpy(copy->text, words, sizeof words);
  copy->text[STATUS_TEXT_BYTES] = '\0';
  return before == after && before % 2 == 0;
}

RankStatus status_read(const StatusTable *statuses, int line) {
  Line *from = &statuses->lines[line];
  RankStatus copy = {
      .state = status_state(statuses, line),
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

guint64 status_total_progress(const StatusTable *statuses) {
  guint64 total = 0;
  for (int i = 0; i < statuses->n_lines; i++)
    total += atomic_load(&statuses->lines[i].progress);
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

gint64 rank_process_start(gint64 pid) {
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

gboolean rank_process_is_stopped(gint64 pid) {
  g_autofree char *fields = process_fields(pid);
  return fields != NULL && (fields[0] == 'T' || fields[0] == 't');
}
