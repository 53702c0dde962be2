/* The smallest unit an executor runs: one kernel, or one tensor-, context- or expert-parallel collective inside a
 * layer. */
#pragma once
#include "collective.h"
#include "precision.h"

typedef enum {
  ITEM_MATMUL,     /* C(m,n) = A(m,k) · B(k,n), `batch` times: heads, or a rank's experts, in one launch */
  ITEM_ATTENTION,  /* fused (flash) attention, forward or backward */
  ITEM_MEMORY,     /* a memory-bound kernel: norm, activation, residual, softmax, loss, optimizer … */
  ITEM_COLLECTIVE, /* over the tensor-, context- or expert-parallel group */
} ItemKind;

/* Operand layouts as BLAS spells them: forward TN, input gradient NN, weight gradient NT. */
typedef enum { LAYOUT_TN, LAYOUT_NN, LAYOUT_NT } MatmulLayout;

typedef struct {
  const char *name;    /* static: "qkv", "attention", "mlp_up", "norm" … */
  gint32 n_launches;   /* MEMORY: number of kernels that this item stands for; MATMUL: of launches that issuing it
                          takes as long as; 0: 1 */
  guint8 kind;         /* ItemKind */
  guint8 number;       /* Number the matrix unit multiplies in (MATMUL, ATTENTION) */
  guint8 layout;       /* MatmulLayout */
  guint8 aligned;      /* MATMUL: rows of the operands start at multiples of so many bytes, as was measured; 0: as their
                          lengths say */
  guint8 accumulate;   /* MATMUL: C += (weight gradient into the main gradient) */
  guint8 backward;     /* ATTENTION: the backward kernel */
  guint8 is_plain;     /* MEMORY: an RMSNorm made of single operations, some of which do not reach the HBM's rate */
  guint8 windowed;     /* ATTENTION: keys before a window are skipped; the FLOPs tell how many pairs there are */
  guint8 recompute;    /* forward work done again in backward */
  guint8 mtp;          /* the number, from 1, of the head predicting further tokens (MTP) that it belongs to; 0:
                          none */
  guint8 collective;   /* COLLECTIVE: Collective; a SEND_RECV is one step of a ring: S from each member to the next */
  guint8 axis;         /* COLLECTIVE: its group and stream: AXIS_TP, AXIS_CP or AXIS_EP */
  guint8 counted;      /* COLLECTIVE: sends tokens to the experts that were chosen just before */
  guint8 spans_tp;     /* COLLECTIVE of ep: its group includes the ranks of tp */
  guint8 is_inside;    /* MEMORY: issued inside the module of the item after it, without one of its own */
  guint8 host_waits;   /* not COLLECTIVE: the host waits for everything before this item before issuing it */
  const char *operand; /* COLLECTIVE: static name of the kernel whose result it sums or whose operand it gathers */
  gint32 after; /* index in the same list of an item on another stream (compute ↔ tp, cp, ep; a collective may wait
                   for one of another axis) that must have ended; −1 none */
  gint32 v_dim; /* ATTENTION: columns of a head of V if not k, which is that of Q and K; 0: k */
  gint64 batch, m, n, k; /* MATMUL */
  double flops;          /* exact, of this GPU: matmul 2·batch·m·n·k; attention causal (about half of full) */
  double bytes;          /* HBM traffic of the kernel; COLLECTIVE: the full buffer S in bytes */
  double result_bytes;   /* part of `bytes`: an accumulated result, read and written; MATMUL, else 0 */
  double strided_bytes;  /* part of `bytes`: operations on parts of rows, or that broadcast an operand; MEMORY, else
                            0 */
  double behind_bytes;   /* not in `bytes`: kernels that run before or after it and copy, add a bias or add to a sum;
                            COLLECTIVE: 0 */
} WorkItem;

/* ATTENTION: columns of a head of V. */
static inline gint64 work_item_v_dim(const WorkItem *item) {
  return item->v_dim > 0 ? item->v_dim : item->k;
}
