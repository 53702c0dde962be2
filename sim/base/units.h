/* Quantities with their unit written out: "450 GB/s", "400 Gb/s", "1.2 us", "80 GiB", "989 TFLOP/s".
 * GB = 1e9 bytes, GiB = 2^30 bytes, Gb = 1e9 bits. A number without a unit is an error. */
#pragma once
#include <glib.h>
#include <math.h>

typedef enum {
  UNIT_BYTES,            /* B kB MB GB TB KiB MiB GiB TiB */
  UNIT_BYTES_PER_SECOND, /* <bytes>/s, and b/s kb/s Mb/s Gb/s Tb/s as bits */
  UNIT_SECONDS,          /* ns us ms s min h d */
  UNIT_FLOPS_PER_SECOND, /* FLOP/s kFLOP/s … PFLOP/s, also GFLOPS, TFLOPS */
  UNIT_HERTZ,            /* Hz kHz MHz GHz */
  UNIT_DOLLARS_PER_HOUR, /* "2.50 $/h" */
  UNIT_WATTS,            /* W kW */
  UNIT_WATT_HOURS,       /* Wh kWh MWh GWh */
} UnitKind;

/* Parse `text` (number, optional space, unit; the case of prefixes matters: Gb is bits) into base units (B, B/s, s,
 * FLOP/s, Hz, $/h). The number must be finite and not negative. On failure the message says what was found and lists
 * the valid units; `*value` is untouched. */
gboolean units_parse(const char *text, UnitKind kind, double *value, GError **error);

/* A plain positive count, allowing 7e9, 7B, 70B, 124M, 1.5T, 4k (decimal multiples). No unit. */
gboolean units_parse_count(const char *text, double *value, GError **error);

/* A whole number from `least` to `most`: digits, 1e6, or binary multiples such as 32Ki, 1Mi. INPUT; k, M, G and T are
 * refused because they could mean powers of 1,000 or of 1,024, with both named. */
gboolean units_parse_whole(const char *text, gint64 least, gint64 most, gint64 *value, GError **error);

/* Append a number with its noun, singular or plural: "1 rank", "2 ranks". */
void units_append_count(GString *out, gint64 n, const char *one, const char *many);
/* Append a finite number with the fewest digits that read back as the same double. */
void units_append_exact(GString *out, double value);
/* For people, and readable by units_parse_count(): four significant digits, "15T", "375.3k". Owned by the caller. */
char *units_format_count(double count);
/* 100 × share, rounded to two decimals; zero never has a minus sign. */
double units_percent(double share);
/* For people: four significant digits and the fitting prefix, e.g. "80.00 GB", "1.234 ms", "450.0 GB/s",
 * "395.1 TFLOP/s". Owned by the caller. */
char *units_format(double value, UnitKind kind);

/* The unit of a time axis. */
typedef struct {
  const char *name; /* "ms"; "units" for relative times */
  double ns;        /* nanoseconds per unit */
} TimeUnit;

/* The largest of ns, us, ms and s that is no longer than `span_ns`. */
TimeUnit time_unit_for(gint64 span_ns);

/* The range of values that a reader accepts, ends included. */

typedef struct {
  gint64 least, most;
} IntegerRange;

typedef struct {
  double least, most;
} RealRange;

/* Whether a number, which may be written 4096.0 or 4.096e3, is an integer of the range; then sets *value. */
static inline gboolean range_has_integer(IntegerRange range, double number, gint64 *value) {
  const double most_exact = 9007199254740992; /* 2^53 */
  if (!(fabs(number) <= most_exact) || number != floor(number) || (gint64)number < range.least ||
      (gint64)number > range.most)
    return FALSE;
  *value = (gint64)number;
  return TRUE;
}

/* Shorthand for gint64 in format strings: "%" INT64. */

#define INT64 G_GINT64_FORMAT
