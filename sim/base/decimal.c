/* A double is m · 2^e with m below 2^53. Times a power of ten it is a quotient of two whole numbers of at most 128
 * bits, which is rounded once, ties to the even one:
 *
 *     m · 2^e · 10^p  =  (m · 10^p · 2^e) / 1      (m · 10^p) / 2^-e      (m · 2^e) / 10^-p      m / (10^-p · 2^-e) */
#include "decimal.h"

#include <math.h>
#include <string.h>

typedef unsigned __int128 Wide;

enum { MANTISSA_BITS = 53, ALL_DIGITS = 17 };
static const double least = 1e-4, most = 1e17;

/* 1 below 0; at most 38. */
static Wide ten_to(int power) {
  enum { MOST = 19 };
  static const guint64 powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                   1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};
  return (Wide)powers[CLAMP(power, 0, MOST)] * powers[CLAMP(power - MOST, 0, MOST)];
}

/* |value| · 10^power, of a value from `least` to `most`: to at most 18 digits. */
static guint64 scaled(double value, int power) {
  int exponent;
  const double mantissa = frexp(fabs(value), &exponent);
  const int up = MAX(exponent - MANTISSA_BITS, 0), down = MAX(MANTISSA_BITS - exponent, 0);
  const Wide top = ((Wide)ldexp(mantissa, MANTISSA_BITS) * ten_to(power)) << up, bottom = ten_to(-power) << down;
  const Wide whole = power >= 0 ? top >> down : top / bottom, twice = 2 * (top - whole * bottom);
  return (guint64)whole + (twice > bottom || (twice == bottom && (whole & 1) != 0));
}

/* The first digits as a whole number, and the power of ten of the first: 0.09996 to three digits is 100 and −1. */
static guint64 first_digits(double value, int n_digits, int *power) {
  const guint64 beyond = (guint64)ten_to(n_digits);
  int exponent;
  frexp(value, &exponent);
  *power = (exponent - 1) * 1233 >> 12; /* log10(2), rounded down: right, or one too small */
  guint64 digits = scaled(value, n_digits - 1 - *power);
  while (digits >= beyond)
    digits = scaled(value, n_digits - 1 - ++*power);
  return digits;
}

static gboolean is_plain(double value) {
  return fabs(value) >= least && fabs(value) < most;
}

/* The last digits of `number`, and as many zeros in front as that takes. Returns the end. */
static char *put_digits(char *at, guint64 number, int n_digits) {
  for (int i = n_digits - 1; i >= 0; i--, number /= 10)
    at[i] = (char)('0' + number % 10);
  return at + n_digits;
}

char *decimal_text(char text[DECIMAL_BYTES], double value) {
  if (value == 0)
    return strcpy(text, signbit(value) ? "-0" : "0");
  if (!is_plain(value))
    return g_ascii_dtostr(text, DECIMAL_BYTES, value);
  int power;
  char digits[ALL_DIGITS], *at = text;
  put_digits(digits, first_digits(value, ALL_DIGITS, &power), ALL_DIGITS);
  int n = ALL_DIGITS;
  while (n > MAX(power + 1, 1) && digits[n - 1] == '0')
    n--;
  const int n_before = CLAMP(power + 1, 0, n);
  if (value < 0)
    *at++ = '-';
  at = n_before > 0 ? mempcpy(at, digits, (gsize)n_before) : stpcpy(at, "0");
  if (n > n_before)
    *at++ = '.';
  for (int i = power + 1; i < 0; i++)
    *at++ = '0';
  at = mempcpy(at, digits + n_before, (gsize)(n - n_before));
  *at = '\0';
  return text;
}

char *decimal_fixed(char text[DECIMAL_BYTES], double value, int n_behind) {
  if (!is_plain(value)) {
    char format[] = "%.0f";
    format[2] = (char)('0' + n_behind);
    return g_ascii_formatd(text, DECIMAL_BYTES, format, value);
  }
  const guint64 number = scaled(value, n_behind), parts = (guint64)ten_to(n_behind);
  int n_before = 1;
  for (guint64 rest = number / parts; rest >= 10; rest /= 10)
    n_before++;
  char *at = text;
  if (value < 0)
    *at++ = '-';
  at = put_digits(at, number / parts, n_before);
  if (n_behind > 0)
    *at++ = '.';
  at = put_digits(at, number % parts, n_behind);
  *at = '\0';
  return text;
}

double decimal_round(double value, int n_digits) {
  if (is_plain(value)) {
    int power;
    const double digits = (double)first_digits(value, n_digits, &power);
    const int behind = power - (n_digits - 1);
    return copysign(behind >= 0 ? digits * (double)ten_to(behind) : digits / (double)ten_to(-behind), value);
  }
  char text[DECIMAL_BYTES], format[16];
  g_snprintf(format, sizeof format, "%%.%de", n_digits - 1);
  return g_ascii_strtod(g_ascii_formatd(text, sizeof text, format, value), NULL);
}
