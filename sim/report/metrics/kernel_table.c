#include "kernel_table.h"

static const char *const piece_names[] = {"embedding", "dense layer", "layer", "head"};
static const char *const phase_names[] = {"F", "I", "W", "B"};
static const char *const layout_names[] = {"TN", "NN", "NT"};

static char *shape_text(const WorkItem *item) {
  if (item->kind == ITEM_COLLECTIVE || item->kind == ITEM_MEMORY)
    return g_strdup("");
  g_autofree char *batch = item->batch > 1 ? g_strdup_printf("%" G_GINT64_FORMAT " × ", item->batch) : g_strdup("");
  return g_strdup_printf("%s%" G_GINT64_FORMAT "×%" G_GINT64_FORMAT "×%" G_GINT64_FORMAT " %s", batch, item->m, item->n,
                         item->k, item->kind == ITEM_MATMUL ? layout_names[item->layout] : "");
}

static void print_item(const WorkItem *item, gint64 duration_ns, const double *peak_flops, GString *out) {
  g_autofree char *shape = shape_text(item);
  g_autofree char *name = g_strdup_printf("%s%s", item->name, item->recompute ? " (again)" : "");
  g_string_append_printf(out, "    %-26s", name);
  /* pad by characters, not bytes: × is two bytes long */
  g_string_append_printf(out, "%s%*s", shape, (int)MAX(0, 30 - g_utf8_strlen(shape, -1)), "");
  g_string_append_printf(out, "%10.3f %10.3f %11.3f", item->flops * 1e-9, (item->bytes + item->behind_bytes) * 1e-6,
                         duration_ns * 1e-3);
  double peak = item->flops > 0 ? peak_flops[item->number] : 0;
  if (peak > 0)
    g_string_append_printf(out, " %11.3f %6.1f %%", item->flops / peak * 1e6,
                           100 * item->flops / peak / (duration_ns * 1e-9));
  g_string_append_c(out, '\n');
}

static void print_list(const Workload *workload, const Timing *timing, Piece piece, Phase phase,
                       const double *peak_flops, GString *out) {
  const WorkList *list = &workload->work[piece][phase];
  if (list->n_items == 0)
    return;
  g_string_append_printf(out, "  %s %s: %.3f ms, %.3f TFLOP, %d kernel%s\n", piece_names[piece], phase_names[phase],
                         timing->lists[piece][phase].time.run_ns * 1e-6, list->flops * 1e-12, list->n_items,
                         list->n_items == 1 ? "" : "s");
  for (int i = 0; i < list->n_items; i++)
    print_item(&list->items[i], timing->lists[piece][phase].items[i].duration_ns, peak_flops, out);
}

void kernel_table_print(const Workload *workload, const Timing *timing, const double *peak_flops, GString *out) {
  g_string_append_printf(out, "\nKernels of one GPU and one micro-batch (matrix products m×n×k, C is m×n; collectives: "
                              "MB is the full buffer)\n");
  g_string_append_printf(out, "    %-26s%-30s%10s %10s %11s %11s %8s\n", "kernel", "shape", "GFLOP", "MB", "time us",
                         "at peak us", "of peak");
  for (int piece = 0; piece < N_PIECES; piece++) {
    print_list(workload, timing, piece, PHASE_F, peak_flops, out);
    print_list(workload, timing, piece, PHASE_B, peak_flops, out);
  }
  for (int piece = 0; piece < N_PIECES; piece++)
    if (piece != PIECE_DENSE_LAYER || model_has_experts(workload->model))
      g_string_append_printf(out, "  %s parameters on one GPU: %" G_GINT64_FORMAT "\n", piece_names[piece],
                             workload->piece_parameters[piece]);
}
