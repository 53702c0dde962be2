/* What the command line takes of a plan: a table for each subject, in the order that --help shows them. */
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
  g_autofree char *steps = g_strdup_printf("steps chained; more than 1 gives the steady state (default %s)",
                                           given != NULL ? given : "1; 3 in a pipeline without --grad-norm-barrier");
  const char *schedules = options_schedule_help();
  const GOptionEntry entries[] = {
      {"gpus", 0, 0, G_OPTION_ARG_INT, &o->gpus, "GPUs in all (default: tp × cp × pp × dp)", "N"},
      {"tp", 0, 0, G_OPTION_ARG_INT, &o->tp, "tensor parallel ranks (default 1)", "N"},
      {"pp", 0, 0, G_OPTION_ARG_INT, &o->pp, "pipeline parallel ranks (default 1)", "N"},
      {"dp", 0, 0, G_OPTION_ARG_INT, &o->dp, "data parallel ranks (default: what is left of --gpus)", "N"},
      {"cp", 0, 0, G_OPTION_ARG_INT, &o->cp, "context parallel ranks, which cut every sequence (default 1)", "N"},
      {"ep", 0, 0, G_OPTION_ARG_INT, &o->ep,
       "ranks that deal out the experts: of cp and dp, with --expert-tp 1 of tp too (default 1)", "N"},
      {"expert-tp", 0, 0, G_OPTION_ARG_INT, &o->expert_tp,
       "tensor parallel ranks of the experts: 1 or that of --tp (default)", "N"},
      {"expert-load", 0, 0, G_OPTION_ARG_DOUBLE, &o->expert_load,
       "rows that come to the fullest rank of --ep, over their mean: 1.2 (default 1: all get as many)", "RATIO"},
      {"chunks", 0, 0, G_OPTION_ARG_INT, &o->chunks,
       "model chunks per pipeline rank (default: what the schedule needs; 2 of interleaved and looped-bfs)", "N"},
      {"schedule", 0, 0, G_OPTION_ARG_STRING, &o->schedule, schedules, "NAME"},
      {"pipeline-layout", 0, 0, G_OPTION_ARG_STRING, &o->pipeline_layout,
       "layers of each stage, parted by +: 7+8*14+6, or 7+even+6; or as Megatron-LM has it: Et*7|(t*8|)*14t*6L; "
       "balanced: by FLOPs; embedding, loss or embedding+loss: these count as a layer (default auto: alike where that "
       "goes)",
       "LAYERS"},
      {"micro-batch-group", 0, 0, G_OPTION_ARG_INT, &o->group,
       "interleaved: micro-batches that pass a chunk in a row (default: about as many as pipeline ranks)", "N"},
      {"micro-batch", 0, 0, G_OPTION_ARG_INT64, &o->micro_batch, "sequences per micro-batch (default 1)", "N"},
      {"global-batch", 0, 0, G_OPTION_ARG_INT64, &o->global_batch,
       "sequences per step (default: micro-batch × dp × 4·pp, or × 1 without a pipeline)", "N"},
      {"seq-len", 0, 0, G_OPTION_ARG_INT64, &o->seq_len,
       "tokens per sequence (default: the model's positions, at most 4096)", "N"},
      {"memory-cap", 0, 0, G_OPTION_ARG_STRING, &o->memory_cap,
       "schedule auto: what a GPU may hold beside what is reserved, as 60GB (default: what it has)", "BYTES"},
      {"steps", 0, 0, G_OPTION_ARG_INT, &o->steps, g_intern_string(steps), "N"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_methods(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"mtp-layers", 0, 0, G_OPTION_ARG_INT, &o->mtp_layers,
       "heads trained that predict a token further, of those the model has (multi-token prediction; default 0)", "N"},
      {"zero", 0, 0, G_OPTION_ARG_INT, &o->zero, "ZeRO stage 0 to 3 (default 0)", "N"},
      {"zero-ranks", 0, 0, G_OPTION_ARG_INT, &o->zero_ranks,
       "ranks one set of shards spans, those of cp among them (default 0: all of dp × cp)", "N"},
      {"recompute", 0, 0, G_OPTION_ARG_STRING, &o->recompute, "none, selective or full (default none)", "WHAT"},
      {"recompute-modules", 0, 0, G_OPTION_ARG_STRING, &o->recompute_modules,
       "what --recompute selective makes again, parted by +: core_attn, layernorm, mla_up_proj, moe_act, "
       "shared_experts, mlp, moe (default core_attn, or as the framework has it)",
       "MODULES"},
      {"sequence-parallel", 0, 0, G_OPTION_ARG_STRING, &o->sequence_parallel, "on or off (default off)", "SWITCH"},
      {"precision", 0, 0, G_OPTION_ARG_STRING, &o->precision, "bf16, fp16, fp32, fp8, mxfp8 or nvfp4 (default bf16)",
       "NAME"},
      {"recipe", 0, 0, G_OPTION_ARG_STRING, &o->recipe,
       "bytes per parameter: bf16+master, megatron, no-master, fp32-grads, fp32, fp8+master, megatron-fp8, "
       "deepseek-v3, or like w2+g4+p4+m4+v4: weights, gradients, master copy, moments (default bf16+master; fp32 "
       "with --precision fp32)",
       "NAME"},
      {"attention", 0, 0, G_OPTION_ARG_STRING, &o->attention, "flash or unfused (default flash)", "KIND"},
      {"norm-kernel", 0, 0, G_OPTION_ARG_STRING, &o->norm_kernel,
       "how RMSNorm runs where the model has it: fused, one kernel, or plain, an operation of PyTorch at a time "
       "(default fused, or as the framework has it)",
       "KIND"},
      {"expert-dispatch", 0, 0, G_OPTION_ARG_STRING, &o->expert_dispatch,
       "how tokens reach the experts of other ranks: all_to_all (once for each expert), deepep (DeepEP, HybridEP: "
       "once to each node that has some of a token's experts, and there to each rank) or all_gather (all tokens to "
       "all ranks) (default all_to_all, or as the framework has it)",
       "HOW"},
      {"overlap-experts", 0, 0, G_OPTION_ARG_STRING, &o->overlap_experts,
       "a forward and a backward hide each other's exchanges with experts, in rounds of the interleaved schedule and "
       "without a pipeline: on or off (default off, or as the framework has it; always on in dualpipe*)",
       "on|off"},
      {"cuda-graphs", 0, 0, G_OPTION_ARG_STRING, &o->cuda_graphs,
       "what is replayed in place of being issued kernel by kernel: none, of layers with experts router or attention "
       "(and the router), or full, the whole step (default none, or as the framework has it on the machine)",
       "WHAT"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_communication(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"cp-comm", 0, 0, G_OPTION_ARG_STRING, &o->cp_comm,
       "how attention reaches the tokens of other cp ranks: ring (keys and values pass round beside it; Transformer "
       "Engine's p2p), all_gather (of keys and values before it) or ulysses (a2a: heads for tokens; key and value "
       "heads "
       "that are fewer than ranks are repeated before it) (default ring)",
       "HOW"},
      {"overlap-grad", 0, 0, G_OPTION_ARG_STRING, &o->overlap_grad,
       "gradient collectives beside backward: on or off (default on, but off where the framework has it so)", "SWITCH"},
      {"overlap-param", 0, 0, G_OPTION_ARG_STRING, &o->overlap_param,
       "parameter gathers beside computing: on or off (default on, but off where the framework has it so)", "SWITCH"},
      {"overlap-p2p", 0, 0, G_OPTION_ARG_STRING, &o->overlap_p2p,
       "a stage computes on while it sends to the next: on or off (default off, as Megatron-LM runs 1f1b; on with "
       "zb-*, v-*, dualpipe*, auto and file:, and where the framework has it so)",
       "SWITCH"},
      {"bucket", 0, 0, G_OPTION_ARG_INT64, &o->bucket_parameters,
       "least parameters in a gradient bucket (default max(40000000, 1000000·dp·cp))", "N"},
      {"prefetch", 0, 0, G_OPTION_ARG_INT, &o->prefetch, "ZeRO-3: pieces gathered ahead of their use (default 1)", "N"},
      {"grad-norm-barrier", 0, 0, G_OPTION_ARG_STRING, &o->grad_norm_barrier,
       "the optimizer waits for the norm over all ranks: on or off (default on; off with zb-*, v-* and auto, whose "
       "stages run on into the next step)",
       "SWITCH"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_conventions(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"framework", 0, 0, G_OPTION_ARG_STRING, &o->framework,
       "what runs the step, a file or a name in topologies/frameworks/: its time and memory are counted, and its "
       "recipe is the default (default: none)",
       "NAME"},
      {"order", 0, 0, G_OPTION_ARG_STRING, &o->order, "rank order, innermost first (default tp-cp-ep-dp-pp)", "AXES"},
      {"flops", 0, 0, G_OPTION_ARG_STRING, &o->flops,
       "FLOPs counted in MFU: causal (as Megatron-LM prints since core 0.12), megatron (attention in full, as it did "
       "before) or 6n (default causal)",
       "HOW"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_offload(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"offload-optimizer", 0, 0, G_OPTION_ARG_STRING, &o->offload_optimizer,
       "where master copy, moments and reduced gradients are and the node's processors update: none (the GPU), host "
       "(memory) or nvme (default none)",
       "WHERE"},
      {"offload-weights", 0, 0, G_OPTION_ARG_STRING, &o->offload_weights,
       "where ZeRO-3's shards of the weights are, fetched before each gather: none (the GPU), host or nvme (default "
       "none)",
       "WHERE"},
      {"offload-activations", 0, 0, G_OPTION_ARG_STRING, &o->offload_activations,
       "where what layers save for backward is until then: none (the GPU) or host (default none)", "WHERE"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_simulated(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"fold", 0, 0, G_OPTION_ARG_STRING, &o->fold,
       "one representative per pipeline rank: on or off (default on; off with jitter or slow ranks)", "SWITCH"},
      {"contention", 0, 0, G_OPTION_ARG_STRING, &o->contention,
       "transfers of a GPU that share its links slow each other: on or off (default on)", "SWITCH"},
      {"jitter", 0, 0, G_OPTION_ARG_DOUBLE, &o->jitter,
       "standard deviation of compute times as a share, e.g. 0.02 (default 0)", "SHARE"},
      {"seed", 0, 0, G_OPTION_ARG_INT64, &o->seed, "of the jitter (default 1)", "N"},
      {"slow-rank", 0, 0, G_OPTION_ARG_STRING_ARRAY, &o->slow_ranks,
       "global rank R, or ranks 0..7, compute F times as long; may be given again", "R=F"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static void add_placement(Parser *parser, PlanOptions *o) {
  const GOptionEntry entries[] = {
      {"rank-map", 0, 0, G_OPTION_ARG_FILENAME, &o->rank_map,
       "which GPU each rank is on: a line of GPUs, a table rank,node,gpu or hosts (default: rank r on GPU r)", "FILE"},
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
