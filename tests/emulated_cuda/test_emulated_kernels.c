/* Kernel mistakes that the emulation catches. */
#include <check.h>
#include <math.h>
#include <signal.h>

#include "cuda_device.h"
#include "program.h"
#include "run_suite.h"
#include "wrong_kernels.h"

typedef struct {
  Device *device;
  DeviceStream *stream;
  cudaStream_t handle;
  DeviceEvent *event;
  float *memory, *on_host;
} Fixture;

static Fixture fixture_new(void) {
  Fixture f = {.device = cuda_device.open(0, 1, 0, NULL)};
  ck_assert_ptr_nonnull(f.device);
  f.stream = cuda_device.stream_new(f.device, STREAM_COMPUTE, NULL);
  f.handle = cuda_stream_handle(f.stream);
  f.event = cuda_device.event_new(f.device, NULL);
  f.memory = cuda_device.allocate(f.device, 64 * sizeof *f.memory, NULL);
  f.on_host = cuda_device.allocate_host(f.device, sizeof *f.on_host, NULL);
  return f;
}

/* f.memory[0], once the stream has come so far. */
static float result(const Fixture *f) {
  cuda_device.copy(f->stream, f->on_host, f->memory, sizeof *f->on_host);
  cuda_device.record(f->stream, f->event);
  ck_assert(cuda_device.sleep_until(f->event, G_GINT64_CONSTANT(10) * 1000 * 1000 * 1000));
  return *f->on_host;
}

static void fixture_clear(Fixture *f) {
  cuda_device.stream_free(f->stream);
  cuda_device.event_free(f->event);
  cuda_device.release(f->device, f->memory);
  cuda_device.release_host(f->device, f->on_host);
  cuda_device.close(f->device);
}

/* Shared memory that no thread has written yet is NaN, whatever the order of warps. */
START_TEST(a_missing_barrier_spoils_the_sum) {
  Fixture f = fixture_new();
  wrong_sum(f.memory, true, f.handle);
  ck_assert_float_eq(result(&f), 256.0f);
  for (int i = 0; i < 4; i++) {
    wrong_sum(f.memory, false, f.handle);
    ck_assert(isnan(result(&f)));
  }
  fixture_clear(&f);
}
END_TEST

START_TEST(a_pack_is_read_where_it_is_aligned) {
  Fixture f = fixture_new();
  wrong_pack(f.memory + 4, f.memory, f.handle);
  ck_assert_float_eq(result(&f), 0.0f);
  fixture_clear(&f);
}
END_TEST

START_TEST(a_pack_that_is_not_aligned_ends_the_process) {
  Fixture f = fixture_new();
  wrong_pack(f.memory + 1, f.memory, f.handle); /* SIGABRT */
  (void)result(&f);
}
END_TEST

START_TEST(an_index_outside_shared_memory_ends_the_process) {
  Fixture f = fixture_new();
  wrong_index(f.memory, 31, f.handle);
  ck_assert_float_eq(result(&f), 1.0f);
  wrong_index(f.memory, 32, f.handle); /* SIGABRT */
  (void)result(&f);
}
END_TEST

START_TEST(a_barrier_that_not_all_come_to_ends_the_process) {
  Fixture f = fixture_new();
  wrong_barrier(f.handle); /* SIGABRT */
  (void)result(&f);
}
END_TEST

START_TEST(an_exchange_with_a_lane_that_has_left_ends_the_process) {
  Fixture f = fixture_new();
  wrong_exchange(f.memory, f.handle); /* SIGABRT */
  (void)result(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("emulated kernels");
  TCase *cases = tcase_create("kernels");
  tcase_add_test(cases, a_missing_barrier_spoils_the_sum);
  tcase_add_test(cases, a_pack_is_read_where_it_is_aligned);
  SRunner *runner = srunner_create(suite);
  if (srunner_fork_status(runner) == CK_FORK) { /* else the signal ends this process */
    tcase_add_test_raise_signal(cases, a_pack_that_is_not_aligned_ends_the_process, SIGABRT);
    tcase_add_test_raise_signal(cases, an_index_outside_shared_memory_ends_the_process, SIGABRT);
    tcase_add_test_raise_signal(cases, a_barrier_that_not_all_come_to_ends_the_process, SIGABRT);
    tcase_add_test_raise_signal(cases, an_exchange_with_a_lane_that_has_left_ends_the_process, SIGABRT);
  }
  suite_add_tcase(suite, cases);
  return run_suites(runner);
}
