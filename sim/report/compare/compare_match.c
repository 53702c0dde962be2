/* An op is known by its step, its stream and its name; of several alike the k-th is the k-th, since both traces list a
 * rank's ops in the Program's order. So both lists are sorted by (step, stream, name, place) and walked side by side.
 */
#include "compare_parts.h"

#include "error.h"

typedef struct {
  gint32 step, stream, name, op;
} Key;

/* The op with the lowest place that the other trace lacks; op −1: none. */
typedef struct {
  gint32 predicted, measured;
} Missing;

static int compare_keys(gconstpointer a, gconstpointer b) {
  const Key *x = a, *y = b;
  if (x->step != y->step)
    return x->step < y->step ? -1 : 1;
  if (x->stream != y->stream)
    return x->stream < y->stream ? -1 : 1;
  return (x->name > y->name) - (x->name < y->name);
}

static int compare_keys_and_places(gconstpointer a, gconstpointer b) {
  int order = compare_keys(a, b);
  return order != 0 ? order
                    : (((const Key *)a)->op > ((const Key *)b)->op) - (((const Key *)a)->op < ((const Key *)b)->op);
}

static void fill_keys(GArray *keys, const WholeOps *ops, int rank) {
  g_array_set_size(keys, 0);
  for (gsize i = ops->first[rank]; i < ops->first[rank + 1]; i++) {
    const WholeOp *op = compare_op(ops, i);
    Key key = {op->step, op->stream, op->name, (gint32)i};
    g_array_append_val(keys, key);
  }
  g_array_sort(keys, compare_keys_and_places);
}

static void note_missing(gint32 *first, gint32 op) {
  if (*first < 0 || op < *first)
    *first = op;
}

static Missing walk(GArray *pairs, gint32 row, const GArray *predicted, const GArray *measured) {
  Missing missing = {-1, -1};
  guint i = 0, j = 0;
  while (i < predicted->len || j < measured->len) {
    const Key *p = i < predicted->len ? &g_array_index(predicted, Key, i) : NULL;
    const Key *m = j < measured->len ? &g_array_index(measured, Key, j) : NULL;
    int order = p == NULL ? 1 : (m == NULL ? -1 : compare_keys(p, m));
    if (order < 0) {
      note_missing(&missing.predicted, p->op);
    } else if (order > 0) {
      note_missing(&missing.measured, m->op);
    } else {
      ComparePair pair = {row, p->op, m->op};
      g_array_append_val(pairs, pair);
    }
    i += order <= 0;
    j += order >= 0;
  }
  return missing;
}

static int compare_pairs(gconstpointer a, gconstpointer b) {
  const ComparePair *x = a, *y = b;
  if (x->row != y->row)
    return x->row < y->row ? -1 : 1;
  return (x->predicted > y->predicted) - (x->predicted < y->predicted);
}

static gboolean fail_missing(const Compare *compare, const CompareRow *row, const Missing *missing, GError **error) {
  gboolean in_predicted = missing->predicted >= 0;
  const CompareSide *has = in_predicted ? &compare->predicted : &compare->measured;
  const CompareSide *lacks = in_predicted ? &compare->measured : &compare->predicted;
  const WholeOp *op = compare_op(has->ops, (gsize)(in_predicted ? missing->predicted : missing->measured));
  return fail_input(error, "not of one Program: rank %d, step %d, stream %s: %s has \"%s\" and %s has not", row->rank,
                    op->step, stream_info(op->stream)->name, has->trace->file,
                    name_table_text(compare->names, op->name), lacks->trace->file);
}

gboolean compare_match(Compare *compare, GError **error) {
  g_autoptr(GArray) predicted = g_array_new(FALSE, FALSE, sizeof(Key));
  g_autoptr(GArray) measured = g_array_new(FALSE, FALSE, sizeof(Key));
  for (int i = 0; i < compare->n_rows; i++) {
    const CompareRow *row = &compare->rows[i];
    fill_keys(predicted, compare->predicted.ops, row->predicted);
    fill_keys(measured, compare->measured.ops, row->measured);
    Missing missing = walk(compare->pairs, i, predicted, measured);
    if (missing.predicted >= 0 || missing.measured >= 0)
      return fail_missing(compare, row, &missing, error);
  }
  g_array_sort(compare->pairs, compare_pairs);
  return TRUE;
}
