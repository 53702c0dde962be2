/* One table of keys per mapping. */
#include "framework_time.h"

#include <string.h>

#include "error.h"
#include "yaml_base.h"

typedef struct {
  FrameworkTime time;
  YamlNode host, layer, ends, expert_host, attention_copies, layer_norm, zero3_tensors, rates;
} Draft;

static const char *const kernel_names[] = {"fused", "plain", NULL};
static const char *const loss_names[] = {"plain", "fused", NULL};
static const char *const sends_names[] = {"streams", "synchronous", NULL};
static const char *const stage_tensors_names[] = {"whole", "split", NULL};
static const char *const p2p_names[] = {"schedule", "always", "chunks", NULL};
static const char *const recompute_end_names[] = {"whole", "needed", NULL};
static const char *const context_names[] = {"passed", "blocks", NULL};
static const char *const exchanges_names[] = {"beside", "alone", NULL};
static const char *const overlap_names[] = {"schedule", "rounds", NULL};
static const char *const dispatch_names[] = {"all_to_all", "deepep", "all_gather", NULL};
static const char *const graphs_names[] = {"none", "router", "attention", NULL};
static const char *const grace_step_names[] = {"launched", "replayed", NULL};
static const char *const counts_names[] = {"device", "host", NULL};
static const char *const rotation_names[] = {"fused", "single", NULL};
static const char *const operations_names[] = {"fused", "single", NULL};
static const char *const padding_names[] = {"none", "copied", NULL};
static const char *const format_names[] = {"element", "linear", NULL};
static const char *const scales_names[] = {"tensor", "blocks", NULL};
static const char *const tp_names[] = {"beside", "alone", "fused", NULL};
static const char *const dp_names[] = {"beside", "alone", NULL};
static const char *const gradients_names[] = {"sharded", "whole", NULL};
static const char *const gradient_sums_names[] = {"fused", "apart", NULL};
static const char *const zero3_buffers_names[] = {"shared", "copied", NULL};
static const char *const fp16_gradients_names[] = {"as_held", "copied", NULL};
static const char *const exchanged_names[] = {"once", "each", NULL};
static const char *const linears_names[] = {"together", "apart", NULL};
static const char *const input_sums_names[] = {"apart", "fused", NULL};
static const char *const row_bias_names[] = {"residual", "apart", NULL};
static const char *const tp_input_names[] = {"shared", "copied", NULL};
static const char *const gradient_scaling_names[] = {"summed", "apart", NULL};
static const char *const pipeline_gradients_names[] = {"sharded", "whole", NULL};
static const char *const accumulated_gradients_names[] = {"sharded", "whole", NULL};
static const char *const expert_optimizer_names[] = {"together", "apart", NULL};
static const char *const weights_names[] = {"gathered", "broadcast", NULL};

#define IN_TIME(member) offsetof(Draft, time.member)
#define SECONDS(member) TRUE, IN_TIME(member), 0, 1, UNIT_SECONDS

static const YamlField time_fields[] = {
    {"host", FIELD_NODE, FALSE, offsetof(Draft, host)},
    {"expert_host", FIELD_NODE, FALSE, offsetof(Draft, expert_host)},
    {"step", FIELD_QUANTITY, FALSE, IN_TIME(step_s), 0, 1, UNIT_SECONDS},
    {"arrival_spread", FIELD_QUANTITY, FALSE, IN_TIME(arrival_spread_s), 0, 1, UNIT_SECONDS},
    {"kernels", FIELD_CHOICE, FALSE, IN_TIME(kernels), .names = kernel_names},
    {"scaled_rotation", FIELD_CHOICE, FALSE, IN_TIME(scaled_rotation), .names = rotation_names},
    {"attention_copies", FIELD_NODE, FALSE, offsetof(Draft, attention_copies)},
    {"loss", FIELD_CHOICE, FALSE, IN_TIME(loss), .names = loss_names},
    {"sends", FIELD_CHOICE, FALSE, IN_TIME(sends), .names = sends_names},
    {"stage_tensors", FIELD_CHOICE, FALSE, IN_TIME(stage_tensors), .names = stage_tensors_names},
    {"overlap_p2p", FIELD_CHOICE, FALSE, IN_TIME(overlap_p2p), .names = p2p_names},
    {"tensor_parallel", FIELD_CHOICE, FALSE, IN_TIME(tensor_parallel), .names = tp_names},
    {"tensor_parallel_hidden", FIELD_NUMBER, FALSE, IN_TIME(tensor_parallel_hidden), 0, 1},
    {"tensor_parallel_format", FIELD_CHOICE, FALSE, IN_TIME(tensor_parallel_format), .names = format_names},
    {"gate_linears", FIELD_CHOICE, FALSE, IN_TIME(gate_linears), .names = linears_names},
    {"qkv_linears", FIELD_CHOICE, FALSE, IN_TIME(qkv_linears), .names = linears_names},
    {"tensor_parallel_exchanges", FIELD_CHOICE, FALSE, IN_TIME(tensor_parallel_exchanges), .names = exchanged_names},
    {"input_gradient_sums", FIELD_CHOICE, FALSE, IN_TIME(input_gradient_sums), .names = input_sums_names},
    {"tensor_parallel_input", FIELD_CHOICE, FALSE, IN_TIME(tensor_parallel_input), .names = tp_input_names},
    {"data_parallel", FIELD_CHOICE, FALSE, IN_TIME(data_parallel), .names = dp_names},
    {"gradients", FIELD_CHOICE, FALSE, IN_TIME(gradients), .names = gradients_names},
    {"pipeline_gradients", FIELD_CHOICE, FALSE, IN_TIME(pipeline_gradients), .names = pipeline_gradients_names},
    {"accumulated_gradients", FIELD_CHOICE, FALSE, IN_TIME(accumulated_gradients),
     .names = accumulated_gradients_names},
    {"expert_optimizer", FIELD_CHOICE, FALSE, IN_TIME(expert_optimizer), .names = expert_optimizer_names},
    {"weights", FIELD_CHOICE, FALSE, IN_TIME(weights), .names = weights_names},
    {"zero3_tensors", FIELD_NODE, FALSE, offsetof(Draft, zero3_tensors)},
    {"zero3_buffers", FIELD_CHOICE, FALSE, IN_TIME(zero3_buffers), .names = zero3_buffers_names},
    {"gradient_sum_bytes", FIELD_NUMBER, FALSE, IN_TIME(gradient_sum_bytes), 1, 8},
    {"gradient_sums", FIELD_CHOICE, FALSE, IN_TIME(gradient_sums), .names = gradient_sums_names},
    {"gradient_add_bytes", FIELD_NUMBER, FALSE, IN_TIME(gradient_add_bytes), 4, 100},
    {"gradient_passes", FIELD_NUMBER, FALSE, IN_TIME(gradient_passes), 0, 100},
    {"fp16_gradients", FIELD_CHOICE, FALSE, IN_TIME(fp16_gradients), .names = fp16_gradients_names},
    {"buffer_passes", FIELD_NUMBER, FALSE, IN_TIME(buffer_passes), 0, 100},
    {"gradient_scaling", FIELD_CHOICE, FALSE, IN_TIME(gradient_scaling), .names = gradient_scaling_names},
    {"norm_rate", FIELD_NUMBER, FALSE, IN_TIME(norm_rate), 0.05, 1},
    {"layer_norm", FIELD_NODE, FALSE, offsetof(Draft, layer_norm)},
    {"row_bias", FIELD_CHOICE, FALSE, IN_TIME(row_bias), .names = row_bias_names},
    {"strided_rate", FIELD_NUMBER, FALSE, IN_TIME(strided_rate), 0.05, 1},
    {"recompute_end", FIELD_CHOICE, FALSE, IN_TIME(recompute_end), .names = recompute_end_names},
    {"context", FIELD_CHOICE, FALSE, IN_TIME(context), .names = context_names},
    {"context_exchanges", FIELD_CHOICE, FALSE, IN_TIME(context_exchanges), .names = exchanges_names},
    {"expert_overlap", FIELD_CHOICE, FALSE, IN_TIME(expert_overlap), .names = overlap_names},
    {"expert_dispatch", FIELD_CHOICE, FALSE, IN_TIME(expert_dispatch), .names = dispatch_names},
    {"grace_expert_graphs", FIELD_CHOICE, FALSE, IN_TIME(grace_expert_graphs), .names = graphs_names},
    {"grace_mxfp8_step", FIELD_CHOICE, FALSE, IN_TIME(grace_mxfp8_step), .names = grace_step_names},
    {"expert_counts", FIELD_CHOICE, FALSE, IN_TIME(expert_counts), .names = counts_names},
    {"expert_operations", FIELD_CHOICE, FALSE, IN_TIME(expert_operations), .names = operations_names},
    {"expert_padding", FIELD_CHOICE, FALSE, IN_TIME(expert_padding), .names = padding_names},
    {"expert_format", FIELD_CHOICE, FALSE, IN_TIME(expert_format), .names = format_names},
    {"scales", FIELD_CHOICE, FALSE, IN_TIME(scales), .names = scales_names},
    {"expert_sms", FIELD_INT, FALSE, IN_TIME(expert_sms), 1, 1024},
    {"rates", FIELD_NODE, FALSE, offsetof(Draft, rates)},
};

static const YamlField host_fields[] = {
    {"layer", FIELD_NODE, TRUE, offsetof(Draft, layer)},
    {"ends", FIELD_NODE, TRUE, offsetof(Draft, ends)},
    {"collective", FIELD_QUANTITY, SECONDS(collective_s)},
};

static const YamlField layer_fields[] = {
    {"forward", FIELD_QUANTITY, SECONDS(layer_forward_s)},
    {"again", FIELD_QUANTITY, SECONDS(layer_again_s)},
    {"backward", FIELD_QUANTITY, SECONDS(layer_backward_s)},
};

static const YamlField ends_fields[] = {
    {"forward", FIELD_QUANTITY, SECONDS(ends_forward_s)},
    {"backward", FIELD_QUANTITY, SECONDS(ends_backward_s)},
};

static const YamlField expert_host_fields[] = {
    {"forward", FIELD_QUANTITY, SECONDS(expert_forward_s)},
    {"backward", FIELD_QUANTITY, SECONDS(expert_backward_s)},
    {"launch", FIELD_QUANTITY, TRUE, IN_TIME(expert_launch_s), 1e-7, 1e-3, UNIT_SECONDS},
    {"collective", FIELD_QUANTITY, FALSE, IN_TIME(expert_collective_s), 1e-9, 1, UNIT_SECONDS},
};

static const YamlField zero3_fields[] = {
    {"list_entry", FIELD_QUANTITY, SECONDS(zero3_list_entry_s)},
    {"memory_passes", FIELD_NUMBER, TRUE, IN_TIME(zero3_memory_passes), 0, 100},
    {"live_parameters", FIELD_NUMBER, TRUE, IN_TIME(zero3_live_parameters), 1, 1e15},
};

static const YamlField copies_fields[] = {
    {"forward", FIELD_NUMBER, TRUE, IN_TIME(attention_copies_forward), 0, 100},
    {"backward", FIELD_NUMBER, TRUE, IN_TIME(attention_copies_backward), 0, 100},
};

static const YamlField layer_norm_fields[] = {
    {"forward", FIELD_NUMBER, TRUE, IN_TIME(layer_norm_forward), 2, 100},
    {"backward", FIELD_NUMBER, TRUE, IN_TIME(layer_norm_backward), 3, 100},
};

static const YamlField rate_fields[] = {
    {"products", FIELD_NUMBER, FALSE, offsetof(FrameworkRates, products), 0.05, 1},
    {"weight_gradients", FIELD_NUMBER, FALSE, offsetof(FrameworkRates, weight_gradients), 0.05, 1},
    {"attention_forward", FIELD_NUMBER, FALSE, offsetof(FrameworkRates, attention_forward), 1e-3, 1},
    {"attention_backward", FIELD_NUMBER, FALSE, offsetof(FrameworkRates, attention_backward), 1e-3, 1},
};

static gboolean parse_host(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->host))
    return TRUE;
  draft->time.has_host = TRUE;
  return yaml_map_read(draft->host, host_fields, G_N_ELEMENTS(host_fields), draft, error) &&
         yaml_map_read(draft->layer, layer_fields, G_N_ELEMENTS(layer_fields), draft, error) &&
         yaml_map_read(draft->ends, ends_fields, G_N_ELEMENTS(ends_fields), draft, error);
}

static gboolean parse_expert_host(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->expert_host))
    return TRUE;
  draft->time.has_expert_host = TRUE;
  return yaml_map_read(draft->expert_host, expert_host_fields, G_N_ELEMENTS(expert_host_fields), draft, error);
}

static gboolean parse_attention_copies(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->attention_copies))
    return TRUE;
  return yaml_map_read(draft->attention_copies, copies_fields, G_N_ELEMENTS(copies_fields), draft, error);
}

static gboolean parse_layer_norm(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->layer_norm))
    return TRUE;
  return yaml_map_read(draft->layer_norm, layer_norm_fields, G_N_ELEMENTS(layer_norm_fields), draft, error);
}

static gboolean parse_zero3(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->zero3_tensors))
    return TRUE;
  draft->time.zero3_tensors = TRUE;
  return yaml_map_read(draft->zero3_tensors, zero3_fields, G_N_ELEMENTS(zero3_fields), draft, error);
}

/* A mapping from GPU generation to a mapping of rates. */
static gboolean parse_rates(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->rates))
    return TRUE;
  YamlNode nodes[N_ARCHITECTURES] = {0};
  YamlField fields[N_ARCHITECTURES];
  for (int i = 0; i < N_ARCHITECTURES; i++)
    fields[i] = (YamlField){.key = architecture_names()[i], .type = FIELD_NODE, .offset = (size_t)i * sizeof *nodes};
  if (!yaml_map_read(draft->rates, fields, N_ARCHITECTURES, nodes, error))
    return FALSE;
  for (int i = 0; i < N_ARCHITECTURES; i++)
    if (yaml_is_present(nodes[i]) &&
        !yaml_map_read(nodes[i], rate_fields, G_N_ELEMENTS(rate_fields), &draft->time.rates[i], error))
      return FALSE;
  return TRUE;
}

/* A key that has a meaning only with one value of another key. */
typedef struct {
  const char *key, *other, *value;
  gboolean is_used, is_beside;
} Companion;

/* Whether the key comes from a base and the other key's value from elsewhere: the base meant them together. */
static gboolean is_left_behind(YamlNode map, const Companion *companion) {
  const YamlNode key = yaml_map_value(map, companion->key), other = yaml_map_value(map, companion->other);
  return yaml_is_of_base(key) && yaml_is_present(other) && strcmp(yaml_path(key), yaml_path(other)) != 0;
}

static gboolean check_companions(YamlNode map, FrameworkTime *time, GError **error) {
  const gboolean has_linears_apart = time->qkv_linears == LINEARS_APART || time->gate_linears == LINEARS_APART;
  const Companion companions[] = {
      {"tensor_parallel_hidden", "tensor_parallel", "fused", time->tensor_parallel_hidden > 0,
       time->tensor_parallel == TP_FUSED},
      {"norm_rate", "kernels", "plain", time->norm_rate > 0, time->kernels == FRAMEWORK_KERNELS_PLAIN},
      {"context_exchanges", "context", "blocks", time->context_exchanges == CONTEXT_ALONE,
       time->context == CONTEXT_BLOCKS},
      {"gradient_add_bytes", "gradient_sums", "apart", time->gradient_add_bytes > 0,
       time->gradient_sums == GRADIENT_SUMS_APART},
      {"tensor_parallel_exchanges", "qkv_linears", "apart\" or \"gate_linears: apart",
       time->tensor_parallel_exchanges == TP_EXCHANGES_EACH, has_linears_apart},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(companions); i++) {
    const Companion *c = &companions[i];
    if (c->is_used && !c->is_beside && !is_left_behind(map, c))
      return yaml_fail(map, error, "found %s, expected it with \"%s: %s\" only", c->key, c->other, c->value);
  }
  if (time->tensor_parallel != TP_FUSED)
    time->tensor_parallel_hidden = 0;
  if (time->kernels != FRAMEWORK_KERNELS_PLAIN)
    time->norm_rate = 0;
  if (time->context != CONTEXT_BLOCKS)
    time->context_exchanges = CONTEXT_BESIDE;
  if (time->gradient_sums != GRADIENT_SUMS_APART)
    time->gradient_add_bytes = 0;
  if (!has_linears_apart)
    time->tensor_parallel_exchanges = TP_EXCHANGES_ONCE;
  return TRUE;
}

gboolean framework_time_parse(YamlNode map, FrameworkTime *time, GError **error) {
  Draft draft = {0};
  if (!yaml_map_read(map, time_fields, G_N_ELEMENTS(time_fields), &draft, error) || !parse_host(&draft, error) ||
      !parse_expert_host(&draft, error) || !parse_attention_copies(&draft, error) || !parse_layer_norm(&draft, error) ||
      !parse_zero3(&draft, error) || !parse_rates(&draft, error) || !check_companions(map, &draft.time, error))
    return FALSE;
  *time = draft.time;
  return TRUE;
}
