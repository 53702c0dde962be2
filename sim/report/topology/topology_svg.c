/* One picture of the first node and of what stands above it, in rows:
 *
 *     tiers, the top one first        one block of each
 *     leaves                          those of the node's group
 *     NVSwitch, or NVLinks as arcs
 *     GPUs and NICs                   side by side, over the switch they are plugged into
 *     PCIe switches                   a row per depth
 *     CPU sockets
 *
 * Columns are the devices; a switch stands in the middle of the columns below it. Lines are written first, so that
 * boxes cover their ends. Everything is black on white but for a shade per kind; kinds differ in width and dashes. */
#include <math.h>

#include "topology_report.h"
#include "units.h"
#include "wiring.h"

enum {
  LEFT = 230, /* of the columns; left of it the rows' labels */
  COLUMN = 78,
  BOX_WIDTH = 66,
  BOX_HEIGHT = 32,
  ROW = 92,
  TOP = 64,
  LETTER = 7, /* width of one at size 12 */
  MOST_ARC = 200
};

typedef struct {
  const char *stroke, *width, *dashes;
} Pen;
static const Pen pens[N_CABLE_KINDS] = {[CABLE_NVLINK] = {"#1b7837", "3", "none"},
                                        [CABLE_PCIE] = {"#000000", "1.3", "none"},
                                        [CABLE_SOCKETS] = {"#555555", "5", "none"},
                                        [CABLE_NET] = {"#2166ac", "1.8", "7 3"}};
static const char *const fills[N_VERTEX_KINDS] = {
    [VERTEX_GPU] = "#d9f0d3",    [VERTEX_NIC] = "#d1e5f0",      [VERTEX_PCIE_SWITCH] = "#f7f7f7",
    [VERTEX_SOCKET] = "#e0e0e0", [VERTEX_NVSWITCH] = "#d9f0d3", [VERTEX_LEAF] = "#d1e5f0",
    [VERTEX_TIER] = "#d1e5f0"};

typedef struct {
  int x, y;
  gboolean is_shown;
} Spot;

typedef struct {
  const Topology *topology;
  Spot *spots;   /* by vertex */
  int *widths;   /* of boxes */
  GArray *order; /* vertices of devices, by column */
  GString *lines, *boxes, *labels;
  int width, height, n_fabric_rows;
} Picture;

/* Where things stand. */

static void place(Picture *p, int vertex, int x, int y, int width) {
  p->spots[vertex] = (Spot){x, y, TRUE};
  p->widths[vertex] = width;
}

static void add_device(Picture *p, VertexKind kind, int index) {
  int vertex = topology_vertex(p->topology, kind, 0, index);
  g_array_append_val(p->order, vertex);
}

static void order_holder(Picture *p, int socket, int pcie_switch) {
  const NodeTopology *node = &p->topology->cluster->node;
  for (int i = 0; i < node->n_switches; i++)
    if (node->switches[i].socket == socket && node->switches[i].parent == pcie_switch)
      order_holder(p, socket, i);
  for (int i = 0; i < node->n_gpus; i++)
    if (node->gpu_ports[i].socket == socket && node->gpu_ports[i].pcie_switch == pcie_switch)
      add_device(p, VERTEX_GPU, i);
  for (int i = 0; i < node->n_nics; i++)
    if (node->nic_ports[i].socket == socket && node->nic_ports[i].pcie_switch == pcie_switch)
      add_device(p, VERTEX_NIC, i);
}

/* Without a tree a NIC follows the last GPU it serves. */
static void order_rails(Picture *p) {
  const NodeTopology *node = &p->topology->cluster->node;
  g_autofree int *last = g_new(int, node->n_nics + 1);
  for (int nic = 0; nic < node->n_nics; nic++)
    last[nic] = node->n_gpus - 1;
  for (int i = 0; i < node->n_rails; i++)
    last[node->rails[i].nic] = node->rails[i].gpu; /* rails are sorted by GPU */
  for (int gpu = 0; gpu < node->n_gpus; gpu++) {
    add_device(p, VERTEX_GPU, gpu);
    for (int nic = 0; nic < node->n_nics; nic++)
      if (last[nic] == gpu)
        add_device(p, VERTEX_NIC, nic);
  }
}

static void order_devices(Picture *p) {
  const NodeTopology *node = &p->topology->cluster->node;
  for (int socket = 0; socket < node->n_sockets; socket++)
    order_holder(p, socket, -1);
  if (node->n_sockets == 0)
    order_rails(p);
}

static int depth_of(const NodeTopology *node, int pcie_switch) {
  int depth = 0;
  for (int at = node->switches[pcie_switch].parent; at >= 0; at = node->switches[at].parent)
    depth++;
  return depth;
}

/* The middle of the columns whose devices lie below; of the whole row when none does. */
static int middle_of(const Picture *p, int socket, int pcie_switch) {
  const Topology *t = p->topology;
  const NodeTopology *node = &t->cluster->node;
  int least = G_MAXINT, most = -1;
  for (guint i = 0; i < p->order->len; i++) {
    int vertex = g_array_index(p->order, int, i);
    const TopologyVertex *at = &t->vertices[vertex];
    const PciePort *port = at->kind == VERTEX_GPU ? &node->gpu_ports[at->index] : &node->nic_ports[at->index];
    int holder = port->pcie_switch;
    while (holder >= 0 && holder != pcie_switch)
      holder = node->switches[holder].parent;
    if (pcie_switch >= 0 ? holder != pcie_switch : port->socket != socket)
      continue;
    least = MIN(least, p->spots[vertex].x);
    most = MAX(most, p->spots[vertex].x);
  }
  return most >= 0 ? (least + most) / 2 : LEFT + (socket + 1) * COLUMN;
}

/* Row after row of the PCIe tree, below `y`. Returns the last row's. */
static int place_pcie(Picture *p, int y) {
  const NodeTopology *node = &p->topology->cluster->node;
  int deepest = -1;
  for (int i = 0; i < node->n_switches; i++)
    deepest = MAX(deepest, depth_of(node, i));
  for (int i = 0; i < node->n_switches; i++)
    place(p, topology_vertex(p->topology, VERTEX_PCIE_SWITCH, 0, i), middle_of(p, node->switches[i].socket, i),
          y + (deepest - depth_of(node, i) + 1) * ROW, BOX_WIDTH);
  for (int socket = 0; socket < node->n_sockets; socket++)
    place(p, topology_vertex(p->topology, VERTEX_SOCKET, 0, socket), middle_of(p, socket, -1), y + (deepest + 2) * ROW,
          2 * BOX_WIDTH);
  int hub = node->n_sockets == 0 ? topology_vertex(p->topology, VERTEX_PCIE_SWITCH, 0, 0) : -1;
  if (hub >= 0)
    place(p, hub, (LEFT + p->width) / 2, y + ROW, 3 * BOX_WIDTH);
  return node->n_sockets > 0 ? y + (deepest + 2) * ROW : hub >= 0 ? y + ROW : y;
}

/* The vertex above; −1: it is the top. */
static int net_above(const Topology *t, int vertex) {
  const int link = topology_uplink(t, vertex, CABLE_NET);
  return link >= 0 ? t->links[link].b : -1;
}

static int count_levels(const Topology *t, int nic) {
  int n = 0;
  for (int at = nic; at >= 0; at = net_above(t, at))
    n++;
  return n - 1;
}

/* From the NICs up. */
static void place_fabric(Picture *p) {
  const Topology *t = p->topology;
  for (int nic = 0; nic < t->cluster->nics_per_node; nic++) {
    int level = p->n_fabric_rows;
    int from = topology_vertex(p->topology, VERTEX_NIC, 0, nic);
    int n_leaves = t->cluster->nics_per_node;
    for (int at = net_above(t, from); at >= 0; at = net_above(t, at)) {
      level--;
      gboolean is_rail = t->vertices[at].kind == VERTEX_LEAF && t->vertices[at].index >= 0;
      int x = is_rail ? LEFT + (p->width - LEFT) * (2 * nic + 1) / (2 * n_leaves) : (LEFT + p->width) / 2;
      place(p, at, x, TOP + level * ROW, is_rail ? BOX_WIDTH : 4 * BOX_WIDTH);
    }
  }
}

/* Arcs over the devices, as high as they are wide, up to a limit. */
static int arc_height(const Picture *p, int a, int b) {
  return MIN(MOST_ARC, 18 + ABS(p->spots[a].x - p->spots[b].x) / 4);
}

static int arcs_height(const Picture *p) {
  const Topology *t = p->topology;
  int most = 0;
  for (int i = 0; i < t->n_links; i++)
    if (t->cluster->scale_up == SCALE_UP_NVLINK_MESH && t->links[i].kind == CABLE_NVLINK &&
        t->links[i].a < t->cluster->gpus_per_node && t->links[i].b < t->cluster->gpus_per_node)
      most = MAX(most, arc_height(p, t->links[i].a, t->links[i].b));
  return most;
}

static int place_devices(Picture *p) {
  const Topology *t = p->topology;
  for (guint i = 0; i < p->order->len; i++) /* arcs are measured on columns */
    place(p, g_array_index(p->order, int, i), LEFT + COLUMN / 2 + (int)i * COLUMN, 0, BOX_WIDTH);
  int y = TOP + p->n_fabric_rows * ROW + arcs_height(p);
  int nvswitch = t->cluster->scale_up == SCALE_UP_NVSWITCH ? topology_vertex(p->topology, VERTEX_NVSWITCH, 0, 0) : -1;
  if (nvswitch >= 0) {
    place(p, nvswitch, (LEFT + p->width) / 2, y, p->width - LEFT - 20);
    y += ROW;
  }
  for (guint i = 0; i < p->order->len; i++)
    p->spots[g_array_index(p->order, int, i)].y = y;
  return y;
}

/* Drawing. */

static void append_text(GString *out, int x, int y, const char *anchor, int size, gboolean is_bold, const char *text) {
  g_autofree char *safe = g_markup_escape_text(text, -1);
  g_string_append_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"%s\" font-size=\"%d\"%s>%s</text>\n", x, y, anchor,
                         size, is_bold ? " font-weight=\"bold\"" : "", safe);
}

static void append_pen(GString *out, CableKind kind, const TopologyLink *link) {
  g_string_append_printf(out, " fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" stroke-dasharray=\"%s\"/>\n",
                         link != NULL && link->factor == 0 ? "#b2182b" : pens[kind].stroke,
                         kind == CABLE_NVLINK && link != NULL && link->n_parallel > 1 ? "5" : pens[kind].width,
                         link != NULL && link->factor == 0 ? "2 4" : pens[kind].dashes);
}

static void draw_link(Picture *p, const TopologyLink *link) {
  Spot a = p->spots[link->a], b = p->spots[link->b];
  if (!a.is_shown || !b.is_shown)
    return;
  gboolean is_arc = link->kind == CABLE_NVLINK && a.y == b.y;
  int wide = p->widths[link->b] / 2 - 8;
  int bx = CLAMP(a.x, b.x - wide, b.x + wide); /* into a wide box straight down */
  int middle_x = (a.x + bx) / 2, middle_y = (a.y + b.y) / 2;
  if (is_arc) {
    int height = arc_height(p, link->a, link->b), top = a.y - BOX_HEIGHT / 2;
    g_string_append_printf(p->lines, "<path d=\"M %d %d Q %d %d %d %d\"", a.x, top, middle_x, top - 2 * height, b.x,
                           top);
    bx = b.x;
    middle_x = (a.x + b.x) / 2;
    middle_y = top - height;
  } else {
    g_string_append_printf(p->lines, "<path d=\"M %d %d L %d %d\"", a.x, a.y, bx, b.y);
  }
  append_pen(p->lines, link->kind, link);
  if (link->factor == 1)
    return;
  g_autofree char *text = link->factor == 0 ? g_strdup("× dead") : g_strdup_printf("× %.3g %%", 100 * link->factor);
  if (link->kind == CABLE_NET) { /* near its lower end, below what it passes behind */
    middle_x = (3 * a.x + bx) / 4;
    middle_y = (3 * a.y + b.y) / 4;
  }
  append_text(p->labels, middle_x + 4, middle_y, "start", 12, TRUE, text);
}

static void draw_box(Picture *p, int vertex) {
  const Topology *t = p->topology;
  Spot spot = p->spots[vertex];
  VertexKind kind = t->vertices[vertex].kind;
  int width = p->widths[vertex];
  g_autofree char *name = topology_vertex_name(t, vertex);
  const char *slash = strchr(name, '/');
  g_string_append_printf(p->boxes,
                         "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" fill=\"%s\" stroke=\"#000000\" "
                         "stroke-width=\"%s\"/>\n",
                         spot.x - width / 2, spot.y - BOX_HEIGHT / 2, width, BOX_HEIGHT, kind == VERTEX_GPU ? 0 : 8,
                         fills[kind], kind == VERTEX_GPU ? "2" : "1");
  g_autofree char *wide = kind == VERTEX_NVSWITCH && t->cluster->domain_gpus > t->cluster->gpus_per_node
                              ? g_strdup_printf("NVSwitch of %d GPUs in %d nodes", t->cluster->domain_gpus,
                                                t->cluster->domain_gpus / t->cluster->gpus_per_node)
                              : NULL;
  append_text(p->boxes, spot.x, spot.y + 4, "middle", 12, FALSE,
              wide != NULL                           ? wide
              : slash != NULL && kind != VERTEX_TIER ? slash + 1
                                                     : name);
}

/* The labels of a row: what stands in it, and what its links carry to the row they go to. */
static void label_row(Picture *p, int y, const char *what, const char *links) {
  append_text(p->labels, 14, y, "start", 13, TRUE, what);
  if (links != NULL)
    append_text(p->labels, 14, y + 16, "start", 11, FALSE, links);
}

/* The bandwidth that all shown links of `kind` from vertices of `below` have, or a range. NULL: there are none, or it
 * is not stated. Owned by the caller. */
static char *common_rate(const Picture *p, CableKind kind, VertexKind below) {
  const Topology *t = p->topology;
  double least = INFINITY, most = 0;
  for (int i = 0; i < t->n_links; i++) {
    const TopologyLink *link = &t->links[i];
    if (link->kind != kind || t->vertices[link->a].kind != below || !p->spots[link->a].is_shown || isinf(link->Bps))
      continue;
    least = MIN(least, link->Bps);
    most = MAX(most, link->Bps);
  }
  if (most == 0)
    return NULL;
  g_autofree char *from = units_format(least, UNIT_BYTES_PER_SECOND), *to = units_format(most, UNIT_BYTES_PER_SECOND);
  return least == most ? g_strdup(from) : g_strdup_printf("%s to %s", from, to);
}

static void label_vertex_row(Picture *p, VertexKind kind, const char *what, CableKind cable, const char *format) {
  const Topology *t = p->topology;
  int y = -1;
  for (int v = 0; v < t->n_vertices; v++)
    if (p->spots[v].is_shown && t->vertices[v].kind == kind)
      y = MAX(y, p->spots[v].y);
  g_autofree char *rate = common_rate(p, cable, kind);
  g_autofree char *links = rate != NULL ? g_strdup_printf("%s %s", format, rate) : NULL;
  if (y >= 0)
    label_row(p, y, what, links);
}

static void label_tiers(Picture *p) {
  const Topology *t = p->topology;
  for (int v = 0; v < t->n_vertices; v++) {
    if (!p->spots[v].is_shown || t->vertices[v].kind != VERTEX_TIER)
      continue;
    int tier = t->vertices[v].owner;
    g_autofree char *what = tier < t->cluster->n_tiers
                                ? g_strdup_printf("joins %" G_GINT64_FORMAT " GPUs", t->cluster->tiers[tier].span_gpus)
                                : g_strdup("joins all");
    const int link = topology_uplink(t, v, CABLE_NET);
    g_autofree char *Bps = link >= 0 ? units_format(t->links[link].Bps, UNIT_BYTES_PER_SECOND) : NULL;
    g_autofree char *links = Bps != NULL ? g_strdup_printf("uplink %s", Bps) : NULL;
    label_row(p, p->spots[v].y, what, links);
  }
}

static void label_rows(Picture *p) {
  const Cluster *cluster = p->topology->cluster;
  label_tiers(p);
  label_vertex_row(p, VERTEX_LEAF, "leaf switches", CABLE_NET, "uplink, each:");
  g_autofree char *net = common_rate(p, CABLE_NET, VERTEX_NIC), *nvlink = common_rate(p, CABLE_NVLINK, VERTEX_GPU);
  g_autofree char *slot = common_rate(p, CABLE_PCIE, VERTEX_GPU);
  int y = p->spots[0].y,
      nvswitch = cluster->scale_up == SCALE_UP_NVSWITCH ? topology_vertex(p->topology, VERTEX_NVSWITCH, 0, 0) : -1;
  if (nvswitch >= 0)
    label_row(p, p->spots[nvswitch].y, "NVLink", nvlink != NULL ? nvlink : NULL);
  const char *parts[] = {net != NULL ? "NIC " : "",   net != NULL ? net : "",   net != NULL && slot != NULL ? "; " : "",
                         slot != NULL ? "slot " : "", slot != NULL ? slot : "", NULL};
  g_autofree char *links = g_strjoinv("", (char **)parts);
  label_row(p, y, cluster->nics_per_node > 0 ? "GPUs and NICs" : "GPUs", links);
  if (cluster->scale_up == SCALE_UP_NVLINK_MESH) {
    label_row(p, y - 62, "NVLink", nvlink);
    append_text(p->labels, 14, y - 30, "start", 11, FALSE, "thick arcs: several links");
  }
  label_vertex_row(p, VERTEX_PCIE_SWITCH, "PCIe switches", CABLE_PCIE, "uplink");
  label_vertex_row(p, VERTEX_SOCKET, "CPU sockets", CABLE_SOCKETS, "between them");
}

static void draw_legend(Picture *p, int y) {
  int x = 14;
  for (CableKind kind = 0; kind < N_CABLE_KINDS; kind++, x += 150) {
    g_string_append_printf(p->lines, "<path d=\"M %d %d L %d %d\"", x, y, x + 46, y);
    append_pen(p->lines, kind, NULL);
    append_text(p->labels, x + 54, y + 4, "start", 12, FALSE, cable_kind_name(kind));
  }
}

/* What costs take of the wiring, a line for each of its parts. Returns what is below the last one. */
static int draw_wiring(Picture *p, int y) {
  const NodeWiring *wiring = p->topology->cluster->wiring;
  if (wiring == NULL)
    return y;
  g_auto(GStrv) parts = g_strsplit(wiring->no_path != NULL ? wiring->no_path : wiring->text, "; ", -1);
  for (int i = 0; parts[i] != NULL; i++, y += 18) {
    append_text(p->labels, 14, y, "start", 12, FALSE, parts[i]);
    p->width = MAX(p->width, (int)g_utf8_strlen(parts[i], -1) * LETTER);
  }
  return y;
}

static char *assemble(Picture *p) {
  const Cluster *cluster = p->topology->cluster;
  int width = MAX(p->width + 20, 640);
  g_autofree char *title =
      g_strdup_printf("%s: one node, and what joins nodes; bandwidths per direction, GB = 1e9 B", cluster->name);
  append_text(p->labels, 14, 26, "start", 15, TRUE, title);
  GString *out = g_string_new(NULL);
  g_string_append_printf(out,
                         "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
                         "font-family=\"DejaVu Sans, Helvetica, sans-serif\">\n"
                         "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n%s%s%s</svg>\n",
                         width, p->height, width, p->height, width, p->height, p->lines->str, p->boxes->str,
                         p->labels->str);
  return g_string_free(out, FALSE);
}

char *topology_svg(const Topology *t) {
  Picture p = {.topology = t,
               .spots = g_new0(Spot, t->n_vertices),
               .widths = g_new0(int, t->n_vertices),
               .order = g_array_new(FALSE, FALSE, sizeof(int)),
               .lines = g_string_new(NULL),
               .boxes = g_string_new(NULL),
               .labels = g_string_new(NULL)};
  int nic = topology_vertex(t, VERTEX_NIC, 0, 0);
  p.n_fabric_rows = nic >= 0 ? count_levels(t, nic) : 0;
  order_devices(&p);
  p.width = LEFT + MAX((int)p.order->len, 6) * COLUMN;
  int devices_y = place_devices(&p);
  int last_y = place_pcie(&p, devices_y);
  place_fabric(&p);
  for (int i = 0; i < t->n_links; i++)
    draw_link(&p, &t->links[i]);
  for (int v = 0; v < t->n_vertices; v++)
    if (p.spots[v].is_shown)
      draw_box(&p, v);
  label_rows(&p);
  draw_legend(&p, last_y + 62);
  p.height = draw_wiring(&p, last_y + 96);
  char *svg = assemble(&p);
  g_free(p.spots);
  g_free(p.widths);
  g_array_unref(p.order);
  g_string_free(p.lines, TRUE);
  g_string_free(p.boxes, TRUE);
  g_string_free(p.labels, TRUE);
  return svg;
}
