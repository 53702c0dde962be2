#include "outer_step.h"

#include <string.h>

#include "choices.h"
#include "error.h"
#include "units.h"

static const char *const kind_names[] = {"nesterov", "mean", NULL};
static const char *const part_names[] = {"lr", "momentum", "bytes", "fragments", "delay", NULL};
enum { PART_LR, PART_MOMENTUM, PART_BYTES, PART_FRAGMENTS, PART_DELAY };

static gboolean read_number(const char *text, double least, double most, double *value, GError **error) {
  char *end;
  *value = g_ascii_strtod(text, &end);
  return (end != text && *end == '\0' && *value >= least && *value <= most) ||
         fail_input(error, "found \"%.80s\", expected a number from %g to %g", text, least, most);
}

static gboolean read_count(const char *text, gint64 least, int *value, GError **error) {
  gint64 count;
  if (!units_parse_whole(text, least, MOST_FRAGMENTS, &count, error))
    return FALSE;
  *value = (int)count;
  return TRUE;
}

static gboolean read_value(int part, const char *text, OuterStep *outer, GError **error) {
  switch (part) {
  case PART_LR:
    return read_number(text, 1e-6, 100, &outer->lr, error);
  case PART_MOMENTUM:
    return read_number(text, 0, 0.9999, &outer->momentum, error);
  case PART_BYTES:
    return read_number(text, 0.0625, 8, &outer->bytes, error);
  case PART_FRAGMENTS:
    return read_count(text, 1, &outer->fragments, error);
  default:
    return read_count(text, 0, &outer->delay, error);
  }
}

static gboolean read_part(const char *text, OuterStep *outer, GError **error) {
  g_auto(GStrv) sides = g_strsplit(text, "=", 2);
  const int part = parse_choice("part", sides[0] != NULL ? sides[0] : "", part_names, error);
  if (part < 0)
    return FALSE;
  if (sides[1] == NULL)
    return fail_input(error, "found \"%.80s\" without a value", text);
  if (part <= PART_MOMENTUM && !outer->has_momentum)
    return fail_input(error, "found \"%.80s\" behind mean, expected it behind nesterov alone", text);
  if (read_value(part, sides[1], outer, error))
    return TRUE;
  g_prefix_error(error, "%s: ", part_names[part]);
  return FALSE;
}

static gboolean read_parts(const char *text, OuterStep *outer, GError **error) {
  g_auto(GStrv) parts = g_strsplit(text, "+", -1);
  const int kind = parse_choice("outer step", parts[0] != NULL ? parts[0] : "", kind_names, error);
  if (kind < 0)
    return FALSE;
  *outer = (OuterStep){.has_momentum = kind == 0,
                       .lr = kind == 0 ? 0.7 : 1,
                       .momentum = kind == 0 ? 0.9 : 0,
                       .bytes = 4,
                       .fragments = 1};
  for (char **part = parts + 1; *part != NULL; part++)
    if (!read_part(*part, outer, error))
      return FALSE;
  return TRUE;
}

gboolean outer_step_parse(const char *what, const char *text, OuterStep *outer, GError **error) {
  OuterStep read;
  if (!read_parts(text, &read, error)) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  *outer = read;
  return TRUE;
}

static void append_number(GString *text, const char *name, double value, double by_default) {
  if (value == by_default)
    return;
  g_string_append_printf(text, "+%s=", name);
  units_append_exact(text, value);
}

const char *outer_step_text(const OuterStep *outer) {
  g_autoptr(GString) text = g_string_new(outer->has_momentum ? "nesterov" : "mean");
  if (outer->has_momentum) {
    append_number(text, "lr", outer->lr, 0.7);
    append_number(text, "momentum", outer->momentum, 0.9);
  }
  append_number(text, "bytes", outer->bytes, 4);
  append_number(text, "fragments", outer->fragments, 1);
  append_number(text, "delay", outer->delay, 0);
  return g_intern_string(text->str);
}
