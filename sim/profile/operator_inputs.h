/* What PyTorch recorded of an operator's inputs with record_shapes=True. */
#pragma once
#include <json-glib/json-glib.h>

#include "profile.h"

enum { MOST_SIZES = 8 };

typedef struct {
  gint64 size[MOST_SIZES];
  int n; /* dimensions; 0: no tensor, or a single number */
} Sizes;

typedef struct {
  JsonNode *dims, *types, *strides, *values; /* lists; NULL: not recorded; owned */
} OperatorInputs;

OperatorInputs operator_inputs_parse(const ProfileOperator *op);
void operator_inputs_clear(OperatorInputs *inputs);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(OperatorInputs, operator_inputs_clear)

/* Of input `i`, of a list of lists of integers. */
Sizes sizes_of(JsonNode *lists, guint i);
/* Of a list of texts; NULL: absent, or none. */
const char *text_at(JsonNode *list, guint i);
/* Elements of input `i`; of a list of tensors all of theirs. 0: no tensor. */
double elements_of(JsonNode *lists, guint i, gboolean *is_list);
