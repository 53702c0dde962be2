/* What a framework does differently, as values: the fields that the rows of quirks.c fill, and their choices. */
#pragma once
#include "gpu.h"

/* The choices of a key; the first is the default. */
typedef enum { LOGITS_SPLIT, LOGITS_WHOLE, LOGITS_REPLICATED } FrameworkLogits;
typedef enum { VOCABULARY_PADDED, VOCABULARY_AS_IS } FrameworkVocabulary;
typedef enum { VOCABULARY_GRADIENTS_FUSED, VOCABULARY_GRADIENTS_DENSE } VocabularyGradients;
typedef enum { SPARE_GRADIENTS_NONE, SPARE_GRADIENTS_KEPT } SpareGradients;
typedef enum { OPTIMIZER_FUSED, OPTIMIZER_LISTS } FrameworkOptimizer;
typedef enum { WORD_TABLE_GATHERED, WORD_TABLE_KEPT } FrameworkWordTable;
typedef enum { FRAMEWORK_KERNELS_FUSED, FRAMEWORK_KERNELS_PLAIN } FrameworkKernels;
typedef enum { GATHERED_SHARDED, GATHERED_KEPT } GatheredInputs;
typedef enum { SELECTIVE_SCORES, SELECTIVE_PRODUCTS, SELECTIVE_CORE } SelectiveRecompute;

typedef enum { LOSS_VOCABULARY_PARALLEL, LOSS_PLAIN, LOSS_FUSED, LOSS_CHUNKED, N_LOSSES } FrameworkLoss;
typedef enum { ROTATION_FUSED, ROTATION_SINGLE } FrameworkRotation;
typedef enum { SENDS_ON_STREAMS, SENDS_SYNCHRONOUS } FrameworkSends;
typedef enum { STAGE_TENSORS_WHOLE, STAGE_TENSORS_SPLIT } FrameworkStageTensors;
typedef enum { P2P_OF_SCHEDULE, P2P_ALWAYS, P2P_CHUNKS } FrameworkP2P;
typedef enum { TP_BESIDE, TP_ALONE, TP_FUSED } FrameworkReduction;
typedef enum { TP_FORMAT_ELEMENT, TP_FORMAT_LINEAR } FrameworkTensorParallelFormat;
typedef enum { TP_EXCHANGES_ONCE, TP_EXCHANGES_EACH } FrameworkTensorParallelExchanges;
typedef enum { LINEARS_TOGETHER, LINEARS_APART } FrameworkLinears;
typedef enum { INPUT_GRADIENT_SUMS_APART, INPUT_GRADIENT_SUMS_FUSED } FrameworkInputGradientSums;
typedef enum { TP_INPUT_SHARED, TP_INPUT_COPIED } FrameworkTensorParallelInput;
typedef enum { ROW_BIAS_WITH_RESIDUAL, ROW_BIAS_APART } FrameworkRowBias;
typedef enum { DP_BESIDE, DP_ALONE, DP_SHARDS_BESIDE } FrameworkDataParallel;
typedef enum { GRADIENTS_SHARDED, GRADIENTS_WHOLE } FrameworkGradients;
typedef enum { GRADIENT_SCALING_SUMMED, GRADIENT_SCALING_APART } FrameworkGradientScaling;
typedef enum { PIPELINE_GRADIENTS_SHARDED, PIPELINE_GRADIENTS_WHOLE } FrameworkPipelineGradients;
typedef enum { ACCUMULATED_GRADIENTS_SHARDED, ACCUMULATED_GRADIENTS_WHOLE } FrameworkAccumulatedGradients;
typedef enum { EXPERT_OPTIMIZER_TOGETHER, EXPERT_OPTIMIZER_APART } FrameworkExpertOptimizer;
typedef enum { WEIGHTS_GATHERED, WEIGHTS_BROADCAST } FrameworkWeights;
typedef enum { VECTORS_SHARDED, VECTORS_KEPT } FrameworkVectors;
typedef enum { ZERO3_BUFFERS_SHARED, ZERO3_BUFFERS_COPIED, ZERO3_BUFFERS_OF_GRADIENTS } FrameworkZero3Buffers;
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
typedef enum { EXPERT_PRODUCTS_TOGETHER, EXPERT_PRODUCTS_APART } FrameworkExpertProducts;
typedef enum { EXPERT_CONVERSIONS_ONCE, EXPERT_CONVERSIONS_EACH } FrameworkExpertConversions;
typedef enum { EXPERT_PADDING_NONE, EXPERT_PADDING_COPIED, EXPERT_PADDING_ALWAYS } FrameworkExpertPadding;
typedef enum { SCALES_TENSOR, SCALES_BLOCKS } FrameworkScales;

/* Zeroed: a framework that adds nothing. Choices are kept as int. */
typedef struct {
  char recipe[32]; /* a name for recipe_parse(); "": none */
  int logits;
  double logit_bytes;
  int vocabulary, vocabulary_gradients;
  int spare_gradients;
  int kernels; /* FrameworkKernels */
  double norm_bytes;
  double fragmentation_bytes;
  double bucket_bytes;
  int optimizer, word_table;
  int gathered;
  int selective;
  double activation_input_bytes;
} FrameworkMemory;

typedef struct {
  double products;                              /* (0, 1]; 0: 1 */
  double weight_gradients;                      /* (0, 1]; 0: 1 */
  double attention_forward, attention_backward; /* (0, 1]; 0: the GPU file's */
} FrameworkRates;

/* CPU time to issue the kernels of a layer, of the embedding or head, and a tp collective; and what ZeRO-3 adds to each
 * pass over a layer. */
typedef struct {
  gboolean is_stated; /* FALSE: all of it is unknown */
  double layer_forward_s, layer_again_s, layer_backward_s;
  double ends_forward_s, ends_backward_s;
  double collective_s;
  double zero3_s;
} FrameworkHost;

/* The same for each kernel and collective of a layer with experts, by a host that issues one kernel in launch_s. */
typedef struct {
  gboolean is_stated;
  double forward_s, backward_s, launch_s;
  double collective_s; /* 0: as in other layers */
} FrameworkExpertHost;

/* Collectives of tp. */
typedef struct {
  int reduction; /* FrameworkReduction */
  double hidden; /* with TP_FUSED */
  int format, exchanges, input;
} FrameworkTensorParallel;

/* Linears that read the same input: one product, or several whose input gradients are summed. */
typedef struct {
  int gate, qkv; /* FrameworkLinears */
  int input_gradient_sums;
} FrameworkSplitLinears;

/* How ZeRO-3 moves parameters and gradients. */
typedef struct {
  gboolean moves_tensors; /* in collectives of their own; FALSE: all but `buffers` are unknown */
  double list_entry_s, memory_passes, live_parameters;
  double reduction_passes;             /* 0: memory_passes */
  double gather_bucket, reduce_bucket; /* parameters; 0: each matrix apart */
  int vectors;                         /* FrameworkVectors */
  int buffers;
} FrameworkZero3;

/* Reads or writes of a tensor; 0: the default. */
typedef struct {
  double forward, backward;
} FrameworkPasses;

/* Zeroed: no framework. A number of 0 is its default, as its row says. */
typedef struct {
  FrameworkHost host;
  FrameworkExpertHost expert_host;
  double collective_member_s; /* of the host, for each rank of a collective of tp; of a cluster's runs (as_run.h), there
                                 is no key */
  double step_s;
  double arrival_spread_s;
  int kernels; /* FrameworkKernels */
  int scaled_rotation;
  int loss;
  int sends, stage_tensors, overlap_p2p;
  FrameworkTensorParallel tensor_parallel;
  FrameworkSplitLinears linears;
  int data_parallel;
  int gradients, pipeline_gradients, accumulated_gradients;
  int expert_optimizer;
  int weights;
  FrameworkZero3 zero3;
  double gradient_sum_bytes;
  int gradient_sums;
  double gradient_add_bytes;
  double gradient_passes;
  int fp16_gradients;
  double buffer_passes;
  int gradient_scaling;
  double norm_rate, strided_rate; /* (0, 1] */
  double permutation_rate;        /* (0, 1]; 0: permuted by kernels of their own */
  FrameworkPasses attention_copies, layer_norm;
  int row_bias;
  int recompute_end;
  int context, context_exchanges;
  int expert_overlap;
  int expert_dispatch;     /* ExpertDispatch of plan.h */
  int grace_expert_graphs; /* CudaGraphs of plan.h */
  int grace_mxfp8_step;
  int expert_counts, expert_operations, expert_products, expert_conversions, expert_padding, expert_format;
  int scales;
  FrameworkRates rates[N_ARCHITECTURES];
} FrameworkTime;
