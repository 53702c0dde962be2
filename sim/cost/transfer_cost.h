/* What a transfer of a Program costs. A folded run stands for all ranks of a stage, so it takes as long as the
 * worst-placed of them (worst_placement.h). */
#pragma once
#include "compression_cost.h"
#include "program.h"
#include "site.h"

/* What a transfer is besides its bytes. */
typedef struct TransferKind TransferKind;

typedef struct {
  OpTime time;
  WayLoad load;
  double tax;
  gint64 kernels_ns;       /* part of its time, of what makes gradients smaller and back */
  double taken_s;          /* what it takes of the ways of tp's collectives, in seconds of a whole way */
  guint server_route;      /* of a transfer that shares servers with those of other ranks; 0: it does not */
  gboolean is_of_tp_alone; /* a collective of tp without pp */
} TransferCost;

/* [transfers of the program]; valid, like the next, as what costs_at() returns. */
TransferKind *const *transfer_kinds(Costs *costs, const Site *site, const Program *program);
/* gathered_bytes ≥ 0: a send's are parts, which the ranks of tp gather after it. */
const TransferCost *transfer_cost(Costs *costs, TransferKind *kind, double bytes, double gathered_bytes);
/* Of a sum of compressed gradients. */
const TransferCost *transfer_compressed_cost(Costs *costs, TransferKind *kind, const Compressed *compressed);
