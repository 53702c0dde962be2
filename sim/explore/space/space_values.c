/* The text of an axis as its values: commas part them, ranges are written out, a layout in letters stays whole. */
#include <string.h>

#include "error.h"
#include "number_range.h"
#include "space_parts.h"
#include "units.h"

static gboolean add_value(SpaceAxis *axis, const char *value, GHashTable *known, GError **error) {
  if (axis->values->len >= MOST_VALUES)
    return fail_input(error, "--%s: more than %d values", axis->name, MOST_VALUES);
  if (*value == '\0')
    return fail_input(error, "--%s: found nothing between commas in \"%.80s\", expected values such as 1,2,4 or 1..8*2",
                      axis->name, axis->text);
  char *copy = g_strdup(value);
  g_ptr_array_add(axis->values, copy);
  return g_hash_table_add(known, copy) ||
         fail_input(error, "--%s: %.80s stands twice in \"%.80s\"", axis->name, value, axis->text);
}

/* 1-8 and 1:8, as others write a range. */
static gboolean is_foreign_range(const char *text) {
  const size_t first = strspn(text, "0123456789");
  if (first == 0 || strchr("-:", text[first]) == NULL || text[first] == '\0')
    return FALSE;
  const size_t last = strspn(text + first + 1, "0123456789");
  return last > 0 && text[first + 1 + last] == '\0';
}

static gboolean add_number(SpaceAxis *axis, gint64 number, GHashTable *known, GError **error) {
  char text[32];
  g_snprintf(text, sizeof text, "%" G_GINT64_FORMAT, number);
  return add_value(axis, text, known, error);
}

static gboolean add_range(SpaceAxis *axis, const char *text, GHashTable *known, GError **error) {
  NumberRange range;
  if (!number_range_parse(text, 0, &range))
    return fail_input(error, "--%s: found \"%.80s\", expected %s", axis->name, text, number_range_form());
  gint64 value = range.first;
  do
    if (!add_number(axis, value, known, error))
      return FALSE;
  while (number_range_next(&range, &value));
  return TRUE;
}

/* Megatron-LM's letters may have commas within: a layout is one value from its E to its L. The last of its parts. */
static char **layout_end(const SpaceAxis *axis, char **part) {
  if (strcmp(axis->name, "pipeline-layout") != 0 || !g_str_has_prefix(g_strstrip(*part), "E"))
    return part;
  char **end = part;
  while (!g_str_has_suffix(g_strstrip(*end), "L") && end[1] != NULL)
    end++;
  return end;
}

/* Parts as they stand between commas, layouts in letters whole. */
static char **split_values(const SpaceAxis *axis) {
  g_auto(GStrv) parts = g_strsplit(axis->text, ",", -1);
  g_autoptr(GStrvBuilder) values = g_strv_builder_new();
  for (char **part = parts; *part != NULL; part++) {
    char **end = layout_end(axis, part);
    g_autoptr(GString) value = g_string_new(g_strstrip(*part));
    while (part < end)
      g_string_append_printf(value, ",%s", *++part);
    g_strv_builder_add(values, value->str);
  }
  return g_strv_builder_end(values);
}

gboolean space_axis_expand(SpaceAxis *axis, GError **error) {
  axis->values = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
  g_auto(GStrv) parts = split_values(axis);
  if (parts[0] == NULL)
    return fail_input(error, "--%s: found nothing, expected values such as 1,2,4", axis->name);
  for (char **part = parts; *part != NULL; part++) {
    gint64 number;
    const char *text = *part;
    gboolean ok = TRUE;
    if (axis->is_whole && strstr(text, "..") != NULL)
      ok = add_range(axis, text, known, error);
    else if (axis->is_whole && units_parse_whole(text, G_MININT64, G_MAXINT64, &number, NULL))
      ok = add_number(axis, number, known, error);
    else if (axis->is_whole && is_foreign_range(text))
      ok = fail_input(error, "--%s: found \"%.80s\", expected whole numbers or %s", axis->name, text,
                      number_range_form());
    else
      ok = add_value(axis, text, known, error);
    if (!ok)
      return FALSE;
  }
  return TRUE;
}
