/* Each key is a table of fields. After each table, every device it names is entered in a port list, so that a
 * duplicate is found where it occurs and a missing device at the end. */
#include "node_topology.h"

#include <stdlib.h>

#include "error.h"
#include "yaml_base.h"

enum { MAX_SOCKETS = 64, MAX_SWITCHES = 4096, MAX_LIST = 16384, NOWHERE = -1 };

const char *const gpudirect_names[N_GPUDIRECT + 1] = {
    [GPUDIRECT_AUTO] = "auto", [GPUDIRECT_ALWAYS] = "always", [GPUDIRECT_NEVER] = "never"};

/* A whole number below `n`: a GPU, NIC, switch or socket. */
static gboolean read_index(YamlNode item, const char *what, int n, int *index, GError **error) {
  const char *text = yaml_text(item, error);
  gint64 value;
  if (text == NULL)
    return FALSE;
  if (n == 0)
    return yaml_fail(item, error, "found %s %.20s, but there is none", what, text);
  if (!g_ascii_string_to_signed(text, 10, 0, n - 1, &value, NULL))
    return yaml_fail(item, error, "found %s \"%.80s\", expected 0 to %d", what, text, n - 1);
  *index = (int)value;
  return TRUE;
}

/* The mesh. */

typedef struct {
  YamlNode gpus;
  int links;
} PairDraft;

static const YamlField pair_fields[] = {
    {"gpus", FIELD_NODE, TRUE, offsetof(PairDraft, gpus)},
    {"links", FIELD_INT, TRUE, offsetof(PairDraft, links), 1, 64},
};

typedef struct {
  double link_Bps;
  YamlNode pairs;
} MeshDraft;

static const YamlField mesh_fields[] = {
    {"link", FIELD_QUANTITY, TRUE, offsetof(MeshDraft, link_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"pairs", FIELD_NODE, TRUE, offsetof(MeshDraft, pairs)},
};

static int compare_pairs(gconstpointer a, gconstpointer b) {
  const MeshPair *x = a, *y = b;
  return x->a != y->a ? x->a - y->a : x->b - y->b;
}

static gboolean read_pair(YamlNode item, int domain_gpus, MeshPair *pair, GError **error) {
  PairDraft draft = {0};
  if (!yaml_map_read(item, pair_fields, G_N_ELEMENTS(pair_fields), &draft, error))
    return FALSE;
  int n = yaml_list_length(draft.gpus, 2, error);
  if (n < 0)
    return FALSE;
  if (n != 2)
    return yaml_fail(draft.gpus, error, "found %d GPU, expected the two that are wired", n);
  YamlNode first = yaml_list_item(draft.gpus, 0);
  int a, b;
  if (!read_index(first, "GPU", domain_gpus, &a, error) ||
      !read_index(yaml_list_next(first), "GPU", domain_gpus, &b, error))
    return FALSE;
  if (a == b)
    return yaml_fail(draft.gpus, error, "found GPU %d wired to itself", a);
  *pair = (MeshPair){MIN(a, b), MAX(a, b), draft.links};
  return TRUE;
}

static gboolean read_mesh(NodeTopology *node, YamlNode mesh, int domain_gpus, GError **error) {
  MeshDraft draft = {0};
  if (!yaml_map_read(mesh, mesh_fields, G_N_ELEMENTS(mesh_fields), &draft, error))
    return FALSE;
  int n = yaml_list_length(draft.pairs, MAX_LIST, error);
  if (n < 0)
    return FALSE;
  node->mesh_link_Bps = draft.link_Bps;
  node->pairs = g_new(MeshPair, n);
  for (YamlNode item = yaml_list_item(draft.pairs, 0); yaml_is_present(item); item = yaml_list_next(item))
    if (!read_pair(item, domain_gpus, &node->pairs[node->n_pairs++], error))
      return FALSE;
  qsort(node->pairs, (size_t)n, sizeof *node->pairs, compare_pairs);
  for (int i = 1; i < n; i++)
    if (compare_pairs(&node->pairs[i - 1], &node->pairs[i]) == 0)
      return yaml_fail(draft.pairs, error, "the pair of GPUs %d and %d is listed twice", node->pairs[i].a,
                       node->pairs[i].b);
  return TRUE;
}

/* The PCIe tree. */

typedef struct {
  double bandwidth_Bps, inter_socket_Bps, efficiency, latency_s;
  YamlNode sockets, switches, slots;
} PcieDraft;

static const YamlField pcie_fields[] = {
    {"bandwidth", FIELD_QUANTITY, TRUE, offsetof(PcieDraft, bandwidth_Bps), 1e6, 1e13, UNIT_BYTES_PER_SECOND},
    {"efficiency", FIELD_NUMBER, FALSE, offsetof(PcieDraft, efficiency), 1e-3, 1},
    {"latency", FIELD_QUANTITY, FALSE, offsetof(PcieDraft, latency_s), 0, 1, UNIT_SECONDS},
    {"sockets", FIELD_NODE, TRUE, offsetof(PcieDraft, sockets)},
    {"inter_socket", FIELD_QUANTITY, FALSE, offsetof(PcieDraft, inter_socket_Bps), 1e6, 1e13, UNIT_BYTES_PER_SECOND},
    {"switches", FIELD_NODE, FALSE, offsetof(PcieDraft, switches)},
    {"slots", FIELD_NODE, FALSE, offsetof(PcieDraft, slots)},
};

/* What is plugged into a socket or a switch. */
typedef struct {
  YamlNode gpus, nics;
  YamlNode socket, above; /* a switch has one of them */
  double uplink_Bps;
} HolderDraft;

static const YamlField socket_fields[] = {
    {"gpus", FIELD_NODE, FALSE, offsetof(HolderDraft, gpus)},
    {"nics", FIELD_NODE, FALSE, offsetof(HolderDraft, nics)},
};

static const YamlField switch_fields[] = {
    {"socket", FIELD_NODE, FALSE, offsetof(HolderDraft, socket)},
    {"switch", FIELD_NODE, FALSE, offsetof(HolderDraft, above)},
    {"uplink", FIELD_QUANTITY, TRUE, offsetof(HolderDraft, uplink_Bps), 1e6, 1e13, UNIT_BYTES_PER_SECOND},
    {"gpus", FIELD_NODE, FALSE, offsetof(HolderDraft, gpus)},
    {"nics", FIELD_NODE, FALSE, offsetof(HolderDraft, nics)},
};

/* Plug devices of one kind into `where`. */
static gboolean plug_in(YamlNode list, const char *what, PciePort *ports, int n_ports, PciePort where, GError **error) {
  if (!yaml_is_present(list))
    return TRUE;
  if (yaml_list_length(list, MAX_LIST, error) < 0)
    return FALSE;
  for (YamlNode item = yaml_list_item(list, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    int index;
    if (!read_index(item, what, n_ports, &index, error))
      return FALSE;
    if (ports[index].socket != NOWHERE)
      return yaml_fail(item, error, "%s %d is plugged in twice", what, index);
    ports[index] = where;
  }
  return TRUE;
}

static gboolean plug_in_both(NodeTopology *node, const HolderDraft *draft, PciePort where, GError **error) {
  return plug_in(draft->gpus, "GPU", node->gpu_ports, node->n_gpus, where, error) &&
         plug_in(draft->nics, "NIC", node->nic_ports, node->n_nics, where, error);
}

static gboolean read_switch(NodeTopology *node, YamlNode item, double slot_Bps, GError **error) {
  HolderDraft draft = {0};
  PcieSwitch *here = &node->switches[node->n_switches];
  if (!yaml_map_read(item, switch_fields, G_N_ELEMENTS(switch_fields), &draft, error))
    return FALSE;
  if (yaml_is_present(draft.socket) == yaml_is_present(draft.above))
    return yaml_fail(item, error, "expected either \"socket\" or \"switch\": what this switch's uplink goes to");
  *here = (PcieSwitch){.parent = NOWHERE, .uplink_Bps = draft.uplink_Bps};
  if (yaml_is_present(draft.socket) && !read_index(draft.socket, "socket", node->n_sockets, &here->socket, error))
    return FALSE;
  if (yaml_is_present(draft.above)) {
    if (!read_index(draft.above, "an earlier switch,", node->n_switches, &here->parent, error))
      return FALSE;
    here->socket = node->switches[here->parent].socket;
  }
  return plug_in_both(node, &draft, (PciePort){here->socket, node->n_switches++, slot_Bps}, error);
}

static gboolean read_switches(NodeTopology *node, const PcieDraft *pcie, GError **error) {
  if (!yaml_is_present(pcie->switches))
    return TRUE;
  int n = yaml_list_length(pcie->switches, MAX_SWITCHES, error);
  if (n < 0)
    return FALSE;
  node->switches = g_new0(PcieSwitch, n);
  for (YamlNode item = yaml_list_item(pcie->switches, 0); yaml_is_present(item); item = yaml_list_next(item))
    if (!read_switch(node, item, pcie->bandwidth_Bps, error))
      return FALSE;
  return TRUE;
}

static gboolean read_sockets(NodeTopology *node, const PcieDraft *pcie, GError **error) {
  node->n_sockets = yaml_list_length(pcie->sockets, MAX_SOCKETS, error);
  if (node->n_sockets < 0)
    return FALSE;
  YamlNode item = yaml_list_item(pcie->sockets, 0);
  for (int socket = 0; socket < node->n_sockets; socket++, item = yaml_list_next(item)) {
    HolderDraft draft = {0};
    if (!yaml_map_read(item, socket_fields, G_N_ELEMENTS(socket_fields), &draft, error) ||
        !plug_in_both(node, &draft, (PciePort){socket, NOWHERE, pcie->bandwidth_Bps}, error))
      return FALSE;
  }
  return TRUE;
}

/* Slots with other bandwidths. */

typedef struct {
  YamlNode gpu, nic;
  double Bps;
} SlotDraft;

static const YamlField slot_fields[] = {
    {"gpu", FIELD_NODE, FALSE, offsetof(SlotDraft, gpu)},
    {"nic", FIELD_NODE, FALSE, offsetof(SlotDraft, nic)},
    {"bandwidth", FIELD_QUANTITY, TRUE, offsetof(SlotDraft, Bps), 1e6, 1e13, UNIT_BYTES_PER_SECOND},
};

static gboolean read_slot(NodeTopology *node, YamlNode item, GError **error) {
  SlotDraft draft = {0};
  int index;
  if (!yaml_map_read(item, slot_fields, G_N_ELEMENTS(slot_fields), &draft, error))
    return FALSE;
  gboolean is_gpu = yaml_is_present(draft.gpu);
  if (is_gpu == yaml_is_present(draft.nic))
    return yaml_fail(item, error, "expected either \"gpu\" or \"nic\": whose slot this is");
  if (!read_index(is_gpu ? draft.gpu : draft.nic, is_gpu ? "GPU" : "NIC", is_gpu ? node->n_gpus : node->n_nics, &index,
                  error))
    return FALSE;
  (is_gpu ? node->gpu_ports : node->nic_ports)[index].Bps = draft.Bps;
  return TRUE;
}

static gboolean read_slots(NodeTopology *node, YamlNode slots, GError **error) {
  if (!yaml_is_present(slots))
    return TRUE;
  if (yaml_list_length(slots, MAX_LIST, error) < 0)
    return FALSE;
  for (YamlNode item = yaml_list_item(slots, 0); yaml_is_present(item); item = yaml_list_next(item))
    if (!read_slot(node, item, error))
      return FALSE;
  return TRUE;
}

static PciePort *new_ports(int n) {
  PciePort *ports = g_new(PciePort, n);
  for (int i = 0; i < n; i++)
    ports[i] = (PciePort){NOWHERE, NOWHERE, 0};
  return ports;
}

static gboolean check_plugged(YamlNode pcie, const char *what, const PciePort *ports, int n, GError **error) {
  for (int i = 0; i < n; i++)
    if (ports[i].socket == NOWHERE)
      return yaml_fail(pcie, error, "%s %d is plugged in nowhere, expected it in a switch or a socket", what, i);
  return TRUE;
}

static gboolean read_pcie(NodeTopology *node, YamlNode pcie, GError **error) {
  PcieDraft draft = {.efficiency = 1, .latency_s = -1};
  if (!yaml_map_read(pcie, pcie_fields, G_N_ELEMENTS(pcie_fields), &draft, error))
    return FALSE;
  node->pcie_efficiency = draft.efficiency;
  node->pcie_latency_s = draft.latency_s;
  node->inter_socket_Bps = draft.inter_socket_Bps;
  node->gpu_ports = new_ports(node->n_gpus);
  node->nic_ports = new_ports(node->n_nics);
  if (!read_sockets(node, &draft, error) || !read_switches(node, &draft, error) ||
      !check_plugged(pcie, "GPU", node->gpu_ports, node->n_gpus, error) ||
      !check_plugged(pcie, "NIC", node->nic_ports, node->n_nics, error) || !read_slots(node, draft.slots, error))
    return FALSE;
  if ((node->n_sockets > 1) != (draft.inter_socket_Bps > 0))
    return yaml_fail(pcie, error,
                     node->n_sockets > 1 ? "the key \"inter_socket\" is missing: the bandwidth between its %d sockets"
                                         : "found inter_socket, but there is %d socket",
                     node->n_sockets);
  return TRUE;
}

/* Rails. */

typedef struct {
  YamlNode nic, gpus;
} RailDraft;

static const YamlField rail_fields[] = {
    {"nic", FIELD_NODE, TRUE, offsetof(RailDraft, nic)},
    {"gpus", FIELD_NODE, TRUE, offsetof(RailDraft, gpus)},
};

static int compare_rails(gconstpointer a, gconstpointer b) {
  const Rail *x = a, *y = b;
  return x->gpu != y->gpu ? x->gpu - y->gpu : x->nic - y->nic;
}

static gboolean read_rail(const NodeTopology *node, YamlNode item, GArray *rails, GError **error) {
  RailDraft draft = {0};
  Rail rail = {0, 0};
  if (!yaml_map_read(item, rail_fields, G_N_ELEMENTS(rail_fields), &draft, error) ||
      !read_index(draft.nic, "NIC", node->n_nics, &rail.nic, error) ||
      yaml_list_length(draft.gpus, MAX_LIST, error) < 0)
    return FALSE;
  for (YamlNode gpu = yaml_list_item(draft.gpus, 0); yaml_is_present(gpu); gpu = yaml_list_next(gpu)) {
    if (!read_index(gpu, "GPU", node->n_gpus, &rail.gpu, error))
      return FALSE;
    g_array_append_val(rails, rail);
  }
  return TRUE;
}

static gboolean read_rails(NodeTopology *node, YamlNode list, GError **error) {
  g_autoptr(GArray) rails = g_array_new(FALSE, FALSE, sizeof(Rail));
  if (yaml_list_length(list, MAX_LIST, error) < 0)
    return FALSE;
  for (YamlNode item = yaml_list_item(list, 0); yaml_is_present(item); item = yaml_list_next(item))
    if (!read_rail(node, item, rails, error))
      return FALSE;
  g_array_sort(rails, compare_rails);
  for (guint i = 1; i < rails->len; i++) {
    const Rail *rail = &g_array_index(rails, Rail, i);
    if (compare_rails(rail - 1, rail) == 0)
      return yaml_fail(list, error, "NIC %d is said twice to serve GPU %d", rail->nic, rail->gpu);
  }
  node->n_rails = (int)rails->len;
  node->rails = g_memdup2(rails->data, rails->len * sizeof(Rail));
  node->has_rails = TRUE;
  return TRUE;
}

static void spread_rails(NodeTopology *node) {
  int n_gpus = node->n_gpus, n_nics = node->n_nics;
  node->n_rails = n_nics > 0 ? MAX(n_gpus, n_nics) : 0;
  node->rails = g_new(Rail, node->n_rails);
  for (int i = 0; i < node->n_rails; i++)
    node->rails[i] = n_nics <= n_gpus ? (Rail){i, (int)((gint64)i * n_nics / n_gpus)}
                                      : (Rail){(int)((gint64)i * n_gpus / n_nics), i};
}

/* An inherited tree describes the base's GPUs and NICs. */
static gboolean read_inherited_pcie(NodeTopology *node, YamlNode pcie, GError **error) {
  g_autoptr(GError) cause = NULL;
  if (read_pcie(node, pcie, &cause))
    return TRUE;
  return fail_input(error, "%s (\"pcie: none\" takes the base's PCIe tree away)", cause->message);
}

gboolean node_topology_read(NodeTopology *node, const NodeTopologyKeys *keys, int domain_gpus, GError **error) {
  if ((yaml_is_present(keys->mesh) && !read_mesh(node, keys->mesh, domain_gpus, error)) ||
      (yaml_is_present(keys->pcie) &&
       !(yaml_is_of_base(keys->pcie) ? read_inherited_pcie : read_pcie)(node, keys->pcie, error)))
    return FALSE;
  if (yaml_is_present(keys->rails))
    return read_rails(node, keys->rails, error);
  spread_rails(node);
  return TRUE;
}

void node_topology_clear(NodeTopology *node) {
  g_free(node->pairs);
  g_free(node->switches);
  g_free(node->gpu_ports);
  g_free(node->nic_ports);
  g_free(node->rails);
}

/* Whether switch `candidate` is `pcie_switch` or above it; sockets do not count. */
static gboolean is_above(const NodeTopology *node, int candidate, int pcie_switch) {
  while (pcie_switch != NOWHERE && pcie_switch != candidate)
    pcie_switch = node->switches[pcie_switch].parent;
  return pcie_switch == candidate;
}

gboolean node_topology_is_gpudirect(const NodeTopology *node, int gpu, int nic) {
  if (node->gpudirect != GPUDIRECT_AUTO)
    return node->gpudirect == GPUDIRECT_ALWAYS;
  if (node->n_sockets == 0)
    return TRUE;
  int at = node->nic_ports[nic].pcie_switch;
  while (at != NOWHERE && !is_above(node, at, node->gpu_ports[gpu].pcie_switch))
    at = node->switches[at].parent;
  return at != NOWHERE;
}

/* --- host -------------------------------------------------------------------------------------------------------- */

/* Whether `below` is the switch `above` or is somewhere under it. */
static gboolean is_under(const NodeTopology *node, int below, int above) {
  while (below >= 0 && below != above)
    below = node->switches[below].parent;
  return below == above;
}

static int gpus_under(const NodeTopology *node, int pcie_switch, int n_gpus) {
  int n = 0;
  for (int gpu = 0; gpu < n_gpus; gpu++)
    n += is_under(node, node->gpu_ports[gpu].pcie_switch, pcie_switch);
  return n;
}

static double tree_Bps(const NodeTopology *node, int gpu, int n_gpus) {
  double least_Bps = node->gpu_ports[gpu].Bps;
  for (int at = node->gpu_ports[gpu].pcie_switch; at >= 0; at = node->switches[at].parent)
    least_Bps = MIN(least_Bps, node->switches[at].uplink_Bps / gpus_under(node, at, n_gpus));
  return least_Bps;
}

double host_link_Bps(const Host *host, const NodeTopology *node, int n_gpus) {
  double least_Bps = host->link_Bps;
  const int n = MIN(n_gpus, node->n_gpus);
  for (int gpu = 0; gpu < n && node->n_sockets > 0 && host->link_Bps == 0; gpu++) {
    const double Bps = tree_Bps(node, gpu, n);
    least_Bps = least_Bps > 0 ? MIN(least_Bps, Bps) : Bps;
  }
  if (host->links_together_Bps > 0)
    least_Bps = MIN(least_Bps, host->links_together_Bps / n_gpus);
  return least_Bps * host->link_efficiency;
}
