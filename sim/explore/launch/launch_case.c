#include "launch_case.h"

#include "error.h"
#include "framework_releases.h"
#include "plan.h"

void launch_notice(const LaunchCase *c, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_ptr_array_add(c->notices, g_strdup_vprintf(format, arguments));
  va_end(arguments);
}

void launch_notice_graphs(const LaunchCase *c, const char *name) {
  if (c->plan->cuda_graphs > CUDA_GRAPHS_NONE)
    launch_notice(c,
                  "predicted with --cuda-graphs %s: %s's configuration asks for no graphs; your code must capture them",
                  cuda_graphs_names()[c->plan->cuda_graphs], name);
}

const char *launch_release(const LaunchCase *c) {
  return c->release != NULL ? c->release : "";
}

gboolean launch_is_before(const LaunchCase *c, const char *release) {
  return c->release != NULL && framework_release_compare(c->release, release) < 0;
}

void launch_append_notices(const LaunchCase *c, GString *out) {
  for (guint i = 0; i < c->notices->len; i++)
    g_string_append_printf(out, "# notice: %s\n", (const char *)c->notices->pdata[i]);
}

char *launch_command(const LaunchCase *c) {
  int per_node = MIN(c->gpus_per_node, c->plan->gpus);
  return g_strdup_printf("torchrun --nnodes %d --nproc-per-node %d", c->plan->gpus / per_node, per_node);
}

gboolean launch_shards_in_part(const Plan *plan) {
  return zero_shards_optimizer(plan->zero) && plan->zero_ranks > 0 && plan->zero_ranks < plan_data_ranks(plan);
}

gboolean launch_check_training(const LaunchCase *c, const char *verb, const char *name, GError **error) {
  const TrainedParts *training = &c->plan->training;
  g_autofree char *train = training_train_text(training), *freeze = training_freeze_text(training);
  return training_is_of_all(training) ||
         fail_impossible(error, "%s: %s's own program trains all weights, found train %s and freeze %s", verb, name,
                         train, freeze);
}

gboolean launch_check_compression(const LaunchCase *c, const char *verb, const char *name, GError **error) {
  const GradCompression *how = &c->plan->compression;
  return how->kind == COMPRESS_NONE ||
         fail_impossible(error, "%s: %s has no compressed gradients, found compress-grad %s", verb, name,
                         grad_compression_text(how));
}

gboolean launch_check_modules(const LaunchCase *c, const char *verb, const char *name, GError **error) {
  const guint modules = plan_recompute_modules(c->plan);
  g_autofree char *text = recompute_modules_text(modules, "+");
  return (modules & ~MODULE_BIT(MODULE_CORE_ATTN)) == 0 ||
         fail_impossible(error, "%s: %s has no modules to recompute by name, found recompute-modules %s", verb, name,
                         text);
}
