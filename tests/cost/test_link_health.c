/* What remains of a job's links after faults, computed by hand; and the effect on predictions. */
#include "error.h"
#include "run_suite.h"

#include <string.h>

#include "collective_cost.h"
#include "link_health.h"
#include "plan.h"
#include "plan_cases.h"

static void clear_fault(gpointer fault) {
  g_free(((LinkFault *)fault)->a);
  g_free(((LinkFault *)fault)->b);
}

/* `b` NULL: every link of a. */
static void add_fault(Cluster *cluster, const char *a, const char *b, double factor) {
  if (cluster->faults == NULL) {
    cluster->faults = g_array_new(FALSE, FALSE, sizeof(LinkFault));
    g_array_set_clear_func(cluster->faults, clear_fault);
  }
  const LinkFault fault = {g_strdup(a), g_strdup(b), factor, 1};
  g_array_append_val(cluster->faults, fault);
}

static LinkHealth *health_of(const Cluster *cluster, int n_gpus) {
  g_autoptr(GError) error = NULL;
  LinkHealth *health = link_health_new(cluster, NULL, n_gpus, &error);
  ck_assert_msg(health != NULL, "%s", error != NULL ? error->message : "");
  return health;
}

/* What so many GPUs, `gap` apart, keep of 8 NICs; gap 0: the worst such group. */
static double kept(const LinkHealth *health, int members, int gap) {
  return health->domain[(members - 1) * 8 + gap];
}

static void assert_share(double share, double expected) {
  ck_assert_double_eq_tol(share, expected, 1e-9);
}

TEST(a_dead_nic_makes_two_gpus_share_one) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100"); /* a NIC for each of 8 GPUs */
  add_fault(cluster, "node1/nic2", NULL, 0);
  g_autoptr(LinkHealth) health = health_of(cluster, 24);
  /* GPUs 2 and 3 have half of NIC 3 each, six GPUs their own */
  assert_share(health->scale_up, 1);
  assert_share(kept(health, 1, 0), 0.5);
  assert_share(kept(health, 2, 1), 0.5); /* 2 and 3: one NIC of two */
}

TEST(a_dead_nic_is_left_out_of_the_rings) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  add_fault(cluster, "node1/nic2", NULL, 0);
  g_autoptr(LinkHealth) health = health_of(cluster, 24);
  /* GPUs 0 to 3 have NICs 0, 1 and 3 to themselves, all 8 have 7 */
  assert_share(kept(health, 4, 1), 3.0 / 4);
  assert_share(kept(health, 8, 1), 7.0 / 8);
  assert_share(kept(health, 8, 0), 7.0 / 8);
  /* GPUs 0, 2, 4 and 6 have four NICs, of which GPU 3, none of them, takes half of one: all parts wait for that one */
  assert_share(kept(health, 4, 2), 1.0 / 2);
  assert_share(kept(health, 4, 0), 1.0 / 2);
}

TEST(a_slow_nic_is_waited_for_by_all_parts) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  add_fault(cluster, "node1/nic2", NULL, 0.5);
  g_autoptr(LinkHealth) health = health_of(cluster, 24);
  /* an eighth of the buffer goes over each NIC, and takes twice as long over this one */
  assert_share(kept(health, 1, 0), 0.5);
  assert_share(kept(health, 2, 4), 0.5);
  assert_share(kept(health, 8, 1), 0.5);
  /* beside a dead one: seven NICs, at the rate of the slowest */
  add_fault(cluster, "node1/nic6", NULL, 0);
  g_autoptr(LinkHealth) both = health_of(cluster, 24);
  assert_share(kept(both, 8, 1), 7 * 0.5 / 8);
  assert_share(kept(both, 4, 1), 0.5); /* GPUs 0 to 3: four NICs; GPUs 4 to 7 keep 3/4 */
}

TEST(gpus_that_share_nics_wait_for_the_slow_one) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-1-v100"); /* 4 NICs, two GPUs each, and a PCIe switch for these */
  add_fault(cluster, "node0/nic1", NULL, 0.4);
  g_autoptr(LinkHealth) slow = health_of(cluster, 16);
  assert_share(kept(slow, 8, 1), 0.4);
  assert_share(kept(slow, 2, 1), 0.4);
}

TEST(neighbours_that_are_dead_too_are_passed_over) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  add_fault(cluster, "node0/nic2", NULL, 0);
  add_fault(cluster, "node0/nic3", NULL, 0);
  g_autoptr(LinkHealth) health = health_of(cluster, 16);
  /* GPUs 2, 3 and 4 have a third of NIC 4 each */
  assert_share(kept(health, 1, 0), 1.0 / 3);
  assert_share(kept(health, 8, 1), 6.0 / 8);
  assert_share(kept(health, 2, 1), 1.0 / 3); /* 2 and 3 over the NIC of 4, which is another group's */
}

TEST(a_degraded_scale_up_link_is_the_slowest_of_its_ring) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  add_fault(cluster, "node0/gpu1", "node0/nvswitch", 0.25);
  g_autoptr(LinkHealth) health = health_of(cluster, 16);
  assert_share(health->scale_up, 0.25);
  assert_share(kept(health, 1, 0), 1);
}

TEST(an_uplink_is_worn_for_what_leaves_its_pod) {
  g_autoptr(Cluster) cluster = read_cluster("llama3-h100"); /* pods of 3072 GPUs, 1:7 above */
  add_fault(cluster, "tier0.1", "tier1.0", 0.5);
  g_autoptr(LinkHealth) health = health_of(cluster, 3 * 3072);
  assert_share(health->levels[1], 0.5);
  assert_share(kept(health, 1, 0), 1);
  g_autoptr(LinkHealth) one_pod = health_of(cluster, 3072);
  assert_share(one_pod->levels[1], 1);
}

/* Leaves of 8 nodes, 1:2 above: half of the uplinks takes nothing from the NICs, which all of a node's still carry to
 * its neighbours. */
TEST(an_uplink_of_leaves_is_worn_for_what_leaves_them) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  cluster->leaves = (FabricLeaves){.kind = LEAVES_CLASSIC, .n_nodes = 8};
  cluster->tiers[0] = (FabricTier){.span_gpus = 1024, .oversubscription = 2};
  cluster->n_tiers = 1;
  add_fault(cluster, "leaf0", "tier0.0", 0.5);
  g_autoptr(LinkHealth) health = health_of(cluster, 128);
  assert_share(health->levels[1], 0.5);
  assert_share(kept(health, 1, 0), 1);
  assert_share(kept(health, 8, 1), 1);
  g_autoptr(LinkHealth) inside = health_of(cluster, 64);
  assert_share(inside->levels[1], 1);
}

TEST(only_the_links_of_the_job_count) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  add_fault(cluster, "node2/nic0", NULL, 0);
  add_fault(cluster, "node2/gpu5", "node2/nvswitch", 0.5);
  g_autoptr(LinkHealth) elsewhere = health_of(cluster, 16);
  for (int members = 1; members <= 8; members++)
    ck_assert_double_eq(kept(elsewhere, members, 0), 1); /* exactly */
  ck_assert_double_eq(elsewhere->scale_up, 1);
  const int others[] = {4, 12, 20}; /* beside it on node 2: GPUs 0 and 1 share, 4 does not */
  g_autoptr(LinkHealth) beside = link_health_new(cluster, others, 3, NULL);
  assert_share(kept(beside, 1, 0), 1);
  const int it[] = {1, 9, 17};
  g_autoptr(LinkHealth) shares = link_health_new(cluster, it, 3, NULL);
  assert_share(kept(shares, 1, 0), 0.5);
}

TEST(a_gpu_without_any_way_is_impossible) {
  g_autoptr(Cluster) cluster = read_cluster("gb200-nvl72");
  add_fault(cluster, "node3/gpu1", NULL, 0);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(link_health_new(cluster, NULL, 72, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_ptr_nonnull(strstr(error->message, "is dead"));
}

/* --- costs --- */

TEST(boundaries_carry_what_is_left) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  int ranks[16];
  for (int rank = 0; rank < 16; rank++)
    ranks[rank] = rank;
  const GroupShape two_nodes = layout_shape_of(cluster, ranks, 16);
  const int pair[] = {0, 8};
  const GroupShape one_each = layout_shape_of(cluster, pair, 2);
  const double all_Bps = least_net_Bps(cluster, &two_nodes), one_Bps = least_net_Bps(cluster, &one_each);
  add_fault(cluster, "node0/nic5", NULL, 0);
  cluster->health = health_of(cluster, 16);
  assert_share(least_net_Bps(cluster, &two_nodes) / all_Bps, 7.0 / 8);
  assert_share(least_net_Bps(cluster, &one_each) / one_Bps, 0.5);
  /* what all send to all is no ring: GPUs 5 and 6 send theirs through one NIC, and the rest wait */
  Boundary boundaries[MAX_BOUNDARIES];
  const int n = enclosures_find(cluster, &two_nodes, TRUE, boundaries);
  assert_share(boundaries[n - 1].Bps / all_Bps, 0.5);
  /* a send over half of a NIC: latency as ever, twice the time on the wire */
  const double faulty_s = send_cost_s(cluster, 0, 8, 1e9);
  LinkHealth *health = g_steal_pointer(&cluster->health);
  const double sound_s = send_cost_s(cluster, 0, 8, 1e9);
  link_health_free(health);
  assert_share((faulty_s - cluster->nic_latency_s) / (sound_s - cluster->nic_latency_s), 2);
}

/* What was measured on sound links takes longer by what the model says. */
TEST(measured_times_are_those_of_sound_links) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const int pair[] = {0, 8};
  const GroupShape shape = layout_shape_of(cluster, pair, 2);
  CurvePoint point = {.size_bytes = 1e9, .time_s = 1};
  MeasuredCollective curve = {.op = COLLECTIVE_ALL_REDUCE, .gpus = 2, .nodes = 2, .span = {.n_points = 1}};
  MeasuredLinks measured = {.points = &point, .collectives = &curve, .n_collectives = 1};
  const double model_s = collective_cost(cluster, COLLECTIVE_ALL_REDUCE, &shape, 1e9, -1).time_s;
  cluster->health = g_new0(LinkHealth, 1);
  cluster->health->domain = g_new(double, 8 * 8);
  for (int i = 0; i < 8 * 8; i++)
    cluster->health->domain[i] = 0.5;
  cluster->health->scale_up = 1;
  const double faulty_s = collective_cost(cluster, COLLECTIVE_ALL_REDUCE, &shape, 1e9, -1).time_s;
  cluster->measured = &measured;
  assert_share(collective_cost(cluster, COLLECTIVE_ALL_REDUCE, &shape, 1e9, -1).time_s, faulty_s / model_s);
  cluster->measured = NULL;
}

/* --- predictions --- */

/* On two nodes of 8, tp inside, dp between. */
static gint64 step_ns(const Cluster *cluster, int first_node, gboolean fold) {
  Case drawn = {.model = llama, .cluster = cluster, .plan = plan_new()};
  drawn.plan->tp = 8;
  drawn.plan->dp = 2;
  drawn.plan->seq_len = 512;
  drawn.plan->fold = fold;
  if (first_node > 0) {
    drawn.plan->rank_map = g_array_new(FALSE, FALSE, sizeof(int));
    for (int gpu = first_node * 8; gpu < first_node * 8 + 16; gpu++)
      g_array_append_val(drawn.plan->rank_map, gpu);
  }
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  const gint64 ns = prediction->metrics->step_ns;
  case_clear(&drawn);
  return ns;
}

TEST(a_step_waits_for_the_worn_link_unless_it_is_placed_elsewhere) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const gint64 sound_ns = step_ns(cluster, 0, TRUE);
  add_fault(cluster, "node1/nic4", NULL, 0);
  const gint64 worn_ns = step_ns(cluster, 0, TRUE);
  ck_assert_int_gt(worn_ns, sound_ns);
  ck_assert_int_eq(step_ns(cluster, 0, FALSE), worn_ns);
  ck_assert_int_eq(step_ns(cluster, 2, TRUE), sound_ns);
}

TEST(a_slow_nic_costs_a_step_more_than_a_dead_one) {
  /* all 8 GPUs of both nodes in one ring: half of each NIC, or seven of eight */
  gint64 ns[2][2]; /* slow, dead; apart, folded */
  for (int dead = 0; dead < 2; dead++)
    for (int fold = 0; fold < 2; fold++) {
      g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
      add_fault(cluster, "node1/nic4", NULL, dead ? 0 : 0.5);
      Case drawn = {.model = llama, .cluster = cluster, .plan = plan_new()};
      drawn.plan->dp = 16;
      drawn.plan->seq_len = 512;
      drawn.plan->fold = fold;
      g_autoptr(Prediction) prediction = predict_case(&drawn);
      ns[dead][fold] = prediction->metrics->step_ns;
      case_clear(&drawn);
    }
  ck_assert_int_gt(ns[0][0], ns[1][0]);
  ck_assert_int_eq(ns[0][0], ns[0][1]);
  ck_assert_int_eq(ns[1][0], ns[1][1]);
}

/* 2 · 8 ranks are on two nodes, of which the other has the fault, whether or not the plan says how many they are. */
TEST(gpus_that_cp_takes_count_where_their_number_is_left_open) {
  gint64 ns[2];
  for (int said = 0; said < 2; said++) {
    g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
    add_fault(cluster, "node1/nic4", NULL, 0.25);
    Case drawn = {.model = llama, .cluster = cluster, .plan = plan_new()};
    drawn.plan->tp = 2;
    drawn.plan->cp = 8;
    drawn.plan->seq_len = 2048;
    drawn.plan->gpus = said ? 16 : 0;
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    ns[said] = prediction->metrics->step_ns;
    case_clear(&drawn);
  }
  ck_assert_int_eq(ns[0], ns[1]);
}

TEST(faults_never_shorten_a_step_and_those_of_other_nodes_leave_it) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  int n_longer = 0;
  for (guint seed = 0; seed < 60; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, 64);
    drawn.plan->contention = FALSE; /* shares follow who meets whom */
    g_autoptr(Prediction) sound = predict_case(&drawn);
    Cluster worn = *drawn.cluster;
    worn.faults = NULL;
    add_fault(&worn, "node1000/nic0", NULL, 0.5);
    g_autoptr(Prediction) elsewhere = predict_on(&drawn, &worn, drawn.plan);
    add_fault(&worn, "node0/nic0", NULL, 0.5);
    g_autoptr(Prediction) here = predict_on(&drawn, &worn, drawn.plan);
    const gint64 ns = sound->metrics->step_ns;
    g_autofree char *text = case_text(&drawn);
    if (elsewhere->metrics->step_ns != ns || here->metrics->step_ns < ns)
      ck_abort_msg("%s\nsound %d ns, a fault elsewhere %d, here %d", text, (int)ns, (int)elsewhere->metrics->step_ns,
                   (int)here->metrics->step_ns);
    n_longer += here->metrics->step_ns > ns;
    g_array_unref(worn.faults);
  }
  ck_assert_int_gt(n_longer, 10);
  free_case_clusters(clusters);
}

int main(void) {
  return run_tests();
}
