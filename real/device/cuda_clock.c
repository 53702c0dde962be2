/* GPU event times on the host's CLOCK_MONOTONIC.
 *
 * CUDA reports only the time between two events (a float of milliseconds, so it resolves 2⁻²³ of that time: 0.06 µs at
 * 1 s, 1 µs at 10 s; events themselves resolve about 0.5 µs). So there are anchors, events of known host time, with a
 * new one whenever the last is old; an event is timed from the anchor before it. An anchor is recorded on an idle
 * stream between two reads of the host's clock, several times; the closest pair gives the best bounds:
 *
 *     host   before ──────────── after        the event was between them: ±(after − before)/2, some µs
 *     GPU             anchor
 *
 * The anchor is placed by the GPU's own clock (last anchor + elapsed), and moved into the host's bounds if the clocks
 * have drifted apart. Between two anchors host time is interpolated linearly, so events keep their order:
 *
 *     host   A₀ ───────────╱A₁ ─────────╱A₂ ── …        event = Aᵢ + elapsed·(Aᵢ₊₁ − Aᵢ)/(elapsed from Aᵢ to Aᵢ₊₁) */
#include "cuda_parts.h"

enum { N_TRIES = 8, MOST_ANCHORS = 1024 };
static const gint64 ANCHOR_AGE_NS = 250 * 1000 * 1000;
static const gint64 GOOD_BOUND_NS = 10 * 1000; /* no more tries once within this */

/* Records `event` on the service stream and bounds its time. Spins: a sleep would widen the bounds. */
static gboolean bound_event(CudaDevice *device, cudaEvent_t event, gint64 *before, gint64 *after, GError **error) {
  *before = host_clock_ns();
  if (!CUDA_CALL(cudaEventRecord(event, device->service), error))
    return FALSE;
  cudaError_t status;
  while ((status = cudaEventQuery(event)) == cudaErrorNotReady)
    ;
  *after = host_clock_ns();
  return CUDA_CALL(status, error);
}

/* Records the anchor's event at a host time between *before and *after, the closest of several tries. Only the last
 * recording of an event counts, so it tries again until one is no worse than the best before it. */
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

static CudaAnchor *anchor_at(const CudaDevice *device, guint i) {
  return &g_array_index(device->anchors, CudaAnchor, i);
}

static CudaAnchor *last_anchor(const CudaDevice *device) {
  return anchor_at(device, device->anchors->len - 1);
}

static void anchor_clear(gpointer data) {
  (void)cudaEventDestroy(((CudaAnchor *)data)->event);
}

/* Adds an anchor whose host time is set later. */
static gboolean add_anchor(CudaDevice *device, gint64 *before, gint64 *after, GError **error) {
  CudaAnchor anchor = {0};
  if (!CUDA_CALL(cudaEventCreateWithFlags(&anchor.event, cudaEventDefault), error))
    return FALSE;
  if (take_anchor(device, anchor.event, before, after, error)) {
    g_array_append_val(device->anchors, anchor);
    return TRUE;
  }
  (void)cudaEventDestroy(anchor.event);
  return FALSE;
}

gboolean cuda_clock_open(CudaDevice *device, GError **error) {
  gint64 before, after;
  device->anchors = g_array_new(FALSE, FALSE, sizeof(CudaAnchor));
  g_array_set_clear_func(device->anchors, anchor_clear);
  device->anchor_age_ns = ANCHOR_AGE_NS;
  if (!add_anchor(device, &before, &after, error))
    return FALSE;
  last_anchor(device)->ns = before + (after - before) / 2;
  return TRUE;
}

void cuda_clock_close(CudaDevice *device) {
  g_clear_pointer(&device->anchors, g_array_unref);
}

/* A long run drops every second anchor, and takes half as many from then on. */
static void thin_out(CudaDevice *device) {
  for (guint i = 1; i < device->anchors->len; i++)
    g_array_remove_index(device->anchors, i);
  device->anchor_age_ns *= 2;
}

void cuda_clock_refresh(CudaDevice *device) {
  if (host_clock_ns() - last_anchor(device)->ns < device->anchor_age_ns)
    return;
  if (device->anchors->len >= MOST_ANCHORS)
    thin_out(device);
  gint64 before, after;
  GError *error = NULL;
  if (!add_anchor(device, &before, &after, &error)) {
    cuda_device_fail(&device->device, error);
    return;
  }
  const CudaAnchor *old = anchor_at(device, device->anchors->len - 2);
  const gint64 told = old->ns + elapsed_ns(old->event, last_anchor(device)->event);
  last_anchor(device)->ns = MAX(CLAMP(told, before, after), old->ns + 1);
}

gint64 cuda_clock_event_ns(CudaDevice *device, cudaEvent_t event) {
  guint i = device->anchors->len - 1;
  gint64 elapsed = elapsed_ns(anchor_at(device, i)->event, event);
  const gint64 roughly_ns = anchor_at(device, i)->ns + elapsed;
  if (elapsed >= 0 || i == 0)
    return roughly_ns;
  while (i > 0 && anchor_at(device, i)->ns > roughly_ns)
    i--;
  const CudaAnchor *from = anchor_at(device, i), *to = from + 1;
  const gint64 between = elapsed_ns(from->event, to->event);
  elapsed = elapsed_ns(from->event, event);
  return between <= 0 ? from->ns + elapsed
                      : from->ns + (gint64)((double)elapsed * (double)(to->ns - from->ns) / (double)between);
}
