/* PyTorch's profiler (Kineto): Chrome trace events of one rank, plain or compressed with gzip. Kernels, copies and
 * memsets carry the number of the call that launched them (correlation), and since 2023 that of the operator around it
 * ("External id"); before, the operator is the innermost one that was running on the launching thread. Collectives
 * carry group and sizes since PyTorch 2.3. Times are microseconds with up to three decimals. Source: kineto,
 * libkineto/src/output_json.cpp; torch/csrc/profiler/util.cpp. */
#pragma once
#include "profile.h"

/* INPUT with file:line; nothing in it by a GPU is no mistake here. */
gboolean kineto_read(Profile *profile, const char *file, GError **error);
