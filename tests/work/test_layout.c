#include "layout.h"
#include "method_of.h"
#include "plan.h"
#include "run_suite.h"
#include <check.h>
#include <stdlib.h>

/* A layout of random sizes (at most 3 each) in a random order, from a seed. Groups of ep are single ranks, those of cp,
 * or all of a set of shards. */
static Layout random_layout(GRand *random) {
  int size[N_AXES];
  for (int axis = 0; axis < N_AXES; axis++)
    size[axis] = g_rand_int_range(random, 1, 4);
  const int shard = g_rand_int_range(random, 1, 3);
  g_autoptr(Plan) plan = plan_new();
  plan->tp = size[AXIS_TP], plan->cp = size[AXIS_CP], plan->pp = size[AXIS_PP];
  plan->dp = size[AXIS_DP] * shard, plan->zero_ranks = shard * plan->cp;
  plan->ep = size[AXIS_EP] == 1 ? 1 : size[AXIS_EP] == 2 ? plan->cp : plan->cp * shard;
  for (int i = 0; i < N_AXES; i++)
    plan->order[i] = (Axis)i;
  for (int i = N_AXES - 1; i > 0; i--) {
    const int j = g_rand_int_range(random, 0, i + 1);
    const Axis axis = plan->order[i];
    plan->order[i] = plan->order[j];
    plan->order[j] = axis;
  }
  Layout layout;
  layout_init(&layout, method_of(plan));
  return layout;
}

static Layout layout_of(int tp, int dp, int pp, int zero_ranks) {
  g_autoptr(Plan) plan = plan_new();
  plan->tp = tp, plan->dp = dp, plan->pp = pp, plan->zero_ranks = zero_ranks;
  Layout layout;
  layout_init(&layout, method_of(plan));
  return layout;
}

static Cluster cluster_of(int gpus_per_node, int domain_gpus) {
  return (Cluster){.gpus_per_node = gpus_per_node, .domain_gpus = domain_gpus};
}

static AxisSet random_axes(GRand *random) {
  return (AxisSet)g_rand_int_range(random, 0, 1 << (N_AXES + 3));
}

TEST(default_order_counts_tp_first_and_pp_last) {
  /* rank = tp + TP·(dp + DP·pp) = 1 + 2·(2 + 3·3) = 23 */
  const Layout layout = layout_of(2, 3, 4, 0);
  ck_assert_int_eq(layout.n_ranks, 24);
  ck_assert_int_eq(layout_rank(&layout, &(Coordinates){{[AXIS_TP] = 1, [AXIS_DP] = 2, [AXIS_PP] = 3}}), 23);
}

TEST(ranks_and_coordinates_are_each_others_inverse) {
  GRand *random = g_rand_new_with_seed(1);
  for (int run = 0; run < 50; run++) {
    const Layout layout = random_layout(random);
    for (int rank = 0; rank < layout.n_ranks; rank++) {
      const Coordinates at = layout_coordinates(&layout, rank);
      ck_assert_int_eq(layout_rank(&layout, &at), rank);
    }
  }
  g_rand_free(random);
}

/* The axes that ep and what is left of a set of shards stand for in a random layout. */
static AxisSet plain_axes(const Layout *layout, AxisSet axes) {
  const gboolean has_cp = layout->in_ep[AXIS_CP] > 1, has_dp = layout->in_ep[AXIS_DP] > 1;
  if (axes & AXIS_BIT(AXIS_EP))
    axes |= (has_cp ? AXIS_BIT(AXIS_CP) : 0) | (has_dp ? AXIS_BIT_DP_SHARD : 0);
  if (axes & AXIS_BIT_EXPERT_SHARD)
    axes |= (has_cp ? 0 : AXIS_BIT(AXIS_CP)) | (has_dp ? 0 : AXIS_BIT_DP_SHARD);
  return axes;
}

/* Do two ranks differ only in `axes`? Straight from the definition of coordinates. */
static gboolean same_group(const Layout *layout, AxisSet axes, int a, int b) {
  axes = plain_axes(layout, axes);
  const Coordinates x = layout_coordinates(layout, a), y = layout_coordinates(layout, b);
  for (int axis = 0; axis < N_AXES; axis++) {
    if (axis == AXIS_DP) {
      const gboolean dp = (axes & AXIS_BIT(AXIS_DP)) != 0;
      if (!dp && !(axes & AXIS_BIT_DP_SHARD) && x.at[axis] % layout->dp_shard != y.at[axis] % layout->dp_shard)
        return FALSE;
      if (!dp && !(axes & AXIS_BIT_DP_REPLICA) && x.at[axis] / layout->dp_shard != y.at[axis] / layout->dp_shard)
        return FALSE;
    } else if (!(axes & AXIS_BIT(axis)) && x.at[axis] != y.at[axis]) {
      return FALSE;
    }
  }
  return TRUE;
}

TEST(groups_hold_exactly_the_ranks_that_differ_in_their_axes) {
  GRand *random = g_rand_new_with_seed(2);
  for (int run = 0; run < 60; run++) {
    const Layout layout = random_layout(random);
    const AxisSet axes = random_axes(random);
    const int size = layout_group_size(&layout, axes), rank = g_rand_int_range(random, 0, layout.n_ranks);
    g_autofree int *members = g_new(int, size);
    layout_group_members(&layout, axes, rank, members);
    int n = 0;
    for (int other = 0; other < layout.n_ranks; other++) {
      const gboolean same = same_group(&layout, axes, rank, other);
      ck_assert_int_eq(layout_group_index(&layout, axes, rank) == layout_group_index(&layout, axes, other), same);
      ck_assert_int_lt(layout_group_index(&layout, axes, other), layout.n_ranks / size);
      if (!same)
        continue;
      ck_assert_int_eq(layout_group_place(&layout, axes, other), n);
      ck_assert_int_eq(members[n++], other); /* ascending */
    }
    ck_assert_int_eq(n, size);
  }
  g_rand_free(random);
}

/* Members of the group of `axes` around rank 0 are these. */
static void assert_group(const Layout *layout, AxisSet axes, const int *expected, int n) {
  int members[16];
  ck_assert_int_eq(layout_group_size(layout, axes), n);
  layout_group_members(layout, axes, 0, members);
  for (int i = 0; i < n; i++)
    ck_assert_int_eq(members[i], expected[i]);
}
#define ASSERT_GROUP(layout, axes, ...)                                                                                \
  assert_group(layout, axes, (const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* tp 2, dp 8, ep 4. Experts cut by tp: ep runs over neighbours of dp, ranks 2 apart; the same experts are 8 apart.
 * Whole ones: over tp, then over 2 of dp; the same experts are 4 apart. */
TEST(ep_takes_neighbours_of_dp_and_of_tp_where_experts_are_whole) {
  g_autoptr(Plan) plan = plan_new();
  plan->tp = 2, plan->dp = 8, plan->ep = 4;
  Layout layout;
  layout_init(&layout, method_of(plan));
  ASSERT_GROUP(&layout, AXIS_BIT(AXIS_EP), 0, 2, 4, 6);
  ASSERT_GROUP(&layout, AXIS_BIT_EXPERT_SHARD, 0, 8);
  ck_assert_int_eq(layout.n_expert_shards, 2);
  plan->expert_tp = 1;
  layout_init(&layout, method_of(plan));
  ASSERT_GROUP(&layout, AXIS_BIT(AXIS_EP), 0, 1, 2, 3);
  ASSERT_GROUP(&layout, AXIS_BIT_EXPERT_SHARD, 0, 4, 8, 12);
  ck_assert_int_eq(layout.n_expert_shards, 4);
}

/* cp 2, dp 6 in shards over 6 = cp 2 × dp 3, ep 6: all of a set of shards; replicas are 6 apart. */
TEST(ep_takes_cp_before_dp_and_stays_within_a_set_of_shards) {
  g_autoptr(Plan) plan = plan_new();
  plan->cp = 2, plan->dp = 6, plan->zero_ranks = 6, plan->ep = 6;
  Layout layout;
  layout_init(&layout, method_of(plan));
  ASSERT_GROUP(&layout, AXIS_BIT(AXIS_EP), 0, 1, 2, 3, 4, 5);
  ASSERT_GROUP(&layout, AXIS_BIT_EXPERT_SHARD, 0);
  ASSERT_GROUP(&layout, AXIS_BIT_EXPERT_SHARD | AXIS_BIT_DP_REPLICA, 0, 6);
  plan->ep = 2;
  layout_init(&layout, method_of(plan));
  ASSERT_GROUP(&layout, AXIS_BIT(AXIS_EP), 0, 1);
  ASSERT_GROUP(&layout, AXIS_BIT_EXPERT_SHARD, 0, 2, 4);
}

TEST(shards_are_the_inner_part_of_data_parallelism) {
  /* tp 2, dp 6 in shards of 3: rank 0's shards are dp 0..2 = ranks 0, 2, 4; its replicas dp 0 and 3 = ranks 0, 6. */
  const Layout layout = layout_of(2, 6, 1, 3);
  int members[6];
  ck_assert_int_eq(layout_group_size(&layout, AXIS_BIT_DP_SHARD), 3);
  layout_group_members(&layout, AXIS_BIT_DP_SHARD, 0, members);
  ck_assert_int_eq(members[2], 4);
  ck_assert_int_eq(layout_group_size(&layout, AXIS_BIT_DP_REPLICA), 2);
  layout_group_members(&layout, AXIS_BIT_DP_REPLICA, 0, members);
  ck_assert_int_eq(members[1], 6);
  ck_assert_int_eq(layout_group_size(&layout, AXIS_BIT(AXIS_DP)), 6);
}

TEST(shape_counts_nodes_and_domains) {
  /* Nodes of 4, domains of 8: ranks 2 3 | 5 | 8 9 10 → nodes 0 0 1 2 2 2, domains 0 0 0 1 1 1; span 10 − 2 + 1. */
  const Cluster cluster = cluster_of(4, 8);
  const int members[] = {2, 3, 5, 8, 9, 10};
  const GroupShape shape = layout_shape_of(&cluster, members, 6);
  ck_assert_int_eq(shape.n, 6);
  ck_assert_int_eq(shape.n_nodes, 3);
  ck_assert_int_eq(shape.max_per_node, 3);
  ck_assert_int_eq(shape.n_domains, 2);
  ck_assert_int_eq(shape.max_per_domain, 3);
  ck_assert_int_eq(shape.min_per_domain, 3);
  ck_assert_int_eq(shape.span, 9);
}

TEST(usual_groups_lie_where_people_expect_them) {
  const Cluster dgx = cluster_of(8, 8);
  const Layout layout = layout_of(8, 16, 4, 0);
  const GroupShape tp = layout_group_shape(&layout, &dgx, AXIS_BIT(AXIS_TP));
  ck_assert_int_eq(tp.n_nodes, 1); /* tp fills a node */
  ck_assert_int_eq(tp.max_per_node, 8);
  const GroupShape dp = layout_group_shape(&layout, &dgx, AXIS_BIT(AXIS_DP));
  ck_assert_int_eq(dp.n_nodes, 16); /* one rank on each of 16 neighbouring nodes */
  ck_assert_int_eq(dp.max_per_node, 1);
  ck_assert_int_eq(dp.span, 15 * 8 + 1);
  const GroupShape all = layout_group_shape(&layout, &dgx, (1u << N_AXES) - 1);
  ck_assert_int_eq(all.n_nodes, 64);
  ck_assert_int_eq(all.max_per_node, 8);
}

TEST(tensor_parallelism_that_straddles_nodes_is_seen_in_the_worst_group) {
  /* tp 6 on nodes of 8: groups start at 0, 6, 12, 18: the one at 6 holds 6 7 | 8 9 10 11, two nodes, at most 4 in one.
   */
  const Cluster cluster = cluster_of(8, 8);
  const Layout layout = layout_of(6, 4, 1, 0);
  const GroupShape shape = layout_group_shape(&layout, &cluster, AXIS_BIT(AXIS_TP));
  ck_assert_int_eq(shape.n_nodes, 2);
  ck_assert_int_eq(shape.max_per_node, 4);
}

TEST(a_domain_that_a_group_only_touches_has_the_fewest_links_out) {
  /* tp 4 · dp 32 = 128 ranks a stage in domains of 72, dp in steps of 4. Stage 0: 18 members at 0 … 68, 14 at 72 … 124.
   * Stage 1: 4 at 128 … 140, 18 at 144 … 212, 10 at 216 … 252. */
  const Cluster nvl72 = cluster_of(4, 72);
  const Layout layout = layout_of(4, 32, 2, 0);
  const GroupShape dp = layout_group_shape(&layout, &nvl72, AXIS_BIT(AXIS_DP));
  ck_assert_int_eq(dp.n_domains, 3);
  ck_assert_int_eq(dp.max_per_domain, 18);
  ck_assert_int_eq(dp.min_per_domain, 4);
}

TEST(the_worst_group_is_the_one_that_leaves_a_domain_by_the_fewest_links) {
  /* tp 4 · dp 5 in domains of 72: the stage at 60 has dp groups with 3 members below 72 and 2 above, that at 140 has 1
   * below 144 and 4 above: as many domains and nodes, but one link for the whole group. */
  const Cluster nvl72 = cluster_of(4, 72);
  const Layout layout = layout_of(4, 5, 12, 0);
  const GroupShape dp = layout_group_shape(&layout, &nvl72, AXIS_BIT(AXIS_DP));
  ck_assert_int_eq(dp.n_domains, 2);
  ck_assert_int_eq(dp.min_per_domain, 1);
}

static gboolean is_worse(const GroupShape *a, const GroupShape *b) {
  const gboolean a_leaves = a->n_domains > 1, b_leaves = b->n_domains > 1;
  if (a_leaves != b_leaves)
    return a_leaves;
  if (a_leaves && a->min_per_domain != b->min_per_domain)
    return a->min_per_domain < b->min_per_domain;
  if (a->n_domains != b->n_domains)
    return a->n_domains > b->n_domains;
  return a->n_nodes != b->n_nodes ? a->n_nodes > b->n_nodes : a->max_per_node > b->max_per_node;
}

static GroupShape worst_of_all_groups(const Layout *layout, const Cluster *cluster, AxisSet axes) {
  const int size = layout_group_size(layout, axes);
  g_autofree int *members = g_new(int, size);
  GroupShape worst = {0};
  for (int rank = 0; rank < layout->n_ranks; rank++) {
    layout_group_members(layout, axes, rank, members);
    const GroupShape shape = layout_shape_of(cluster, members, size);
    const int gap = worst.gap == 0 || worst.gap == shape.gap ? shape.gap : shape.gap == 0 ? worst.gap : -1;
    if (is_worse(&shape, &worst))
      worst = shape;
    worst.gap = gap;
  }
  return worst;
}

TEST(worst_shape_equals_that_of_all_groups_one_by_one) {
  GRand *random = g_rand_new_with_seed(3);
  for (int run = 0; run < 400; run++) {
    const Layout layout = random_layout(random);
    const AxisSet axes = random_axes(random);
    const int gpus_per_node = g_rand_int_range(random, 1, 9);
    const Cluster cluster = cluster_of(gpus_per_node, gpus_per_node * g_rand_int_range(random, 1, 4));
    const GroupShape quick = layout_group_shape(&layout, &cluster, axes);
    const GroupShape slow = worst_of_all_groups(&layout, &cluster, axes);
    ck_assert_int_eq(quick.n, slow.n);
    ck_assert_int_eq(quick.n_nodes, slow.n_nodes);
    ck_assert_int_eq(quick.max_per_node, slow.max_per_node);
    ck_assert_int_eq(quick.n_domains, slow.n_domains);
    ck_assert_int_eq(quick.min_per_domain, slow.min_per_domain);
    ck_assert_int_eq(quick.span, slow.span);
    ck_assert_int_eq(quick.gap, slow.gap);
  }
  g_rand_free(random);
}

TEST(members_are_counted_in_the_spans_of_every_tier) {
  /* spans of 8 and 16 GPUs below the last tier: GPUs 0 4 7 | 8 12 || 16 → 3 + 2 + 1, and 5 + 1 */
  Cluster cluster = cluster_of(4, 4);
  cluster.n_tiers = 3;
  cluster.tiers[0].span_gpus = 8;
  cluster.tiers[1].span_gpus = 16;
  cluster.tiers[2].span_gpus = 1024;
  const int members[] = {0, 4, 7, 8, 12, 16};
  const GroupShape shape = layout_shape_of(&cluster, members, 6);
  ck_assert_int_eq(shape.levels[0].n_spans, 3);
  ck_assert_int_eq(shape.levels[0].fewest, 1);
  ck_assert_int_eq(shape.levels[1].n_spans, 2);
  ck_assert_int_eq(shape.levels[1].fewest, 1);
  /* the root is the first of them, or another */
  ck_assert_int_eq(shape.root_per_domain, 1);
  ck_assert_int_eq(shape.levels[0].with_root, 3);
  GroupShape other = shape;
  layout_set_root(&other, &cluster, members, 6, 7);
  ck_assert_int_eq(other.root_per_domain, 2); /* 4 and 7 */
  layout_set_root(&other, &cluster, members, 6, 12);
  ck_assert_int_eq(other.levels[0].with_root, 2);
  ck_assert_int_eq(other.levels[1].with_root, 5);
  const GroupShape five = layout_shape_of(&cluster, members, 5);
  ck_assert_int_eq(five.levels[0].fewest, 2);
  ck_assert_int_eq(five.levels[1].n_spans, 1);
}

/* Fewest members of any group in a span that the group leaves; 0: none leaves one. */
static int fewest_of_all_groups(const Layout *layout, const Cluster *cluster, AxisSet axes, int tier) {
  const int size = layout_group_size(layout, axes);
  g_autofree int *members = g_new(int, size);
  int fewest = 0;
  for (int rank = 0; rank < layout->n_ranks; rank++) {
    layout_group_members(layout, axes, rank, members);
    const LevelShape shape = layout_shape_of(cluster, members, size).levels[tier];
    if (shape.n_spans > 1 && (fewest == 0 || shape.fewest < fewest))
      fewest = shape.fewest;
  }
  return fewest;
}

TEST(of_every_tier_the_fewest_members_of_any_group_count) {
  GRand *random = g_rand_new_with_seed(5);
  for (int run = 0; run < 400; run++) {
    const Layout layout = random_layout(random);
    const AxisSet axes = random_axes(random);
    Cluster cluster = cluster_of(4, 4);
    cluster.n_tiers = 3;
    for (int i = 0; i < 3; i++)
      cluster.tiers[i].span_gpus = (gint64)g_rand_int_range(random, 4, 12) << (2 * i);
    const GroupShape shape = layout_group_shape(&layout, &cluster, axes);
    for (int i = 0; i < 2; i++)
      ck_assert_int_eq(shape.levels[i].n_spans > 1 ? shape.levels[i].fewest : 0,
                       fewest_of_all_groups(&layout, &cluster, axes, i));
  }
  g_rand_free(random);
}

int main(void) {
  return run_tests();
}
