/* RFC 8259, section 7: quote, backslash and everything below U+0020 must be escaped; the rest stands as UTF-8. */
#include "json_text.h"

#include <math.h>

void json_append_string(GString *out, const char *text) {
  g_autofree char *valid = g_utf8_make_valid(text ? text : "", -1);
  g_string_append_c(out, '"');
  for (const char *at = valid; *at; at++) {
    if (*at == '"' || *at == '\\') {
      g_string_append_c(out, '\\');
      g_string_append_c(out, *at);
    } else if ((guchar)*at < 0x20) {
      g_string_append_printf(out, "\\u%04x", (guint)(guchar)*at);
    } else {
      g_string_append_c(out, *at);
    }
  }
  g_string_append_c(out, '"');
}

void json_append_number(GString *out, double value) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append(out, isfinite(value) ? g_ascii_formatd(text, sizeof text, "%.10g", value) : "null");
}
