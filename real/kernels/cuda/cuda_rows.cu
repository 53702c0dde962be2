/* All kernels but fused attention as one translation unit: for most of them nvcc spends longer reading their includes
 * than compiling them. */
#include "cuda_blocks.cu"
#include "cuda_dropout.cu"
#include "cuda_experts.cu"
#include "cuda_lookup.cu"
#include "cuda_narrow.cu"
#include "cuda_norm.cu"
#include "cuda_optimizer.cu"
#include "cuda_pointwise.cu"
#include "cuda_rotary.cu"
#include "cuda_softmax.cu"
