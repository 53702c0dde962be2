/* For each pair of devices the matrix states the farthest thing between them:
 *
 *             GPU0  GPU1  NIC0  CPU Affinity  NUMA Affinity     X     the same
 *     GPU0     X    NV18  PIX   0-47          0                 PIX   one PCIe switch
 *     GPU1    NV18   X    PXB   0-47          0                 PXB   several, no host bridge
 *     NIC0    PIX   PXB    X                                    PHB   a host bridge
 *                                                               NODE  several host bridges of a NUMA node
 *                                                               SYS   the link between NUMA nodes (older: SOC)
 *                                                               NV#   # NVLinks: hides what PCIe lies between
 *
 * Grouping by PIX, then PXB, then anything but SYS gives switches, switches above them, and sockets. If NV# hides the
 * relation of two GPUs, they share a socket if their NUMA node, or else their CPUs, are the same; a shared switch is
 * visible only through NICs below it. Facts of the format: `nvidia-smi topo -m`'s own legend; matrices posted in
 * issue trackers (DeepEP 128, nccl-tests 78, nccl 933). */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "node_import.h"
#include "suggest.h"

enum { MAX_DEVICES = 1024, NONE = -1 };

typedef enum { SAME, PIX, PXB, PHB, NODE, SYS, HIDDEN } Relation; /* HIDDEN: by NVLink */

typedef struct {
  char *name; /* owned */
  gboolean is_gpu;
  int index;      /* GPU or NIC */
  char *affinity; /* NUMA node or CPUs of a GPU; owned; NULL: not said */
  gboolean has_row;
} Device;

typedef struct {
  const char *file;
  GArray *devices;   /* of Device, by column */
  guint8 *relations; /* (n, n) of Relation; SAME: not yet read */
  guint8 *nvlinks;   /* (n, n) */
  int *lines;        /* (n): lines of the rows */
  NodeImport *import;
} Reader;

static Device *device_at(const Reader *r, int i) {
  return &g_array_index(r->devices, Device, i);
}

static int n_devices(const Reader *r) {
  return (int)r->devices->len;
}

static void clear_device(gpointer device) {
  g_free(((Device *)device)->name);
  g_free(((Device *)device)->affinity);
}

/* Strip terminal colours and underlines and split at blanks. Owned by the caller. */
static GPtrArray *split_line(const char *line) {
  GPtrArray *words = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GString) word = g_string_new(NULL);
  for (const char *c = line;; c++) {
    if (c[0] == '\x1b' && c[1] == '[') {
      for (c += 2; *c != '\0' && !g_ascii_isalpha(*c);)
        c++;
      if (*c == '\0')
        c--;
      continue;
    }
    if (*c != '\0' && !g_ascii_isspace(*c)) {
      g_string_append_c(word, *c);
      continue;
    }
    if (word->len > 0)
      g_ptr_array_add(words, g_strdup(word->str));
    g_string_truncate(word, 0);
    if (*c == '\0')
      return words;
  }
}

static const char *word_at(const GPtrArray *words, int i) {
  return i < (int)words->len ? words->pdata[i] : "";
}

static gboolean is_numbered(const char *word, const char *start) {
  return g_str_has_prefix(word, start) && g_ascii_isdigit(word[strlen(start)]);
}

/* Columns before "CPU Affinity", "NUMA Affinity", "GPU NUMA ID". */
static gboolean read_header(Reader *r, const GPtrArray *words, int line, GError **error) {
  int n_gpus = 0, n_nics = 0;
  for (int i = 0; i < (int)words->len; i++) {
    const char *name = word_at(words, i);
    if (strcmp(name, "CPU") == 0 || strcmp(name, "NUMA") == 0 || strcmp(name, "GPU") == 0)
      break;
    if (n_devices(r) == MAX_DEVICES)
      return fail_input(error, "%s:%d: more than %d columns", r->file, line, MAX_DEVICES);
    gboolean is_gpu = is_numbered(name, "GPU");
    Device device = {g_strdup(name), is_gpu, is_gpu ? n_gpus++ : n_nics++, NULL, FALSE};
    g_array_append_val(r->devices, device);
  }
  gsize n = (gsize)n_devices(r);
  r->relations = g_new0(guint8, n * n);
  r->nvlinks = g_new0(guint8, n * n);
  r->lines = g_new0(int, n);
  r->import->node.n_gpus = n_gpus;
  r->import->node.n_nics = n_nics;
  return TRUE;
}

static gboolean parse_relation(const char *word, Relation *relation, int *n_links) {
  static const char *const names[] = {
      [SAME] = "X", [PIX] = "PIX", [PXB] = "PXB", [PHB] = "PHB", [NODE] = "NODE", [SYS] = "SYS"};
  gint64 links;
  *n_links = 0;
  for (Relation at = SAME; at <= SYS; at++)
    if (strcmp(word, names[at]) == 0) {
      *relation = at;
      return TRUE;
    }
  *relation = strcmp(word, "SOC") == 0 ? SYS : HIDDEN;
  if (*relation == SYS)
    return TRUE;
  if (!g_str_has_prefix(word, "NV") || !g_ascii_string_to_signed(word + 2, 10, 1, 64, &links, NULL))
    return FALSE;
  *n_links = (int)links;
  return TRUE;
}

static gboolean fail_relation(const Reader *r, int line, const char *word, int column, GError **error) {
  static const char *const names[] = {"X", "NV#", "PIX", "PXB", "PHB", "NODE", "SYS", NULL};
  g_autofree char *expected = suggest_message(word, names);
  return fail_input(error, "%s:%d: %s: found \"%.40s\", %s", r->file, line, device_at(r, column)->name, word, expected);
}

static gboolean read_cell(Reader *r, int row, int column, const char *word, int line, GError **error) {
  Relation relation;
  int n_links, n = n_devices(r);
  if (!parse_relation(word, &relation, &n_links))
    return fail_relation(r, line, word, column, error);
  if ((relation == SAME) != (row == column))
    return fail_input(error, "%s:%d: %s: found \"%.40s\", expected X where a device meets itself and nowhere else",
                      r->file, line, device_at(r, column)->name, word);
  if (relation == HIDDEN && (!device_at(r, row)->is_gpu || !device_at(r, column)->is_gpu))
    return fail_input(error, "%s:%d: %s: found \"%.40s\", NVLinks join GPUs only", r->file, line,
                      device_at(r, column)->name, word);
  r->relations[row * n + column] = (guint8)relation;
  r->nvlinks[row * n + column] = (guint8)n_links;
  return TRUE;
}

/* What comes after the cells: "0-47 0 N/A"; the second is the NUMA node. */
static char *affinity_of(const GPtrArray *words, int after) {
  const char *cpus = word_at(words, after), *numa = word_at(words, after + 1);
  const char *said = g_ascii_isdigit(*numa) ? numa : g_ascii_isdigit(*cpus) ? cpus : NULL;
  return said != NULL ? g_strdup_printf("%s %s", said == numa ? "NUMA" : "CPUs", said) : NULL;
}

static gboolean read_row(Reader *r, const GPtrArray *words, int line, GError **error) {
  int n = n_devices(r), row = 0;
  while (row < n && strcmp(device_at(r, row)->name, word_at(words, 0)) != 0)
    row++;
  if (row == n)
    return TRUE; /* a legend */
  Device *device = device_at(r, row);
  if (device->has_row)
    return fail_input(error, "%s:%d: the row of %s is there twice", r->file, line, device->name);
  if ((int)words->len < n + 1)
    return fail_input(error, "%s:%d: %s: found %u cells, expected %d as in the first line", r->file, line, device->name,
                      words->len - 1, n);
  for (int column = 0; column < n; column++)
    if (!read_cell(r, row, column, word_at(words, column + 1), line, error))
      return FALSE;
  device->has_row = TRUE;
  r->lines[row] = line;
  if (device->is_gpu)
    device->affinity = affinity_of(words, n + 1);
  return TRUE;
}

static gboolean is_relation(const char *word) {
  Relation relation;
  int n_links;
  return parse_relation(word, &relation, &n_links);
}

/* "NIC0: mlx5_0" in the legend begins with a device's name as well, but with a colon. */
static gboolean read_lines(Reader *r, const char *text, GError **error) {
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (int i = 0; lines[i] != NULL; i++) {
    g_autoptr(GPtrArray) words = split_line(lines[i]);
    if (words->len == 0)
      continue;
    gboolean is_header =
        r->relations == NULL && is_numbered(word_at(words, 0), "GPU") && !is_relation(word_at(words, 1));
    if (is_header ? !read_header(r, words, i + 1, error) : r->relations != NULL && !read_row(r, words, i + 1, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean check_whole(const Reader *r, GError **error) {
  int n = n_devices(r);
  if (r->import->node.n_gpus == 0)
    return fail_input(error, "%s:1: found no line of names such as GPU0 GPU1: expected what nvidia-smi topo -m prints",
                      r->file);
  for (int i = 0; i < n; i++)
    if (!device_at(r, i)->has_row)
      return fail_input(error, "%s: the row of %s is missing", r->file, device_at(r, i)->name);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++)
      if (r->relations[i * n + j] != r->relations[j * n + i] || r->nvlinks[i * n + j] != r->nvlinks[j * n + i])
        return fail_input(error, "%s:%d: %s and %s disagree on what lies between them", r->file, r->lines[i],
                          device_at(r, i)->name, device_at(r, j)->name);
  return TRUE;
}

/* Groups: group[i] is the lowest device that i is joined to. */

typedef gboolean (*Joins)(const Reader *r, int i, int j);

static gboolean joins_at(const Reader *r, int i, int j, Relation farthest) {
  Relation relation = r->relations[i * n_devices(r) + j];
  return relation >= PIX && relation <= farthest;
}

static gboolean joins_switch(const Reader *r, int i, int j) {
  return joins_at(r, i, j, PIX);
}

static gboolean joins_switches(const Reader *r, int i, int j) {
  return joins_at(r, i, j, PXB);
}

static gboolean joins_socket(const Reader *r, int i, int j) {
  const char *a = device_at(r, i)->affinity, *b = device_at(r, j)->affinity;
  gboolean is_hidden = r->relations[i * n_devices(r) + j] == HIDDEN;
  return joins_at(r, i, j, NODE) || (is_hidden && a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Flood from each device that is not yet in a group. Owned by the caller. */
static int *group_by(const Reader *r, Joins joins) {
  int n = n_devices(r);
  int *group = g_new(int, n);
  g_autofree int *queue = g_new(int, n);
  for (int i = 0; i < n; i++)
    group[i] = NONE;
  for (int first = 0; first < n; first++) {
    if (group[first] != NONE)
      continue;
    int n_queued = 0;
    group[first] = first;
    queue[n_queued++] = first;
    for (int at = 0; at < n_queued; at++)
      for (int j = 0; j < n; j++)
        if (group[j] == NONE && joins(r, queue[at], j)) {
          group[j] = first;
          queue[n_queued++] = j;
        }
  }
  return group;
}

static int count_in(const int *group, int n, int first) {
  int count = 0;
  for (int i = 0; i < n; i++)
    count += group[i] == first;
  return count;
}

static int add_switch(NodeTopology *node, int socket, int parent) {
  node->switches[node->n_switches] = (PcieSwitch){socket, parent, 0};
  return node->n_switches++;
}

/* One switch per group of two or more, made at its lowest device. A PIX group inside a larger PXB group goes below
 * that group's switch. */
static int switch_of(NodeTopology *node, int *made, const int *group, int n, int i, int socket, int parent) {
  int first = group[i];
  if (count_in(group, n, first) < 2)
    return parent;
  if (made[first] == NONE)
    made[first] = add_switch(node, socket, parent);
  return made[first];
}

static void build_tree(Reader *r) {
  NodeTopology *node = &r->import->node;
  int n = n_devices(r);
  g_autofree int *near = group_by(r, joins_switch), *wide = group_by(r, joins_switches),
                 *socket = group_by(r, joins_socket);
  g_autofree int *near_made = g_new(int, n), *wide_made = g_new(int, n), *socket_made = g_new(int, n);
  node->switches = g_new0(PcieSwitch, 2 * n);
  node->gpu_ports = g_new0(PciePort, node->n_gpus);
  node->nic_ports = g_new0(PciePort, node->n_nics);
  for (int i = 0; i < n; i++)
    near_made[i] = wide_made[i] = socket_made[i] = NONE;
  for (int i = 0; i < n; i++) {
    if (socket_made[socket[i]] == NONE)
      socket_made[socket[i]] = node->n_sockets++;
    int at = socket_made[socket[i]];
    gboolean is_nested = count_in(near, n, near[i]) < count_in(wide, n, wide[i]);
    int above = is_nested ? switch_of(node, wide_made, wide, n, i, at, NONE) : NONE;
    int holder = switch_of(node, near_made, near, n, i, at, above);
    const Device *device = device_at(r, i);
    (device->is_gpu ? node->gpu_ports : node->nic_ports)[device->index] = (PciePort){at, holder, 0};
  }
}

static void find_nvlinks(Reader *r) {
  NodeTopology *node = &r->import->node;
  int n = n_devices(r);
  g_autoptr(GArray) pairs = g_array_new(FALSE, FALSE, sizeof(MeshPair));
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) {
      MeshPair pair = {device_at(r, i)->index, device_at(r, j)->index, r->nvlinks[i * n + j]};
      if (pair.n_links > 0)
        g_array_append_val(pairs, pair);
    }
  node->n_pairs = (int)pairs->len;
  node->pairs = g_memdup2(pairs->data, pairs->len * sizeof(MeshPair));
  r->import->switch_links = g_new0(int, node->n_gpus);
}

static gboolean read_matrix(Reader *r, const char *text, gsize length, GError **error) {
  if (memchr(text, '\0', length) != NULL)
    return fail_input(error, "%s:1: found a NUL character, expected text", r->file);
  if (!read_lines(r, text, error) || !check_whole(r, error))
    return FALSE;
  build_tree(r);
  find_nvlinks(r);
  node_import_note(r->import,
                   "rates are those of the generation: the matrix says what lies between devices, not how fast");
  return TRUE;
}

NodeImport *smi_matrix_parse(const char *name, const char *text, gsize length, GError **error) {
  g_autoptr(NodeImport) import = node_import_new(g_strdup_printf("nvidia-smi topo -m in %s", name));
  Reader r = {.file = name, .devices = g_array_new(FALSE, FALSE, sizeof(Device)), .import = import};
  g_array_set_clear_func(r.devices, clear_device);
  gboolean ok = read_matrix(&r, text, length, error);
  g_array_unref(r.devices);
  g_free(r.relations);
  g_free(r.nvlinks);
  g_free(r.lines);
  return ok ? g_steal_pointer(&import) : NULL;
}
