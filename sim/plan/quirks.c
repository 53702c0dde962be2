/* The table of quirks, and what follows from a row. A mapping of a file is read level by level: the rows below it give
 * the fields that yaml_map_read() fills, leaves directly and mappings as nodes that are read next.
 *
 *     time.host                    host: {layer: {forward: …, …}, ends: …, collective: …}
 *     time.host.layer.forward
 *     time.rates.*.products        rates: {hopper: {products: …}} */
#include "quirks.h"

#include <string.h>

#include "error.h"
#include "recipe.h"
#include "yaml_base.h"

#define CHOICES(...)                                                                                                   \
  .choices = (const char *const[]) {                                                                                   \
    __VA_ARGS__, NULL                                                                                                  \
  }
#define IN_MEMORY(member) .offset = offsetof(Framework, memory.member)
#define IN_TIME(member) .offset = offsetof(Framework, time.member)
#define IN_RATES(member) .offset = offsetof(Framework, time.rates[0].member)
#define RANGE(low, high) .least = low, .most = high
#define UP_TO_A_SECOND RANGE(0, 1)

static const Quirk quirks[] = {
    {"memory.recipe", QUIRK_RECIPE, IN_MEMORY(recipe), .part = QUIRK_PART_MEMORY,
     .meaning = "bytes per parameter when training in bf16 or narrower, unless a recipe is asked for by name"},
    {"memory.logits", QUIRK_CHOICE, IN_MEMORY(logits), CHOICES("split", "whole", "replicated"),
     .part = QUIRK_PART_MEMORY,
     .meaning = "split: a tp rank has its columns of the logits; whole: every rank gathers them, and while backward "
                "runs also holds what is made of them and its own part; replicated: gathered, with neither of these "
                "left by then"},
    {"memory.logit_bytes", QUIRK_NUMBER, IN_MEMORY(logit_bytes), RANGE(4, 64), .part = QUIRK_PART_MEMORY,
     .meaning = "per logit while the head's backward runs (default: 4 plus the gradient's element; with \"loss: "
                "plain\" 12 plus "
                "two elements, fused: one element); not with \"loss: chunked\""},
    {"memory.vocabulary", QUIRK_CHOICE, IN_MEMORY(vocabulary), CHOICES("padded", "as_is"), .part = QUIRK_PART_MEMORY,
     .meaning = "rows of embedding and head. padded: to a multiple of 128 × tp, as Megatron-LM's "
                "--make-vocab-size-divisible-by does; as_is: as many as the model has words; tp cuts them, and the "
                "last rank's part is smaller. Affects time, too: odd sizes are slow"},
    {"memory.vocabulary_gradients", QUIRK_CHOICE, IN_MEMORY(vocabulary_gradients), CHOICES("fused", "dense"),
     .part = QUIRK_PART_MEMORY,
     .meaning = "gradients of embedding and head. fused: accumulated in place; dense: made whole in the element "
                "format, then accumulated"},
    {"memory.spare_gradients", QUIRK_CHOICE, IN_MEMORY(spare_gradients), CHOICES("none", "kept"),
     .part = QUIRK_PART_MEMORY,
     .meaning = "kept: one weight gradient per linear of a layer, in the element format, is held permanently"},
    {"memory.norm_bytes", QUIRK_NUMBER, IN_MEMORY(norm_bytes), RANGE(0, 64), .part = QUIRK_PART_MEMORY,
     .meaning = "bytes that a norm keeps beyond its input, per element of it; net, if it does not keep all of its "
                "input (default 0). With plain kernels only RMSNorms keep them"},
    {"memory.fragmentation", QUIRK_BYTES, IN_MEMORY(fragmentation_bytes), RANGE(0, 1e12), .part = QUIRK_PART_MEMORY,
     .meaning = "held by the caching allocator in blocks too small to use (default 0)"},
    {"memory.buckets", QUIRK_BYTES, IN_MEMORY(bucket_bytes), RANGE(0, 1e12), .part = QUIRK_PART_MEMORY,
     .meaning = "flat buffers for gradients on their way to the other dp ranks, if there are any, held for the whole "
                "step (default 0)"},
    {"memory.optimizer", QUIRK_CHOICE, IN_MEMORY(optimizer), CHOICES("fused", "lists"), .part = QUIRK_PART_MEMORY,
     .meaning = "lists: an Adam of operations over lists of tensors, such as PyTorch's foreach, which makes a list as "
                "large as one moment while it runs; fused: one kernel, which makes none"},
    {"memory.word_table", QUIRK_CHOICE, IN_MEMORY(word_table), CHOICES("gathered", "kept"), .part = QUIRK_PART_MEMORY,
     .meaning = "ZeRO-3 without a pipeline, of a model whose head has a matrix of its own. kept: the gathered word "
                "table and its whole gradient are held from the "
                "first forward to the last backward; gathered: while they are used"},
    {"memory.kernels", QUIRK_CHOICE, IN_MEMORY(kernels), CHOICES("fused", "plain"), .part = QUIRK_PART_MEMORY,
     .meaning = "plain: single operations: the gate's activation and a copy of attention's output are kept, and an "
                "unfused softmax in fp32"},
    {"memory.gathered", QUIRK_CHOICE, IN_MEMORY(gathered), CHOICES("sharded", "kept"), .part = QUIRK_PART_MEMORY,
     .meaning = "sequence parallelism: inputs of linears are kept in shards, or as gathered. For time, they are "
                "gathered again for the weight gradient in either case, beside the input gradient"},
    {"memory.selective", QUIRK_CHOICE, IN_MEMORY(selective), CHOICES("scores", "products", "core"),
     .part = QUIRK_PART_MEMORY,
     .meaning = "what selective recompute reruns. scores: unfused attention only; products: it keeps attention's "
                "output and every other matrix product, like PyTorch's per-operation policy, and reruns the rest "
                "(which takes its time); core: recomputing core_attn reruns a flash kernel's forward, too, as Megatron "
                "Core checkpoints any kernel"},
    {"memory.activation_input_bytes", QUIRK_NUMBER, IN_MEMORY(activation_input_bytes), RANGE(0.5, 8),
     .part = QUIRK_PART_MEMORY,
     .meaning = "per element of the input of the experts' activation, the shared expert's too, as kept for backward "
                "(default: the element format's)"},

    {"time.host", QUIRK_MAPPING, IN_TIME(host.is_stated), .part = QUIRK_PART_HOST,
     .meaning = "CPU time to issue; without it each kernel takes the GPU file's host_launch"},
    {"time.host.layer.forward", QUIRK_SECONDS, IN_TIME(host.layer_forward_s), UP_TO_A_SECOND, .part = QUIRK_PART_HOST,
     .meaning = "a layer's kernels"},
    {"time.host.layer.again", QUIRK_SECONDS, IN_TIME(host.layer_again_s), UP_TO_A_SECOND, .part = QUIRK_PART_HOST,
     .meaning = "the same, recomputed"},
    {"time.host.layer.backward", QUIRK_SECONDS, IN_TIME(host.layer_backward_s), UP_TO_A_SECOND, .part = QUIRK_PART_HOST,
     .meaning = "the same in backward"},
    {"time.host.ends.forward", QUIRK_SECONDS, IN_TIME(host.ends_forward_s), UP_TO_A_SECOND, .part = QUIRK_PART_HOST,
     .meaning = "the kernels of the embedding, and of head and loss"},
    {"time.host.ends.backward", QUIRK_SECONDS, IN_TIME(host.ends_backward_s), UP_TO_A_SECOND, .part = QUIRK_PART_HOST,
     .meaning = "the same in backward"},
    {"time.host.collective", QUIRK_SECONDS, IN_TIME(host.collective_s), UP_TO_A_SECOND, .part = QUIRK_PART_HOST,
     .is_optional = TRUE, .meaning = "one tp collective"},
    {"time.host.zero3", QUIRK_SECONDS, IN_TIME(host.zero3_s), UP_TO_A_SECOND, .part = QUIRK_PART_HOST,
     .is_optional = TRUE,
     .meaning = "ZeRO-3: further time in each pass over a layer (forward, again, backward): the hooks that gather and "
                "release parameters and reduce gradients (default: none)"},
    {"time.expert_host", QUIRK_MAPPING, IN_TIME(expert_host.is_stated), .part = QUIRK_PART_HOST,
     .meaning = "CPU time to issue each kernel of a layer with experts, instead of host's layer; scaled for a GPU file "
                "with another host_launch than `launch`"},
    {"time.expert_host.forward", QUIRK_SECONDS, IN_TIME(expert_host.forward_s), UP_TO_A_SECOND, .part = QUIRK_PART_HOST,
     .meaning = "of a forward kernel"},
    {"time.expert_host.backward", QUIRK_SECONDS, IN_TIME(expert_host.backward_s), UP_TO_A_SECOND,
     .part = QUIRK_PART_HOST, .meaning = "of a backward kernel"},
    {"time.expert_host.launch", QUIRK_SECONDS, IN_TIME(expert_host.launch_s), RANGE(1e-7, 1e-3),
     .part = QUIRK_PART_HOST, .meaning = "in which the host that these times are of issues one kernel"},
    {"time.expert_host.collective", QUIRK_SECONDS, IN_TIME(expert_host.collective_s), RANGE(1e-9, 1),
     .part = QUIRK_PART_HOST, .is_optional = TRUE,
     .meaning = "each collective of such a layer, scaled likewise (default: host's collective, or one kernel's "
                "host_launch)"},
    {"time.step", QUIRK_SECONDS, IN_TIME(step_s), UP_TO_A_SECOND, .part = QUIRK_PART_HOST,
     .meaning = "CPU time between the end of a step and the start of the next: loss, logging, next batch (default: "
                "none)"},
    {"time.arrival_spread", QUIRK_SECONDS, IN_TIME(arrival_spread_s), UP_TO_A_SECOND, .part = QUIRK_PART_SKEW,
     .meaning = "standard deviation of the times at which a group's ranks arrive at a collective"},
    {"time.kernels", QUIRK_CHOICE, IN_TIME(kernels), CHOICES("fused", "plain"), .part = QUIRK_PART_KERNELS,
     .meaning = "plain: RMSNorm, rotation and gate run as single operations"},
    {"time.scaled_rotation", QUIRK_CHOICE, IN_TIME(scaled_rotation), CHOICES("fused", "single"),
     .part = QUIRK_PART_KERNELS,
     .meaning = "a rotation of q and k whose cosine and sine are multiplied by a factor (YaRN's). fused: in the kernel "
                "of every other rotation; single: as single PyTorch operations"},
    {"time.attention_copies.forward", QUIRK_NUMBER, IN_TIME(attention_copies.forward), RANGE(0, 100),
     .part = QUIRK_PART_KERNELS,
     .meaning = "times that a tensor as wide as the queries is read or written around a fused attention kernel, to "
                "bring queries, keys and values into its layout and back (default: none)"},
    {"time.attention_copies.backward", QUIRK_NUMBER, IN_TIME(attention_copies.backward), RANGE(0, 100),
     .part = QUIRK_PART_KERNELS, .meaning = "the same for their gradients"},
    {"time.loss", QUIRK_CHOICE, IN_TIME(loss), CHOICES("vocabulary_parallel", "plain", "fused", "chunked"),
     .meaning = "cross-entropy. vocabulary_parallel: single operations in fp32 on the logits of each tp rank; plain: "
                "the same on all logits, which tp ranks gather; fused: it reads the logits twice in their own format "
                "and overwrites them with their gradient; chunked: so, with the output layer, a chunk of tokens at a "
                "time, in forward"},
    {"time.sends", QUIRK_CHOICE, IN_TIME(sends), CHOICES("streams", "synchronous"), .part = QUIRK_PART_WAITS,
     .meaning = "synchronous: in 1f1b and interleaved without overlapped sends, the host waits for what a stage "
                "exchanges before it issues more; otherwise, and in other schedules, streams wait"},
    {"time.stage_tensors", QUIRK_CHOICE, IN_TIME(stage_tensors), CHOICES("whole", "split"), .part = QUIRK_PART_WAITS,
     .meaning = "without sequence parallelism. whole: each tp rank sends all of a stage's output to its peer; split: "
                "its part of it, and the next stage's ranks gather the whole before they go on"},
    {"time.overlap_p2p", QUIRK_CHOICE, IN_TIME(overlap_p2p), CHOICES("schedule", "always", "chunks"),
     .part = QUIRK_PART_WAITS,
     .meaning = "a stage computes while it sends: as the schedule does, always, or only with several chunks"},
    {"time.tensor_parallel", QUIRK_CHOICE, IN_TIME(tensor_parallel.reduction), CHOICES("beside", "alone", "fused"),
     .part = QUIRK_PART_TENSOR_PARALLEL,
     .meaning = "the reduction of an input gradient overlaps with the weight gradient (beside), with nothing (alone), "
                "or in pieces with the product it belongs to (fused)"},
    {"time.tensor_parallel_hidden", QUIRK_NUMBER, IN_TIME(tensor_parallel.hidden), RANGE(0, 1),
     .part = QUIRK_PART_TENSOR_PARALLEL, .beside = "tensor_parallel: fused",
     .meaning = "share of a collective that overlaps with its product"},
    {"time.tensor_parallel_format", QUIRK_CHOICE, IN_TIME(tensor_parallel.format), CHOICES("element", "linear"),
     .part = QUIRK_PART_TENSOR_PARALLEL,
     .meaning = "linear: under sequence parallelism a rank first converts its tokens, or their gradients, which are "
                "then gathered in the format their products multiply in; sums stay in the activations' format, as "
                "gathers do with element"},
    {"time.gate_linears", QUIRK_CHOICE, IN_TIME(linears.gate), CHOICES("together", "apart"),
     .part = QUIRK_PART_TENSOR_PARALLEL,
     .meaning = "apart: the gate and its companion are two linears: each makes an input gradient, which are then "
                "added; without sequence parallelism tp sums both, counted as one sum of twice the bytes; together: "
                "one product"},
    {"time.qkv_linears", QUIRK_CHOICE, IN_TIME(linears.qkv), CHOICES("together", "apart"),
     .part = QUIRK_PART_TENSOR_PARALLEL, .meaning = "the same for queries, keys and values: three linears"},
    {"time.tensor_parallel_exchanges", QUIRK_CHOICE, IN_TIME(tensor_parallel.exchanges), CHOICES("once", "each"),
     .part = QUIRK_PART_TENSOR_PARALLEL, .beside = "qkv_linears: apart or gate_linears: apart",
     .meaning = "each: under sequence parallelism each separate linear gathers its own input and reduces its own input "
                "gradient; once: one exchange for all of them"},
    {"time.input_gradient_sums", QUIRK_CHOICE, IN_TIME(linears.input_gradient_sums), CHOICES("apart", "fused"),
     .meaning = "fused: the input gradients of separate linears are added by whatever reads the sum or, under sequence "
                "parallelism, by one kernel before the tp collective; apart: by kernels that add two at a time"},
    {"time.tensor_parallel_input", QUIRK_CHOICE, IN_TIME(tensor_parallel.input), CHOICES("shared", "copied"),
     .part = QUIRK_PART_TENSOR_PARALLEL,
     .meaning = "copied: without sequence parallelism a column-parallel linear reads a copy of its input made for it "
                "and, in backward, a row-parallel one a copy of its output's gradient"},
    {"time.data_parallel", QUIRK_CHOICE, IN_TIME(data_parallel), CHOICES("beside", "alone", "shards_beside"),
     .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "dp collectives overlap as the plan asks (beside), with nothing, whatever it asks (alone), or under "
                "ZeRO-3 always (shards_beside)"},
    {"time.gradients", QUIRK_CHOICE, IN_TIME(gradients), CHOICES("sharded", "whole"), .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "ZeRO-1. sharded: each rank receives its part of the sum; whole: all of it, and keeps its part"},
    {"time.pipeline_gradients", QUIRK_CHOICE, IN_TIME(pipeline_gradients), CHOICES("sharded", "whole"),
     .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "ZeRO-2 and 3 in a pipeline. sharded: dp sums after every micro-batch; whole: each rank accumulates "
                "whole gradients over all micro-batches, as wide as they are summed over dp, and dp sums them once, "
                "after the stage's last backward; refused with an offloaded optimizer, ignored in bidirectional "
                "pipelines"},
    {"time.accumulated_gradients", QUIRK_CHOICE, IN_TIME(accumulated_gradients), CHOICES("sharded", "whole"),
     .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "the same without a pipeline, over several micro-batches; the part that overlaps with the last "
                "backward is not modelled"},
    {"time.expert_optimizer", QUIRK_CHOICE, IN_TIME(expert_optimizer), CHOICES("together", "apart"),
     .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "apart: ZeRO-1 and 2 under ep: experts have their own optimizer, and if parameters are gathered after "
                "the update, each of the two optimizers gathers all of them: twice in all; together: once"},
    {"time.weights", QUIRK_CHOICE, IN_TIME(weights), CHOICES("gathered", "broadcast"),
     .meaning = "ZeRO-1. gathered: each rank has an equal part of all, gathered together; broadcast: each matrix "
                "belongs wholly to one rank; ranks broadcast theirs after updating, which overlaps with nothing, "
                "whatever the plan asks for"},
    {"time.zero3_tensors", QUIRK_MAPPING, IN_TIME(zero3.moves_tensors), .part = QUIRK_PART_DATA_PARALLEL,
     .meaning =
         "ZeRO-3 moves each matrix, and its gradient, in its own collective, built from a list with a tensor per "
         "rank; the host waits for all issued work before each gather (default: one collective per layer)"},
    {"time.zero3_tensors.list_entry", QUIRK_SECONDS, IN_TIME(zero3.list_entry_s), UP_TO_A_SECOND,
     .part = QUIRK_PART_DATA_PARALLEL, .meaning = "CPU time per tensor of such a list"},
    {"time.zero3_tensors.memory_passes", QUIRK_NUMBER, IN_TIME(zero3.memory_passes), RANGE(0, 100),
     .part = QUIRK_PART_DATA_PARALLEL, .meaning = "additional reads or writes of the data that such a list moves"},
    {"time.zero3_tensors.reduction_passes", QUIRK_NUMBER, IN_TIME(zero3.reduction_passes), RANGE(1, 100),
     .part = QUIRK_PART_DATA_PARALLEL, .is_optional = TRUE,
     .meaning = "the same where gradients are reduced (default: memory_passes)"},
    {"time.zero3_tensors.live_parameters", QUIRK_NUMBER, IN_TIME(zero3.live_parameters), RANGE(1, 1e15),
     .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "what the recomputation of a layer with more parameters gathered is gathered again for its backward; "
                "without gather_bucket such a layer is not prefetched either"},
    {"time.zero3_tensors.gather_bucket", QUIRK_NUMBER, IN_TIME(zero3.gather_bucket), RANGE(1, 1e15),
     .part = QUIRK_PART_DATA_PARALLEL, .is_optional = TRUE,
     .meaning = "matrices are gathered together up to at least so many parameters, with a list of all of them unless "
                "each fills a gather; the host waits for all issued work only before a micro-batch's first gather "
                "(default: each apart, after a wait)"},
    {"time.zero3_tensors.reduce_bucket", QUIRK_NUMBER, IN_TIME(zero3.reduce_bucket), RANGE(1, 1e15),
     .part = QUIRK_PART_DATA_PARALLEL, .is_optional = TRUE,
     .meaning = "a layer's gradients are reduced together up to so many parameters, from a list of all of them "
                "(default: each matrix apart)"},
    {"time.zero3_tensors.vectors", QUIRK_CHOICE, IN_TIME(zero3.vectors), CHOICES("sharded", "kept"),
     .part = QUIRK_PART_DATA_PARALLEL, .is_optional = TRUE,
     .meaning = "norms and biases. sharded: they move with the matrices; kept: they stay whole, their gradients are in "
                "the lists, and each is gathered by itself after the optimizer, which overlaps with nothing"},
    {"time.zero3_buffers", QUIRK_CHOICE, IN_TIME(zero3.buffers), CHOICES("shared", "copied", "gradients"),
     .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "copied: ZeRO-3: parameters are copied out of the gather's buffer before use, and gradients into the "
                "reduction's buffer in its format, in every micro-batch, also where they are reduced once a step; "
                "neither copy overlaps; gradients: only these are copied; shared: collectives fill and read the "
                "tensors themselves"},
    {"time.gradient_sum_bytes", QUIRK_NUMBER, IN_TIME(gradient_sum_bytes), RANGE(1, 8),
     .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "bytes per parameter in which bf16 training sums gradients (default: as held)"},
    {"time.gradient_sums", QUIRK_CHOICE, IN_TIME(gradient_sums), CHOICES("fused", "apart"),
     .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "apart: a weight gradient is written, then a separate kernel adds it to the sum over earlier "
                "micro-batches; fused: the product itself accumulates"},
    {"time.gradient_add_bytes", QUIRK_NUMBER, IN_TIME(gradient_add_bytes), RANGE(4, 100),
     .part = QUIRK_PART_DATA_PARALLEL, .beside = "gradient_sums: apart",
     .meaning = "bf16 training: bytes per parameter and micro-batch that this kernel reads and writes, 10 with fp32 "
                "sums (default: from the formats gradients are held in)"},
    {"time.gradient_passes", QUIRK_NUMBER, IN_TIME(gradient_passes), RANGE(0, 100), .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "times that gradients are read or written between the last backward and Adam, for norm and clipping; "
                "Adam's own read comes on top (default: none, unknown); ignored with an offloaded optimizer, whose "
                "rate covers all it does"},
    {"time.fp16_gradients", QUIRK_CHOICE, IN_TIME(fp16_gradients), CHOICES("as_held", "copied"),
     .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "copied: fp16 with an fp32 master copy: 16-bit gradients are copied to fp32 and unscaled there; norm, "
                "clipping and Adam read the copies, which take memory until Adam is done; as_held: they read the "
                "gradients as held"},
    {"time.buffer_passes", QUIRK_NUMBER, IN_TIME(buffer_passes), RANGE(0, 100), .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "ZeRO-0 and 1: times per step that the gradients of all of a rank's parameters, sharded or not, are "
                "read or written before they are summed over dp: zeroed, searched for NaNs (default: none). This key "
                "and the next are ignored with an offloaded optimizer, like gradient_passes"},
    {"time.gradient_scaling", QUIRK_CHOICE, IN_TIME(gradient_scaling), CHOICES("summed", "apart"),
     .part = QUIRK_PART_DATA_PARALLEL,
     .meaning = "apart: ZeRO-0 and 1: a rank divides its gradients by the number of dp ranks before they are summed, a "
                "read and a write; summed: part of the sum"},
    {"time.norm_rate", QUIRK_NUMBER, IN_TIME(norm_rate), RANGE(0.05, 1), .part = QUIRK_PART_KERNELS,
     .beside = "kernels: plain",
     .meaning = "share of the HBM rate that an RMSNorm's single operations reach (default 1)"},
    {"time.layer_norm.forward", QUIRK_NUMBER, IN_TIME(layer_norm.forward), RANGE(2, 100), .part = QUIRK_PART_KERNELS,
     .meaning = "time of a LayerNorm, in reads or writes of its input (default: the minimum, 2)"},
    {"time.layer_norm.backward", QUIRK_NUMBER, IN_TIME(layer_norm.backward), RANGE(3, 100), .part = QUIRK_PART_KERNELS,
     .meaning = "the same in backward (default 3)"},
    {"time.row_bias", QUIRK_CHOICE, IN_TIME(row_bias), CHOICES("residual", "apart"), .part = QUIRK_PART_KERNELS,
     .meaning =
         "the bias of a row-parallel linear is added by the kernel that adds the residual, or by one of its own"},
    {"time.strided_rate", QUIRK_NUMBER, IN_TIME(strided_rate), RANGE(0.05, 1), .part = QUIRK_PART_KERNELS,
     .meaning = "share of the HBM rate reached by PyTorch operations that read or write parts of rows, or broadcast an "
                "operand: those of scaled_rotation, expert_operations and permutation_rate, and with plain kernels of "
                "rotation "
                "(default 1)"},
    {"time.recompute_end", QUIRK_CHOICE, IN_TIME(recompute_end), CHOICES("whole", "needed"), .part = QUIRK_PART_KERNELS,
     .meaning = "full recompute reruns the whole layer, or stops after the last tensor that backward reads: in a dense "
                "layer without dropout or norms after its branches, before the MLP's last product, whose result is not "
                "read again"},
    {"time.context", QUIRK_CHOICE, IN_TIME(context), CHOICES("passed", "blocks"), .part = QUIRK_PART_CONTEXT,
     .meaning = "cp ring. passed: as in Transformer Engine's ring; blocks: keys and values of all heads are gathered "
                "whole and attended to block by block, their gradients passed on; outputs and gradients are summed in "
                "fp32"},
    {"time.context_exchanges", QUIRK_CHOICE, IN_TIME(context_exchanges), CHOICES("beside", "alone"),
     .part = QUIRK_PART_CONTEXT, .beside = "context: blocks",
     .meaning = "exchanges overlap with a block's attention, or with nothing"},
    {"time.expert_overlap", QUIRK_CHOICE, IN_TIME(expert_overlap), CHOICES("schedule", "rounds"),
     .meaning = "forward and backward take turns at exchanges with experts unless the plan says otherwise. schedule: "
                "only if the schedule pairs them; rounds: in rounds of the interleaved schedule, and on a single "
                "pipeline rank"},
    {"time.expert_dispatch", QUIRK_CHOICE, IN_TIME(expert_dispatch), CHOICES("all_to_all", "deepep", "all_gather"),
     .meaning = "a token is sent once to each expert, once to each node and rank with some of its experts, or to all "
                "ranks"},
    {"time.grace_expert_graphs", QUIRK_CHOICE, IN_TIME(grace_expert_graphs), CHOICES("none", "router", "attention"),
     .meaning = "on GPUs with a Grace host: what is replayed as a graph in layers with experts unless the plan says "
                "otherwise, as for --cuda-graphs"},
    {"time.grace_mxfp8_step", QUIRK_CHOICE, IN_TIME(grace_mxfp8_step), CHOICES("launched", "replayed"),
     .meaning = "replayed: on such GPUs, in mxfp8, with ep > 1 and no recomputation, the step is replayed as one graph "
                "and, in rounds (see expert_overlap), hides exchanges with experts, unless the plan says otherwise; "
                "launched: as the two keys above say"},
    {"time.expert_counts", QUIRK_CHOICE, IN_TIME(expert_counts), CHOICES("device", "host"), .part = QUIRK_PART_HOST,
     .meaning = "host: the host reads how many tokens each expert gets before they are sent, or selected from all "
                "gathered ones, and issues nothing until routing is done; device: it keeps issuing"},
    {"time.expert_operations", QUIRK_CHOICE, IN_TIME(expert_operations), CHOICES("fused", "single"),
     .part = QUIRK_PART_KERNELS,
     .meaning =
         "single: PyTorch operations clamp an expert's gate, where the host waits for all issued work, add the "
         "biases of its last product, expert by expert, and make the gradients of the routing weights; fused (and "
         "in graphs of the whole step): all this is part of neighbouring kernels"},
    {"time.expert_products", QUIRK_CHOICE, IN_TIME(expert_products), CHOICES("together", "apart"),
     .part = QUIRK_PART_HOST,
     .meaning = "apart: each expert's products, and the conversions of its rows to narrow formats, are launched by "
                "themselves; together (and in graphs of the whole step): those of all experts at once"},
    {"time.expert_conversions", QUIRK_CHOICE, IN_TIME(expert_conversions), CHOICES("once", "each"),
     .part = QUIRK_PART_KERNELS,
     .meaning = "once: what experts multiply below 16 bits is converted once for both products that read it, weights "
                "once a step; each: by each product, weights in every micro-batch"},
    {"time.permutation_rate", QUIRK_NUMBER, IN_TIME(permutation_rate), RANGE(0.01, 1), .part = QUIRK_PART_KERNELS,
     .meaning = "PyTorch operations bring tokens to experts' rows and back: they read every row that they write, add "
                "rows up atomically, at this share of the HBM rate, and multiply those that come back by their weights "
                "(default: one kernel each way, and weights are part of the experts' activation)"},
    {"time.expert_padding", QUIRK_CHOICE, IN_TIME(expert_padding), CHOICES("none", "copied", "always"),
     .part = QUIRK_PART_KERNELS,
     .meaning = "copied: below 16 bits, rows received by an all-to-all are copied to tensors padded per expert as its "
                "products need, and back; always: those received through DeepEP, too; none: they arrive padded"},
    {"time.expert_format", QUIRK_CHOICE, IN_TIME(expert_format), CHOICES("element", "linear"),
     .meaning = "linear: tokens, or gradients, are converted before they go to experts and travel in the format the "
                "experts multiply in; they return in the activations' format, as both ways with element"},
    {"time.scales", QUIRK_CHOICE, IN_TIME(scales), CHOICES("tensor", "blocks"),
     .meaning = "fp8 has one scale for the whole tensor, after a pass to find its largest element, or one per block of "
                "a tensor, found during conversion"},
    {"time.rates.*.products", QUIRK_NUMBER, IN_RATES(products), RANGE(0.05, 1), .part = QUIRK_PART_RATES,
     .is_optional = TRUE,
     .meaning = "what its libraries reach of a GPU generation: a share of the GPU file's rate of products"},
    {"time.rates.*.weight_gradients", QUIRK_NUMBER, IN_RATES(weight_gradients), RANGE(0.05, 1),
     .part = QUIRK_PART_RATES, .is_optional = TRUE,
     .meaning = "a further share of that for weight gradients whose operands have fewer than 16 bits"},
    {"time.rates.*.attention_forward", QUIRK_NUMBER, IN_RATES(attention_forward), RANGE(1e-3, 1),
     .part = QUIRK_PART_RATES, .is_optional = TRUE,
     .meaning = "a share of the peak, which replaces the GPU file's and has no ramp; it is multiplied by its "
                "of_generation if it has one"},
    {"time.rates.*.attention_backward", QUIRK_NUMBER, IN_RATES(attention_backward), RANGE(1e-3, 1),
     .part = QUIRK_PART_RATES, .is_optional = TRUE, .meaning = "the same in backward"},
};
enum { N_QUIRKS = G_N_ELEMENTS(quirks), MOST_FIELDS = 64 };

int quirks_count(void) {
  return N_QUIRKS;
}

const Quirk *quirk_at(int i) {
  g_assert(i >= 0 && i < N_QUIRKS);
  return &quirks[i];
}

static char *value_text(const Quirk *quirk) {
  switch (quirk->kind) {
  case QUIRK_CHOICE: {
    g_autofree char *others = g_strjoinv(", ", (char **)quirk->choices + 1);
    return g_strdup_printf("**%s**, %s", quirk->choices[0], others);
  }
  case QUIRK_SECONDS:
    return g_strdup("a time");
  case QUIRK_BYTES:
    return g_strdup("bytes");
  case QUIRK_RECIPE:
    return g_strdup("a recipe");
  case QUIRK_MAPPING:
    return g_strdup("a mapping");
  default:
    return g_strdup_printf("%g to %g", quirk->least, quirk->most);
  }
}

char *quirk_table_row(const Quirk *quirk) {
  g_autofree char *value = value_text(quirk);
  g_autofree char *beside = quirk->beside != NULL ? g_strdup_printf("with \"%s\" only: ", quirk->beside) : g_strdup("");
  return g_strdup_printf("| `%s` | %s | %s%s |", quirk->key, value, beside, quirk->meaning);
}

/* --- reading --- */

/* What is read of one mapping: its leaves and, as nodes, the mappings below. */
typedef struct {
  Framework framework;
  char *recipe; /* the text of memory.recipe; owned */
} Draft;
typedef struct {
  YamlField fields[MOST_FIELDS];
  char *names[MOST_FIELDS]; /* of the fields' keys; owned */
  YamlNode nodes[MOST_FIELDS];
  int n;
} Level;

/* The part of a row's key that follows `prefix`; NULL: it does not begin so. A * of the key stands for what the prefix
 * has there, whose generation is *architecture then. */
static const char *key_below(const char *key, const char *prefix, int *architecture) {
  while (*prefix != '\0') {
    if (*key == '*') {
      const gsize length = strcspn(prefix, ".");
      for (*architecture = 0; *architecture < N_ARCHITECTURES; ++*architecture)
        if (strlen(architecture_names[*architecture]) == length &&
            strncmp(architecture_names[*architecture], prefix, length) == 0)
          break;
      g_assert(*architecture < N_ARCHITECTURES);
      key++;
      prefix += length;
    } else if (*key++ != *prefix++)
      return NULL;
  }
  return *key == '.' ? key + 1 : NULL;
}

static YamlField leaf_field(const Quirk *quirk, const char *name, size_t shift, gboolean required) {
  static const struct {
    FieldType type;
    UnitKind unit;
  } kinds[] = {[QUIRK_CHOICE] = {FIELD_CHOICE},
               [QUIRK_NUMBER] = {FIELD_NUMBER},
               [QUIRK_SECONDS] = {FIELD_QUANTITY, UNIT_SECONDS},
               [QUIRK_BYTES] = {FIELD_QUANTITY, UNIT_BYTES},
               [QUIRK_RECIPE] = {FIELD_TEXT}};
  return (YamlField){.key = name,
                     .type = kinds[quirk->kind].type,
                     .required = required,
                     .offset = quirk->kind == QUIRK_RECIPE ? offsetof(Draft, recipe)
                                                           : offsetof(Draft, framework) + quirk->offset + shift,
                     .min = quirk->least,
                     .max = quirk->most,
                     .unit = kinds[quirk->kind].unit,
                     .names = quirk->choices};
}

/* A field of the level, called by the first `length` letters of `name`, unless it has one of that name. */
static YamlField *add_field(Level *level, const char *name, gsize length) {
  for (int i = 0; i < level->n; i++)
    if (strlen(level->names[i]) == length && strncmp(level->names[i], name, length) == 0)
      return &level->fields[i];
  g_assert(level->n < MOST_FIELDS);
  level->names[level->n] = g_strndup(name, length);
  level->fields[level->n] = (YamlField){.key = level->names[level->n], .type = FIELD_NODE};
  return &level->fields[level->n++];
}

/* The keys below `prefix`. Those of memory and time are optional; a mapping further down is required if one of its own
 * keys is. */
static void add_quirk(const Quirk *quirk, const char *prefix, Level *level) {
  int architecture = 0;
  const char *below = key_below(quirk->key, prefix, &architecture);
  if (below == NULL)
    return;
  const gboolean required = strchr(prefix, '.') != NULL && !quirk->is_optional;
  const gsize length = strcspn(below, ".");
  if (*below == '*') {
    for (int i = 0; i < N_ARCHITECTURES; i++)
      add_field(level, architecture_names[i], strlen(architecture_names[i]));
    return;
  }
  YamlField *field = add_field(level, below, length);
  if (below[length] == '\0' && quirk->kind != QUIRK_MAPPING)
    *field = leaf_field(quirk, field->key, (size_t)architecture * sizeof(FrameworkRates), required);
  field->required |= required;
}

static gboolean read_below(YamlNode map, const char *prefix, Draft *draft, GError **error);

/* The mapping `name` below `prefix`, if it is there; a row of its own says that it is. */
static gboolean read_mapping(YamlNode map, const char *prefix, const char *name, Draft *draft, GError **error) {
  if (!yaml_is_present(map))
    return TRUE;
  g_autofree char *key = g_strdup_printf("%s.%s", prefix, name);
  for (int i = 0; i < N_QUIRKS; i++)
    if (strcmp(quirks[i].key, key) == 0)
      *(gboolean *)((char *)&draft->framework + quirks[i].offset) = TRUE;
  return read_below(map, key, draft, error);
}

/* Nodes are read into a copy of the draft's place, because a level has its own. */
static gboolean read_below(YamlNode map, const char *prefix, Draft *draft, GError **error) {
  struct {
    Draft draft;
    Level level;
  } *read = g_malloc0(sizeof *read);
  Level *level = &read->level;
  read->draft = *draft;
  for (int i = 0; i < N_QUIRKS; i++)
    add_quirk(&quirks[i], prefix, level);
  for (int i = 0; i < level->n; i++)
    if (level->fields[i].type == FIELD_NODE)
      level->fields[i].offset = (size_t)((char *)&level->nodes[i] - (char *)read);
  gboolean ok = yaml_map_read(map, level->fields, level->n, read, error);
  *draft = read->draft;
  for (int i = 0; i < level->n && ok; i++)
    ok = level->fields[i].type != FIELD_NODE || read_mapping(level->nodes[i], prefix, level->names[i], draft, error);
  for (int i = 0; i < level->n; i++)
    g_free(level->names[i]);
  g_free(read);
  return ok;
}

static gboolean keep_recipe(Draft *draft, YamlNode map, GError **error) {
  Recipe recipe;
  if (draft->recipe == NULL)
    return TRUE;
  if (!recipe_parse(draft->recipe, &recipe, error))
    return yaml_prefix(map, error);
  g_strlcpy(draft->framework.memory.recipe, recipe.name, sizeof draft->framework.memory.recipe);
  return TRUE;
}

/* --- keys that go with others --- */

/* How many bytes a field that is not a text takes. */
static gsize size_of(const Quirk *quirk) {
  switch (quirk->kind) {
  case QUIRK_CHOICE:
  case QUIRK_MAPPING:
    return sizeof(int);
  case QUIRK_RECIPE:
    return sizeof((FrameworkMemory){0}.recipe);
  default:
    return sizeof(double);
  }
}

static gboolean is_default(const Quirk *quirk, const Framework *framework) {
  static const char zero[sizeof(double)];
  return memcmp((const char *)framework + quirk->offset, zero, size_of(quirk)) == 0;
}

/* Of "kernels: plain" in the mapping called `name`: whether it is so. *other is the key's value in the file. */
static gboolean is_so(const char *condition, const char *name, YamlNode map, const Framework *framework,
                      YamlNode *other) {
  g_auto(GStrv) parts = g_strsplit(condition, ": ", 2);
  g_autofree char *key = g_strdup_printf("%s.%s", name, parts[0]);
  *other = yaml_map_value(map, parts[0]);
  for (int i = 0; i < N_QUIRKS; i++)
    if (strcmp(quirks[i].key, key) == 0)
      return strcmp(quirks[i].choices[*(const int *)((const char *)framework + quirks[i].offset)], parts[1]) == 0;
  g_assert_not_reached();
}

/* Refuses a key without what it goes with, or drops it if it comes from a base and the other value from elsewhere: the
 * base meant them together. */
static gboolean check_companion(const Quirk *quirk, const char *name, YamlNode map, Framework *framework,
                                GError **error) {
  if (quirk->beside == NULL || is_default(quirk, framework) || !g_str_has_prefix(quirk->key, name))
    return TRUE;
  const char *key = quirk->key + strlen(name) + 1;
  const YamlNode own = yaml_map_value(map, key);
  g_auto(GStrv) conditions = g_strsplit(quirk->beside, " or ", -1);
  gboolean is_left_behind = FALSE;
  for (char **condition = conditions; *condition != NULL; condition++) {
    YamlNode other;
    if (is_so(*condition, name, map, framework, &other))
      return TRUE;
    is_left_behind |= yaml_is_of_base(own) && yaml_is_present(other) && strcmp(yaml_path(own), yaml_path(other)) != 0;
  }
  g_autofree char *expected = g_strjoinv("\" or \"", conditions);
  if (!is_left_behind)
    return yaml_fail(map, error, "found %s, expected it with \"%s\" only", key, expected);
  memset((char *)framework + quirk->offset, 0, size_of(quirk));
  return TRUE;
}

gboolean quirks_read(YamlNode map, const char *name, Framework *framework, GError **error) {
  Draft draft = {.framework = *framework};
  gboolean ok = read_below(map, name, &draft, error) && keep_recipe(&draft, map, error);
  for (int i = 0; i < N_QUIRKS && ok; i++)
    ok = check_companion(&quirks[i], name, map, &draft.framework, error);
  g_free(draft.recipe);
  if (ok)
    *framework = draft.framework;
  return ok;
}

void quirks_take_away(QuirkPart part, FrameworkMemory *memory, FrameworkTime *time) {
  Framework framework = {.memory = *memory, .time = *time};
  for (int i = 0; i < N_QUIRKS; i++) {
    const int n = strchr(quirks[i].key, '*') != NULL ? N_ARCHITECTURES : 1;
    for (int j = 0; j < n && quirks[i].part == part; j++)
      memset((char *)&framework + quirks[i].offset + (size_t)j * sizeof(FrameworkRates), 0, size_of(&quirks[i]));
  }
  *memory = framework.memory;
  *time = framework.time;
}
