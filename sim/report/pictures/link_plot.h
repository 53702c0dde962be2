/* A rank's link use over a step, as a picture: one lane for its kernels and one for each way it uses. */
#pragma once
#include "cluster.h"
#include "metrics.h"
#include "picture.h"

/* Drawn by plots/link_timeline.gp: lanes are staircases of means over a fraction of a pixel each. Owned by the caller;
 * NULL with INPUT if nothing takes any time, or link use is not known (link_timeline_of()). */
Picture *link_plot_picture(const Trace *trace, const Metrics *metrics, const Cluster *cluster, int rank,
                           const char *title, GError **error);
