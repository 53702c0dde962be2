/* What a framework does differently, as values: the fields that the rows of quirks.c fill, and their choices. */
#pragma once
#include "gpu.h"

/* The choices of a key; the first is the default. */
typedef enum { LOGITS_SPLIT, LOGITS_WHOLE, LOGITS_REPLICATED } FrameworkLogits;
typedef enum { VOCABULARY_PADDED, VOCABULARY_AS_IS } FrameworkVocabulary;
typedef enum { VOCABULARY_GRADIENTS_FUSED, VOCABULARY_GRADIENTS_DENSE } VocabularyGradients;
typedef enum { SPARE_GRADIENTS_NONE, SPARE_GRADIENTS_KEPT } SpareGradients;
typedef enum { FRAMEWORK_KERNELS_FUSED, FRAMEWORK_KERNELS_PLAIN } FrameworkKernels;
typedef enum { GATHERED_SHARDED, GATHERED_KEPT } GatheredInputs;
typedef enum { SELECTIVE_SCORES, SELECTIVE_PRODUCTS, SELECTIVE_CORE } SelectiveRecompute;

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
  int gathered;
  int selective;
  double activation_input_bytes;
} FrameworkMemory;

typedef struct {
  double products;                              /* (0, 1]; 0: 1 */
  double weight_gradients;                      /* (0, 1]; 0: 1 */
  double attention_forward, attention_backward; /* (0, 1]; 0: the GPU file's */
} FrameworkRates;

/* Zeroed: no framework. A number of 0 is its default, as its row says. */
typedef struct {
  gboolean has_host; /* FALSE: the next six are unknown */
  double layer_forward_s, layer_again_s, layer_backward_s;
  double ends_forward_s, ends_backward_s;
  double collective_s;
  gboolean has_expert_host; /* FALSE: the next four are unknown */
  double expert_forward_s, expert_backward_s, expert_launch_s;
  double expert_collective_s;
  double step_s;
  double arrival_spread_s;
  int kernels; /* FrameworkKernels */
  int scaled_rotation;
  int loss;
  int sends, stage_tensors, overlap_p2p;
  int tensor_parallel;
  double tensor_parallel_hidden;
  int tensor_parallel_format, tensor_parallel_exchanges, tensor_parallel_input;
  int gate_linears, qkv_linears, input_gradient_sums;
  int data_parallel;
  int gradients, pipeline_gradients, accumulated_gradients;
  int expert_optimizer;
  int weights;
  gboolean zero3_tensors; /* FALSE: the next three are unknown */
  double zero3_list_entry_s, zero3_memory_passes, zero3_live_parameters;
  int zero3_buffers;
  double gradient_sum_bytes;
  int gradient_sums;
  double gradient_add_bytes;
  double gradient_passes;
  int fp16_gradients;
  double buffer_passes;
  int gradient_scaling;
  double norm_rate, strided_rate; /* (0, 1] */
  double attention_copies_forward, attention_copies_backward;
  double layer_norm_forward, layer_norm_backward;
  int row_bias;
  int recompute_end;
  int context, context_exchanges;
  int expert_overlap;
  int expert_dispatch;     /* ExpertDispatch of plan.h */
  int grace_expert_graphs; /* CudaGraphs of plan.h */
  int grace_mxfp8_step;
  int expert_counts, expert_operations, expert_padding, expert_format;
  int scales;
  FrameworkRates rates[N_ARCHITECTURES];
} FrameworkTime;
