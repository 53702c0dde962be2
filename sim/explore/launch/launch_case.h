/* What the writers of all frameworks share, and what each of them can. */
#pragma once
#include "launch.h"

typedef struct {
  const Workload *workload;
  const Model *model;
  const Plan *plan;
  const char *schedule; /* the one that is run; for auto, the one it stands for */
  int gpus_per_node;
  GPtrArray *notices;
  const char *release; /* of the framework that it is written for, 0.14; NULL: the newest that is known */
} LaunchCase;

/* An option, or its value, that releases before `since` do not have: "--cuda-graph-modules". */
typedef struct {
  const char *words, *since; /* words NULL: the end */
} LaunchOption;
extern const LaunchOption launch_megatron_options[], launch_deepspeed_options[], launch_torchtitan_options[];
/* "0.19"; "" if it is not known. */
const char *launch_release(const LaunchCase *c);
/* Whether the release it is written for is older than that one. */
gboolean launch_is_before(const LaunchCase *c, const char *release);

void launch_notice(const LaunchCase *c, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Add a notice if the plan replays CUDA graphs, which the configuration of the framework called `name` does not
 * request. */
void launch_notice_graphs(const LaunchCase *c, const char *name);
/* All notices as comment lines. */
void launch_append_notices(const LaunchCase *c, GString *out);
/* "torchrun --nnodes 2 --nproc-per-node 8". Owned by the caller. */
char *launch_command(const LaunchCase *c);
/* Whether the plan shards over fewer ranks than dp · cp. */
gboolean launch_shards_in_part(const Plan *plan);
/* IMPOSSIBLE if some weights are frozen, for a framework whose program trains all. */
gboolean launch_check_training(const LaunchCase *c, const char *verb, const char *name, GError **error);
/* IMPOSSIBLE if gradients are compressed, for a framework that cannot. */
gboolean launch_check_compression(const LaunchCase *c, const char *verb, const char *name, GError **error);
/* IMPOSSIBLE if selective recompute covers more than attention's core, for a framework that cannot name modules to
 * recompute. `verb` and `name` are how --emit and the framework itself spell it. */
gboolean launch_check_modules(const LaunchCase *c, const char *verb, const char *name, GError **error);

/* What each framework can start, and how that is written; rows of the table in launch.c. */
gboolean launch_megatron_check(const LaunchCase *c, GError **error);
gboolean launch_megatron_check_tried(const LaunchCase *c, GError **error);
char *launch_megatron_write(const LaunchCase *c);
gboolean launch_deepspeed_check(const LaunchCase *c, GError **error);
char *launch_deepspeed_write(const LaunchCase *c);
gboolean launch_torchtitan_check(const LaunchCase *c, GError **error);
char *launch_torchtitan_write(const LaunchCase *c);
