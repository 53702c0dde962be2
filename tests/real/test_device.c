#include "device.h"
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <stdatomic.h>
#include <string.h>

/* A device with some streams, and the end of everything on them. */
typedef struct {
  const DeviceType *type;
  Device *device;
  DeviceStream *compute, *send, *dp;
} Rig;

/* Devices by the tests' loop index: CPU workers that have cores of their own (on a machine with two), CPU workers on
 * cores that more ranks use than there are, and the null device. */
enum { OWN_CORES, SHARED_CORES, NULL_DEVICE, N_RIGS, N_CPU_RIGS = NULL_DEVICE };
static const struct {
  const DeviceType *type;
  int n_local;
} rigs[N_RIGS] = {{&cpu_device, 1}, {&cpu_device, 1 << 20}, {&null_device, 1}};

static Rig rig_open(int nth) {
  const DeviceType *type = rigs[nth].type;
  g_autoptr(GError) error = NULL;
  Rig rig = {.type = type, .device = type->open(0, rigs[nth].n_local, 64 << 20, &error)};
  ck_assert_msg(rig.device != NULL, "%s", error == NULL ? "" : error->message);
  rig.compute = type->stream_new(rig.device, STREAM_COMPUTE, &error);
  rig.send = type->stream_new(rig.device, STREAM_SEND_F, &error);
  rig.dp = type->stream_new(rig.device, STREAM_DP, &error);
  ck_assert(rig.compute != NULL && rig.send != NULL && rig.dp != NULL);
  return rig;
}

static DeviceEvent *rig_event(const Rig *rig) {
  DeviceEvent *event = rig->type->event_new(rig->device, NULL);
  ck_assert_ptr_nonnull(event);
  return event;
}

static void rig_drain(const Rig *rig) {
  DeviceStream *streams[] = {rig->compute, rig->send, rig->dp};
  for (gsize i = 0; i < G_N_ELEMENTS(streams); i++) {
    DeviceEvent *end = rig_event(rig);
    rig->type->record(streams[i], end);
    while (!rig->type->sleep_until(end, G_MAXINT64) && !rig->type->is_done(end))
      ;
    rig->type->event_free(end);
  }
}

static void rig_close(Rig *rig) {
  rig_drain(rig);
  rig->type->stream_free(rig->compute);
  rig->type->stream_free(rig->send);
  rig->type->stream_free(rig->dp);
  rig->type->close(rig->device);
}

static void assert_works(const Rig *rig) {
  g_autoptr(GError) error = NULL;
  ck_assert_msg(rig->type->check(rig->device, &error), "%s", error == NULL ? "" : error->message);
}

/* Host tasks that write down when they ran. */
typedef struct {
  char text[64];
  atomic_int length;
} Diary;

typedef struct {
  Diary *diary; /* NULL: none */
  char letter;
  int n_polls;         /* answers FALSE so often first */
  const char *failure; /* or NULL */
  atomic_int *until;   /* answers FALSE while *until is 0; NULL: does not */
  atomic_int n_calls;
} Entry;

static gboolean write_entry(gpointer data, GError **error) {
  Entry *entry = data;
  atomic_fetch_add(&entry->n_calls, 1);
  if (entry->failure != NULL) {
    fail_impossible(error, "%s", entry->failure);
    return TRUE;
  }
  if (entry->n_polls-- > 0 || (entry->until != NULL && atomic_load(entry->until) == 0))
    return FALSE;
  if (entry->diary != NULL)
    entry->diary->text[atomic_fetch_add(&entry->diary->length, 1)] = entry->letter;
  return TRUE;
}

TEST(devices_are_found_by_name) {
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_eq(device_find("cpu", &error), &cpu_device);
  ck_assert_ptr_eq(device_find("null", &error), &null_device);
  ck_assert_ptr_null(device_find("cpuu", &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, "\"cpu\"") != NULL, "%s", error->message);
}

LOOP_TEST(a_stream_keeps_its_order, N_RIGS) {
  Rig rig = rig_open(_i);
  Diary diary = {0};
  Entry a = {&diary, 'a', 3}, b = {&diary, 'b', 0}, c = {&diary, 'c', 20};
  rig.type->host_task(rig.dp, write_entry, &a);
  rig.type->host_task(rig.dp, write_entry, &b);
  rig.type->host_task(rig.dp, write_entry, &c);
  rig_drain(&rig);
  ck_assert_str_eq(diary.text, "abc");
  assert_works(&rig);
  rig_close(&rig);
}

/* compute: a, then waits for b of `send`, then c; `dp` waits for c and writes d. b takes many polls. */
LOOP_TEST(events_order_streams, N_RIGS) {
  Rig rig = rig_open(_i);
  Diary diary = {0};
  Entry a = {&diary, 'a', 0}, b = {&diary, 'b', 2000}, c = {&diary, 'c', 0}, d = {&diary, 'd', 0};
  DeviceEvent *after_a = rig_event(&rig), *after_b = rig_event(&rig), *after_c = rig_event(&rig);
  rig.type->host_task(rig.compute, write_entry, &a);
  rig.type->record(rig.compute, after_a);
  rig.type->wait(rig.send, after_a);
  rig.type->host_task(rig.send, write_entry, &b);
  rig.type->record(rig.send, after_b);
  rig.type->wait(rig.compute, after_b);
  rig.type->host_task(rig.compute, write_entry, &c);
  rig.type->record(rig.compute, after_c);
  rig.type->wait(rig.dp, after_c);
  rig.type->host_task(rig.dp, write_entry, &d);
  rig_drain(&rig);
  ck_assert_str_eq(diary.text, "abcd");
  ck_assert(rig.type->is_done(after_a) && rig.type->is_done(after_b) && rig.type->is_done(after_c));
  ck_assert_int_le(rig.type->event_ns(after_a), rig.type->event_ns(after_b));
  ck_assert_int_le(rig.type->event_ns(after_b), rig.type->event_ns(after_c));
  rig.type->event_free(after_a);
  rig.type->event_free(after_b);
  rig.type->event_free(after_c);
  rig_close(&rig);
}

/* A task that ends only when a later one on another stream has run must not keep that one from running: streams of one
 * thread are polled in turn. On the null device, whose order is that of the calls, it would never end. */
LOOP_TEST(a_pending_task_holds_up_no_other_stream, N_CPU_RIGS) {
  Rig rig = rig_open(_i);
  Diary diary = {0};
  Entry first = {&diary, 'a', 0, .until = &diary.length}, second = {&diary, 'b', 0};
  rig.type->host_task(rig.send, write_entry, &first);
  rig.type->host_task(rig.dp, write_entry, &second);
  rig_drain(&rig);
  ck_assert_str_eq(diary.text, "ba");
  rig_close(&rig);
}

/* Nor does a wait, and `compute` waiting keeps no one either. */
LOOP_TEST(a_wait_holds_up_only_its_stream, N_CPU_RIGS) {
  Rig rig = rig_open(_i);
  Diary diary = {0};
  atomic_int gate = 0;
  Entry gated = {&diary, 'a', 0, .until = &gate}, waiting = {&diary, 'b', 0}, free_one = {&diary, 'c', 0};
  DeviceEvent *after_gate = rig_event(&rig), *after_free = rig_event(&rig);
  rig.type->host_task(rig.compute, write_entry, &gated);
  rig.type->record(rig.compute, after_gate);
  rig.type->wait(rig.send, after_gate);
  rig.type->host_task(rig.send, write_entry, &waiting);
  rig.type->host_task(rig.dp, write_entry, &free_one);
  rig.type->record(rig.dp, after_free);
  ck_assert(rig.type->sleep_until(after_free, G_MAXINT64));
  ck_assert(!rig.type->is_done(after_gate));
  ck_assert(!rig.type->sleep_until(after_gate, 1000)); /* times out */
  atomic_store(&gate, 1);
  rig_drain(&rig);
  ck_assert_str_eq(diary.text, "cab");
  rig.type->event_free(after_gate);
  rig.type->event_free(after_free);
  rig_close(&rig);
}

static int n_different(const float *x, int n, float expected) {
  int n_found = 0;
  for (int i = 0; i < n; i++)
    n_found += x[i] != expected;
  return n_found;
}

LOOP_TEST(kernels_and_copies_run_in_order, N_CPU_RIGS) {
  Rig rig = rig_open(_i);
  enum { N = 3 << 20 }; /* copied in more than one piece */
  float *x = rig.type->allocate(rig.device, N * 4, NULL), *y = rig.type->allocate(rig.device, N * 4, NULL);
  ck_assert(x != NULL && y != NULL);
  ck_assert_int_eq(n_different(x, N, 0), 0);
  Kernel init = {.kind = KERNEL_INIT,
                 .init = {.number = NUMBER_FP32,
                          .rows = 1,
                          .columns = N,
                          .ld = N,
                          .whole_rows = 1,
                          .whole_width = N,
                          .mean = 3,
                          .deviation = 0,
                          .to = x}};
  Kernel fill = {.kind = KERNEL_FILL, .fill = {.bytes = N * 4, .to = x}};
  DeviceEvent *made = rig_event(&rig), *copied = rig_event(&rig);
  rig.type->launch(rig.compute, &init);
  rig.type->record(rig.compute, made);
  rig.type->wait(rig.send, made);
  rig.type->copy(rig.send, y, x, N * 4);
  rig.type->record(rig.send, copied);
  rig.type->wait(rig.compute, copied);
  rig.type->launch(rig.compute, &fill);
  rig_drain(&rig);
  assert_works(&rig);
  ck_assert_int_eq(n_different(x, N, 0), 0);
  ck_assert_int_eq(n_different(y, N, 3), 0);
  rig.type->event_free(made);
  rig.type->event_free(copied);
  rig.type->release(rig.device, x);
  rig.type->release(rig.device, y);
  rig_close(&rig);
}

LOOP_TEST(the_first_error_is_kept_and_ends_the_rest, N_RIGS) {
  Rig rig = rig_open(_i);
  Diary diary = {0};
  Entry a = {&diary, 'a', 0}, bad = {&diary, 'x', .failure = "the first"},
        worse = {&diary, 'y', .failure = "the second"}, b = {&diary, 'b', 0};
  DeviceEvent *after = rig_event(&rig);
  rig.type->host_task(rig.dp, write_entry, &a);
  rig.type->host_task(rig.dp, write_entry, &bad);
  rig.type->host_task(rig.dp, write_entry, &worse);
  rig.type->host_task(rig.dp, write_entry, &b);
  rig.type->record(rig.dp, after);
  rig.type->wait(rig.compute, after);
  rig_drain(&rig);
  ck_assert(rig.type->is_done(after));
  ck_assert_str_eq(diary.text, "a");
  ck_assert_int_eq(worse.n_calls, 0);
  for (int i = 0; i < 2; i++) { /* it stays */
    g_autoptr(GError) error = NULL;
    ck_assert(!rig.type->check(rig.device, &error));
    ck_assert_str_eq(error->message, "the first");
  }
  rig.type->event_free(after);
  rig_close(&rig);
}

LOOP_TEST(a_kernel_that_cannot_be_run_fails_the_device, N_CPU_RIGS) {
  Rig rig = rig_open(_i);
  Kernel kernel = {.kind = KERNEL_ADD, .add = {.number = NUMBER_FP8}};
  rig.type->launch(rig.compute, &kernel);
  rig_drain(&rig);
  g_autoptr(GError) error = NULL;
  ck_assert(!rig.type->check(rig.device, &error));
  ck_assert_str_eq(error->message, "kernel add: found elements of fp8, expected fp32, bf16 or fp16");
  rig_close(&rig);
}

/* A task that never ends, and a stream that waits for it: both end. */
LOOP_TEST(cancel_ends_what_would_wait_for_ever, N_CPU_RIGS) {
  Rig rig = rig_open(_i);
  Diary diary = {0};
  atomic_int never = 0;
  Entry stuck = {&diary, 'a', 0, .until = &never}, later = {&diary, 'b', 0};
  DeviceEvent *after = rig_event(&rig);
  rig.type->host_task(rig.send, write_entry, &stuck);
  rig.type->record(rig.send, after);
  rig.type->wait(rig.compute, after);
  rig.type->host_task(rig.compute, write_entry, &later);
  ck_assert(!rig.type->sleep_until(after, 100000));
  rig.type->cancel(rig.device);
  rig_drain(&rig);
  ck_assert_str_eq(diary.text, "");
  g_autoptr(GError) error = NULL;
  ck_assert(!rig.type->check(rig.device, &error));
  ck_assert_str_eq(error->message, "cancelled");
  rig.type->event_free(after);
  rig_close(&rig);
}

LOOP_TEST(a_device_can_be_closed_with_work_left, N_CPU_RIGS) {
  Rig rig = rig_open(_i);
  Diary diary = {0};
  atomic_int never = 0;
  Entry stuck = {&diary, 'a', 0, .until = &never};
  for (int i = 0; i < 5000; i++)
    rig.type->host_task(rig.send, write_entry, &stuck);
  rig.type->cancel(rig.device);
  rig.type->close(rig.device);
}

/* 64 MiB in all: 40 fit, 40 more do not, and do when the first are given back. */
LOOP_TEST(allocations_are_held_to_the_capacity, N_RIGS) {
  Rig rig = rig_open(_i);
  g_autoptr(GError) error = NULL;
  ck_assert_int_eq(rig.type->memory_bytes(rig.device), 64 << 20);
  void *first = rig.type->allocate(rig.device, 40 << 20, &error);
  ck_assert_ptr_nonnull(first);
  ck_assert_uint_eq((gsize)first % 64, 0);
  ck_assert_ptr_null(rig.type->allocate(rig.device, 40 << 20, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_str_eq(error->message, "out of memory: 41.94 MB asked for, 41.94 MB held, capacity 67.11 MB");
  rig.type->release(rig.device, first);
  void *second = rig.type->allocate(rig.device, 64 << 20, NULL);
  ck_assert_ptr_nonnull(second);
  rig.type->release(rig.device, second);
  rig.type->release(rig.device, NULL);
  void *empty = rig.type->allocate(rig.device, 0, NULL);
  ck_assert_ptr_nonnull(empty);
  rig.type->release(rig.device, empty);
  rig_close(&rig);
}

static gboolean count(gpointer data, GError **error) {
  (*(int *)data)++;
  return TRUE;
}

/* 100,000 commands pushed before the first can run, and as many events that pass to and fro. */
LOOP_TEST(queues_take_a_hundred_thousand_commands, N_CPU_RIGS) {
  Rig rig = rig_open(_i);
  enum { N = 25000 };
  atomic_int gate = 0;
  int n_compute = 0, n_send = 0;
  Diary diary = {0};
  Entry gated = {&diary, 'a', 0, .until = &gate};
  g_autofree DeviceEvent **events = g_new(DeviceEvent *, 2 * N);
  rig.type->host_task(rig.compute, write_entry, &gated);
  for (int i = 0; i < N; i++) {
    events[2 * i] = rig_event(&rig);
    events[2 * i + 1] = rig_event(&rig);
    rig.type->host_task(rig.compute, count, &n_compute);
    rig.type->record(rig.compute, events[2 * i]);
    rig.type->wait(rig.send, events[2 * i]);
    rig.type->host_task(rig.send, count, &n_send);
    rig.type->record(rig.send, events[2 * i + 1]);
    rig.type->wait(rig.compute, events[2 * i + 1]);
  }
  atomic_store(&gate, 1);
  rig_drain(&rig);
  ck_assert_int_eq(n_compute, N);
  ck_assert_int_eq(n_send, N);
  for (int i = 1; i < 2 * N; i++)
    if (rig.type->event_ns(events[i]) < rig.type->event_ns(events[i - 1]))
      ck_abort_msg("event %d is earlier than the one before it", i);
  for (int i = 0; i < 2 * N; i++)
    rig.type->event_free(events[i]);
  rig_close(&rig);
}

LOOP_TEST(events_can_be_used_again, N_RIGS) {
  Rig rig = rig_open(_i);
  DeviceEvent *event = rig_event(&rig);
  gint64 last_ns = 0;
  for (int i = 0; i < 1000; i++) {
    DeviceStream *stream = i % 2 == 0 ? rig.compute : rig.send;
    rig.type->record(stream, event);
    ck_assert(rig.type->sleep_until(event, G_MAXINT64));
    ck_assert_int_ge(rig.type->event_ns(event), last_ns);
    last_ns = rig.type->event_ns(event);
  }
  rig.type->event_free(event);
  rig_close(&rig);
}

LOOP_TEST(streams_can_be_freed_and_made_again, N_RIGS) {
  Rig rig = rig_open(_i);
  for (int i = 0; i < 200; i++) {
    DeviceStream *stream = rig.type->stream_new(rig.device, STREAM_TP, NULL);
    ck_assert_ptr_nonnull(stream);
    Diary diary = {0};
    Entry entry = {&diary, 'a', 1};
    DeviceEvent *end = rig_event(&rig);
    rig.type->host_task(stream, write_entry, &entry);
    rig.type->record(stream, end);
    ck_assert(rig.type->sleep_until(end, G_MAXINT64));
    ck_assert_str_eq(diary.text, "a");
    rig.type->event_free(end);
    rig.type->stream_free(stream);
  }
  rig_close(&rig);
}

LOOP_TEST(devices_describe_themselves, N_CPU_RIGS) {
  Rig rig = rig_open(_i);
  g_autofree char *text = rig.type->describe(rig.device);
  ck_assert_ptr_nonnull(strstr(text, _i != NULL_DEVICE ? "core" : "no processor"));
  ck_assert_double_ge(rig.type->clock_Hz(rig.device), 0);
  rig_close(&rig);
}

/* What a pipeline stage does: a kernel, its result sent, the next kernel after an answer. The message takes some polls,
 * which a computing thread that shares its core does itself; a second one hangs until the end and must hold nothing up.
 */
LOOP_TEST(kernels_and_messages_alternate, N_CPU_RIGS) {
  Rig rig = rig_open(_i);
  enum { N = 300, ELEMENTS = 1 << 14 };
  Diary diary = {0};
  atomic_int is_over = 0;
  Entry hanging = {&diary, 'z', 0, .until = &is_over};
  static Entry messages[N];
  g_autofree DeviceEvent **events = g_new(DeviceEvent *, 2 * N);
  g_autofree float *x = g_new0(float, ELEMENTS);
  Kernel add = {.kind = KERNEL_CONVERT, .convert = {.accumulate = TRUE, .n = 1, .from = x + 1, .to = x}};
  Kernel busy = {.kind = KERNEL_ACTIVATION_FORWARD,
                 .activation = {.rows = 1, .width = ELEMENTS / 2 - 2, .x = x + 2, .y = x + ELEMENTS / 2}};
  x[1] = 1;
  rig.type->host_task(rig.dp, write_entry, &hanging);
  for (int i = 0; i < N; i++) {
    messages[i] = (Entry){NULL, 'm', i % 7};
    events[2 * i] = rig_event(&rig);
    events[2 * i + 1] = rig_event(&rig);
    rig.type->launch(rig.compute, &add);
    rig.type->launch(rig.compute, &busy);
    rig.type->record(rig.compute, events[2 * i]);
    rig.type->wait(rig.send, events[2 * i]);
    rig.type->host_task(rig.send, write_entry, &messages[i]);
    rig.type->launch(rig.send, &add);
    rig.type->record(rig.send, events[2 * i + 1]);
    rig.type->wait(rig.compute, events[2 * i + 1]);
  }
  ck_assert(rig.type->sleep_until(events[2 * N - 1], G_MAXINT64));
  ck_assert_int_gt(hanging.n_calls, 0);
  atomic_store(&is_over, 1);
  rig_drain(&rig);
  ck_assert_float_eq(x[0], 2 * N);
  ck_assert_str_eq(diary.text, "z");
  for (int i = 0; i < N; i++) {
    ck_assert_int_eq(messages[i].n_calls, i % 7 + 1);
    rig.type->event_free(events[2 * i]);
    rig.type->event_free(events[2 * i + 1]);
  }
  rig_close(&rig);
}

int main(void) {
  return run_tests();
}
