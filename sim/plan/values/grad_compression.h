/* How gradients are made smaller before data-parallel ranks sum them, with what is lost added to the next step's (error
 * feedback):
 *
 *     fp16, bf16    summed in 16 bits; no error feedback (PyTorch's fp16_compress_hook)
 *     topk:0.01     each rank sends the hundredth of its values that are largest, and their places; all ranks gather
 *                   these (Lin et al., Deep Gradient Compression, arXiv 1712.01887, without its momentum correction)
 *     onebit        signs and one scale: an all-to-all in which each rank sums a part, and an all-gather of the sums'
 *                   signs (1-bit Adam, arXiv 2102.02888; DeepSpeed's compressed_allreduce)
 *     powersgd:4    of each matrix M a product P·Qᵀ of that rank: P = M·Q is summed and orthogonalized, then Q = Mᵀ·P is
 *                   summed; vectors are summed as they are (arXiv 1905.13727; PyTorch's powerSGD_hook with
 *                   min_compression_rate 0) */
#pragma once
#include <glib.h>

typedef enum {
  COMPRESS_NONE,
  COMPRESS_FP16,
  COMPRESS_BF16,
  COMPRESS_TOPK,
  COMPRESS_ONEBIT,
  COMPRESS_POWERSGD,
  N_COMPRESSIONS
} CompressionKind;

typedef struct {
  int kind;     /* CompressionKind */
  int rank;     /* of powersgd */
  double share; /* of topk: from 0 to 1 */
} GradCompression;

/* Sums what it made smaller instead of the gradients themselves: topk, onebit and powersgd. */
static inline gboolean compression_is_lossy(const GradCompression *how) {
  return how->kind >= COMPRESS_TOPK;
}
static inline gboolean compression_is_half(const GradCompression *how) {
  return how->kind == COMPRESS_FP16 || how->kind == COMPRESS_BF16;
}

/* As above, or "none". INPUT. */
gboolean grad_compression_parse(const char *what, const char *text, GradCompression *how, GError **error);
/* Static. */
const char *grad_compression_text(const GradCompression *how);
