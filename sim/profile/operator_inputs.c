#include "operator_inputs.h"

static JsonNode *parse(const char *text) {
  return text != NULL ? json_from_string(text, NULL) : NULL;
}

OperatorInputs operator_inputs_parse(const ProfileOperator *op) {
  return (OperatorInputs){parse(op->dims), parse(op->types), parse(op->strides), parse(op->values)};
}

void operator_inputs_clear(OperatorInputs *inputs) {
  g_clear_pointer(&inputs->dims, json_node_unref);
  g_clear_pointer(&inputs->types, json_node_unref);
  g_clear_pointer(&inputs->strides, json_node_unref);
  g_clear_pointer(&inputs->values, json_node_unref);
}

/* NULL: there is none. */
static JsonNode *element_of(JsonNode *list, guint i) {
  JsonArray *all = list != NULL && JSON_NODE_HOLDS_ARRAY(list) ? json_node_get_array(list) : NULL;
  return all != NULL && i < json_array_get_length(all) ? json_array_get_element(all, i) : NULL;
}

Sizes sizes_of(JsonNode *lists, guint i) {
  Sizes sizes = {.n = 0};
  JsonNode *own = element_of(lists, i);
  if (own == NULL || !JSON_NODE_HOLDS_ARRAY(own))
    return sizes;
  JsonArray *list = json_node_get_array(own);
  for (guint d = 0; d < json_array_get_length(list) && d < MOST_SIZES; d++) {
    JsonNode *node = json_array_get_element(list, d);
    if (!JSON_NODE_HOLDS_VALUE(node) || json_node_get_value_type(node) != G_TYPE_INT64)
      return (Sizes){.n = 0};
    sizes.size[sizes.n++] = json_node_get_int(node);
  }
  return sizes;
}

const char *text_at(JsonNode *list, guint i) {
  JsonNode *own = element_of(list, i);
  return own != NULL && JSON_NODE_HOLDS_VALUE(own) && json_node_get_value_type(own) == G_TYPE_STRING
             ? json_node_get_string(own)
             : NULL;
}

static double product_of(const Sizes *sizes) {
  double product = sizes->n > 0 ? 1 : 0;
  for (int d = 0; d < sizes->n; d++)
    product *= (double)MAX(sizes->size[d], 0);
  return product;
}

double elements_of(JsonNode *lists, guint i, gboolean *is_list) {
  JsonNode *own = element_of(lists, i), *first = own != NULL ? element_of(own, 0) : NULL;
  *is_list = first != NULL && JSON_NODE_HOLDS_ARRAY(first);
  if (!*is_list) {
    const Sizes sizes = sizes_of(lists, i);
    return product_of(&sizes);
  }
  double sum = 0;
  for (guint t = 0; t < json_array_get_length(json_node_get_array(own)); t++) {
    const Sizes sizes = sizes_of(own, t);
    sum += product_of(&sizes);
  }
  return sum;
}
