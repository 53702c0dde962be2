/* What a search for the best plan tries for the options left open. */
#pragma once
#include "launch.h"
#include "space.h"

enum { LONG_SEQUENCE = 32768 };

/* Give each of these axes that has no values its default values, derived from the model, the cluster and the GPUs:
 *
 *     tp          what divides the GPUs, fits in a scale-up domain and cuts the model
 *     pp          what divides the GPUs, up to a stage per layer
 *     chunks      with which some pp of these cuts the layers evenly (embedding and head counted or not), and those
 *                 that a schedule given cannot do without (zb-v, dualpipe …)
 *     schedule    1f1b, interleaved         micro-batch        1, 2, 4, 8, 16
 *     zero        0 to 3                    pipeline-layout    auto, balanced
 *     recompute   none, selective, full     sequence-parallel  on, off
 *
 *     ep          1; for a model with experts what divides these and the GPUs
 *     expert-tp   that of tp; for a model with experts also 1
 *     cp          1; from LONG_SEQUENCE tokens on also 2, 4, 8 and 16
 *
 * Call it before space_finish(), which remains the caller's to call. INPUT if --model, --cluster, --gpus or
 * --global-batch is missing. */
gboolean plan_space_fill(Space *space, GError **error);
/* For a plan that `framework` is to run, call this first: it restricts schedule and overlap-p2p, if they have no
 * values, to those the framework can run, and sets --framework to it as people run it today. */
gboolean plan_space_fill_for(Space *space, LaunchFramework framework, GError **error);
/* Describe these defaults in the options' help; call before space_add_options(). */
void plan_space_describe(Space *space);
/* The number of chunks that a schedule requires, if it accepts only one number and that is more than 1 (zb-v: 2);
 * else 0. */
gint64 plan_space_only_chunks(const char *schedule);
