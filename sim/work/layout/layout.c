/* A rank is a number with one digit per axis, innermost axis first; data parallelism is two digits, shards inside and
 * replicas outside:
 *
 *     rank = Σ digit·stride        stride = product of the sizes further in
 *
 * A group over some axes varies their digits and fixes the others: its members are a base (the fixed digits) plus the
 * same offsets for every group. Neighbouring axes merge into one run of equal steps, so nearly every group is a
 * single progression  base, base + σ, base + 2σ, …  and how it lies on nodes depends only on  base mod node:
 *
 *     node of 4      |0 1 2 3|4 5 6 7|8 …        σ = 3, base 1:  1 . . 4 . . 7 . . 10   → nodes 0 1 1 2
 *
 * So the worst group of 16,384 ranks is found by checking no more bases than a domain has GPUs. Only where a cluster
 * has several fabric tiers and the ranks leave the first must every base be checked. Ranks placed by a map follow no
 * progression: their groups are listed. */
#include "layout.h"

#include <stdlib.h>
#include <string.h>

/* The digits that groups are made of. Each of tp, cp and dp's shards from which groups of ep take ranks is split in
 * two: the part inside one such group, and the part that counts the groups. */
enum { N_DIGITS = 9 };

typedef struct {
  int size, stride;
} Digit;

static void split_ep(Layout *layout, const Method *method) {
  layout->takes_tp = method->expert_tp < method->tp;
  const int sizes[N_AXES] = {
      [AXIS_TP] = layout->takes_tp ? method->tp : 1, [AXIS_CP] = method->cp, [AXIS_DP] = layout->dp_shard};
  int left = method->ep;
  for (int axis = 0; axis < N_AXES; axis++) {
    layout->in_ep[axis] = sizes[axis] > 0 ? plan_ep_inside(sizes[axis], &left) : 1;
    g_assert(layout->in_ep[axis] > 0);
  }
  g_assert(left == 1);
  layout->n_expert_shards = sizes[AXIS_TP] * layout->n_shards / method->ep;
}

void layout_init(Layout *layout, const Method *method) {
  *layout = (Layout){
      .size = {[AXIS_TP] = method->tp,
               [AXIS_CP] = method->cp,
               [AXIS_EP] = 1,
               [AXIS_DP] = method->dp,
               [AXIS_PP] = method->pp},
      .n_shards = servers_are_used(&method->servers) ? method->servers.local
                  : method->zero_ranks > 0           ? method->zero_ranks
                                                     : method->data_ranks,
      .n_islands = MAX(method->islands, 1),
      .n_ranks = 1,
      .gpu_of_rank = method->rank_map != NULL ? (const int *)(const void *)method->rank_map->data : NULL,
  };
  layout->dp_shard = layout->n_shards / method->cp;
  for (int i = 0; i < N_AXES; i++) {
    const Axis axis = method->order[i];
    g_assert(layout->stride[axis] == 0 && layout->size[axis] >= 1);
    layout->stride[axis] = layout->n_ranks;
    layout->n_ranks *= layout->size[axis] / (axis == AXIS_DP ? layout->n_islands : 1);
  }
  layout->n_ranks *= layout->n_islands;
  g_assert(layout->dp_shard > 0 && layout->size[AXIS_DP] % (layout->dp_shard * layout->n_islands) == 0);
  split_ep(layout, method);
}

static int island_ranks(const Layout *layout) {
  return layout->n_ranks / layout_islands(layout);
}

int layout_rank(const Layout *layout, const Coordinates *at) {
  const int of_island = layout->size[AXIS_DP] / layout_islands(layout);
  int rank = at->at[AXIS_DP] / of_island * island_ranks(layout);
  for (int axis = 0; axis < N_AXES; axis++) {
    g_assert(at->at[axis] >= 0 && at->at[axis] < layout->size[axis]);
    rank += (axis == AXIS_DP ? at->at[axis] % of_island : at->at[axis]) * layout->stride[axis];
  }
  return rank;
}

Coordinates layout_coordinates(const Layout *layout, int rank) {
  Coordinates at;
  g_assert(rank >= 0 && rank < layout->n_ranks);
  const int of_island = layout->size[AXIS_DP] / layout_islands(layout);
  for (int axis = 0; axis < N_AXES; axis++)
    at.at[axis] = rank / layout->stride[axis] % (axis == AXIS_DP ? of_island : layout->size[axis]);
  at.at[AXIS_DP] += rank / island_ranks(layout) * of_island;
  return at;
}

typedef struct {
  Digit digit;
  AxisSet sets; /* any of these axes varies it */
} AxisDigit;

static void list_digits(const Layout *layout, AxisDigit digits[N_DIGITS]) {
  const int *size = layout->size, *stride = layout->stride;
  int in_ep[N_AXES];
  for (int axis = 0; axis < N_AXES; axis++)
    in_ep[axis] = MAX(layout->in_ep[axis], 1);
  const int n_shards = layout->dp_shard, n_replicas = size[AXIS_DP] / layout_islands(layout) / n_shards;
  const AxisSet ep = AXIS_BIT(AXIS_EP), shard = AXIS_BIT_EXPERT_SHARD;
  /* experts cut by tp differ along it */
  const AxisSet tp_shard = layout->takes_tp ? shard : 0;
  const AxisDigit all[N_DIGITS] = {
      {{in_ep[AXIS_TP], stride[AXIS_TP]}, AXIS_BIT(AXIS_TP) | ep},
      {{size[AXIS_TP] / in_ep[AXIS_TP], stride[AXIS_TP] * in_ep[AXIS_TP]}, AXIS_BIT(AXIS_TP) | tp_shard},
      {{in_ep[AXIS_CP], stride[AXIS_CP]}, AXIS_BIT(AXIS_CP) | ep},
      {{size[AXIS_CP] / in_ep[AXIS_CP], stride[AXIS_CP] * in_ep[AXIS_CP]}, AXIS_BIT(AXIS_CP) | shard},
      {{in_ep[AXIS_DP], stride[AXIS_DP]}, AXIS_BIT_DP_SHARD | ep},
      {{n_shards / in_ep[AXIS_DP], stride[AXIS_DP] * in_ep[AXIS_DP]}, AXIS_BIT_DP_SHARD | shard},
      {{n_replicas, stride[AXIS_DP] * n_shards}, AXIS_BIT_DP_REPLICA},
      {{size[AXIS_PP], stride[AXIS_PP]}, AXIS_BIT(AXIS_PP)},
      {{layout_islands(layout), island_ranks(layout)}, AXIS_BIT_DP_ISLAND},
  };
  memcpy(digits, all, sizeof all);
}

/* The layout's digits that are (`chosen`) or are not in `axes`, innermost first, neighbours merged, digits of size 1
 * omitted. Returns their number. */
static int digits_of(const Layout *layout, AxisSet axes, gboolean chosen, Digit digits[N_DIGITS]) {
  AxisDigit all[N_DIGITS];
  int n = 0;
  if (axes & AXIS_BIT(AXIS_DP))
    axes |= AXIS_BIT_DP_SHARD | AXIS_BIT_DP_REPLICA;
  list_digits(layout, all);
  for (int i = 0; i < N_DIGITS; i++) {
    const Digit digit = all[i].digit;
    if (digit.size == 1 || ((axes & all[i].sets) != 0) != chosen)
      continue;
    int place = n++;
    for (; place > 0 && digits[place - 1].stride > digit.stride; place--)
      digits[place] = digits[place - 1];
    digits[place] = digit;
  }
  int melted = 0;
  for (int i = 0; i < n; i++)
    if (melted > 0 && digits[i].stride == digits[melted - 1].stride * digits[melted - 1].size)
      digits[melted - 1].size *= digits[i].size;
    else
      digits[melted++] = digits[i];
  return melted;
}

int layout_group_size(const Layout *layout, AxisSet axes) {
  Digit digits[N_DIGITS];
  const int n = digits_of(layout, axes, TRUE, digits);
  int size = 1;
  for (int i = 0; i < n; i++)
    size *= digits[i].size;
  return size;
}

int layout_group_index(const Layout *layout, AxisSet axes, int rank) {
  Digit held[N_DIGITS];
  const int n = digits_of(layout, axes, FALSE, held);
  int index = 0, radix = 1;
  for (int i = 0; i < n; i++) {
    index += rank / held[i].stride % held[i].size * radix;
    radix *= held[i].size;
  }
  return index;
}

/* base + every combination of the digits, ascending because the digits are sorted by stride and do not overlap. */
static void expand_members(const Digit *digits, int n_digits, int base, int *members) {
  int n = 1;
  members[0] = base;
  for (int i = 0; i < n_digits; i++) {
    for (int d = 1; d < digits[i].size; d++)
      for (int j = 0; j < n; j++)
        members[d * n + j] = members[j] + d * digits[i].stride;
    n *= digits[i].size;
  }
}

void layout_group_members(const Layout *layout, AxisSet axes, int rank, int *members) {
  Digit digits[N_DIGITS];
  const int n = digits_of(layout, axes, TRUE, digits);
  int base = rank;
  for (int i = 0; i < n; i++)
    base -= rank / digits[i].stride % digits[i].size * digits[i].stride;
  expand_members(digits, n, base, members);
}

int layout_group_place(const Layout *layout, AxisSet axes, int rank) {
  g_autofree int *members = g_new(int, layout_group_size(layout, axes));
  int place = 0;
  layout_group_members(layout, axes, rank, members);
  while (members[place] != rank)
    place++;
  return place;
}

static int compare_gpus(gconstpointer a, gconstpointer b) {
  return *(const int *)a - *(const int *)b;
}

void layout_gpus_of(const Layout *layout, int *members, int n) {
  for (int i = 0; i < n; i++)
    members[i] = layout_gpu(layout, members[i]);
  if (layout->gpu_of_rank != NULL)
    qsort(members, (gsize)n, sizeof *members, compare_gpus);
}

/* How members are spread over blocks of consecutive GPUs (nodes, domains, spans of tiers). */
typedef struct {
  int n_blocks; /* blocks that hold any */
  int most, fewest;
  int first; /* members in the first block */
} Blocks;

static void count_block(Blocks *blocks, int n_members) {
  blocks->first = blocks->most == 0 ? n_members : blocks->first;
  blocks->most = MAX(blocks->most, n_members);
  blocks->fewest = blocks->fewest == 0 ? n_members : MIN(blocks->fewest, n_members);
}

/* `members` ascending. */
static Blocks count_blocks(const int *members, int n, gint64 block) {
  Blocks blocks = {0};
  for (int i = 0, first = 0; i < n; i++)
    if (i + 1 == n || members[i + 1] / block != members[i] / block) {
      blocks.n_blocks++;
      count_block(&blocks, i + 1 - first);
      first = i + 1;
    }
  return blocks;
}

/* Levels that have another above them. */
static int n_inner_levels(const Cluster *cluster) {
  return MAX(cluster_n_levels(cluster) - 1, 0);
}

static void set_blocks(GroupShape *shape, Blocks domains, Blocks nodes) {
  shape->n_domains = domains.n_blocks;
  shape->max_per_domain = domains.most;
  shape->min_per_domain = domains.fewest;
  shape->root_per_domain = domains.first;
  shape->n_nodes = nodes.n_blocks;
  shape->max_per_node = nodes.most;
}

static int common_gap(int a, int b) {
  return a == 0 || a == b ? b : b == 0 ? a : -1;
}

/* `members` ascending. */
static int gap_of(const int *members, int n, int domain_gpus) {
  int gap = 0;
  for (int i = 1; i < n; i++)
    if (members[i] / domain_gpus == members[i - 1] / domain_gpus)
      gap = common_gap(gap, members[i] - members[i - 1]);
  return gap;
}

GroupShape layout_shape_of(const Cluster *cluster, const int *members, int n) {
  g_assert(n >= 1);
  GroupShape shape = {
      .n = n, .gap = gap_of(members, n, cluster->domain_gpus), .span = (gint64)members[n - 1] - members[0] + 1};
  set_blocks(&shape, count_blocks(members, n, cluster->domain_gpus), count_blocks(members, n, cluster->gpus_per_node));
  for (int i = 0; i < n_inner_levels(cluster); i++) {
    const Blocks spans = count_blocks(members, n, cluster_level(cluster, i).span_gpus);
    shape.levels[i] = (LevelShape){spans.n_blocks, spans.fewest, spans.first};
  }
  return shape;
}

static int count_beside(const int *members, int n, gint64 block, int root) {
  int n_beside = 0;
  for (int i = 0; i < n; i++)
    n_beside += members[i] / block == root / block;
  return n_beside;
}

void layout_set_root(GroupShape *shape, const Cluster *cluster, const int *members, int n, int root) {
  shape->root_per_domain = count_beside(members, n, cluster->domain_gpus, root);
  for (int i = 0; i < n_inner_levels(cluster); i++)
    shape->levels[i].with_root = count_beside(members, n, cluster_level(cluster, i).span_gpus, root);
}

/* count_blocks() for the progression base, base + stride, … of `n` members, without listing them. */
static Blocks count_progression_blocks(int base, Digit run, gint64 block) {
  if (run.stride >= block)
    return (Blocks){run.size, 1, 1, 1};
  const gint64 last = base + (gint64)(run.size - 1) * run.stride;
  const int first_block = (int)(base / block);
  Blocks blocks = {.n_blocks = (int)(last / block) - first_block + 1}; /* a step shorter than a block skips none */
  /* Where the progression enters a block repeats after at most `stride` blocks; the last block may end early. */
  const int n_distinct = MIN(blocks.n_blocks, run.stride + 2);
  for (int i = 0; i <= n_distinct; i++) {
    const gint64 begin = (gint64)(first_block + (i < n_distinct ? i : blocks.n_blocks - 1)) * block;
    const gint64 end = MIN(begin + block - 1, last);
    const gint64 before = begin > base ? (begin - 1 - base) / run.stride + 1 : 0; /* members below `begin` */
    count_block(&blocks, (int)((end - base) / run.stride + 1 - before));
  }
  return blocks;
}

/* `scratch` has room for a group of several runs. */
static GroupShape shape_at(const Cluster *cluster, const Digit *digits, int n_digits, int base, int *scratch, int n) {
  if (n_digits > 1) {
    expand_members(digits, n_digits, base, scratch);
    return layout_shape_of(cluster, scratch, n);
  }
  const Digit run = n_digits == 1 ? digits[0] : (Digit){1, 1};
  GroupShape shape = {.n = n, .span = (gint64)(run.size - 1) * run.stride + 1};
  set_blocks(&shape, count_progression_blocks(base, run, cluster->domain_gpus),
             count_progression_blocks(base, run, cluster->gpus_per_node));
  shape.gap = shape.max_per_domain > 1 ? run.stride : 0;
  for (int i = 0; i < n_inner_levels(cluster); i++) {
    const Blocks spans = count_progression_blocks(base, run, cluster_level(cluster, i).span_gpus);
    shape.levels[i] = (LevelShape){spans.n_blocks, spans.fewest, spans.first};
  }
  return shape;
}

static gint64 least_common_multiple(gint64 a, gint64 b) {
  gint64 x = a, y = b;
  while (y != 0) {
    const gint64 rest = x % y;
    x = y;
    y = rest;
  }
  return a / x * b;
}

/* Groups this far apart lie alike in nodes, domains and spans of levels; at most n_ranks. A span that contains all
 * ranks is the same for all groups. */
static int period_of_shapes(const Layout *layout, const Cluster *cluster) {
  gint64 period = least_common_multiple(cluster->gpus_per_node, cluster->domain_gpus);
  for (int i = 0; i < n_inner_levels(cluster) && period < layout->n_ranks; i++)
    if (cluster_level(cluster, i).span_gpus < layout->n_ranks)
      period = least_common_multiple(period, cluster_level(cluster, i).span_gpus);
  return (int)MIN(period, layout->n_ranks);
}

/* Distinct bases of the groups, modulo `period` ≤ n_ranks. Owned by the caller. */
static GArray *distinct_bases(const Digit *held, int n_held, int period) {
  GArray *bases = g_array_new(FALSE, FALSE, sizeof(int));
  g_autofree guint8 *seen = g_malloc0((gsize)period);
  const int zero = 0;
  g_array_append_val(bases, zero);
  seen[0] = 1;
  for (int i = 0; i < n_held; i++) {
    const guint before = bases->len;
    for (guint b = 0; b < before; b++) {
      const int start = g_array_index(bases, int, b);
      gint64 at = start;
      for (int d = 1; d < held[i].size; d++) {
        at = (at + held[i].stride) % period;
        if (at == start)
          break; /* the digit has come full circle: further steps repeat */
        if (seen[at])
          continue;
        seen[at] = 1;
        const int base = (int)at;
        g_array_append_val(bases, base);
      }
    }
  }
  return bases;
}

/* The domain with the fewest members has the fewest links out. */
static gboolean is_worse(const GroupShape *a, const GroupShape *b) {
  if ((a->n_domains > 1) != (b->n_domains > 1))
    return a->n_domains > 1;
  if (a->n_domains > 1 && a->min_per_domain != b->min_per_domain)
    return a->min_per_domain < b->min_per_domain;
  if (a->n_domains != b->n_domains)
    return a->n_domains > b->n_domains;
  if (a->n_nodes != b->n_nodes)
    return a->n_nodes > b->n_nodes;
  return a->max_per_node > b->max_per_node; /* uneven over as many nodes: the fuller node is the bottleneck */
}

/* The worst of each level: a span that a group leaves with the fewest members. */
static void take_levels(GroupShape *worst, const GroupShape *other) {
  for (int i = 0; i < CLUSTER_MAX_LEVELS; i++)
    if (other->levels[i].n_spans > 1 &&
        (worst->levels[i].n_spans < 2 || other->levels[i].fewest < worst->levels[i].fewest))
      worst->levels[i] = other->levels[i];
}

static void take_worse(GroupShape *worst, const GroupShape *shape) {
  GroupShape tiers = *worst;
  const int gap = common_gap(worst->gap, shape->gap);
  if (worst->n == 0 || is_worse(shape, worst))
    *worst = *shape;
  take_levels(worst, shape);
  take_levels(worst, &tiers);
  worst->gap = gap;
}

/* Ranks may be on any GPUs: every group is checked. */
static GroupShape mapped_group_shape(const Layout *layout, const Cluster *cluster, AxisSet axes) {
  Digit digits[N_DIGITS], held[N_DIGITS];
  const int n_digits = digits_of(layout, axes, TRUE, digits), n_held = digits_of(layout, axes, FALSE, held);
  const int n = layout_group_size(layout, axes), n_groups = layout->n_ranks / n;
  g_autofree int *bases = g_new(int, (gsize)n_groups), *members = g_new(int, (gsize)n);
  expand_members(held, n_held, 0, bases);
  GroupShape worst = {0};
  for (int i = 0; i < n_groups; i++) {
    expand_members(digits, n_digits, bases[i], members);
    layout_gpus_of(layout, members, n);
    const GroupShape shape = layout_shape_of(cluster, members, n);
    take_worse(&worst, &shape);
  }
  return worst;
}

GroupShape layout_group_shape(const Layout *layout, const Cluster *cluster, AxisSet axes) {
  if (layout->gpu_of_rank != NULL)
    return mapped_group_shape(layout, cluster, axes);
  Digit digits[N_DIGITS], held[N_DIGITS];
  const int n_digits = digits_of(layout, axes, TRUE, digits), n_held = digits_of(layout, axes, FALSE, held);
  const int n = layout_group_size(layout, axes);
  g_autoptr(GArray) bases = distinct_bases(held, n_held, n == 1 ? 1 : period_of_shapes(layout, cluster));
  g_autofree int *scratch = n_digits > 1 ? g_new(int, (gsize)n) : NULL;
  GroupShape worst = {0};
  for (guint b = 0; b < bases->len; b++) {
    const GroupShape shape = shape_at(cluster, digits, n_digits, g_array_index(bases, int, b), scratch, n);
    take_worse(&worst, &shape);
  }
  return worst;
}

Piece stage_piece(const StageLayers *layers, int layer) {
  int counts[N_PIECES], end = 0;
  count_layers(layers->n_layers, layers->n_dense, &layers->others, counts);
  Piece piece = PIECE_EMBEDDING;
  while (end <= layer && piece < PIECE_HEAD)
    if (++piece < PIECE_HEAD)
      end += counts[piece];
  return piece;
}
