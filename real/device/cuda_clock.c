/* When GPU events were, on the host's CLOCK_MONOTONIC.
 *
 * CUDA tells the time between two events only (a float of milliseconds, so it resolves 2⁻²³ of that time: 0.06 µs at 1
 * s, 1 µs at 10 s; events themselves resolve about 0.5 µs). So there is an anchor: an event whose host time is known.
 * It is recorded on an idle stream between two looks at the host's clock, several times; the closest pair bounds it
 * best:
 *
 *     host   before ──────────── after        the event was between them: ±(after − before)/2, some µs
 *     GPU             anchor
 *
 * A new anchor is taken when the last is old: where the GPU's own clock puts it (old anchor + elapsed), moved into the
 * host's bounds if the clocks have drifted apart. Times told before and after so agree to the resolution. */
#include "cuda_parts.h"

enum { N_TRIES = 8 };
static const gint64 ANCHOR_AGE_NS = 250 * 1000 * 1000;
static const gint64 GOOD_BOUND_NS = 10 * 1000; /* no more tries once within this */

/* Records `event` on the service stream and bounds its time. Spinning: a sleep would widen the bounds. */
static gboolean bound_event(CudaDevice *device, cudaEvent_t event, gint64 *before, gint64 *after, GError **error) {
  *before = host_ns();
  if (!CUDA_CALL(cudaEventRecord(event, device->service), error))
    return FALSE;
  cudaError_t status;
  while ((status = cudaEventQuery(event)) == cudaErrorNotReady)
    ;
  *after = host_ns();
  return CUDA_CALL(status, error);
}

/* The anchor's event at a host time between *before and *after, the closest of some tries. The last recording is the
 * one that counts, so each try records anew until one is no worse than those before it. */
static gboolean take_anchor(CudaDevice *device, cudaEvent_t event, gint64 *before, gint64 *after, GError **error) {
  gint64 best = G_MAXINT64;
  for (int i = 0; i < N_TRIES; i++) {
    if (!bound_event(device, event, before, after, error))
      return FALSE;
    best = MIN(best, *after - *before);
  }
  for (int i = 0; i<N_TRIES && * after - *before> best + best / 4 && *after - *before > GOOD_BOUND_NS; i++)
    if (!bound_event(device, event, before, after, error))
      return FALSE;
  return TRUE;
}

static gint64 elapsed_ns(cudaEvent_t from, cudaEvent_t to) {
  float ms = 0.0f;
  if (cudaEventElapsedTime(&ms, from, to) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return (gint64)((double)ms * 1e6);
}

gboolean cuda_clock_open(CudaDevice *device, GError **error) {
  gint64 before, after;
  if (!CUDA_CALL(cudaEventCreateWithFlags(&device->anchor.event, cudaEventDefault), error) ||
      !CUDA_CALL(cudaEventCreateWithFlags(&device->spare.event, cudaEventDefault), error) ||
      !take_anchor(device, device->anchor.event, &before, &after, error))
    return FALSE;
  device->anchor.ns = before + (after - before) / 2;
  return TRUE;
}

void cuda_clock_close(CudaDevice *device) {
  if (device->anchor.event != NULL)
    (void)cudaEventDestroy(device->anchor.event);
  if (device->spare.event != NULL)
    (void)cudaEventDestroy(device->spare.event);
}

void cuda_clock_refresh(CudaDevice *device) {
  if (host_ns() - device->anchor.ns < ANCHOR_AGE_NS)
    return;
  gint64 before, after;
  GError *error = NULL;
  if (!take_anchor(device, device->spare.event, &before, &after, &error)) {
    cuda_device_fail(&device->device, error);
    return;
  }
  const gint64 told = device->anchor.ns + elapsed_ns(device->anchor.event, device->spare.event);
  device->spare.ns = CLAMP(told, before, after);
  const CudaAnchor old = device->anchor;
  device->anchor = device->spare;
  device->spare = old;
}

gint64 cuda_clock_event_ns(CudaDevice *device, cudaEvent_t event) {
  return device->anchor.ns + elapsed_ns(device->anchor.event, event);
}
