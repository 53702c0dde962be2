#include "failures.h"

#include <string.h>

/* MegaScale finds failures and tells what to replace within 10 min on average (arXiv 2402.15627, section 7, 2024);
 * taken for the whole restart (assumed). Where the others go on, they stand still for 3 min instead of 10 (arXiv
 * 2602.00277, abstract, 2026). Repair: assumed. */
static const double default_restart_s = 600, default_reconfigure_s = 180, default_repair_s = 86400;

enum { MOST_KINDS = 256 };

static const char *const switch_names[] = {"off", "on", NULL};

static const YamlField kind_fields[] = {
    {"kind", FIELD_TEXT, TRUE, offsetof(FailureKind, name), .what = "its name, such as faulty GPU"},
    {"share", FIELD_NUMBER, TRUE, offsetof(FailureKind, share), 1e-9, 1e9,
     .what = "of all interruptions, or how many were counted"},
    {"nodes", FIELD_INT, FALSE, offsetof(FailureKind, nodes), 0, 1e6},
    {"detection", FIELD_QUANTITY, FALSE, offsetof(FailureKind, detection_s), 0, 1e8, UNIT_SECONDS},
    {"restart", FIELD_QUANTITY, FALSE, offsetof(FailureKind, restart_s), 0, 1e7, UNIT_SECONDS},
    {"silent", FIELD_CHOICE, FALSE, offsetof(FailureKind, is_silent), .names = switch_names},
};

typedef struct {
  Failures failures;
  YamlNode kinds, maintenance;
} Draft;

#define IN_FAILURES(member) offsetof(Draft, failures.member)

static const YamlField fields[] = {
    {"source", FIELD_TEXT, TRUE, IN_FAILURES(source)},
    {"gpu_mtbf", FIELD_QUANTITY, FALSE, IN_FAILURES(gpu_mtbf_s), 1, 1e12, UNIT_SECONDS},
    {"node_mtbf", FIELD_QUANTITY, FALSE, IN_FAILURES(node_mtbf_s), 1, 1e12, UNIT_SECONDS},
    {"restart", FIELD_QUANTITY, TRUE, IN_FAILURES(restart_s), 0, 1e7, UNIT_SECONDS},
    {"checkpoint_bandwidth", FIELD_QUANTITY, FALSE, IN_FAILURES(checkpoint_Bps), 1e6, 1e16, UNIT_BYTES_PER_SECOND},
    {"kinds", FIELD_NODE, FALSE, offsetof(Draft, kinds)},
    {"repair", FIELD_QUANTITY, FALSE, IN_FAILURES(repair_s), 0, 1e9, UNIT_SECONDS},
    {"maintenance", FIELD_NODE, FALSE, offsetof(Draft, maintenance)},
    {"reconfigure", FIELD_QUANTITY, FALSE, IN_FAILURES(reconfigure_s), 0, 1e7, UNIT_SECONDS},
};

static const YamlField maintenance_fields[] = {
    {"every", FIELD_QUANTITY, TRUE, offsetof(Failures, maintenance_every_s), 60, 1e10, UNIT_SECONDS},
    {"takes", FIELD_QUANTITY, FALSE, offsetof(Failures, maintenance_s), 0, 1e7, UNIT_SECONDS},
};

static void clear_kind(gpointer data) {
  g_free(((FailureKind *)data)->name);
}

static GArray *kinds_new(void) {
  GArray *kinds = g_array_new(FALSE, TRUE, sizeof(FailureKind));
  g_array_set_clear_func(kinds, clear_kind);
  return kinds;
}

static gboolean has_name(const GArray *kinds, const char *name) {
  for (guint i = 0; i < kinds->len; i++)
    if (strcmp(g_array_index(kinds, FailureKind, i).name, name) == 0)
      return TRUE;
  return FALSE;
}

static gboolean read_kind(YamlNode item, GArray *kinds, GError **error) {
  FailureKind kind = {.nodes = 1, .restart_s = -1};
  gboolean ok = yaml_map_read(item, kind_fields, G_N_ELEMENTS(kind_fields), &kind, error);
  if (ok && has_name(kinds, kind.name))
    ok = yaml_fail(item, error, "found kind \"%.80s\" twice", kind.name);
  if (ok && kind.is_silent && kind.detection_s == 0)
    ok = yaml_fail(item, error, "a silent kind needs \"detection\": the time between two checks that would notice it");
  if (ok)
    g_array_append_val(kinds, kind);
  else
    clear_kind(&kind);
  return ok;
}

static gboolean read_kinds(YamlNode list, GArray *kinds, GError **error) {
  const int n = yaml_list_length(list, MOST_KINDS, error);
  for (int i = 0; i < n; i++)
    if (!read_kind(yaml_list_item(list, i), kinds, error))
      return FALSE;
  return n > 0;
}

static void one_kind(Failures *failures) {
  const FailureKind any = {.name = g_strdup("any"), .share = 1, .nodes = 1, .restart_s = -1};
  g_array_append_val(failures->kinds, any);
}

static gboolean read_draft(YamlNode node, Draft *draft, GError **error) {
  Failures *failures = &draft->failures;
  failures->kinds = kinds_new();
  failures->repair_s = default_repair_s;
  failures->reconfigure_s = default_reconfigure_s;
  failures->maintenance_s = -1;
  if (!yaml_map_read(node, fields, G_N_ELEMENTS(fields), draft, error))
    return FALSE;
  if (failures->gpu_mtbf_s == 0 && failures->node_mtbf_s == 0)
    return yaml_fail(node, error, "expected \"gpu_mtbf\" or \"node_mtbf\": the mean time between interruptions");
  if (!yaml_is_present(draft->kinds))
    one_kind(failures);
  return (!yaml_is_present(draft->kinds) || read_kinds(draft->kinds, failures->kinds, error)) &&
         (!yaml_is_present(draft->maintenance) ||
          yaml_map_read(draft->maintenance, maintenance_fields, G_N_ELEMENTS(maintenance_fields), failures, error));
}

Failures *failures_read(YamlNode node, GError **error) {
  Draft draft = {0};
  const gboolean ok = read_draft(node, &draft, error);
  g_autoptr(Failures) failures = g_new(Failures, 1);
  *failures = draft.failures;
  return ok ? g_steal_pointer(&failures) : NULL;
}

Failures *failures_new(void) {
  Failures *failures = g_new0(Failures, 1);
  failures->kinds = kinds_new();
  failures->restart_s = default_restart_s;
  failures->reconfigure_s = default_reconfigure_s;
  failures->maintenance_s = -1;
  failures->repair_s = default_repair_s;
  one_kind(failures);
  return failures;
}

void failures_free(Failures *failures) {
  if (failures == NULL)
    return;
  g_free(failures->source);
  g_clear_pointer(&failures->kinds, g_array_unref);
  g_free(failures);
}

double failures_job_mtbf_s(const Failures *failures, int n_gpus, int n_nodes) {
  const double of_gpus = failures->gpu_mtbf_s > 0 ? n_gpus / failures->gpu_mtbf_s : 0;
  const double of_nodes = failures->node_mtbf_s > 0 ? n_nodes / failures->node_mtbf_s : 0;
  return 1 / (of_gpus + of_nodes);
}

/* What is wrong silently begins anywhere between two checks. */
double failures_mean_restart_s(const Failures *failures, double restart_s) {
  double sum_s = 0, shares = 0;
  for (guint i = 0; i < failures->kinds->len; i++) {
    const FailureKind *kind = &g_array_index(failures->kinds, FailureKind, i);
    const double noticed_s = kind->is_silent ? kind->detection_s / 2 : kind->detection_s;
    sum_s += kind->share * (noticed_s + (kind->restart_s >= 0 ? kind->restart_s : restart_s));
    shares += kind->share;
  }
  return sum_s / shares;
}

/* --- storage ----------------------------------------------------------------------------------------------------- */

/* NVIDIA DGX SuperPOD reference architecture for DGX H100, table 6, the tier "better" (2023): a scalable
 * unit of 32 nodes writes 20 GB/s and reads 40, one node writes 4 GB/s and reads 8. Llama 3's cluster has as much per
 * node: 2 TB/s for 3,072 nodes. */
enum { UNIT_NODES = 32 };
static const Storage unit = {20e9, 40e9, 4e9, 8e9};

static double rate(double stated, double of_unit, int n_nodes) {
  return stated > 0 ? stated : of_unit * MAX(n_nodes, UNIT_NODES) / UNIT_NODES;
}

double storage_write_Bps(const Storage *storage, int n_writers, int n_nodes) {
  const double all = rate(storage->write_Bps, unit.write_Bps, n_nodes);
  /* where the rate of all is stated, that of a node is known only if it is too, or if a single one writes */
  const gboolean is_open = storage->write_Bps > 0 && storage->node_write_Bps == 0 && n_writers == n_nodes;
  const double node = storage->node_write_Bps > 0 ? storage->node_write_Bps : unit.node_write_Bps;
  return is_open ? all : MIN(all, n_writers * node);
}

double storage_read_Bps(const Storage *storage, int n_nodes) {
  const double stated = storage->read_Bps > 0 ? storage->read_Bps : storage->write_Bps;
  const double all = rate(stated, unit.read_Bps, n_nodes);
  const double node = storage->node_read_Bps > 0 ? storage->node_read_Bps : unit.node_read_Bps;
  return stated > 0 && storage->node_read_Bps == 0 ? all : MIN(all, n_nodes * node);
}

gboolean storage_is_assumed(const Storage *storage) {
  return storage->write_Bps == 0;
}
