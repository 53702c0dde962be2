/* GMarkup's events become a flat list of elements, each after its parent, from which the facts are read:
 *
 *     <system>
 *       <cpu numaid="0" …>                                 a socket (NUMA node)
 *         <pci busid=… class="0x060400" link_speed=…>      a bridge: a switch where two or more branches
 *                                                          meet, else a piece of the one link through it,
 *                                                          which is as slow as its slowest
 *           <pci busid=… class="0x030200" …>
 *             <gpu dev="0" sm="90" …>
 *               <nvlink target=… count="4" tclass="0x068000"/>     to an NVSwitch; 0x03….: to the GPU on that bus
 *           <pci busid=… class="0x020700" …>
 *             <nic><net name="mlx5_0" speed="400000" …/></nic>     Mb/s
 *
 * Facts of the format: NCCL's documentation of NCCL_TOPO_DUMP_FILE, dumps in NCCL's issue tracker (762, 1182,
 * 1505). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "node_import.h"
#include "units.h"

enum { MAX_ELEMENTS = 16384, MAX_DEPTH = 64, MAX_DEVICES = 1024, MAX_SOCKETS = 64, NONE = -1 };

typedef enum { TAG_SYSTEM, TAG_CPU, TAG_PCI, TAG_GPU, TAG_NVLINK, TAG_NIC, TAG_NET, N_TAGS, TAG_OTHER = N_TAGS } Tag;
static const char *const tags[N_TAGS] = {
    [TAG_SYSTEM] = "system", [TAG_CPU] = "cpu", [TAG_PCI] = "pci", [TAG_GPU] = "gpu",
    [TAG_NVLINK] = "nvlink", [TAG_NIC] = "nic", [TAG_NET] = "net"};

typedef enum {
  KEY_VENDOR,
  KEY_MODEL,
  KEY_BUS,
  KEY_SPEED, /* of a PCIe link */
  KEY_WIDTH,
  KEY_DEV,
  KEY_SM,
  KEY_TARGET,
  KEY_COUNT,
  KEY_TARGET_CLASS,
  KEY_NET_NAME,
  KEY_NET_SPEED,
  N_KEYS
} Key;
static const char *const keys[N_KEYS] = {[KEY_VENDOR] = "vendor",
                                         [KEY_MODEL] = "modelid",
                                         [KEY_BUS] = "busid",
                                         [KEY_SPEED] = "link_speed",
                                         [KEY_WIDTH] = "link_width",
                                         [KEY_DEV] = "dev",
                                         [KEY_SM] = "sm",
                                         [KEY_TARGET] = "target",
                                         [KEY_COUNT] = "count",
                                         [KEY_TARGET_CLASS] = "tclass",
                                         [KEY_NET_NAME] = "name",
                                         [KEY_NET_SPEED] = "speed"};

typedef struct {
  Tag tag;
  int parent, line;
  const char *values[N_KEYS]; /* NULL: absent */
  int n_live;                 /* children that are or contain a GPU or NIC */
  int index;                  /* of a GPU, NIC, socket or kept switch; else NONE */
} Element;

typedef struct {
  const char *file;
  GArray *elements; /* of Element */
  GStringChunk *texts;
  int open, depth;
  NodeImport *import;
} Reader;

static Element *element_at(const Reader *r, int i) {
  return &g_array_index(r->elements, Element, i);
}

static int n_elements(const Reader *r) {
  return (int)r->elements->len;
}

static gboolean fail_at(const Reader *r, int line, GError **error, const char *format, ...) G_GNUC_PRINTF(4, 5);
static gboolean fail_at(const Reader *r, int line, GError **error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  return fail_input(error, "%s:%d: %s", r->file, line, message);
}

/* Events. */

static Tag tag_of(const char *name) {
  for (Tag tag = 0; tag < N_TAGS; tag++)
    if (strcmp(name, tags[tag]) == 0)
      return tag;
  return TAG_OTHER;
}

/* GMarkup reports the position after the tag, which is the start of the next line if the tag ends one. */
static int line_of_tag(GMarkupParseContext *context) {
  int line = 1, column = 1;
  g_markup_parse_context_get_position(context, &line, &column);
  return column == 1 ? MAX(line - 1, 1) : line;
}

static void on_start(GMarkupParseContext *context, const char *name, const char **names, const char **values,
                     gpointer data, GError **error) {
  Reader *r = data;
  int line = line_of_tag(context);
  Element element = {.tag = tag_of(name), .parent = r->open, .line = line, .index = NONE};
  if (n_elements(r) == 0 && element.tag != TAG_SYSTEM)
    fail_at(r, line, error, "found <%.40s>, expected <system>: a file that NCCL_TOPO_DUMP_FILE names", name);
  else if (n_elements(r) == MAX_ELEMENTS)
    fail_at(r, line, error, "more than %d elements, expected one machine", MAX_ELEMENTS);
  else if (++r->depth > MAX_DEPTH)
    fail_at(r, line, error, "nested more than %d deep", MAX_DEPTH);
  for (int i = 0; names[i] != NULL; i++)
    for (int key = 0; key < N_KEYS; key++)
      if (strcmp(names[i], keys[key]) == 0)
        element.values[key] = g_string_chunk_insert(r->texts, values[i]);
  r->open = n_elements(r);
  g_array_append_val(r->elements, element);
}

static void on_end(GMarkupParseContext *context, const char *name, gpointer data, GError **error) {
  Reader *r = data;
  r->open = element_at(r, r->open)->parent;
  r->depth--;
}

/* GLib's own errors name a line in their text; add the file. */
static gboolean parse(Reader *r, const char *text, gsize length, GError **error) {
  static const GMarkupParser parser = {.start_element = on_start, .end_element = on_end};
  GMarkupParseContext *context = g_markup_parse_context_new(&parser, 0, r, NULL);
  g_autoptr(GError) problem = NULL;
  gboolean ok = g_markup_parse_context_parse(context, text, (gssize)length, &problem) &&
                g_markup_parse_context_end_parse(context, &problem);
  int line = 1;
  g_markup_parse_context_get_position(context, &line, NULL);
  g_markup_parse_context_free(context);
  if (ok)
    return TRUE;
  if (problem->domain == STEPSIM_ERROR)
    g_propagate_error(error, g_steal_pointer(&problem));
  else
    fail_at(r, line, error, "not XML as expected: %s", problem->message);
  return FALSE;
}

/* Values. */

static gboolean read_integer(const Reader *r, const Element *e, Key key, IntegerRange range, gint64 *value,
                             GError **error) {
  const char *text = e->values[key];
  if (text == NULL)
    return fail_at(r, e->line, error, "<%s> has no %s", tags[e->tag], keys[key]);
  if (g_ascii_string_to_signed(text, 10, range.least, range.most, value, NULL))
    return TRUE;
  return fail_at(r, e->line, error,
                 "%s: found \"%.80s\", expected a whole number from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
                 keys[key], text, range.least, range.most);
}

/* Bytes per second of a PCIe link, from "16.0 GT/s PCIe" and "16"; 0: not said. Line codes: 8 of 10 bits up to PCIe
 * 2, 128 of 130 up to 5, 242 of 256 bytes of a flit in 6. */
static gboolean read_rate(const Reader *r, const Element *e, double *Bps, GError **error) {
  *Bps = 0;
  const char *speed = e->values[KEY_SPEED], *width = e->values[KEY_WIDTH];
  if (e->tag != TAG_PCI || speed == NULL || width == NULL || *speed == '\0' || *width == '\0' ||
      !g_ascii_isdigit(*speed)) /* "Unknown" in virtual machines */
    return TRUE;
  gint64 lanes;
  if (!read_integer(r, e, KEY_WIDTH, (IntegerRange){0, 64}, &lanes, error))
    return FALSE;
  char *end;
  double GTps = g_ascii_strtod(speed, &end);
  if (!g_str_has_prefix(end, " GT/s") || !(GTps > 0 && GTps <= 256))
    return fail_at(r, e->line, error, "link_speed: found \"%.80s\", expected a rate such as 16.0 GT/s", speed);
  double code = GTps < 8 ? 8.0 / 10 : GTps < 64 ? 128.0 / 130 : 242.0 / 256;
  *Bps = (double)lanes * GTps * 1e9 * code / 8;
  return TRUE;
}

/* Devices. */

static int compare_devs(gconstpointer a, gconstpointer b) {
  const gint64 *x = a, *y = b; /* (dev, element) */
  return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

typedef struct {
  gint64 dev, element;
} Device;

static gboolean add_gpu(Reader *r, int i, GArray *gpus, GError **error) {
  const Element *e = element_at(r, i);
  gint64 sm = 0;
  Device device = {.element = i};
  if (e->parent == NONE || element_at(r, e->parent)->tag != TAG_PCI)
    return fail_at(r, e->line, error, "found <gpu> outside of <pci>");
  if (!read_integer(r, e, KEY_DEV, (IntegerRange){0, 65535}, &device.dev, error) ||
      (e->values[KEY_SM] != NULL && !read_integer(r, e, KEY_SM, (IntegerRange){0, 1000}, &sm, error)))
    return FALSE;
  r->import->sm = MAX(r->import->sm, (int)sm);
  g_array_append_val(gpus, device);
  return TRUE;
}

/* Number GPUs by device number, as CUDA and a node's ranks do. */
static gboolean number_gpus(Reader *r, GArray *gpus, GError **error) {
  g_array_sort(gpus, compare_devs);
  for (guint i = 0; i < gpus->len; i++) {
    const Device *device = &g_array_index(gpus, Device, i);
    Element *e = element_at(r, (int)device->element);
    if (i > 0 && device[-1].dev == device->dev)
      return fail_at(r, e->line, error, "dev %" G_GINT64_FORMAT " is that of two GPUs", device->dev);
    e->index = (int)i;
  }
  return TRUE;
}

static gboolean find_gpus(Reader *r, int *n_gpus, GError **error) {
  g_autoptr(GArray) gpus = g_array_new(FALSE, FALSE, sizeof(Device));
  for (int i = 0; i < n_elements(r); i++)
    if (element_at(r, i)->tag == TAG_GPU && !add_gpu(r, i, gpus, error))
      return FALSE;
  *n_gpus = (int)gpus->len;
  if (gpus->len < 1 || gpus->len > MAX_DEVICES)
    return fail_at(r, 1, error, "found %u GPUs, expected 1 to %d", gpus->len, MAX_DEVICES);
  return number_gpus(r, gpus, error);
}

/* The PCIe function or CPU that a net belongs to, two levels up: <nic> is in between. NONE: no such parent. */
static int holder_of_net(const Reader *r, int i) {
  int nic = element_at(r, i)->parent;
  int holder = nic != NONE && element_at(r, nic)->tag == TAG_NIC ? element_at(r, nic)->parent : NONE;
  Tag tag = holder != NONE ? element_at(r, holder)->tag : TAG_OTHER;
  return tag == TAG_PCI || tag == TAG_CPU ? holder : NONE;
}

static gboolean find_fastest_net(Reader *r, gint64 *most_Mbps, GError **error) {
  *most_Mbps = 0;
  for (int i = 0; i < n_elements(r); i++) {
    gint64 Mbps = 0;
    if (element_at(r, i)->tag != TAG_NET || holder_of_net(r, i) == NONE)
      continue;
    if (!read_integer(r, element_at(r, i), KEY_NET_SPEED, (IntegerRange){0, 100000000}, &Mbps, error))
      return FALSE;
    *most_Mbps = MAX(*most_Mbps, Mbps);
  }
  return TRUE;
}

static void leave_net_out(Reader *r, const Element *e, const char *why) {
  const char *name = e->values[KEY_NET_NAME] != NULL ? e->values[KEY_NET_NAME] : "a net";
  node_import_note(r->import, "%.40s is left out: %s", name, why);
}

/* NICs are the nets as fast as the fastest one; slower ones serve storage and management. */
static gboolean find_nics(Reader *r, int *n_nics, GError **error) {
  gint64 most_Mbps;
  *n_nics = 0;
  if (!find_fastest_net(r, &most_Mbps, error))
    return FALSE;
  for (int i = 0; i < n_elements(r); i++) {
    Element *e = element_at(r, i);
    gint64 Mbps;
    if (e->tag != TAG_NET)
      continue;
    if (holder_of_net(r, i) == NONE)
      leave_net_out(r, e, "it hangs on no CPU or PCIe device");
    else if (!read_integer(r, e, KEY_NET_SPEED, (IntegerRange){0, 100000000}, &Mbps, error))
      return FALSE;
    else if (Mbps < most_Mbps || Mbps == 0)
      leave_net_out(r, e, "it is slower than the fastest");
    else
      e->index = (*n_nics)++;
  }
  r->import->nic_Bps = (double)most_Mbps * 1e6 / 8;
  return *n_nics <= MAX_DEVICES || fail_at(r, 1, error, "found %d NICs, expected at most %d", *n_nics, MAX_DEVICES);
}

/* The tree. */

static gboolean is_device(const Element *e) {
  return (e->tag == TAG_GPU || e->tag == TAG_NET) && e->index != NONE;
}

/* Children come after their parents, so one pass from the end suffices. */
static void count_live(Reader *r) {
  for (int i = n_elements(r) - 1; i > 0; i--) {
    Element *e = element_at(r, i);
    if (is_device(e) || e->n_live > 0)
      element_at(r, e->parent)->n_live++;
  }
}

static gboolean is_kept_switch(const Reader *r, int i) {
  const Element *e = element_at(r, i);
  return e->tag == TAG_PCI && e->n_live > 1;
}

/* From `i` up to the first kept switch or CPU above: that element, and the bandwidth of the slowest link on the way;
 * 0: none stated. */
static gboolean find_plug(const Reader *r, int i, int *plug, double *Bps, GError **error) {
  double least_Bps = INFINITY, rate_Bps;
  do {
    if (!read_rate(r, element_at(r, i), &rate_Bps, error))
      return FALSE;
    if (rate_Bps > 0)
      least_Bps = MIN(least_Bps, rate_Bps);
    i = element_at(r, i)->parent;
  } while (i != NONE && element_at(r, i)->tag != TAG_CPU && !is_kept_switch(r, i));
  *plug = i;
  *Bps = isinf(least_Bps) ? 0 : least_Bps;
  return i != NONE || fail_at(r, 1, error, "found a device outside of every <cpu>");
}

static gboolean find_port(const Reader *r, int i, PciePort *port, GError **error) {
  int plug;
  double Bps;
  if (!find_plug(r, i, &plug, &Bps, error))
    return FALSE;
  const Element *e = element_at(r, plug);
  if (e->tag == TAG_CPU)
    *port = (PciePort){e->index, NONE, Bps};
  else
    *port = (PciePort){r->import->node.switches[e->index].socket, e->index, Bps};
  return TRUE;
}

static gboolean add_switch(Reader *r, int i, GError **error) {
  NodeTopology *node = &r->import->node;
  PciePort up;
  if (!find_port(r, i, &up, error))
    return FALSE;
  node->switches[node->n_switches] = (PcieSwitch){up.socket, up.pcie_switch, up.Bps};
  element_at(r, i)->index = node->n_switches++;
  return TRUE;
}

/* Sockets first, then switches (each before what is below it), then devices. */
static gboolean build_tree(Reader *r, GError **error) {
  NodeImport *import = r->import;
  NodeTopology *node = &import->node;
  for (int i = 0; i < n_elements(r); i++) {
    Element *e = element_at(r, i);
    if (e->tag != TAG_CPU || e->n_live == 0)
      continue;
    e->index = node->n_sockets++;
    gint64 model = 0;
    if (e->values[KEY_MODEL] != NULL && g_ascii_string_to_signed(e->values[KEY_MODEL], 10, 0, 65535, &model, NULL))
      import->cpu_model = (int)model;
    if (import->cpu_vendor == NULL)
      import->cpu_vendor = g_strdup(e->values[KEY_VENDOR]);
  }
  if (node->n_sockets < 1 || node->n_sockets > MAX_SOCKETS)
    return fail_at(r, 1, error, "found %d <cpu> with GPUs or NICs, expected 1 to %d", node->n_sockets, MAX_SOCKETS);
  node->switches = g_new0(PcieSwitch, n_elements(r));
  for (int i = 0; i < n_elements(r); i++)
    if (is_kept_switch(r, i) && !add_switch(r, i, error))
      return FALSE;
  for (int i = 0; i < n_elements(r); i++) {
    const Element *e = element_at(r, i);
    PciePort *ports = e->tag == TAG_GPU ? node->gpu_ports : node->nic_ports;
    if (is_device(e) && !find_port(r, i, &ports[e->index], error))
      return FALSE;
  }
  return TRUE;
}

/* NVLinks. */

static int gpu_on_bus(const Reader *r, const char *bus) {
  for (int i = 0; i < n_elements(r); i++) {
    const Element *e = element_at(r, i);
    const char *at = e->tag == TAG_GPU ? element_at(r, e->parent)->values[KEY_BUS] : NULL;
    if (at != NULL && g_ascii_strcasecmp(at, bus) == 0)
      return e->index;
  }
  return NONE;
}

/* counts: (n, n), links as stated by the row's GPU. */
static gboolean read_nvlink(Reader *r, const Element *e, int *counts, GError **error) {
  const Element *owner = e->parent != NONE ? element_at(r, e->parent) : NULL;
  gint64 count;
  if (owner == NULL || owner->tag != TAG_GPU)
    return fail_at(r, e->line, error, "found <nvlink> outside of <gpu>");
  if (e->values[KEY_TARGET] == NULL)
    return fail_at(r, e->line, error, "<nvlink> has no target");
  if (!read_integer(r, e, KEY_COUNT, (IntegerRange){0, 64}, &count, error))
    return FALSE;
  int n = r->import->node.n_gpus, peer = gpu_on_bus(r, e->values[KEY_TARGET]);
  const char *class = e->values[KEY_TARGET_CLASS] != NULL ? e->values[KEY_TARGET_CLASS] : "";
  if (peer == owner->index)
    return fail_at(r, e->line, error, "found GPU %d wired to itself", peer);
  if (peer != NONE)
    counts[owner->index * n + peer] += (int)count;
  else if (g_str_has_prefix(class, "0x0680") && !g_str_has_prefix(class, "0x068001"))
    r->import->switch_links[owner->index] += (int)count;
  else
    node_import_note(r->import, "an NVLink of GPU %d to %.40s is left out: that is no GPU here and no NVSwitch",
                     owner->index, e->values[KEY_TARGET]);
  return TRUE;
}

static gboolean find_nvlinks(Reader *r, GError **error) {
  NodeTopology *node = &r->import->node;
  int n = node->n_gpus;
  g_autofree int *counts = g_new0(int, (gsize)n *(gsize)n);
  for (int i = 0; i < n_elements(r); i++)
    if (element_at(r, i)->tag == TAG_NVLINK && !read_nvlink(r, element_at(r, i), counts, error))
      return FALSE;
  g_autoptr(GArray) pairs = g_array_new(FALSE, FALSE, sizeof(MeshPair));
  for (int a = 0; a < n; a++)
    for (int b = a + 1; b < n; b++) {
      MeshPair pair = {a, b, MAX(counts[a * n + b], counts[b * n + a])};
      if (counts[a * n + b] != counts[b * n + a])
        node_import_note(r->import, "GPUs %d and %d disagree on their NVLinks: the larger number is taken", a, b);
      if (pair.n_links > 0)
        g_array_append_val(pairs, pair);
    }
  node->n_pairs = (int)pairs->len;
  node->pairs = g_memdup2(pairs->data, pairs->len * sizeof(MeshPair));
  return TRUE;
}

static gboolean build(Reader *r, GError **error) {
  int n_gpus, n_nics;
  if (n_elements(r) == 0)
    return fail_at(r, 1, error, "the file is empty, expected <system>");
  if (!find_gpus(r, &n_gpus, error) || !find_nics(r, &n_nics, error))
    return FALSE;
  NodeTopology *node = &r->import->node;
  node->n_gpus = n_gpus;
  node->n_nics = n_nics;
  node->gpu_ports = g_new0(PciePort, n_gpus);
  node->nic_ports = g_new0(PciePort, n_nics);
  r->import->switch_links = g_new0(int, n_gpus);
  count_live(r);
  return build_tree(r, error) && find_nvlinks(r, error);
}

NodeImport *nccl_xml_parse(const char *name, const char *text, gsize length, GError **error) {
  g_autoptr(NodeImport) import = node_import_new(g_strdup_printf("NCCL's topology XML %s", name));
  Reader r = {.file = name,
              .elements = g_array_new(FALSE, FALSE, sizeof(Element)),
              .texts = g_string_chunk_new(4096),
              .open = NONE,
              .import = import};
  gboolean ok = parse(&r, text, length, error) && build(&r, error);
  g_array_unref(r.elements);
  g_string_chunk_free(r.texts);
  return ok ? g_steal_pointer(&import) : NULL;
}
