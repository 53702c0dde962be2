/* GPU event times on the host's CLOCK_MONOTONIC, to place events beside the host's and other ranks'. For how long
 * something took there are pairs of events: cuda_event_elapsed_ns().
 *
 * CUDA reports only the time between two events. So there are two anchors, events of known host time: one from when the
 * device was opened, one from its latest wait. The two clocks drift apart, by some 10 ppm; between the anchors, evenly:
 *
 *     host   A₀ ──────────────────────────╱A₁        event = A₁ + elapsed from A₁ · (A₁ − A₀)/(elapsed from A₀ to A₁)
 *
 * An anchor is recorded on an idle stream between two reads of the host's clock, which bound it to some µs. The time
 * between events is a float of milliseconds: it resolves 1 µs at 10 s. */
#include "cuda_parts.h"

enum { N_TRIES = 16 };
static const gint64 GOOD_BOUND_NS = 10 * 1000; /* no more tries once within this */
static const gint64 ANCHOR_AGE_NS = 250 * 1000 * 1000;

/* Spins: a sleep would widen the bounds. */
static gboolean take_anchor(CudaDevice *device, CudaAnchor *anchor, GError **error) {
  gint64 before = 0, after = G_MAXINT64;
  for (int i = 0; i < N_TRIES && after - before > GOOD_BOUND_NS; i++) {
    before = host_now_ns();
    if (!CUDA_CALL(cudaEventRecord(anchor->event, device->service), error))
      return FALSE;
    cudaError_t status;
    while ((status = cudaEventQuery(anchor->event)) == cudaErrorNotReady)
      ;
    after = host_now_ns();
    if (!CUDA_CALL(status, error))
      return FALSE;
  }
  anchor->ns = before + (after - before) / 2;
  return TRUE;
}

static double elapsed_ns(cudaEvent_t from, cudaEvent_t to) {
  float ms = 0.0f;
  if (cudaEventElapsedTime(&ms, from, to) != cudaSuccess)
    (void)cudaGetLastError();
  return (double)ms * 1e6;
}

gboolean cuda_clock_open(CudaDevice *device, GError **error) {
  for (int i = 0; i < 2; i++)
    if (!CUDA_CALL(cudaEventCreateWithFlags(&device->anchors[i].event, cudaEventDefault), error) ||
        !take_anchor(device, &device->anchors[i], error))
      return FALSE;
  return TRUE;
}

void cuda_clock_close(CudaDevice *device) {
  for (int i = 0; i < 2; i++)
    if (device->anchors[i].event != NULL)
      (void)cudaEventDestroy(device->anchors[i].event);
}

void cuda_clock_refresh(CudaDevice *device) {
  GError *error = NULL;
  if (host_now_ns() - device->anchors[1].ns > ANCHOR_AGE_NS && !take_anchor(device, &device->anchors[1], &error))
    cuda_device_fail(&device->device, error);
}

/* Host time per GPU time. Anchors that are close together tell nothing of the drift, and clocks drift less than that.
 */
static double rate_of(const CudaAnchor *first, const CudaAnchor *last) {
  const double most_drift = 1e-3, between_ns = (double)(last->ns - first->ns);
  const double rate = between_ns > (double)ANCHOR_AGE_NS ? between_ns / elapsed_ns(first->event, last->event) : 1;
  return rate > 1 - most_drift && rate < 1 + most_drift ? rate : 1;
}

gint64 cuda_clock_event_ns(CudaDevice *device, cudaEvent_t event) {
  const CudaAnchor *last = &device->anchors[1];
  return last->ns + (gint64)(elapsed_ns(last->event, event) * rate_of(&device->anchors[0], last));
}
