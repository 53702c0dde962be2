#include "data_stream.h"

#include <string.h>

#include "choices.h"
#include "error.h"
#include "units.h"

enum { DEFAULT_READERS = 2, /* Megatron-LM's --num-workers (core 0.12, 2025) */ MOST_READERS = 1024 };

static const char *const part_names[] = {"readers", "time", "storage", NULL};

static gboolean read_part(const char *text, DataStream *data, GError **error) {
  g_auto(GStrv) sides = g_strsplit(text, "=", 2);
  gint64 readers;
  const int part = parse_choice("part", sides[0], part_names, error);
  if (part < 0)
    return FALSE;
  if (sides[1] == NULL)
    return fail_input(error, "found \"%.80s\" without a value", text);
  if (part == 1)
    return units_parse(sides[1], UNIT_SECONDS, &data->sample_s, error);
  if (part == 2)
    return units_parse(sides[1], UNIT_BYTES_PER_SECOND, &data->storage_Bps, error) &&
           (data->storage_Bps > 0 || fail_input(error, "found \"%.80s\", expected more than nothing", text));
  if (!units_parse_whole(sides[1], 1, MOST_READERS, &readers, error))
    return FALSE;
  data->readers = (int)readers;
  return TRUE;
}

static gboolean read_parts(const char *text, DataStream *data, GError **error) {
  g_auto(GStrv) parts = g_strsplit(text, "+", -1);
  if (!units_parse(parts[0] != NULL ? parts[0] : "", UNIT_BYTES, &data->sample_bytes, error))
    return FALSE;
  if (data->sample_bytes < 1)
    return fail_input(error, "found \"%.80s\", expected at least one byte", parts[0]);
  for (char **part = parts + 1; *part != NULL; part++)
    if (!read_part(*part, data, error))
      return FALSE;
  return TRUE;
}

gboolean data_stream_parse(const char *what, const char *text, DataStream *data, GError **error) {
  *data = (DataStream){.readers = DEFAULT_READERS};
  if (strcmp(text, "none") == 0) {
    *data = (DataStream){0};
    return TRUE;
  }
  if (read_parts(text, data, error))
    return TRUE;
  g_prefix_error(error, "%s: ", what);
  return FALSE;
}

const char *data_stream_text(const DataStream *data) {
  if (data->sample_bytes == 0)
    return "none";
  g_autoptr(GString) text = g_string_new(NULL);
  units_append_exact(text, data->sample_bytes);
  g_string_append_printf(text, "B+readers=%d", data->readers);
  if (data->sample_s > 0) {
    g_string_append(text, "+time=");
    units_append_exact(text, data->sample_s);
    g_string_append_c(text, 's');
  }
  if (data->storage_Bps > 0) {
    g_string_append(text, "+storage=");
    units_append_exact(text, data->storage_Bps);
    g_string_append(text, "B/s");
  }
  return g_intern_string(text->str);
}
