/* Doubles as decimals, rounded as printf() rounds them, in a tenth of its time: tables hold many. All take any double;
 * those beyond 1e-4 to 1e17 are left to printf(). */
#pragma once
#include <glib.h>

enum { DECIMAL_BYTES = G_ASCII_DTOSTR_BUF_SIZE };

/* "%.17g", which reads back as the same double, with a point in every locale. Returns `text`. */
char *decimal_text(char text[DECIMAL_BYTES], double value);
/* "%.*f" with at most six digits behind the point, of a value below 1e9. */
char *decimal_fixed(char text[DECIMAL_BYTES], double value, int n_behind);
/* The double nearest to the value rounded to so many significant digits, at most 15. */
double decimal_round(double value, int n_digits);
