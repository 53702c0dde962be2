#include "link_facts.h"

#include <string.h>

#include "data_path.h"
#include "error.h"
#include "suggest.h"
#include "yaml_node.h"

enum { MAX_ROWS = 64 };

static const YamlField generation_fields[] = {
    {"name", FIELD_TEXT, TRUE, offsetof(Generation, name)},
    {"gpu", FIELD_TEXT, TRUE, offsetof(Generation, gpu)},
    {"sm", FIELD_INT, TRUE, offsetof(Generation, sm), 10, 1000},
    {"nvlink", FIELD_QUANTITY, FALSE, offsetof(Generation, nvlink_Bps), 1e9, 1e13, UNIT_BYTES_PER_SECOND},
    {"nvlinks", FIELD_INT, FALSE, offsetof(Generation, nvlinks), 1, 64},
    {"pcie", FIELD_QUANTITY, TRUE, offsetof(Generation, pcie_Bps), 1e9, 1e13, UNIT_BYTES_PER_SECOND},
    {"nic_slot", FIELD_QUANTITY, FALSE, offsetof(Generation, nic_slot_Bps), 1e9, 1e13, UNIT_BYTES_PER_SECOND},
    {"efficiency", FIELD_NUMBER, TRUE, offsetof(Generation, efficiency), 1e-3, 1},
    {"latency", FIELD_QUANTITY, TRUE, offsetof(Generation, latency_s), 0, 1, UNIT_SECONDS},
};

static const YamlField socket_fields[] = {
    {"vendor", FIELD_TEXT, TRUE, offsetof(SocketFact, vendor)},
    {"model", FIELD_INT, TRUE, offsetof(SocketFact, model), 0, 1e6},
    {"bandwidth", FIELD_QUANTITY, TRUE, offsetof(SocketFact, Bps), 1e8, 1e13, UNIT_BYTES_PER_SECOND},
};

static const YamlField reach_fields[] = {
    {"efficiency", FIELD_NUMBER, TRUE, offsetof(LinkReached, efficiency), 1e-3, 1},
    {"latency", FIELD_QUANTITY, TRUE, offsetof(LinkReached, latency_s), 0, 1, UNIT_SECONDS},
};

typedef struct {
  char *source; /* for human readers; owned */
  YamlNode generations, sockets;
  LinkReached pcie, nic;
} Draft;

static const YamlField top_fields[] = {
    {"source", FIELD_TEXT, TRUE, offsetof(Draft, source)},
    {"generations", FIELD_NODE, TRUE, offsetof(Draft, generations)},
    {"sockets", FIELD_NODE, TRUE, offsetof(Draft, sockets)},
    {"pcie", FIELD_MAP, TRUE, offsetof(Draft, pcie), YAML_FIELDS(reach_fields)},
    {"nic", FIELD_MAP, TRUE, offsetof(Draft, nic), YAML_FIELDS(reach_fields)},
};

static void clear_generation(gpointer generation) {
  g_free(((Generation *)generation)->name);
  g_free(((Generation *)generation)->gpu);
}

static void clear_socket(gpointer socket) {
  g_free(((SocketFact *)socket)->vendor);
}

/* Read each item of `list` into a new element of `rows`. */
static gboolean read_rows(YamlNode list, const YamlField *fields, int n_fields, GArray *rows, GError **error) {
  if (yaml_list_length(list, MAX_ROWS, error) < 0)
    return FALSE;
  for (YamlNode item = yaml_list_item(list, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    g_array_set_size(rows, rows->len + 1);
    char *row = rows->data + (gsize)(rows->len - 1) * g_array_get_element_size(rows);
    if (!yaml_map_read(item, fields, n_fields, row, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean read_facts(YamlNode root, LinkFacts *facts, GError **error) {
  Draft draft = {0};
  gboolean ok =
      yaml_map_read(root, top_fields, G_N_ELEMENTS(top_fields), &draft, error) &&
      read_rows(draft.generations, generation_fields, G_N_ELEMENTS(generation_fields), facts->generations, error) &&
      read_rows(draft.sockets, socket_fields, G_N_ELEMENTS(socket_fields), facts->sockets, error);
  facts->pcie = draft.pcie;
  facts->nic = draft.nic;
  g_free(draft.source);
  return ok;
}

LinkFacts *link_facts_read(GError **error) {
  g_autofree char *path = data_path_find("topologies/imports", "links", ".yaml", error);
  g_autoptr(YamlFile) yaml = path != NULL ? yaml_file_read(path, error) : NULL;
  if (yaml == NULL)
    return NULL;
  g_autoptr(LinkFacts) facts = g_new0(LinkFacts, 1);
  facts->generations = g_array_new(FALSE, TRUE, sizeof(Generation));
  facts->sockets = g_array_new(FALSE, TRUE, sizeof(SocketFact));
  g_array_set_clear_func(facts->generations, clear_generation);
  g_array_set_clear_func(facts->sockets, clear_socket);
  return read_facts(yaml_file_root(yaml), facts, error) ? g_steal_pointer(&facts) : NULL;
}

void link_facts_free(LinkFacts *facts) {
  if (facts == NULL)
    return;
  g_array_unref(facts->generations);
  g_array_unref(facts->sockets);
  g_free(facts);
}

const Generation *link_facts_generation(const LinkFacts *facts, const char *name, int sm, GError **error) {
  const char *names[MAX_ROWS + 1] = {NULL};
  const Generation *last = NULL;
  for (guint i = 0; i < facts->generations->len; i++) {
    const Generation *at = &g_array_index(facts->generations, Generation, i);
    names[i] = at->name;
    if (name != NULL ? strcmp(name, at->name) == 0 : at->sm <= sm)
      last = at;
  }
  if (last != NULL)
    return last;
  g_autofree char *expected = suggest_message(name != NULL ? name : "", names);
  if (name != NULL)
    fail_input(error, "--generation: found \"%.80s\", %s", name, expected);
  else
    fail_input(error, "--generation is missing, as the dump names no known one: %s", expected);
  return NULL;
}

double link_facts_socket_Bps(const LinkFacts *facts, const char *vendor, int model) {
  double Bps = g_array_index(facts->sockets, SocketFact, 0).Bps; /* lists are never empty */
  for (guint i = 0; i < facts->sockets->len; i++) {
    const SocketFact *at = &g_array_index(facts->sockets, SocketFact, i);
    if (g_strcmp0(at->vendor, vendor) == 0 && at->model <= model)
      Bps = at->Bps;
  }
  return Bps;
}
