/* Host accesses to device memory, which the emulation catches and a real GPU may or may not. */
#include <check.h>
#include <signal.h>

#include "device.h"
#include "program.h"
#include "run_suite.h"

enum { BYTES = 1000 };

typedef struct {
  Device *device;
  DeviceStream *stream;
  DeviceEvent *event;
  char *memory, *on_host;
} Fixture;

/* The device's memory is zeroed when it is allocated, by a stream. */
static Fixture fixture_new(void) {
  Fixture f = {.device = cuda_device.open(0, 1, 0, NULL)};
  ck_assert_ptr_nonnull(f.device);
  f.stream = cuda_device.stream_new(f.device, STREAM_COMPUTE, NULL);
  f.event = cuda_device.event_new(f.device, NULL);
  f.memory = cuda_device.allocate(f.device, BYTES, NULL);
  f.on_host = cuda_device.allocate_host(f.device, BYTES, NULL);
  return f;
}

static void copy(const Fixture *f, char *to, const char *from) {
  cuda_device.copy(f->stream, to, from, BYTES);
  cuda_device.record(f->stream, f->event);
  ck_assert(cuda_device.sleep_until(f->event, G_GINT64_CONSTANT(10) * 1000 * 1000 * 1000));
}

START_TEST(streams_use_memory_that_was_closed_to_the_host) {
  const Fixture f = fixture_new();
  for (int i = 0; i < BYTES; i++)
    f.on_host[i] = (char)i;
  copy(&f, f.memory, f.on_host);
  memset(f.on_host, 0, BYTES);
  copy(&f, f.on_host, f.memory);
  int n_wrong = 0;
  for (int i = 0; i < BYTES; i++)
    n_wrong += f.on_host[i] != (char)i;
  ck_assert_int_eq(n_wrong, 0);
  cuda_device.stream_free(f.stream);
  cuda_device.event_free(f.event);
  cuda_device.release(f.device, f.memory);
  cuda_device.release_host(f.device, f.on_host);
  cuda_device.close(f.device);
}
END_TEST

START_TEST(the_host_is_ended_where_it_reads_the_devices_memory) {
  const Fixture f = fixture_new();
  const char read = *(volatile char *)f.memory; /* SIGABRT */
  ck_assert_int_eq(read, 0);
}
END_TEST

START_TEST(the_host_is_ended_where_it_writes_the_devices_memory) {
  const Fixture f = fixture_new();
  *(volatile char *)f.memory = 1; /* SIGABRT */
}
END_TEST

int main(void) {
  Suite *suite = suite_create("emulated memory");
  TCase *cases = tcase_create("memory");
  tcase_add_test(cases, streams_use_memory_that_was_closed_to_the_host);
  SRunner *runner = srunner_create(suite);
  if (srunner_fork_status(runner) == CK_FORK) { /* else the signal ends this process */
    tcase_add_test_raise_signal(cases, the_host_is_ended_where_it_reads_the_devices_memory, SIGABRT);
    tcase_add_test_raise_signal(cases, the_host_is_ended_where_it_writes_the_devices_memory, SIGABRT);
  }
  suite_add_tcase(suite, cases);
  return run_suites(runner);
}
