/* How frameworks are told what layers each stage has. */
#include "error.h"
#include "launch.h"
#include "plan.h"
#include "run_suite.h"
#include "small_workloads.h"

/* Of a pipeline of 4 ranks. Owned by the caller. */
static char *text_of(LaunchFramework framework, int n_layers, int chunks, const char *layout) {
  Model model = gpt;
  model.n_layers = n_layers;
  g_autoptr(Plan) plan = plan_new();
  plan->pp = 4;
  plan->chunks = chunks;
  plan->global_batch = 16;
  plan->pipeline_layout = g_strdup(layout);
  g_autoptr(GError) error = NULL;
  g_autoptr(Workload) workload = workload_complete(&model, NULL, plan, &error);
  ck_assert_msg(workload != NULL, "%s", error != NULL ? error->message : "");
  g_autoptr(Launch) launch = launch_new(framework, workload, 8, &error);
  ck_assert_msg(launch != NULL, "%s", error != NULL ? error->message : "");
  g_autoptr(GString) text = g_string_new(launch->text);
  for (guint i = 0; i < launch->notices->len; i++)
    g_string_append(text, g_ptr_array_index(launch->notices, i));
  return g_string_free(g_steal_pointer(&text), FALSE);
}

TEST(megatron_is_told_how_many_layers_each_stage_has) {
  static const struct {
    const char *layout;
    int n_layers, chunks;
    const char *words; /* NULL: nothing of it */
  } cases[] = {
      {"auto", 8, 1, NULL},
      {"2*4", 8, 1, NULL},
      {"1+2+2+3", 8, 1, "--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers 3"},
      {"1+3+2+2", 8, 1, "--pipeline-model-parallel-layout 'Et|ttt|tt|ttL'"},
      {"2+3*2+0", 8, 1, "--pipeline-model-parallel-layout 'Ett|ttt|ttt|L'"},
      {"1+even+2", 9, 2, "--pipeline-model-parallel-layout 'Et|t|t|t|t|t|t|ttL'"},
      {"1*8", 8, 2, "--num-virtual-stages-per-pipeline-rank 2"},
      {"embedding", 11, 1, "--account-for-embedding-in-pipeline-split\n"},
      {"loss", 11, 1, "--account-for-loss-in-pipeline-split\n"},
      {"embedding+loss", 10, 1, "--account-for-embedding-in-pipeline-split\n    --account-for-loss"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = text_of(LAUNCH_MEGATRON, cases[i].n_layers, cases[i].chunks, cases[i].layout);
    ck_assert_msg(cases[i].words == NULL || strstr(text, cases[i].words) != NULL, "%s", text);
    ck_assert(cases[i].words != NULL || (strstr(text, "layout") == NULL && strstr(text, "--decoder") == NULL));
    ck_assert_int_eq(strstr(text, "--account-for-embedding") != NULL, g_str_has_prefix(cases[i].layout, "embedding"));
    ck_assert_int_eq(strstr(text, "--account-for-loss") != NULL, g_str_has_suffix(cases[i].layout, "loss"));
  }
}

TEST(torchtitan_is_told_the_modules_of_each_stage) {
  g_autofree char *text = text_of(LAUNCH_TORCHTITAN, 3, 1, "0+2+1+0");
  ck_assert_ptr_nonnull(strstr(text, "module_fqns_per_model_part = [\n  [\"tok_embeddings\"],\n  [\"layers.0\", "
                                     "\"layers.1\"],\n  [\"layers.2\"],\n  [\"norm\", \"output\"],\n]\n"));
}

TEST(deepspeed_users_are_told_where_to_cut) {
  g_autofree char *text = text_of(LAUNCH_DEEPSPEED, 8, 1, "1+2+2+3");
  ck_assert_ptr_nonnull(strstr(text, "stages of 1+2*2+3 layers"));
  ck_assert_ptr_nonnull(strstr(text, "partition_method"));
}

int main(void) {
  return run_tests();
}
