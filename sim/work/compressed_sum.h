/* What compressed gradients of one sum over data-parallel ranks are, and what is sent instead (grad_compression.h).
 *
 *     n gradients of g bytes over N ranks      collectives, one after another: full buffers
 *
 *     fp16, bf16      all-reduce 2·n
 *     topk            k = ⌈share·n⌉ of each: all-gather N·k·g (values), all-gather N·k·4 (places)
 *     onebit          n rounded up to 8·N: all-to-all n/8, all-gather 4·N (scales); the same again as all-gathers
 *     powersgd        of matrices of a_i × b_i, with r_i = min(r, a_i, b_i): all-reduce g·(what is in no matrix),
 *                     all-reduce g·Σ r_i·a_i (P), all-reduce g·Σ r_i·b_i (Q) */
#pragma once
#include "collective.h"
#include "grad_compression.h"

/* Matrices that powersgd makes smaller. */
typedef struct {
  double elements;      /* a·b, summed, like the next two */
  double rows, columns; /* r·a, r·b */
  double n;
} LowRank;

typedef struct {
  double elements;  /* of all gradients */
  LowRank low_rank; /* zeroed but for powersgd */
} CompressedSum;

void low_rank_add(LowRank *sum, double n, double rows, double columns, int rank);
static inline void low_rank_add_times(LowRank *sum, double times, const LowRank *one) {
  sum->elements += times * one->elements;
  sum->rows += times * one->rows;
  sum->columns += times * one->columns;
  sum->n += times * one->n;
}

typedef struct {
  Collective collective;
  double bytes; /* full buffer */
} CompressedCall;
enum { MOST_COMPRESSED_CALLS = 4 };
/* Returns how many; those of no bytes are left out. `how` is not none. */
int compressed_calls(const GradCompression *how, const CompressedSum *sum, double gradient_bytes, int n_ranks,
                     CompressedCall calls[MOST_COMPRESSED_CALLS]);
/* Values of topk that a rank sends. */
double compressed_values(const GradCompression *how, double elements);
/* What a rank sends with bandwidth-optimal algorithms; of gradients as they are if `how` is none. */
double compressed_sent_bytes(const GradCompression *how, const CompressedSum *sum, double gradient_bytes, int n_ranks);
/* What a rank keeps from one step to the next: errors, and for powersgd P and Q. */
double compressed_state_bytes(const GradCompression *how, const CompressedSum *sum, double gradient_bytes, int n_ranks);
/* What a rank holds besides while it sums so many gradients at once. */
double compressed_buffer_bytes(const GradCompression *how, double elements, double gradient_bytes, int n_ranks);
