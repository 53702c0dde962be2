/* One row per framework: what it is called, whether it can, how it is written down, and whose releases it has. */
#include "launch.h"

#include "error.h"
#include "framework_releases.h"

#include <string.h>

#include "launch_case.h"
#include "plan.h"

static const char *const names[N_LAUNCHES + 1] = {
    [LAUNCH_MEGATRON] = "megatron", [LAUNCH_DEEPSPEED] = "deepspeed", [LAUNCH_TORCHTITAN] = "torchtitan"};

static const char *const around_megatron[] = {"nemo", "megatron-bridge", NULL};

static const struct {
  gboolean (*check)(const LaunchCase *c, GError **error);
  char *(*write)(const LaunchCase *c);
  const char *schedules, *overlaps_p2p;
  const char *product; /* of topologies/releases/frameworks.yaml, whose releases it is written for */
  const char *called;
  const LaunchOption *options; /* that older releases do not have */
  const char *const *wrappers; /* products that run it, but are started by settings of their own; NULL: none */
} frameworks[N_LAUNCHES] = {
    [LAUNCH_MEGATRON] = {launch_megatron_check, launch_megatron_write, "1f1b,interleaved", "off,on", "megatron-core",
                         "Megatron Core", launch_megatron_options, around_megatron},
    [LAUNCH_DEEPSPEED] = {launch_deepspeed_check, launch_deepspeed_write, "1f1b", NULL, "deepspeed", "DeepSpeed",
                          launch_deepspeed_options},
    [LAUNCH_TORCHTITAN] = {launch_torchtitan_check, launch_torchtitan_write, "1f1b,interleaved,zb-v", NULL,
                           "torchtitan", "torchtitan", launch_torchtitan_options},
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

const char *launch_product(LaunchFramework framework) {
  return frameworks[framework].product;
}

/* torchtitan-eager's releases are torchtitan's, too. NULL: the plan's framework is another, or has no number. */
static const char *release_of(LaunchFramework framework, const Plan *plan) {
  const gboolean is_own =
      plan->framework_product != NULL && g_str_has_prefix(plan->framework_product, frameworks[framework].product);
  return is_own ? plan->framework_release : NULL;
}

static LaunchCase case_of(LaunchFramework framework, const Workload *workload, int gpus_per_node, GPtrArray *notices) {
  const Plan *plan = workload->plan;
  return (LaunchCase){workload,
                      workload->model,
                      plan,
                      schedule_run_name(plan->schedule),
                      gpus_per_node,
                      notices,
                      release_of(framework, plan)};
}

/* Whether the text has the words as a whole. */
static gboolean has_words(const char *text, const char *words) {
  const gsize length = strlen(words);
  for (const char *at = strstr(text, words); at != NULL; at = strstr(at + 1, words))
    if (!g_ascii_isalnum(at[length]) && at[length] != '-' && at[length] != '_' &&
        (at == text || (!g_ascii_isalnum(at[-1]) && at[-1] != '-' && at[-1] != '_')))
      return TRUE;
  return FALSE;
}

/* What is written is looked at, so that no condition stands twice. */
static gboolean check_release(LaunchFramework framework, const LaunchCase *asked, GError **error) {
  if (asked->release == NULL)
    return TRUE;
  g_autoptr(GPtrArray) unused = g_ptr_array_new_with_free_func(g_free);
  LaunchCase c = *asked;
  c.notices = unused;
  g_autofree char *text = NULL;
  for (const LaunchOption *option = frameworks[framework].options; option->words != NULL; option++) {
    if (!launch_is_before(&c, option->since))
      continue;
    text = text != NULL ? text : frameworks[framework].write(&c);
    if (has_words(text, option->words))
      return fail_impossible(error, "%s: %s %s has no %s, which this plan needs: release %s has it", names[framework],
                             frameworks[framework].called, c.release, option->words, option->since);
  }
  return TRUE;
}

gboolean launch_check(LaunchFramework framework, const Workload *workload, GError **error) {
  LaunchCase c = case_of(framework, workload, 1, NULL);
  if (c.plan->islands > 1 || servers_are_used(&c.plan->servers))
    return fail_impossible(error,
                           "%s sums gradients over all of dp in every step: found islands %d, parameter-servers %s",
                           names[framework], c.plan->islands, servers_text(&c.plan->servers));
  return frameworks[framework].check(&c, error) && check_release(framework, &c, error);
}

gboolean launch_check_tried(LaunchFramework framework, const Workload *workload, GError **error) {
  LaunchCase c = case_of(framework, workload, 1, NULL);
  return framework != LAUNCH_MEGATRON || launch_megatron_check_tried(&c, error);
}

/* The product of that file, or of the nearest of the files it is built on which is a product's. */
static void choose_described(const char *name, FrameworkChoice *choice) {
  g_auto(GStrv) files = framework_files(name, NULL);
  for (char **file = files; choice->product == NULL && file != NULL && *file != NULL; file++)
    framework_choose_file(*file, choice);
}

/* Of a prediction that was made as another framework; of one made as none each says what that leaves out. */
static void notice_framework(LaunchFramework framework, const LaunchCase *c) {
  const Plan *plan = c->plan;
  const char *product = frameworks[framework].product;
  if (plan->framework == NULL)
    return;
  g_auto(FrameworkChoice) described = {0};
  choose_described(plan->framework_file, &described);
  if (g_strcmp0(described.emit, names[framework]) != 0)
    launch_notice(c, "predicted with --framework %s, which is not %s: --framework %s has what that adds",
                  plan->framework, names[framework], product);
  else if (frameworks[framework].wrappers != NULL && g_strv_contains(frameworks[framework].wrappers, described.product))
    launch_notice(c,
                  "predicted with --framework %s, which runs %s with overheads of its own: --framework %s has those "
                  "of what is written here",
                  plan->framework, frameworks[framework].called, product);
  else if (plan->framework_release == NULL && strchr(plan->framework, '@') != NULL)
    launch_notice(c, "predicted with --framework %s: see that what is named here was there then", plan->framework);
}

/* "0.19", of the newest; NULL: not known. Owned by the caller. */
static char *newest_release(LaunchFramework framework) {
  g_auto(FrameworkChoice) choice = {0};
  return framework_choose(frameworks[framework].product, &choice, NULL) ? g_steal_pointer(&choice.release) : NULL;
}

Launch *launch_new(LaunchFramework framework, const Workload *workload, int gpus_per_node, GError **error) {
  if (!launch_check(framework, workload, error))
    return NULL;
  Launch *launch = g_new0(Launch, 1);
  launch->notices = g_ptr_array_new_with_free_func(g_free);
  LaunchCase c = case_of(framework, workload, gpus_per_node, launch->notices);
  g_autofree char *newest = newest_release(framework);
  c.release = c.release != NULL ? c.release : newest;
  launch->release = g_strdup_printf("%s %s", frameworks[framework].called, c.release != NULL ? c.release : "");
  notice_framework(framework, &c);
  if (c.plan->seq_lengths != NULL)
    launch_notice(&c,
                  "predicted with --seq-lengths %s --batching %s: your data set and collator must make such batches",
                  seq_lengths_text(c.plan->seq_lengths), batching_names()[c.plan->batching]);
  launch->text = frameworks[framework].write(&c);
  return launch;
}

void launch_free(Launch *launch) {
  if (launch == NULL)
    return;
  g_free(launch->text);
  g_free(launch->release);
  g_ptr_array_unref(launch->notices);
  g_free(launch);
}
