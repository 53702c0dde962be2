/* What published runs leave unsaid and other evidence tells: rules of topologies/published/rows.yaml, which says what a
 * rule may hold. */
#pragma once
#include "cluster.h"
#include "model.h"
#include "row_cells.h"
#include "shown_memory.h"

typedef struct RowRules RowRules;

/* INPUT as yaml_map_read(), and if a rule names a file that is not in topologies/frameworks. */
RowRules *row_rules_read(GError **error);
void row_rules_free(RowRules *rules);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RowRules, row_rules_free)

/* What the rules look at, all borrowed. */
typedef struct {
  const char *framework; /* as the row names it, spelled like a file */
  const char *notes;
  const ModelCells *cells;
  Precision precision;
  const Model *shipped;   /* the model that the row is named for; NULL: none */
  const Cluster *machine; /* NULL: not known */
} RowFacts;

typedef struct {
  const char *read_as; /* the file in topologies/frameworks that describes how it ran; NULL: no rule says */
  int norm_kernel;     /* FrameworkKernels of its norms; −1: no rule says */
  int memory_of;       /* ShownMemory: who counted its memory; −1: no rule says */
} RowReading;

/* Each from the first rule that says it and whose conditions all hold. Borrowed. */
RowReading row_rules_apply(const RowRules *rules, const RowFacts *facts);
