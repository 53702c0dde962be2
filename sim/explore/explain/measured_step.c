/* A step of the same work takes longer by as much as its rate is less: time = predicted time × predicted rate / rate.
 */
#include "measured_step.h"

#include <stddef.h>
#include <string.h>

#include "error.h"
#include "units.h"

typedef struct {
  MeasuredKind kind;
  const char *ending;  /* of the text */
  gsize predicted;     /* where a StepReport has it */
  double in_predicted; /* one of ours in units of that */
} Form;

/* As Megatron-LM ("TFLOP/s/GPU"), DeepSpeed ("TFLOPS"), torchtitan ("tokens/s") and others print them. The first whose
 * ending fits is taken: the time, which any text ends with, is last. */
static const Form forms[] = {
    {MEASURED_MFU, "%", offsetof(StepReport, mfu), 1},
    {MEASURED_TOKENS_PER_GPU, "tokens/s/GPU", offsetof(StepReport, tokens_per_s_per_gpu), 1},
    {MEASURED_TOKENS, "tokens/s", offsetof(StepReport, tokens_per_s), 1},
    {MEASURED_FLOPS, "FLOP/s/GPU", offsetof(StepReport, tflops_per_gpu), 1e-12},
    {MEASURED_FLOPS, "FLOP/s", offsetof(StepReport, tflops_per_gpu), 1e-12},
    {MEASURED_FLOPS, "FLOPS", offsetof(StepReport, tflops_per_gpu), 1e-12},
    {MEASURED_FLOPS, "FLOPs", offsetof(StepReport, tflops_per_gpu), 1e-12},
    {MEASURED_TIME, "", offsetof(StepReport, step_time_s), 1},
};

static const Form *form_of_text(const char *text) {
  const Form *form = forms;
  while (!g_str_has_suffix(text, form->ending))
    form++;
  return form;
}

/* A count of "38%", which is `text` without its unit. */
static gboolean parse_number(const char *text, const char *number, double *value, GError **error) {
  return units_parse_count(number, value, NULL) ||
         fail_input(error, "found \"%.80s\", expected a number above 0 ahead of the unit", text);
}

static gboolean parse_share(const char *text, const char *number, double *share, GError **error) {
  double percent;
  if (!parse_number(text, number, &percent, error))
    return FALSE;
  *share = percent / 100;
  return percent <= 100 || fail_input(error, "found \"%.80s\", expected an MFU of at most 100 %%", text);
}

/* Whatever the ending is, the unit is FLOP/s of a GPU, with its prefix. */
static gboolean parse_rate(const char *text, const char *number, double *rate, GError **error) {
  g_autofree char *plain = g_strconcat(number, "FLOP/s", NULL);
  return (units_parse(plain, UNIT_FLOPS_PER_SECOND, rate, NULL) && *rate > 0) ||
         fail_input(error, "found \"%.80s\", expected a rate above 0", text);
}

static gboolean parse_value(const char *text, const Form *form, double *value, GError **error) {
  g_autofree char *number = g_strndup(text, strlen(text) - strlen(form->ending));
  switch (form->kind) {
  case MEASURED_TIME:
    return units_parse(text, UNIT_SECONDS, value, error) &&
           (*value > 0 || fail_input(error, "found \"%.80s\", expected a time above 0", text));
  case MEASURED_MFU:
    return parse_share(text, number, value, error);
  case MEASURED_FLOPS:
    return parse_rate(text, number, value, error);
  default:
    return parse_number(text, number, value, error);
  }
}

gboolean measured_step_parse(const char *text, MeasuredStep *measured, GError **error) {
  const Form *form = form_of_text(text);
  g_autoptr(GError) problem = NULL;
  measured->kind = form->kind;
  return parse_value(text, form, &measured->value, &problem) ||
         fail_input(error,
                    "%s; a step is given by its time (21s), its MFU (38%%), a GPU's model FLOPs (\"375 TFLOP/s\") or "
                    "tokens (\"961 tokens/s/GPU\", or of all \"61.5k tokens/s\")",
                    problem->message);
}

double measured_step_time_s(const MeasuredStep *measured, const StepReport *predicted) {
  if (measured->kind == MEASURED_TIME)
    return measured->value;
  const Form *form = forms;
  while (form->kind != measured->kind)
    form++;
  const double rate = G_STRUCT_MEMBER(double, predicted, form->predicted);
  return predicted->step_time_s * rate / (measured->value * form->in_predicted);
}

char *measured_step_origin(const MeasuredStep *measured, const StepReport *predicted) {
  if (measured->kind == MEASURED_TIME)
    return NULL;
  if (measured->kind == MEASURED_TOKENS || measured->kind == MEASURED_TOKENS_PER_GPU)
    return g_strdup_printf("%g tokens/s%s", measured->value, measured->kind == MEASURED_TOKENS ? "" : " per GPU");
  g_autofree char *peak = units_format(predicted->peak_flops, UNIT_FLOPS_PER_SECOND);
  g_autofree char *flops = units_format(measured->value, UNIT_FLOPS_PER_SECOND);
  const char *convention = flops_convention_names()[predicted->plan->flops];
  if (measured->kind == MEASURED_FLOPS)
    return g_strdup_printf("%s per GPU, model FLOPs by convention \"%s\"", flops, convention);
  return g_strdup_printf("%.2f %% MFU of %s, model FLOPs by convention \"%s\"", units_percent(measured->value), peak,
                         convention);
}
