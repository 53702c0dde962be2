#include "exceptions.h"

#include <stdlib.h>
#include <string.h>

#include "error.h"

enum { MAX_RANGES = 256, MAX_FAULTS = 4096 };

/* Kinds of GPU. */

typedef struct {
  YamlNode nodes, gpu;
} RangeDraft;

static const YamlField range_fields[] = {
    {"nodes", FIELD_NODE, TRUE, offsetof(RangeDraft, nodes)},
    {"gpu", FIELD_NODE, TRUE, offsetof(RangeDraft, gpu)},
};

static gboolean parse_node(const char *text, int *node) {
  gint64 value;
  gboolean ok = g_ascii_string_to_signed(text, 10, 0, 100000000, &value, NULL);
  *node = ok ? (int)value : 0;
  return ok;
}

static gboolean read_nodes(YamlNode node, GpuRange *range, GError **error) {
  const char *text = yaml_text(node, error);
  if (text == NULL)
    return FALSE;
  g_auto(GStrv) parts = g_strsplit(text, "..", 2);
  const char *last = parts[1] != NULL ? parts[1] : parts[0];
  if (!parse_node(parts[0], &range->first_node) || !parse_node(last, &range->last_node) ||
      range->last_node < range->first_node)
    return yaml_fail(node, error, "found \"%.80s\", expected a node or a range such as 16..31", text);
  return TRUE;
}

static int compare_ranges(gconstpointer a, gconstpointer b) {
  const GpuRange *x = a, *y = b;
  return (x->first_node > y->first_node) - (x->first_node < y->first_node);
}

static void clear_range(gpointer range) {
  gpu_clear(&((GpuRange *)range)->gpu);
}

static gboolean read_range(YamlNode item, FindGpu find, GpuRange *range, GError **error) {
  RangeDraft draft = {0};
  if (!yaml_map_read(item, range_fields, G_N_ELEMENTS(range_fields), &draft, error) ||
      !read_nodes(draft.nodes, range, error))
    return FALSE;
  g_autofree char *file = find(draft.gpu, error);
  return file != NULL && gpu_read(file, &range->gpu, error);
}

GArray *gpu_ranges_read(YamlNode list, FindGpu find, GError **error) {
  g_autoptr(GArray) ranges = g_array_new(FALSE, TRUE, sizeof(GpuRange));
  g_array_set_clear_func(ranges, clear_range);
  if (yaml_list_length(list, MAX_RANGES, error) < 0)
    return NULL;
  for (YamlNode item = yaml_list_item(list, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    g_array_set_size(ranges, ranges->len + 1);
    if (!read_range(item, find, &g_array_index(ranges, GpuRange, ranges->len - 1), error))
      return NULL;
  }
  g_array_sort(ranges, compare_ranges);
  for (guint i = 1; i < ranges->len; i++) {
    const GpuRange *range = &g_array_index(ranges, GpuRange, i);
    if (range->first_node > range[-1].last_node)
      continue;
    yaml_fail(list, error, "node %d is in two ranges", range->first_node);
    return NULL;
  }
  return g_steal_pointer(&ranges);
}

/* Faults. */

typedef struct {
  char *at; /* owned */
  YamlNode link, factor;
} FaultDraft;

static const YamlField fault_fields[] = {
    {"at", FIELD_TEXT, FALSE, offsetof(FaultDraft, at)},
    {"link", FIELD_NODE, FALSE, offsetof(FaultDraft, link)},
    {"factor", FIELD_NODE, TRUE, offsetof(FaultDraft, factor)},
};

static gboolean read_factor(YamlNode node, double *factor, GError **error) {
  const char *text = yaml_text(node, error);
  if (text == NULL)
    return FALSE;
  *factor = 0;
  if (strcmp(text, "dead") == 0)
    return TRUE;
  char *end;
  *factor = g_ascii_strtod(text, &end);
  if (end == text || *end != '\0' || !(*factor > 0 && *factor < 1))
    return yaml_fail(node, error, "found \"%.80s\", expected dead, or the share of the bandwidth left, such as 0.5",
                     text);
  return TRUE;
}

static gboolean read_link(YamlNode link, LinkFault *fault, GError **error) {
  int n = yaml_list_length(link, 2, error);
  if (n < 0)
    return FALSE;
  if (n != 2)
    return yaml_fail(link, error, "found one end, expected both, such as [node0/gpu1, node0/nvswitch]");
  YamlNode first = yaml_list_item(link, 0);
  const char *a = yaml_text(first, error), *b = a != NULL ? yaml_text(yaml_list_next(first), error) : NULL;
  if (b == NULL)
    return FALSE;
  fault->a = g_strdup(a);
  fault->b = g_strdup(b);
  return TRUE;
}

static gboolean read_fault(YamlNode item, LinkFault *fault, GError **error) {
  FaultDraft draft = {0};
  gboolean ok = yaml_map_read(item, fault_fields, G_N_ELEMENTS(fault_fields), &draft, error);
  fault->a = draft.at;
  fault->line = yaml_line(item);
  if (!ok)
    return FALSE;
  if ((draft.at != NULL) == yaml_is_present(draft.link))
    return yaml_fail(item, error,
                     "expected either \"at\" (every link of a device or switch) or \"link\" (its two ends)");
  return (draft.at != NULL || read_link(draft.link, fault, error)) && read_factor(draft.factor, &fault->factor, error);
}

static void clear_fault(gpointer fault) {
  g_free(((LinkFault *)fault)->a);
  g_free(((LinkFault *)fault)->b);
}

/* Each vertex has only one name (topology_names.c), so equal places give equal texts once a link's ends are
 * sorted. */
static char *place_of(const LinkFault *fault) {
  if (fault->b == NULL)
    return g_strdup(fault->a);
  const gboolean is_sorted = strcmp(fault->a, fault->b) < 0;
  return g_strdup_printf("%s - %s", is_sorted ? fault->a : fault->b, is_sorted ? fault->b : fault->a);
}

/* `lines`: line of each place named so far. */
static gboolean check_new(YamlNode item, const LinkFault *fault, GHashTable *lines, GError **error) {
  char *place = place_of(fault);
  const int before = GPOINTER_TO_INT(g_hash_table_lookup(lines, place));
  if (before > 0)
    yaml_fail(item, error, "faults: %.160s has one already, in line %d; expected one entry a place", place, before);
  g_hash_table_insert(lines, place, GINT_TO_POINTER(fault->line));
  return before == 0;
}

GArray *link_faults_read(YamlNode list, GError **error) {
  g_autoptr(GHashTable) lines = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GArray) faults = g_array_new(FALSE, TRUE, sizeof(LinkFault));
  g_array_set_clear_func(faults, clear_fault);
  if (yaml_list_length(list, MAX_FAULTS, error) < 0)
    return NULL;
  for (YamlNode item = yaml_list_item(list, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    g_array_set_size(faults, faults->len + 1);
    LinkFault *fault = &g_array_index(faults, LinkFault, faults->len - 1);
    if (!read_fault(item, fault, error) || !check_new(item, fault, lines, error))
      return NULL;
  }
  return g_steal_pointer(&faults);
}
