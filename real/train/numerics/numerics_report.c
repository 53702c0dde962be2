/* The bounds of a check, the verdict, and printing. */
#include "numerics.h"

#include <math.h>

/* Relative bounds, and the worst seen on CPU ranks (dp, tp, pp, ZeRO, recompute, micro-batches of 2; tests'
 * tiny-llama and tiny-gpt2, 10 seeds, 3 steps; tinystories-15m, 2 seeds, 6 steps; 2026-11-21, fp16 2026-11-22):
 *
 *                  fp32, bound   tiny   15M          bf16, bound   tiny   15M          fp16, bound   tiny   15M
 *     losses            1e-5     2e-9   2.0e-8            2e-4     2.9e-5 5.6e-5            3e-5     5.8e-6 7.7e-6
 *     gradients         1e-5     1.1e-6 5.3e-7            8e-2     5.2e-2 3.5e-2            1e-2     6.3e-3 7.0e-3
 *     updates           1e-5     9e-8   4.5e-8            1e-5     9e-8   4.5e-8            1e-5     1.2e-7 4.4e-8
 *
 * fp32: sums in another order, which tp changes most. bf16, fp16: every stored number is rounded to 8 and 11 bits,
 * and a different sharding rounds different partial sums. The gradients of norms and of q and k are worst because
 * their terms cancel (bf16's tiny: 90 seeds of a model with biases of q and k, under tp 2).
 *
 * The effect of rounding on a gradient grows with the number of layers after it, and with norms after branches: for 8
 * and 24 layers of tests' tiny-olmo2 in bf16 (40 seeds, 4 steps) up to 20 % and more. So if the bf16 or fp16 bounds
 * are exceeded, the model also runs on one rank in fp32, from the same weights. The difference of the bf16 one-rank
 * run from that is rounding alone. The ranks round as much but elsewhere, so they may differ from the one rank by
 * ROUNDING_FACTOR times as much: a tensor by its own largest rounding error in any step so far, or by the mean over
 * the model's tensors, but never by more than half. Two independent errors of equal size add up to √2; worst of 40
 * seeds, 8 layers, tp 2: 2.1.
 *
 * fp8: what the linears of layers read is rounded to 4 or 3 bits. A number that is rounded to bf16 elsewhere now and
 * then falls on the other side of a boundary in fp8, so that after a few layers plans differ as much as one rank in fp8
 * differs from one in bf16. Worst of 12 seeds, 3 steps (2026-11-24): losses 1.7e-4, and 2.5e-4 with 8 layers of
 * tiny-olmo2; gradients 16 % (scales of blocks 7 %), with norms behind the branches 19 %, and 47 % with 8 layers; 24
 * layers of a Llama 13 %. Never more than 1.1 times what rounding does. This is measured in bf16, always, and has
 * bounds too, so that conversions or scales that are wrong everywhere are noticed: one rank's losses were off by up
 * to 6.5e-4, and its gradients by 6 to 18 % in the mean over tensors (8 layers of tiny-olmo2: 37 %).
 *
 * noise: the share of the model's mean gradient that a tensor's is measured against if its own is less. Where terms
 * cancel, rounding errors remain: key biases, which softmax cancels, and all of q and k under a window of one token.
 * Over 1,900 made-up models and plans (2026-11-22) that was up to 2.2e-7 of the mean in fp32, 3.6e-4 in bf16 and
 * 3.9e-5 in fp16; a tensor that is entirely wrong is detected from 1e-6, 8e-4 and 1e-4 of it on.
 *
 * A loss is a mean over tokens with practically independent errors. The values above are for LOSS_TOKENS or more;
 * with n times fewer tokens the bound is √n times larger (bf16, 16 tokens: 2.3e-4). */
static const struct {
  double loss, gradient, update;
  double noise;
  double wider_loss, wider_mean; /* of what rounding does by itself; 0: any */
} bounds[N_PRECISIONS] = {
    [PRECISION_FP32] = {1e-5, 1e-5, 1e-5, 1e-1, 0, 0},
    [PRECISION_BF16] = {2e-4, 8e-2, 1e-5, 1e-2, 0, 0},
    [PRECISION_FP16] = {3e-5, 1e-2, 1e-5, 1e-2, 0, 0},
    [PRECISION_FP8] = {5e-4, 1.5e-1, 1e-5, 1e-2, 2e-3, 0.5},
};
enum { LOSS_TOKENS = 256, ROUNDING_FACTOR = 3 };
/* Upper limits for a gradient and a loss, whatever rounding does. */
static const double most_error = 0.5, most_loss_error = 1e-2;

void check_report_init(CheckReport *report, int n_steps, const Method *method) {
  const Precision precision = method->precision;
  const double tokens = (double)method->global_batch * (double)method->seq_len;
  report->n_steps = n_steps;
  report->steps = g_new0(CheckedStep, n_steps);
  const double few = sqrt(MAX(LOSS_TOKENS / tokens, 1));
  report->loss_tolerance = bounds[precision].loss * few;
  report->gradient_tolerance = bounds[precision].gradient;
  report->update_tolerance = bounds[precision].update;
  report->noise = bounds[precision].noise;
  report->wider = precision == PRECISION_FP8 ? "bf16" : "fp32";
  report->mean_tolerance = bounds[precision].wider_mean;
  report->mean_loss_tolerance = bounds[precision].wider_loss * few;
}

void check_report_note_rounding(CheckReport *report, double mean) {
  report->mean_rounding = MAX(report->mean_rounding, mean);
}

void check_report_note_gradient(CheckReport *report, int step, const char *name, double error, double rounding) {
  CheckedStep *checked = &report->steps[step];
  const double bound = report->gradient_tolerance;
  const double share = error / MAX(bound, MIN(ROUNDING_FACTOR * rounding, most_error));
  if (!(error <= checked->gradient_error)) {
    checked->gradient_error = error;
    g_strlcpy(checked->gradient_worst, name, sizeof checked->gradient_worst);
  }
  if (!(share <= checked->gradient_share))
    checked->gradient_share = share;
  report->gradient_rounding = MAX(report->gradient_rounding, rounding);
}

static double relative_error(double found, double expected) {
  return found == expected ? 0 : fabs(found - expected) / fabs(expected); /* a vocabulary of one word has loss 0 */
}

void check_report_note_exact_loss(CheckReport *report, int step, double exact) {
  const CheckedStep *checked = &report->steps[step];
  if (!checked->is_skipped)
    report->loss_rounding = MAX(report->loss_rounding, relative_error(checked->reference_loss, exact));
}

static double loss_bound(const CheckReport *report) {
  return MAX(report->loss_tolerance, MIN(ROUNDING_FACTOR * report->loss_rounding, most_loss_error));
}

/* No gradient or update is compared in skipped steps. */
static gboolean all_are_skipped(const CheckReport *report) {
  for (int i = 0; i < report->n_steps; i++)
    if (!report->steps[i].is_skipped && !report->steps[i].skips_differ)
      return FALSE;
  return report->n_steps > 0;
}

/* Whether the precision does no more to losses and gradients than it may. */
static gboolean is_near_wider(const CheckReport *report) {
  return report->mean_tolerance <= 0 || !report->knows_rounding ||
         (report->mean_rounding <= report->mean_tolerance && report->loss_rounding <= report->mean_loss_tolerance);
}

static void G_GNUC_PRINTF(2, 3) add_reason(GPtrArray *reasons, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_ptr_array_add(reasons, g_strdup_vprintf(format, arguments));
  va_end(arguments);
}

/* NaN is beyond any bound. */
static void add_reasons_of_step(const CheckReport *report, int i, GPtrArray *reasons) {
  const CheckedStep *step = &report->steps[i];
  const double loss_error = relative_error(step->loss, step->reference_loss);
  if (step->skips_differ)
    add_reason(reasons, "step %d: %s the step at the loss's scale %g: its gradients are not compared", i,
               step->is_skipped ? "the ranks skip, and the one rank does not,"
                                : "the one rank skips, and the ranks do not,",
               step->scale);
  else if (step->scales_differ)
    add_reason(reasons, "step %d: the loss's scale, %g here, is not the one rank's, or not all skip the step", i,
               step->scale);
  if (!(loss_error <= loss_bound(report)))
    add_reason(reasons, "step %d: the loss is off by %.2e, more than %.2e", i, loss_error, loss_bound(report));
  if (!(step->gradient_share <= 1))
    add_reason(reasons, "step %d: gradients are off, %s by %.2e, up to %.3g times what is allowed", i,
               step->gradient_worst, step->gradient_error, step->gradient_share);
  if (!(step->update_error <= report->update_tolerance))
    add_reason(reasons, "step %d: updates are off, %s by %.2e, more than %.2e", i, step->update_worst,
               step->update_error, report->update_tolerance);
}

/* In the plan's own precision. */
static GPtrArray *own_reasons(const CheckReport *report) {
  GPtrArray *reasons = g_ptr_array_new_with_free_func(g_free);
  if (report->n_missing > 0)
    add_reason(reasons, "%" G_GINT64_FORMAT " numbers are on no rank", report->n_missing);
  if (all_are_skipped(report))
    add_reason(reasons,
               "no gradient was compared, as all steps were skipped: gradients overflow at the loss's scale; more "
               "--steps or a lower --initial-loss-scale");
  for (int i = 0; i < report->n_steps; i++)
    add_reasons_of_step(report, i, reasons);
  if (!is_near_wider(report))
    add_reason(reasons,
               "the precision rounds losses by %.2e and gradients by %.2e in the mean, more than %.2e and %.2e",
               report->loss_rounding, report->mean_rounding, report->mean_loss_tolerance, report->mean_tolerance);
  if (!(report->timed_loss_error <= loss_bound(report)))
    add_reason(reasons, "losses of the timed run: error %.2e; something is not waited for", report->timed_loss_error);
  return reasons;
}

GPtrArray *check_report_reasons(const CheckReport *report) {
  GPtrArray *reasons = own_reasons(report);
  g_autoptr(GPtrArray) in_fp32 = report->in_fp32 != NULL ? own_reasons(report->in_fp32) : g_ptr_array_new();
  for (guint i = 0; i < in_fp32->len; i++)
    add_reason(reasons, "in fp32: %s", (const char *)g_ptr_array_index(in_fp32, i));
  return reasons;
}

void check_report_judge(CheckReport *report) {
  g_autoptr(GPtrArray) reasons = check_report_reasons(report);
  report->is_passed = reasons->len == 0;
}

void check_timed_losses(CheckReport *report, const double *losses) {
  report->is_timed = TRUE;
  for (int i = 0; i < report->n_steps; i++) {
    const double error = relative_error(losses[i], report->steps[i].loss);
    report->timed_loss_error = error <= report->timed_loss_error ? report->timed_loss_error : error;
  }
  check_report_judge(report);
}

void check_report_clear(CheckReport *report) {
  g_clear_pointer(&report->steps, g_free);
  if (report->in_fp32 != NULL)
    check_report_clear(report->in_fp32);
  g_clear_pointer(&report->in_fp32, g_free);
}

static void print_steps(const CheckReport *report, GString *out) {
  g_string_append(out, "  step        loss    one rank       error   worst gradient                    worst update\n");
  for (int i = 0; i < report->n_steps; i++) {
    const CheckedStep *step = &report->steps[i];
    g_string_append_printf(out, "  %4d  %10.6f  %10.6f  %10.2e   %8.2e %-24s  %8.2e %s\n", i, step->loss,
                           step->reference_loss, relative_error(step->loss, step->reference_loss), step->gradient_error,
                           step->is_skipped || step->skips_differ ? "skipped" : step->gradient_worst,
                           step->update_error, step->update_worst);
  }
}

/* In the plan's own precision. */
static void print_verdict(const CheckReport *report, GString *out) {
  g_autoptr(GPtrArray) reasons = own_reasons(report);
  const gboolean is_passed = reasons->len == 0;
  for (guint i = 0; i < reasons->len; i++)
    g_string_append_printf(out, "  %s\n", (const char *)g_ptr_array_index(reasons, i));
  g_string_append_printf(out, "  %s: losses within %g, gradients within %g, updates within %g (relative)\n",
                         is_passed ? "equal" : "NOT EQUAL", report->loss_tolerance, report->gradient_tolerance,
                         report->update_tolerance);
  if (!report->knows_rounding)
    return;
  g_string_append_printf(out,
                         "  or %d times what rounding does: one rank's gradients are up to %.2g off from %s's, its "
                         "losses %.2g\n",
                         ROUNDING_FACTOR, report->gradient_rounding, report->wider, report->loss_rounding);
  if (report->mean_tolerance > 0)
    g_string_append_printf(out,
                           "  one rank against %s: %s: losses within %g, gradients within %g in the mean over tensors, "
                           "which is %.2g\n",
                           report->wider, is_near_wider(report) ? "near" : "NOT NEAR", report->mean_loss_tolerance,
                           report->mean_tolerance, report->mean_rounding);
  if (!is_passed && ROUNDING_FACTOR * report->gradient_rounding > most_error)
    g_string_append(out, "  that is too much to tell right from wrong: --precision fp32 tells\n");
}

void check_report_print(const CheckReport *report, GString *out) {
  g_string_append(out, "numerics against the same model on one rank\n");
  print_steps(report, out);
  print_verdict(report, out);
  if (report->in_fp32 == NULL)
    return;
  g_string_append(out, "the same Program in fp32\n");
  print_steps(report->in_fp32, out);
  print_verdict(report->in_fp32, out);
}
