/* Sliding attention windows in configs: in all layers, in some, in those that layer_types names. */
#include "model_text.h"
#include "run_suite.h"

/* {"sliding", "full", …} by letters. */
static Model *read_layers_of(const char *head, const char *types) {
  g_autoptr(GString) text = g_string_new(head);
  for (gsize l = 0; types != NULL && l < strlen(types); l++)
    g_string_append_printf(text, "%s\"%s_attention\"%s", l == 0 ? "\"layer_types\": [" : ", ",
                           types[l] == 's' ? "sliding" : "full", l + 1 == strlen(types) ? "], " : "");
  g_string_append(text, "\"hidden_size\": 64, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "
                        "\"intermediate_size\": 96, \"vocab_size\": 100}");
  return read_text(text->str);
}

#define HEADS "\"num_key_value_heads\": 4, "

TEST(a_sliding_window_counts_only_when_used) {
  g_autoptr(Model) mistral = read_text("{\"model_type\": \"mistral\", \"sliding_window\": 4096, " HEADS LLAMA_CORE "}");
  g_autoptr(Model) later = read_text("{\"model_type\": \"mistral\", \"sliding_window\": null, " HEADS LLAMA_CORE "}");
  g_autoptr(Model) qwen = read_text(
      "{\"model_type\": \"qwen2\", \"sliding_window\": 4096, \"use_sliding_window\": false, " HEADS LLAMA_CORE "}");
  ck_assert_int_eq(mistral->window, 4096);
  ck_assert_int_eq(later->window, 0);
  ck_assert_int_eq(qwen->window, 0);
  ck_assert(!mistral->some_windowed);
  g_autoptr(Model) none =
      read_text("{\"model_type\": \"qwen2\", \"sliding_window\": 4096, \"use_sliding_window\": true, "
                "\"max_window_layers\": 99, " HEADS LLAMA_CORE "}");
  g_autoptr(Model) some =
      read_text("{\"model_type\": \"qwen2\", \"sliding_window\": 4096, \"use_sliding_window\": true, "
                "\"max_window_layers\": 1, " HEADS LLAMA_CORE "}");
  ck_assert_int_eq(none->window, 0);
  ck_assert_int_eq(some->window, 4096);
  ck_assert(some->some_windowed && !none->some_windowed);
  /* 28 layers are whole where a Qwen's config does not say; layer_types says of any */
  g_autoptr(Model) unsaid = read_text(
      "{\"model_type\": \"qwen3\", \"sliding_window\": 4, \"use_sliding_window\": true, " HEADS LLAMA_CORE "}");
  ck_assert_int_eq(unsaid->window, 0);
  /* and none has a window that the switch is not on for */
  g_autoptr(Model) off =
      read_text("{\"model_type\": \"qwen2\", \"sliding_window\": 4, \"max_window_layers\": 0, " HEADS LLAMA_CORE "}");
  ck_assert_int_eq(off->window, 0);
  ck_assert_int_eq(model_window(mistral, 4096), 0);
  ck_assert_int_eq(model_window(mistral, 4097), 4096);
  ck_assert(qwen->qkv_bias && !qwen->linear_bias);
}

/* Of 4 layers one: those without rotation, each fourth where the config does not say, never "from 28 on". */
TEST(a_smollm3_has_its_window_where_nothing_is_rotated) {
#define SMOLLM3 "{\"model_type\": \"smollm3\", \"sliding_window\": 16, \"max_window_layers\": 28, "
  g_autoptr(Model) off = read_layers_of(SMOLLM3, NULL);
  ck_assert_int_eq(off->window, 0);
  g_autoptr(Model) fourth = read_layers_of(SMOLLM3 "\"use_sliding_window\": true, ", NULL);
  ck_assert_int_eq(fourth->window, 16);
  ck_assert_double_eq(fourth->windowed_share, 0.25);
  g_autoptr(Model) second =
      read_layers_of(SMOLLM3 "\"use_sliding_window\": true, \"no_rope_layer_interval\": 2, ", NULL);
  ck_assert_double_eq(second->windowed_share, 0.5);
}

TEST(gpt_oss_has_a_window_in_every_other_layer) {
  static const char *const names[] = {"gpt-oss-120b", "gpt-oss-20b"};
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autoptr(Model) model = model_read(names[i], NULL);
    ck_assert_ptr_nonnull(model);
    ck_assert_int_eq(model->window, 128);
    ck_assert_double_eq(model->windowed_share, 0.5);
    ck_assert(!model->some_windowed && model_has_out_bias(model) && model->qkv_bias);
  }
}

#define GPT_OSS                                                                                                        \
  "{\"model_type\": \"gpt_oss\", \"num_local_experts\": 8, \"num_experts_per_tok\": 2, \"sliding_window\": 16, " HEADS

/* Layers that come in turns have the mean of both kinds; a window in the first half of them does not. */
TEST(layer_types_say_which_layers_have_the_window) {
  static const struct {
    const char *types; /* of 4 layers; NULL: not said */
    double share;
    gboolean refused_later;
    gint64 window;
  } cases[] = {{NULL, 0.5, FALSE, 16}, {"sfsf", 0.5, FALSE, 16}, {"ssss", 0, FALSE, 16},
               {"ffff", 0, FALSE, 0},  {"ssff", 0.5, TRUE, 16},  {"fsfs", 0.5, FALSE, 16}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) model = read_layers_of(GPT_OSS, cases[i].types);
    ck_assert_double_eq(model->windowed_share, cases[i].share);
    ck_assert_int_eq(model->some_windowed, cases[i].refused_later);
    ck_assert_int_eq(model->window, cases[i].window);
    if (cases[i].types == NULL)
      continue;
    g_autoptr(Model) qwen = read_layers_of("{\"model_type\": \"qwen3\", \"num_key_value_heads\": 4, "
                                           "\"sliding_window\": 16, \"use_sliding_window\": true, ",
                                           cases[i].types);
    ck_assert(qwen->windowed_share == cases[i].share && qwen->window == cases[i].window);
  }
}

int main(void) {
  return run_tests();
}
