/* A rank's link use over a step, as a picture: one lane for its kernels and one for each way it uses. */
#pragma once
#include "cluster.h"
#include "metrics.h"

/* Data for plots/link_timeline.gp: one block per lane, separated by two empty lines, "time share" as a staircase of
 * means over a fraction of a pixel each; time in `unit_ns` from the start of the step. The first lane is the
 * kernels; lane names are appended to `names` (of char *, owned). NULL: not known (link_timeline_of()). Owned by the
 * caller. */
char *link_plot_data(const Trace *trace, const Metrics *metrics, const Cluster *cluster, int rank, double unit_ns,
                     GPtrArray *names);
/* INPUT as gnuplot_run(), or if link use is not known. */
gboolean link_plot_write(const Trace *trace, const Metrics *metrics, const Cluster *cluster, int rank,
                         const char *title, const char *file, GError **error);
