/* The table of a plan's fields, and what is done with a row. A field that is a number, a switch or a choice needs no
 * code of its own. */
#include "plan_fields.h"

#include <string.h>

#include "error.h"
#include "framework_releases.h"
#include "number_list.h"
#include "pipeline_layout.h"
#include "units.h"

/* --- fields with a text of their own --- */

enum { MOST_LAYERS = 1 << 20 };

/* A run of auto's whose schedule was found in the table, "auto: zb-v", is run again as what was found. */
static gboolean set_schedule(PlanTarget *target, const char *what, const char *text, GError **error) {
  const char *name = schedule_spelling(schedule_run_name(text));
  target->is_by_auto = schedule_is_auto(name) || schedule_run_name(text) != text;
  plan_set_schedule(target->plan, name);
  return TRUE;
}

/* A layout in letters also states the number of multi-token-prediction heads; both must agree. */
static gboolean set_layout(PlanTarget *target, const char *what, const char *text, GError **error) {
  Plan *plan = target->plan;
  int n_mtp = plan->mtp_layers;
  g_clear_pointer(&plan->pipeline_layout, g_free);
  if (strcmp(text, "auto") == 0)
    return TRUE;
  if (pipeline_layout_is_letters(text))
    plan->pipeline_layout = pipeline_layout_of_letters(text, &n_mtp, error);
  else if (pipeline_layout_check(text, error))
    plan->pipeline_layout = g_strdup(text);
  if (plan->pipeline_layout == NULL) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  return n_mtp == plan->mtp_layers ||
         fail_impossible(error, "%s %.80s has %d m, %s is %d", what, text, n_mtp,
                         target->is_column ? "column mtp_layers" : "--mtp-layers", plan->mtp_layers);
}

static const char *layout_text(const Plan *plan) {
  return plan->pipeline_layout != NULL ? plan->pipeline_layout : "auto";
}

static gboolean set_memory_cap(PlanTarget *target, const char *what, const char *text, GError **error) {
  const Plan *plan = target->plan;
  if (!target->is_by_auto && !schedule_is_auto(plan->schedule))
    return fail_input(error, "%s limits the order that --schedule auto makes; found --schedule %s", what,
                      plan->schedule != NULL ? plan->schedule : "left out");
  if (!units_parse(text, UNIT_BYTES, &target->plan->memory_cap, error)) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  return plan->memory_cap >= 1 || fail_input(error, "%s: found \"%.80s\", expected at least one byte", what, text);
}

/* "block:4" is block with four layers, and uniform what Megatron-LM calls full. */
static gboolean set_recompute(PlanTarget *target, const char *what, const char *text, GError **error) {
  const char *colon = strchr(text, ':');
  g_autofree char *name = g_strndup(text, colon != NULL ? (gsize)(colon - text) : strlen(text));
  gint64 n = 0;
  const int index = strcmp(name, "uniform") == 0 ? RECOMPUTE_FULL : parse_choice(what, name, recompute_names(), error);
  if (index < 0)
    return FALSE;
  if (colon != NULL && (index < RECOMPUTE_FULL || index == RECOMPUTE_SQRT))
    return fail_input(error, "%s: found \"%.80s\", expected a number of layers behind full, block or every alone", what,
                      text);
  if (colon != NULL && !units_parse_whole(colon + 1, 1, MOST_LAYERS, &n, error)) {
    g_prefix_error(error, "%s %s: ", what, name);
    return FALSE;
  }
  target->plan->recompute = (Recompute)index;
  if (colon != NULL)
    target->plan->recompute_layers = (int)n;
  return TRUE;
}

static gboolean set_train(PlanTarget *target, const char *what, const char *text, GError **error) {
  return training_parse_train(what, text, &target->plan->training, error);
}

static gboolean set_freeze(PlanTarget *target, const char *what, const char *text, GError **error) {
  return training_parse_freeze(what, text, &target->plan->training, error);
}

/* Few of either are ever used. */
static const char *train_text(const Plan *plan) {
  g_autofree char *text = training_train_text(&plan->training);
  return g_intern_string(text);
}

static const char *freeze_text(const Plan *plan) {
  g_autofree char *text = training_freeze_text(&plan->training);
  return g_intern_string(text);
}

static gboolean set_offload_optimizer(PlanTarget *target, const char *what, const char *text, GError **error) {
  return offload_parse_optimizer(what, text, &target->plan->offload, error);
}

static const char *offload_optimizer(const Plan *plan) {
  return offload_optimizer_text(&plan->offload);
}

static gboolean set_modules(PlanTarget *target, const char *what, const char *text, GError **error) {
  return recompute_modules_parse(what, text, &target->plan->recompute_modules, error);
}

/* There are few sets of modules. */
static const char *modules_text(const Plan *plan) {
  if (plan->recompute != RECOMPUTE_SELECTIVE)
    return NULL;
  g_autofree char *text = plan_recompute_text(plan);
  return *text != '\0' ? g_intern_string(text) : NULL;
}

static gboolean set_precision(PlanTarget *target, const char *what, const char *text, GError **error) {
  Plan *plan = target->plan;
  const int index = parse_choice(what, text, precision_names(), error);
  if (index < 0)
    return FALSE;
  plan->precision = (Precision)index;
  return plan->precision != PRECISION_FP32 || recipe_parse("fp32", &plan->recipe, error);
}

static gboolean set_data(PlanTarget *target, const char *what, const char *text, GError **error) {
  return data_stream_parse(what, text, &target->plan->data, error);
}

static const char *data_text(const Plan *plan) {
  return data_stream_text(&plan->data);
}

static gboolean set_compression(PlanTarget *target, const char *what, const char *text, GError **error) {
  return grad_compression_parse(what, text, &target->plan->compression, error);
}

static const char *compression_text(const Plan *plan) {
  return grad_compression_text(&plan->compression);
}

static gboolean set_outer(PlanTarget *target, const char *what, const char *text, GError **error) {
  return outer_step_parse(what, text, &target->plan->outer, error);
}

static const char *outer_text(const Plan *plan) {
  return outer_step_text(&plan->outer);
}

static gboolean set_servers(PlanTarget *target, const char *what, const char *text, GError **error) {
  return servers_parse(what, text, &target->plan->servers, error);
}

static const char *servers_of_plan(const Plan *plan) {
  return servers_text(&plan->servers);
}

/* "4Mi" of "4Mi tokens" or "4Mitok". Owned by the caller; NULL: not so many tokens. */
static char *number_of_tokens(const char *text) {
  static const char *const units[] = {"tokens", "token", "tok"};
  for (gsize i = 0; i < G_N_ELEMENTS(units); i++)
    if (g_str_has_suffix(text, units[i]))
      return g_strchomp(g_strndup(text, strlen(text) - strlen(units[i])));
  return NULL;
}

/* In sequences, or in tokens, which are whole sequences. */
static gboolean set_global_batch(PlanTarget *target, const char *what, const char *text, GError **error) {
  gint64 *batch = &target->plan->global_batch;
  const gint64 seq_len = target->plan->seq_len;
  g_autofree char *tokens = number_of_tokens(text);
  if (!units_parse_whole(tokens != NULL ? tokens : text, -G_MAXINT64, G_MAXINT64, batch, error)) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  if (*batch < 1)
    return fail_input(error, "%s: found %" INT64 ", expected at least 1", what, *batch);
  if (tokens == NULL)
    return TRUE;
  if (seq_len == 0)
    return fail_input(error, "%s: found \"%.80s\", which needs %s: how many tokens a sequence has", what, text,
                      target->is_column ? "seq_len" : "--seq-len");
  const gint64 n_tokens = *batch;
  *batch /= seq_len;
  return n_tokens % seq_len == 0 ||
         fail_impossible(error,
                         "%s %.80s is no whole number of sequences of seq-len %" INT64 ": nearest are %" INT64
                         " tokens (%" INT64 ") and %" INT64 " (%" INT64 ")",
                         what, text, seq_len, MAX(*batch, 1) * seq_len, MAX(*batch, 1), (MAX(*batch, 1) + 1) * seq_len,
                         MAX(*batch, 1) + 1);
}

static gboolean set_seq_lengths(PlanTarget *target, const char *what, const char *text, GError **error) {
  return seq_lengths_parse(what, text, &target->plan->seq_lengths, error);
}

static const char *seq_lengths_own_text(const Plan *plan) {
  return seq_lengths_text(plan->seq_lengths);
}

static gboolean set_recipe(PlanTarget *target, const char *what, const char *text, GError **error) {
  return recipe_parse(text, &target->plan->recipe, error);
}

static const char *recipe_text(const Plan *plan) {
  return plan->recipe.name;
}

static gboolean set_cp_comm(PlanTarget *target, const char *what, const char *text, GError **error) {
  const int index = cp_comm_parse(what, text, error);
  target->plan->cp_comm = (CpComm)MAX(index, 0);
  return index >= 0;
}

typedef struct {
  Framework framework;
  const char *file, *product, *release; /* interned */
} KnownFramework;

static gboolean find_framework(const char *name, KnownFramework *found, GError **error) {
  g_auto(FrameworkChoice) choice = {0};
  if (!framework_choose(name, &choice, error) || !framework_read(choice.file, &found->framework, error))
    return FALSE;
  found->file = g_intern_string(choice.file);
  found->product = g_intern_string(choice.product);
  found->release = g_intern_string(choice.release);
  return TRUE;
}

static gboolean set_framework(PlanTarget *target, const char *what, const char *text, GError **error) {
  const KnownFramework *known = target->frameworks != NULL ? g_hash_table_lookup(target->frameworks, text) : NULL;
  KnownFramework named;
  if (known == NULL && !find_framework(text, &named, error)) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  const KnownFramework *taken = known != NULL ? known : &named;
  plan_set_framework(target->plan, taken->file, &taken->framework);
  plan_call_framework(target->plan, text, taken->product, taken->release);
  if (known == NULL && target->frameworks != NULL)
    g_hash_table_insert(target->frameworks, g_strdup(text), g_memdup2(&named, sizeof named));
  return TRUE;
}

static gboolean set_order(PlanTarget *target, const char *what, const char *text, GError **error) {
  return plan_parse_order(target->plan, text, error);
}

/* There are 120 orders. */
static const char *order_text(const Plan *plan) {
  char text[N_AXES * sizeof "tp-"], *end = text;
  for (int i = 0; i < N_AXES; i++) {
    end = stpcpy(end, axis_name(plan->order[i]));
    *end++ = i + 1 < N_AXES ? '-' : '\0';
  }
  return g_intern_string(text);
}

enum { MOST_SLOW_RANKS = 1 << 20 }; /* ranks in ranges are below this */

/* "5", "0..7" or "0..63+8". */
static gboolean parse_ranks(const char *text, NumberRange *ranks) {
  if (strstr(text, "..") != NULL)
    return number_range_parse(text, 0, ranks) && ranks->last < MOST_SLOW_RANKS;
  guint64 rank;
  if (!g_ascii_string_to_unsigned(text, 10, 0, G_MAXINT, &rank, NULL))
    return FALSE;
  *ranks = (NumberRange){.first = (gint64)rank, .last = (gint64)rank, .step = 1};
  return TRUE;
}

/* Adds to those set before. */
static gboolean set_slow_ranks(PlanTarget *target, const char *what, const char *text, GError **error) {
  g_auto(GStrv) parts = g_strsplit(text, "=", 2);
  NumberRange ranks;
  char *end = NULL;
  double factor = parts[0] != NULL && parts[1] != NULL ? g_ascii_strtod(parts[1], &end) : 0;
  if (end == NULL || end == parts[1] || *end != '\0' || !parse_ranks(parts[0], &ranks))
    return fail_input(error,
                      "%s: found \"%.80s\", expected RANK=FACTOR or FIRST..LAST=FACTOR, the first rank below "
                      "the last and that below %d, e.g. 5=1.4 or 0..7=1.4",
                      what, text, MOST_SLOW_RANKS);
  gint64 rank = ranks.first;
  do {
    SlowRank slow = {(int)rank, factor};
    g_array_append_val(target->plan->slow_ranks, slow);
  } while (number_range_next(&ranks, &rank));
  return TRUE;
}

/* Read once the cluster is known. */
static gboolean set_nothing(PlanTarget *target, const char *what, const char *text, GError **error) {
  return TRUE;
}

static const char *no_text(const Plan *plan) {
  return NULL;
}

/* --- the table --- */

#define IN_PLAN(member) .offset = offsetof(Plan, member)
static const PlanField fields[] = {
    {"gpus", "N", "total GPUs", PLAN_COUNT, IN_PLAN(gpus), .is_open_at_0 = TRUE, .otherwise = ": tp × cp × pp × dp",
     .least = 1, .most = PLAN_MOST_RANKS},
    {"tp", "N", "tensor-parallel size", PLAN_COUNT, IN_PLAN(tp), .by_default = "1", .least = 1,
     .most = PLAN_MOST_RANKS},
    {"pp", "N", "pipeline-parallel size", PLAN_COUNT, IN_PLAN(pp), .by_default = "1", .least = 1,
     .most = PLAN_MOST_RANKS},
    {"dp", "N", "data-parallel size", PLAN_COUNT, IN_PLAN(dp), .is_open_at_0 = TRUE,
     .otherwise = ": gpus / (tp × cp × pp)", .least = 1, .most = PLAN_MOST_RANKS},
    {"cp", "N", "context-parallel size: ranks that share each sequence", PLAN_COUNT, IN_PLAN(cp), .by_default = "1",
     .least = 1, .most = PLAN_MOST_RANKS},
    {"ep", "N", "expert-parallel size, out of cp × dp, or of tp × cp × dp with --expert-tp 1", PLAN_COUNT, IN_PLAN(ep),
     .by_default = "1", .least = 1, .most = PLAN_MOST_RANKS},
    {"expert-tp", "N", "tensor-parallel size of the experts: 1, or that of --tp", PLAN_COUNT, IN_PLAN(expert_tp),
     .is_open_at_0 = TRUE, .otherwise = "", .least = 0, .most = PLAN_MOST_RANKS},
    {"expert-load", "RATIO", "load of the fullest rank of --ep over the mean, e.g. 1.2", PLAN_RATIO,
     IN_PLAN(expert_load), .by_default = "1", .otherwise = ": balanced", .least = 1, .most = PLAN_MOST_RANKS,
     .means = "the fullest rank's rows over their mean, "},
    {"chunks", "N", "model chunks (virtual stages) per pipeline rank", PLAN_COUNT, IN_PLAN(chunks),
     .is_open_at_0 = TRUE,
     .otherwise = ": what the schedule needs; 2 for interleaved and looped-bfs; auto tries those of all schedules",
     .least = 1, .most = 1 << 16},
    {"schedule", "NAME", NULL, PLAN_TEXT, IN_PLAN(schedule), .set = set_schedule, .uses = PLAN_FIELD_FILE,
     .otherwise = " 1f1b; interleaved with chunks"},
    {"pipeline-layout", "LAYERS",
     "layers of each stage: 7+8*14+6, or 7+even+6; or Megatron-LM's notation: Et*7|(t*8|)*14t*6L; balanced: by FLOPs; "
     "embedding, loss or embedding+loss: count these as a layer",
     PLAN_OWN_TEXT, .set = set_layout, .text = layout_text, .turn = 3, .otherwise = " auto: equal where that divides"},
    {"micro-batch-group", "N", "interleaved: consecutive micro-batches through one chunk", PLAN_COUNT, IN_PLAN(group),
     .is_open_at_0 = TRUE, .otherwise = ": about pp", .least = 1, .most = 1000000},
    {"micro-batch", "N", "sequences per micro-batch", PLAN_COUNT64, IN_PLAN(micro_batch), .is_open_at_0 = TRUE,
     .by_default = "1", .least = 1, .most = 1 << 20},
    {"global-batch", "N", "sequences per step, or tokens with --seq-len (4Mi tokens)", PLAN_COUNT64,
     IN_PLAN(global_batch), .set = set_global_batch, .turn = 2, .is_open_at_0 = TRUE,
     .otherwise = ": micro-batch × dp × 4·pp, or × 1 without a pipeline", .least = 1,
     .most = G_GINT64_CONSTANT(1) << 40},
    {"seq-len", "N", "tokens per sequence", PLAN_COUNT64, IN_PLAN(seq_len), .is_open_at_0 = TRUE,
     .otherwise = ": the model's positions, at most 4096", .least = 1, .most = 1 << 27},
    {"seq-lengths", "SPEC",
     "how long sequences are, longer ones cut at --seq-len: uniform:512-4096, lognormal:1200+1.1 (median, sigma), or a "
     "file with one length in each line or in the CSV column length; drawn by --seed",
     PLAN_OWN_TEXT, .set = set_seq_lengths, .text = seq_lengths_own_text, .uses = PLAN_FIELD_FILE, .by_default = "none",
     .otherwise = ": all as long as --seq-len"},
    {"batching", "HOW",
     "with --seq-lengths: padded (to --seq-len), longest (to the longest of a micro-batch), packed (rows of --seq-len, "
     "first-fit decreasing), concatenated (the same, cut where rows end), balanced (no rows: micro-batches of about "
     "equal tokens); attention stays within a sequence",
     PLAN_CHOICE, IN_PLAN(batching), .names = batching_names, .by_default = "padded"},
    {"memory-cap", "BYTES", "with --schedule auto: memory limit of a GPU, without what is reserved, e.g. 60GB",
     PLAN_BYTES, IN_PLAN(memory_cap), .is_open_at_0 = TRUE, .set = set_memory_cap, .turn = 3,
     .otherwise = ": what it has"},
    {"steps", "N", "steps run back to back; more than 1 reports the steady state", PLAN_COUNT, IN_PLAN(steps),
     .is_open_at_0 = TRUE,
     .otherwise =
         " 1; 3 in a pipeline without --grad-norm-barrier, and with --data; what a period of --local-steps needs; "
         "12 and twice S with --parameter-servers …+async=S",
     .least = 1, .most = 1000},
    {"mtp-layers", "N", "multi-token prediction layers to train, of those the model has", PLAN_COUNT,
     IN_PLAN(mtp_layers), .by_default = "0", .least = 0, .most = 64},
    {"zero", "N", "ZeRO stage 0 to 3", PLAN_COUNT, IN_PLAN(zero), .by_default = "0", .least = 0, .most = 3},
    {"zero-ranks", "N", "ranks that share one set of shards, as in HSDP", PLAN_COUNT, IN_PLAN(zero_ranks),
     .is_open_at_0 = TRUE, .otherwise = " 0: all of dp × cp", .least = 0, .most = PLAN_MOST_RANKS},
    {"recompute", "WHAT",
     "none, selective (modules of each layer), or whole layers, with N of --recompute-num-layers: full (all, N at "
     "once: "
     "Megatron-LM's uniform), block (the first N of each stage), every (every N-th) or sqrt (full, N the root of a "
     "stage's "
     "layers)",
     PLAN_CHOICE, IN_PLAN(recompute), .names = recompute_names, .set = set_recompute, .by_default = "none"},
    {"recompute-num-layers", "N",
     "layers that --recompute full makes again together, how many of a stage's first ones block does, or which ones "
     "every "
     "does; also said as block:N",
     PLAN_COUNT, IN_PLAN(recompute_layers), .is_open_at_0 = TRUE, .otherwise = " 1", .least = 1, .most = MOST_LAYERS},
    {"recompute-modules", "MODULES",
     "what --recompute selective recomputes, joined by +: core_attn, layernorm, mla_up_proj, moe_act, shared_experts, "
     "mlp, moe",
     PLAN_OWN_TEXT, .set = set_modules, .text = modules_text, .otherwise = " core_attn, or the framework's"},
    {"train", "WHAT",
     "full, or lora:RANK: adapters beside the products of layers, all weights frozen; lora:16:q_proj+v_proj: of these "
     "products alone",
     PLAN_OWN_TEXT, .set = set_train, .text = train_text, .by_default = "full"},
    {"freeze", "WHAT", "what is not trained, joined by +: embedding, layers:N (the first N), head; or none",
     PLAN_OWN_TEXT, .set = set_freeze, .text = freeze_text, .by_default = "none"},
    {"sequence-parallel", "on|off", "on or off", PLAN_SWITCH, IN_PLAN(sequence_parallel), .by_default = "off"},
    {"precision", "NAME", "bf16, fp16, fp32, fp8, mxfp8 or nvfp4", PLAN_CHOICE, IN_PLAN(precision),
     .names = precision_names, .set = set_precision, .by_default = "bf16"},
    {"recipe", "NAME",
     "bytes per parameter: bf16+master, megatron, no-master (moments in fp32), pure-bf16 (in bf16), fp32-grads, "
     "fp32, fp8+master, megatron-fp8, deepseek-v3, qlora (adapters beside 4-bit weights), or spelled out as "
     "w2+g4+p4+m4+v4: weights, gradients, master copy, moments; +f0.5: frozen weights of layers",
     PLAN_OWN_TEXT, .set = set_recipe, .text = recipe_text, .turn = 2, .by_default = "bf16+master",
     .otherwise = "; fp32 with --precision fp32"},
    {"attention", "KIND", "flash or unfused", PLAN_CHOICE, IN_PLAN(attention), .names = attention_names,
     .by_default = "flash"},
    {"layer-kernels", "KIND",
     "RMSNorm, rotation and gate as one kernel each (fused: torch.compile, Liger, Transformer Engine) or as separate "
     "PyTorch operations (plain)",
     PLAN_CHOICE, IN_PLAN(layer_kernels), .names = kernels_names, .otherwise = " fused, or the framework's"},
    {"norm-kernel", "KIND", "RMSNorm alone as one kernel (fused) or as separate PyTorch operations (plain)",
     PLAN_CHOICE, IN_PLAN(norm_kernel), .names = kernels_names, .otherwise = " as --layer-kernels"},
    {"loss", "KIND",
     "cross-entropy: vocabulary_parallel (Megatron-LM: fp32 operations on each tp rank's logits), plain (PyTorch: fp32 "
     "operations on all logits), fused (torch.compile, Liger or Transformer Engine: on 16-bit logits, in place) or "
     "chunked (Liger's fused linear cross-entropy: with the output layer, a chunk of tokens at a time)",
     PLAN_CHOICE, IN_PLAN(loss), .names = loss_names, .otherwise = " vocabulary_parallel, or the framework's"},
    {"expert-dispatch", "HOW",
     "how tokens reach experts on other ranks: all_to_all (one copy per expert), deepep (DeepEP, HybridEP: one copy "
     "per node that has any of a token's experts, then to each rank there) or all_gather (all tokens to all ranks)",
     PLAN_CHOICE, IN_PLAN(expert_dispatch), .names = expert_dispatch_names,
     .otherwise = " all_to_all, or the framework's"},
    {"overlap-experts", "on|off",
     "overlap the expert exchanges of a forward with the compute of a backward and the reverse, in interleaved "
     "schedules and without a pipeline",
     PLAN_SWITCH, IN_PLAN(overlap_experts), .otherwise = " off, or the framework's; always on in dualpipe*"},
    {"cuda-graphs", "WHAT",
     "what CUDA graphs replay: none; in MoE layers router, or attention (and the router); or full, the whole step",
     PLAN_CHOICE, IN_PLAN(cuda_graphs), .names = cuda_graphs_names,
     .otherwise = " none, or the framework's on this machine"},
    {"cp-comm", "HOW",
     "context-parallel attention: ring (keys and values circulate while attention runs; Transformer Engine's p2p), "
     "all_gather (of keys and values, before attention) or ulysses (a2a: heads exchanged for tokens; if there are "
     "fewer key-value heads than ranks, they are repeated first)",
     PLAN_CHOICE, IN_PLAN(cp_comm), .names = cp_comm_names, .set = set_cp_comm, .by_default = "ring"},
    {"overlap-grad", "on|off", "overlap gradient collectives with backward", PLAN_SWITCH, IN_PLAN(overlap_grad),
     .by_default = "on", .otherwise = ", or the framework's"},
    {"overlap-param", "on|off", "overlap parameter gathers with compute", PLAN_SWITCH, IN_PLAN(overlap_param),
     .by_default = "on", .otherwise = ", or the framework's"},
    {"overlap-p2p", "on|off", "a stage computes while it sends to the next", PLAN_SWITCH, IN_PLAN(overlap_p2p),
     .otherwise =
         " off, as Megatron-LM runs 1f1b; on with zb-*, v-*, dualpipe*, orders of auto and file:, or the framework's"},
    {"bucket", "N", "minimum parameters per gradient bucket", PLAN_COUNT64, IN_PLAN(bucket_parameters),
     .is_open_at_0 = TRUE, .otherwise = " max(40000000, 1000000·dp·cp)", .least = 1,
     .most = G_GINT64_CONSTANT(1) << 50},
    {"compress-grad", "HOW",
     "what is summed over dp instead of gradients: none, fp16, bf16, topk:SHARE (each rank's largest values), onebit "
     "(signs and a scale) or powersgd:RANK (matrices as products of that rank); what the last three lose is added to "
     "the next step's",
     PLAN_OWN_TEXT, .set = set_compression, .text = compression_text, .by_default = "none"},
    {"prefetch", "N", "ZeRO-3: pieces (embedding, layer, head) gathered ahead of use", PLAN_COUNT, IN_PLAN(prefetch),
     .by_default = "1", .least = 0, .most = 1 << 20},
    {"grad-norm-barrier", "on|off", "the optimizer waits for the global gradient norm", PLAN_SWITCH,
     IN_PLAN(grad_norm_barrier),
     .otherwise = " on; off with zb-*, v-* and auto, whose stages run on into the next step"},
    {"framework", "NAME",
     "framework to model: a product, such as megatron-core, as people run it today, one of its releases, "
     "megatron-core@0.14, or a file; adds its time and memory overheads and sets the default recipe",
     PLAN_TEXT, IN_PLAN(framework), .set = set_framework, .turn = 1, .uses = PLAN_FIELD_FILE, .otherwise = ": none"},
    {"order", "AXES", "rank order, innermost first", PLAN_OWN_TEXT, .set = set_order, .text = order_text,
     .by_default = "tp-cp-ep-dp-pp"},
    {"flops", "HOW",
     "FLOPs counted in MFU: causal (as Megatron-LM since core 0.12), megatron (full attention, as it counted before) "
     "or 6n",
     PLAN_CHOICE, IN_PLAN(flops), .names = flops_convention_names, .by_default = "causal"},
    {"offload-optimizer", "WHERE",
     "where master copy, moments and reduced gradients live; off the GPU, the node's CPUs run the update: none, host "
     "(memory), nvme, or host:SHARE: of this share of the parameters, while the GPU updates the others "
     "(ZeRO-Offload++)",
     PLAN_CHOICE, IN_PLAN(offload.optimizer), .names = offload_names, .set = set_offload_optimizer,
     .text = offload_optimizer, .by_default = "none"},
    {"offload-weights", "WHERE",
     "where ZeRO-3's weight shards live, fetched before each gather: none (the GPU), host or nvme", PLAN_CHOICE,
     IN_PLAN(offload.weights), .names = offload_names, .by_default = "none"},
    {"offload-activations", "WHERE", "where saved activations wait for backward: none (the GPU) or host", PLAN_CHOICE,
     IN_PLAN(offload.activations), .names = offload_activations_names, .by_default = "none"},
    {"data", "BYTES[+…]",
     "what a sequence's data takes: bytes read from storage, and +readers=N of a rank that needs it (2), +time=T of a "
     "reader for a sequence (0 s), +storage=RATE of all nodes together (the cluster's), e.g. 600kB+readers=4+time=3ms",
     PLAN_OWN_TEXT, .set = set_data, .text = data_text, .by_default = "none", .otherwise = ": always there"},
    {"islands", "N",
     "groups of dp that sum gradients among themselves alone, as local SGD and DiLoCo do; the GPUs of one are "
     "consecutive",
     PLAN_COUNT, IN_PLAN(islands), .is_open_at_0 = TRUE, .otherwise = " 1; dp with --local-steps above 1", .least = 1,
     .most = PLAN_MOST_RANKS},
    {"local-steps", "N", "steps of an island between two outer steps, in which it meets the others", PLAN_COUNT,
     IN_PLAN(local_steps), .by_default = "1", .least = 1, .most = 1000000},
    {"outer", "HOW[+…]",
     "the outer step of islands: nesterov (DiLoCo), with +lr=X (0.7) and +momentum=X (0.9), or mean of the parameters "
     "(local SGD); +bytes=N of a parameter's difference as it is sent (4), +fragments=N of the parameters that take "
     "turns (1), +delay=N steps beside which a sum runs before it is applied (0), e.g. nesterov+bytes=1+delay=1",
     PLAN_OWN_TEXT, .set = set_outer, .text = outer_text, .by_default = "nesterov"},
    {"parameter-servers", "N[+…]",
     "nodes beside the GPUs' that sum gradients over dp and update: N, or workers: the GPUs' own; +sync, or +async=S, "
     "S steps ahead at most (+async: any number); +local=N of dp that sum first; of a server +nic=RATE (its node's) "
     "and "
     "+memory=RATE (the cluster's host), e.g. 4+async=2+local=8+memory=200GB/s",
     PLAN_OWN_TEXT, .set = set_servers, .text = servers_of_plan, .by_default = "none"},
    {"fold", "on|off", "simulate one representative per pipeline rank", PLAN_SWITCH, IN_PLAN(fold),
     .uses = PLAN_FIELD_SIMULATED, .by_default = "on", .otherwise = "; off with jitter or slow ranks"},
    {"contention", "on|off", "transfers that share a GPU's links slow each other down", PLAN_SWITCH,
     IN_PLAN(contention), .uses = PLAN_FIELD_SIMULATED, .by_default = "on"},
    {"jitter", "SHARE", "relative standard deviation of compute times, e.g. 0.02", PLAN_RATIO, IN_PLAN(jitter),
     .uses = PLAN_FIELD_SIMULATED, .by_default = "0", .least = 0, .most = 0.5, .means = "a share from "},
    {"seed", "N", "seed of the jitter and of --seq-lengths", PLAN_COUNT64, IN_PLAN(seed), .uses = PLAN_FIELD_SIMULATED,
     .by_default = "1"},
    {"slow-rank", "R=F", "global rank R (or ranks 0..7) computes F times as long; repeatable", PLAN_OWN_TEXT,
     .set = set_slow_ranks, .text = no_text, .uses = PLAN_FIELD_SIMULATED | PLAN_FIELD_REPEATED},
    {"rank-map", "FILE", "which GPU each rank runs on: a list of GPUs, a table rank,node,gpu or a host list",
     PLAN_OWN_TEXT, .set = set_nothing, .text = no_text, .uses = PLAN_FIELD_PLACED | PLAN_FIELD_FILE,
     .otherwise = ": rank r on GPU r"},
};

int plan_n_fields(void) {
  return G_N_ELEMENTS(fields);
}

const PlanField *plan_field(int field) {
  return &fields[field];
}

int plan_field_find(const char *name) {
  for (int i = 0; i < plan_n_fields(); i++)
    if (strcmp(fields[i].name, name) == 0)
      return i;
  return -1;
}

const char *plan_field_help(const PlanField *field) {
  g_autoptr(GString) help = g_string_new(field->help);
  if (field->help == NULL) {
    g_autofree char *names = g_strjoinv(", ", (char **)schedule_choices());
    g_string_append_printf(help, "%s, or file:orders.csv", names);
  }
  if (field->by_default != NULL || field->otherwise != NULL)
    g_string_append_printf(help, " (default%s%s%s)", field->by_default != NULL ? " " : "",
                           field->by_default != NULL ? field->by_default : "",
                           field->otherwise != NULL ? field->otherwise : "");
  return g_intern_string(help->str);
}

gboolean plan_field_is_axis(const PlanField *field) {
  return !(field->uses & (PLAN_FIELD_REPEATED | PLAN_FIELD_PLACED));
}

char *plan_field_column(const PlanField *field) {
  return g_strdelimit(g_strconcat(field->name, field->kind == PLAN_BYTES ? "_bytes" : NULL, NULL), "-", '_');
}

/* --- by the kind --- */

/* What is out of its range is told when the plan is completed, but for what would stand for open. */
static gboolean parse_count(const PlanField *field, const char *what, const char *text, gint64 *value, GError **error) {
  const gint64 most = field->kind == PLAN_COUNT64 ? G_MAXINT64 : G_MAXINT;
  if (!units_parse_whole(text, -most, most, value, error)) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  return !field->is_open_at_0 || *value >= (gint64)field->least ||
         fail_input(error, "%s: found %" INT64 ", expected at least %.0f", what, *value, field->least);
}

static gboolean parse_ratio(const char *what, const char *text, double *value, GError **error) {
  char *end;
  *value = g_ascii_strtod(text, &end);
  return (end != text && *end == '\0' && !g_ascii_isspace(text[0]) && strpbrk(text, "xX") == NULL) ||
         fail_input(error, "%s: found \"%.80s\", expected a number", what, text);
}

static gboolean set_by_kind(const PlanField *field, void *at, const char *what, const char *text, GError **error) {
  gint64 count = 0;
  int index;
  switch (field->kind) {
  case PLAN_COUNT:
    if (!parse_count(field, what, text, &count, error))
      return FALSE;
    *(int *)at = (int)count;
    return TRUE;
  case PLAN_COUNT64:
    return parse_count(field, what, text, at, error);
  case PLAN_RATIO:
    return parse_ratio(what, text, at, error);
  case PLAN_SWITCH:
    return parse_switch(what, text, at, error);
  case PLAN_CHOICE:
    index = parse_choice(what, text, field->names(), error);
    *(int *)at = MAX(index, 0);
    return index >= 0;
  default:
    g_assert_not_reached();
  }
}

gboolean plan_field_set(const PlanField *field, PlanTarget *target, const char *text, GError **error) {
  g_autofree char *column = target->is_column ? plan_field_column(field) : NULL;
  g_autofree char *what = g_strconcat(column != NULL ? "column " : "--", column != NULL ? column : field->name, NULL);
  if (field->set != NULL)
    return field->set(target, what, text, error);
  return set_by_kind(field, (char *)target->plan + field->offset, what, text, error);
}

static void set_default(const PlanField *field, PlanTarget *target) {
  if (field->by_default != NULL) {
    const gboolean is_set = plan_field_set(field, target, field->by_default, NULL);
    g_assert(is_set);
  } else if (field->kind == PLAN_SWITCH || field->kind == PLAN_CHOICE) {
    *(int *)((char *)target->plan + field->offset) = -1;
  }
}

static Plan *plan_of_defaults(void) {
  Plan *plan = g_new0(Plan, 1);
  PlanTarget target = {.plan = plan};
  plan->n_pipes = 1;
  plan->slow_ranks = g_array_new(FALSE, FALSE, sizeof(SlowRank));
  for (int i = 0; i < plan_n_fields(); i++)
    set_default(&fields[i], &target);
  return plan;
}

/* A sweep makes one for every configuration: the texts are read once. */
Plan *plan_new(void) {
  static Plan *defaults;
  if (g_once_init_enter(&defaults))
    g_once_init_leave(&defaults, plan_of_defaults());
  return plan_copy(defaults);
}

static PlanValue text_value(const char *text) {
  return (PlanValue){.type = text != NULL ? PLAN_VALUE_TEXT : PLAN_VALUE_OPEN, .text = text};
}

/* Of a count, a switch or a choice. */
static gint64 whole_at(const PlanField *field, const void *at) {
  return field->kind == PLAN_COUNT64 ? *(const gint64 *)at : *(const int *)at;
}

PlanValue plan_field_value(const PlanField *field, const Plan *plan) {
  const void *at = (const char *)plan + field->offset;
  if (field->text != NULL)
    return text_value(field->text(plan));
  if (field->kind == PLAN_TEXT)
    return text_value(*(char *const *)at);
  if (field->kind == PLAN_RATIO || field->kind == PLAN_BYTES) {
    const double value = *(const double *)at;
    return (PlanValue){field->is_open_at_0 && value == 0 ? PLAN_VALUE_OPEN : PLAN_VALUE_REAL, .real = value};
  }
  const gint64 value = whole_at(field, at);
  if (field->kind == PLAN_SWITCH)
    return text_value(value < 0 ? NULL : value ? "on" : "off");
  if (field->kind == PLAN_CHOICE)
    return text_value(value < 0 ? NULL : field->names()[value]);
  return (PlanValue){field->is_open_at_0 && value == 0 ? PLAN_VALUE_OPEN : PLAN_VALUE_WHOLE, .whole = value};
}

char *plan_field_text(const PlanField *field, const Plan *plan) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  const PlanValue value = plan_field_value(field, plan);
  switch (value.type) {
  case PLAN_VALUE_WHOLE:
    return g_strdup_printf("%" INT64, value.whole);
  case PLAN_VALUE_REAL:
    g_ascii_dtostr(number, sizeof number, value.real);
    return g_strconcat(number, field->kind == PLAN_BYTES ? "B" : NULL, NULL);
  default:
    return g_strdup(value.text);
  }
}

static gboolean fail_range(const PlanField *field, const Plan *plan, GError **error) {
  const char *means = field->means != NULL ? field->means : "";
  const PlanValue value = plan_field_value(field, plan);
  if (value.type == PLAN_VALUE_REAL)
    return fail_input(error, "%s: found %g, expected %s%g to %g", field->name, value.real, means, field->least,
                      field->most);
  return fail_input(error, "%s: found %" INT64 ", expected %s%.0f to %.0f", field->name, value.whole, means,
                    field->least, field->most);
}

gboolean plan_fields_check_ranges(const Plan *plan, GError **error) {
  for (const PlanField *field = fields; field < fields + G_N_ELEMENTS(fields); field++) {
    if (field->most == 0 && field->least == 0)
      continue;
    const void *at = (const char *)plan + field->offset;
    const gboolean is_real = field->kind == PLAN_RATIO || field->kind == PLAN_BYTES;
    const double value = is_real ? *(const double *)at : (double)whole_at(field, at);
    if (!(value >= field->least && value <= field->most) && !(field->is_open_at_0 && value == 0))
      return fail_range(field, plan, error);
  }
  return TRUE;
}
