/* The step is cut into equal slots; each has the mean of what the moments in it say:
 *
 *     moments   |    |  |      |  |         |
 *     slots     |        |        |        |        shares weighted by the time they hold
 */
#include "link_plot.h"

#include "error.h"
#include "gnuplot.h"
#include "link_timeline.h"
#include "link_use.h"
#include "time_unit.h"

enum { N_SLOTS = 1600, N_LANES = 1 + TIMING_MAX_WAYS };

typedef struct {
  double share[N_LANES][N_SLOTS];
  gboolean is_used[N_LANES];
} Slots;

/* What `moment` says holds from `from` to `to`, in slots. */
static void add_moment(Slots *slots, const LinkMoment *moment, double from, double to) {
  for (int slot = (int)from; slot < N_SLOTS && slot < to; slot++) {
    const double part = MIN(to, slot + 1) - MAX(from, slot);
    slots->share[0][slot] += moment->computes ? part : 0;
    for (int way = 0; way < TIMING_MAX_WAYS; way++)
      slots->share[1 + way][slot] += moment->used[way] * part;
  }
  slots->is_used[0] = TRUE;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    slots->is_used[1 + way] |= moment->used[way] > 0;
}

static void append_point(GString *data, double x, double y) {
  char text[2][G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_formatd(text[0], sizeof text[0], "%.9g", x);
  g_ascii_formatd(text[1], sizeof text[1], "%.6f", CLAMP(y, 0, 1));
  g_string_append_printf(data, "%s %s\n", text[0], text[1]);
}

static void append_lane(GString *data, const double *shares, double slot_width) {
  for (int slot = 0; slot < N_SLOTS; slot++) {
    append_point(data, slot * slot_width, shares[slot]);
    append_point(data, (slot + 1) * slot_width, shares[slot]);
  }
  g_string_append(data, "\n\n");
}

char *link_plot_data(const Trace *trace, const Metrics *metrics, const Cluster *cluster, int rank, double unit_ns,
                     GPtrArray *names) {
  g_autoptr(GArray) moments = link_timeline_of(trace, metrics, rank);
  if (moments == NULL)
    return NULL;
  g_autofree Slots *slots = g_new0(Slots, 1);
  const gint64 begin_ns = g_array_index(moments, LinkMoment, 0).time_ns;
  const double slot_ns = (double)metrics->step_ns / N_SLOTS;
  for (guint i = 0; i + 1 < moments->len; i++) {
    const LinkMoment *moment = &g_array_index(moments, LinkMoment, i);
    add_moment(slots, moment, (double)(moment->time_ns - begin_ns) / slot_ns,
               (double)(moment[1].time_ns - begin_ns) / slot_ns);
  }
  GString *data = g_string_new("# time share\n");
  for (int lane = 0; lane < N_LANES; lane++) {
    if (!slots->is_used[lane])
      continue;
    g_ptr_array_add(names, lane == 0 ? g_strdup("kernels") : link_use_name(cluster, lane - 1));
    append_lane(data, slots->share[lane], slot_ns / unit_ns);
  }
  return g_string_free(data, FALSE);
}

gboolean link_plot_write(const Trace *trace, const Metrics *metrics, const Cluster *cluster, int rank,
                         const char *title, const char *file, GError **error) {
  if (!gnuplot_check_span(metrics->step_ns, file, error))
    return FALSE;
  const TimeUnit unit = time_unit_for(metrics->step_ns);
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
  g_autofree char *data = link_plot_data(trace, metrics, cluster, rank, unit.ns, names);
  if (data == NULL)
    return fail_input(error, "%s: nothing is known of this run's links", file);
  g_autoptr(GString) joined = g_string_new(NULL);
  for (guint i = 0; i < names->len; i++)
    g_string_append_printf(joined, "%s\"%s\"", i > 0 ? " " : "", (const char *)names->pdata[i]);
  g_autofree char *xlabel = g_strdup_printf("time (%s)", unit.name);
  g_autofree char *lanes = g_strdup_printf("%u", names->len);
  const GnuplotVariable variables[] = {
      {"title", title}, {"xlabel", xlabel}, {"lanes", lanes}, {"names", joined->str}, {NULL}};
  return gnuplot_run("link_timeline", data, variables, file, error);
}
