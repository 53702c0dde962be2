#include "measured_report.h"

#include "json_values.h"
#include "state.h"
#include "step_report.h"
#include "units.h"

/* Model FLOP/s of one processor in the median step. */
static double flops_per_s(const MeasuredReport *report) {
  const Plan *plan = report->workload->plan;
  return workload_model_flops(report->workload) / (report->median_ns * 1e-9) / plan->gpus;
}

/* 0: unknown, or without meaning. */
static double mfu(const MeasuredReport *report) {
  return report->peak_flops > 0 && report->n_sharers <= 1 ? flops_per_s(report) / report->peak_flops : 0;
}

static double tokens_per_s(const MeasuredReport *report) {
  return workload_tokens(report->workload) / (report->median_ns * 1e-9);
}

static void append_line(GString *out, const char *label, char *value) {
  g_string_append_printf(out, "  %-14s %s\n", label, value);
  g_free(value);
}

/* Whether the times of ops are those of kernels alone. */
static void append_lead(GString *out, const MeasuredReport *report) {
  const HostLead *lead = &report->lead;
  if (lead->n_late == 0) {
    append_line(out, "host", g_strdup_printf("ahead of all %" G_GINT64_FORMAT " ops of kernels", lead->n_ops));
    return;
  }
  g_autofree char *late = units_format(lead->late_s, UNIT_SECONDS);
  g_autofree char *launch = units_format(lead->launch_s, UNIT_SECONDS);
  append_line(out, "host",
              g_strdup_printf("not ahead at %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                              " ops of kernels: of their %s (of a step, mean over ranks) up to %s are launches",
                              lead->n_late, lead->n_ops, late, launch));
}

static void append_speed(GString *out, const MeasuredReport *report) {
  g_autofree char *first = units_format(report->steps_ns[0] * 1e-9, UNIT_SECONDS);
  g_autofree char *median = units_format(report->median_ns * 1e-9, UNIT_SECONDS);
  g_autofree char *rate = units_format(flops_per_s(report), UNIT_FLOPS_PER_SECOND);
  g_string_append(out, "\nhow fast\n");
  if (report->n_sharers > 1)
    g_string_append_printf(out, "  times mean nothing: %d ranks share %s\n", report->n_sharers, report->shared);
  if (report->n_steps > 1)
    append_line(out, "step",
                g_strdup_printf("%s, median of %d after a first of %s", median, report->n_steps - 1, first));
  else
    append_line(out, "step", g_strdup_printf("%s (one step alone: not warmed up; --steps 5 gives a median)", median));
  append_line(out, "tokens", g_strdup_printf("%.4g /s", tokens_per_s(report)));
  append_line(out, "model FLOPs", g_strdup_printf("%s on each of %d", rate, report->workload->plan->gpus));
  if (mfu(report) > 0)
    append_line(out, "MFU", g_strdup_printf("%.1f %%", 100 * mfu(report)));
  append_lead(out, report);
}

static void append_breakdown(GString *out, const MeasuredReport *report) {
  const double step_s = report->metrics->step_ns * 1e-9;
  g_string_append_printf(out, "\nwhere the time went (%s, mean over ranks)\n",
                         report->n_steps > 1 ? "last step" : "the step");
  for (int kind = 0; kind < N_BREAKDOWN; kind++) {
    const double part_s = report->metrics->mean_s[kind];
    if (part_s <= 0)
      continue;
    g_autofree char *time = units_format(part_s, UNIT_SECONDS);
    g_string_append_printf(out, "  %-14s %10s  %5.1f %%\n", breakdown_name((BreakdownKind)kind), time,
                           100 * part_s / step_s);
  }
}

static void append_losses(GString *out, const MeasuredReport *report) {
  g_string_append(out, "\nloss\n ");
  for (int i = 0; i < report->n_steps; i++)
    g_string_append_printf(out, " %.6f", report->losses[i]);
  g_string_append_c(out, '\n');
}

/* The loss scale, where it changes. */
static void append_scales(GString *out, const MeasuredReport *report) {
  const LossScale *scales = report->scales;
  g_string_append(out, "\nloss scale (×: the step was skipped, its gradients were not finite)\n ");
  for (int i = 0; i < report->n_steps; i++)
    if (i == 0 || scales[i].scale != scales[i - 1].scale || loss_scaling_skipped(scales, i))
      g_string_append_printf(out, "%s step %d: %g%s", i > 0 ? "," : "", i, scales[i].scale,
                             loss_scaling_skipped(scales, i) ? "×" : "");
  g_string_append_c(out, '\n');
}

char *measured_report_text(const MeasuredReport *report) {
  GString *out = g_string_new(NULL);
  const Plan *plan = report->workload->plan;
  g_autofree char *plan_line = step_report_plan_line(plan);
  g_string_append_printf(out, "%s, measured\n", report->workload->model->name);
  append_line(out, "plan", g_strdup(plan_line));
  append_line(out, "processors", g_strdup_printf("%d × %s: %s", plan->gpus, report->device, report->device_name));
  append_line(out, "communication", g_strdup(report->comm));
  if (report->attention != NULL && report->attention[0] != '\0')
    append_line(out, "attention", g_strdup(report->attention));
  append_speed(out, report);
  append_breakdown(out, report);
  append_losses(out, report);
  if (report->scales != NULL)
    append_scales(out, report);
  if (report->check != NULL) {
    g_string_append_c(out, '\n');
    check_report_print(report->check, out);
    if (!report->check->is_timed)
      g_string_append(out, "times are those of the checked run, which waits in every step (--check-time off)\n");
  }
  return g_string_free(out, FALSE);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void append_key(GString *out, const char *key) {
  if (out->str[out->len - 1] != '{')
    g_string_append(out, ", ");
  json_append_string(out, key);
  g_string_append(out, ": ");
}

static void append_number(GString *out, const char *key, double value) {
  append_key(out, key);
  json_append_number(out, value);
}

static void append_text(GString *out, const char *key, const char *value) {
  append_key(out, key);
  json_append_string(out, value);
}

static void append_numbers(GString *out, const char *key, const double *values, int n) {
  append_key(out, key);
  g_string_append_c(out, '[');
  for (int i = 0; i < n; i++) {
    g_string_append(out, i > 0 ? ", " : "");
    json_append_number(out, values[i]);
  }
  g_string_append_c(out, ']');
}

static void append_host_lead(GString *out, const HostLead *lead) {
  append_key(out, "host_lead");
  g_string_append_c(out, '{');
  append_number(out, "ops", (double)lead->n_ops);
  append_number(out, "late", (double)lead->n_late);
  append_number(out, "late_s", lead->late_s);
  append_number(out, "launch_s", lead->launch_s);
  g_string_append_c(out, '}');
}

static void append_parts(GString *out, const MeasuredReport *report) {
  append_key(out, "breakdown_s");
  g_string_append_c(out, '{');
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    append_number(out, breakdown_name((BreakdownKind)kind), report->metrics->mean_s[kind]);
  g_string_append_c(out, '}');
}

/* Each step's scale, and the skipped steps, counted from 0. */
static void append_loss_scales(GString *out, const MeasuredReport *report) {
  g_autofree double *scales = g_new(double, report->n_steps), *skipped = g_new(double, report->n_steps);
  int n_skipped = 0;
  for (int i = 0; i < report->n_steps; i++) {
    scales[i] = report->scales[i].scale;
    if (loss_scaling_skipped(report->scales, i))
      skipped[n_skipped++] = i;
  }
  append_numbers(out, "loss_scales", scales, report->n_steps);
  append_numbers(out, "skipped_steps", skipped, n_skipped);
}

/* Steps skipped by the ranks but not by the one-rank reference, or the reverse, counted from 0. None: no key. */
static void append_skipped_apart(GString *out, const CheckReport *check) {
  g_autofree double *steps = g_new(double, check->n_steps);
  int n = 0;
  for (int i = 0; i < check->n_steps; i++)
    if (check->steps[i].skips_differ)
      steps[n++] = i;
  if (n > 0)
    append_numbers(out, "skipped_apart", steps, n);
}

static void append_reasons(GString *out, const CheckReport *check) {
  g_autoptr(GPtrArray) reasons = check_report_reasons(check);
  append_key(out, "reasons");
  for (guint i = 0; i < reasons->len; i++) {
    g_string_append(out, i > 0 ? ", " : "[");
    json_append_string(out, g_ptr_array_index(reasons, i));
  }
  g_string_append(out, reasons->len > 0 ? "]" : "[]");
}

/* `is_whole`: not the fp32 check inside another check, which no timed run follows. */
static void append_check(GString *out, const char *key, const CheckReport *check, gboolean is_whole) {
  double loss = check->timed_loss_error, gradient = 0, update = 0;
  for (int i = 0; i < check->n_steps; i++) {
    const CheckedStep *step = &check->steps[i];
    loss = MAX(loss, ABS(step->loss - step->reference_loss) / ABS(step->reference_loss));
    gradient = MAX(gradient, step->gradient_error);
    update = MAX(update, step->update_error);
  }
  append_key(out, key);
  g_string_append_printf(out, "{\"passed\": %s", check->is_passed ? "true" : "false");
  append_reasons(out, check);
  append_number(out, "loss_error", loss);
  append_number(out, "gradient_error", gradient);
  append_number(out, "update_error", update);
  if (check->knows_rounding) {
    append_number(out, "loss_rounding", check->loss_rounding);
    append_number(out, "gradient_rounding", check->gradient_rounding);
    append_number(out, "mean_gradient_rounding", check->mean_rounding);
  }
  append_skipped_apart(out, check);
  append_number(out, "missing", (double)check->n_missing);
  if (check->in_fp32 != NULL)
    append_check(out, "in_fp32", check->in_fp32, FALSE);
  if (is_whole)
    g_string_append_printf(out, ", \"timed\": %s", check->is_timed ? "true" : "false");
  g_string_append_c(out, '}');
}

char *measured_report_json(const MeasuredReport *report) {
  GString *out = g_string_new("{");
  const int gpus = report->workload->plan->gpus;
  g_autofree double *steps_s = g_new(double, report->n_steps);
  for (int i = 0; i < report->n_steps; i++)
    steps_s[i] = report->steps_ns[i] * 1e-9;
  append_number(out, "step_time_s", report->median_ns * 1e-9);
  append_numbers(out, "step_times_s", steps_s, report->n_steps);
  append_number(out, "tokens_per_s", tokens_per_s(report));
  append_number(out, "tokens_per_s_per_gpu", tokens_per_s(report) / gpus);
  append_number(out, "tflops_per_gpu", flops_per_s(report) * 1e-12);
  append_number(out, "mfu", mfu(report) > 0 ? mfu(report) : 0.0 / 0.0);
  append_text(out, "flops_convention", flops_convention_names()[report->workload->plan->flops]);
  append_number(out, "bubble_fraction", report->metrics->bubble_fraction);
  append_number(out, "bubble_overhead", report->metrics->bubble_overhead);
  append_parts(out, report);
  append_numbers(out, "losses", report->losses, report->n_steps);
  if (report->scales != NULL)
    append_loss_scales(out, report);
  append_text(out, "device", report->device);
  append_text(out, "device_name", report->device_name);
  append_text(out, "comm", report->comm);
  if (report->attention != NULL && report->attention[0] != '\0')
    append_text(out, "attention_backend", report->attention);
  append_number(out, "clock_Hz", report->clock_Hz > 0 ? report->clock_Hz : 0.0 / 0.0);
  append_number(out, "ranks_per_processor", report->n_sharers);
  append_host_lead(out, &report->lead);
  if (report->check != NULL)
    append_check(out, "check", report->check, TRUE);
  g_string_append(out, "}\n");
  return g_string_free(out, FALSE);
}
