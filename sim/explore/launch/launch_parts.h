/* What the writers of each framework share. */
#pragma once
#include "launch.h"

typedef struct {
  const Workload *workload;
  const Model *model;
  const Plan *plan;
  const char *schedule; /* what is run: the one auto stands for */
  int gpus_per_node;
  GPtrArray *notices;
} LaunchCase;

void launch_notice(const LaunchCase *c, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Where graphs are replayed that the configuration of a framework, by its own name, does not ask for. */
void launch_notice_graphs(const LaunchCase *c, const char *name);
/* All notices as comment lines. */
void launch_append_notices(const LaunchCase *c, GString *out);
/* "torchrun --nnodes 2 --nproc-per-node 8". Owned by the caller. */
char *launch_command(const LaunchCase *c);
/* Whether the plan shards over fewer ranks than dp · cp. */
gboolean launch_shards_in_part(const Plan *plan);
/* IMPOSSIBLE where selective recompute makes again what a framework, by the names of its verb and its own, does not
 * name: all but attention's core. */
gboolean launch_check_modules(const LaunchCase *c, const char *verb, const char *name, GError **error);
