/* One sum of compressed gradients over data-parallel ranks (grad_compression.h), on the host and in fp32: a few parts,
 * each followed by at most one collective,
 *
 *     topk       choose │ all-gather values │ · │ all-gather places │ add
 *     onebit     signs │ all-to-all │ · │ all-gather scales │ sum own part, its signs │ all-gather │ · │ all-gather │ put
 *     powersgd   M·Q │ all-reduce vectors │ · │ all-reduce P │ Mᵀ·P │ all-reduce Q │ P·Qᵀ
 *
 * so that executors issue it in stream order, and a test runs all ranks in one process. What a rank has lost it adds to
 * its next gradients. Nothing is lost to all: summed over ranks,
 *
 *     what is summed + errors afterwards = gradients + errors before
 *
 * onebit pads gradients with zeros to whole words of each rank's part, as DeepSpeed's does, and sums by rank; powersgd
 * starts from the same random Q on every rank and goes on from the latest. */
#pragma once
#include "comm.h"
#include "grad_compression.h"

/* A matrix among the gradients, row by row. */
typedef struct {
  gint64 first, rows, columns;
} GradMatrix;

typedef struct GradCompressor GradCompressor;
/* `matrices`: of GradMatrix, ascending, only for powersgd; copied. `says_lost`: see grad_compressor_lost(). */
GradCompressor *grad_compressor_new(const GradCompression *how, gint64 n, const GArray *matrices, int n_ranks, int rank,
                                    gboolean says_lost);
void grad_compressor_free(GradCompressor *compressor);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(GradCompressor, grad_compressor_free)

/* [n]: this rank's gradients before the first part, all ranks' sum after the last. */
float *grad_compressor_values(GradCompressor *compressor);
int grad_compressor_n_parts(const GradCompressor *compressor);
void grad_compressor_run(GradCompressor *compressor, int part);
/* The collective after a part; FALSE: none. */
gboolean grad_compressor_call(const GradCompressor *compressor, int part, CollectiveSpec *spec);
/* [n]: of the latest sum, errors afterwards less those before, of this rank; summed over ranks, what the result lacks
 * of the sum of gradients. NULL unless asked for. */
float *grad_compressor_lost(GradCompressor *compressor);
