#include "device.h"

/* For builds without CUDA. */
const DeviceType cuda_device = {.name = "cuda", .is_available = FALSE};
