#include "servers.h"

#include <string.h>

#include "choices.h"
#include "error.h"
#include "units.h"

enum { MOST_SERVERS = 1 << 20 };
static const char *const part_names[] = {"sync", "async", "local", "nic", "memory", NULL};
enum { PART_SYNC, PART_ASYNC, PART_LOCAL, PART_NIC, PART_MEMORY };

static gboolean read_count(const char *text, gint64 least, gint64 most, int *value, GError **error) {
  gint64 count;
  if (!units_parse_whole(text, least, most, &count, error))
    return FALSE;
  *value = (int)count;
  return TRUE;
}

static gboolean read_rate(const char *text, double *Bps, GError **error) {
  return units_parse(text, UNIT_BYTES_PER_SECOND, Bps, error) &&
         (*Bps > 0 || fail_input(error, "found \"%.80s\", expected more than nothing", text));
}

/* `value` NULL: there is none. */
static gboolean read_value(int part, const char *value, Servers *servers, GError **error) {
  if ((part == PART_SYNC) != (value == NULL) && part != PART_ASYNC)
    return part == PART_SYNC ? fail_input(error, "sync has no value: found \"%.80s\"", value)
                             : fail_input(error, "found \"%s\" without a value", part_names[part]);
  switch (part) {
  case PART_SYNC:
    servers->is_async = FALSE;
    return TRUE;
  case PART_ASYNC:
    servers->is_async = TRUE;
    servers->staleness = STALENESS_UNBOUNDED;
    return value == NULL || read_count(value, 0, MOST_STALENESS, &servers->staleness, error);
  case PART_LOCAL:
    return read_count(value, 1, MOST_SERVERS, &servers->local, error);
  case PART_NIC:
    return read_rate(value, &servers->nic_Bps, error);
  default:
    return read_rate(value, &servers->memory_Bps, error);
  }
}

static gboolean read_part(const char *text, Servers *servers, GError **error) {
  g_auto(GStrv) sides = g_strsplit(text, "=", 2);
  const int part = parse_choice("part", sides[0] != NULL ? sides[0] : "", part_names, error);
  if (part < 0)
    return FALSE;
  if (read_value(part, sides[1], servers, error))
    return TRUE;
  g_prefix_error(error, "%s: ", part_names[part]);
  return FALSE;
}

static gboolean read_parts(const char *text, Servers *servers, GError **error) {
  g_auto(GStrv) parts = g_strsplit(text, "+", -1);
  const char *first = parts[0] != NULL ? parts[0] : "";
  *servers = (Servers){.local = 1, .on_workers = strcmp(first, "workers") == 0};
  if (!servers->on_workers && !g_ascii_isdigit(*first))
    return fail_input(error, "found \"%.80s\", expected none, workers or a number of servers", first);
  if (!servers->on_workers && !read_count(first, 1, MOST_SERVERS, &servers->n, error))
    return FALSE;
  for (char **part = parts + 1; *part != NULL; part++)
    if (!read_part(*part, servers, error))
      return FALSE;
  return !servers->on_workers || servers->nic_Bps == 0 ||
         fail_input(error, "found nic behind workers, whose nodes have the cluster's NICs");
}

gboolean servers_parse(const char *what, const char *text, Servers *servers, GError **error) {
  Servers read = {.local = 1};
  if (strcmp(text, "none") != 0 && !read_parts(text, &read, error)) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  *servers = read;
  return TRUE;
}

static void append_rate(GString *text, const char *name, double Bps) {
  if (Bps == 0)
    return;
  g_string_append_printf(text, "+%s=", name);
  units_append_exact(text, Bps);
  g_string_append(text, "B/s");
}

const char *servers_text(const Servers *servers) {
  g_autoptr(GString) text = g_string_new(NULL);
  if (!servers_are_used(servers))
    return "none";
  if (servers->on_workers)
    g_string_append(text, "workers");
  else
    g_string_append_printf(text, "%d", servers->n);
  if (servers->is_async)
    g_string_append(text, "+async");
  if (servers->is_async && servers->staleness != STALENESS_UNBOUNDED)
    g_string_append_printf(text, "=%d", servers->staleness);
  if (servers->local > 1)
    g_string_append_printf(text, "+local=%d", servers->local);
  append_rate(text, "nic", servers->nic_Bps);
  append_rate(text, "memory", servers->memory_Bps);
  return g_intern_string(text->str);
}
