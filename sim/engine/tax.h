/* What transfers cost the kernels of their rank: the SMs, memory and cores that move data compute less. While a
 * transfer with a tax of its own (Timing.taxes) runs for a time d, d·tax of computing is lost:
 *
 *     tax 0     transfers are free to the kernels beside them
 *     tax 0.2   kernels run at 0.8 of their rate beside a transfer
 *     tax 1     and more: one core does both, and computing stands still
 *
 * A rank's transfers count once where they overlap, at the largest tax of them: it does not matter which of those that
 * begin together was known first. Their union is kept as spans of time; the end of the kernel that runs follows from
 * its beginning and these. Sums are whole numbers, so that no end depends on how the spans were cut. */
#pragma once
#include <glib.h>

typedef struct {
  gint64 from_ns, to_ns; /* empty: from = to */
  gint64 tax;            /* in TAX_WHOLE */
} TaxSpan;
#define TAX_WHOLE G_GINT64_CONSTANT(1000000000)

/* Zeroed: no transfer and no kernel yet. */
typedef struct {
  TaxSpan *spans; /* [n_slots] in time order, disjoint; those that end after start_ns; owned */
  int n_spans, n_slots;
  gint64 start_ns, run_ns; /* of the kernel begun last, without taxes */
} TaxedTime;
void tax_clear(TaxedTime *time);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(TaxedTime, tax_clear)

/* tax: as in Timing.taxes. */
TaxSpan tax_span(gint64 from_ns, gint64 to_ns, double tax);
/* Take in a transfer; it may lie behind, as far as the kernel that runs has run beside it. */
void tax_add(TaxedTime *time, TaxSpan span);
/* A kernel that would run over [start_ns, end_ns) begins; returns when it ends, by what is known. */
gint64 tax_begin_kernel(TaxedTime *time, gint64 start_ns, gint64 end_ns);
/* When it ends by what is known by now. */
gint64 tax_end_of_kernel(const TaxedTime *time);
