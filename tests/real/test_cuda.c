/* Kernels of the cuda device against the cpu device, and its streams, events, host tasks and memory. Prints every
 * difference and continues; exits 77 without a GPU, 1 if it cannot be used. STEPREAL_TEST_DEVICE names a device other
 * than cuda.
 * usage: test_cuda [WORD…]: with words, only kernels whose case has one of them in its name, and nothing else */
#include "cuda_case.h"

#include "cuda_cases.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const gint64 SECOND_NS = 1000 * 1000 * 1000;

typedef struct {
  int n_calls, n_needed; /* ends at the n_needed-th call */
  GString *order;        /* gets `letter` then */
  char letter;
  gint held; /* atomic: does not end while it is set */
} Step;

static gboolean step(gpointer data, GError **error) {
  Step *s = data;
  if (g_atomic_int_get(&s->held) || ++s->n_calls < s->n_needed)
    return FALSE;
  g_string_append_c(s->order, s->letter);
  return TRUE;
}

static void expect(gboolean is_true, const char *what, int *n_bad) {
  printf("%s %s\n", is_true ? "ok  " : "FAIL", what);
  fflush(stdout);
  *n_bad += !is_true;
}

typedef struct {
  gint64 before, after;      /* ns on the host's clock, around the whole */
  gint64 held, middle, last; /* ns: until when a's task was held at least, then of the events */
  gboolean times_out, is_early, ends, is_ordered;
} TwoStreams;

/* b waits for a's event, though it was filled first:  a: A ● C    b: (wait ●) B */
static TwoStreams run_two_streams(Device *device) {
  const DeviceType *type = device->type;
  g_autoptr(GString) order = g_string_new(NULL);
  Step steps[] = {{0, 3, order, 'A', TRUE}, {0, 2, order, 'B', FALSE}};
  DeviceStream *a = type->stream_new(device, STREAM_COMPUTE, NULL), *b = type->stream_new(device, STREAM_DP, NULL);
  DeviceEvent *middle = type->event_new(device, NULL), *end = type->event_new(device, NULL);
  TwoStreams run = {.before = g_get_monotonic_time() * 1000};
  type->host_task(a, step, &steps[0]);
  type->record(a, middle);
  type->wait(b, middle);
  type->host_task(b, step, &steps[1]);
  type->record(b, end);
  run.times_out = !type->sleep_until(end, SECOND_NS / 50);
  run.is_early = type->is_done(middle);
  run.held = g_get_monotonic_time() * 1000;
  g_atomic_int_set(&steps[0].held, FALSE);
  run.ends = type->sleep_until(end, 10 * SECOND_NS);
  run.after = g_get_monotonic_time() * 1000 + 1000;
  run.is_ordered = strcmp(order->str, "AB") == 0;
  run.middle = type->event_ns(middle);
  run.last = type->event_ns(end);
  type->event_free(middle);
  type->event_free(end);
  type->stream_free(a);
  type->stream_free(b);
  return run;
}

static gboolean is_on_host_clock(const TwoStreams *run) {
  const gint64 slack = 50 * 1000;
  printf("     events at %+.1f and %+.1f us of the task's release, which the host saw ended at %+.1f us\n",
         (double)(run->middle - run->held) / 1e3, (double)(run->last - run->held) / 1e3,
         (double)(run->after - run->held) / 1e3);
  return run->held - slack < run->middle && run->middle <= run->last && run->last < run->after + slack;
}

/* A device finds out when it is opened where its clock stands, between two looks at the host's: on a loaded machine,
 * where the host may be away for a millisecond between all of these, no closer than that. So of some devices a few tell
 * the time to 50 us; of a clock that stands elsewhere none does. */
static void check_order(Device *device, int *n_bad) {
  enum { N_TRIES = 15, N_TOLD = 3 };
  const DeviceType *type = device->type;
  const TwoStreams run = run_two_streams(device);
  expect(run.times_out, "a wait for a held task times out", n_bad);
  expect(!run.is_early, "an event after a held task is not done", n_bad);
  expect(run.ends, "the tasks end", n_bad);
  expect(run.is_ordered, "tasks run in the order of streams and events", n_bad);
  int n_told = is_on_host_clock(&run);
  for (int i = 1; i < N_TRIES && n_told < N_TOLD; i++) {
    Device *other = type->open(0, 1, 0, NULL);
    if (other == NULL)
      break;
    const TwoStreams again = run_two_streams(other);
    n_told += is_on_host_clock(&again);
    type->close(other);
  }
  expect(n_told == N_TOLD, "event times are on the host's clock", n_bad);
}

/* Every stream of a rank waits for a task, the first for the last one's: none may hold up another. */
static void check_many_streams(Device *device, int *n_bad) {
  const DeviceType *type = device->type;
  g_autoptr(GString) order = g_string_new(NULL);
  DeviceStream *streams[N_STREAMS];
  DeviceEvent *ends[N_STREAMS];
  Step steps[N_STREAMS];
  for (int i = 0; i < N_STREAMS; i++) {
    streams[i] = type->stream_new(device, (Stream)i, NULL);
    ends[i] = type->event_new(device, NULL);
    steps[i] = (Step){0, 1, order, (char)('a' + i), TRUE};
  }
  for (int i = 0; i < N_STREAMS; i++) {
    type->host_task(streams[i], step, &steps[i]);
    type->record(streams[i], ends[i]);
  }
  gboolean ok = TRUE;
  for (int i = N_STREAMS - 1; i >= 0; i--) {
    g_atomic_int_set(&steps[i].held, FALSE);
    ok = ok && type->sleep_until(ends[i], 5 * SECOND_NS);
  }
  expect(ok && order->len == N_STREAMS, "streams that wait do not hold up others", n_bad);
  for (int i = 0; i < N_STREAMS; i++) {
    type->stream_free(streams[i]);
    type->event_free(ends[i]);
  }
}

static void check_memory(Device *device, int *n_bad) {
  g_autoptr(GError) error = NULL;
  void *memory = device->type->allocate(device, G_GINT64_CONSTANT(1) << 50, &error);
  printf("     %s\n", error == NULL ? "no error" : error->message);
  expect(memory == NULL && error != NULL && g_str_has_prefix(error->message, "out of memory: "),
         "too much memory is refused", n_bad);
}

static gboolean failing_step(gpointer data, GError **error) {
  g_set_error_literal(error, G_FILE_ERROR, 0, "the step failed");
  return TRUE;
}

/* A device that has failed says why, and what waits for it ends. */
static void check_failure(const DeviceType *type, gboolean by_step, int *n_bad) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GString) order = g_string_new(NULL);
  Step held = {0, 1, order, 'H', TRUE};
  Device *device = type->open(0, 1, 0, NULL);
  DeviceStream *stream = type->stream_new(device, STREAM_COMPUTE, NULL);
  DeviceStream *other = type->stream_new(device, STREAM_DP, NULL);
  DeviceEvent *end = type->event_new(device, NULL);
  type->host_task(stream, step, &held);
  type->record(stream, end);
  if (by_step)
    type->host_task(other, failing_step, NULL);
  else
    type->cancel(device);
  expect(!type->sleep_until(end, 10 * SECOND_NS), "a wait on a failed device is not done", n_bad);
  expect(!type->check(device, &error), "a failed device says so", n_bad);
  printf("     %s\n", error == NULL ? "no error" : error->message);
  type->stream_free(stream);
  type->stream_free(other);
  type->event_free(end);
  type->close(device);
}

static void check_device(Device *device, int *n_bad) {
  check_memory(device, n_bad);
  check_order(device, n_bad);
  check_many_streams(device, n_bad);
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  const char *name = g_getenv("STEPREAL_TEST_DEVICE");
  const DeviceType *type = device_find(name == NULL ? "cuda" : name, &error), *plain = device_find("cpu", NULL);
  Device *device = type == NULL ? NULL : type->open(0, 1, 0, &error);
  if (device == NULL) {
    const gboolean is_there = name == NULL && strstr(error->message, "no CUDA device") == NULL;
    printf("%s: %s\n", is_there ? "the GPU cannot be used" : "skipped", error->message);
    return is_there ? 1 : 77;
  }
  g_autofree char *description = type->describe(device);
  printf("%s, clock %.0f MHz\n", description, type->clock_Hz(device) / 1e6);
  Comparison comparison = {.device = device,
                           .reference = plain == NULL ? NULL : plain->open(0, 1, 0, &error),
                           .words = argc > 1 ? argv + 1 : NULL};
  int n_bad = 0;
  if (comparison.words == NULL)
    check_device(device, &n_bad);
  if (comparison.reference == NULL)
    printf("kernels are not compared: no cpu device\n");
  else
    compare_all_kernels(&comparison);
  if (comparison.words == NULL) {
    check_failure(type, TRUE, &n_bad);
    check_failure(type, FALSE, &n_bad);
  }
  if (comparison.reference != NULL)
    plain->close(comparison.reference);
  type->close(device);
  printf("%d of %d kernels differ, %d other failures\n", comparison.n_bad, comparison.n_run, n_bad);
  if (comparison.words != NULL && comparison.n_run == 0) {
    printf("no case has any of the given words in its name\n");
    return 2;
  }
  return comparison.n_bad + n_bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
