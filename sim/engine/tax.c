/* With R of a kernel left at the beginning of a span of length d:
 *
 *     tax < 1    it runs at the rate 1 − tax. If R ≤ (1 − tax)·d it ends inside the span, after R / (1 − tax);
 *                otherwise R − (1 − tax)·d is left after it
 *     tax ≥ 1    it stands still, and (tax − 1)·d more is left after it */
#include "tax.h"

#include <math.h>
#include <string.h>

#include "saturate.h"

TaxSpan tax_span(gint64 from_ns, gint64 to_ns, double tax) {
  return (TaxSpan){from_ns, to_ns, (gint64)llround(MIN(tax, (double)G_MAXINT32) * (double)TAX_WHOLE)};
}

static void append(TaxedTime *time, gint64 from_ns, gint64 to_ns, gint64 tax) {
  if (from_ns >= to_ns)
    return;
  TaxSpan *last = time->n_spans > 0 ? &time->spans[time->n_spans - 1] : NULL;
  if (last != NULL && last->to_ns == from_ns && last->tax == tax)
    last->to_ns = to_ns;
  else
    time->spans[time->n_spans++] = (TaxSpan){from_ns, to_ns, tax};
}

/* Removes the spans that end at from_ns or later and moves them to the end of the array. There they can be read while
 * their union with one more span (at most two spans for each, plus one) is appended to the rest. */
static const TaxSpan *take_from(TaxedTime *time, gint64 from_ns, int *n_taken) {
  int n_before = time->n_spans;
  while (n_before > 0 && time->spans[n_before - 1].to_ns >= from_ns)
    n_before--;
  const int n = time->n_spans - n_before, n_needed = n_before + 2 * n + 1 + n;
  if (n_needed > time->n_slots) {
    time->n_slots = MAX(2 * time->n_slots, MAX(n_needed, 8));
    time->spans = g_renew(TaxSpan, time->spans, time->n_slots);
  }
  TaxSpan *taken = &time->spans[time->n_slots - n];
  memmove(taken, &time->spans[n_before], sizeof(TaxSpan) * (gsize)n);
  time->n_spans = n_before;
  *n_taken = n;
  return taken;
}

void tax_add(TaxedTime *time, TaxSpan span) {
  if (span.tax <= 0 || span.to_ns <= span.from_ns)
    return;
  int n_taken;
  const TaxSpan *taken = take_from(time, span.from_ns, &n_taken);
  gint64 at_ns = span.from_ns; /* the union is complete up to here */
  for (int i = 0; i < n_taken; i++) {
    const TaxSpan known = taken[i];
    const gint64 from_ns = CLAMP(known.from_ns, at_ns, MAX(at_ns, span.to_ns)),
                 to_ns = CLAMP(known.to_ns, from_ns, MAX(from_ns, span.to_ns));
    append(time, known.from_ns, MIN(known.to_ns, span.from_ns), known.tax);
    append(time, at_ns, from_ns, span.tax);
    append(time, from_ns, to_ns, MAX(known.tax, span.tax));
    append(time, MAX(known.from_ns, span.to_ns), known.to_ns, known.tax);
    at_ns = to_ns;
  }
  append(time, at_ns, span.to_ns, span.tax);
}

void tax_clear(TaxedTime *time) {
  g_free(time->spans);
}

static void drop_spans_before(TaxedTime *time, gint64 start_ns) {
  int n_behind = 0;
  while (n_behind < time->n_spans && time->spans[n_behind].to_ns <= start_ns)
    n_behind++;
  time->n_spans -= n_behind;
  if (n_behind > 0)
    memmove(time->spans, &time->spans[n_behind], sizeof(TaxSpan) * (gsize)time->n_spans);
}

gint64 tax_begin_kernel(TaxedTime *time, gint64 start_ns, gint64 end_ns) {
  drop_spans_before(time, start_ns);
  time->start_ns = start_ns;
  time->run_ns = end_ns - start_ns;
  return tax_end_of_kernel(time);
}

/* Rounds up to whole nanoseconds. */
static gint64 ns_after(gint64 at_ns, __int128 left, gint64 rate) {
  const __int128 ns = (left + rate - 1) / rate;
  return add_ns(at_ns, ns < G_MAXINT64 ? (gint64)ns : G_MAXINT64);
}

gint64 tax_end_of_kernel(const TaxedTime *time) {
  __int128 left = (__int128)time->run_ns * TAX_WHOLE;
  gint64 at_ns = time->start_ns;
  for (int i = 0; i < time->n_spans; i++) {
    const gint64 from_ns = MAX(time->spans[i].from_ns, at_ns), to_ns = MAX(time->spans[i].to_ns, from_ns),
                 rate = TAX_WHOLE - time->spans[i].tax;
    const __int128 before = (__int128)(from_ns - at_ns) * TAX_WHOLE, inside = (__int128)(to_ns - from_ns) * rate;
    if (left <= before)
      break;
    left -= before;
    at_ns = from_ns;
    if (rate > 0 && left <= inside)
      return ns_after(at_ns, left, rate);
    left -= inside;
    at_ns = to_ns;
  }
  return ns_after(at_ns, left, TAX_WHOLE);
}
