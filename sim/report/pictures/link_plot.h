/* How much of its links a rank uses over a step, as a picture: a lane for its kernels and one for each way it uses. */
#pragma once
#include "cluster.h"
#include "metrics.h"

/* Data for plots/link_timeline.gp: a block for each lane, two empty lines apart, "time share" in stairs, means over a
 * fraction of a pixel each; time in `unit_ns` from the step's begin. The first lane is kernels; names of lanes go to
 * `names` (of char *, owned). NULL: not known (link_timeline_of()). Owned by the caller. */
char *link_plot_data(const Trace *trace, const Metrics *metrics, const Cluster *cluster, int rank, double unit_ns,
                     GPtrArray *names);
/* INPUT as gnuplot_run(), or where nothing is known of the links. */
gboolean link_plot_write(const Trace *trace, const Metrics *metrics, const Cluster *cluster, int rank,
                         const char *title, const char *file, GError **error);
