/* json-glib prints doubles with 17 significant digits, which round-trip. It also marks numbers without a point as
 * doubles by a trailing ".0", even behind an exponent: 1e-08.0 is not JSON (seen in 1.6), so the mark is taken off
 * there. */
#include "json_values.h"

#include <math.h>

void json_add_number(JsonBuilder *builder, const char *key, double value) {
  json_builder_set_member_name(builder, key);
  if (isfinite(value))
    json_builder_add_double_value(builder, value);
  else
    json_builder_add_null_value(builder);
}

void json_add_count(JsonBuilder *builder, const char *key, gint64 value) {
  json_builder_set_member_name(builder, key);
  json_builder_add_int_value(builder, value);
}

void json_add_flag(JsonBuilder *builder, const char *key, gboolean value) {
  json_builder_set_member_name(builder, key);
  json_builder_add_boolean_value(builder, value);
}

void json_add_text(JsonBuilder *builder, const char *key, const char *value) {
  json_builder_set_member_name(builder, key);
  json_builder_add_string_value(builder, value); /* null for NULL */
}

void json_begin_object(JsonBuilder *builder, const char *key) {
  if (key != NULL)
    json_builder_set_member_name(builder, key);
  json_builder_begin_object(builder);
}

void json_begin_list(JsonBuilder *builder, const char *key) {
  json_builder_set_member_name(builder, key);
  json_builder_begin_array(builder);
}

void json_add_texts(JsonBuilder *builder, const char *key, const GPtrArray *texts) {
  json_begin_list(builder, key);
  for (guint i = 0; i < texts->len; i++)
    json_builder_add_string_value(builder, g_ptr_array_index(texts, i));
  json_builder_end_array(builder);
}

char *json_finish(JsonBuilder *builder) {
  g_autoptr(JsonNode) root = json_builder_get_root(builder);
  g_object_unref(builder);
  g_autofree char *text = json_to_string(root, TRUE);
  g_autoptr(GRegex) mark = g_regex_new("(?<=[0-9])(e[+-]?[0-9]+)\\.0\\b", 0, 0, NULL);
  g_autofree char *valid = g_regex_replace(mark, text, -1, 0, "\\1", 0, NULL);
  return g_strconcat(valid, "\n", NULL);
}

void json_add_breakdown(JsonBuilder *builder, const char *key, const double *breakdown_s) {
  json_begin_object(builder, key);
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    json_add_number(builder, breakdown_name((BreakdownKind)kind), breakdown_s[kind]);
  json_builder_end_object(builder);
}

/* --- as text --------------------------------------------------------------------------------------------------- */

/* RFC 8259, section 7: quote, backslash and everything below U+0020 must be escaped; the rest stands as UTF-8. */

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

void json_add_interval(JsonBuilder *builder, const Interval *interval) {
  g_autofree char *basis = interval_basis_text(interval);
  if (basis == NULL)
    return;
  json_begin_object(builder, "interval");
  json_add_number(builder, "low_s", interval->low_s);
  json_add_number(builder, "high_s", interval->high_s);
  json_add_number(builder, "level", INTERVAL_LEVEL);
  json_add_number(builder, "ratio", interval->ratio);
  json_add_text(builder, "like", basis);
  json_builder_end_object(builder);
}
