/* What each file of this folder implements, by item name. Private to it. */
#pragma once
#include "trainer.h"

typedef struct {
  const char *name;
  ItemFunction run;
  int argument;
} ItemKernel;
extern const ItemKernel layer_kernels[], attention_kernels[], expert_kernels[], gathered_kernels[], dropout_kernels[],
    end_kernels[]; /* end with a NULL name */
extern const ItemKernel mtp_kernels[];
extern const ItemKernel latent_kernels[]; /* take precedence over kernels of the same name in latent attention */
extern const ItemKernel tp_collectives[], latent_collectives[], mtp_collectives[], expert_collectives[],
    gathered_collectives[], context_collectives[]; /* by operand */
/* Where cp cuts sequences; they take precedence over kernels of the same name. */
const ItemKernel *context_kernels(const Plan *plan);
