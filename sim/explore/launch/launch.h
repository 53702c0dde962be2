/* A plan as the files that start it in a framework: arguments for Megatron-LM, a configuration for DeepSpeed or
 * torchtitan. They hold what the plan says (and, for Megatron-LM, the model); data, optimizer and checkpoints are
 * left to the user. They are for the release that the plan's framework names, or the newest known. Names of
 * arguments and keys: Megatron-LM's megatron/training/arguments.py and core configs, DeepSpeed's deepspeed/runtime,
 * torchtitan's config/job_config.py, each at the tags of its releases (2026-08). */
#pragma once
#include "workload.h"

typedef enum { LAUNCH_MEGATRON, LAUNCH_DEEPSPEED, LAUNCH_TORCHTITAN, N_LAUNCHES } LaunchFramework;
/* NULL-terminated, enum order: "megatron", "deepspeed", "torchtitan". */
const char *const *launch_names(void);

/* The schedules the framework runs that are worth trying, "1f1b,interleaved". Static. */
const char *launch_schedules(LaunchFramework framework);
/* Values of --overlap-p2p that it supports, "off,on"; NULL: determined by the schedule. Static. */
const char *launch_overlaps_p2p(LaunchFramework framework);

/* The product whose plain name means the framework as people run it today, "megatron-core". Static. */
const char *launch_product(LaunchFramework framework);

typedef struct {
  char *release;      /* owned: what it is written for, "Megatron Core 0.19" */
  char *text;         /* owned; ends in a newline: a Bash array, JSON, TOML */
  GPtrArray *notices; /* of char *, owned: where the framework differs from the predicted plan, and what must be
                         set elsewhere; repeated as comments in Bash and TOML */
} Launch;

/* IMPOSSIBLE if the framework cannot run that plan or model at all; the message names both. */
gboolean launch_check(LaunchFramework framework, const Workload *workload, GError **error);
/* IMPOSSIBLE for plans the framework starts but does not itself test: a search proposes them only on request. */
gboolean launch_check_tried(LaunchFramework framework, const Workload *workload, GError **error);
/* `gpus_per_node`: for the launch command. IMPOSSIBLE as launch_check(). */
Launch *launch_new(LaunchFramework framework, const Workload *workload, int gpus_per_node, GError **error);
void launch_free(Launch *launch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Launch, launch_free)
