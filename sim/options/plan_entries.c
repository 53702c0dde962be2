/* A plan's options: one table per subject, in the order of --help. */
#include "options.h"

#include "plan_order.h"

static void add_files(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"model", 0, 0, G_OPTION_ARG_FILENAME, &o->model_file, "Hugging Face config.json, or a name in models/", "FILE"},
      {"cluster", 0, 0, G_OPTION_ARG_FILENAME, &o->cluster_file, "cluster YAML, or a name in topologies/", "FILE"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_json(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {{"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
                                  G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

const char *options_schedule_help(void) {
  g_autofree char *names = g_strjoinv(", ", (char **)plan_order_names());
  g_autofree char *help = g_strdup_printf("%s, or file:orders.csv (default 1f1b; interleaved with chunks)", names);
  return g_intern_string(help);
}

static void add_sizes(Parser *parser, PlanOptions *o) {
  g_autofree char *given = o->steps != OPTION_NOT_GIVEN ? g_strdup_printf("%d", o->steps) : NULL;
  g_autofree char *steps = g_strdup_printf("steps run back to back; more than 1 reports the steady state (default %s)",
                                           given != NULL ? given : "1; 3 in a pipeline without --grad-norm-barrier");
  const char *schedules = options_schedule_help();
  const GOptionEntry entries[] = {
      {"gpus", 0, 0, G_OPTION_ARG_INT, &o->gpus, "total GPUs (default: tp × cp × pp × dp)", "N"},
      {"tp", 0, 0, G_OPTION_ARG_INT, &o->tp, "tensor-parallel size (default 1)", "N"},
      {"pp", 0, 0, G_OPTION_ARG_INT, &o->pp, "pipeline-parallel size (default 1)", "N"},
      {"dp", 0, 0, G_OPTION_ARG_INT, &o->dp, "data-parallel size (default: gpus / (tp × cp × pp))", "N"},
      {"cp", 0, 0, G_OPTION_ARG_INT, &o->cp, "context-parallel size: ranks that share each sequence (default 1)", "N"},
      {"ep", 0, 0, G_OPTION_ARG_INT, &o->ep,
       "expert-parallel size, out of cp × dp, or of tp × cp × dp with --expert-tp 1 (default 1)", "N"},
      {"expert-tp", 0, 0, G_OPTION_ARG_INT, &o->expert_tp,
       "tensor-parallel size of the experts: 1, or that of --tp (default)", "N"},
      {"expert-load", 0, 0, G_OPTION_ARG_DOUBLE, &o->expert_load,
       "load of the fullest rank of --ep over the mean, e.g. 1.2 (default 1: balanced)", "RATIO"},
      {"chunks", 0, 0, G_OPTION_ARG_INT, &o->chunks,
       "model chunks (virtual stages) per pipeline rank (default: what the schedule needs; 2 for interleaved and "
       "looped-bfs)",
       "N"},
      {"schedule", 0, 0, G_OPTION_ARG_STRING, &o->schedule, schedules, "NAME"},
      {"pipeline-layout", 0, 0, G_OPTION_ARG_STRING, &o->pipeline_layout,
       "layers of each stage: 7+8*14+6, or 7+even+6; or Megatron-LM's notation: Et*7|(t*8|)*14t*6L; balanced: by "
       "FLOPs; embedding, loss or embedding+loss: count these as a layer (default auto: equal where that divides)",
       "LAYERS"},
      {"micro-batch-group", 0, 0, G_OPTION_ARG_INT, &o->group,
       "interleaved: consecutive micro-batches through one chunk (default: about pp)", "N"},
      {"micro-batch", 0, 0, G_OPTION_ARG_INT64, &o->micro_batch, "sequences per micro-batch (default 1)", "N"},
      {"global-batch", 0, 0, G_OPTION_ARG_INT64, &o->global_batch,
       "sequences per step (default: micro-batch × dp × 4·pp, or × 1 without a pipeline)", "N"},
      {"seq-len", 0, 0, G_OPTION_ARG_INT64, &o->seq_len,
       "tokens per sequence (default: the model's positions, at most 4096)", "N"},
      {"memory-cap", 0, 0, G_OPTION_ARG_STRING, &o->memory_cap,
       "with --schedule auto: memory limit of a GPU, without what is reserved, e.g. 60GB (default: what it has)",
       "BYTES"},
      {"steps", 0, 0, G_OPTION_ARG_INT, &o->steps, g_intern_string(steps), "N"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_methods(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"mtp-layers", 0, 0, G_OPTION_ARG_INT, &o->mtp_layers,
       "multi-token prediction layers to train, of those the model has (default 0)", "N"},
      {"zero", 0, 0, G_OPTION_ARG_INT, &o->zero, "ZeRO stage 0 to 3 (default 0)", "N"},
      {"zero-ranks", 0, 0, G_OPTION_ARG_INT, &o->zero_ranks,
       "ranks that share one set of shards, as in HSDP (default 0: all of dp × cp)", "N"},
      {"recompute", 0, 0, G_OPTION_ARG_STRING, &o->recompute, "none, selective or full (default none)", "WHAT"},
      {"recompute-modules", 0, 0, G_OPTION_ARG_STRING, &o->recompute_modules,
       "what --recompute selective recomputes, joined by +: core_attn, layernorm, mla_up_proj, moe_act, "
       "shared_experts, mlp, moe (default core_attn, or the framework's)",
       "MODULES"},
      {"sequence-parallel", 0, 0, G_OPTION_ARG_STRING, &o->sequence_parallel, "on or off (default off)", "on|off"},
      {"precision", 0, 0, G_OPTION_ARG_STRING, &o->precision, "bf16, fp16, fp32, fp8, mxfp8 or nvfp4 (default bf16)",
       "NAME"},
      {"recipe", 0, 0, G_OPTION_ARG_STRING, &o->recipe,
       "bytes per parameter: bf16+master, megatron, no-master, fp32-grads, fp32, fp8+master, megatron-fp8, "
       "deepseek-v3, or spelled out as w2+g4+p4+m4+v4: weights, gradients, master copy, moments (default bf16+master; "
       "fp32 "
       "with --precision fp32)",
       "NAME"},
      {"attention", 0, 0, G_OPTION_ARG_STRING, &o->attention, "flash or unfused (default flash)", "KIND"},
      {"norm-kernel", 0, 0, G_OPTION_ARG_STRING, &o->norm_kernel,
       "RMSNorm as one kernel (fused) or as separate PyTorch operations (plain) (default fused, or the framework's)",
       "KIND"},
      {"expert-dispatch", 0, 0, G_OPTION_ARG_STRING, &o->expert_dispatch,
       "how tokens reach experts on other ranks: all_to_all (one copy per expert), deepep (DeepEP, HybridEP: one copy "
       "per node that has any of a token's experts, then to each rank there) or all_gather (all tokens to all ranks) "
       "(default all_to_all, or the framework's)",
       "HOW"},
      {"overlap-experts", 0, 0, G_OPTION_ARG_STRING, &o->overlap_experts,
       "overlap the expert exchanges of a forward with the compute of a backward and the reverse, in interleaved "
       "schedules and without a pipeline (default off, or the framework's; always on in dualpipe*)",
       "on|off"},
      {"cuda-graphs", 0, 0, G_OPTION_ARG_STRING, &o->cuda_graphs,
       "what CUDA graphs replay: none; in MoE layers router, or attention (and the router); or full, the whole step "
       "(default none, or the framework's on this machine)",
       "WHAT"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_communication(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"cp-comm", 0, 0, G_OPTION_ARG_STRING, &o->cp_comm,
       "context-parallel attention: ring (keys and values circulate while attention runs; Transformer Engine's p2p), "
       "all_gather (of keys and values, before attention) or ulysses (a2a: heads exchanged for tokens; if there are "
       "fewer key-value heads than ranks, they are repeated first) (default ring)",
       "HOW"},
      {"overlap-grad", 0, 0, G_OPTION_ARG_STRING, &o->overlap_grad,
       "overlap gradient collectives with backward (default on, or the framework's)", "on|off"},
      {"overlap-param", 0, 0, G_OPTION_ARG_STRING, &o->overlap_param,
       "overlap parameter gathers with compute (default on, or the framework's)", "on|off"},
      {"overlap-p2p", 0, 0, G_OPTION_ARG_STRING, &o->overlap_p2p,
       "a stage computes while it sends to the next (default off, as Megatron-LM runs 1f1b; on with zb-*, v-*, "
       "dualpipe*, auto and file:, or the framework's)",
       "on|off"},
      {"bucket", 0, 0, G_OPTION_ARG_INT64, &o->bucket_parameters,
       "minimum parameters per gradient bucket (default max(40000000, 1000000·dp·cp))", "N"},
      {"prefetch", 0, 0, G_OPTION_ARG_INT, &o->prefetch,
       "ZeRO-3: pieces (embedding, layer, head) gathered ahead of use (default 1)", "N"},
      {"grad-norm-barrier", 0, 0, G_OPTION_ARG_STRING, &o->grad_norm_barrier,
       "the optimizer waits for the global gradient norm (default on; off with zb-*, v-* and auto, whose stages run on "
       "into the next step)",
       "on|off"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_conventions(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"framework", 0, 0, G_OPTION_ARG_STRING, &o->framework,
       "framework to model, a file or a name in topologies/frameworks/: adds its time and memory overheads and sets "
       "the default recipe (default: none)",
       "NAME"},
      {"order", 0, 0, G_OPTION_ARG_STRING, &o->order, "rank order, innermost first (default tp-cp-ep-dp-pp)", "AXES"},
      {"flops", 0, 0, G_OPTION_ARG_STRING, &o->flops,
       "FLOPs counted in MFU: causal (as Megatron-LM since core 0.12), megatron (full attention, as it counted before) "
       "or 6n (default causal)",
       "HOW"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_offload(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"offload-optimizer", 0, 0, G_OPTION_ARG_STRING, &o->offload_optimizer,
       "where master copy, moments and reduced gradients live; off the GPU, the node's CPUs run the update: none, host "
       "(memory) or nvme (default none)",
       "WHERE"},
      {"offload-weights", 0, 0, G_OPTION_ARG_STRING, &o->offload_weights,
       "where ZeRO-3's weight shards live, fetched before each gather: none (the GPU), host or nvme (default none)",
       "WHERE"},
      {"offload-activations", 0, 0, G_OPTION_ARG_STRING, &o->offload_activations,
       "where saved activations wait for backward: none (the GPU) or host (default none)", "WHERE"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_simulated(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"fold", 0, 0, G_OPTION_ARG_STRING, &o->fold,
       "simulate one representative per pipeline rank (default on; off with jitter or slow ranks)", "on|off"},
      {"contention", 0, 0, G_OPTION_ARG_STRING, &o->contention,
       "transfers that share a GPU's links slow each other down (default on)", "on|off"},
      {"jitter", 0, 0, G_OPTION_ARG_DOUBLE, &o->jitter,
       "relative standard deviation of compute times, e.g. 0.02 (default 0)", "SHARE"},
      {"seed", 0, 0, G_OPTION_ARG_INT64, &o->seed, "seed of the jitter (default 1)", "N"},
      {"slow-rank", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->slow_ranks,
       "global rank R (or ranks 0..7) computes F times as long; repeatable", "R=F"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_placement(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"rank-map", 0, 0, G_OPTION_ARG_FILENAME, &o->rank_map,
       "which GPU each rank runs on: a list of GPUs, a table rank,node,gpu or a host list (default: rank r on GPU r)",
       "FILE"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

void plan_options_add(PlanOptions *options, PlanOptionSet set, Parser *parser) {
  add_files(parser, options);
  if (set & PLAN_OPTIONS_JSON)
    add_json(parser, options);
  add_sizes(parser, options);
  add_methods(parser, options);
  add_communication(parser, options);
  add_conventions(parser, options);
  add_offload(parser, options);
  if (set & PLAN_OPTIONS_SIMULATED)
    add_simulated(parser, options);
  if (set & PLAN_OPTIONS_PLACED)
    add_placement(parser, options);
}
