/* tax < 1: at `span` the kernel has R = end − from to go, and makes (1 − tax) of it per unit of time:
 *
 *     R ≤ (1 − tax)·d    it ends inside, after R / (1 − tax)
 *     else               it ends tax·d later
 *
 * tax ≥ 1: it stands still, and ends tax·d later. */
#include "tax.h"

#include <math.h>

#include "saturate.h"

gint64 tax_end(TaxSpan span, gint64 start_ns, gint64 end_ns) {
  const gint64 from_ns = MAX(span.from_ns, start_ns);
  if (end_ns <= from_ns || span.to_ns <= from_ns)
    return end_ns;
  const double left = (double)(end_ns - from_ns), length = (double)(span.to_ns - from_ns);
  if (span.tax < 1 && left <= (1 - span.tax) * length)
    return add_ns(from_ns, (gint64)ceil(left / (1 - span.tax)));
  return add_ns(end_ns, (gint64)ceil(span.tax * length));
}

TaxSpan tax_add(TaxedTime *time, TaxSpan span) {
  if (time->n_spans > 0)
    span.from_ns = MAX(span.from_ns, time->spans[time->n_spans - 1].to_ns);
  if (span.to_ns <= span.from_ns)
    return (TaxSpan){span.from_ns, span.from_ns, 0};
  if (time->n_spans == TAX_MAX_SPANS) { /* the earliest lies behind, or so near that it makes no difference */
    for (int i = 1; i < TAX_MAX_SPANS; i++)
      time->spans[i - 1] = time->spans[i];
    time->n_spans--;
  }
  return time->spans[time->n_spans++] = span;
}

gint64 tax_end_of_kernel(const TaxedTime *time, gint64 start_ns, gint64 end_ns) {
  for (int i = 0; i < time->n_spans; i++)
    end_ns = tax_end(time->spans[i], start_ns, end_ns);
  return end_ns;
}
