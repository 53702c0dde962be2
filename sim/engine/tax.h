/* What transfers cost the kernels of their rank: the SMs, memory and cores that move data compute less. While a
 * transfer with a tax of its own (Timing.taxes) runs for a time d, d·tax of computing is lost:
 *
 *     tax 0     transfers are free to the kernels beside them
 *     tax 0.2   kernels run at 0.8 of their rate beside a transfer
 *     tax 1     and more: one core does both, and computing stands still
 *
 * A rank's transfers count once where they overlap, at the tax of the one that was known first. Those known so far that
 * reach beyond now are kept as a few spans of time; a kernel that starts later, or runs already, ends later by what it
 * loses to them. */
#pragma once
#include <glib.h>

enum { TAX_MAX_SPANS = 4 };

typedef struct {
  gint64 from_ns, to_ns; /* empty: from = to */
  double tax;
} TaxSpan;

typedef struct {
  TaxSpan spans[TAX_MAX_SPANS]; /* in time order, disjoint, the latest last */
  int n_spans;
} TaxedTime;

/* End of a kernel that would end at end_ns, of which what is left at span.from runs into `span`. start_ns < end_ns. */
gint64 tax_end(TaxSpan span, gint64 start_ns, gint64 end_ns);
/* Take in a transfer; returns the part of it that no other covers (empty where there is none). */
TaxSpan tax_add(TaxedTime *time, TaxSpan span);
/* End of a kernel over [start_ns, end_ns) that runs into what is known. */
gint64 tax_end_of_kernel(const TaxedTime *time, gint64 start_ns, gint64 end_ns);
