/* The cuda device's clock (cuda_clock.c) with a GPU clock that runs too fast, without a GPU: CUDA's events and the
 * host's clock are faked here. Prints TAP. */
#include "cuda_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const double DRIFT = 1 + 50e-6; /* of the GPU's clock */
static const gint64 SECOND_NS = 1000 * 1000 * 1000;
static gint64 now_ns = 1000000;

/* An event holds the GPU's time, ns. */
struct CUevent_st {
  double ns;
};

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags) {
  *event = calloc(1, sizeof **event);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->ns = (double)now_ns * DRIFT;
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  *ms = (float)((to->ns - from->ns) * 1e-6);
  return cudaSuccess;
}

cudaError_t cudaGetLastError(void) {
  return cudaSuccess;
}

gboolean cuda_call_check(cudaError_t status, const char *call, const char *file, int line, GError **error) {
  return status == cudaSuccess;
}

/* Every look at the clock takes a microsecond. */
gint64 host_now_ns(void) {
  return now_ns += 1000;
}

void cuda_device_fail(Device *device, GError *error) {
  abort();
}

static struct CUevent_st event_at(gint64 host_ns_then) {
  return (struct CUevent_st){(double)host_ns_then * DRIFT};
}

static int n_bad;

static void expect(gboolean is_true, int number, const char *what) {
  printf("%s %d - %s\n", is_true ? "ok" : "not ok", number, what);
  n_bad += !is_true;
}

/* The host waits ten times a second for so long. */
static void let_pass(CudaDevice *device, gint64 duration_ns) {
  for (const gint64 end_ns = now_ns + duration_ns; now_ns < end_ns; now_ns += SECOND_NS / 10)
    cuda_clock_refresh(device);
}

/* An anchor is bounded by two looks, 1 µs apart, and a float of milliseconds resolves 8 µs at 100 s. Without the drift,
 * events at the start would be off by 50 ppm · 100 s = 5 ms. */
static void check_times(CudaDevice *device, gint64 from_ns, gint64 to_ns) {
  gint64 worst_ns = 0, n_before = 0, last_ns = 0;
  for (gint64 true_ns = from_ns; true_ns < to_ns; true_ns += 777777) {
    struct CUevent_st event = event_at(true_ns);
    const gint64 told_ns = cuda_clock_event_ns(device, &event);
    worst_ns = MAX(worst_ns, ABS(told_ns - true_ns));
    n_before += told_ns < last_ns;
    last_ns = told_ns;
  }
  printf("# at most %.2f us off\n", (double)worst_ns / 1e3);
  expect(worst_ns < 10000, 1, "events of a long run are told to some microseconds of the host's clock");
  expect(n_before == 0, 2, "no event is told to come before one that it came after");
}

int main(void) {
  CudaDevice device = {0};
  printf("1..2\n");
  if (!cuda_clock_open(&device, NULL))
    return EXIT_FAILURE;
  const gint64 start_ns = now_ns;
  let_pass(&device, 100 * SECOND_NS);
  check_times(&device, start_ns, start_ns + 99 * SECOND_NS);
  cuda_clock_close(&device);
  return n_bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
