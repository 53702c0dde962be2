/* With R of a kernel to go at the beginning of a span of length d:
 *
 *     tax < 1    it makes (1 − tax) of it per unit of time. R ≤ (1 − tax)·d: it ends inside, after R / (1 − tax);
 *                else R − (1 − tax)·d are to go behind it
 *     tax ≥ 1    it stands still, and (tax − 1)·d more are to go behind it */
#include "tax.h"

#include <math.h>
#include <string.h>

#include "saturate.h"

TaxSpan tax_span(gint64 from_ns, gint64 to_ns, double tax) {
  return (TaxSpan){from_ns, to_ns, (gint64)llround(MIN(tax, (double)G_MAXINT32) * (double)TAX_WHOLE)};
}

/* The union of spans while it is made. */
typedef struct {
  TaxSpan spans[2 * TAX_MAX_SPANS + 1];
  int n_spans;
} Union;

static void append(Union *all, gint64 from_ns, gint64 to_ns, gint64 tax) {
  if (from_ns >= to_ns)
    return;
  TaxSpan *last = all->n_spans > 0 ? &all->spans[all->n_spans - 1] : NULL;
  if (last != NULL && last->to_ns == from_ns && last->tax == tax)
    last->to_ns = to_ns;
  else
    all->spans[all->n_spans++] = (TaxSpan){from_ns, to_ns, tax};
}

/* What the kernel that runs loses to a span that it has run beside. */
static __int128 loss_to(const TaxedTime *time, const TaxSpan *span) {
  const gint64 length_ns = span->to_ns - MAX(span->from_ns, time->start_ns);
  return length_ns > 0 ? (__int128)length_ns * span->tax : 0;
}

static void keep(TaxedTime *time, const Union *all) {
  const int n_gone = MAX(0, all->n_spans - TAX_MAX_SPANS);
  for (int i = 0; i < n_gone; i++)
    time->lost += loss_to(time, &all->spans[i]);
  time->n_spans = all->n_spans - n_gone;
  memcpy(time->spans, &all->spans[n_gone], sizeof(TaxSpan) * (gsize)time->n_spans);
}

void tax_add(TaxedTime *time, TaxSpan span) {
  if (span.tax <= 0 || span.to_ns <= span.from_ns)
    return;
  Union all;
  all.n_spans = 0;
  gint64 at_ns = span.from_ns; /* so far it is in the union */
  for (int i = 0; i < time->n_spans; i++) {
    const TaxSpan known = time->spans[i];
    const gint64 from_ns = CLAMP(known.from_ns, at_ns, MAX(at_ns, span.to_ns)),
                 to_ns = CLAMP(known.to_ns, from_ns, MAX(from_ns, span.to_ns));
    append(&all, known.from_ns, MIN(known.to_ns, span.from_ns), known.tax);
    append(&all, at_ns, from_ns, span.tax);
    append(&all, from_ns, to_ns, MAX(known.tax, span.tax));
    append(&all, MAX(known.from_ns, span.to_ns), known.to_ns, known.tax);
    at_ns = to_ns;
  }
  append(&all, at_ns, span.to_ns, span.tax);
  keep(time, &all);
}

static void drop_spans_before(TaxedTime *time, gint64 start_ns) {
  int n_behind = 0;
  while (n_behind < time->n_spans && time->spans[n_behind].to_ns <= start_ns)
    n_behind++;
  time->n_spans -= n_behind;
  memmove(time->spans, &time->spans[n_behind], sizeof(TaxSpan) * (gsize)time->n_spans);
}

gint64 tax_begin_kernel(TaxedTime *time, gint64 start_ns, gint64 end_ns) {
  drop_spans_before(time, start_ns);
  time->start_ns = start_ns;
  time->run_ns = end_ns - start_ns;
  time->lost = 0;
  return tax_end_of_kernel(time);
}

/* Up to whole nanoseconds. */
static gint64 ns_after(gint64 at_ns, __int128 left, gint64 rate) {
  const __int128 ns = (left + rate - 1) / rate;
  return add_ns(at_ns, ns < G_MAXINT64 ? (gint64)ns : G_MAXINT64);
}

gint64 tax_end_of_kernel(const TaxedTime *time) {
  __int128 left = (__int128)time->run_ns * TAX_WHOLE + time->lost;
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
