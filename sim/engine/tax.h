/* What transfers cost the kernels of their rank: the SMs, memory and cores that move data compute less. While a
 * transfer with a tax (Timing.taxes) runs for a time d, it costs d·tax of computing:
 *
 *     tax 0     transfers are free to the kernels beside them
 *     tax 0.2   kernels run at 0.8 of their rate beside a transfer
 *     tax 1     or more: one core does both, and computing stands still
 *
 * Where a rank's transfers overlap they count once, at the largest of their taxes, so the order in which simultaneous
 * transfers become known does not matter. Their union is kept as spans of time; the end of the running kernel follows
 * from its start and these spans. Sums are integers, so that no end depends on how the spans were cut. */
#pragma once
#include <glib.h>

typedef struct {
  gint64 from_ns, to_ns; /* empty: from = to */
  gint64 tax;            /* in units of 1 / TAX_WHOLE */
} TaxSpan;
#define TAX_WHOLE G_GINT64_CONSTANT(1000000000)

/* Zeroed: no transfer and no kernel yet. */
typedef struct {
  TaxSpan *spans; /* [n_slots] in time order, disjoint; only those that end after start_ns; owned */
  int n_spans, n_slots;
  gint64 start_ns, run_ns; /* of the kernel begun last, without taxes */
} TaxedTime;
void tax_clear(TaxedTime *time);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(TaxedTime, tax_clear)

/* tax: as in Timing.taxes. */
TaxSpan tax_span(gint64 from_ns, gint64 to_ns, double tax);
/* Add a transfer. It may lie in the past, as far back as the start of the running kernel. */
void tax_add(TaxedTime *time, TaxSpan span);
/* Begin a kernel that would run over [start_ns, end_ns) without taxes. Returns its end as known now. */
gint64 tax_begin_kernel(TaxedTime *time, gint64 start_ns, gint64 end_ns);
/* The end of that kernel as known by now. */
gint64 tax_end_of_kernel(const TaxedTime *time);
