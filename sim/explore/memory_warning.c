#include "memory_warning.h"

#include <stddef.h>

const char *memory_warning(double used_share) {
  return used_share > MEMORY_WARNED_ABOVE ? "next to nothing is left for fragments of the allocator and for what the "
                                            "prediction gets wrong; --memory-margin 5% plans with room"
                                          : NULL;
}
