/* Rows are sorted by curve and size, so a curve is a run of rows. */
#include "measured_links.h"

#include <math.h>

#include "yaml_node.h"

/* The collectives in the order of the layer above that defines them; the cost model checks that the two agree. */
static const char *const op_names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast",
                                       "reduce",     "gather",     "scatter",        "send_recv",  "parameter_server",
                                       NULL};
static const char *const send_names[] = {
    [SEND_IN_NODE] = "node", [SEND_IN_DOMAIN] = "domain", [SEND_OVER_FABRIC] = "fabric", NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(op_names) == N_MEASURED_OPS + 1);
G_STATIC_ASSERT(G_N_ELEMENTS(send_names) == N_SEND_LINKS + 1);

typedef struct {
  char *source; /* owned until handed over */
  YamlNode collectives, sends;
} Top;

typedef struct {
  YamlNode node;
  int op, gpus, nodes;
  CurvePoint point;
} CollectiveRow;

typedef struct {
  YamlNode node;
  int link; /* SendLink */
  CurvePoint point;
} SendRow;

static const YamlField top_fields[] = {
    {"source", FIELD_TEXT, TRUE, offsetof(Top, source)},
    {"collectives", FIELD_NODE, FALSE, offsetof(Top, collectives)},
    {"sends", FIELD_NODE, FALSE, offsetof(Top, sends)},
};

static const YamlField collective_fields[] = {
    {"op", FIELD_CHOICE, TRUE, offsetof(CollectiveRow, op), .names = op_names},
    {"gpus", FIELD_INT, TRUE, offsetof(CollectiveRow, gpus), 2, 1e6},
    {"nodes", FIELD_INT, FALSE, offsetof(CollectiveRow, nodes), 1, 1e6},
    {"bytes", FIELD_QUANTITY, TRUE, offsetof(CollectiveRow, point.size_bytes), 1, 1e15, UNIT_BYTES},
    {"time", FIELD_QUANTITY, TRUE, offsetof(CollectiveRow, point.time_s), 1e-9, 1e4, UNIT_SECONDS},
};

static const YamlField send_fields[] = {
    {"link", FIELD_CHOICE, TRUE, offsetof(SendRow, link), .names = send_names},
    {"bytes", FIELD_QUANTITY, TRUE, offsetof(SendRow, point.size_bytes), 1, 1e15, UNIT_BYTES},
    {"time", FIELD_QUANTITY, TRUE, offsetof(SendRow, point.time_s), 1e-9, 1e4, UNIT_SECONDS},
};

const char *const *measured_op_names(void) {
  return op_names;
}

static int compare_points(const CurvePoint *a, const CurvePoint *b) {
  return (a->size_bytes > b->size_bytes) - (a->size_bytes < b->size_bytes);
}

static int compare_groups(const CollectiveRow *a, const CollectiveRow *b) {
  const gint64 key[] = {a->op, a->gpus, a->nodes}, other[] = {b->op, b->gpus, b->nodes};
  return yaml_rows_compare(key, other, G_N_ELEMENTS(key));
}

static int compare_collective_rows(gconstpointer a, gconstpointer b) {
  const CollectiveRow *row = a, *other = b;
  int by_group = compare_groups(row, other);
  return by_group != 0 ? by_group : compare_points(&row->point, &other->point);
}

static int compare_send_rows(gconstpointer a, gconstpointer b) {
  const SendRow *row = a, *other = b;
  return row->link != other->link ? row->link - other->link : compare_points(&row->point, &other->point);
}

/* Whether a group of `gpus` over `nodes` nodes can exist; INPUT at `node`. */
static gboolean check_reach(const LinkReach *reach, YamlNode node, int gpus, int nodes, GError **error) {
  if (gpus < nodes || gpus > (gint64)nodes * reach->gpus_per_node)
    return yaml_fail(node, error, "found gpus %d over nodes %d, expected 1 to %d in each", gpus, nodes,
                     reach->gpus_per_node);
  if (nodes > reach->nodes_per_domain && !reach->has_nics)
    return yaml_fail(node, error, "found nodes %d, expected at most %d, as the nodes have no nics", nodes,
                     reach->nodes_per_domain);
  return TRUE;
}

static void lay_out_collectives(MeasuredLinks *measured, const GArray *rows) {
  measured->points = g_new(CurvePoint, rows->len);
  measured->collectives = g_new(MeasuredCollective, rows->len);
  for (guint i = 0; i < rows->len; i++) {
    const CollectiveRow *row = &g_array_index(rows, CollectiveRow, i);
    if (i == 0 || compare_groups(row, &g_array_index(rows, CollectiveRow, i - 1)) != 0)
      measured->collectives[measured->n_collectives++] = (MeasuredCollective){
          row->op, row->gpus, row->nodes, {.first_point = (int)i}, log2(row->gpus), log2(row->nodes)};
    measured->points[i] = row->point;
    measured->collectives[measured->n_collectives - 1].span.n_points++;
  }
}

static gboolean read_collectives(YamlNode list, const LinkReach *reach, MeasuredLinks *measured, GError **error) {
  static const CollectiveRow blank = {.nodes = 1};
  static const YamlRowType type = {sizeof blank, collective_fields,      G_N_ELEMENTS(collective_fields), &blank,
                                   NULL,         compare_collective_rows};
  g_autoptr(GArray) rows = yaml_rows_read(list, &type, error);
  if (rows == NULL)
    return FALSE;
  for (guint i = 0; i < rows->len; i++) {
    const CollectiveRow *row = &g_array_index(rows, CollectiveRow, i);
    if (!check_reach(reach, row->node, row->gpus, row->nodes, error))
      return FALSE;
  }
  lay_out_collectives(measured, rows);
  return TRUE;
}

static gboolean read_sends(YamlNode list, const LinkReach *reach, MeasuredLinks *measured, GError **error) {
  static const SendRow blank = {.link = 0};
  static const YamlRowType type = {sizeof blank, send_fields, G_N_ELEMENTS(send_fields),
                                   &blank,       NULL,        compare_send_rows};
  g_autoptr(GArray) rows = yaml_rows_read(list, &type, error);
  if (rows == NULL)
    return FALSE;
  measured->send_points = g_new(CurvePoint, rows->len);
  for (guint i = 0; i < rows->len; i++) {
    const SendRow *row = &g_array_index(rows, SendRow, i);
    if (row->link == SEND_OVER_FABRIC && !reach->has_nics)
      return yaml_fail(row->node, error, "found link fabric, expected none, as the nodes have no nics");
    CurveSpan *span = &measured->sends[row->link];
    if (span->n_points++ == 0)
      span->first_point = (int)i;
    measured->send_points[i] = row->point;
  }
  return TRUE;
}

void measured_links_append(GString *out, const char *op, int gpus, int nodes, double bytes, double time_s) {
  g_string_append_printf(out, "    - {op: %s, gpus: %d, nodes: %d, bytes: %.0f B, time: %.6g us}\n", op, gpus, nodes,
                         bytes, time_s * 1e6);
}

MeasuredLinks *measured_links_read(YamlNode map, const LinkReach *reach, GError **error) {
  g_autoptr(MeasuredLinks) measured = g_new0(MeasuredLinks, 1);
  Top top = {0};
  gboolean ok = yaml_map_read(map, top_fields, G_N_ELEMENTS(top_fields), &top, error);
  measured->source = top.source;
  if (!ok || !read_collectives(top.collectives, reach, measured, error) ||
      !read_sends(top.sends, reach, measured, error))
    return NULL;
  if (measured->points == NULL && measured->send_points == NULL) {
    yaml_fail(map, error, "found no table, expected at least one of collectives, sends");
    return NULL;
  }
  return g_steal_pointer(&measured);
}

void measured_links_free(MeasuredLinks *measured) {
  if (measured == NULL)
    return;
  g_free(measured->source);
  g_free(measured->collectives);
  g_free(measured->points);
  g_free(measured->send_points);
  g_free(measured);
}

/* --- fits -------------------------------------------------------------------------------------------------------- */

/* Rows are sorted by group, so a group's rows are adjacent. */

typedef struct {
  YamlNode node; /* first, as yaml_rows_read() wants it */
  FittedCollective fit;
} FitRow;

typedef struct {
  char *source; /* owned until handed over */
  YamlNode collectives;
} FitsTop;

static const YamlField fits_fields[] = {
    {"source", FIELD_TEXT, TRUE, offsetof(FitsTop, source)},
    {"collectives", FIELD_NODE, TRUE, offsetof(FitsTop, collectives)},
};

#define IN_FIT(member) offsetof(FitRow, fit.member)

static int compare_fits(gconstpointer a, gconstpointer b) {
  const FittedCollective *row = &((const FitRow *)a)->fit, *other = &((const FitRow *)b)->fit;
  const gint64 key[] = {row->op, row->gpus, row->nodes, row->algorithm, row->protocol};
  const gint64 other_key[] = {other->op, other->gpus, other->nodes, other->algorithm, other->protocol};
  return yaml_rows_compare(key, other_key, G_N_ELEMENTS(key));
}

static GArray *read_fits(YamlNode list, GError **error) {
  static const FitRow blank = {.fit = {.nodes = 1, .algorithm = -1, .protocol = PROTOCOL_SIMPLE}};
  const YamlField fields[] = {
      {"op", FIELD_CHOICE, TRUE, IN_FIT(op), .names = measured_op_names()},
      {"gpus", FIELD_INT, TRUE, IN_FIT(gpus), 2, 1e6},
      {"nodes", FIELD_INT, FALSE, IN_FIT(nodes), 1, 1e6},
      {"algorithm", FIELD_CHOICE, FALSE, IN_FIT(algorithm), .names = algorithm_names()},
      {"protocol", FIELD_CHOICE, FALSE, IN_FIT(protocol), .names = protocol_keys()},
      {"alpha", FIELD_QUANTITY, TRUE, IN_FIT(alpha_s), 0, 1e4, UNIT_SECONDS},
      {"busbw", FIELD_QUANTITY, TRUE, IN_FIT(busbw_Bps), 1e3, 1e15, UNIT_BYTES_PER_SECOND},
  };
  const YamlRowType type = {sizeof blank, fields, G_N_ELEMENTS(fields), &blank, NULL, compare_fits};
  return yaml_rows_read(list, &type, error);
}

FittedLinks *fitted_links_read(YamlNode map, const LinkReach *reach, GError **error) {
  FitsTop top = {0};
  g_autoptr(FittedLinks) fitted = g_new0(FittedLinks, 1);
  gboolean ok = yaml_map_read(map, fits_fields, G_N_ELEMENTS(fits_fields), &top, error);
  fitted->source = top.source;
  g_autoptr(GArray) rows = ok ? read_fits(top.collectives, error) : NULL;
  if (rows == NULL)
    return NULL;
  fitted->collectives = g_array_sized_new(FALSE, FALSE, sizeof(FittedCollective), rows->len);
  for (guint i = 0; i < rows->len; i++) {
    const FitRow *row = &g_array_index(rows, FitRow, i);
    if (!check_reach(reach, row->node, row->fit.gpus, row->fit.nodes, error))
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
