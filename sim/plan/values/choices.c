#include "choices.h"

#include <string.h>

#include "error.h"
#include "quirk_values.h"
#include "suggest.h"

static const char *const axis_table[N_AXES + 1] = {
    [AXIS_TP] = "tp", [AXIS_CP] = "cp", [AXIS_EP] = "ep", [AXIS_DP] = "dp", [AXIS_PP] = "pp",
};
static const char *const recompute_table[N_RECOMPUTES + 1] = {
    [RECOMPUTE_NONE] = "none",   [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_FULL] = "full",
    [RECOMPUTE_BLOCK] = "block", [RECOMPUTE_EVERY] = "every",         [RECOMPUTE_SQRT] = "sqrt"};
static const char *const attention_table[N_ATTENTIONS + 1] = {
    [ATTENTION_FLASH] = "flash", [ATTENTION_UNFUSED] = "unfused"};
static const char *const kernels_table[] = {
    [FRAMEWORK_KERNELS_FUSED] = "fused", [FRAMEWORK_KERNELS_PLAIN] = "plain", NULL};
static const char *const loss_table[N_LOSSES + 1] = {[LOSS_VOCABULARY_PARALLEL] = "vocabulary_parallel",
                                                     [LOSS_PLAIN] = "plain",
                                                     [LOSS_FUSED] = "fused",
                                                     [LOSS_CHUNKED] = "chunked"};
static const char *const cp_comm_table[N_CP_COMMS + 1] = {
    [CP_RING] = "ring", [CP_ALL_GATHER] = "all_gather", [CP_ULYSSES] = "ulysses"};
static const char *const cp_comm_engine_table[N_CP_COMMS + 1] = {
    [CP_RING] = "p2p", [CP_ALL_GATHER] = "all_gather", [CP_ULYSSES] = "a2a"};
static const char *const expert_dispatch_table[N_EXPERT_DISPATCHES + 1] = {
    [DISPATCH_ALL_TO_ALL] = "all_to_all", [DISPATCH_DEEPEP] = "deepep", [DISPATCH_ALL_GATHER] = "all_gather"};
static const char *const flops_table[N_FLOPS_CONVENTIONS + 1] = {
    [FLOPS_CAUSAL] = "causal", [FLOPS_MEGATRON] = "megatron", [FLOPS_6N] = "6n"};

const char *axis_name(Axis axis) {
  g_assert(axis < N_AXES);
  return axis_table[axis];
}

const char *const *axis_names(void) {
  return axis_table;
}

const char *const *recompute_names(void) {
  return recompute_table;
}

const char *const *attention_names(void) {
  return attention_table;
}

const char *const *kernels_names(void) {
  return kernels_table;
}

const char *const *loss_names(void) {
  return loss_table;
}

const char *const *cuda_graphs_names(void) {
  static const char *const names[N_CUDA_GRAPHS + 1] = {"none", "router", "attention", "full", NULL};
  return names;
}

const char *const *expert_dispatch_names(void) {
  return expert_dispatch_table;
}

const char *const *cp_comm_names(void) {
  return cp_comm_table;
}

const char *const *cp_comm_engine_names(void) {
  return cp_comm_engine_table;
}

int cp_comm_parse(const char *what, const char *text, GError **error) {
  const int index = suggest_same(text, cp_comm_engine_table);
  return index >= 0 ? index : parse_choice(what, text, cp_comm_table, error);
}

const char *const *flops_convention_names(void) {
  return flops_table;
}

int parse_choice(const char *what, const char *text, const char *const *names, GError **error) {
  const int index = suggest_same(text, names);
  if (index >= 0)
    return index;
  g_autofree char *expected = suggest_message(text, names);
  fail_input(error, "%s: found \"%.80s\", %s", what, text == NULL ? "" : text, expected);
  return -1;
}

gboolean parse_switch(const char *what, const char *text, gboolean *value, GError **error) {
  if (text == NULL)
    return TRUE;
  const gboolean is_on = g_ascii_strcasecmp(text, "on") == 0;
  if (!is_on && g_ascii_strcasecmp(text, "off") != 0)
    return fail_input(error, "%s: found \"%.80s\", expected on or off", what, text);
  *value = is_on;
  return TRUE;
}

int plan_ep_inside(int size, int *left) {
  const int inside = MIN(size, *left);
  if (size % inside != 0 || *left % inside != 0)
    return 0;
  *left /= inside;
  return inside;
}
