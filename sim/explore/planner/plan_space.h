/* What a search for the best plan tries where its options leave something open. */
#pragma once
#include "launch.h"
#include "space.h"

enum { LONG_SEQUENCE = 32768 };

/* Give each of these axes that has no values its values, from the model, the cluster and the GPUs given:
 *
 *     tp          what divides the GPUs, fits in a scale-up domain and cuts the model
 *     pp          what divides the GPUs, up to a stage per layer
 *     chunks      with which some pp of these cuts the layers evenly (embedding and head counted or not), and those
 *                 that a schedule given cannot do without (zb-v, dualpipe …)
 *     schedule    1f1b, interleaved         micro-batch        1, 2, 4, 8, 16
 *     zero        0 to 3                    pipeline-layout    auto, balanced
 *     recompute   none, selective, full     sequence-parallel  on, off
 *
 *     ep          1; of a model with experts what divides these and the GPUs
 *     expert-tp   that of tp; of a model with experts also 1
 *     cp          1; from LONG_SEQUENCE tokens on also 2, 4, 8 and 16
 *
 * Called before space_finish(), which the caller still has to call. INPUT when --model, --cluster, --gpus or
 * --global-batch is missing. */
gboolean plan_space_fill(Space *space, GError **error);
/* To be called before it for a plan that `framework` is to run: gives schedule and overlap-p2p, where they have no
 * values, those that this framework can run. */
gboolean plan_space_fill_for(Space *space, LaunchFramework framework, GError **error);
/* Say so in its options' help: before space_add_options(). */
void plan_space_describe(Space *space);
/* The number of chunks that a schedule insists on, where it takes only one number and that is more than 1 (zb-v: 2);
 * else 0. */
gint64 plan_space_only_chunks(const char *schedule);
