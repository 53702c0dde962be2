/* Every reader of user input, with one signature for fuzzing. */
#pragma once
#include "cluster.h"
#include "model.h"

typedef struct {
  const char *file; /* holds the bytes of `text`; may be written over */
  const char *text; /* `length` bytes and a NUL */
  gsize length;
} FuzzInput;

/* FALSE with the error set: refused. Accepted input is checked further against what its reader promises; a broken
 * promise ends the process. */
typedef gboolean (*FuzzReader)(const FuzzInput *input, GError **error);

/* read_describe.c */
gboolean fuzz_model(const FuzzInput *input, GError **error);
gboolean fuzz_cluster(const FuzzInput *input, GError **error);
gboolean fuzz_gpu(const FuzzInput *input, GError **error);
gboolean fuzz_collective_library(const FuzzInput *input, GError **error);
gboolean fuzz_framework(const FuzzInput *input, GError **error);
gboolean fuzz_rank_map(const FuzzInput *input, GError **error);
gboolean fuzz_nccl_xml(const FuzzInput *input, GError **error);
gboolean fuzz_smi_matrix(const FuzzInput *input, GError **error);
gboolean fuzz_nccl_tests(const FuzzInput *input, GError **error);
/* read_runs.c */
gboolean fuzz_order(const FuzzInput *input, GError **error);
gboolean fuzz_program(const FuzzInput *input, GError **error);
gboolean fuzz_trace(const FuzzInput *input, GError **error);
gboolean fuzz_profile(const FuzzInput *input, GError **error);
gboolean fuzz_space(const FuzzInput *input, GError **error);
gboolean fuzz_csv(const FuzzInput *input, GError **error);
gboolean fuzz_measured(const FuzzInput *input, GError **error);
gboolean fuzz_database(const FuzzInput *input, GError **error);
/* read_options.c */
gboolean fuzz_words(const FuzzInput *input, GError **error);
gboolean fuzz_plan(const FuzzInput *input, GError **error);
gboolean fuzz_plan_file(const FuzzInput *input, GError **error);

/* Shipped files, read once. Borrowed. */
const Model *fuzz_shipped_model(void);
const Model *fuzz_tiny_model(void);
const Cluster *fuzz_shipped_cluster(void);

/* Ends the process unless `holds`; the fuzzer counts that as a finding. */
#define FUZZ_REQUIRE(holds)                                                                                            \
  G_STMT_START {                                                                                                       \
    if (!(holds))                                                                                                      \
      g_error("%s:%d: does not hold: %s", __FILE__, __LINE__, #holds);                                                 \
  }                                                                                                                    \
  G_STMT_END
