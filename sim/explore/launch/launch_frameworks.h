/* What each framework can start, and how that is written; rows of the table in launch.c. IMPOSSIBLE and text as in
 * launch.h. */
#pragma once
#include "launch_parts.h"

gboolean launch_megatron_check(const LaunchCase *c, GError **error);
gboolean launch_megatron_check_tried(const LaunchCase *c, GError **error);
char *launch_megatron_write(const LaunchCase *c);
gboolean launch_deepspeed_check(const LaunchCase *c, GError **error);
char *launch_deepspeed_write(const LaunchCase *c);
gboolean launch_torchtitan_check(const LaunchCase *c, GError **error);
char *launch_torchtitan_write(const LaunchCase *c);
