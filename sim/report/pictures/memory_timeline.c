/* One block of data per pipeline rank, from memory_profile_visit(): time, held. A step between two changes is two
 * points, so that the curve is a staircase:
 *
 *     held      ┌──┐   ┌────
 *           ┌──┘  └──┘           changes closer than a fraction of a pixel leave their extremes only
 */
#include "memory_timeline.h"

#include <math.h>

#include "memory_profile.h"
#include "trace.h"

enum { SPANS_PER_LANE = 4000 }; /* finer than the picture's pixels */

typedef struct {
  const MemoryTimelineLook *look;
  GString *data;
  double unit_ns;
  gint64 join_ns, written_ns;
  double held, least, most; /* now; since the last point written */
} Curve;

static void append_point(Curve *curve, gint64 time_ns, double held) {
  char x[G_ASCII_DTOSTR_BUF_SIZE], y[G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_formatd(x, sizeof x, "%.9g", (double)time_ns / curve->unit_ns);
  g_ascii_formatd(y, sizeof y, "%.9g", (held + curve->look->reserved) * curve->look->scale);
  g_string_append_printf(curve->data, "%s %s\n", x, y);
}

static double total_of(const double *bytes) {
  double total = 0;
  for (int category = 0; category < N_MEMORY; category++)
    total += bytes[category];
  return total;
}

static void write_extremes(Curve *curve, gint64 time_ns) {
  if (curve->most > curve->held)
    append_point(curve, curve->written_ns, curve->most);
  if (curve->least < curve->held)
    append_point(curve, curve->written_ns, curve->least);
  append_point(curve, curve->written_ns, curve->held);
  append_point(curve, time_ns, curve->held);
}

static void add_change(gint64 time_ns, const MemorySample *sample, gpointer data) {
  Curve *curve = data;
  if (time_ns > curve->written_ns + curve->join_ns) {
    write_extremes(curve, time_ns);
    curve->written_ns = time_ns;
    curve->least = curve->most = total_of(sample->bytes);
    append_point(curve, time_ns, curve->most);
  }
  curve->held = total_of(sample->bytes);
  curve->least = MIN(curve->least, curve->held);
  curve->most = MAX(curve->most, curve->held);
}

/* One lane's block; two empty lines end it, as gnuplot's `index` wants. */
static void add_lane(Curve *curve, const Trace *trace, int rank, gint64 end_ns) {
  curve->held = curve->least = curve->most = rank >= 0 ? total_of(trace_list(trace, rank)->resident) : 0;
  curve->written_ns = 0;
  append_point(curve, 0, curve->held);
  if (rank >= 0)
    memory_profile_visit(trace, rank, add_change, curve);
  write_extremes(curve, end_ns);
  g_string_append(curve->data, "\n\n");
}

Picture *memory_timeline_picture(const Trace *trace, TimeUnit unit, const MemoryTimelineLook *look, GError **error) {
  gint64 end_ns = trace_end(trace);
  if (!picture_check_span(end_ns, "memory over time", error))
    return NULL;
  Picture *picture = picture_new("memory_timeline", look->title);
  g_string_append(picture->data, "# time held\n");
  Curve curve = {.look = look, .unit_ns = unit.ns, .join_ns = end_ns / SPANS_PER_LANE, .data = picture->data};
  PipelineRows rows;
  pipeline_rows_init(&rows, trace);
  for (int row = 0; row < rows.n_rows; row++)
    add_lane(&curve, trace, rows.recorded[row], end_ns);
  picture_set_number(picture, "lanes", rows.n_rows);
  pipeline_rows_clear(&rows);
  g_autofree char *xlabel = g_strdup_printf("time (%s)", unit.name);
  g_autofree char *ylabel = g_strdup_printf(look->reserved > 0 ? "held + reserved (%s)" : "held (%s)", look->unit_name);
  picture_set(picture, "xlabel", xlabel);
  picture_set(picture, "ylabel", ylabel);
  picture_set_number(picture, "cap", look->cap * look->scale);
  return picture;
}
