/* The step is cut into equal slots; each has the mean of what the moments in it say:
 *
 *     moments   |    |  |      |  |         |
 *     slots     |        |        |        |        shares weighted by the time they hold
 */
#include "link_plot.h"

#include "error.h"
#include "link_use.h"

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

Picture *link_plot_picture(const Trace *trace, const Metrics *metrics, const Cluster *cluster, int rank,
                           const char *title, GError **error) {
  if (!picture_check_span(metrics->step_ns, "links in use", error))
    return NULL;
  const TimeUnit unit = time_unit_for(metrics->step_ns);
  g_autoptr(GArray) moments = link_timeline_of(trace, metrics, rank);
  if (moments == NULL) {
    fail_input(error, "cannot draw links in use: nothing is known of this run's links");
    return NULL;
  }
  g_autofree Slots *slots = g_new0(Slots, 1);
  const gint64 begin_ns = g_array_index(moments, LinkMoment, 0).time_ns;
  const double slot_ns = (double)metrics->step_ns / N_SLOTS;
  for (guint i = 0; i + 1 < moments->len; i++) {
    const LinkMoment *moment = &g_array_index(moments, LinkMoment, i);
    add_moment(slots, moment, (double)(moment->time_ns - begin_ns) / slot_ns,
               (double)(moment[1].time_ns - begin_ns) / slot_ns);
  }
  Picture *picture = picture_new("link_timeline", title);
  g_string_append(picture->data, "# time share\n");
  g_autoptr(GString) names = g_string_new(NULL);
  int n_lanes = 0;
  for (int lane = 0; lane < N_LANES; lane++) {
    if (!slots->is_used[lane])
      continue;
    g_autofree char *name = lane == 0 ? g_strdup("kernels") : link_use_name(cluster, lane - 1);
    g_string_append_printf(names, "%s\"%s\"", n_lanes++ > 0 ? " " : "", name);
    append_lane(picture->data, slots->share[lane], slot_ns / unit.ns);
  }
  g_autofree char *xlabel = g_strdup_printf("time (%s)", unit.name);
  picture_set(picture, "xlabel", xlabel);
  picture_set_number(picture, "lanes", n_lanes);
  picture_set(picture, "names", names->str);
  return picture;
}
