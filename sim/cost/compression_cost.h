/* Time of a sum of compressed gradients over data-parallel ranks: kernels and collectives in turn, one after another as
 * a hook of PyTorch's DDP chains them, beside backward. The kernels take the GPU from backward's meanwhile, which is
 * the sum's tax (engine/tax.h). They are single operations of PyTorch on n gradients of g bytes, k chosen values, all
 * bound by memory or by being launched:
 *
 *     fp16, bf16  before  to 16 bits: reads g·n, writes 2·n       after  the reverse
 *     topk        before  the error added (3·g·n), its magnitude (2·g·n), PyTorch's radix selection (a read of g·n for
 *                         each 8 bits, one more to gather: aten/src/ATen/native/cuda/TensorTopK.cu), the k values
 *                         and places written, and their errors zeroed
 *                 after   zeros (g·n), N·k values added at their places
 *     onebit      the operations of DeepSpeed's compressed_allreduce (runtime/comm/nccl.py at 84be8319), in fp32: before
 *                 102.4·n bytes in 16, between 34·n + 4·n/N in 8 on what all ranks send this one, then 102.1·n/N in 15
 *                 on their sum, after 38.4·n in 7
 *     powersgd    those of torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py at 00c22ce5, with c ≤ n the
 *                 elements of matrices: before: the error added (3·g·n), a copy (2·g·n), vectors gathered (2·g·(n − c)), each Q
 *                 orthogonalized, each M·Q (reads c); between: each P orthogonalized, each Mᵀ·P; after: each P·Qᵀ
 *                 (writes c), the new error (3·g·n). A matrix with r columns is orthogonalized by Gram-Schmidt in
 *                 6·r − 4 operations; products are also no faster than their 2·r·c FLOPs at the peak. */
#pragma once
#include "compressed_sum.h"
#include "site.h"

/* Of one sum; zeroed: not compressed. All of it decides its cost. */
typedef struct {
  GradCompression how;
  CompressedSum sum;
  double gradient_bytes;
} Compressed;

typedef struct {
  OpTime time;
  gint64 kernels_ns; /* part of its run_ns */
  gint64 latency_ns; /* of the collectives */
  double tax;        /* of the collectives themselves, on average over these */
} CompressionCost;

CompressionCost compression_cost(Costs *costs, const Site *site, const GroupShape *shape, const Compressed *compressed);
