/* What gradients that are made smaller can be combined with. */
#include "error.h"
#include "plan.h"

static gboolean fail_beside(const GradCompression *how, const char *with, GError **error) {
  return fail_impossible(error, "compress-grad %s is not modelled with %s", grad_compression_text(how), with);
}

static gboolean check_numbers(const Plan *plan, GError **error) {
  const GradCompression *how = &plan->compression;
  if (!compression_is_half(how))
    return TRUE;
  if (plan->recipe.gradients <= 2)
    return fail_impossible(error,
                           "compress-grad %s: recipe %s keeps gradients in %g bytes already, which are summed as they "
                           "are; expected a recipe with 4, such as megatron",
                           grad_compression_text(how), plan->recipe.name, plan->recipe.gradients);
  return plan->time.gradient_sum_bytes == 0 ||
         fail_beside(how, "a framework that sums gradients in a format of its own", error);
}

gboolean plan_check_compression(const Plan *plan, GError **error) {
  const GradCompression *how = &plan->compression;
  if (how->kind == COMPRESS_NONE)
    return TRUE;
  if (plan->zero > 0)
    return fail_impossible(error,
                           "compress-grad %s and zero %d clash: ranks compress and sum whole gradients, and ZeRO %s; "
                           "use --zero 0",
                           grad_compression_text(how), plan->zero,
                           plan->zero == 1 ? "scatters their sums" : "keeps a part of them");
  if (offload_is_any(&plan->offload))
    return fail_beside(how, "offloading", error);
  if (plan->islands > 1)
    return fail_beside(how, "islands", error);
  if (servers_are_used(&plan->servers))
    return fail_beside(how, "parameter servers", error);
  if (!check_numbers(plan, error))
    return FALSE;
  if (how->kind != COMPRESS_POWERSGD)
    return TRUE;
  if (!training_is_of_all(&plan->training))
    return fail_beside(how, "--train lora or --freeze", error);
  return plan->mtp_layers == 0 || fail_beside(how, "--mtp-layers", error);
}
