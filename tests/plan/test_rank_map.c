/* Maps from ranks to GPUs: the three file forms, refused files, and the effect on plans and groups. */
#include "rank_map.h"
#include "run_suite.h"

#include "method_of.h"
#include "plan.h"
#include "plan_cases.h"
#include "text_file.h"

/* 16 nodes of 4 GPUs. */
static Cluster small_cluster(void) {
  return (Cluster){.name = (char *)"small", .gpus_per_node = 4, .domain_gpus = 4, .nics_per_node = 4, .max_gpus = 64};
}

static GArray *map_of(const char *text, GError **error) {
  const Cluster cluster = small_cluster();
  char *file = text_file_new(".map", text, -1);
  GArray *map = rank_map_read(file, &cluster, error);
  text_file_drop(file);
  return map;
}

static void assert_map(const char *text, const int *gpus, guint n) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GArray) map = map_of(text, &error);
  ck_assert_msg(map != NULL, "%s: %s", text, error != NULL ? error->message : "");
  ck_assert_uint_eq(map->len, n);
  for (guint rank = 0; rank < n; rank++)
    ck_assert_int_eq(g_array_index(map, int, rank), gpus[rank]);
}

TEST(all_three_forms_say_the_same) {
  /* node 2 whole, then GPUs 1 and 3 of node 0: 8 9 10 11 1 3 */
  const int gpus[] = {8, 9, 10, 11, 1, 3};
  assert_map("8..11,1,3\n", gpus, 6);
  assert_map(" 8 .. 11 , 1,\t3 \n", gpus, 6);
  assert_map("# by hand\n\nrank,node,gpu\n4,node0,1\n0,node2,gpu0\n1,2,1\r\n2,2,2\n3,2,3 # last of node 2\n5,0,3\n",
             gpus, 6);
  assert_map("node2\nnode0 gpus=1,3\n", gpus, 6);
  assert_map("node2\nnode0 gpus=1, 3\n", gpus, 6);
  assert_map("node2 slots=3\nnode2:1\nnode0 gpus=1,3\n", gpus, 6);
}

TEST(columns_stand_in_any_order) {
  assert_map("gpu,rank,node\n3,0,1\n2,1,1\n", (const int[]){7, 6}, 2);
}

TEST(a_host_named_again_has_its_next_free_gpus) {
  assert_map("node0:2\nnode1:1\nnode0\n", (const int[]){0, 1, 4, 2, 3}, 5);
}

/* --- mistakes --- */

static const struct {
  const char *text, *words;
} mistakes[] = {
    {"rank,node,gpu\n0,0,0\n0,0,1\n", ":3: rank 0 is placed twice: on line 2"},
    {"rank,node,gpu\n0,0,1\n1,0,1\n", ":3: GPU 1 of node 0 for rank 1 holds rank 0 already (line 2)"},
    {"rank,node,gpu\n0,0,0\n2,0,1\n", "rank 1 is missing: 2 ranks are placed"},
    {"rank,node,gpu\n0,16,0\n", ":2: found \"16\", expected node 0 to 15"},
    {"rank,node,gpu\n0,0,4\n", ":2: found \"4\", expected gpu 0 to 3"},
    {"rank,node,gpu\n0,0\n", ":2: found \"0,0\", expected three values"},
    {"rank,node\n0,0\n", ":1: column gpu is missing"},
    {"rank,node,gqu\n0,0,0\n", "did you mean"},
    {"rank,node,node\n0,0,0\n", ":1: column node is there twice"},
    {"0,1,1\n", ":1: GPU 1 of node 0 for rank 2 holds rank 1 already (line 1)"},
    {"0,64\n", ":1: found \"64\", expected a GPU from 0 to 63"},
    {"0,x\n", ":1: found \"x\""},
    {"0 1 2\n", ":1: found \"0 1 2\", expected a GPU from 0 to 63; commas go between GPUs"},
    {"0,1\n2,3\n", ":2: a second line of GPUs"},
    {"host0 slots=4\n", ":1: found \"host0\", expected node 0 to 15"},
    {"node0 slots=0\n", ":1: found \"slots=0\" after node0, expected slots=4, :4 or gpus="},
    {"node0 slots=5\n", ":1: node 0 has 4 of its 4 GPUs free, too few for 5 slots"},
    {"node0\nnode0\n", ":2: node 0 has 0 of its 4 GPUs free"},
    {"node0 gpus=4\n", ":1: gpus: found \"4\", expected a GPU from 0 to 3"},
    {"# nothing\n", "found no ranks"},
};

LOOP_TEST(a_mistake_is_named_with_its_line, G_N_ELEMENTS(mistakes)) {
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(map_of(mistakes[_i].text, &error));
  ck_assert_msg(error != NULL && strstr(error->message, mistakes[_i].words) != NULL, "%s: %s", mistakes[_i].text,
                error != NULL ? error->message : "no error");
}

TEST(a_map_of_another_size_than_the_plan_is_impossible) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GArray) map = map_of("0..7\n", &error);
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  ck_assert(rank_map_check(map, 8, cluster, &error));
  ck_assert(!rank_map_check(map, 16, cluster, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "places 8 ranks, the plan has 16"));
}

/* --- what follows --- */

static void assert_tp_shape(const char *map_text, int n_nodes, int max_per_node) {
  const Cluster cluster = small_cluster();
  g_autoptr(GError) error = NULL;
  g_autoptr(Plan) plan = plan_new();
  plan->tp = 4;
  plan->dp = 2;
  plan->rank_map = map_of(map_text, &error);
  Layout layout;
  layout_init(&layout, method_of(plan));
  const GroupShape shape = layout_group_shape(&layout, &cluster, AXIS_BIT(AXIS_TP));
  ck_assert_int_eq(shape.n_nodes, n_nodes);
  ck_assert_int_eq(shape.max_per_node, max_per_node);
}

TEST(groups_lie_where_the_map_puts_their_ranks) {
  /* tp 4, dp 2: groups 0 1 2 3 and 4 5 6 7 */
  assert_tp_shape("node7\nnode3\n", 1, 4);
  assert_tp_shape("0,4,1,5,2,6,3,7\n", 2, 2);   /* GPUs 0 4 1 5 and 2 6 3 7: two of each node */
  assert_tp_shape("0,1,2,3,4,8,12,16\n", 4, 1); /* the second group is the worst */
}

/* Where ranks lie without a map: one after the other, but for the GPUs that a job leaves free in each of its domains.
 */
static GArray *own_gpus(const Cluster *cluster, int n) {
  const int taken = cluster_job_domain(cluster, n);
  GArray *map = g_array_new(FALSE, FALSE, sizeof(int));
  for (int rank = 0; rank < n; rank++) {
    const int gpu = rank / taken * cluster->domain_gpus + rank % taken;
    g_array_append_val(map, gpu);
  }
  return map;
}

TEST(a_map_of_every_rank_to_its_own_gpu_changes_nothing) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  for (guint seed = 0; seed < 120; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, 256);
    g_autoptr(Prediction) plain = predict_case(&drawn);
    drawn.plan->rank_map = own_gpus(drawn.cluster, drawn.plan->gpus);
    g_autoptr(Prediction) mapped = predict_case(&drawn);
    g_autofree char *text = case_text(&drawn);
    if (plain->metrics->step_ns != mapped->metrics->step_ns)
      ck_abort_msg("%s\n%d ns, mapped %d ns", text, (int)plain->metrics->step_ns, (int)mapped->metrics->step_ns);
  }
  free_case_clusters(clusters);
}

/* Of the ranks in a random order. */
static void shuffle(GArray *map, GRand *rand) {
  for (guint i = map->len - 1; i > 0; i--) {
    const guint j = (guint)g_rand_int_range(rand, 0, (gint32)i + 1);
    const int gpu = g_array_index(map, int, i);
    g_array_index(map, int, i) = g_array_index(map, int, j);
    g_array_index(map, int, j) = gpu;
  }
}

TEST(folded_agrees_with_every_rank_apart_on_shuffled_gpus) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  g_autoptr(GRand) rand = g_rand_new_with_seed(11);
  for (guint seed = 0; seed < 60; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, 64);
    drawn.plan->rank_map = own_gpus(drawn.cluster, drawn.plan->gpus);
    shuffle(drawn.plan->rank_map, rand);
    g_autoptr(Prediction) folded = predict_case(&drawn);
    drawn.plan->fold = FALSE;
    g_autoptr(Prediction) apart = predict_case(&drawn);
    g_autofree char *text = case_text(&drawn);
    if (folded->metrics->step_ns != apart->metrics->step_ns)
      ck_abort_msg("%s\nfolded %d ns, apart %d ns", text, (int)folded->metrics->step_ns, (int)apart->metrics->step_ns);
  }
  free_case_clusters(clusters);
}

TEST(tensor_parallelism_over_nodes_is_slower_than_inside_one) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  Case drawn = {.model = llama, .cluster = clusters[1], .plan = plan_new()}; /* dgx-h100, nodes of 8 */
  drawn.plan->tp = 8;
  drawn.plan->dp = 2;
  drawn.plan->gpus = 16;
  drawn.plan->seq_len = 4096; /* of fewer tokens, much is what each call takes */
  g_autoptr(Prediction) inside = predict_case(&drawn);
  drawn.plan->rank_map = own_gpus(drawn.cluster, 16);
  for (int rank = 0; rank < 16; rank++) /* ranks by turns on two nodes */
    g_array_index(drawn.plan->rank_map, int, rank) = rank % 2 * 8 + rank / 2;
  g_autoptr(Prediction) across = predict_case(&drawn);
  ck_assert_double_gt(across->metrics->mean_s[BREAKDOWN_TP], 1.5 * inside->metrics->mean_s[BREAKDOWN_TP]);
  case_clear(&drawn);
  free_case_clusters(clusters);
}

int main(void) {
  return run_tests();
}
