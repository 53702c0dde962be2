/* How a training framework spends time beyond the arithmetic that all of them need: the mapping `time` of
 * topologies/frameworks/<name>.yaml. All keys are optional. Without them, as without a framework, each kernel is
 * issued in the GPU file's host_launch and runs at its rates.
 *
 *     time:
 *       host:                        # CPU time to issue
 *         layer: {forward: 1.2 ms, again: 1.1 ms, backward: 0.9 ms}  # a layer's kernels; again: recomputed
 *         ends: {forward: 2 ms, backward: 0.6 ms}  # those of the embedding, and of head and loss
 *         collective: 17 us          # one tp collective
 *       expert_host: {forward: 230 us, backward: 120 us, launch: 5 us}  # each kernel of a layer with experts,
 *                                    # instead of host's layer, on a host that issues a kernel in `launch`; scaled
 *                                    # for a GPU file with another host_launch. collective: 65 us: each collective of
 *                                    # such a layer, scaled likewise (default: host's collective, or one kernel's
 *                                    # host_launch)
 *       step: 10 ms                  # CPU time between the end of a step and the start of the next: loss, logging,
 *                                    # next batch (default: none)
 *       arrival_spread: 45 us        # standard deviation of the times at which a group's ranks arrive at a
 *                                    # collective
 *       kernels: plain               # RMSNorm, rotation and gate run as single operations; fused (default)
 *       attention_copies: {forward: 17, backward: 21}  # times that a tensor as wide as the queries is read or
 *                                    # written around a fused attention kernel, to bring queries, keys and values,
 *                                    # and their gradients, into its layout and back (default: none)
 *       norm_rate: 0.77              # plain kernels: share of the HBM rate that an RMSNorm's operations reach
 *                                    # (default 1)
 *       scaled_rotation: single      # a rotation of q and k whose cosine and sine are multiplied by a factor
 *                                    # (YaRN's) runs as single PyTorch operations; fused (default): in the kernel of
 *                                    # every other rotation
 *       layer_norm: {forward: 3.25, backward: 10.4}  # time of a LayerNorm, in reads or writes of its input (default:
 *                                    # the minimum, 2 and 3)
 *       row_bias: apart              # a kernel of its own adds the bias of a row-parallel linear; residual
 *                                    # (default): the kernel that adds the residual does
 *       strided_rate: 0.37           # share of the HBM rate reached by PyTorch operations that read or write parts
 *                                    # of rows, or broadcast an operand: those of scaled_rotation and
 *                                    # expert_operations, not of plain kernels (default 1)
 *       loss: fused                  # cross-entropy reads the logits twice in their own format and overwrites them
 *                                    # with their gradient; plain (default): single operations in fp32
 *       sends: synchronous           # in 1f1b and interleaved without overlapped sends, the host waits for what a
 *                                    # stage exchanges before it issues more; otherwise, and in other schedules,
 *                                    # streams wait
 *       stage_tensors: split         # without sequence parallelism, each tp rank sends its part of the tensor that
 *                                    # all of them hold to the next stage, whose ranks gather the whole before they
 *                                    # go on; whole (default): each sends all of it to its peer
 *       overlap_p2p: chunks          # a stage computes while it sends: always, only with several chunks (chunks), or
 *                                    # as the schedule does (default: schedule)
 *       tensor_parallel: alone       # the reduction of an input gradient overlaps with the weight gradient (default:
 *                                    # beside), with nothing (alone), or in pieces with the product it belongs to
 *                                    # (fused)
 *       tensor_parallel_hidden: 0.85 # fused: share of a collective that overlaps with its product
 *       tensor_parallel_format: linear  # under sequence parallelism a rank first converts its tokens, or their
 *                                    # gradients, which are then gathered in the format their products multiply in;
 *                                    # sums stay in the activations' format; element (default): so do gathers
 *       gate_linears: apart          # the gate and its companion are two linears: each makes an input gradient,
 *                                    # which are then added; without sequence parallelism tp sums both, counted as
 *                                    # one sum of twice the bytes; together (default): one product
 *       qkv_linears: apart           # the same for queries, keys and values: three linears
 *       tensor_parallel_exchanges: each  # with either or both of the two keys above, under sequence parallelism:
 *                                    # each separate linear gathers its own input and reduces its own input gradient;
 *                                    # once (default): one exchange for all of them
 *       input_gradient_sums: fused   # these input gradients are added by whatever reads the sum or, under sequence
 *                                    # parallelism, by one kernel before the tp collective; apart (default): by
 *                                    # kernels that add two at a time
 *       tensor_parallel_input: copied  # without sequence parallelism a column-parallel linear reads a copy of its
 *                                    # input made for it and, in backward, a row-parallel one a copy of its output's
 *                                    # gradient; shared (default): no copies
 *       data_parallel: alone         # dp collectives overlap with nothing, whatever the plan asks for (default:
 *                                    # beside)
 *       gradients: whole             # ZeRO-1: each rank receives the whole sum and keeps its part; sharded
 *                                    # (default): it receives its part only
 *       pipeline_gradients: whole    # ZeRO-2 and 3 in a pipeline: each rank accumulates whole gradients over all
 *                                    # micro-batches, as wide as they are summed over dp, and dp sums them once,
 *                                    # after the stage's last backward; refused with an offloaded optimizer, ignored
 *                                    # in bidirectional pipelines; sharded (default): dp sums after every micro-batch
 *       accumulated_gradients: whole # the same without a pipeline, over several micro-batches; the part that
 *                                    # overlaps with the last backward is not modelled
 *       expert_optimizer: apart      # ZeRO-1 and 2 under ep: experts have their own optimizer, and if parameters are
 *                                    # gathered after the update, each of the two optimizers gathers all of them:
 *                                    # twice in all; together (default): once
 *       weights: broadcast           # ZeRO-1: each matrix belongs wholly to one rank; ranks broadcast theirs after
 *                                    # updating, which overlaps with nothing, whatever the plan asks for; gathered
 *                                    # (default): each rank has an equal part of all, gathered together
 *       zero3_tensors:               # ZeRO-3 moves each matrix, and its gradient, in its own collective, built from
 *                                    # a list with a tensor per rank; the host waits for all issued work before each
 *                                    # gather (default: one collective per layer)
 *         list_entry: 30 us          # CPU time per tensor of such a list
 *         memory_passes: 4           # additional reads or writes of the moved data
 *         live_parameters: 1e9       # a layer with more parameters is not prefetched, and what its recomputation
 *                                    # gathered is gathered again for its backward
 *       zero3_buffers: copied        # ZeRO-3: parameters are copied out of the gather's buffer before use, and
 *                                    # gradients into the reduction's buffer in its format, in every micro-batch,
 *                                    # also where they are reduced once a step; neither copy overlaps;
 *                                    # shared (default): collectives fill and read the tensors themselves
 *       gradient_sum_bytes: 4        # bytes per parameter in which bf16 training sums gradients (default: as held)
 *       gradient_sums: apart         # a weight gradient is written, then a separate kernel adds it to the sum over
 *                                    # earlier micro-batches; fused (default): the product itself accumulates
 *       gradient_add_bytes: 10       # bf16 training, gradient_sums apart: bytes per parameter and micro-batch that
 *                                    # this kernel reads and writes, 10 with fp32 sums (default: from the formats
 *                                    # gradients are held in)
 *       gradient_passes: 3           # times that gradients are read or written between the last backward and Adam,
 *                                    # for norm and clipping; Adam's own read comes on top (default: none, unknown);
 *                                    # ignored with an offloaded optimizer, whose rate covers all it does
 *       fp16_gradients: copied       # fp16 with an fp32 master copy: 16-bit gradients are copied to fp32 and
 *                                    # unscaled there; norm, clipping and Adam read the copies, which take memory
 *                                    # until Adam is done; as_held (default): they read the gradients as held
 *       buffer_passes: 2             # ZeRO-0 and 1: times per step that the gradients of all of a rank's parameters,
 *                                    # sharded or not, are read or written before they are summed over dp: zeroed,
 *                                    # searched for NaNs (default: none). This key and the next are ignored with an
 *                                    # offloaded optimizer, like gradient_passes
 *       gradient_scaling: apart      # ZeRO-0 and 1: a rank divides its gradients by the number of dp ranks before
 *                                    # they are summed, a read and a write; summed (default): part of the sum
 *       recompute_end: needed        # full recompute stops after the last tensor that backward reads: in a dense
 *                                    # layer without dropout or norms after its branches, before the MLP's last
 *                                    # product, whose result is not read again; whole (default): it reruns the whole
 *                                    # layer
 *       context: blocks              # cp ring: keys and values of all heads are gathered whole and attended to block
 *                                    # by block, their gradients passed on; outputs and gradients are summed in fp32;
 *                                    # passed (default): as in Transformer Engine's ring
 *       context_exchanges: alone     # context blocks: exchanges overlap with nothing; beside (default): with a
 *                                    # block's attention
 *       expert_overlap: rounds       # in rounds of the interleaved schedule, and on a single pipeline rank, forward
 *                                    # and backward take turns at exchanges with experts unless the plan says
 *                                    # otherwise (default: only if the schedule pairs them)
 *       expert_dispatch: deepep      # a token is sent once to each expert (default: all_to_all), once to each node
 *                                    # and rank with some of its experts (deepep), or to all ranks (all_gather)
 *       grace_expert_graphs: attention  # on GPUs with a Grace host: what is replayed as a graph in layers with
 *                                    # experts unless the plan says otherwise (none, the default, router or
 *                                    # attention, as for --cuda-graphs)
 *       grace_mxfp8_step: replayed   # on such GPUs, in mxfp8, with ep > 1 and no recomputation, the step is replayed
 *                                    # as one graph and, in rounds (see expert_overlap), hides exchanges with
 *                                    # experts, unless the plan says otherwise; launched (default): as the two keys
 *                                    # above say
 *       expert_counts: host          # the host reads how many tokens each expert gets before they are sent, or
 *                                    # selected from all gathered ones, and issues nothing until routing is done;
 *                                    # device (default): it keeps issuing
 *       expert_operations: single    # PyTorch operations clamp an expert's gate, where the host waits for all issued
 *                                    # work, add the biases of its last product, expert by expert, and make the
 *                                    # gradients of the routing weights; rows are converted to narrow formats expert
 *                                    # by expert; fused (default, and in graphs of the whole step): all this is part
 *                                    # of neighbouring kernels, for all experts at once
 *       expert_padding: copied       # below 16 bits, rows received by an all-to-all are copied to tensors padded per
 *                                    # expert as its products need, and back; none (default): they arrive padded
 *       expert_format: linear        # tokens, or gradients, are converted before they go to experts and travel in
 *                                    # the format the experts multiply in; they return in the activations' format, as
 *                                    # both ways by default (element)
 *       scales: blocks               # fp8 has a scale per block of a tensor, found during conversion; tensor
 *                                    # (default): one for the whole tensor, after a pass to find its largest element
 *       expert_sms: 20               # SMs that move tokens to experts and back; kernels beside them have the others
 *                                    # (default: as the cluster's transfer_tax says)
 *       rates:                       # by GPU generation: what its libraries reach
 *         hopper: {products: 0.8, weight_gradients: 0.9, attention_forward: 0.35, attention_backward: 0.3}
 *
 * products: a share of the GPU file's rate. weight_gradients: a further share of that for weight gradients whose
 * operands have fewer than 16 bits. attention_…: shares of the peak, which replace the GPU file's and have no ramp;
 * they are multiplied by its of_generation if it has one. */
#pragma once
#include "framework_memory.h"
#include "gpu.h"
#include "yaml_node.h"

/* One enum per key; the first member is the default. */
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
  gboolean has_host; /* FALSE: the next six are unknown */
  double layer_forward_s, layer_again_s, layer_backward_s;
  double ends_forward_s, ends_backward_s;
  double collective_s;
  gboolean has_expert_host; /* FALSE: the next three are unknown */
  double expert_forward_s, expert_backward_s, expert_launch_s;
  double expert_collective_s; /* 0: host's collective, or one kernel's host_launch */
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
  gboolean zero3_tensors;        /* FALSE: the next three are unknown */
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
  double layer_norm_forward, layer_norm_backward; /* 0: the default, 2 and 3 */
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

/* Fill *time from the mapping. INPUT, "file:line: …", for an unknown key, a value out of range, and a key that does
 * not go with another key's value. If the clashing key comes from a base and the value from the file itself, the key
 * is dropped instead. */
gboolean framework_time_parse(YamlNode map, FrameworkTime *time, GError **error);
