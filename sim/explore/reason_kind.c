#include "reason_kind.h"

#include <glib.h>
#include <string.h>

static gboolean is_word(char c) {
  return g_ascii_isalnum(c) || c == '_' || c == '-';
}

/* Bytes of the number that stands alone at the beginning of `text`, 0 where none does. */
static gsize number_length(const char *text) {
  static const char digits[] = "0123456789";
  gsize n = text[0] == '-';
  if (!g_ascii_isdigit(text[n]))
    return 0;
  n += strspn(text + n, digits);
  if (text[n] == '.' && g_ascii_isdigit(text[n + 1]))
    n += 1 + strspn(text + n + 1, digits);
  if (text[n] == 'e' && (text[n + 1] == '+' || text[n + 1] == '-'))
    n += 2 + strspn(text + n + 2, digits);
  return is_word(text[n]) ? 0 : n;
}

/* Bytes of a word with what points are in it, "v1.2"; of anything else, one. */
static gsize word_length(const char *text) {
  gsize n = 1;
  while ((is_word(text[n - 1]) || text[n - 1] == '.') && (is_word(text[n]) || (text[n] == '.' && is_word(text[n + 1]))))
    n++;
  return n;
}

char *reason_kind(const char *reason, const char *placeholder) {
  GString *kind = g_string_new(NULL);
  while (*reason != '\0') {
    const gsize number = number_length(reason), length = number > 0 ? number : word_length(reason);
    g_string_append_len(kind, number > 0 ? placeholder : reason, number > 0 ? -1 : (gssize)length);
    reason += length;
  }
  return g_string_free(kind, FALSE);
}
