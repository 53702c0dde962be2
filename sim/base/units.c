/* One table of units serves reading, error messages and printing. A row's scale converts the unit to its kind's base
 * unit. Rows of a kind are in ascending order; those marked `shown` are the ones printed for people. */
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

    {"W", UNIT_WATTS, TRUE, 1},
    {"kW", UNIT_WATTS, TRUE, 1e3},

    {"Wh", UNIT_WATT_HOURS, TRUE, 1},
    {"kWh", UNIT_WATT_HOURS, TRUE, 1e3},
    {"MWh", UNIT_WATT_HOURS, TRUE, 1e6},
    {"GWh", UNIT_WATT_HOURS, TRUE, 1e9},
};

/* Decimal digits, one point, an exponent: what strtod accepts without its names, hexadecimals and signs. `*end` is
 * set past the number. */
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

/* Suggests the last `shown` unit of the kind, the one for large quantities. */
static gboolean fail_number(const char *text, UnitKind kind, GError **error) {
  const char *unit = "";
  for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
    if (units[i].kind == kind && units[i].shown)
      unit = units[i].name;
  return fail_input(error, "found \"%.80s\", expected a finite number ≥ 0 and its unit behind it, such as \"2 %s\"",
                    text == NULL ? "" : text, unit);
}

static gboolean fail_unit(const char *text, const char *unit, UnitKind kind, GError **error) {
  const char *names[G_N_ELEMENTS(units) + 1];
  int n_names = 0;
  for (size_t i = 0; i < G_N_ELEMENTS(units); i++)
    if (units[i].kind == kind)
      names[n_names++] = units[i].name;
  names[n_names] = NULL;
  g_autofree char *expected = suggest_message(unit, names);
  if (kind == UNIT_BYTES && unit[0] != '\0' && unit[1] == '\0' && strchr("kKMGT", unit[0]) != NULL)
    return fail_input(error, "found \"%.80s\", which may stand for %cB (powers of 1000) or %ciB (of 1024), %s", text,
                      unit[0] == 'K' ? 'k' : unit[0], unit[0] == 'k' ? 'K' : unit[0], expected);
  if (unit[0] == '\0' && n_names == 1)
    return fail_input(error, "found \"%.80s\" without a unit, expected \"%.80s %s\"", text, text, names[0]);
  if (unit[0] == '\0')
    return fail_input(error, "found \"%.80s\" without a unit, %s", text, expected);
  return fail_input(error, "found unit \"%.80s\" in \"%.80s\", %s", unit, text, expected);
}

gboolean units_parse(const char *text, UnitKind kind, double *value, GError **error) {
  double number;
  const char *rest;
  if (text == NULL || !read_number(text, &number, &rest))
    return fail_number(text, kind, error);
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

static const struct {
  const char *name;
  double scale;
} multiples[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};

gboolean units_parse_count(const char *text, double *value, GError **error) {
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

/* What the suffix of a whole number stands for; 0: unknown, or ambiguous. */
static double whole_scale(const char *multiple) {
  static const char *const binary[] = {"", "Ki", "Mi", "Gi"};
  for (size_t i = 0; i < G_N_ELEMENTS(binary); i++)
    if (strcmp(multiple, binary[i]) == 0)
      return exp2(10.0 * (double)i);
  return 0;
}

/* "32k" may be 32,000 or 32,768; NULL: not ambiguous. Owned by the caller. */
static char *both_meanings(double number, const char *multiple) {
  static const char *const names[] = {"k", "M", "G", "T"};
  for (size_t i = 0; i < G_N_ELEMENTS(names); i++)
    if (g_ascii_strcasecmp(multiple, names[i]) == 0)
      return g_strdup_printf(": %.0f, or %.0f (%g%ci)", number * pow(1000, (double)i + 1),
                             number * exp2(10.0 * (double)(i + 1)), number, g_ascii_toupper(multiple[0]));
  return NULL;
}

gboolean units_parse_whole(const char *text, gint64 least, gint64 most, gint64 *value, GError **error) {
  g_autofree char *meanings = NULL;
  double number;
  const char *rest;
  if (g_ascii_string_to_signed(text, 10, least, most, value, NULL))
    return TRUE;
  if (!g_ascii_isspace(*text) && read_number(text, &number, &rest)) {
    const double whole = number * whole_scale(rest);
    if (whole > 0 && whole == floor(whole) && whole < exp2(53) && whole >= (double)least && whole <= (double)most) {
      *value = (gint64)whole;
      return TRUE;
    }
    meanings = both_meanings(number, rest);
  }
  g_autofree char *range = most < G_MAXINT64 ? g_strdup_printf(" below %" G_GINT64_FORMAT, most + 1) : g_strdup("");
  return fail_input(error, "found \"%.80s\", expected a whole number%s%s", text, range,
                    meanings != NULL ? meanings : "");
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

void units_append_count(GString *out, gint64 n, const char *one, const char *many) {
  g_string_append_printf(out, "%" G_GINT64_FORMAT " %s", n, n == 1 ? one : many);
}

void units_append_exact(GString *out, double value) {
  static const char *const formats[] = {"%.15g", "%.16g", "%.17g"}; /* the last always reads back */
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  for (size_t i = 0; i < G_N_ELEMENTS(formats); i++) {
    g_ascii_formatd(text, sizeof text, formats[i], value);
    if (g_ascii_strtod(text, NULL) == value)
      break;
  }
  g_string_append(out, text);
}

char *units_format_count(double count) {
  const double rounded = isfinite(count) ? round_to_four_digits(count) : count;
  size_t i = G_N_ELEMENTS(multiples) - 1;
  while (i > 0 && !(fabs(rounded) >= (i == 1 ? 10 : 1) * multiples[i].scale)) /* 9,999 is printed as 9999 */
    i--;
  const double scaled = rounded / multiples[i].scale;
  if (fabs(scaled) >= 1e6) /* above all multiples */
    return g_strdup_printf("%.4g", rounded);
  return g_strdup_printf(fabs(scaled) >= 1e4 ? "%.0f%s" : "%.4g%s", scaled, multiples[i].name);
}

double units_percent(double share) {
  return round(1e4 * share) / 100 + 0.0; /* not −0 */
}

/* Zero and infinity take the base unit. The logarithm of a quotient such as 1e-5 / 1e-6 may be just below a whole
 * number. */
char *units_format(double value, UnitKind kind) {
  double rounded = isfinite(value) ? round_to_four_digits(value) : value;
  const Unit *unit = fitting_unit(rounded == 0 || !isfinite(rounded) ? 1 : fabs(rounded), kind);
  double scaled = rounded / unit->scale;
  if (!(fabs(scaled) >= 0.01 && fabs(scaled) < 1e6)) /* outside the prefixes */
    return g_strdup_printf("%.4g %s", scaled, unit->name);
  int digits_before_point = (int)floor(log10(fabs(scaled)) + 1e-9) + 1;
  return g_strdup_printf("%.*f %s", MAX(0, 4 - digits_before_point), scaled, unit->name);
}

TimeUnit time_unit_for(gint64 span_ns) {
  static const TimeUnit steps[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
  guint i = 0;
  while (i + 1 < G_N_ELEMENTS(steps) && (double)span_ns < steps[i].ns)
    i++;
  return steps[i];
}
