/* Two looks of one table: plots/stack.gp draws bars of colours and hatchings; in a terminal a bar is a row of letters,
 * each part its own, cut to length where the running sum crosses columns, so that bars add up to within a letter:
 *
 *     pp 4 │CCCCCCCCCCTTTPB··········  12.3     C compute  T tp  P pp  …
 */
#include "stack.h"

#include "error.h"
#include "units.h"
#include <math.h>
#include <string.h>

enum { MOST_LABEL_COLUMNS = 40, LEAST_BAR_COLUMNS = 20 };

static Stack *stack_new(const char *title, const char *unit, const char *total, double scale) {
  Stack *stack = g_new0(Stack, 1);
  stack->title = g_strdup(title);
  stack->unit = unit;
  stack->total = total;
  stack->scale = scale;
  stack->parts = g_ptr_array_new();
  stack->labels = g_ptr_array_new_with_free_func(g_free);
  stack->lengths = g_array_new(FALSE, TRUE, sizeof(double));
  stack->intervals = g_array_new(FALSE, TRUE, sizeof(double));
  return stack;
}

Stack *stack_new_times(const char *title, double longest_s) {
  TimeUnit unit = time_unit_for((gint64)MIN(longest_s * 1e9, 9e18));
  Stack *stack = stack_new(title, unit.name, "%.4g", 1e9 / unit.ns);
  stack->xlabel = g_strdup_printf("time of a step (%s)", unit.name);
  for (int part = 0; part < N_BREAKDOWN; part++)
    g_ptr_array_add(stack->parts, (gpointer)breakdown_name(part));
  return stack;
}

Stack *stack_new_memory(const char *title, double capacity_bytes) {
  Stack *stack = stack_new(title, "GB", "%.1f", 1e-9);
  stack->xlabel = g_strdup("memory of a GPU (GB = 1e9 bytes)");
  stack->capacity = capacity_bytes;
  for (int part = 0; part < N_MEMORY; part++)
    g_ptr_array_add(stack->parts, (gpointer)memory_category_name(part));
  g_ptr_array_add(stack->parts, (gpointer) "reserved");
  return stack;
}

void stack_free(Stack *stack) {
  if (stack == NULL)
    return;
  g_free(stack->title);
  g_free(stack->xlabel);
  g_ptr_array_unref(stack->parts);
  g_ptr_array_unref(stack->labels);
  g_array_unref(stack->lengths);
  g_array_unref(stack->intervals);
  g_free(stack);
}

void stack_add(Stack *stack, const char *label, const double *lengths) {
  g_ptr_array_add(stack->labels, g_strdup(label));
  for (guint part = 0; part < stack->parts->len; part++) {
    double length = lengths != NULL ? lengths[part] * stack->scale : 0;
    g_array_append_val(stack->lengths, length);
  }
  g_array_set_size(stack->intervals, 2 * stack->labels->len);
}

void stack_set_interval(Stack *stack, double low, double high) {
  double *interval = &g_array_index(stack->intervals, double, 2 * (stack->labels->len - 1));
  interval[0] = low * stack->scale;
  interval[1] = high * stack->scale;
}

static gboolean has_intervals(const Stack *stack) {
  for (guint i = 0; i < stack->intervals->len; i++)
    if (g_array_index(stack->intervals, double, i) > 0)
      return TRUE;
  return FALSE;
}

static double length_of(const Stack *stack, guint bar, guint part) {
  return g_array_index(stack->lengths, double, bar * stack->parts->len + part);
}

static double bar_of(const Stack *stack, guint bar) {
  double sum = 0;
  for (guint part = 0; part < stack->parts->len; part++)
    sum += length_of(stack, bar, part);
  return sum;
}

/* GArray of guint: the parts that some bar has. */
static GArray *used_parts(const Stack *stack) {
  GArray *used = g_array_new(FALSE, FALSE, sizeof(guint));
  for (guint part = 0; part < stack->parts->len; part++) {
    gboolean is_used = FALSE;
    for (guint bar = 0; bar < stack->labels->len; bar++)
      is_used |= length_of(stack, bar, part) > 0;
    if (is_used)
      g_array_append_val(used, part);
  }
  return used;
}

static void add_rows(Picture *picture, const Stack *stack, const GArray *used) {
  g_autoptr(GString) names = g_string_new(NULL);
  picture_add_text(picture, "label");
  for (guint i = 0; i < used->len; i++) {
    const char *name = g_ptr_array_index(stack->parts, g_array_index(used, guint, i));
    picture_add_text(picture, name);
    g_string_append_printf(names, "%s%s", i > 0 ? " " : "", name);
  }
  picture_end_row(picture);
  picture_set(picture, "parts", names->str);
  if (has_intervals(stack))
    picture_set_number(picture, "band", 1);
  for (guint bar = 0; bar < stack->labels->len; bar++) {
    picture_add_text(picture, g_ptr_array_index(stack->labels, bar));
    for (guint i = 0; i < used->len; i++)
      picture_add_number(picture, length_of(stack, bar, g_array_index(used, guint, i)));
    for (guint end = 0; end < 2 && has_intervals(stack); end++) {
      const double at = g_array_index(stack->intervals, double, 2 * bar + end);
      picture_add_number(picture, at > 0 ? at : NAN);
    }
    picture_end_row(picture);
  }
}

/* Each part's letter: the first of its name that none before it has, as capital. */
static void choose_letters(const Stack *stack, const GArray *used, char *letters) {
  for (guint i = 0; i < used->len; i++) {
    const char *name = g_ptr_array_index(stack->parts, g_array_index(used, guint, i));
    char letter = '0' + (char)(i % 10);
    for (const char *at = name; *at != '\0'; at++)
      if (memchr(letters, g_ascii_toupper(*at), i) == NULL) {
        letter = g_ascii_toupper(*at);
        break;
      }
    letters[i] = letter;
  }
}

static void print_bar(GString *out, const Stack *stack, guint bar, const GArray *used, const char *letters,
                      double columns_per_unit) {
  double sum = 0;
  long n = 0;
  for (guint i = 0; i < used->len; i++) {
    sum += length_of(stack, bar, g_array_index(used, guint, i));
    for (; n < lround(sum * columns_per_unit); n++)
      g_string_append_c(out, letters[i]);
  }
  char total[64];
  g_ascii_formatd(total, sizeof total, stack->total, sum);
  g_string_append_printf(out, sum > 0 ? " %s\n" : " –\n", total);
}

static char *stack_text(const Stack *stack, const GArray *used, double longest, int columns) {
  g_autofree char *letters = g_new0(char, used->len + 1);
  choose_letters(stack, used, letters);
  int label_columns = 0;
  for (guint bar = 0; bar < stack->labels->len; bar++)
    label_columns = MAX(label_columns, (int)g_utf8_strlen(g_ptr_array_index(stack->labels, bar), -1));
  label_columns = MIN(label_columns, MOST_LABEL_COLUMNS);
  double bar_columns = MAX(columns - label_columns - 12, LEAST_BAR_COLUMNS);
  GString *out = g_string_new(NULL);
  g_string_append_printf(out, "%s\n", stack->title);
  for (guint bar = 0; bar < stack->labels->len; bar++) {
    const char *label = g_ptr_array_index(stack->labels, bar);
    g_autofree char *cut = g_utf8_substring(label, 0, MIN(label_columns, g_utf8_strlen(label, -1)));
    g_string_append_printf(out, "%*s%s |", label_columns - (int)g_utf8_strlen(cut, -1), "", cut);
    print_bar(out, stack, bar, used, letters, bar_columns / longest);
  }
  g_string_append_printf(out, "%s:", stack->xlabel);
  for (guint i = 0; i < used->len; i++)
    g_string_append_printf(out, "  %c %s", letters[i],
                           (char *)g_ptr_array_index(stack->parts, g_array_index(used, guint, i)));
  if (stack->capacity > 0)
    g_string_append_printf(out, "; capacity %.4g %s", stack->capacity * stack->scale, stack->unit);
  g_string_append_c(out, '\n');
  return g_string_free(out, FALSE);
}

Picture *stack_picture(const Stack *stack, int columns, GError **error) {
  double longest = 0;
  for (guint bar = 0; bar < stack->labels->len; bar++)
    longest = MAX(longest, bar_of(stack, bar));
  if (longest <= 0) {
    fail_input(error, "nothing to draw: no bar has any length");
    return NULL;
  }
  g_autoptr(GArray) used = used_parts(stack);
  Picture *picture = picture_new("stack", stack->title);
  picture_set(picture, "xlabel", stack->xlabel);
  picture_set(picture, "total", stack->total);
  picture_set(picture, "unit", stack->unit);
  picture_set_number(picture, "capacity", stack->capacity * stack->scale);
  add_rows(picture, stack, used);
  picture->text = stack_text(stack, used, longest, columns);
  return picture;
}

Stack *stack_of_ranks(const Trace *trace, const Metrics *metrics, const char *title) {
  int n_pipeline = trace->program->n_ranks;
  g_autofree double *parts = g_new0(double, (gsize)n_pipeline *N_BREAKDOWN); /* [pipeline rank][part] */
  for (int rank = 0; rank < metrics->n_ranks; rank++)
    for (int part = 0; part < N_BREAKDOWN; part++)
      parts[trace->pipeline_rank[rank] * N_BREAKDOWN + part] +=
          (double)metrics->ranks[rank].ns[part] * 1e-9 * n_pipeline / metrics->n_ranks;
  Stack *stack = stack_new_times(title, (double)metrics->step_ns * 1e-9);
  for (int rank = 0; rank < n_pipeline; rank++) {
    g_autofree char *label = g_strdup_printf("rank %d", rank);
    stack_add(stack, label, parts + (gsize)rank * N_BREAKDOWN);
  }
  return stack;
}
