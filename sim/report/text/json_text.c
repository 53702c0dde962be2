/* RFC 8259, section 7: quote, backslash and everything below U+0020 must be escaped; the rest stands as UTF-8. */
#include "json_text.h"

#include <math.h>

static gboolean needs_escape(char c) {
  return c == '"' || c == '\\' || (guchar)c < 0x20;
}

void json_append_string(GString *out, const char *text) {
  g_autofree char *repaired = text && !g_utf8_validate(text, -1, NULL) ? g_utf8_make_valid(text, -1) : NULL;
  const char *at = repaired ? repaired : (text ? text : "");
  g_string_append_c(out, '"');
  while (*at) {
    const char *start = at;
    while (*at && !needs_escape(*at))
      at++;
    g_string_append_len(out, start, at - start);
    if (*at == '"' || *at == '\\')
      g_string_append_printf(out, "\\%c", *at++);
    else if (*at)
      g_string_append_printf(out, "\\u%04x", (guint)(guchar)*at++);
  }
  g_string_append_c(out, '"');
}

void json_append_number(GString *out, double value) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append(out, isfinite(value) ? g_ascii_formatd(text, sizeof text, "%.10g", value) : "null");
}
