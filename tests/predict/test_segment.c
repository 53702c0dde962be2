/* Jobs on several scale-up domains use a segment of each: cluster_job_domain(), and the effect on predictions. */
#include "plan_cases.h"
#include "run_suite.h"

/* Racks of 72 of which 64 are taken: 64 and 72 GPUs are in one rack; 128 and 576 = 9 × 64 = 8 × 72 are segments; 144
 * and 216 are whole racks and no whole segments. */
TEST(a_job_of_several_domains_takes_a_segment_of_each) {
  g_autoptr(Cluster) cluster = read_cluster("gb200-nvl72");
  static const struct {
    int gpus, domain;
  } cases[] = {{4, 72}, {64, 72}, {72, 72}, {128, 64}, {144, 72}, {216, 72}, {256, 64}, {576, 64}};
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++)
    ck_assert_int_eq(cluster_job_domain(cluster, cases[i].gpus), cases[i].domain);
  cluster->segment_gpus = cluster->domain_gpus;
  ck_assert_int_eq(cluster_job_domain(cluster, 256), 72);
}

/* What is where is said by the file. */
TEST(described_faults_keep_gpus_where_they_are) {
  g_autoptr(Cluster) cluster = read_cluster("gb200-nvl72");
  cluster->faults = g_array_new(FALSE, FALSE, sizeof(LinkFault));
  ck_assert_int_eq(cluster_job_domain(cluster, 256), 72);
}

/* 1,152 GPUs are 16 racks: 16 segments of 64 fit, 18 do not. Without NICs there is no job of two racks. */
TEST(segments_are_taken_where_there_are_domains_for_them) {
  g_autoptr(Cluster) cluster = read_cluster("gb200-nvl72");
  cluster->max_gpus = 1152;
  ck_assert_int_eq(cluster_job_domain(cluster, 1024), 64);
  ck_assert_int_eq(cluster_job_domain(cluster, 1152), 72);
  cluster->max_gpus = 0;
  ck_assert_int_eq(cluster_job_domain(cluster, 1152), 64);
  cluster->nics_per_node = 0;
  ck_assert_int_eq(cluster_job_domain(cluster, 128), 72);
}

static void add_tiers(Cluster *cluster, int leaf_nodes, gint64 pod_gpus) {
  cluster->leaves.n_nodes = leaf_nodes;
  cluster->n_tiers = 2;
  cluster->tiers[0] = (FabricTier){.span_gpus = pod_gpus, .oversubscription = 2};
  cluster->tiers[1] = (FabricTier){.span_gpus = 8 * pod_gpus, .oversubscription = 16};
}

/* A pod of 8 racks has 8 · 64 = 512 GPUs of the job, leaves of two racks (36 nodes) have 128: 32 nodes. A pod of 600
 * GPUs has 8 ⅓ racks, and no whole number of segments. */
TEST(pods_and_leaves_have_as_many_of_a_job_as_their_domains) {
  g_autoptr(Cluster) cluster = read_cluster("gb200-nvl72");
  add_tiers(cluster, 36, 600);
  ck_assert_int_eq(cluster_job_domain(cluster, 1024), 72);
  add_tiers(cluster, 36, 576);
  cluster_place_job(cluster, 1024, FALSE);
  ck_assert_int_eq(cluster->domain_gpus, 64);
  ck_assert_int_eq(cluster->leaves.n_nodes, 32);
  ck_assert_int_eq(cluster->tiers[0].span_gpus, 512);
  ck_assert_int_eq(cluster->tiers[1].span_gpus, 4096);
}

static Prediction *predict_experts(const Cluster *cluster, const Plan *plan) {
  Model model = *shipped_model("qwen3-235b");
  model.n_layers = 8;
  return predict_plan(&model, cluster, plan);
}

/* Experts of 64 ranks on 256 GPUs: four groups, a rack each. */
static Plan *expert_plan(void) {
  return plan_said("--gpus 256 --pp 4 --ep 64 --global-batch 256 --seq-len 4096");
}

/* Its groups have 64 members in one domain each. */
TEST(groups_of_experts_stay_inside_a_rack) {
  g_autoptr(Cluster) cluster = read_cluster("gb200-nvl72");
  g_autoptr(Plan) plan = expert_plan();
  g_autoptr(Prediction) taken = predict_experts(cluster, plan);
  ck_assert_int_eq(taken->cluster->domain_gpus, 64);
  ck_assert_int_eq(cluster->domain_gpus, 72);
  const AxisSet experts = AXIS_BIT(AXIS_EP);
  ck_assert_int_eq(layout_group_shape(&taken->workload->layout, taken->cluster, experts).n_domains, 1);
  ck_assert_int_eq(layout_group_shape(&taken->workload->layout, cluster, experts).n_domains, 2);
}

/* A rank map says itself where ranks are: in order, racks are full, and groups of 64 lie in two. */
TEST(a_rank_map_is_taken_at_its_word) {
  g_autoptr(Cluster) cluster = read_cluster("gb200-nvl72");
  g_autoptr(Plan) plan = expert_plan();
  g_autoptr(Prediction) taken = predict_experts(cluster, plan);
  plan->rank_map = g_array_new(FALSE, FALSE, sizeof(int));
  for (int gpu = 0; gpu < plan->gpus; gpu++)
    g_array_append_val(plan->rank_map, gpu);
  g_autoptr(Prediction) mapped = predict_experts(cluster, plan);
  ck_assert_int_eq(mapped->cluster->domain_gpus, 72);
  ck_assert_double_gt(mapped->step_time_s, 1.5 * taken->step_time_s);
}

/* The GPUs that the job has, said one by one: racks 0 … 15, of which two pods of 8 have 512 each. Groups of 128 ranks
 * of experts stay in a pod; if pods were taken to have 576 of the job's GPUs, the fifth of them would lie in two. */
TEST(a_map_to_the_gpus_of_segments_changes_nothing_under_tiers) {
  g_autoptr(Cluster) cluster = read_cluster("gb200-nvl72");
  add_tiers(cluster, 0, 576);
  g_autoptr(Plan) plan = plan_said("--gpus 1024 --pp 2 --ep 128 --global-batch 1024 --seq-len 4096");
  g_autoptr(Prediction) taken = predict_experts(cluster, plan);
  plan->rank_map = g_array_new(FALSE, FALSE, sizeof(int));
  for (int rank = 0; rank < plan->gpus; rank++) {
    const int gpu = rank / 64 * 72 + rank % 64;
    g_array_append_val(plan->rank_map, gpu);
  }
  g_autoptr(Prediction) mapped = predict_experts(cluster, plan);
  ck_assert_double_eq(mapped->step_time_s, taken->step_time_s);
}

int main(void) {
  return run_tests();
}
