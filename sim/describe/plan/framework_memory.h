/* What a training framework holds in memory beyond the tensors that all of them need: the mapping `memory` of
 * topologies/frameworks/<name>.yaml. All keys are optional; without them, as without a framework, nothing is added.
 *
 *     name: megatron-lm
 *     source: >-
 *       where the facts are from
 *     memory:
 *       recipe: megatron         # bytes per parameter when training in bf16 or narrower, unless a recipe is asked
 *                                # for by name
 *       logits: whole            # split (default): a tp rank has its columns of the logits; whole: every rank
 *                                # gathers them, and while backward runs also holds what is made of them and its own
 *                                # part; replicated: gathered, with neither of these left by then
 *       logit_bytes: 20          # per logit while the head's backward runs (default: 4 plus the gradient's element)
 *       vocabulary: as_is        # embedding and head have as many rows as the model has words; tp cuts them, and the
 *                                # last rank's part is smaller; padded (default): to a multiple of 128 × tp, as
 *                                # Megatron-LM's --make-vocab-size-divisible-by does. Affects time, too: odd sizes
 *                                # are slow
 *       vocabulary_gradients: dense  # gradients of embedding and head are made whole in the element format, then
 *                                # accumulated; fused (default): in place
 *       spare_gradients: kept    # one weight gradient per linear of a layer, in the element format, is held
 *                                # permanently; none (default)
 *       kernels: plain           # single operations: the gate's activation and a copy of attention's output are
 *                                # kept, and an unfused softmax in fp32; fused (default)
 *       norm_bytes: 6            # bytes that a norm keeps beyond its input, per element of it; net, if it does not
 *                                # keep all of its input (default 0). With plain kernels only RMSNorms keep them
 *       fragmentation: 1.5 GB    # held by the caching allocator in blocks too small to use (default 0)
 *       gathered: kept           # sequence parallelism: inputs of linears are kept as gathered; sharded (default).
 *                                # For time, they are gathered again for the weight gradient in either case, beside
 *                                # the input gradient
 *       selective: products      # selective recompute keeps attention's output and every other matrix product, like
 *                                # PyTorch's per-operation policy, and reruns the rest (which takes its time); core:
 *                                # recomputing core_attn reruns a flash kernel's forward, too, as Megatron Core
 *                                # checkpoints any kernel; scores (default): it reruns unfused attention only
 *       recompute_modules: layernorm+moe_act  # what selective recompute reruns if the plan names no modules, limited
 *                                # to modules the model has (recompute_modules.h; default core_attn)
 *       activation_input_bytes: 1  # per element of the input of the experts' activation, the shared expert's too, as
 *                                # kept for backward (default: the element format's)
 *       attention_output_bytes: 1.5  # per element of attention's output, kept once for both readers, the kernel's
 *                                # backward and the following weight gradient (default: in the format linears
 *                                # multiply in and, if that is narrower, in the element format as well)
 *
 * What lives for the whole step counts as `buffers`, the rest as `activations`. */
#pragma once
#include "recipe.h"
#include "recompute_modules.h"
#include "yaml_node.h"

typedef enum { LOGITS_SPLIT, LOGITS_WHOLE, LOGITS_REPLICATED } FrameworkLogits;
typedef enum { VOCABULARY_PADDED, VOCABULARY_AS_IS } FrameworkVocabulary;
typedef enum { VOCABULARY_GRADIENTS_FUSED, VOCABULARY_GRADIENTS_DENSE } VocabularyGradients;
typedef enum { SPARE_GRADIENTS_NONE, SPARE_GRADIENTS_KEPT } SpareGradients;
typedef enum { FRAMEWORK_KERNELS_FUSED, FRAMEWORK_KERNELS_PLAIN } FrameworkKernels;
typedef enum { GATHERED_SHARDED, GATHERED_KEPT } GatheredInputs;
typedef enum { SELECTIVE_SCORES, SELECTIVE_PRODUCTS, SELECTIVE_CORE } SelectiveRecompute;

/* Zeroed: a framework that adds nothing. Enums are kept as int, as yaml_map_read() stores them. */
typedef struct {
  char recipe[32];          /* a name for recipe_parse(); "": none */
  int logits;               /* FrameworkLogits */
  double logit_bytes;       /* 0: the default */
  int vocabulary;           /* FrameworkVocabulary */
  int vocabulary_gradients; /* VocabularyGradients */
  int spare_gradients;      /* SpareGradients */
  int kernels;              /* FrameworkKernels */
  double norm_bytes;
  double fragmentation_bytes;
  int gathered;                                          /* GatheredInputs */
  int selective;                                         /* SelectiveRecompute */
  guint recompute_modules;                               /* 0: core_attn */
  double activation_input_bytes, attention_output_bytes; /* 0: the default */
} FrameworkMemory;

/* Fill *memory from the mapping. INPUT, "file:line: …", for an unknown key, a value out of range, an unknown recipe
 * or module, and modules combined with "selective: products". */
gboolean framework_memory_parse(YamlNode map, FrameworkMemory *memory, GError **error);
