/* From an import to a cluster file's text, in three steps: fill what the dump leaves open from the generation's
 * facts; give each GPU its nearest NICs; write everything key by key. */
#include "node_import.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data_path.h"
#include "error.h"
#include "link_facts.h"
#include "units.h"

NodeImport *node_import_new(char *source) {
  NodeImport *import = g_new0(NodeImport, 1);
  import->source = source;
  import->notes = g_ptr_array_new_with_free_func(g_free);
  return import;
}

void node_import_free(NodeImport *import) {
  if (import == NULL)
    return;
  g_free(import->source);
  g_free(import->cpu_vendor);
  g_free(import->switch_links);
  node_topology_clear(&import->node);
  g_ptr_array_unref(import->notes);
  g_free(import);
}

void node_import_note(NodeImport *import, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *note = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  for (guint i = 0; i < import->notes->len; i++)
    if (strcmp(import->notes->pdata[i], note) == 0) {
      g_free(note);
      return;
    }
  g_ptr_array_add(import->notes, note);
}

NodeImport *node_import_read(const char *file, NodeImportParser parse, GError **error) {
  gsize length = 0;
  g_autofree char *text = data_file_read(file, &length, error);
  return text != NULL ? parse(file, text, length, error) : NULL;
}

/* Scale-up: what the NVLinks add up to. */

typedef struct {
  const char *kind;
  double Bps, efficiency, latency_s;
} ScaleUp;

static int links_of(const NodeImport *import, int gpu) {
  int n = import->switch_links[gpu];
  for (int i = 0; i < import->node.n_pairs; i++)
    if (import->node.pairs[i].a == gpu || import->node.pairs[i].b == gpu)
      n += import->node.pairs[i].n_links;
  return n;
}

/* For GPUs on an NVSwitch a matrix says NV12 for every pair; as direct links that would be more than a GPU has. */
static void see_through_switch(NodeImport *import, const Generation *generation) {
  NodeTopology *node = &import->node;
  int n = node->n_gpus;
  gboolean is_complete = n > 1 && node->n_pairs == n * (n - 1) / 2;
  for (int i = 1; i < node->n_pairs && is_complete; i++)
    is_complete = node->pairs[i].n_links == node->pairs[0].n_links;
  if (!is_complete || node->pairs[0].n_links * (n - 1) <= generation->nvlinks)
    return;
  for (int gpu = 0; gpu < n; gpu++)
    import->switch_links[gpu] = node->pairs[0].n_links;
  node->n_pairs = 0;
}

static int least_switch_links(const NodeImport *import) {
  int least = import->switch_links[0];
  for (int gpu = 1; gpu < import->node.n_gpus; gpu++)
    least = MIN(least, import->switch_links[gpu]);
  return least;
}

static ScaleUp scale_up_of(NodeImport *import, const Generation *generation, const LinkFacts *facts) {
  NodeTopology *node = &import->node;
  see_through_switch(import, generation);
  ScaleUp up = {"nvswitch", least_switch_links(import) * generation->nvlink_Bps, generation->efficiency,
                generation->latency_s};
  if (up.Bps > 0) {
    if (node->n_pairs > 0)
      node_import_note(import, "NVLinks from GPU to GPU beside those to NVSwitches are left out");
    node->n_pairs = 0;
    return up;
  }
  int least = G_MAXINT; /* of GPUs with any: a ring waits for the slowest */
  for (int gpu = 0; gpu < node->n_gpus; gpu++)
    if (links_of(import, gpu) > import->switch_links[gpu])
      least = MIN(least, links_of(import, gpu) - import->switch_links[gpu]);
  if (node->n_pairs > 0)
    return (ScaleUp){"nvlink_mesh", least * generation->nvlink_Bps, generation->efficiency, generation->latency_s};
  double slot_Bps = INFINITY;
  for (int gpu = 0; gpu < node->n_gpus; gpu++)
    slot_Bps = MIN(slot_Bps, node->gpu_ports[gpu].Bps);
  return (ScaleUp){"pcie", slot_Bps, facts->pcie.efficiency, facts->pcie.latency_s};
}

/* PCIe: a slot that the dump leaves open is taken to be x16. */

static void fill_rate(NodeImport *import, double *Bps, double x16_Bps) {
  if (*Bps > 0)
    return;
  *Bps = x16_Bps;
  node_import_note(import, "PCIe links whose rate is not said are taken as x16 of the generation");
}

static void fill_rates(NodeImport *import, double x16_Bps) {
  NodeTopology *node = &import->node;
  for (int i = 0; i < node->n_switches; i++)
    fill_rate(import, &node->switches[i].uplink_Bps, x16_Bps);
  for (int i = 0; i < node->n_gpus; i++)
    fill_rate(import, &node->gpu_ports[i].Bps, x16_Bps);
  for (int i = 0; i < node->n_nics; i++)
    fill_rate(import, &node->nic_ports[i].Bps, x16_Bps);
}

/* Rails. */

static gboolean is_below(const NodeTopology *node, int pcie_switch, int above) {
  while (pcie_switch >= 0 && pcie_switch != above)
    pcie_switch = node->switches[pcie_switch].parent;
  return pcie_switch == above;
}

/* 0: on one switch; 1, 2, …: that many switches up; 1,000: one socket; 2,000: different sockets. */
static int distance(const NodeTopology *node, int gpu, int nic) {
  const PciePort *a = &node->gpu_ports[gpu], *b = &node->nic_ports[nic];
  int steps = 0;
  for (int at = b->pcie_switch; at >= 0; at = node->switches[at].parent, steps++)
    if (is_below(node, a->pcie_switch, at))
      return MIN(steps, 999);
  return a->socket == b->socket ? 1000 : 2000;
}

/* Each GPU takes the nearest NIC, among equals the one that serves fewest; NICs left over go to their nearest GPU. */
static void choose_rails(NodeTopology *node) {
  int n_gpus = node->n_gpus, n_nics = node->n_nics;
  g_autofree int *of_nic = g_new0(int, n_nics + 1), *of_gpu = g_new0(int, n_gpus);
  node->rails = g_new(Rail, n_gpus + n_nics);
  for (int gpu = 0; gpu < n_gpus && n_nics > 0; gpu++) {
    int best = 0;
    for (int nic = 1; nic < n_nics; nic++) {
      int nearer = distance(node, gpu, best) - distance(node, gpu, nic);
      if (nearer > 0 || (nearer == 0 && of_nic[nic] < of_nic[best]))
        best = nic;
    }
    of_nic[best]++;
    of_gpu[gpu]++;
    node->rails[node->n_rails++] = (Rail){gpu, best};
  }
  for (int nic = 0; nic < n_nics; nic++) {
    int best = 0;
    for (int gpu = 1; gpu < n_gpus; gpu++) {
      int nearer = distance(node, best, nic) - distance(node, gpu, nic);
      if (nearer > 0 || (nearer == 0 && of_gpu[gpu] < of_gpu[best]))
        best = gpu;
    }
    if (of_nic[nic] > 0)
      continue;
    of_gpu[best]++;
    node->rails[node->n_rails++] = (Rail){best, nic};
  }
}

/* Writing. */

typedef struct {
  GString *out;
  const NodeImport *import;
  const LinkFacts *facts;
} Writer;

/* Enough digits to read back the same number. */
static void append_rate(GString *out, double Bps) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append_printf(out, "%s GB/s", g_ascii_formatd(text, sizeof text, "%.12g", Bps / 1e9));
}

static void append_seconds(GString *out, double seconds) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append_printf(out, "%s us", g_ascii_formatd(text, sizeof text, "%.12g", seconds * 1e6));
}

static void append_number(GString *out, double value) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append(out, g_ascii_formatd(text, sizeof text, "%.12g", value));
}

/* In double quotes. Quotes and backslashes are escaped, control characters become '?'. */
static void append_quoted(GString *out, const char *text) {
  g_autofree char *valid = g_utf8_make_valid(text, -1);
  g_string_append_c(out, '"');
  for (const char *c = valid; *c != '\0'; c++) {
    if (*c == '"' || *c == '\\')
      g_string_append_c(out, '\\');
    g_string_append_c(out, (guchar)*c < ' ' || *c == 0x7f ? '?' : *c);
  }
  g_string_append_c(out, '"');
}

static void write_notes(Writer *w) {
  for (guint i = 0; i < w->import->notes->len; i++) {
    g_autofree char *note = g_utf8_make_valid(w->import->notes->pdata[i], -1);
    g_strdelimit(note, "\r\n\v\f\x1b", ' ');
    for (char *c = note; *c != '\0'; c++)
      if ((guchar)*c < ' ' || *c == 0x7f)
        *c = '?';
    g_string_append_printf(w->out, "# %s\n", note);
  }
}

static void write_scale_up(Writer *w, const ScaleUp *up, const Generation *generation) {
  const NodeTopology *node = &w->import->node;
  g_string_append_printf(w->out, "  scale_up:\n    kind: %s\n    bandwidth: ", up->kind);
  append_rate(w->out, up->Bps);
  g_string_append(w->out, "  # per GPU and direction\n    efficiency: ");
  append_number(w->out, up->efficiency);
  g_string_append(w->out, "  # not in the dump\n    latency: ");
  append_seconds(w->out, up->latency_s);
  g_string_append(w->out, "  # not in the dump\n");
  if (node->n_pairs == 0)
    return;
  g_string_append(w->out, "    mesh:\n      link: ");
  append_rate(w->out, generation->nvlink_Bps);
  g_string_append(w->out, "\n      pairs:\n");
  for (int i = 0; i < node->n_pairs; i++)
    g_string_append_printf(w->out, "        - {gpus: [%d, %d], links: %d}\n", node->pairs[i].a, node->pairs[i].b,
                           node->pairs[i].n_links);
}

static void write_nics(Writer *w, double nic_Bps) {
  g_string_append_printf(w->out, "  nics: %d\n", w->import->node.n_nics);
  if (w->import->node.n_nics == 0)
    return;
  g_string_append(w->out, "  nic:\n    bandwidth: ");
  append_rate(w->out, nic_Bps);
  g_string_append(w->out, "\n    efficiency: ");
  append_number(w->out, w->facts->nic.efficiency);
  g_string_append(w->out, "  # not in the dump\n    latency: ");
  append_seconds(w->out, w->facts->nic.latency_s);
  g_string_append(w->out, "  # not in the dump\n");
}

/* Append "gpus: [0, 1]" to `parts`, if there are any. */
static void add_plugged(GPtrArray *parts, const char *key, const PciePort *ports, int n, int socket, int pcie_switch) {
  GString *text = g_string_new(NULL);
  for (int i = 0; i < n; i++)
    if (ports[i].socket == socket && ports[i].pcie_switch == pcie_switch)
      g_string_append_printf(text, "%s%d", text->len > 0 ? ", " : "", i);
  if (text->len > 0)
    g_ptr_array_add(parts, g_strdup_printf("%s: [%s]", key, text->str));
  g_string_free(text, TRUE);
}

/* Write "{…}" of the parts, which are freed, and of what is plugged in there. */
static void write_holder(Writer *w, GPtrArray *parts, int socket, int pcie_switch) {
  const NodeTopology *node = &w->import->node;
  add_plugged(parts, "gpus", node->gpu_ports, node->n_gpus, socket, pcie_switch);
  add_plugged(parts, "nics", node->nic_ports, node->n_nics, socket, pcie_switch);
  g_ptr_array_add(parts, NULL);
  g_autofree char *all = g_strjoinv(", ", (char **)parts->pdata);
  g_string_append_printf(w->out, "      - {%s}\n", all);
  g_ptr_array_unref(parts);
}

static void write_slots_unlike(Writer *w, const char *key, const PciePort *ports, int n, double usual_Bps,
                               gboolean *has_any) {
  for (int i = 0; i < n; i++) {
    if (ports[i].Bps == usual_Bps)
      continue;
    g_string_append_printf(w->out, "%s      - {%s: %d, bandwidth: ", *has_any ? "" : "    slots:\n", key, i);
    append_rate(w->out, ports[i].Bps);
    g_string_append(w->out, "}\n");
    *has_any = TRUE;
  }
}

static void write_switch(Writer *w, int i) {
  const PcieSwitch *at = &w->import->node.switches[i];
  GPtrArray *parts = g_ptr_array_new_with_free_func(g_free);
  g_ptr_array_add(parts, at->parent >= 0 ? g_strdup_printf("switch: %d", at->parent)
                                         : g_strdup_printf("socket: %d", at->socket));
  g_autoptr(GString) uplink = g_string_new("uplink: ");
  append_rate(uplink, at->uplink_Bps);
  g_ptr_array_add(parts, g_strdup(uplink->str));
  write_holder(w, parts, at->socket, i);
}

static void write_pcie(Writer *w) {
  const NodeTopology *node = &w->import->node;
  double usual_Bps = node->gpu_ports[0].Bps;
  g_string_append(w->out, "  pcie:\n    bandwidth: ");
  append_rate(w->out, usual_Bps);
  g_string_append(w->out, "\n    efficiency: ");
  append_number(w->out, w->facts->pcie.efficiency);
  g_string_append(w->out, "  # not in the dump\n    sockets:\n");
  for (int socket = 0; socket < node->n_sockets; socket++)
    write_holder(w, g_ptr_array_new_with_free_func(g_free), socket, -1);
  if (node->n_sockets > 1) {
    g_string_append(w->out, "    inter_socket: ");
    append_rate(w->out, link_facts_socket_Bps(w->facts, w->import->cpu_vendor, w->import->cpu_model));
    g_string_append(w->out, "  # not in the dump\n");
  }
  for (int i = 0; i < node->n_switches; i++) {
    g_string_append(w->out, i == 0 ? "    switches:\n" : "");
    write_switch(w, i);
  }
  gboolean has_slots = FALSE;
  write_slots_unlike(w, "gpu", node->gpu_ports, node->n_gpus, usual_Bps, &has_slots);
  write_slots_unlike(w, "nic", node->nic_ports, node->n_nics, usual_Bps, &has_slots);
}

static void write_rails(Writer *w) {
  const NodeTopology *node = &w->import->node;
  if (node->n_rails > 0)
    g_string_append(w->out, "  rails:\n");
  for (int nic = 0; nic < node->n_nics; nic++) {
    g_autoptr(GString) gpus = g_string_new(NULL);
    for (int i = 0; i < node->n_rails; i++)
      if (node->rails[i].nic == nic)
        g_string_append_printf(gpus, "%s%d", gpus->len > 0 ? ", " : "", node->rails[i].gpu);
    g_string_append_printf(w->out, "    - {nic: %d, gpus: [%s]}\n", nic, gpus->str);
  }
}

/* The newest library constants available. Owned by the caller. */
static char *newest_library(GError **error) {
  g_auto(GStrv) names = data_path_list("topologies/nccl", ".yaml");
  guint n = g_strv_length(names);
  if (n == 0)
    fail_input(error, "found no constants of a collective library in topologies/nccl");
  return n > 0 ? g_strdup(names[n - 1]) : NULL;
}

static void write_head(Writer *w, const ImportChoices *choices, const Generation *generation, const char *library) {
  g_string_append(
      w->out, "# One node as it describes itself; nodes like it are taken to meet in a fabric of full bisection.\n");
  write_notes(w);
  g_string_append(w->out, "name: ");
  append_quoted(w->out, choices->name);
  g_string_append(w->out, "\nsource: ");
  g_autofree char *source = g_strdup_printf("%s; what it does not say: topologies/imports/links.yaml, %s",
                                            w->import->source, generation->name);
  append_quoted(w->out, source);
  g_string_append(w->out, "\ngpu: ");
  append_quoted(w->out, choices->gpu != NULL ? choices->gpu : generation->gpu);
  g_string_append(w->out, "\ncollectives: ");
  append_quoted(w->out, library);
  g_string_append_printf(w->out, "\n\nnode:\n  gpus: %d\n", w->import->node.n_gpus);
}

static gboolean choose_nic_rate(const NodeImport *import, const ImportChoices *choices, double *nic_Bps,
                                GError **error) {
  *nic_Bps = choices->nic_Bps > 0 ? choices->nic_Bps : import->nic_Bps;
  return import->node.n_nics == 0 || *nic_Bps > 0 ||
         fail_input(error, "--nic-bandwidth is missing: %s does not say how fast its %d NICs are", import->source,
                    import->node.n_nics);
}

static gboolean has_its_nvlinks(const NodeImport *import, const Generation *generation, GError **error) {
  gboolean has_some = import->node.n_pairs > 0;
  for (int gpu = 0; gpu < import->node.n_gpus; gpu++)
    has_some |= import->switch_links[gpu] > 0;
  return !has_some || generation->nvlinks > 0 ||
         fail_input(error, "the dump has NVLinks, and GPUs of the generation %s have none: --generation names another",
                    generation->name);
}

char *node_import_yaml(NodeImport *import, const ImportChoices *choices, GError **error) {
  g_autoptr(LinkFacts) facts = link_facts_read(error);
  const Generation *generation =
      facts != NULL ? link_facts_generation(facts, choices->generation, import->sm, error) : NULL;
  g_autofree char *library = generation != NULL ? newest_library(error) : NULL;
  double nic_Bps;
  if (library == NULL || !has_its_nvlinks(import, generation, error) ||
      !choose_nic_rate(import, choices, &nic_Bps, error))
    return NULL;
  fill_rates(import, generation->pcie_Bps);
  ScaleUp up = scale_up_of(import, generation, facts);
  choose_rails(&import->node);
  if (choices->gpu == NULL)
    node_import_note(import, "the GPU is taken to be %s: --gpu names another", generation->gpu);
  if (import->node.n_sockets > 1)
    node_import_note(import, "the bandwidth between sockets is what NCCL reckons with for such CPUs");
  Writer w = {g_string_new(NULL), import, facts};
  write_head(&w, choices, generation, library);
  write_scale_up(&w, &up, generation);
  write_nics(&w, nic_Bps);
  write_pcie(&w);
  write_rails(&w);
  return g_string_free(w.out, FALSE);
}
