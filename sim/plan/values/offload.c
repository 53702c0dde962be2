#include "offload.h"

const char *const *offload_names(void) {
  static const char *const names[] = {"none", "host", "nvme", NULL};
  return names;
}

const char *const *offload_activations_names(void) {
  static const char *const names[] = {"none", "host", NULL};
  return names;
}

gboolean offload_is_any(const Offload *offload) {
  return offload->optimizer != TIER_GPU || offload->weights != TIER_GPU || offload->activations != TIER_GPU;
}

gboolean offload_uses(const Offload *offload, MemoryTier tier) {
  return offload->optimizer == tier || offload->weights == tier || offload->activations == tier;
}
