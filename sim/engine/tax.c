/* tax < 1: at `span` the kernel has R = end − from to go, and makes (1 − tax) of it per unit of time:
 *
 *     R ≤ (1 − tax)·d    it ends inside, after R / (1 − tax)
 *     else               it ends tax·d later
 *
 * tax ≥ 1: it stands still, and ends tax·d later. */
#include "tax.h"

#include <math.h>

#include "saturate.h"

gint64 tax_end(double tax, TaxSpan span, gint64 start_ns, gint64 end_ns) {
  const gint64 from_ns = MAX(span.from_ns, start_ns);
  if (end_ns <= from_ns || span.to_ns <= from_ns)
    return end_ns;
  const double left = (double)(end_ns - from_ns), length = (double)(span.to_ns - from_ns);
  if (tax < 1 && left <= (1 - tax) * length)
    return add_ns(from_ns, (gint64)ceil(left / (1 - tax)));
  return add_ns(end_ns, (gint64)ceil(tax * length));
}

TaxSpan tax_add(TaxedTime *time, gint64 from_ns, gint64 to_ns) {
  if (time->n_spans > 0)
    from_ns = MAX(from_ns, time->spans[time->n_spans - 1].to_ns);
  if (to_ns <= from_ns)
    return (TaxSpan){from_ns, from_ns};
  if (time->n_spans == TAX_MAX_SPANS) { /* the earliest lies behind, or so near that it makes no difference */
    for (int i = 1; i < TAX_MAX_SPANS; i++)
      time->spans[i - 1] = time->spans[i];
    time->n_spans--;
  }
  return time->spans[time->n_spans++] = (TaxSpan){from_ns, to_ns};
}

gint64 tax_end_of_kernel(double tax, const TaxedTime *time, gint64 start_ns, gint64 end_ns) {
  for (int i = 0; i < time->n_spans; i++)
    end_ns = tax_end(tax, time->spans[i], start_ns, end_ns);
  return end_ns;
}
