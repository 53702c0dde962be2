#include <math.h>

#include "curve_rows.h"
#include "precision.h"
#include "profile_shapes.h"
#include "sort_doubles.h"
#include "text_report.h"
#include "units.h"

/* --- text --- */

static char *shape_text(const WorkItem *item) {
  const char *number = number_name((Number)item->number);
  if (item->kind == ITEM_ATTENTION)
    return g_strdup_printf("%s %s, %" INT64 " heads, %" INT64 " by %" INT64 " tokens, %" INT64 " wide", number,
                           item->backward ? "backward" : "forward", item->batch, item->m, item->n, item->k);
  return item->batch > 1 ? g_strdup_printf("%s %" INT64 " of %" INT64 " x %" INT64 " x %" INT64, number, item->batch,
                                           item->m, item->n, item->k)
                         : g_strdup_printf("%s %" INT64 " x %" INT64 " x %" INT64, number, item->m, item->n, item->k);
}

/* Median over those that are large enough of |model / measured − 1|, run alone; NaN: there are none. */
static double median_error(const GArray *shapes, double (*size_of)(const WorkItem *item), double least) {
  g_autoptr(GArray) errors = g_array_new(FALSE, FALSE, sizeof(double));
  for (guint i = 0; i < shapes->len; i++) {
    const ProfileShape *shape = &g_array_index(shapes, ProfileShape, i);
    const double error = fabs(shape->alone_s / shape->median_s - 1);
    if (size_of(&shape->item) >= least)
      g_array_append_val(errors, error);
  }
  g_array_sort(errors, sort_doubles_compare);
  return errors->len > 0 ? g_array_index(errors, double, errors->len / 2) : NAN;
}

static double product_flops(const WorkItem *item) {
  return item->kind == ITEM_MATMUL ? item->flops : 0;
}

static double pass_bytes(const WorkItem *item) {
  return item->bytes;
}

static void append_rest(GString *out, guint n, int n_shown) {
  if ((int)n > n_shown)
    g_string_append_printf(out, "  and %d more (--kernels N)\n", (int)n - n_shown);
}

static void append_shape(GString *out, const ProfileShape *shape) {
  g_autofree char *text = shape_text(&shape->item), *median = units_format(shape->median_s, UNIT_SECONDS),
                  *alone = units_format(shape->alone_s, UNIT_SECONDS);
  g_string_append_printf(out, "  %7" INT64 " %11s %9.1f %11s %+7.1f%% %+7.1f%%  %s\n", shape->n, median,
                         shape->item.flops / shape->median_s * 1e-12, alone,
                         100 * (shape->alone_s / shape->median_s - 1), 100 * (shape->in_step_s / shape->median_s - 1),
                         text);
}

static void append_shapes(GString *out, const ProfileShapes *shapes, int n_shown) {
  static const double large_flops = 10e9;
  g_string_append_printf(out, "  %7s %11s %9s %11s %8s %8s\n", "calls", "median", "TFLOP/s", "model", "alone",
                         "in step");
  for (guint i = 0; i < shapes->shapes->len && (int)i < n_shown; i++)
    append_shape(out, &g_array_index(shapes->shapes, ProfileShape, i));
  append_rest(out, shapes->shapes->len, n_shown);
  const double error = median_error(shapes->shapes, product_flops, large_flops);
  if (shapes->shapes->len == 0)
    g_string_append(out, "  none has its sizes in the trace (record with record_shapes=True)\n");
  else if (isfinite(error))
    g_string_append_printf(out, "  of products of 10 GFLOP and more, run alone, the median is %.1f %% off\n",
                           100 * error);
  if (shapes->n_unknown > 0)
    g_string_append_printf(out,
                           "  %" INT64 " kernels more have no sizes, or are of operators that are not understood\n",
                           shapes->n_unknown);
}

static void append_passes(GString *out, const ProfileShapes *shapes, int n_shown) {
  static const double large_bytes = 10e6;
  g_string_append_printf(out, "  %7s %11s %9s %11s %8s\n", "calls", "median", "GB/s", "model", "");
  for (guint i = 0; i < shapes->passes->len && (int)i < n_shown; i++) {
    const ProfileShape *pass = &g_array_index(shapes->passes, ProfileShape, i);
    g_autofree char *median = units_format(pass->median_s, UNIT_SECONDS),
                    *alone = units_format(pass->alone_s, UNIT_SECONDS),
                    *bytes = units_format(pass->item.bytes, UNIT_BYTES);
    g_string_append_printf(out, "  %7" INT64 " %11s %9.1f %11s %+7.1f%%  %s, %s\n", pass->n, median,
                           pass->item.bytes / pass->median_s * 1e-9, alone, 100 * (pass->alone_s / pass->median_s - 1),
                           pass->operator_name, bytes);
  }
  append_rest(out, shapes->passes->len, n_shown);
  const double error = median_error(shapes->passes, pass_bytes, large_bytes);
  if (isfinite(error))
    g_string_append_printf(out, "  of those of 10 MB and more the median is %.1f %% off\n", 100 * error);
  if (shapes->n_unknown_passes > 0)
    g_string_append_printf(
        out, "  %" INT64 " kernels more have no sizes or types, or are of operators that are not understood\n",
        shapes->n_unknown_passes);
}

void profile_shapes_text(GString *out, const ProfileShapes *shapes, const Gpu *gpu, int n_shown, gboolean colour) {
  g_autofree char *heading = g_strdup_printf("Products and attention beside the model of %s", gpu->name);
  text_report_heading(out, heading, colour);
  append_shapes(out, shapes, n_shown);
  text_report_heading(out, "Passes over memory, each tensor read or written once, beside the model", colour);
  append_passes(out, shapes, n_shown);
}

/* --- a GPU file --- */

static void append_seconds(GString *out, double seconds) {
  units_append_exact(out, round(seconds * 1e12) / 1e6); /* picoseconds are beyond what was measured */
  g_string_append(out, " us");
}

static void append_product(GString *out, const ProfileShape *shape) {
  static const char *const layouts[] = {[LAYOUT_TN] = "tn", [LAYOUT_NN] = "nn", [LAYOUT_NT] = "nt"};
  const WorkItem *item = &shape->item;
  g_string_append_printf(
      out, "    - {number: %s, layout: %s, batch: %" INT64 ", m: %" INT64 ", n: %" INT64 ", k: %" INT64 ", time: ",
      number_name((Number)item->number), layouts[item->layout], item->batch, item->m, item->n, item->k);
  append_seconds(out, shape->median_s);
  g_string_append(out, "}\n");
}

static void append_attention(GString *out, const ProfileShape *shape) {
  const WorkItem *item = &shape->item;
  g_string_append_printf(out, "    - {number: %s, backward: %s, batch: %" INT64 ", seq_len: %" INT64,
                         number_name((Number)item->number), item->backward ? "yes" : "no", item->batch, item->m);
  if (item->n != item->m)
    g_string_append_printf(out, ", keys: %" INT64, item->n);
  g_string_append_printf(out, ", head_dim: %" INT64, item->k);
  if (item->v_dim > 0)
    g_string_append_printf(out, ", v_head_dim: %d", item->v_dim);
  g_string_append(out, ", time: ");
  append_seconds(out, shape->median_s);
  g_string_append(out, "}\n");
}

/* Each key once: of calls that are alike but for their operator the one with the most time counts. The file knows
 * attention of as many keys as queries as causal only. */
static void append_list(GString *out, const ProfileShapes *shapes, int kind, const char *title,
                        void (*append)(GString *out, const ProfileShape *shape)) {
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < shapes->shapes->len; i++) {
    const ProfileShape *shape = &g_array_index(shapes->shapes, ProfileShape, i);
    const WorkItem *item = &shape->item;
    if (item->kind != kind || shape->median_s <= 0 || (kind == ITEM_ATTENTION && !shape->is_causal))
      continue;
    if (!g_hash_table_add(seen, g_strdup_printf("%d %d %d %" INT64 " %" INT64 " %" INT64 " %" INT64, item->number,
                                                item->layout + 4 * item->backward, item->v_dim, item->batch, item->m,
                                                item->n, item->k)))
      continue;
    if (g_hash_table_size(seen) == 1)
      g_string_append_printf(out, "  %s:\n", title);
    append(out, shape);
  }
}

/* --- curves --- */

/* Where the octave of sizes that row `i` begins, of the same curve, ends. */
static guint octave_end(const GArray *rows, guint i) {
  const CurveRow *first = &g_array_index(rows, CurveRow, i);
  guint end = i;
  while (end < rows->len && g_array_index(rows, CurveRow, end).curve == first->curve &&
         g_array_index(rows, CurveRow, end).point.size_bytes < 2 * first->point.size_bytes)
    end++;
  return end;
}

static gint compare_rates(gconstpointer a, gconstpointer b) {
  const CurveRow *x = a, *y = b;
  const double p = x->point.size_bytes / x->point.time_s, q = y->point.size_bytes / y->point.time_s;
  return (p > q) - (p < q);
}

/* The one whose rate is the median over the calls of all from `begin` to `end`, which it stands for. Sorts them. */
static CurveRow median_row(GArray *rows, guint begin, guint end) {
  CurveRow *first = &g_array_index(rows, CurveRow, begin);
  gint64 n = 0, before = 0;
  for (guint i = begin; i < end; i++)
    n += g_array_index(rows, CurveRow, i).n;
  qsort(first, end - begin, sizeof *first, compare_rates);
  guint at = begin;
  while (at + 1 < end && (before += g_array_index(rows, CurveRow, at).n) <= n / 2)
    at++;
  CurveRow row = g_array_index(rows, CurveRow, at);
  row.n = n;
  return row;
}

/* Passes of one kernel. Operators over as many bytes differ in their rates, so a curve has one point in an octave of
 * sizes. */
static void append_curves(GString *out, const ProfileShapes *shapes) {
  g_autoptr(GArray) rows = g_array_new(FALSE, FALSE, sizeof(CurveRow));
  g_autoptr(GArray) octaves = g_array_new(FALSE, FALSE, sizeof(CurveRow));
  for (guint i = 0; i < shapes->passes->len; i++) {
    const ProfileShape *pass = &g_array_index(shapes->passes, ProfileShape, i);
    const CurveRow row = {pass->item.name, {pass->item.bytes, pass->median_s}, pass->n, i};
    if (pass->item.n_launches == 1 && pass->median_s > 0)
      g_array_append_val(rows, row);
  }
  g_array_sort(rows, curve_rows_compare);
  for (guint i = 0, end; i < rows->len; i = end) {
    end = octave_end(rows, i);
    const CurveRow row = median_row(rows, i, end);
    g_array_append_val(octaves, row);
  }
  curve_rows_keep_growing(octaves);
  for (guint i = 0; i < octaves->len; i++) {
    const CurveRow *row = &g_array_index(octaves, CurveRow, i);
    g_string_append_printf(out, "%s    - {name: %s, bytes: %.0f B, time: ", i == 0 ? "  kernels:\n" : "", row->curve,
                           row->point.size_bytes);
    append_seconds(out, row->point.time_s);
    g_string_append(out, "}\n");
  }
}

char *profile_shapes_yaml(const ProfileShapes *shapes, const Profile *profile, const Gpu *gpu, const char *base) {
  GString *out = g_string_new("# Written by stepsim trace. Kernels as the trace has them.\n");
  g_string_append_printf(
      out,
      "name: %s-measured\nbase: %s\nmeasured:\n  source: >-\n    %s, %s: medians over the calls of each shape, of\n"
      "    passes over those of each octave of sizes.\n",
      gpu->name, base, profile->source, profile_rank(profile, 0)->file);
  append_list(out, shapes, ITEM_MATMUL, "products", append_product);
  append_curves(out, shapes);
  append_list(out, shapes, ITEM_ATTENTION, "attention", append_attention);
  return g_string_free(out, FALSE);
}
