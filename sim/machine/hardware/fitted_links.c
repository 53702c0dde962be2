/* Rows are sorted by group, so a group's rows are adjacent. */
#include "fitted_links.h"

#include "yaml_rows.h"

typedef struct {
  YamlNode node; /* first, as yaml_rows_read() wants it */
  FittedCollective fit;
} Row;

typedef struct {
  char *source; /* owned until handed over */
  YamlNode collectives;
} Top;

static const YamlField top_fields[] = {
    {"source", FIELD_TEXT, TRUE, offsetof(Top, source)},
    {"collectives", FIELD_NODE, TRUE, offsetof(Top, collectives)},
};

#define IN_FIT(member) offsetof(Row, fit.member)

static int compare_rows(gconstpointer a, gconstpointer b) {
  const FittedCollective *row = &((const Row *)a)->fit, *other = &((const Row *)b)->fit;
  const gint64 key[] = {row->op, row->gpus, row->nodes, row->algorithm, row->protocol};
  const gint64 other_key[] = {other->op, other->gpus, other->nodes, other->algorithm, other->protocol};
  return yaml_rows_compare(key, other_key, G_N_ELEMENTS(key));
}

static GArray *read_rows(YamlNode list, GError **error) {
  static const Row blank = {.fit = {.nodes = 1, .algorithm = -1, .protocol = PROTOCOL_SIMPLE}};
  const YamlField fields[] = {
      {"op", FIELD_CHOICE, TRUE, IN_FIT(op), .names = measured_op_names()},
      {"gpus", FIELD_INT, TRUE, IN_FIT(gpus), 2, 1e6},
      {"nodes", FIELD_INT, FALSE, IN_FIT(nodes), 1, 1e6},
      {"algorithm", FIELD_CHOICE, FALSE, IN_FIT(algorithm), .names = algorithm_names()},
      {"protocol", FIELD_CHOICE, FALSE, IN_FIT(protocol), .names = protocol_keys()},
      {"alpha", FIELD_QUANTITY, TRUE, IN_FIT(alpha_s), 0, 1e4, UNIT_SECONDS},
      {"busbw", FIELD_QUANTITY, TRUE, IN_FIT(busbw_Bps), 1e3, 1e15, UNIT_BYTES_PER_SECOND},
  };
  const YamlRowType type = {sizeof blank, fields, G_N_ELEMENTS(fields), &blank, NULL, compare_rows};
  return yaml_rows_read(list, &type, error);
}

FittedLinks *fitted_links_read(YamlNode map, const LinkReach *reach, GError **error) {
  Top top = {0};
  g_autoptr(FittedLinks) fitted = g_new0(FittedLinks, 1);
  gboolean ok = yaml_map_read(map, top_fields, G_N_ELEMENTS(top_fields), &top, error);
  fitted->source = top.source;
  g_autoptr(GArray) rows = ok ? read_rows(top.collectives, error) : NULL;
  if (rows == NULL)
    return NULL;
  fitted->collectives = g_array_sized_new(FALSE, FALSE, sizeof(FittedCollective), rows->len);
  for (guint i = 0; i < rows->len; i++) {
    const Row *row = &g_array_index(rows, Row, i);
    if (!link_reach_check(reach, row->node, row->fit.gpus, row->fit.nodes, error))
      return NULL;
    g_array_append_val(fitted->collectives, row->fit);
  }
  return g_steal_pointer(&fitted);
}

void fitted_links_free(FittedLinks *fitted) {
  if (fitted == NULL)
    return;
  g_free(fitted->source);
  g_clear_pointer(&fitted->collectives, g_array_unref);
  g_free(fitted);
}
