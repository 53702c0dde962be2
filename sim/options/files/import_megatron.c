/* Megatron-LM's arguments (megatron/training/arguments.py, core 0.14 to 0.17, 2025-26): a script that starts it, a Bash
 * array as --emit writes it, or arguments alone. */
#include <string.h>

#include "error.h"
#include "import.h"
#include "pipeline_layout.h"
#include "shell_words.h"
#include "units.h"

#define OF_MODEL(member) IMPORT_FACT, NULL, offsetof(Model, member)

static const ImportRow rows[] = {
    {"tensor-model-parallel-size", IMPORT_OPTION, "tp"},
    {"pipeline-model-parallel-size", IMPORT_OPTION, "pp"},
    {"context-parallel-size", IMPORT_OPTION, "cp"},
    {"expert-model-parallel-size", IMPORT_OPTION, "ep"},
    {"expert-tensor-parallel-size", IMPORT_OPTION, "expert-tp"},
    {"micro-batch-size", IMPORT_OPTION, "micro-batch"},
    {"global-batch-size", IMPORT_OPTION, "global-batch"},
    {"seq-length", IMPORT_OPTION, "seq-len"},
    {"microbatch-group-size-per-virtual-pipeline-stage", IMPORT_OPTION, "micro-batch-group"},
    {"pipeline-model-parallel-layout", IMPORT_OPTION, "pipeline-layout"},
    {"mtp-num-layers", IMPORT_OPTION, "mtp-layers"},
    {"recompute-num-layers", IMPORT_READ},
    {"ddp-bucket-size", IMPORT_OPTION, "bucket"},
    /* with others, or as something else */
    {"num-virtual-stages-per-pipeline-rank", IMPORT_READ, IMPORT_COUNT},
    {"num-layers-per-virtual-pipeline-stage", IMPORT_READ, IMPORT_COUNT},
    {"account-for-embedding-in-pipeline-split", IMPORT_FLAG},
    {"account-for-loss-in-pipeline-split", IMPORT_FLAG},
    {"decoder-first-pipeline-num-layers", IMPORT_READ},
    {"decoder-last-pipeline-num-layers", IMPORT_READ},
    {"no-overlap-p2p-communication", IMPORT_FLAG},
    {"cp-comm-type", IMPORT_READ},
    {"sequence-parallel", IMPORT_FLAG},
    {"use-tp-pp-dp-mapping", IMPORT_FLAG},
    {"use-distributed-optimizer", IMPORT_FLAG},
    {"use-megatron-fsdp", IMPORT_FLAG},
    {"data-parallel-sharding-strategy", IMPORT_READ},
    {"num-distributed-optimizer-instances", IMPORT_READ, IMPORT_COUNT},
    {"overlap-grad-reduce", IMPORT_FLAG},
    {"overlap-param-gather", IMPORT_FLAG},
    {"optimizer-cpu-offload", IMPORT_FLAG},
    {"optimizer-offload-fraction", IMPORT_READ},
    {"fp16", IMPORT_FLAG},
    {"bf16", IMPORT_FLAG},
    {"fp8-format", IMPORT_READ},
    {"fp8-recipe", IMPORT_READ},
    {"fp8-param-gather", IMPORT_FLAG},
    {"fp4-format", IMPORT_READ},
    {"fp4-recipe", IMPORT_UNUSED},
    {"grad-reduce-in-bf16", IMPORT_FLAG},
    {"accumulate-allreduce-grads-in-fp32", IMPORT_FLAG},
    {"use-precision-aware-optimizer", IMPORT_FLAG},
    {"main-grads-dtype", IMPORT_READ},
    {"main-params-dtype", IMPORT_READ},
    {"exp-avg-dtype", IMPORT_READ},
    {"exp-avg-sq-dtype", IMPORT_READ},
    {"recompute-activations", IMPORT_FLAG},
    {"recompute-granularity", IMPORT_READ},
    {"recompute-method", IMPORT_READ, IMPORT_VALUES("uniform", "block")},
    {"recompute-modules", IMPORT_READ},
    {"attention-backend", IMPORT_READ, IMPORT_VALUES("flash", "fused", "unfused", "local", "auto")},
    {"use-flash-attn", IMPORT_FLAG},
    {"cross-entropy-loss-fusion", IMPORT_FLAG},
    {"cross-entropy-fusion-impl", IMPORT_READ},
    {"cuda-graph-impl", IMPORT_READ},
    {"cuda-graph-modules", IMPORT_READ},
    {"cuda-graph-scope", IMPORT_READ}, /* the same before core 0.18 */
    {"no-gradient-accumulation-fusion", IMPORT_FLAG},
    {"no-rope-fusion", IMPORT_FLAG},
    {"moe-token-dispatcher-type", IMPORT_READ, IMPORT_VALUES("allgather", "alltoall", "flex")},
    {"moe-flex-dispatcher-backend", IMPORT_READ},
    {"moe-enable-deepep", IMPORT_FLAG},
    {"overlap-moe-expert-parallel-comm", IMPORT_FLAG},
    {"nproc-per-node", IMPORT_READ}, /* torchrun's */
    {"nnodes", IMPORT_READ},
    {"transformer-impl", IMPORT_READ},
    /* facts of the model */
    {"num-layers", OF_MODEL(n_layers)},
    {"hidden-size", OF_MODEL(hidden)},
    {"ffn-hidden-size", OF_MODEL(ffn_hidden)},
    {"num-attention-heads", OF_MODEL(n_heads)},
    {"num-query-groups", OF_MODEL(n_kv_heads)},
    {"num-experts", OF_MODEL(experts.n)},
    {"moe-router-topk", OF_MODEL(experts.per_token)},
    {"moe-ffn-hidden-size", OF_MODEL(experts.ffn_hidden)},
    {"moe-shared-expert-intermediate-size", OF_MODEL(experts.shared_ffn_hidden)},
    {"kv-lora-rank", OF_MODEL(latent.kv_rank)},
    {"q-lora-rank", OF_MODEL(latent.q_rank)},
    {"qk-pos-emb-head-dim", OF_MODEL(latent.rope_dim)},
    {"v-head-dim", OF_MODEL(latent.v_head_dim)},
    {"vocab-size", OF_MODEL(vocab)},
    /* what else the model's file says */
    {"kv-channels", IMPORT_UNUSED}, /* of latent attention something else */
    {"qk-head-dim", IMPORT_UNUSED},
    {"max-position-embeddings", IMPORT_UNUSED},
    {"position-embedding-type", IMPORT_UNUSED},
    {"rotary-*", IMPORT_UNUSED},
    {"use-rotary-position-embeddings", IMPORT_UNUSED},
    {"use-rope-scaling", IMPORT_UNUSED},
    {"rope-*", IMPORT_UNUSED},
    {"no-rope-freq", IMPORT_UNUSED},
    {"no-position-embedding", IMPORT_UNUSED},
    {"mscale*", IMPORT_UNUSED},
    {"beta-*", IMPORT_UNUSED},
    {"original-max-position-embeddings", IMPORT_UNUSED},
    {"group-query-attention", IMPORT_UNUSED},
    {"multi-latent-attention", IMPORT_UNUSED},
    {"qk-layernorm", IMPORT_UNUSED},
    {"qk-l2-norm", IMPORT_UNUSED},
    {"softmax-type", IMPORT_UNUSED},
    {"window-size", IMPORT_UNUSED},
    {"window-attn-skip-freq", IMPORT_UNUSED},
    {"normalization", IMPORT_UNUSED},
    {"norm-epsilon", IMPORT_UNUSED},
    {"apply-layernorm-1p", IMPORT_UNUSED},
    {"swiglu", IMPORT_UNUSED},
    {"squared-relu", IMPORT_UNUSED},
    {"quick-geglu", IMPORT_UNUSED},
    {"openai-gelu", IMPORT_UNUSED},
    {"glu-linear-offset", IMPORT_UNUSED},
    {"activation-func-clamp-value", IMPORT_UNUSED},
    {"untie-embeddings-and-output-weights", IMPORT_UNUSED},
    {"disable-bias-linear", IMPORT_UNUSED},
    {"add-qkv-bias", IMPORT_UNUSED},
    {"hidden-dropout", IMPORT_UNUSED},
    {"attention-dropout", IMPORT_UNUSED},
    {"make-vocab-size-divisible-by", IMPORT_UNUSED},
    {"moe-layer-freq", IMPORT_UNUSED},
    {"moe-router-*", IMPORT_UNUSED},
    {"moe-aux-loss-coeff", IMPORT_UNUSED},
    {"moe-z-loss-coeff", IMPORT_UNUSED},
    {"mtp-loss-scaling-factor", IMPORT_UNUSED},
    /* as it is modelled */
    {"moe-grouped-gemm", IMPORT_UNUSED},
    {"moe-permute-fusion", IMPORT_UNUSED},
    {"overlap-cpu-optimizer-d2h-h2d", IMPORT_UNUSED},
    {"use-mcore-models", IMPORT_UNUSED},
    {"te-rng-tracker", IMPORT_UNUSED},
    {"moe-pad-experts-for-cuda-graph-inference", IMPORT_UNUSED},
    {"use-torch-optimizer-for-cpu-offload", IMPORT_UNUSED},
    /* data, optimizer, checkpoints, logs */
    {"num-workers", IMPORT_UNUSED},
    {"num-dataset-builder-threads", IMPORT_UNUSED},
    {"train-*", IMPORT_UNUSED},
    {"valid-*", IMPORT_UNUSED},
    {"test-*", IMPORT_UNUSED},
    {"eval-*", IMPORT_UNUSED},
    {"exit-*", IMPORT_UNUSED},
    {"data-*", IMPORT_UNUSED},
    {"mock-data", IMPORT_UNUSED},
    {"split", IMPORT_UNUSED},
    {"tokenizer-*", IMPORT_UNUSED},
    {"vocab-file", IMPORT_UNUSED},
    {"merge-file", IMPORT_UNUSED},
    {"no-create-attention-mask-in-dataloader", IMPORT_UNUSED},
    {"no-mmap-bin-files", IMPORT_UNUSED},
    {"lr*", IMPORT_UNUSED},
    {"min-lr", IMPORT_UNUSED},
    {"decoupled-*", IMPORT_UNUSED},
    {"weight-decay*", IMPORT_UNUSED},
    {"start-weight-decay", IMPORT_UNUSED},
    {"end-weight-decay", IMPORT_UNUSED},
    {"adam-*", IMPORT_UNUSED},
    {"clip-grad", IMPORT_UNUSED},
    {"init-method-*", IMPORT_UNUSED},
    {"seed", IMPORT_UNUSED},
    {"initial-loss-scale", IMPORT_UNUSED},
    {"loss-scale*", IMPORT_UNUSED},
    {"min-loss-scale", IMPORT_UNUSED},
    {"hysteresis", IMPORT_UNUSED},
    {"override-opt*", IMPORT_UNUSED},
    {"use-checkpoint-*", IMPORT_UNUSED},
    {"save*", IMPORT_UNUSED},
    {"load*", IMPORT_UNUSED},
    {"no-save-*", IMPORT_UNUSED},
    {"no-load-*", IMPORT_UNUSED},
    {"async-save", IMPORT_UNUSED},
    {"ckpt-*", IMPORT_UNUSED},
    {"dist-ckpt-*", IMPORT_UNUSED},
    {"use-dist-ckpt", IMPORT_UNUSED},
    {"finetune", IMPORT_UNUSED},
    {"pretrained-checkpoint", IMPORT_UNUSED},
    {"log-*", IMPORT_UNUSED},
    {"logging-level", IMPORT_UNUSED},
    {"timing-log-*", IMPORT_UNUSED},
    {"tensorboard-*", IMPORT_UNUSED},
    {"no-log-*", IMPORT_UNUSED},
    {"wandb-*", IMPORT_UNUSED},
    {"one-logger*", IMPORT_UNUSED},
    {"profile*", IMPORT_UNUSED},
    {"use-pytorch-profiler", IMPORT_UNUSED},
    {"check-for-nan-in-loss-and-grad", IMPORT_UNUSED},
    {"no-check-for-nan-in-loss-and-grad", IMPORT_UNUSED},
    {"distributed-backend", IMPORT_UNUSED},
    {"distributed-timeout-minutes", IMPORT_UNUSED},
    {"node-rank", IMPORT_UNUSED},
    {"master-addr", IMPORT_UNUSED},
    {"master-port", IMPORT_UNUSED},
    {"rdzv-*", IMPORT_UNUSED},
    {"max-restarts", IMPORT_UNUSED},
    {"tee", IMPORT_UNUSED},
    {"redirects", IMPORT_UNUSED},
    {NULL}};

static gboolean has(const Import *import, const char *key) {
  return import_find(import, key) != NULL;
}

/* The bytes of a number format; `otherwise` if the key is absent. */
static double format_bytes(Import *import, const char *key, double otherwise) {
  static const struct {
    const char *name;
    double bytes;
  } formats[] = {{"fp32", 4}, {"bf16", 2}, {"fp16", 2}, {"fp8", 1}};
  if (!has(import, key))
    return otherwise;
  for (gsize i = 0; i < G_N_ELEMENTS(formats); i++)
    if (import_is(import, key, formats[i].name))
      return formats[i].bytes;
  import_notice(import, key, "not understood, expected fp32, bf16, fp16 or fp8: taken for %g bytes", otherwise);
  return otherwise;
}

/* --- the pipeline --- */

/* Stages of a list as layouts have it, "3+2*29+0". */
static gint64 count_stages(const char *list) {
  g_auto(GStrv) parts = g_strsplit(list, "+", -1);
  gint64 n = 0;
  for (char **part = parts; *part != NULL; part++) {
    const char *times = strchr(*part, '*');
    n += times != NULL ? g_ascii_strtoll(times + 1, NULL, 10) : 1;
  }
  return n;
}

static gint64 chunks_of_layout(const Import *import, gint64 pp) {
  int n_mtp;
  const char *letters = import_text(import, "pipeline-model-parallel-layout");
  g_autofree char *list = letters != NULL ? pipeline_layout_of_letters(letters, &n_mtp, NULL) : NULL;
  return list != NULL ? count_stages(list) / pp : 0;
}

/* 0: none are said. */
static gint64 chunks_of(Import *import, gint64 pp) {
  const char *const per_stage = "num-layers-per-virtual-pipeline-stage";
  const gint64 stated = import_count(import, "num-virtual-stages-per-pipeline-rank", 0);
  const gint64 n_each = import_count(import, per_stage, 0), n_layers = import_count(import, "num-layers", 0);
  if (stated > 0)
    return stated;
  if (n_each > 0 && n_layers > 0) {
    if (n_layers % import_product(pp, n_each) != 0)
      import_fail(import, per_stage,
                  "found %" INT64 ", expected one with which --num-layers %" INT64
                  " is a multiple of it times --pipeline-model-parallel-size %" INT64,
                  n_each, n_layers, pp);
    return n_layers / import_product(pp, n_each);
  }
  if (has(import, per_stage))
    import_ask(import, per_stage, "chunks", "chunks follow from --num-layers, which is not there");
  return chunks_of_layout(import, pp);
}

static void read_cut(Import *import) {
  const char *const embedding = "account-for-embedding-in-pipeline-split", *const loss =
                                                                               "account-for-loss-in-pipeline-split";
  const gint64 first = import_count(import, "decoder-first-pipeline-num-layers", -1);
  const gint64 last = import_count(import, "decoder-last-pipeline-num-layers", -1);
  if (has(import, embedding) || has(import, loss))
    import_set(import, has(import, embedding) ? embedding : loss, "pipeline-layout", "%s%s%s",
               has(import, embedding) ? "embedding" : "", has(import, embedding) && has(import, loss) ? "+" : "",
               has(import, loss) ? "loss" : "");
  else if (first >= 0 && last >= 0)
    import_set(import, "decoder-first-pipeline-num-layers", "pipeline-layout", "%" INT64 "+even+%" INT64, first, last);
  else if (first >= 0)
    import_set(import, "decoder-first-pipeline-num-layers", "pipeline-layout", "%" INT64 "+even", first);
  else if (last >= 0)
    import_set(import, "decoder-last-pipeline-num-layers", "pipeline-layout", "even+%" INT64, last);
}

static void read_pipeline(Import *import) {
  const gint64 pp = MAX(import_count(import, "pipeline-model-parallel-size", 1), 1);
  const gint64 chunks = pp > 1 ? chunks_of(import, pp) : 0;
  if (chunks > 1)
    import_set(import, "num-virtual-stages-per-pipeline-rank", "chunks", "%" INT64, chunks);
  if (pp > 1)
    import_set(import, "pipeline-model-parallel-size", "schedule", chunks > 1 ? "interleaved" : "1f1b");
  if (chunks > 1)
    import_set(import, "no-overlap-p2p-communication", "overlap-p2p",
               has(import, "no-overlap-p2p-communication") ? "off" : "on");
  read_cut(import);
}

/* --- sharding, precision, memory --- */

static int zero_of(Import *import) {
  const char *const key = "data-parallel-sharding-strategy";
  static const struct {
    const char *strategy;
    int zero;
  } strategies[] = {{"no_shard", 0}, {"optim", 1}, {"optim_grads", 2}, {"optim_grads_params", 3}};
  const gboolean is_sharded = has(import, "use-distributed-optimizer");
  if (!has(import, "use-megatron-fsdp"))
    return is_sharded ? 1 : 0;
  for (gsize i = 0; i < G_N_ELEMENTS(strategies); i++)
    if (import_is(import, key, strategies[i].strategy))
      return strategies[i].zero;
  if (has(import, key))
    import_notice(import, key, "not understood, taken for no_shard");
  return 0; /* its default */
}

/* dp · cp; 0: not known. */
static gint64 data_ranks(const Import *import) {
  return import->gpus / MAX(import_count(import, "tensor-model-parallel-size", 1), 1) /
         MAX(import_count(import, "pipeline-model-parallel-size", 1), 1);
}

static void read_sharding(Import *import) {
  const char *const instances = "num-distributed-optimizer-instances";
  const int zero = zero_of(import);
  const gint64 n = import_count(import, instances, 1);
  import_set(import, "use-distributed-optimizer", "zero", "%d", zero);
  if (n > 1 && data_ranks(import) / n >= 1)
    import_set(import, instances, "zero-ranks", "%" INT64, data_ranks(import) / n);
  else if (n > 1)
    import_ask(import, instances, "zero-ranks", "how many ranks these are follows from --gpus, which is missing");
  import_set(import, "overlap-grad-reduce", "overlap-grad", has(import, "overlap-grad-reduce") ? "on" : "off");
  if (zero > 0)
    import_set(import, "overlap-param-gather", "overlap-param", has(import, "overlap-param-gather") ? "on" : "off");
  if (!has(import, "optimizer-cpu-offload"))
    return;
  const char *share = import_text(import, "optimizer-offload-fraction");
  const gboolean is_part = share != NULL && g_ascii_strtod(share, NULL) < 1;
  import_set(import, "optimizer-cpu-offload", "offload-optimizer", "host%s%s", is_part ? ":" : "",
             is_part ? share : "");
}

/* As Megatron-LM has it: bf16 reduces gradients in fp32 unless it is told not to, fp16 if it is told to; master copy
 * and moments in fp32 but with its precision-aware optimizer. */
static void read_recipe(Import *import) {
  const gboolean is_fp16 = has(import, "fp16"), is_fp8 = has(import, "fp8-format");
  const double gradients = is_fp16 ? (has(import, "accumulate-allreduce-grads-in-fp32") ? 4 : 2)
                                   : (has(import, "grad-reduce-in-bf16") ? 2 : 4);
  const double bytes[] = {is_fp8 && has(import, "fp8-param-gather") ? 1 : 2,
                          format_bytes(import, "main-grads-dtype", gradients),
                          format_bytes(import, "main-params-dtype", 4), format_bytes(import, "exp-avg-dtype", 4),
                          format_bytes(import, "exp-avg-sq-dtype", 4)};
  import_set_recipe(import, "bf16", bytes);
}

static void read_precision(Import *import) {
  const char *precision = has(import, "fp16") ? "fp16" : has(import, "bf16") ? "bf16" : "fp32";
  if (has(import, "fp16") && has(import, "bf16"))
    import_fail(import, "fp16", "found beside --bf16 in line %u, expected one of the two",
                import_find(import, "bf16")->line);
  if (has(import, "fp4-format"))
    precision = "nvfp4";
  else if (has(import, "fp8-format"))
    precision = import_is(import, "fp8-recipe", "mxfp8") ? "mxfp8" : "fp8";
  if (has(import, "fp8-recipe") && !import_is(import, "fp8-recipe", "mxfp8") &&
      !import_is(import, "fp8-recipe", "tensorwise") && !import_is(import, "fp8-recipe", "delayed"))
    import_notice(import, "fp8-recipe", "taken for --precision fp8, one scale for a tensor");
  import_set(import, "bf16", "precision", "%s", precision);
  if (strcmp(precision, "fp32") != 0)
    read_recipe(import);
}

static void read_recompute(Import *import) {
  const char *const modules = "recompute-modules", *const granularity = "recompute-granularity";
  if (import_is(import, granularity, "full")) {
    import_set(import, granularity, "recompute", import_is(import, "recompute-method", "block") ? "block" : "full");
    if (has(import, "recompute-num-layers"))
      import_set(import, "recompute-num-layers", "recompute-num-layers", "%s",
                 import_text(import, "recompute-num-layers"));
  } else if (import_is(import, granularity, "selective") || has(import, "recompute-activations")) {
    import_set(import, granularity, "recompute", "selective");
    g_autofree char *joined =
        has(import, modules) ? g_strdelimit(g_strdup(import_text(import, modules)), " ", '+') : NULL;
    if (joined != NULL)
      import_set(import, modules, "recompute-modules", "%s", joined);
  } else if (has(import, granularity)) {
    import_notice(import, granularity, "not understood, expected full or selective: taken for none");
  }
}

static void read_kernels(Import *import) {
  const char *const backend = "attention-backend";
  const gboolean is_unfused = import_is(import, backend, "unfused") || import_is(import, backend, "local");
  if (has(import, backend) || has(import, "use-flash-attn"))
    import_set(import, backend, "attention", is_unfused ? "unfused" : "flash");
  import_set(import, "cross-entropy-loss-fusion", "loss",
             has(import, "cross-entropy-loss-fusion") && !import_is(import, "cross-entropy-fusion-impl", "native")
                 ? "fused"
                 : "vocabulary_parallel");
  if (has(import, "no-gradient-accumulation-fusion") && !has(import, "use-megatron-fsdp")) /* which needs it */
    import_notice(import, "no-gradient-accumulation-fusion", "taken for fused, as the framework's file has it");
  if (has(import, "no-rope-fusion") && !has(import, "rotary-interleaved")) /* which needs it */
    import_ask(import, "no-rope-fusion", "layer-kernels", "kernels are as the framework's file has them");
  if (has(import, "transformer-impl") && !import_is(import, "transformer-impl", "transformer_engine"))
    import_notice(import, "transformer-impl", "not understood, taken for transformer_engine");
}

static void read_graphs(Import *import) {
  const char *const how = "cuda-graph-impl";
  const char *modules =
      import_text(import, has(import, "cuda-graph-modules") ? "cuda-graph-modules" : "cuda-graph-scope");
  if (!has(import, how) || import_is(import, how, "none"))
    return;
  if (import_is(import, how, "full_iteration") || g_strcmp0(modules, "full_iteration") == 0)
    import_set(import, how, "cuda-graphs", "full");
  else if (modules != NULL && strstr(modules, "moe_router") != NULL)
    import_set(import, how, "cuda-graphs", strstr(modules, "attn") != NULL ? "attention" : "router");
  else
    import_notice(import, how,
                  "not understood, expected full_iteration, or transformer_engine with moe_router among "
                  "--cuda-graph-modules: taken for none");
}

static void read_experts(Import *import) {
  const char *const type = "moe-token-dispatcher-type";
  if (has(import, type) && has(import, "num-experts"))
    import_set(import, type, "expert-dispatch",
               import_is(import, type, "flex")        ? "deepep"
               : import_is(import, type, "allgather") ? "all_gather"
                                                      : "all_to_all");
  if (has(import, "overlap-moe-expert-parallel-comm"))
    import_set(import, "overlap-moe-expert-parallel-comm", "overlap-experts", "on");
}

/* --- ranks --- */

/* One for all layers, or the same for each. */
static void read_context(Import *import) {
  const char *text = import_text(import, "cp-comm-type");
  if (text == NULL || import_count(import, "context-parallel-size", 1) < 2)
    return;
  g_auto(GStrv) layers = g_strsplit(text, " ", -1);
  for (char **layer = layers; *layer != NULL; layer++)
    if (strcmp(*layer, layers[0]) != 0) {
      import_notice(import, "cp-comm-type", "layers differ, all are taken for %s", layers[0]);
      break;
    }
  import_set(import, "cp-comm-type", "cp-comm", "%s", layers[0]);
}

/* Of torchrun: a number, or what is known where it runs alone ("gpu", "2:4", "$NODES"): 0. */
static gint64 count_of_launcher(const Import *import, const char *key) {
  const char *text = import_text(import, key);
  const gboolean is_open = text == NULL || strpbrk(text, ":$`") != NULL || import_is(import, key, "gpu") ||
                           import_is(import, key, "auto") || import_is(import, key, "cpu");
  const gint64 n = is_open ? 0 : import_count(import, key, 1);
  if (!is_open && n < 1)
    import_fail(import, key, "found \"%.80s\", expected a whole number from 1", text);
  return n;
}

static void read_gpus(Import *import) {
  const char *const keys[] = {"nnodes", "nproc-per-node"};
  const gint64 nodes = count_of_launcher(import, keys[0]), each = count_of_launcher(import, keys[1]);
  const char *const open = nodes == 0 ? keys[0] : keys[1];
  if (nodes > 0 && each > 0)
    import_set(import, keys[0], "gpus", "%" INT64, import_product(nodes, each));
  else if (import->gpus == 0 && (has(import, keys[0]) || has(import, keys[1])))
    import_notice(import,
                  has(import, open) ? open
                  : nodes == 0      ? keys[1]
                                    : keys[0],
                  "how many GPUs there are is not said: taken for one replica, unless --gpus says otherwise");
  if (import->gpus == 0)
    import->gpus = MAX(import_product(nodes, each), 0);
}

static void read_ranks(Import *import) {
  read_gpus(import);
  if (has(import, "sequence-parallel"))
    import_set(import, "sequence-parallel", "sequence-parallel", "on");
  if (has(import, "use-tp-pp-dp-mapping"))
    import_set(import, "use-tp-pp-dp-mapping", "order", "tp-cp-ep-pp-dp");
  read_context(import);
}

/* --- from the file --- */

static gboolean is_option(const ShellWord *word) {
  return g_str_has_prefix(word->text, "--") && g_ascii_isalpha(word->text[2]);
}

static gboolean is_of_launcher(const char *key) {
  return strcmp(key, "nnodes") == 0 || strcmp(key, "nproc-per-node") == 0;
}

/* torchrun's last value has the program behind it. */
static const char *trimmed(const char *key, char *text) {
  if (is_of_launcher(key))
    text[strcspn(text, " ")] = '\0';
  return text;
}

static void add_options(Import *import, const GArray *words) {
  for (guint i = 0; i < words->len; i++) {
    const ShellWord *word = &g_array_index(words, ShellWord, i);
    if (!is_option(word))
      continue;
    const char *equals = strchr(word->text, '=');
    g_autofree char *key = g_strndup(word->text + 2, equals != NULL ? (gsize)(equals - word->text) - 2 : 4096);
    g_autoptr(GString) value = g_string_new(equals != NULL ? equals + 1 : NULL);
    const char *rest = NULL; /* "$@" behind the last value */
    for (const ShellWord *last = word; !last->ends && i + 1 < words->len; i++) {
      last = &g_array_index(words, ShellWord, i + 1);
      if (is_option(last))
        break;
      if (last->ends && *last->text == '$' && value->len > 0) {
        rest = last->text;
        continue;
      }
      g_string_append_printf(value, "%s%s", value->len > 0 ? " " : "", last->text);
    }
    g_strdelimit(key, "_", '-');
    import_add(import, key, trimmed(key, value->str), word->line);
    if (rest != NULL)
      import_notice(import, key, "what %s behind it stands for is not known, and left out of the plan", rest);
  }
}

/* What depends on who starts the script. */
static gboolean is_unknown(Import *import, const ImportKey *key) {
  if (strchr(key->text, '$') == NULL || is_of_launcher(key->key))
    return FALSE;
  const ImportRow *row = rows;
  while (row->key != NULL && strcmp(row->key, key->key) != 0)
    row++;
  if (row->key != NULL && row->use == IMPORT_FLAG)
    import_notice(import, key->key, "what stands behind it is not known, and left out of the plan");
  else if (row->key != NULL && row->use != IMPORT_UNUSED)
    import_notice(import, key->key, "the file does not say what that is, left out of the plan");
  return row->key != NULL && row->use != IMPORT_FLAG;
}

/* Owned by the caller; what counts for nothing becomes notices, "name:line: variable: why". */
static GArray *read_words(PlanFile *file, const char *text) {
  g_autoptr(GPtrArray) notices = g_ptr_array_new_with_free_func(g_free);
  GArray *words = shell_words(file->path, text, notices);
  for (guint i = 0; i < notices->len; i++) {
    char *rest;
    const guint64 line = g_ascii_strtoull((const char *)notices->pdata[i] + strlen(file->path) + 1, &rest, 10);
    g_auto(GStrv) parts = g_strsplit(rest + 2, ": ", 2);
    const PlanFileNotice notice = {g_strdup(parts[0]), g_strdup(parts[1]), NULL, (guint)line};
    g_array_append_val(file->notices, notice);
  }
  return words;
}

gboolean import_megatron(PlanFile *file, const char *text, gint64 gpus, GError **error) {
  g_auto(Import) import;
  import_init(&import, file, rows, gpus);
  g_autoptr(GArray) words = read_words(file, text);
  add_options(&import, words);
  import_drop(&import, is_unknown);
  const char *const known[] = {"tensor-model-parallel-size", "pipeline-model-parallel-size", "micro-batch-size",
                               "global-batch-size", "num-layers"};
  gsize n_known = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(known); i++)
    n_known += has(&import, known[i]);
  if (n_known == 0)
    return fail_input(error,
                      "%s: found nothing of a plan, expected stepsim's own (tp: 8, as --save-plan writes), "
                      "Megatron-LM's arguments, DeepSpeed's JSON or torchtitan's TOML",
                      file->path);
  file->format = "Megatron-LM's arguments";
  plan_file_add(file, "framework", "megatron-core", 1);
  read_ranks(&import);
  read_pipeline(&import);
  read_sharding(&import);
  read_precision(&import);
  read_recompute(&import);
  read_kernels(&import);
  read_graphs(&import);
  read_experts(&import);
  return import_take(&import, error);
}
