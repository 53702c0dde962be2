/* What a training framework holds in memory besides the tensors that every one of them needs: the mapping `memory` of
 * topologies/frameworks/<name>.yaml. All keys are optional; without them, as without a framework, nothing is added.
 *
 *     name: megatron-lm
 *     source: >-
 *       where the facts are from
 *     memory:
 *       recipe: megatron      # bytes per parameter of training in bf16 or narrower, where none is asked for by name
 *       logits: whole         # split (default): a rank of tp has its columns of them; whole: gathered on every rank,
 *                             # what came of each and its own are there too while backward runs; replicated: gathered,
 *                             # and nothing else is there by then
 *       logit_bytes: 20       # per logit while the head's backward runs (default: 4, and the gradient's element)
 *       vocabulary: as_is     # embedding and head have as many rows as the model has words, which tp cuts, the last
 *                             # rank's part the smaller; padded (default): to a multiple of 128 x tp, as
 *                             # Megatron-LM's --make-vocab-size-divisible-by does. Time too: odd sizes are slow
 *       vocabulary_gradients: dense  # of embedding and head: made whole in the element format, then accumulated;
 *                                    # fused (default): in place
 *       spare_gradients: kept # one weight gradient for each linear of a layer, in the element format, for good; none
 *       kernels: plain        # one operation each: the gate's activation and a copy of attention's output are kept, an
 *                             # unfused softmax in fp32 too; fused (default)
 *       norm_bytes: 6         # per element that a norm reads, which it keeps besides its input, less what of that it
 *                             # does not keep (default 0); under plain kernels of an RMSNorm of theirs alone
 *       fragmentation: 1.5 GB # held by the caching allocator in blocks that nothing fits (default 0)
 *       gathered: kept        # sequence parallelism: inputs of linears are kept as gathered; sharded (default). Time
 *                             # has them gathered again for the weight gradient either way, beside the input gradient
 *       selective: products   # selective recompute keeps attention's output and every other product of matrices, as
 *                             # PyTorch's per-operation policy does, and makes the rest again (which takes its time);
 *                             # core: a core_attn made again is the forward of a flash kernel too, as Megatron Core
 *                             # checkpoints whatever kernel it has; scores (default): of an unfused one alone
 *       recompute_modules: layernorm+moe_act  # what selective recompute makes again where a plan names no modules,
 *                             # of these what the model has (recompute_modules.h; default core_attn)
 *       activation_input_bytes: 1     # per element of the input of the experts' activation, shared one's too, as it is
 *                             # kept for backward (default: the element format's)
 *       attention_output_bytes: 1.5   # per element of attention's output, kept once: the kernel's backward and the
 *                             # weight gradient behind it read the same (default: in the format that linears multiply
 *                             # in, and where that is narrower in the element format too)
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
  double logit_bytes;       /* 0: as every framework needs */
  int vocabulary;           /* FrameworkVocabulary */
  int vocabulary_gradients; /* VocabularyGradients */
  int spare_gradients;      /* SpareGradients */
  int kernels;              /* FrameworkKernels */
  double norm_bytes;
  double fragmentation_bytes;
  int gathered;                                          /* GatheredInputs */
  int selective;                                         /* SelectiveRecompute */
  guint recompute_modules;                               /* 0: core_attn */
  double activation_input_bytes, attention_output_bytes; /* 0: as every framework has it */
} FrameworkMemory;

/* Fill *memory from the mapping. INPUT, "file:line: …", for an unknown key, a value out of range, an unknown recipe or
 * module, and modules beside "selective: products". */
gboolean framework_memory_parse(YamlNode map, FrameworkMemory *memory, GError **error);
