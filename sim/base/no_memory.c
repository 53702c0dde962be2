#include "no_memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Of the first thread, whose stack grows while it runs; others get theirs at once, of the size of the limit. No verb
 * was seen to need more than the 132 KiB that Linux begins with (2026-11-24). */
enum { STACK_BYTES = 256 << 10, LEAST_STACK_LIMIT = 512 << 10, PAGE_BYTES = 4096, MESSAGE_BYTES = 512 };

static const char *program_name;

/* Allocates nothing. */
G_GNUC_PRINTF(1, 2)
G_NORETURN static void end(const char *format, ...) {
  char text[MESSAGE_BYTES], line[MESSAGE_BYTES + 64];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  snprintf(line, sizeof line, "%s: %s\n", program_name != NULL ? program_name : program_invocation_short_name, text);
  if (write(STDERR_FILENO, line, strlen(line)) < 0)
    _exit(2); /* nobody listens */
  _exit(2);
}

G_NORETURN static void end_without(gsize n_bytes) {
  end("out of memory: the system does not give %zu bytes more (see ulimit -v, and the limits of the container or job)",
      n_bytes);
}

/* --- allocators --- */

#ifndef SANITIZERS_ALLOCATE

/* The next one of this name, found once. */
static gpointer find_next(gpointer *known, const char *name) {
  gpointer next = g_atomic_pointer_get(known);
  if (next != NULL)
    return next;
  next = dlsym(RTLD_NEXT, name);
  if (next == NULL)
    end("the C library has no %s", name);
  g_atomic_pointer_set(known, next);
  return next;
}

void *malloc(size_t n_bytes) {
  static gpointer known;
  void *(*next)(size_t) = find_next(&known, "malloc");
  void *memory = next(n_bytes);
  if (memory == NULL && n_bytes > 0)
    end_without(n_bytes);
  return memory;
}

void *calloc(size_t n, size_t size) {
  static gpointer known;
  void *(*next)(size_t, size_t) = find_next(&known, "calloc");
  void *memory = next(n, size);
  if (memory == NULL && n > 0 && size > 0)
    end_without(size > G_MAXSIZE / n ? G_MAXSIZE : n * size);
  return memory;
}

void *realloc(void *old, size_t n_bytes) {
  static gpointer known;
  void *(*next)(void *, size_t) = find_next(&known, "realloc");
  void *memory = next(old, n_bytes);
  if (memory == NULL && n_bytes > 0)
    end_without(n_bytes);
  return memory;
}

void *aligned_alloc(size_t alignment, size_t n_bytes) {
  static gpointer known;
  void *(*next)(size_t, size_t) = find_next(&known, "aligned_alloc");
  void *memory = next(alignment, n_bytes);
  if (memory == NULL && n_bytes > 0)
    end_without(n_bytes);
  return memory;
}

static int next_posix_memalign(void **memory, size_t alignment, size_t n_bytes) {
  static gpointer known;
  int (*next)(void **, size_t, size_t) = find_next(&known, "posix_memalign");
  return next(memory, alignment, n_bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t n_bytes) {
  const int code = next_posix_memalign(memory, alignment, n_bytes);
  if (code == ENOMEM)
    end_without(n_bytes);
  return code;
}

#else
#define next_posix_memalign posix_memalign
#endif

gpointer no_memory_try(gsize alignment, gsize n_bytes) {
  gpointer memory = NULL;
  return next_posix_memalign(&memory, alignment, n_bytes) == 0 ? memory : NULL;
}

/* --- fatal errors, the stack --- */

static void take_message(const char *domain, GLogLevelFlags level, const char *message, gpointer data) {
  if ((level & G_LOG_LEVEL_ERROR) != 0)
    end("%s", message);
  g_log_default_handler(domain, level, message, data);
}

/* From the top down, as the system lets a stack grow. */
static char touch_stack(void) {
  volatile char pages[STACK_BYTES];
  for (gsize i = STACK_BYTES; i > 0; i -= PAGE_BYTES)
    pages[i - 1] = 0;
  return pages[0];
}

/* A stack that cannot grow ends a program by a signal: so first as much memory is asked for elsewhere. */
static void grow_stack(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < LEAST_STACK_LIMIT)
    end("out of memory: a stack may have %zu KiB, expected at least %d (see ulimit -s)", (gsize)limit.rlim_cur / 1024,
        LEAST_STACK_LIMIT / 1024);
  void *probe = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED)
    end_without(STACK_BYTES);
  munmap(probe, STACK_BYTES);
  touch_stack();
}

void no_memory_ends(const char *program) {
  program_name = program;
  g_log_set_default_handler(take_message, NULL);
  grow_stack();
}
