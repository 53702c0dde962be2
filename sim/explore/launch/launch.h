/* A plan as the files that frameworks are started with: arguments for Megatron-LM, a configuration for DeepSpeed or
 * torchtitan. They hold what the plan says (and, for Megatron-LM, the model); data, optimizer and checkpoints are the
 * user's. Names of arguments and keys: Megatron-LM's megatron/training/arguments.py and core configs (2026-08-22),
 * DeepSpeed's configuration page (2026-08-22), torchtitan's config/job_config.py (v0.2.2, 2026-02). */
#pragma once
#include "workload.h"

typedef enum { LAUNCH_MEGATRON, LAUNCH_DEEPSPEED, LAUNCH_TORCHTITAN, N_LAUNCHES } LaunchFramework;
/* NULL-terminated, enum order: "megatron", "deepspeed", "torchtitan". */
const char *const *launch_names(void);

/* Of the schedules that a framework runs those worth trying, "1f1b,interleaved". Static. */
const char *launch_schedules(LaunchFramework framework);
/* Values of --overlap-p2p that it may be started with, "off,on"; NULL: as the schedule has it. Static. */
const char *launch_overlaps_p2p(LaunchFramework framework);

typedef struct {
  char *text;         /* owned; ends in a newline: a Bash array, JSON, TOML */
  GPtrArray *notices; /* of char *, owned: what the framework does otherwise than the plan was predicted, and what must
                         be set elsewhere; in Bash and TOML they stand as comments too */
} Launch;

/* IMPOSSIBLE when the framework cannot run that plan or model at all: both are named. */
gboolean launch_check(LaunchFramework framework, const Workload *workload, GError **error);
/* IMPOSSIBLE for what it starts, but nothing of its own says to work: a search proposes no such plan unasked. */
gboolean launch_check_tried(LaunchFramework framework, const Workload *workload, GError **error);
/* `gpus_per_node`: for the command that starts it. IMPOSSIBLE as launch_check(). */
Launch *launch_new(LaunchFramework framework, const Workload *workload, int gpus_per_node, GError **error);
void launch_free(Launch *launch);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Launch, launch_free)
