#include "rank_grid.h"

#include <math.h>
#include <string.h>

#include "plots.h"
#include "rank_map.h"
#include "units.h"

enum { MOST_ROWS = 64, MOST_LISTED = 16, LINE_WIDTH = 118, MOST_GPU_CELLS = 512, MOST_CELLS = 4096 };
enum { LEVEL_NIC = N_CABLE_KINDS - 1, LEVEL_LEAF, LEVEL_TIER };

/* Outermost first, as a rank is spoken of: stage, replica, part. */
static const Axis shown_axes[N_AXES] = {AXIS_PP, AXIS_DP, AXIS_CP, AXIS_TP, AXIS_EP};

static int axis_size(const RankGrid *grid, Axis axis) {
  return axis == AXIS_EP ? grid->method->ep : grid->layout.size[axis];
}

static int place_on(const RankGrid *grid, Axis axis, int rank) {
  return axis == AXIS_EP ? grid->ep[rank] : layout_coordinates(&grid->layout, rank).at[axis];
}

/* --- groups and their links -------------------------------------------------------------------------------------- */

static int level_of(const Topology *t, const TopologyLink *link) {
  const TopologyVertex *below = &t->vertices[link->a];
  if (link->kind != CABLE_NET)
    return (int)link->kind;
  return below->kind == VERTEX_NIC ? LEVEL_NIC : below->kind == VERTEX_LEAF ? LEVEL_LEAF : LEVEL_TIER + below->owner;
}

char *rank_grid_level_name(const Topology *t, int level) {
  if (level < LEVEL_NIC)
    return g_strdup(cable_kind_name((CableKind)level));
  if (level < LEVEL_TIER)
    return g_strdup(level == LEVEL_NIC ? "NIC" : "leaf uplink");
  const int tier = level - LEVEL_TIER;
  if (tier >= t->cluster->n_tiers)
    return NULL;
  const char *name = t->cluster->tiers[tier].name;
  return name != NULL ? g_strdup_printf("%s uplink", name) : g_strdup_printf("tier%d uplink", tier);
}

/* What is known while the groups of one kind are gone through. */
typedef struct {
  const RankGrid *grid;
  RankGroups *groups;
  int *n_flows; /* [2 × links]: transfers on a link towards b, and towards a */
  int *seen_in; /* [links]: one more than the last group that used it */
} LinkCount;

static void count_hop(LinkCount *count, int group, const RouteHop *hop) {
  const Topology *t = count->grid->topology;
  const TopologyLink *link = &t->links[hop->link];
  RankGroups *groups = count->groups;
  count->n_flows[2 * hop->link + (hop->from != link->a)]++;
  if (count->seen_in[hop->link] == group + 1)
    return;
  count->seen_in[hop->link] = group + 1;
  g_array_append_val(groups->links, hop->link);
  if (!isinf(link->Bps))
    groups->levels[group] |= 1u << level_of(t, link);
}

static gboolean count_transfer(LinkCount *count, int group, int from, int to, GError **error) {
  const Layout *layout = &count->grid->layout;
  g_autoptr(Route) route = route_new(count->grid->topology, layout_gpu(layout, from), layout_gpu(layout, to), error);
  if (route == NULL)
    return FALSE;
  for (int i = 0; i < route->n_hops; i++)
    count_hop(count, group, &route->hops[i]);
  return TRUE;
}

static gboolean count_ring(LinkCount *count, int group, GError **error) {
  const int size = count->groups->size, *members = &count->groups->members[(gsize)group * size];
  for (int i = 0; i < size; i++)
    if (!count_transfer(count, group, members[i], members[(i + 1) % size], error))
      return FALSE;
  return TRUE;
}

/* Chunks may pass the same two ranks again. */
static gboolean count_stages(LinkCount *count, int group, const Placement *placement, GError **error) {
  const int size = count->groups->size, *members = &count->groups->members[(gsize)group * size];
  g_autofree gboolean *is_counted = g_new0(gboolean, (gsize)size * size);
  for (int stage = 0; stage < placement->n_stages; stage++) {
    const int next = stage_next(stage, TRUE, placement->n_stages, placement->n_pipes);
    const int from = placement->stage_rank[stage], to = next >= 0 ? placement->stage_rank[next] : from;
    if (from == to || is_counted[from * size + to])
      continue;
    is_counted[from * size + to] = TRUE;
    if (!count_transfer(count, group, members[from], members[to], error))
      return FALSE;
  }
  return TRUE;
}

static void find_slowest(const LinkCount *count) {
  const Topology *t = count->grid->topology;
  RankGroups *groups = count->groups;
  groups->slowest = -1;
  groups->rate_Bps = INFINITY;
  for (int i = 0; i < 2 * t->n_links; i++) {
    const double rate_Bps =
        count->n_flows[i] > 0 ? topology_link_left_Bps(&t->links[i / 2]) / count->n_flows[i] : INFINITY;
    if (rate_Bps < groups->rate_Bps) {
      groups->rate_Bps = rate_Bps;
      groups->slowest = i / 2;
      groups->n_sharing = count->n_flows[i];
    }
  }
}

static gboolean count_links(const RankGrid *grid, RankGroups *groups, gboolean are_stages, GError **error) {
  const gsize n_links = (gsize)grid->topology->n_links;
  g_autofree int *n_flows = g_new0(int, 2 * n_links), *seen_in = g_new0(int, n_links);
  g_autoptr(Placement) placement = are_stages ? method_placement(grid->method) : NULL;
  LinkCount count = {grid, groups, n_flows, seen_in};
  for (int group = 0; group < groups->n_groups; group++) {
    groups->first_link[group] = (int)groups->links->len;
    if (are_stages ? !count_stages(&count, group, placement, error) : !count_ring(&count, group, error))
      return FALSE;
  }
  groups->first_link[groups->n_groups] = (int)groups->links->len;
  find_slowest(&count);
  return TRUE;
}

static void list_members(const RankGrid *grid, RankGroups *groups, AxisSet axes) {
  const Layout *layout = &grid->layout;
  const Cluster *cluster = grid->topology->cluster;
  g_autofree gboolean *is_listed = g_new0(gboolean, groups->n_groups);
  g_autofree int *gpus = g_new(int, groups->size);
  int n = 0;
  groups->n_nodes[0] = G_MAXINT;
  for (int rank = 0; rank < layout->n_ranks; rank++) {
    const int index = layout_group_index(layout, axes, rank);
    if (is_listed[index])
      continue;
    is_listed[index] = TRUE;
    int *members = &groups->members[(gsize)n++ * groups->size];
    layout_group_members(layout, axes, rank, members);
    memcpy(gpus, members, sizeof *gpus * (gsize)groups->size);
    layout_gpus_of(layout, gpus, groups->size);
    const int n_nodes = layout_shape_of(cluster, gpus, groups->size).n_nodes;
    groups->n_nodes[0] = MIN(groups->n_nodes[0], n_nodes);
    groups->n_nodes[1] = MAX(groups->n_nodes[1], n_nodes);
  }
}

static void clear_groups(gpointer data) {
  RankGroups *groups = data;
  g_free(groups->members);
  g_array_unref(groups->links);
  g_free(groups->first_link);
  g_free(groups->levels);
}

static gboolean add_groups(RankGrid *grid, const char *name, const char *moves, AxisSet axes, GError **error) {
  const int size = layout_group_size(&grid->layout, axes), n_groups = grid->layout.n_ranks / size;
  if (size == 1)
    return TRUE;
  RankGroups groups = {.name = name,
                       .moves = moves,
                       .size = size,
                       .n_groups = n_groups,
                       .members = g_new(int, grid->layout.n_ranks),
                       .links = g_array_new(FALSE, FALSE, sizeof(int)),
                       .first_link = g_new(int, n_groups + 1),
                       .levels = g_new0(guint, n_groups)};
  list_members(grid, &groups, axes);
  const gboolean done = count_links(grid, &groups, axes == AXIS_BIT(AXIS_PP), error);
  g_array_append_val(grid->groups, groups);
  return done;
}

/* Data parallelism's groups are said apart where their ranks differ. */
static gboolean add_all_groups(RankGrid *grid, GError **error) {
  const Layout *layout = &grid->layout;
  const AxisSet cp = AXIS_BIT(AXIS_CP), dp = AXIS_BIT(AXIS_DP), experts = AXIS_BIT_EXPERT_SHARD | AXIS_BIT_DP_REPLICA;
  const gboolean has_cp = layout->size[AXIS_CP] > 1,
                 is_split = layout->dp_shard < layout->size[AXIS_DP] / layout_islands(layout);
  const struct {
    const char *name, *moves;
    AxisSet axes;
    gboolean is_there;
  } kinds[] = {
      {"tp", "activations of every layer", AXIS_BIT(AXIS_TP), TRUE},
      {"cp", "keys and values of every layer", cp, TRUE},
      {"ep", "tokens to their experts and back, in every layer", AXIS_BIT(AXIS_EP), TRUE},
      {"dp", has_cp ? "see different sequences" : "gradients, once a step", dp, TRUE},
      {"dp_cp", "gradients, once a step", dp | cp, has_cp && layout->size[AXIS_DP] > 1},
      {"dp_shard", "ZeRO's shards", AXIS_BIT_DP_SHARD | cp, is_split},
      {"dp_replica", "gradients of the same shard", AXIS_BIT_DP_REPLICA,
       is_split && layout->dp_shard * layout->size[AXIS_CP] > 1},
      {"dp_island", "what islands have learned, at outer steps", AXIS_BIT_DP_ISLAND, layout_islands(layout) > 1},
      {"expert_dp", "gradients of the same experts", experts, grid->method->ep > 1},
      {"pp", "activations and their gradients from stage to stage", AXIS_BIT(AXIS_PP), TRUE},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    if (kinds[i].is_there && !add_groups(grid, kinds[i].name, kinds[i].moves, kinds[i].axes, error))
      return FALSE;
  return TRUE;
}

static void place_ranks(RankGrid *grid) {
  const Layout *layout = &grid->layout;
  for (int rank = 0; rank < layout->n_ranks; rank++)
    grid->n_gpus = MAX(grid->n_gpus, layout_gpu(layout, rank) + 1);
  grid->rank_of_gpu = g_new(int, grid->n_gpus);
  for (int gpu = 0; gpu < grid->n_gpus; gpu++)
    grid->rank_of_gpu[gpu] = -1;
  for (int rank = 0; rank < layout->n_ranks; rank++)
    grid->rank_of_gpu[layout_gpu(layout, rank)] = rank;
}

/* ep has no digit: a rank's place is that among its group's members. */
static void number_ep(RankGrid *grid) {
  const Layout *layout = &grid->layout;
  const int size = layout_group_size(layout, AXIS_BIT(AXIS_EP));
  g_autofree int *members = g_new(int, size);
  grid->ep = g_new0(int, layout->n_ranks);
  for (int rank = 0; rank < layout->n_ranks && size > 1; rank++) {
    layout_group_members(layout, AXIS_BIT(AXIS_EP), rank, members);
    for (int place = 0; place < size && members[0] == rank; place++)
      grid->ep[members[place]] = place;
  }
}

RankGrid *rank_grid_new(const Model *model, Cluster *cluster, const Plan *plan, gint64 n_gpus, GError **error) {
  g_autoptr(Method) method = method_complete(model, cluster, plan, error);
  if (method == NULL)
    return NULL;
  cluster_place_job(cluster, method->gpus, method->rank_map != NULL);
  n_gpus = MAX(n_gpus, rank_map_extent(method->rank_map, method->gpus));
  g_autoptr(Topology) topology = topology_new(cluster, n_gpus, error);
  if (topology == NULL)
    return NULL;
  g_autoptr(RankGrid) grid = g_new0(RankGrid, 1);
  layout_init(&grid->layout, method);
  grid->method = g_steal_pointer(&method);
  grid->topology = g_steal_pointer(&topology);
  grid->groups = g_array_new(FALSE, FALSE, sizeof(RankGroups));
  g_array_set_clear_func(grid->groups, clear_groups);
  place_ranks(grid);
  number_ep(grid);
  return add_all_groups(grid, error) ? g_steal_pointer(&grid) : NULL;
}

void rank_grid_free(RankGrid *grid) {
  if (grid == NULL)
    return;
  g_free(grid->rank_of_gpu);
  g_free(grid->ep);
  g_array_unref(grid->groups);
  topology_free(grid->topology);
  method_free(grid->method);
  g_free(grid);
}

/* --- text -------------------------------------------------------------------------------------------------------- */

/* "tp 4, dp 2, pp 2", innermost first; owned by the caller. */
static char *sizes_text(const RankGrid *grid) {
  GString *text = g_string_new(NULL);
  for (int i = 0; i < N_AXES; i++) {
    const Axis axis = grid->method->order[i];
    if (axis_size(grid, axis) > 1)
      g_string_append_printf(text, "%s%s %d", text->len > 0 ? ", " : "", axis_name(axis), axis_size(grid, axis));
  }
  return g_string_free(text->len > 0 ? text : g_string_append(text, "no parallelism"), FALSE);
}

/* "rank = tp + 4·dp + 8·pp" */
static void append_formula(GString *out, const RankGrid *grid) {
  const Layout *layout = &grid->layout;
  const char *sign = "rank = ";
  for (int i = 0; i < N_AXES; i++) {
    const Axis axis = grid->method->order[i];
    if (layout->size[axis] == 1)
      continue;
    g_string_append(out, sign);
    if (layout->stride[axis] > 1)
      g_string_append_printf(out, "%d·", layout->stride[axis]);
    if (axis == AXIS_DP && layout_islands(layout) > 1)
      g_string_append_printf(out, "(dp mod %d)", layout->size[AXIS_DP] / layout_islands(layout));
    else
      g_string_append(out, axis_name(axis));
    sign = " + ";
  }
  if (layout_islands(layout) > 1)
    g_string_append_printf(out, "%s%d·(dp div %d)", sign, layout->n_ranks / layout_islands(layout),
                           layout->size[AXIS_DP] / layout_islands(layout));
}

/* "p1 d0 t3", axes of one rank left out; "" without any other. Owned by the caller. */
static char *coordinates_text(const RankGrid *grid, int rank) {
  GString *text = g_string_new(NULL);
  for (int i = 0; i < N_AXES; i++)
    if (axis_size(grid, shown_axes[i]) > 1)
      g_string_append_printf(text, "%s%c%d", text->len > 0 ? " " : "", axis_name(shown_axes[i])[0],
                             place_on(grid, shown_axes[i], rank));
  return g_string_free(text, FALSE);
}

static void append_letters(GString *out, const RankGrid *grid) {
  const char *before = "; ";
  for (int i = 0; i < N_AXES; i++)
    if (axis_size(grid, shown_axes[i]) > 1) {
      const char *name = axis_name(shown_axes[i]);
      g_string_append_printf(out, "%s%c of %s", before, name[0], name);
      before = ", ";
    }
}

static int widest_cell(const RankGrid *grid, int first_gpu, int n) {
  int widest = 0;
  for (int gpu = first_gpu; gpu < MIN(first_gpu + n, grid->n_gpus); gpu++) {
    const int rank = grid->rank_of_gpu[gpu];
    g_autofree char *cell = rank >= 0 ? coordinates_text(grid, rank) : g_strdup("");
    widest = MAX(widest, (int)strlen(cell) + 1);
  }
  return widest;
}

static void print_cell(GString *out, const RankGrid *grid, int gpu, int digits, int width) {
  const int rank = gpu < grid->n_gpus ? grid->rank_of_gpu[gpu] : -1;
  if (rank < 0) {
    g_string_append_printf(out, "  %*s %-*s", digits, "-", width, "");
    return;
  }
  g_autofree char *text = coordinates_text(grid, rank);
  g_string_append_printf(out, "  %*d %-*s", digits, rank, width, text);
}

static int digits_of(int number) {
  return number < 10 ? 1 : 1 + digits_of(number / 10);
}

static void trim_line(GString *out) {
  while (out->len > 0 && out->str[out->len - 1] == ' ')
    g_string_truncate(out, out->len - 1);
  g_string_append_c(out, '\n');
}

/* A row per node that holds ranks, broken where it is too long. */
static void print_nodes(GString *out, const RankGrid *grid, int first_node, int n_nodes) {
  const int per_node = grid->topology->cluster->gpus_per_node;
  const int digits = digits_of(grid->layout.n_ranks - 1),
            width = widest_cell(grid, first_node * per_node, n_nodes * per_node);
  int per_line = CLAMP((LINE_WIDTH - 16) / (digits + width + 3), 1, per_node);
  while (per_node % per_line != 0)
    per_line--;
  for (int node = first_node; node < first_node + n_nodes; node++)
    for (int at = 0; at < per_node; at += per_line) {
      g_autofree char *name = g_strdup_printf("node%d", node);
      g_autofree char *of = per_line < per_node ? g_strdup_printf("gpu%d", at) : g_strdup("");
      g_string_append_printf(out, "%-10s%-6s", at == 0 ? name : "", of);
      for (int i = at; i < MIN(at + per_line, per_node); i++)
        print_cell(out, grid, node * per_node + i, digits, width);
      trim_line(out);
    }
}

/* " dp 0..127": the places on an axis that the ranks of some GPUs have. */
static void append_places(GString *out, const RankGrid *grid, Axis axis, int first_gpu, int n_gpus) {
  const int size = axis_size(grid, axis);
  g_autofree gboolean *has = g_new0(gboolean, size);
  int least = size, most = -1, n = 0;
  for (int gpu = first_gpu; gpu < MIN(first_gpu + n_gpus, grid->n_gpus); gpu++) {
    const int rank = grid->rank_of_gpu[gpu], place = rank >= 0 ? place_on(grid, axis, rank) : -1;
    if (place < 0 || has[place])
      continue;
    has[place] = TRUE;
    n++;
    least = MIN(least, place);
    most = MAX(most, place);
  }
  if (n == 0)
    return;
  g_autofree char *text = n == 1                  ? g_strdup_printf("%d", least)
                          : n == most - least + 1 ? g_strdup_printf("%d..%d", least, most)
                                                  : g_strdup_printf("%d of %d..%d", n, least, most);
  g_string_append_printf(out, "  %s %-9s", axis_name(axis), text);
}

/* The innermost axes whose ranks are whole nodes and leave few enough blocks, else as many nodes as do. */
static int nodes_per_block(const RankGrid *grid, int n_nodes, int most) {
  const Layout *layout = &grid->layout;
  const int per_node = grid->topology->cluster->gpus_per_node;
  for (int i = 0; i < N_AXES && layout->gpu_of_rank == NULL; i++) {
    const Axis axis = grid->method->order[i];
    const int n_gpus = layout->stride[axis] * layout->size[axis];
    if (n_gpus < layout->n_ranks && n_gpus % per_node == 0 && n_nodes <= (gint64)most * (n_gpus / per_node))
      return n_gpus / per_node;
  }
  return (n_nodes + most - 1) / most;
}

static void print_blocks(GString *out, const RankGrid *grid, int n_nodes) {
  const int per_node = grid->topology->cluster->gpus_per_node, n = nodes_per_block(grid, n_nodes, MOST_ROWS);
  g_string_append_printf(out, "\n%d nodes, summarised: a line is %d of them (--json has every rank)\n", n_nodes, n);
  for (int node = 0; node < n_nodes; node += n) {
    g_autofree char *nodes = g_strdup_printf("node%d..%d", node, MIN(node + n, n_nodes) - 1);
    g_string_append_printf(out, "%-16s", nodes);
    for (int i = 0; i < N_AXES; i++)
      if (axis_size(grid, shown_axes[i]) > 1)
        append_places(out, grid, shown_axes[i], node * per_node, n * per_node);
    trim_line(out);
  }
}

/* {0..7}, {0..24+8}, {0,1,9,…} */
static void append_members(GString *out, const int *members, int n) {
  const int step = members[1] - members[0];
  gboolean is_even = n > 2;
  for (int i = 2; i < n; i++)
    is_even &= members[i] - members[i - 1] == step;
  if (is_even) {
    g_string_append_printf(out, "{%d..%d", members[0], members[n - 1]);
    if (step > 1)
      g_string_append_printf(out, "+%d", step);
  }
  for (int i = 0; i < n && !is_even; i++) {
    const gboolean is_left_out = n > MOST_LISTED && i == MOST_LISTED - 2;
    g_string_append_printf(out, is_left_out ? "%s…" : "%s%d", i > 0 ? "," : "{", members[i]);
    i = is_left_out ? n - 2 : i;
  }
  g_string_append_c(out, '}');
}

static void print_members(GString *out, const RankGroups *groups, gboolean all) {
  const int shown_first = all ? groups->n_groups : MIN(2, groups->n_groups);
  gsize line = out->len;
  for (int group = 0; group < groups->n_groups; group++) {
    g_autoptr(GString) text = g_string_new(group == 0 ? "    " : " ");
    if (group == shown_first && group < groups->n_groups - 1) {
      group = groups->n_groups - 1;
      g_string_append(text, "… ");
    }
    append_members(text, &groups->members[(gsize)group * groups->size], groups->size);
    if (out->len > line && out->len - line + text->len > LINE_WIDTH) {
      g_string_append(out, "\n   ");
      line = out->len;
    }
    g_string_append(out, text->str);
  }
  g_string_append_c(out, '\n');
}

/* "NVLink, NIC"; owned by the caller. */
static char *levels_text(const Topology *t, guint levels) {
  GString *text = g_string_new(NULL);
  for (int level = 0; (levels >> level) != 0; level++) {
    g_autofree char *name = (levels >> level) & 1 ? rank_grid_level_name(t, level) : NULL;
    if (name != NULL)
      g_string_append_printf(text, "%s%s", text->len > 0 ? ", " : "", name);
  }
  return g_string_free(text->len > 0 ? text : g_string_append(text, "links of unstated bandwidth"), FALSE);
}

/* "NVLink", or "NVLink (12 groups) or NVLink, NIC (4)". */
static void append_levels(GString *out, const RankGrid *grid, const RankGroups *groups) {
  g_autofree gboolean *is_said = g_new0(gboolean, groups->n_groups);
  for (int group = 0; group < groups->n_groups; group++) {
    int n_alike = 0;
    for (int other = group; other < groups->n_groups && !is_said[group]; other++)
      if (groups->levels[other] == groups->levels[group]) {
        n_alike++;
        is_said[other] = other > group;
      }
    if (n_alike == 0)
      continue;
    g_autofree char *names = levels_text(grid->topology, groups->levels[group]);
    g_string_append_printf(out, "%s%s", group > 0 ? " or " : "", names);
    if (n_alike < groups->n_groups)
      g_string_append_printf(out, " (%d groups)", n_alike);
  }
}

/* "tp: 4 groups of 4 ranks in 1 node, over NVLink; all at once: 360.0 GB/s, node0/gpu0 - node0/nvswitch". Owned by the
 * caller. */
static char *groups_text(const RankGrid *grid, const RankGroups *groups) {
  const Topology *t = grid->topology;
  GString *text = g_string_new(NULL);
  g_string_append_printf(text, "%s: ", groups->name);
  units_append_count(text, groups->n_groups, "group", "groups");
  g_string_append_printf(text, " of %d ranks in ", groups->size);
  if (groups->n_nodes[0] < groups->n_nodes[1])
    g_string_append_printf(text, "%d to ", groups->n_nodes[0]);
  units_append_count(text, groups->n_nodes[1], "node", "nodes");
  g_string_append(text, ", over ");
  append_levels(text, grid, groups);
  if (groups->slowest < 0)
    return g_string_free(text, FALSE);
  const TopologyLink *link = &t->links[groups->slowest];
  g_autofree char *a = topology_vertex_name(t, link->a), *b = topology_vertex_name(t, link->b);
  g_autofree char *rate = units_format(groups->rate_Bps, UNIT_BYTES_PER_SECOND);
  g_string_append_printf(text, "; all at once: %s", rate);
  if (groups->n_sharing > 1)
    g_string_append_printf(text, ", %d share %s - %s", groups->n_sharing, a, b);
  return g_string_free(text, FALSE);
}

void rank_grid_text(GString *out, const RankGrid *grid) {
  const Cluster *cluster = grid->topology->cluster;
  const int n_nodes = (grid->n_gpus + cluster->gpus_per_node - 1) / cluster->gpus_per_node;
  const gboolean all = n_nodes <= MOST_ROWS;
  g_autofree char *sizes = sizes_text(grid);
  units_append_count(out, grid->layout.n_ranks, "rank", "ranks");
  g_string_append(out, " on ");
  units_append_count(out, n_nodes, "node", "nodes");
  g_string_append_printf(out, " of %s: %s\n", cluster->name, sizes);
  if (grid->layout.n_ranks > 1) {
    append_formula(out, grid);
    append_letters(out, grid);
    g_string_append_c(out, '\n');
  }
  if (grid->layout.gpu_of_rank != NULL)
    g_string_append(out, "the rank map says which GPU a rank is on\n");
  g_string_append_c(out, '\n');
  print_nodes(out, grid, 0, all ? n_nodes : 1);
  if (!all)
    print_blocks(out, grid, n_nodes);
  for (guint i = 0; i < grid->groups->len; i++) {
    const RankGroups *groups = &g_array_index(grid->groups, RankGroups, i);
    g_autofree char *text = groups_text(grid, groups);
    g_string_append_printf(out, "\n%s\n    %s\n", text, groups->moves);
    print_members(out, groups, all);
  }
}

/* --- picture ----------------------------------------------------------------------------------------------------- */

/* GPUs per cell, cells per row. */
typedef struct {
  int n_gpus, n_columns, n_rows;
} MapShape;

static Axis shading_axis(const RankGrid *grid) {
  for (int i = 0; i < N_AXES; i++)
    if (axis_size(grid, shown_axes[i]) > 1)
      return shown_axes[i];
  return AXIS_PP;
}

/* Few GPUs: a row per node, unless nodes are small. Many: a row per stage, if that is a sensible number of nodes. */
static MapShape map_shape(const RankGrid *grid) {
  const int per_node = grid->topology->cluster->gpus_per_node;
  MapShape shape = {1, per_node >= 4 ? per_node : MIN(16, grid->n_gpus), 0};
  if (grid->n_gpus > MOST_GPU_CELLS) {
    shape.n_gpus = per_node;
    while (grid->n_gpus > (gint64)shape.n_gpus * MOST_CELLS)
      shape.n_gpus *= 2;
    const int n_cells = (grid->n_gpus + shape.n_gpus - 1) / shape.n_gpus;
    const int stride = grid->layout.stride[AXIS_PP] / shape.n_gpus;
    shape.n_columns = 16;
    while (shape.n_columns * shape.n_columns < 2 * n_cells)
      shape.n_columns *= 2;
    if (grid->layout.gpu_of_rank == NULL && axis_size(grid, AXIS_PP) > 1 && stride >= 16 && stride <= 128)
      shape.n_columns = stride;
  }
  shape.n_rows = (grid->n_gpus + shape.n_gpus * shape.n_columns - 1) / (shape.n_gpus * shape.n_columns);
  return shape;
}

/* Rows from the bottom. */
static void fill_cells(const RankGrid *grid, const MapShape *shape, GridCell *cells, char **texts) {
  const Axis axis = shading_axis(grid);
  for (int i = 0; i < shape->n_rows * shape->n_columns; i++) {
    const int row = shape->n_rows - 1 - i / shape->n_columns;
    const int gpu = (row * shape->n_columns + i % shape->n_columns) * shape->n_gpus;
    const int rank = gpu < grid->n_gpus ? grid->rank_of_gpu[gpu] : -1;
    cells[i] = rank >= 0 ? (GridCell){place_on(grid, axis, rank), GRID_FITS} : (GridCell){0, GRID_CANNOT_BE};
    g_autofree char *text = rank >= 0 && shape->n_gpus == 1 ? coordinates_text(grid, rank) : g_strdup("");
    texts[i] = rank < 0        ? g_strdup("–")
               : *text != '\0' ? g_strdup_printf("%d: %s", rank, text)
                               : g_strdup_printf("%d", rank);
  }
}

static char **column_names(const MapShape *shape, gboolean are_gpus) {
  char **names = g_new0(char *, shape->n_columns + 1);
  for (int i = 0; i < shape->n_columns; i++)
    names[i] = g_strdup_printf(are_gpus ? "gpu%d" : "+%d", i);
  return names;
}

static char **row_names(const RankGrid *grid, const MapShape *shape) {
  const int per_node = grid->topology->cluster->gpus_per_node;
  char **names = g_new0(char *, shape->n_rows + 1);
  for (int i = 0; i < shape->n_rows; i++) {
    const int gpu = (shape->n_rows - 1 - i) * shape->n_columns * shape->n_gpus;
    names[i] = gpu % per_node == 0 ? g_strdup_printf("node%d", gpu / per_node)
                                   : g_strdup_printf("node%d/gpu%d", gpu / per_node, gpu % per_node);
  }
  return names;
}

static char *map_title(const RankGrid *grid, const MapShape *shape) {
  const int per_node = grid->topology->cluster->gpus_per_node, n_nodes = shape->n_gpus / per_node;
  g_autofree char *sizes = sizes_text(grid);
  g_autofree char *cell = shape->n_gpus == 1 ? g_strdup("")
                          : n_nodes == 1     ? g_strdup("; a cell is a node, with its first rank")
                                             : g_strdup_printf("; a cell is %d nodes, with their first rank", n_nodes);
  return g_strdup_printf("Ranks on %s: %s%s", grid->topology->cluster->name, sizes, cell);
}

Picture *rank_grid_picture(const RankGrid *grid, const char *title, GError **error) {
  const MapShape shape = map_shape(grid);
  const int per_node = grid->topology->cluster->gpus_per_node;
  const gboolean are_gpus = shape.n_gpus == 1 && shape.n_columns == per_node;
  const gsize n_cells = (gsize)shape.n_rows * shape.n_columns;
  g_autofree GridCell *cells = g_new(GridCell, n_cells);
  g_auto(GStrv) texts = g_new0(char *, n_cells + 1), columns = column_names(&shape, are_gpus),
                rows = row_names(grid, &shape);
  g_auto(GStrv) notes = g_new0(char *, grid->groups->len + 1);
  for (guint i = 0; i < grid->groups->len; i++)
    notes[i] = groups_text(grid, &g_array_index(grid->groups, RankGroups, i));
  fill_cells(grid, &shape, cells, texts);
  g_autofree char *made = map_title(grid, &shape);
  g_autofree char *zlabel = g_strdup_printf("shade, by %s", axis_name(shading_axis(grid)));
  const Grid look = {.title = title != NULL ? title : made,
                     .xlabel = are_gpus            ? "GPU of the node"
                               : shape.n_gpus == 1 ? "GPU of the row"
                                                   : "nodes of the row",
                     .ylabel = "",
                     .zlabel = zlabel,
                     .digits = "%.0f",
                     .columns = (const char *const *)columns,
                     .rows = (const char *const *)rows,
                     .n_columns = shape.n_columns,
                     .n_rows = shape.n_rows,
                     .cells = cells,
                     .texts = (const char *const *)texts,
                     .notes = (const char *const *)notes};
  return grid_picture(&look, error);
}
