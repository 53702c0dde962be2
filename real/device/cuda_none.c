#include "device.h"

/* Where CUDA was not built in. */
const DeviceType cuda_device = {.name = "cuda", .is_available = FALSE};
