/* One row per framework: what it is called, whether it can, how it is written down, and which of the files that say
 * what a framework adds are its own. */
#include "launch.h"

#include "error.h"

#include <string.h>

#include "launch_case.h"
#include "plan.h"

static const char *const names[N_LAUNCHES + 1] = {
    [LAUNCH_MEGATRON] = "megatron", [LAUNCH_DEEPSPEED] = "deepspeed", [LAUNCH_TORCHTITAN] = "torchtitan"};

static const struct {
  gboolean (*check)(const LaunchCase *c, GError **error);
  char *(*write)(const LaunchCase *c);
  const char *schedules, *overlaps_p2p;
  const char *described[3]; /* names in topologies/frameworks/ begin with one of these; today's is called … */
  const char *todays;
} frameworks[N_LAUNCHES] = {
    [LAUNCH_MEGATRON] = {launch_megatron_check,
                         launch_megatron_write,
                         "1f1b,interleaved",
                         "off,on",
                         {"megatron", "nemo"},
                         "megatron-core"},
    [LAUNCH_DEEPSPEED] = {launch_deepspeed_check,
                          launch_deepspeed_write,
                          "1f1b",
                          NULL,
                          {"deepspeed", "megatron-deepspeed", "gpt-neox"},
                          "deepspeed-coalesced"},
    [LAUNCH_TORCHTITAN] = {launch_torchtitan_check,
                           launch_torchtitan_write,
                           "1f1b,interleaved,zb-v",
                           NULL,
                           {"torchtitan"},
                           "torchtitan-compiled-loss"},
};

const char *launch_schedules(LaunchFramework framework) {
  return frameworks[framework].schedules;
}

const char *launch_overlaps_p2p(LaunchFramework framework) {
  return frameworks[framework].overlaps_p2p;
}

const char *const *launch_names(void) {
  return names;
}

static LaunchCase case_of(const Workload *workload, int gpus_per_node, GPtrArray *notices) {
  const Plan *plan = workload->plan;
  return (LaunchCase){workload, workload->model, plan, schedule_run_name(plan->schedule), gpus_per_node, notices};
}

gboolean launch_check(LaunchFramework framework, const Workload *workload, GError **error) {
  LaunchCase c = case_of(workload, 1, NULL);
  if (c.plan->islands > 1 || servers_are_used(&c.plan->servers))
    return fail_impossible(error,
                           "%s sums gradients over all of dp in every step: found islands %d, parameter-servers %s",
                           names[framework], c.plan->islands, servers_text(&c.plan->servers));
  return frameworks[framework].check(&c, error);
}

gboolean launch_check_tried(LaunchFramework framework, const Workload *workload, GError **error) {
  LaunchCase c = case_of(workload, 1, NULL);
  return framework != LAUNCH_MEGATRON || launch_megatron_check_tried(&c, error);
}

/* Which framework a file belongs to: of those whose names begin it the longest one's, as "megatron-deepspeed" is not
 * Megatron-LM's; −1: nobody's. */
static int owner_of(const char *file) {
  g_autofree char *base = g_path_get_basename(file);
  int owner = -1;
  gsize longest = 0;
  for (int launch = 0; launch < N_LAUNCHES; launch++)
    for (gsize i = 0; i < G_N_ELEMENTS(frameworks->described) && frameworks[launch].described[i] != NULL; i++) {
      const gsize length = strlen(frameworks[launch].described[i]);
      if (length > longest && g_str_has_prefix(base, frameworks[launch].described[i])) {
        owner = launch;
        longest = length;
      }
    }
  return owner;
}

/* Whether the framework by that name is this one: by its file, or the nearest of those it is built on that is
 * somebody's. */
static gboolean is_described_as(LaunchFramework framework, const char *name) {
  g_auto(GStrv) files = framework_files(name, NULL);
  for (char **file = files; file != NULL && *file != NULL; file++)
    if (owner_of(*file) >= 0)
      return owner_of(*file) == (int)framework;
  return FALSE;
}

/* Of a prediction that was made as another framework; of one made as none each says what that leaves out. */
static void notice_framework(LaunchFramework framework, const LaunchCase *c) {
  const char *predicted = c->plan->framework;
  if (predicted != NULL && !is_described_as(framework, predicted))
    launch_notice(c, "predicted with --framework %s, which is not %s: --framework %s has what that adds", predicted,
                  names[framework], frameworks[framework].todays);
}

Launch *launch_new(LaunchFramework framework, const Workload *workload, int gpus_per_node, GError **error) {
  if (!launch_check(framework, workload, error))
    return NULL;
  Launch *launch = g_new0(Launch, 1);
  launch->notices = g_ptr_array_new_with_free_func(g_free);
  LaunchCase c = case_of(workload, gpus_per_node, launch->notices);
  notice_framework(framework, &c);
  if (c.plan->seq_lengths != NULL)
    launch_notice(&c, "predicted with --seq-lengths %s --batching %s: your data set and collator must make such batches",
                  seq_lengths_text(c.plan->seq_lengths), batching_names()[c.plan->batching]);
  launch->text = frameworks[framework].write(&c);
  return launch;
}

void launch_free(Launch *launch) {
  if (launch == NULL)
    return;
  g_free(launch->text);
  g_ptr_array_unref(launch->notices);
  g_free(launch);
}
