#include "comm.h"

/* For builds without NCCL. */
const CommType nccl_comm = {.name = "nccl", .is_available = FALSE};
