/* One table of units serves reading, error messages and printing. A row's scale turns the unit into its kind's base
 * unit; rows of a kind stand in ascending order, and those marked `shown` are the ones printed for people. */
#include "units.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "suggest.h"

typedef struct {
  const char *name;
  UnitKind kind;
  gboolean shown;
  double scale; /* base units in one of it */
} Unit;

static const Unit units[] = {
    {"B", UNIT_BYTES, TRUE, 1},
    {"kB", UNIT_BYTES, TRUE, 1e3},
    {"KiB", UNIT_BYTES, FALSE, 1024},
    {"MB", UNIT_BYTES, TRUE, 1e6},
    {"MiB", UNIT_BYTES, FALSE, 1048576},
    {"GB", UNIT_BYTES, TRUE, 1e9},
    {"GiB", UNIT_BYTES, FALSE, 1073741824},
    {"TB", UNIT_BYTES, TRUE, 1e12},
    {"TiB", UNIT_BYTES, FALSE, 1099511627776},

    {"b/s", UNIT_BYTES_PER_SECOND, FALSE, 1 / 8.0},
    {"B/s", UNIT_BYTES_PER_SECOND, TRUE, 1},
    {"kb/s", UNIT_BYTES_PER_SECOND, FALSE, 1e3 / 8},
    {"kB/s", UNIT_BYTES_PER_SECOND, TRUE, 1e3},
    {"KiB/s", UNIT_BYTES_PER_SECOND, FALSE, 1024},
    {"Mb/s", UNIT_BYTES_PER_SECOND, FALSE, 1e6 / 8},
    {"MB/s", UNIT_BYTES_PER_SECOND, TRUE, 1e6},
    {"MiB/s", UNIT_BYTES_PER_SECOND, FALSE, 1048576},
    {"Gb/s", UNIT_BYTES_PER_SECOND, FALSE, 1e9 / 8},
    {"GB/s", UNIT_BYTES_PER_SECOND, TRUE, 1e9},
    {"GiB/s", UNIT_BYTES_PER_SECOND, FALSE, 1073741824},
    {"Tb/s", UNIT_BYTES_PER_SECOND, FALSE, 1e12 / 8},
    {"TB/s", UNIT_BYTES_PER_SECOND, TRUE, 1e12},
    {"TiB/s", UNIT_BYTES_PER_SECOND, FALSE, 1099511627776},

    {"ns", UNIT_SECONDS, TRUE, 1e-9},
    {"us", UNIT_SECONDS, TRUE, 1e-6},
    {"ms", UNIT_SECONDS, TRUE, 1e-3},
    {"s", UNIT_SECONDS, TRUE, 1},
    {"min", UNIT_SECONDS, TRUE, 60},
    {"h", UNIT_SECONDS, TRUE, 3600},
    {"d", UNIT_SECONDS, TRUE, 86400},

    {"FLOP/s", UNIT_FLOPS_PER_SECOND, TRUE, 1},
    {"kFLOP/s", UNIT_FLOPS_PER_SECOND, TRUE, 1e3},
    {"MFLOP/s", UNIT_FLOPS_PER_SECOND, TRUE, 1e6},
    {"GFLOP/s", UNIT_FLOPS_PER_SECOND, TRUE, 1e9},
    {"GFLOPS", UNIT_FLOPS_PER_SECOND, FALSE, 1e9},
    {"TFLOP/s", UNIT_FLOPS_PER_SECOND, TRUE, 1e12},
    {"TFLOPS", UNIT_FLOPS_PER_SECOND, FALSE, 1e12},
    {"PFLOP/s", UNIT_FLOPS_PER_SECOND, TRUE, 1e15},

    {"Hz", UNIT_HERTZ, TRUE, 1},
    {"kHz", UNIT_HERTZ, TRUE, 1e3},
    {"MHz", UNIT_HERTZ, TRUE, 1e6},
    {"GHz", UNIT_HERTZ, TRUE, 1e9},

    {"$/h", UNIT_DOLLARS_PER_HOUR, TRUE, 1},
};

/* Decimal digits, one point, an exponent: what strtod takes less its names, hexadecimals and signs. `*end` is behind
 * the number. */
static gboolean read_number(const char *text, double *number, const char **end) {
  while (g_ascii_isspace(*text))
    text++;
  gboolean starts = g_ascii_isdigit(text[0]) || (text[0] == '.' && g_ascii_isdigit(text[1]));
  if (!starts || (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')))
    return FALSE;
  char *rest;
  *number = g_ascii_strtod(text, &rest);
  *end = rest;
  return isfinite(*number);
}

static char *trimmed(const char *text) {
  return g_strstrip(g_strdup(text));
}

static gboolean fail_unit(const char *text, const char *unit, UnitKind kind, GError **error) {
  const char *names[G_N_ELEMENTS(units) + 1];
  int n_names = 0;
  for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
    if (units[i].kind == kind)
      names[n_names++] = units[i].name;
  names[n_names] = NULL;
  g_autofree char *expected = suggest_message(unit, names);
  if (unit[0] == '\0')
    return fail_input(error, "found \"%.80s\" without a unit, %s", text, expected);
  return fail_input(error, "found unit \"%.80s\" in \"%.80s\", %s", unit, text, expected);
}

gboolean units_parse(const char *text, UnitKind kind, double *value, GError **error) {
  double number;
  const char *rest;
  if (text == NULL || !read_number(text, &number, &rest))
    return fail_input(error, "found \"%.80s\", expected a finite number ≥ 0 and its unit", text == NULL ? "" : text);
  g_autofree char *unit = trimmed(rest);
  for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
    if (units[i].kind != kind || strcmp(units[i].name, unit) != 0)
      continue;
    if (!isfinite(number * units[i].scale))
      return fail_input(error, "found \"%.80s\", expected a number that does not overflow", text);
    *value = number * units[i].scale;
    return TRUE;
  }
  return fail_unit(text, unit, kind, error);
}

gboolean units_parse_count(const char *text, double *value, GError **error) {
  static const struct {
    const char *name;
    double scale;
  } multiples[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
  double number;
  const char *rest;
  if (text != NULL && read_number(text, &number, &rest)) {
    g_autofree char *multiple = trimmed(rest);
    for (size_t i = 0; i < G_N_ELEMENTS(multiples); i++) {
      double count = number * multiples[i].scale;
      if (strcmp(multiples[i].name, multiple) == 0 && count > 0 && isfinite(count)) {
        *value = count;
        return TRUE;
      }
    }
  }
  return fail_input(error, "found \"%.80s\", expected a finite count > 0 such as 7e9, 7B, 124M, 1.5T or 4k",
                    text == NULL ? "" : text);
}

/* To four significant digits, so that 999.96 kB becomes 1.000 MB and not 1000 kB. */
static double round_to_four_digits(double value) {
  char text[32];
  return g_ascii_strtod(g_ascii_formatd(text, sizeof text, "%.3e", value), NULL);
}

static const Unit *fitting_unit(double magnitude, UnitKind kind) {
  const Unit *fitting = NULL;
  for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
    if (units[i].kind == kind && units[i].shown && (fitting == NULL || units[i].scale <= magnitude))
      fitting = &units[i];
  g_assert(fitting != NULL);
  return fitting;
}

/* Zero and infinity take the base unit. The logarithm of a quotient such as 1e-5 / 1e-6 may fall just short of whole.
 */
char *units_format(double value, UnitKind kind) {
  double rounded = isfinite(value) ? round_to_four_digits(value) : value;
  const Unit *unit = fitting_unit(rounded == 0 || !isfinite(rounded) ? 1 : fabs(rounded), kind);
  double scaled = rounded / unit->scale;
  if (!(fabs(scaled) >= 0.01 && fabs(scaled) < 1e6)) /* beyond the prefixes */
    return g_strdup_printf("%.4g %s", scaled, unit->name);
  int digits_before_point = (int)floor(log10(fabs(scaled)) + 1e-9) + 1;
  return g_strdup_printf("%.*f %s", MAX(0, 4 - digits_before_point), scaled, unit->name);
}
