/* Launch options of plans, read back by independent parsers and compared with the names that the frameworks know:
 * tests/data/megatron-arguments.txt, deepspeed-keys.txt, torchtitan-keys.txt. */
#include "error.h"
#include "framework_releases.h"
#include "launch_fixture.h"
#include "plan_with.h"
#include "run_suite.h"
#include "text_file.h"

#include <json-glib/json-glib.h>
#include <string.h>

enum { N_PLANS = 200, MAX_GPUS = 512 };

/* Names → what they are in that release, of a data file: "name kind 0.12-0.15". */
static GHashTable *read_names(const char *file, const char *release) {
  g_autofree char *path = g_strconcat(CASES_FIXTURES, "/", file, NULL), *text = text_file_read(path);
  GHashTable *names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    g_auto(GStrv) words = g_strsplit(*line, " ", 3);
    if (**line == '#' || g_strv_length(words) < 3)
      continue;
    g_auto(GStrv) ends = g_strsplit(words[2], "-", 2);
    if (framework_release_compare(ends[0], release) <= 0 &&
        (ends[1][0] == '\0' || framework_release_compare(release, ends[1]) <= 0))
      ck_assert_msg(g_hash_table_insert(names, g_strdup(words[0]), g_strdup(words[1])), "%s twice", words[0]);
  }
  ck_assert_uint_gt(g_hash_table_size(names), 20);
  return names;
}

/* "0.14" of "Megatron Core 0.14". */
static const char *release_of(const Launch *launch) {
  return strrchr(launch->release, ' ') + 1;
}

/* Whether it is one of "a|b|c". */
static gboolean is_choice(const char *value, const char *choices) {
  g_auto(GStrv) each = g_strsplit(choices, "|", -1);
  return g_strv_contains((const char *const *)each, value);
}

typedef struct {
  LaunchFramework framework;
  const char *product, *release; /* NULL: none is said, the newest is meant */
} Target;

/* Plans drawn at random; those the framework refuses are refused as impossible. How many it does not refuse. */
static int visit_launches_of(Target target, void (*visit)(const Workload *workload, const Launch *launch)) {
  const LaunchFramework framework = target.framework;
  int n_written = 0;
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, MAX_GPUS);
    if (seed % 4 == 0)
      add_cp(&drawn);
    else if (seed % 4 == 1)
      add_experts(&drawn);
    if (seed % 3 == 0 && drawn.cluster->host.link_efficiency > 0 && training_is_of_all(&drawn.plan->training))
      drawn.plan->offload.optimizer = TIER_HOST;
    drawn.plan->framework_product = target.product;
    drawn.plan->framework_release = target.release;
    g_autoptr(Workload) workload = planned(&drawn.model, drawn.cluster, drawn.plan);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) launch = launch_new(framework, workload, drawn.cluster->gpus_per_node, &error);
    if (launch == NULL) {
      if (!g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE))
        ck_abort_msg("%s", error->message);
      continue;
    }
    ck_assert(target.release == NULL || strcmp(release_of(launch), target.release) == 0);
    visit(workload, launch);
    n_written++;
  }
  return n_written;
}

static void visit_launches(LaunchFramework framework, void (*visit)(const Workload *workload, const Launch *launch)) {
  const Target newest = {framework, NULL, NULL};
  ck_assert_int_gt(visit_launches_of(newest, visit), N_PLANS / 20); /* or nothing was looked at */
}

/* Of all releases that the data files have. */
static void visit_releases(LaunchFramework framework, const char *product, const char *const *releases,
                           void (*visit)(const Workload *workload, const Launch *launch)) {
  int n_written = 0;
  for (; *releases != NULL; releases++) {
    const Target target = {framework, product, *releases};
    n_written += visit_launches_of(target, visit);
  }
  ck_assert_int_gt(n_written, N_PLANS / 5);
}

/* --- Megatron-LM --- */

/* The words between the array's parentheses, without quotes, NULL-terminated. */
static char **megatron_words(const char *text) {
  const char *start = strstr(text, "MEGATRON_ARGS=("), *end = strrchr(text, ')');
  ck_assert_ptr_nonnull(start);
  ck_assert_ptr_nonnull(end);
  g_autofree char *inside = g_strndup(start + strlen("MEGATRON_ARGS=("), end - start - strlen("MEGATRON_ARGS=("));
  char **words = NULL;
  g_autoptr(GError) error = NULL;
  ck_assert_msg(g_shell_parse_argv(inside, NULL, &words, &error), "%s", error != NULL ? error->message : "");
  return words;
}

/* The value of an argument; NULL: not there. */
static const char *value_of(char **words, const char *name) {
  for (; *words != NULL; words++)
    if (strcmp(*words, name) == 0)
      return words[1] != NULL ? words[1] : "";
  return NULL;
}

/* A layout of stages, "Et|tt|tL": as many as ranks × chunks, all layers, one embedding, one head. */
static void check_layout(const Workload *workload, const char *layout) {
  g_auto(GStrv) stages = g_strsplit(layout, "|", -1);
  ck_assert_uint_eq(g_strv_length(stages), workload->n_stages);
  gint64 n_layers = 0;
  for (char **stage = stages; *stage != NULL; stage++)
    for (const char *at = *stage; *at != '\0'; at++)
      n_layers += *at == 't';
  ck_assert_int_eq(n_layers, workload->model->n_layers);
  ck_assert_int_eq(stages[0][0], 'E');
  ck_assert_int_eq(layout[strlen(layout) - 1], 'L');
}

static gboolean is_number(const char *text, gboolean is_whole) {
  char *end;
  (void)(is_whole ? (double)g_ascii_strtoll(text, &end, 10) : g_ascii_strtod(text, &end));
  return end != text && *end == '\0';
}

/* Whether the option takes such a value. */
static gboolean takes(const char *kind, const char *value) {
  if (strcmp(kind, "int") == 0 || strcmp(kind, "float") == 0)
    return is_number(value, kind[0] == 'i');
  return strcmp(kind, "value") == 0 || is_choice(value, kind);
}

/* What ends the run in validate_args() of some release. */
static void check_conflicts(const Launch *launch, char **words, const char *release) {
  const gboolean is_fsdp = value_of(words, "--use-megatron-fsdp") != NULL;
  const gboolean has_one = strstr(launch->text, "CUDA_DEVICE_MAX_CONNECTIONS=1 ") != NULL;
  ck_assert(!is_fsdp || (!has_one && value_of(words, "--no-gradient-accumulation-fusion") != NULL));
  ck_assert(!is_fsdp || strcmp(value_of(words, "--ckpt-format"), "fsdp_dtensor") == 0);
  ck_assert(is_fsdp || has_one || value_of(words, "--sequence-parallel") == NULL ||
            value_of(words, "--overlap-moe-expert-parallel-comm") != NULL);
  ck_assert(has_one || framework_release_compare(release, "0.12") >= 0);
  if (framework_release_compare(release, "0.19") >= 0)
    ck_assert_str_ne(value_of(words, "--cross-entropy-fusion-impl") ?: "", "te");
  if (framework_release_compare(release, "0.16") < 0 && value_of(words, "--moe-grouped-gemm") != NULL)
    ck_assert(value_of(words, "--bf16") != NULL);
}

static void check_megatron(const Workload *workload, const Launch *launch) {
  const char *release = release_of(launch);
  g_autoptr(GHashTable) names = read_names("megatron-arguments.txt", release);
  g_auto(GStrv) words = megatron_words(launch->text);
  for (char **word = words; *word != NULL; word++) {
    const char *kind = g_hash_table_lookup(names, *word);
    int n_values = 0;
    while (word[n_values + 1] != NULL && !g_str_has_prefix(word[n_values + 1], "--"))
      n_values++;
    const gboolean is_list = g_strcmp0(kind, "values") == 0;
    if (kind == NULL || (is_list ? n_values == 0 : n_values != (strcmp(kind, "flag") != 0)))
      ck_abort_msg("%s %s of %s", *word, kind == NULL ? "is no argument" : "should be a flag, or should not", release);
    if (!is_list && n_values == 1 && !takes(kind, word[1]))
      ck_abort_msg("%s %s: %s expects %s", *word, word[1], release, kind);
    word += n_values;
  }
  check_conflicts(launch, words, release);
  const char *layout = value_of(words, "--pipeline-model-parallel-layout");
  if (layout != NULL)
    check_layout(workload, layout);
  ck_assert(layout == NULL || value_of(words, "--num-virtual-stages-per-pipeline-rank") == NULL);
}

TEST(megatron_knows_every_argument_it_is_given) {
  visit_launches(LAUNCH_MEGATRON, check_megatron);
}

TEST(every_release_of_megatron_knows_every_argument_it_is_given) {
  static const char *const releases[] = {"0.9",  "0.10", "0.11", "0.12", "0.13", "0.14",
                                         "0.15", "0.16", "0.17", "0.18", "0.19", NULL};
  visit_releases(LAUNCH_MEGATRON, "megatron-core", releases, check_megatron);
}

/* DeepEP and graphs as older releases call them; what they do not have is impossible, and who has it is said. */
TEST(a_release_gets_its_own_names) {
  static const struct {
    const char *release, *with, *without;
  } cases[] = {
      {"0.19", "--cuda-graph-modules moe_router", "--cuda-graph-scope"},
      {"0.17", "--cuda-graph-scope moe_router", "--cuda-graph-modules"},
      {"0.15", "Megatron Core 0.15 has no --cuda-graph-impl, which this plan needs: release 0.16 has it", NULL},
      {"0.11", "Megatron Core 0.11 has no --cuda-graph-impl", NULL},
  };
  g_autoptr(Model) model = read_model("qwen3-30b");
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Plan) plan = plan_with("dp=8 ep=8 zero=1 global-batch=8");
    plan->cuda_graphs = CUDA_GRAPHS_ROUTER;
    plan->framework_product = "megatron-core";
    plan->framework_release = cases[i].release;
    g_autoptr(Workload) workload = planned(model, clusters[1], plan);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) launch = launch_new(LAUNCH_MEGATRON, workload, 8, &error);
    const char *text = launch != NULL ? launch->text : error->message;
    ck_assert_msg((launch == NULL) == (cases[i].without == NULL) && strstr(text, cases[i].with) != NULL, "%s", text);
    ck_assert(cases[i].without == NULL || strstr(text, cases[i].without) == NULL);
  }
}

static Plan *plan_of_llama(void) {
  Plan *plan = plan_with(
      "gpus=16384 tp=8 pp=16 chunks=8 seq-len=8192 global-batch=2048 zero=1 sequence-parallel=on recompute=selective");
  return plan;
}

/* 126 layers and two ends over 16 × 8 stages: each end is a stage of its own, as Megatron-LM counts it. */
TEST(megatron_is_told_what_the_plan_says) {
  g_autoptr(Model) model = read_model("llama-3.1-405b");
  g_autoptr(Cluster) cluster = read_cluster("llama3-h100");
  g_autoptr(Plan) plan = plan_of_llama();
  g_autoptr(Workload) workload = planned(model, cluster, plan);
  g_autoptr(Launch) launch = launch_of(LAUNCH_MEGATRON, workload);
  g_auto(GStrv) words = megatron_words(launch->text);
  static const char *const expected[][2] = {{"--tensor-model-parallel-size", "8"},
                                            {"--pipeline-model-parallel-size", "16"},
                                            {"--num-virtual-stages-per-pipeline-rank", "8"},
                                            {"--micro-batch-size", "1"},
                                            {"--global-batch-size", "2048"},
                                            {"--seq-length", "8192"},
                                            {"--num-layers", "126"},
                                            {"--hidden-size", "16384"},
                                            {"--ffn-hidden-size", "53248"},
                                            {"--num-attention-heads", "128"},
                                            {"--num-query-groups", "8"},
                                            {"--position-embedding-type", "rope"},
                                            {"--normalization", "RMSNorm"},
                                            {"--recompute-granularity", "selective"}};
  for (gsize i = 0; i < G_N_ELEMENTS(expected); i++)
    ck_assert_str_eq(value_of(words, expected[i][0]), expected[i][1]);
  static const char *const flags[] = {"--sequence-parallel",
                                      "--use-distributed-optimizer",
                                      "--overlap-grad-reduce",
                                      "--overlap-param-gather",
                                      "--account-for-embedding-in-pipeline-split",
                                      "--account-for-loss-in-pipeline-split",
                                      "--swiglu",
                                      "--bf16",
                                      "--disable-bias-linear"};
  for (gsize i = 0; i < G_N_ELEMENTS(flags); i++)
    ck_assert_ptr_nonnull(value_of(words, flags[i]));
  ck_assert_ptr_nonnull(strstr(launch->text, "--nnodes 2048 --nproc-per-node 8"));
}

/* DeepSeek-V3 in part: 3 of 61 layers are dense; heads of 128 + 64 and 128. */
TEST(megatron_is_told_of_experts_and_latent_attention) {
  g_autoptr(Model) model = read_model("deepseek-v3");
  g_autoptr(Plan) plan = plan_with("gpus=64 ep=32 zero=1 pp=2 global-batch=64 recompute=selective");
  plan->recompute_modules = MODULE_BIT(MODULE_MOE_ACT) | MODULE_BIT(MODULE_LAYERNORM) | MODULE_BIT(MODULE_MLA_UP_PROJ);
  g_autoptr(Workload) workload = planned(model, clusters[1], plan);
  g_autoptr(Launch) launch = launch_of(LAUNCH_MEGATRON, workload);
  g_auto(GStrv) words = megatron_words(launch->text);
  const struct {
    const char *name, *value;
  } told[] = {{"--num-experts", "256"},
              {"--moe-router-topk", "8"},
              {"--moe-router-num-groups", "8"},
              {"--moe-router-group-topk", "4"},
              {"--moe-router-topk-scaling-factor", "2.5"},
              {"--moe-ffn-hidden-size", "2048"},
              {"--moe-shared-expert-intermediate-size", "2048"},
              {"--moe-layer-freq", "([0]*3+[1]*58)"},
              {"--expert-model-parallel-size", "32"},
              {"--expert-tensor-parallel-size", "1"},
              {"--q-lora-rank", "1536"},
              {"--kv-lora-rank", "512"},
              {"--qk-head-dim", "128"},
              {"--qk-pos-emb-head-dim", "64"},
              {"--v-head-dim", "128"}};
  for (gsize i = 0; i < G_N_ELEMENTS(told); i++)
    ck_assert_pstr_eq(value_of(words, told[i].name), told[i].value);
  ck_assert_ptr_nonnull(strstr(launch->text, "selective --recompute-modules layernorm mla_up_proj moe_act\n"));
  check_megatron(workload, launch);
  /* its YaRN, no head that predicts a token further in the plan, no framework */
  ck_assert_uint_eq(launch->notices->len, 3);
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) deepspeed = launch_new(LAUNCH_DEEPSPEED, workload, 8, &error);
  ck_assert_ptr_null(deepspeed);
  ck_assert_ptr_nonnull(strstr(error->message, "says nothing of experts"));
}

/* Scales of each head's own, as Cohere has them, and of all together, as OLMo 2 has, are left out, and that is said. */
TEST(megatron_is_not_told_of_other_norms_of_q_and_k) {
  static const struct {
    QkNorms norms;
    const char *notice;
  } cases[] = {{QK_NORMS_OWN, "has weights of its own for each head's norm of q and k"},
               {QK_NORMS_WHOLE, "normalises q and k over all heads"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) model = read_model("llama-3-8b");
    model->qk_norms = cases[i].norms;
    g_autoptr(Plan) plan = plan_with("dp=8 zero=1 global-batch=8");
    g_autoptr(Workload) workload = planned(model, clusters[1], plan);
    g_autoptr(Launch) launch = launch_of(LAUNCH_MEGATRON, workload);
    const char *first = strstr(launch->text, "--qk-layernorm"); /* the notice's */
    ck_assert_ptr_null(strstr(first + 1, "--qk-layernorm"));
    gboolean is_said = FALSE;
    for (guint n = 0; n < launch->notices->len; n++)
      is_said = is_said || strstr(g_ptr_array_index(launch->notices, n), cases[i].notice) != NULL;
    ck_assert(is_said);
  }
}

/* Norms behind the rotation (Hunyuan), biases of logits and of all that attention has (Phi-3.5-MoE) and of a softmax's
 * choice (ERNIE 4.5): of Qwen3-30B none, with all of them each. */
TEST(what_megatron_has_otherwise_is_said_of_a_model_that_has_it) {
  static const char *const notices[] = {"normalises q and k behind their rotation", "has a bias on its logits",
                                        "chooses experts by a softmax and biases",
                                        "biases on attention's output beside Q, K and V alone"};
  for (int has_all = 0; has_all < 2; has_all++) {
    g_autoptr(Model) model = read_model("qwen3-30b");
    model->norms_rotated = model->head_bias = has_all != 0;
    model->experts.biased_scores = model->experts.softmax_scores = has_all != 0;
    if (has_all)
      model->qkv_bias = TRUE, model->lone_bias = LONE_BIAS_OUT;
    g_autoptr(Plan) plan = plan_with("dp=8 zero=1 global-batch=8");
    g_autoptr(Workload) workload = planned(model, clusters[1], plan);
    g_autoptr(Launch) launch = launch_of(LAUNCH_MEGATRON, workload);
    for (gsize i = 0; i < G_N_ELEMENTS(notices); i++) {
      int n_said = 0;
      for (guint n = 0; n < launch->notices->len; n++)
        n_said += strstr(g_ptr_array_index(launch->notices, n), notices[i]) != NULL;
      ck_assert_msg(n_said == has_all, "%s: %d times", notices[i], n_said);
    }
  }
}

/* Qwen3 normalises q and k of every head, Mixtral does not. */
TEST(megatron_is_told_of_norms_of_heads) {
  static const char *const names[] = {"mixtral-8x7b", "qwen3-235b"};
  for (int i = 0; i < 2; i++) {
    g_autoptr(Model) model = read_model(names[i]);
    g_autoptr(Plan) plan = plan_with("dp=8 ep=8 zero=1 global-batch=8");
    g_autoptr(Workload) workload = planned(model, clusters[1], plan);
    g_autoptr(Launch) launch = launch_of(LAUNCH_MEGATRON, workload);
    ck_assert_int_eq(strstr(launch->text, "--qk-layernorm") != NULL, i == 1);
    ck_assert_ptr_null(strstr(launch->text, "--moe-router-group-topk"));
    ck_assert_ptr_nonnull(strstr(launch->text, "--moe-token-dispatcher-type alltoall"));
    plan->expert_dispatch = DISPATCH_ALL_GATHER;
    g_autoptr(Workload) gathered = planned(model, clusters[1], plan);
    g_autoptr(Launch) all = launch_of(LAUNCH_MEGATRON, gathered);
    ck_assert_ptr_nonnull(strstr(all->text, "--moe-token-dispatcher-type allgather"));
    plan->expert_dispatch = DISPATCH_DEEPEP;
    g_autoptr(Workload) once = planned(model, clusters[1], plan);
    g_autoptr(Launch) flex = launch_of(LAUNCH_MEGATRON, once);
    ck_assert_ptr_nonnull(strstr(flex->text, "--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep"));
    ck_assert_ptr_null(strstr(flex->text, "--overlap-moe-expert-parallel-comm"));
    ck_assert_ptr_null(strstr(flex->text, "--cuda-graph-impl"));
    plan->cuda_graphs = CUDA_GRAPHS_FULL;
    plan->overlap_experts = TRUE; /* without a pipeline it needs no chunks */
    g_autoptr(Workload) turns = planned(model, clusters[1], plan);
    g_autoptr(Launch) overlapped = launch_of(LAUNCH_MEGATRON, turns);
    ck_assert_ptr_nonnull(strstr(overlapped->text, "--overlap-moe-expert-parallel-comm"));
    ck_assert_ptr_nonnull(strstr(overlapped->text, "--cuda-graph-impl full_iteration"));
  }
}

/* 8 layers over 3 ranks × 2 chunks: neither 8 nor 8 + 2 divides by 6. */
TEST(megatron_gets_a_layout_where_no_even_cut_is_the_plan_s) {
  g_autoptr(Plan) plan = plan_with("pp=3 chunks=2 global-batch=12");
  g_autoptr(Workload) workload = planned(&gpt, NULL, plan);
  g_autoptr(Launch) launch = launch_of(LAUNCH_MEGATRON, workload);
  g_auto(GStrv) words = megatron_words(launch->text);
  const char *layout = value_of(words, "--pipeline-model-parallel-layout");
  ck_assert_ptr_nonnull(layout);
  check_layout(workload, layout);
}

/* --- DeepSpeed and torchtitan: trees of keys --- */

static const char *kind_of(JsonNode *node) {
  if (JSON_NODE_HOLDS_ARRAY(node))
    return "list";
  GType type = json_node_get_value_type(node);
  return type == G_TYPE_INT64     ? "integer"
         : type == G_TYPE_STRING  ? "string"
         : type == G_TYPE_BOOLEAN ? "boolean"
                                  : "number";
}

static void check_keys(JsonObject *object, const char *section, GHashTable *names) {
  g_autoptr(GList) members = json_object_get_members(object);
  for (GList *member = members; member != NULL; member = member->next) {
    JsonNode *node = json_object_get_member(object, member->data);
    g_autofree char *key = g_strconcat(section, *section != '\0' ? "." : "", member->data, NULL);
    if (JSON_NODE_HOLDS_OBJECT(node)) {
      check_keys(json_node_get_object(node), key, names);
      continue;
    }
    const char *kind = g_hash_table_lookup(names, key);
    const gboolean is_chosen = kind != NULL && strcmp(kind_of(node), "string") == 0 && strchr(kind, '|') != NULL;
    if (is_chosen ? !is_choice(json_node_get_string(node), kind) : g_strcmp0(kind, kind_of(node)) != 0)
      ck_abort_msg("%s: %s, expected %s", key, kind_of(node), kind != NULL ? kind : "no such key");
  }
}

static JsonNode *parse_json(const char *text) {
  g_autoptr(GError) error = NULL;
  JsonNode *root = json_from_string(text, &error);
  ck_assert_msg(root != NULL, "%s\n%s", error != NULL ? error->message : "", text);
  return root;
}

static void check_deepspeed(const Workload *workload, const Launch *launch) {
  g_autoptr(GHashTable) names = read_names("deepspeed-keys.txt", release_of(launch));
  g_autoptr(JsonNode) root = parse_json(launch->text);
  JsonObject *config = json_node_get_object(root);
  check_keys(config, "", names);
  /* what DeepSpeed itself checks when it starts */
  gint64 batch = json_object_get_int_member(config, "train_micro_batch_size_per_gpu") *
                 json_object_get_int_member(config, "gradient_accumulation_steps") * workload->plan->dp;
  if (batch != json_object_get_int_member(config, "train_batch_size") || batch != workload->plan->global_batch)
    ck_abort_msg("batches do not multiply: %s", launch->text);
  JsonObject *zero = json_object_get_object_member(config, "zero_optimization");
  if (json_object_get_int_member(zero, "stage") != workload->plan->zero)
    ck_abort_msg("another ZeRO stage: %s", launch->text);
}

TEST(deepspeed_knows_every_key_and_batches_multiply) {
  static const char *const releases[] = {"0.11", "0.13", "0.15.3", "0.16", "0.17", "0.18", "0.19", NULL};
  visit_launches(LAUNCH_DEEPSPEED, check_deepspeed);
  visit_releases(LAUNCH_DEEPSPEED, "deepspeed", releases, check_deepspeed);
}

/* TOML as JSON, by Python's tomllib; NULL where there is none. */
static JsonNode *parse_toml(const char *text) {
  g_autofree char *out = NULL, *python = g_find_program_in_path("python3");
  char *file = text_file_new(".toml", text, -1);
  int status = 0;
  char *command[] = {python, (char *)"-c",
                     (char *)"import sys\ntry: import tomllib, json\nexcept ImportError: sys.exit(77)\n"
                             "print(json.dumps(tomllib.load(open(sys.argv[1], 'rb'))))",
                     file, NULL};
  gboolean ran =
      python != NULL && g_spawn_sync(NULL, command, NULL, G_SPAWN_DEFAULT, NULL, NULL, &out, NULL, &status, NULL);
  text_file_drop(file);
  if (!ran || g_spawn_check_wait_status(status, NULL) == FALSE) {
    ck_assert_msg(!ran || WEXITSTATUS(status) == 77, "no TOML:\n%s", text);
    return NULL;
  }
  return parse_json(out);
}

static void check_torchtitan(const Workload *workload, const Launch *launch) {
  static int n_parsed; /* a Python each */
  if (n_parsed++ % 16 != 0)
    return;
  g_autoptr(GHashTable) names = read_names("torchtitan-keys.txt", release_of(launch));
  g_autoptr(JsonNode) root = parse_toml(launch->text);
  if (root == NULL)
    return;
  check_keys(json_node_get_object(root), "", names);
  JsonObject *parallelism = json_object_get_object_member(json_node_get_object(root), "parallelism");
  gint64 gpus = json_object_get_int_member(parallelism, "data_parallel_replicate_degree") *
                json_object_get_int_member(parallelism, "data_parallel_shard_degree") *
                json_object_get_int_member(parallelism, "tensor_parallel_degree") *
                json_object_get_int_member(parallelism, "context_parallel_degree") *
                json_object_get_int_member(parallelism, "pipeline_parallel_degree");
  ck_assert_int_eq(gpus, workload->plan->gpus);
  if (workload->plan->pp > 1)
    ck_assert_uint_eq(json_array_get_length(json_object_get_array_member(parallelism, "module_fqns_per_model_part")),
                      workload->n_stages);
}

TEST(torchtitan_knows_every_key_and_degrees_multiply) {
  static const char *const releases[] = {"0.1", "0.2", "0.2.2", NULL};
  visit_launches(LAUNCH_TORCHTITAN, check_torchtitan);
  visit_releases(LAUNCH_TORCHTITAN, "torchtitan", releases, check_torchtitan);
}

int main(void) {
  tcase_add_checked_fixture(listed_tests(), set_up, tear_down);
  return run_tests();
}
