/* One row per framework: what it is called, whether it can, how it is written down. */
#include "launch.h"

#include <string.h>

#include "launch_frameworks.h"

static const char *const names[N_LAUNCHES + 1] = {
    [LAUNCH_MEGATRON] = "megatron", [LAUNCH_DEEPSPEED] = "deepspeed", [LAUNCH_TORCHTITAN] = "torchtitan"};

static const struct {
  gboolean (*check)(const LaunchCase *c, GError **error);
  char *(*write)(const LaunchCase *c);
  const char *schedules, *overlaps_p2p;
} frameworks[N_LAUNCHES] = {
    [LAUNCH_MEGATRON] = {launch_megatron_check, launch_megatron_write, "1f1b,interleaved", "off,on"},
    [LAUNCH_DEEPSPEED] = {launch_deepspeed_check, launch_deepspeed_write, "1f1b"},
    [LAUNCH_TORCHTITAN] = {launch_torchtitan_check, launch_torchtitan_write, "1f1b,interleaved,zb-v"},
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

/* "auto: interleaved" ran interleaved. */
static const char *schedule_run(const Plan *plan) {
  const char *stands_for = strstr(plan->schedule, ": ");
  return stands_for != NULL ? stands_for + 2 : plan->schedule;
}

static LaunchCase case_of(const Workload *workload, int gpus_per_node, GPtrArray *notices) {
  return (LaunchCase){workload, workload->model, workload->plan, schedule_run(workload->plan), gpus_per_node, notices};
}

gboolean launch_check(LaunchFramework framework, const Workload *workload, GError **error) {
  LaunchCase c = case_of(workload, 1, NULL);
  return frameworks[framework].check(&c, error);
}

gboolean launch_check_tried(LaunchFramework framework, const Workload *workload, GError **error) {
  LaunchCase c = case_of(workload, 1, NULL);
  return framework != LAUNCH_MEGATRON || launch_megatron_check_tried(&c, error);
}

Launch *launch_new(LaunchFramework framework, const Workload *workload, int gpus_per_node, GError **error) {
  if (!launch_check(framework, workload, error))
    return NULL;
  Launch *launch = g_new0(Launch, 1);
  launch->notices = g_ptr_array_new_with_free_func(g_free);
  LaunchCase c = case_of(workload, gpus_per_node, launch->notices);
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
