/* What selective recompute reruns in backward, by Megatron-Core's names for the parts of a layer
 * (transformer_config.py, recompute_modules, core v0.13 to v0.15, 2025):
 *
 *     core_attn       unfused attention's scores (arXiv 2205.05198 §5); a flash kernel makes them again in any case,
 *                     and is itself run again where the framework says "selective: core" (quirks.c)
 *     layernorm       both norms of the residual stream
 *     mla_up_proj     of latent attention: norms, up projections and rotation, from what the down projections made
 *     moe_act         the experts' activation
 *     shared_experts  the shared expert's MLP
 *     mlp             the MLP of layers without experts
 *     moe             router, exchanges, experts and shared expert
 *
 * A text names one or more, separated by "," or "+" (where commas already separate something else). */
#pragma once
#include <glib.h>

typedef enum {
  MODULE_CORE_ATTN,
  MODULE_LAYERNORM,
  MODULE_MLA_UP_PROJ,
  MODULE_MOE_ACT,
  MODULE_SHARED_EXPERTS,
  MODULE_MLP,
  MODULE_MOE,
  N_RECOMPUTE_MODULES
} RecomputeModule;

/* Sets are bits 1 << RecomputeModule; 0: none given. */
#define MODULE_BIT(module) (1u << (module))

const char *recompute_module_name(RecomputeModule module);
/* INPUT for an unknown name (suggesting the nearest), a duplicate, or an empty text; `what` is the option's name. */
gboolean recompute_modules_parse(const char *what, const char *text, guint *modules, GError **error);
/* "layernorm+moe_act", in the order above, separated by `between`; owned by the caller. */
char *recompute_modules_text(guint modules, const char *between);
