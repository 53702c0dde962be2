/* How a training framework spends time beyond the arithmetic that every one of them needs: the mapping `time` of
 * topologies/frameworks/<name>.yaml. All keys are optional; without them, as without a framework, kernels are issued at
 * the GPU file's host_launch each, and run at its rates.
 *
 *     time:
 *       host:                       # on the CPU, to issue
 *         layer: {forward: 1.2 ms, again: 1.1 ms, backward: 0.9 ms}  # a layer's kernels; again: when recomputed
 *         ends: {forward: 2 ms, backward: 0.6 ms}                    # those of the embedding, and of head and loss
 *         collective: 17 us         # one collective of tp
 *       expert_host: {forward: 230 us, backward: 120 us, launch: 5 us}  # each kernel of a layer with experts, in place
 *                                   # of host's layer, on a host that issues a kernel in `launch`; one whose GPU file
 *                                   # has another host_launch takes in proportion; collective: 65 us: each collective
 *                                   # of such a layer likewise (default: as host's, or one kernel's host_launch)
 *       step: 10 ms                 # on the CPU, between the end of a step and the begin of the next: the loss, the
 *                                   # log, the next batch (default: none)
 *       arrival_spread: 45 us       # standard deviation of when the ranks of a group come to a collective
 *       kernels: plain              # RMSNorm, rotation and gate are single operations; fused (default)
 *       attention_copies: {forward: 17, backward: 21}  # times that a tensor as wide as the queries is read or written
 *                                   # round a fused attention kernel: what brings queries, keys and values, and their
 *                                   # gradients, into its layout and back (default: none)
 *       norm_rate: 0.77             # plain: share of the HBM's rate that an RMSNorm's operations reach (default 1)
 *       scaled_rotation: single     # a rotation of q and k whose cosine and sine are multiplied by a factor (YaRN's)
 *                                   # is operations of PyTorch, one at a time; fused (default): the kernel that all
 *                                   # others have
 *       layer_norm: {forward: 3.25, backward: 10.4}  # what a LayerNorm takes, in reads or writes of its input (default:
 *                                   # what it cannot do without, 2 and 3)
 *       row_bias: apart             # the bias of a linear that tp cuts by rows is added by a kernel of its own; residual
 *                                   # (default): by that which adds the residual
 *       strided_rate: 0.37          # share of the HBM's rate that operations of PyTorch reach which read or write
 *                                   # parts of rows, or spread an operand over others, of scaled_rotation and of
 *                                   # expert_operations, not of plain kernels (default 1)
 *       loss: fused                 # cross-entropy reads logits in their own format twice, and writes their gradient
 *                                   # over them as it does; plain (default): operations in fp32, one at a time
 *       sends: synchronous          # the host waits for what a stage exchanges before it issues more, in 1f1b and
 *                                   # interleaved without overlap of sends; else, and elsewhere, streams do
 *       stage_tensors: split        # without sequence parallelism each rank of tp sends its part of what all of them
 *                                   # have to the next stage, whose ranks gather the whole before they go on; whole
 *                                   # (default): each sends all of it to its peer
 *       overlap_p2p: chunks         # a stage computes on while it sends: always, where it has several chunks, or as
 *                                   # the schedule has it (default: schedule)
 *       tensor_parallel: alone      # the reduction of an input gradient runs beside the weight gradient (default:
 *                                   # beside), alone, or in pieces beside the product it belongs to (fused)
 *       tensor_parallel_hidden: 0.85  # fused: share of a collective that runs beside its product
 *       tensor_parallel_format: linear  # under sequence parallelism a rank converts its tokens, or their gradients,
 *                                   # and they are gathered in the format of the products they are for; sums are in
 *                                   # that of activations (element), as by default both are
 *       gate_linears: apart         # a gate and what it multiplies are linears apart: each makes an input gradient, and
 *                                   # they are added up; without sequence parallelism tp sums both, counted as a sum
 *                                   # of twice the bytes; together (default): they are one product's
 *       qkv_linears: apart          # the same of queries, keys and values: three
 *       tensor_parallel_exchanges: each # of linears apart, by one of the two keys before or both: under sequence
 *                                   # parallelism each gathers what it reads, and reduces its input gradient, for
 *                                   # itself; once (default): all of them together
 *       input_gradient_sums: fused  # what reads the sum of such gradients adds them up, or one kernel before tp does,
 *                                   # under sequence parallelism; apart (default): kernels that add two at a time
 *       tensor_parallel_input: copied  # without sequence parallelism a linear cut by columns reads a copy of its input,
 *                                   # made for it, and one cut by rows, in backward, of its output's gradient; shared
 *                                   # (default): neither
 *       data_parallel: alone        # collectives of dp run beside nothing, whatever the plan asks for
 *                                   # (default: beside)
 *       gradients: whole            # ZeRO-1: each rank receives the whole sum, of which it keeps its part; sharded
 *                                   # (default): its part alone
 *       pipeline_gradients: whole   # ZeRO-2 and 3 in a pipeline: each rank sums those of all micro-batches, whole and
 *                                   # as wide as they are summed over dp, which they are once, behind the last
 *                                   # backward of their stage; refused with the optimizer offloaded, left out in
 *                                   # pipelines of both directions; sharded (default): they are after every micro-batch
 *       accumulated_gradients: whole  # the same without a pipeline, of several micro-batches. What of it runs beside
 *                                   # the last backward is left out
 *       expert_optimizer: apart     # ZeRO-1 and 2 under ep: experts have an optimizer of their own and, where
 *                                   # parameters are gathered behind the update, each of the two has all gathered:
 *                                   # twice in all; together (default): once
 *       weights: broadcast          # ZeRO-1: a matrix is wholly one rank's, and each rank that has some broadcasts
 *                                   # them when it has updated them, beside nothing, whatever the plan asks for;
 *                                   # gathered (default): each has an equal part of all, and these come together
 *       zero3_tensors:              # ZeRO-3 moves each matrix, and its gradient, in a collective of its own, made from
 *                                   # a list of tensors, one for each rank; before a gather the host waits for all
 *                                   # that it has issued (default: one collective for all of a layer)
 *         list_entry: 30 us         # on the CPU, for each tensor of such a list
 *         memory_passes: 4          # times that what is moved is read or written besides
 *         live_parameters: 1e9      # where a layer has more, nothing is gathered ahead of its use, and what a layer
 *                                   # was made again with is gathered anew for its backward
 *       zero3_buffers: copied       # ZeRO-3: parameters are copied out of the buffer that a gather fills, before they
 *                                   # are used, and gradients into the one that they are reduced from, in its format,
 *                                   # both beside nothing; shared (default): collectives fill and read what is used
 *       gradient_sum_bytes: 4       # per parameter, as gradients of training in bf16 are summed (default: as held)
 *       gradient_sums: apart        # a weight gradient is written, then added to those of earlier micro-batches by a
 *                                   # kernel of its own; fused (default): the product itself adds
 *       gradient_add_bytes: 10      # of training in bf16, apart: what that kernel reads and writes per parameter and
 *                                   # micro-batch, as where sums are in fp32 (default: as gradients are held)
 *       gradient_passes: 3          # times that gradients are read or written between the last backward and Adam, which
 *                                   # reads them once more: norm, clipping (default: none, where nothing is known of
 *                                   # them); left out where the optimizer is offloaded, whose rate is that of all it
 *                                   # does
 *       fp16_gradients: copied      # precision fp16 with an fp32 master copy: gradients of 16 bits are copied to fp32,
 *                                   # divided by the loss scale there, and norm, clipping and Adam read the copies,
 *                                   # which take memory until Adam has; as_held (default): they read the gradients as
 *                                   # they are held
 *       buffer_passes: 2            # ZeRO-0 and 1: times that the gradients of all of a rank's parameters, in shards
 *                                   # or not, are read or written in a step before they are summed over dp: set to
 *                                   # 0, looked through for numbers that are none (default: none). This and the next
 *                                   # are left out where the optimizer is offloaded, as gradient_passes
 *       gradient_scaling: apart     # ZeRO-0 and 1: a rank divides its gradients by the ranks of dp before they are
 *                                   # summed, which reads and writes them; summed (default): the sum does
 *       recompute_end: needed       # full recompute ends with the last tensor that backward reads: in a dense layer
 *                                   # without dropout or norms behind its branches before the MLP's last product, whose
 *                                   # result is not read again; whole (default): with the layer
 *       context: blocks             # cp ring: keys and values of all heads are gathered whole, attended to block by
 *                                   # block and their gradients passed on, outputs and gradients summed in fp32; passed
 *                                   # (default): as Transformer Engine's ring
 *       context_exchanges: alone    # blocks: they run beside nothing; beside (default): beside a block's attention
 *       expert_overlap: rounds      # in rounds of the interleaved schedule, and on a lone pipeline rank, the forward
 *                                   # and the backward take turns at their exchanges with experts, where the plan does
 *                                   # not say otherwise (default: where the schedule pairs them)
 *       expert_dispatch: deepep     # a token is sent once for each expert it goes to (default: all_to_all), once to
 *                                   # each node and rank that has some of its experts, or to all ranks (all_gather)
 *       grace_expert_graphs: attention # on GPUs whose host is a Grace, what of layers with experts is replayed as a
 *                                   # graph where the plan does not say (none, the default, router or attention, as
 *                                   # --cuda-graphs has them)
 *       grace_mxfp8_step: replayed  # on such GPUs a step with experts that are dealt out, in mxfp8 and with nothing made
 *                                   # again is replayed as one graph and, where there are rounds (as expert_overlap has
 *                                   # them), hides exchanges with experts, as far as the plan does not say; launched
 *                                   # (default): as the two keys before have it
 *       expert_counts: host         # how many tokens go to each expert is read before they are sent, or picked of all
 *                                   # that were gathered: until they have been chosen the host issues nothing more;
 *                                   # device (default): it does
 *       expert_operations: single   # the bound of an expert's gate and the biases of its last product are operations of
 *                                   # PyTorch, the biases expert by expert, and the host waits at the bound for all
 *                                   # that it has issued; so are the gradients of the choice's weights; rows are
 *                                   # converted to narrow formats expert by expert; fused (default, and under graphs
 *                                   # of the whole step): parts of the kernels beside them, and all experts in one
 *       expert_padding: copied      # in formats of fewer than 16 bits rows that came by an all-to-all are copied to
 *                                   # tensors that have as many of each expert as its products want, and back; none
 *                                   # (default): they are so already
 *       expert_format: linear       # a token, or a gradient, is converted before it goes to its experts, and goes in
 *                                   # the format they multiply in; it comes back, as it does by default both ways, in
 *                                   # that of activations (element)
 *       scales: blocks              # fp8 has a scale for each block of a tensor, found as it is converted; tensor
 *                                   # (default): one for all of it, whose largest element is looked for first
 *       expert_sms: 20              # SMs that move tokens to experts and back: while they do, kernels beside them have
 *                                   # the others (default: as the cluster's transfer_tax says)
 *       rates:                      # by GPU generation, what its libraries reach
 *         hopper: {products: 0.8, weight_gradients: 0.9, attention_forward: 0.35, attention_backward: 0.3}
 *
 * products: a share of the GPU file's rate; weight_gradients: a share of that again for theirs, where the
 * factors have fewer than 16 bits; attention: of the peak, in place of the GPU file's and without its ramp, times its
 * of_generation where it has one. */
#pragma once
#include "framework_memory.h"
#include "gpu.h"
#include "yaml_node.h"

/* Enums of one key each; what stands first holds without the key. */
typedef enum { LOSS_PLAIN, LOSS_FUSED } FrameworkLoss;
typedef enum { ROTATION_FUSED, ROTATION_SINGLE } FrameworkRotation;
typedef enum { SENDS_ON_STREAMS, SENDS_SYNCHRONOUS } FrameworkSends;
typedef enum { STAGE_TENSORS_WHOLE, STAGE_TENSORS_SPLIT } FrameworkStageTensors;
typedef enum { P2P_OF_SCHEDULE, P2P_ALWAYS, P2P_CHUNKS } FrameworkP2P;
typedef enum { TP_BESIDE, TP_ALONE, TP_FUSED } FrameworkTensorParallel;
typedef enum { TP_FORMAT_ELEMENT, TP_FORMAT_LINEAR } FrameworkTensorParallelFormat;
typedef enum { TP_EXCHANGES_ONCE, TP_EXCHANGES_EACH } FrameworkTensorParallelExchanges;
typedef enum { LINEARS_TOGETHER, LINEARS_APART } FrameworkLinears;
typedef enum { INPUT_GRADIENT_SUMS_APART, INPUT_GRADIENT_SUMS_FUSED } FrameworkInputGradientSums;
typedef enum { TP_INPUT_SHARED, TP_INPUT_COPIED } FrameworkTensorParallelInput;
typedef enum { ROW_BIAS_WITH_RESIDUAL, ROW_BIAS_APART } FrameworkRowBias;
typedef enum { DP_BESIDE, DP_ALONE } FrameworkDataParallel;
typedef enum { GRADIENTS_SHARDED, GRADIENTS_WHOLE } FrameworkGradients;
typedef enum { GRADIENT_SCALING_SUMMED, GRADIENT_SCALING_APART } FrameworkGradientScaling;
typedef enum { PIPELINE_GRADIENTS_SHARDED, PIPELINE_GRADIENTS_WHOLE } FrameworkPipelineGradients;
typedef enum { ACCUMULATED_GRADIENTS_SHARDED, ACCUMULATED_GRADIENTS_WHOLE } FrameworkAccumulatedGradients;
typedef enum { EXPERT_OPTIMIZER_TOGETHER, EXPERT_OPTIMIZER_APART } FrameworkExpertOptimizer;
typedef enum { WEIGHTS_GATHERED, WEIGHTS_BROADCAST } FrameworkWeights;
typedef enum { ZERO3_BUFFERS_SHARED, ZERO3_BUFFERS_COPIED } FrameworkZero3Buffers;

typedef enum { GRADIENT_SUMS_FUSED, GRADIENT_SUMS_APART } FrameworkGradientSums;
typedef enum { FP16_GRADIENTS_AS_HELD, FP16_GRADIENTS_COPIED } FrameworkFp16Gradients;
typedef enum { RECOMPUTE_END_WHOLE, RECOMPUTE_END_NEEDED } FrameworkRecomputeEnd;
typedef enum { CONTEXT_PASSED, CONTEXT_BLOCKS } FrameworkContext;
typedef enum { CONTEXT_BESIDE, CONTEXT_ALONE } FrameworkContextExchanges;
typedef enum { EXPERT_OVERLAP_OF_SCHEDULE, EXPERT_OVERLAP_ROUNDS } FrameworkExpertOverlap;
typedef enum { GRACE_STEP_LAUNCHED, GRACE_STEP_REPLAYED } FrameworkGraceStep;
typedef enum { EXPERT_FORMAT_ELEMENT, EXPERT_FORMAT_LINEAR } FrameworkExpertFormat;
typedef enum { EXPERT_COUNTS_ON_DEVICE, EXPERT_COUNTS_ON_HOST } FrameworkExpertCounts;
typedef enum { EXPERT_OPERATIONS_FUSED, EXPERT_OPERATIONS_SINGLE } FrameworkExpertOperations;
typedef enum { EXPERT_PADDING_NONE, EXPERT_PADDING_COPIED } FrameworkExpertPadding;
typedef enum { SCALES_TENSOR, SCALES_BLOCKS } FrameworkScales;

typedef struct {
  double products;                              /* (0, 1]; 0: 1 */
  double weight_gradients;                      /* (0, 1]; 0: 1 */
  double attention_forward, attention_backward; /* (0, 1]; 0: the GPU file's */
} FrameworkRates;

/* Zeroed: no framework. Enums are kept as int, as yaml_map_read() stores them. */
typedef struct {
  gboolean has_host; /* else all of the following six are unknown */
  double layer_forward_s, layer_again_s, layer_backward_s;
  double ends_forward_s, ends_backward_s;
  double collective_s;
  gboolean has_expert_host; /* else the following three are unknown */
  double expert_forward_s, expert_backward_s, expert_launch_s;
  double expert_collective_s; /* 0: as host's, or what the GPU's host takes for a kernel */
  double step_s;
  double arrival_spread_s;
  int kernels;         /* FrameworkKernels */
  int scaled_rotation; /* FrameworkRotation */
  int loss;            /* FrameworkLoss */
  int sends;           /* FrameworkSends */
  int stage_tensors;   /* FrameworkStageTensors */
  int overlap_p2p;     /* FrameworkP2P */
  int tensor_parallel; /* FrameworkTensorParallel */
  double tensor_parallel_hidden;
  int tensor_parallel_format;    /* FrameworkTensorParallelFormat */
  int gate_linears;              /* FrameworkLinears */
  int qkv_linears;               /* … */
  int tensor_parallel_exchanges; /* FrameworkTensorParallelExchanges */
  int input_gradient_sums;       /* FrameworkInputGradientSums */
  int tensor_parallel_input;     /* FrameworkTensorParallelInput */
  int data_parallel;             /* FrameworkDataParallel */
  int gradients;                 /* FrameworkGradients */
  int pipeline_gradients;        /* FrameworkPipelineGradients */
  int accumulated_gradients;     /* FrameworkAccumulatedGradients */
  int expert_optimizer;          /* FrameworkExpertOptimizer */
  int weights;                   /* FrameworkWeights */
  gboolean zero3_tensors;        /* else the following three are unknown */
  double zero3_list_entry_s, zero3_memory_passes, zero3_live_parameters;
  int zero3_buffers;         /* FrameworkZero3Buffers */
  double gradient_sum_bytes; /* 0: as held */
  int gradient_sums;         /* FrameworkGradientSums */
  double gradient_add_bytes; /* 0: as held */
  double gradient_passes;    /* 0: none */
  int fp16_gradients;        /* FrameworkFp16Gradients */
  double buffer_passes;      /* 0: none */
  int gradient_scaling;      /* FrameworkGradientScaling */
  double norm_rate;          /* (0, 1]; 0: 1 */
  double strided_rate;       /* likewise */
  double attention_copies_forward, attention_copies_backward;
  double layer_norm_forward, layer_norm_backward; /* 0: as one kernel that moves nothing twice */
  int row_bias;                                   /* FrameworkRowBias */
  int recompute_end;                              /* FrameworkRecomputeEnd */
  int context;                                    /* FrameworkContext */
  int context_exchanges;                          /* FrameworkContextExchanges */
  int expert_overlap;                             /* FrameworkExpertOverlap */
  int expert_dispatch;                            /* ExpertDispatch of plan.h */
  int grace_expert_graphs;                        /* CudaGraphs of plan.h */
  int grace_mxfp8_step;                           /* FrameworkGraceStep */
  int expert_counts;                              /* FrameworkExpertCounts */
  int expert_operations;                          /* FrameworkExpertOperations */
  int expert_padding;                             /* FrameworkExpertPadding */
  int expert_format;                              /* FrameworkExpertFormat */
  int scales;                                     /* FrameworkScales */
  int expert_sms;                                 /* 0: as the cluster has it */
  FrameworkRates rates[N_ARCHITECTURES];
} FrameworkTime;

/* Fill *time from the mapping. INPUT, "file:line: …", for an unknown key, a value out of range, and a key beside a
 * value of another that it does not go with; one that a base has left beside a value of the file's own is dropped. */
gboolean framework_time_parse(YamlNode map, FrameworkTime *time, GError **error);
