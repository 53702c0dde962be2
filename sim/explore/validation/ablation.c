/* Every part is removed through the Plan: its fields are set to their values in a plan without that part. The
 * framework as a whole consists of all its parts, so removing these one by one or together gives the same result. */
#include "ablation.h"

#include <string.h>

#include "error.h"
#include "suggest.h"

static void without_host(Plan *plan) {
  FrameworkTime *time = &plan->time;
  time->has_host = FALSE;
  time->layer_forward_s = time->layer_again_s = time->layer_backward_s = 0;
  time->ends_forward_s = time->ends_backward_s = 0;
  time->collective_s = time->step_s = 0;
  time->has_expert_host = FALSE;
  time->expert_forward_s = time->expert_backward_s = time->expert_launch_s = 0;
  time->expert_collective_s = 0;
  time->expert_counts = EXPERT_COUNTS_ON_DEVICE;
}

static void without_waits(Plan *plan) {
  plan->time.sends = SENDS_ON_STREAMS;
  plan->time.stage_tensors = STAGE_TENSORS_WHOLE;
  plan->time.overlap_p2p = P2P_OF_SCHEDULE;
}

static void without_rates(Plan *plan) {
  memset(plan->time.rates, 0, sizeof(plan->time.rates));
}

static void without_kernels(Plan *plan) {
  plan->time.kernels = FRAMEWORK_KERNELS_FUSED;
  plan->time.scaled_rotation = ROTATION_FUSED;
  plan->time.norm_rate = 0;
  plan->time.strided_rate = 0;
  plan->time.attention_copies_forward = plan->time.attention_copies_backward = 0;
  plan->time.layer_norm_forward = plan->time.layer_norm_backward = 0;
  plan->time.row_bias = ROW_BIAS_WITH_RESIDUAL;
  plan->time.recompute_end = RECOMPUTE_END_WHOLE;
  plan->time.expert_operations = EXPERT_OPERATIONS_FUSED;
  plan->time.expert_padding = EXPERT_PADDING_NONE;
  plan->norm_kernel = FRAMEWORK_KERNELS_FUSED;
}

static void without_tensor_parallel(Plan *plan) {
  plan->time.tensor_parallel = TP_BESIDE;
  plan->time.tensor_parallel_hidden = 0;
  plan->time.tensor_parallel_format = TP_FORMAT_ELEMENT;
  plan->time.gate_linears = plan->time.qkv_linears = LINEARS_TOGETHER;
  plan->time.tensor_parallel_input = TP_INPUT_SHARED;
  plan->time.tensor_parallel_exchanges = TP_EXCHANGES_ONCE;
}

static void without_data_parallel(Plan *plan) {
  plan->time.data_parallel = DP_BESIDE;
  plan->time.gradients = GRADIENTS_SHARDED;
  plan->time.pipeline_gradients = PIPELINE_GRADIENTS_SHARDED;
  plan->time.accumulated_gradients = ACCUMULATED_GRADIENTS_SHARDED;
  plan->time.expert_optimizer = EXPERT_OPTIMIZER_TOGETHER;
  plan->time.gradient_sum_bytes = 0;
  plan->time.gradient_sums = GRADIENT_SUMS_FUSED;
  plan->time.gradient_add_bytes = 0;
  plan->time.gradient_passes = 0;
  plan->time.fp16_gradients = FP16_GRADIENTS_AS_HELD;
  plan->time.buffer_passes = 0;
  plan->time.gradient_scaling = GRADIENT_SCALING_SUMMED;
  plan->time.zero3_tensors = FALSE;
  plan->time.zero3_buffers = ZERO3_BUFFERS_SHARED;
}

static void without_context(Plan *plan) {
  plan->time.context = CONTEXT_PASSED;
  plan->time.context_exchanges = CONTEXT_BESIDE;
}

static void without_skew(Plan *plan) {
  plan->time.arrival_spread_s = 0;
}

static void without_memory(Plan *plan) {
  if (plan->memory.recipe[0] != '\0' && plan->precision != PRECISION_FP32) {
    g_autoptr(Plan) fresh = plan_new();
    plan->recipe = fresh->recipe;
  }
  plan->memory = (FrameworkMemory){0};
}

static void without_framework(Plan *plan) {
  without_memory(plan);
  without_data_parallel(plan);
  plan->time = (FrameworkTime){0};
}

static void without_contention(Plan *plan) {
  plan->contention = FALSE;
}

static const struct {
  const char *name, *meaning;
  void (*take_away)(Plan *plan);
} part_table[] = {
    {"framework", "all that the row's framework says, of time and of memory", without_framework},
    {"host",
     "host time of its layers and collectives: each kernel takes the GPU file's host_launch, and nothing is read of "
     "experts",
     without_host},
    {"waits", "how it sends between stages: on streams of their own, beside computing only where the schedule does",
     without_waits},
    {"rates", "what its libraries reach of a GPU generation: products and attention at the GPU file's rates",
     without_rates},
    {"kernels",
     "norm, rotation, gate, copies round attention and what is about experts of single operations, and where full "
     "recomputation ends: they are fused, it ends with the layer",
     without_kernels},
    {"tensor-parallel", "how it runs collectives of tp: the reduction of an input gradient beside the weight gradient",
     without_tensor_parallel},
    {"data-parallel",
     "how it runs collectives of dp, and what passes over gradients: beside computing, in shards, in the format they "
     "are "
     "held in, and only Adam does",
     without_data_parallel},
    {"context", "how its ring of context parallelism gathers, passes and sums: as Transformer Engine's",
     without_context},
    {"skew", "the spread of ranks that come to a collective: all come at once", without_skew},
    {"memory", "what it holds besides, and its recipe of bytes per parameter", without_memory},
    {"contention", "transfers that share links: each has its links for itself", without_contention},
};

int parts_count(void) {
  return G_N_ELEMENTS(part_table);
}

const char *part_name(int i) {
  g_assert(i >= 0 && i < parts_count());
  return part_table[i].name;
}

static gboolean add_part(const char *name, Parts *parts, GError **error) {
  for (int i = 0; i < parts_count(); i++)
    if (strcmp(name, part_table[i].name) == 0) {
      if (*parts & 1u << i)
        return fail_input(error, "\"%s\" is named twice", name);
      *parts |= 1u << i;
      return TRUE;
    }
  const char *names[G_N_ELEMENTS(part_table) + 1] = {NULL};
  for (int i = 0; i < parts_count(); i++)
    names[i] = part_table[i].name;
  g_autofree char *expected = suggest_message(name, names);
  return fail_input(error, "found \"%.80s\", %s", name, expected);
}

gboolean parts_parse(const char *text, Parts *parts, GError **error) {
  g_auto(GStrv) names = g_strsplit(text, ",", -1);
  *parts = 0;
  if (names[0] == NULL)
    return add_part("", parts, error);
  for (int i = 0; names[i] != NULL; i++)
    if (!add_part(g_strstrip(names[i]), parts, error))
      return FALSE;
  return TRUE;
}

char *parts_text(Parts parts) {
  GString *text = g_string_new(NULL);
  for (int i = 0; i < parts_count(); i++)
    if (parts & 1u << i)
      g_string_append_printf(text, "%s%s", text->len > 0 ? ", " : "", part_table[i].name);
  return g_string_free(text, FALSE);
}

char *parts_help(void) {
  GString *text = g_string_new(NULL);
  for (int i = 0; i < parts_count(); i++)
    g_string_append_printf(text, "  %-16s %s\n", part_table[i].name, part_table[i].meaning);
  return g_string_free(text, FALSE);
}

void parts_take_away(Parts parts, Plan *plan) {
  for (int i = 0; i < parts_count(); i++)
    if (parts & 1u << i)
      part_table[i].take_away(plan);
}
