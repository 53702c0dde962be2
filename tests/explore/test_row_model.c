/* The model that a row of measured.csv describes. */
#include "csv_text.h"
#include "run_suite.h"

#define HEAD                                                                                                           \
  "layers,hidden,heads,kv_heads,ffn_hidden,vocab,gated,tied,positions,seq_len,framework,cluster,step_time_s\n"

static gint64 row_parameters(const char *text) {
  g_autofree char *file = g_strconcat(HEAD, text, NULL);
  g_autoptr(MeasuredRows) rows = rows_of(file);
  ck_assert_ptr_null(nth_row(rows, 0)->problem);
  return model_parameters(nth_row(rows, 0)->model);
}

/* The same sizes as the shipped config make the same model, biases and norms included. */
TEST(a_row_makes_the_model_of_its_config) {
  g_autoptr(Model) llama = model_read("llama-3-8b", NULL);
  g_autoptr(Model) gpt = model_read("gpt2", NULL);
  ck_assert(llama != NULL && gpt != NULL);
  ck_assert_int_eq(row_parameters("32,4096,32,8,14336,128256,1,0,rotary,8192,nemo,selene,1\n"),
                   model_parameters(llama));
  ck_assert_int_eq(row_parameters("12,768,12,12,3072,50257,0,1,learned,1024,nemo,selene,1\n"), model_parameters(gpt));
}

TEST(dropout_is_trained_with_as_gpt2_is_but_not_by_llm_foundry) {
  g_autoptr(MeasuredRows) rows = rows_of(HEAD "2,64,4,,,,0,1,learned,32,megatron-lm,selene,1\n"
                                              "2,64,4,,,,0,1,learned,32,pytorch-fsdp,selene,1\n"
                                              "2,64,4,,,,1,0,rotary,32,megatron-lm,selene,1\n"
                                              "2,64,4,,,,0,0,rotary,32,megatron-lm,selene,1\n"
                                              "2,64,4,,,,0,1,alibi,32,megatron-deepspeed,selene,1\n"
                                              "2,64,4,,,,0,1,alibi,32,pytorch-fsdp,selene,1\n");
  static const struct {
    gboolean dropout, bias;
    Norm norm;
  } expected[] = {{TRUE, TRUE, NORM_LAYERNORM},  {FALSE, TRUE, NORM_LAYERNORM}, {FALSE, FALSE, NORM_RMSNORM},
                  {FALSE, TRUE, NORM_LAYERNORM}, {TRUE, TRUE, NORM_LAYERNORM},  {FALSE, TRUE, NORM_LAYERNORM}};
  for (guint i = 0; i < G_N_ELEMENTS(expected); i++) {
    const Model *model = nth_row(rows, i)->model;
    ck_assert_int_eq(model->dropout_rate.hidden > 0, expected[i].dropout);
    ck_assert(model->qkv_bias == expected[i].bias && model->linear_bias == expected[i].bias);
    ck_assert_int_eq(model->norm, expected[i].norm);
  }
}

#define CORE "layers,hidden,heads,cluster,step_time_s\n"

/* 7,168 hidden and 128 heads are DeepSeek-V3's: 4 of its 61 layers, of which one in place of three is dense. Another
 * name, or other sizes, and the columns say what there is. */
TEST(experts_are_those_of_the_named_model_or_of_the_columns) {
  g_autoptr(MeasuredRows) rows =
      rows_of("model_name,experts,experts_per_token,moe_ffn_hidden,ffn_hidden," CORE
              "DEEPSEEK_V3,,,,18432,4,7168,128,selene,1\nDeepSeek-V3,64,6,512,18432,4,7168,128,selene,1\n"
              "deepseekv3,,,,18432,4,5120,128,selene,1\n");
  const Model *named = nth_row(rows, 0)->model, *of_columns = nth_row(rows, 1)->model, *dense = nth_row(rows, 2)->model;
  ck_assert(named->n_layers == 4 && named->experts.n == 256 && named->experts.per_token == 8);
  ck_assert(named->latent.kv_rank == 512 && model_dense_layers(named, 0, 4) == 1);
  ck_assert(of_columns->experts.n == 64 && of_columns->experts.per_token == 6 && of_columns->experts.ffn_hidden == 512);
  ck_assert(of_columns->latent.kv_rank == 0 && model_dense_layers(of_columns, 0, 4) == 0 && !model_has_experts(dense));
}

/* Nemotron-8B has 32 layers and 256,000 words: 51,200 are a default; of 24 layers it is another model. */
TEST(a_vocabulary_far_from_the_named_models_is_a_default) {
  g_autoptr(MeasuredRows) rows =
      rows_of("model_name,vocab," CORE "Nemotron-8B,51200,32,4096,32,selene,1\n"
              "nemotron-8b,256512,32,4096,32,selene,1\nNemotron-8B,51200,24,4096,32,selene,1\n");
  for (guint i = 0; i < 3; i++) /* 256,512: padded */
    ck_assert_int_eq(nth_row(rows, i)->model->vocab, i == 0 ? 256000 : i == 1 ? 256512 : 51200);
  ck_assert(nth_row(rows, 0)->unused_vocab == 51200 && nth_row(rows, 1)->unused_vocab == 0);
}

/* Pythia's attention and MLP run side by side, Qwen3-32B has heads of 128 where 5,120 hidden and 64 heads would make
 * 80, and norms of q and k; without the name, or with other sizes, neither is so. */
TEST(what_no_column_says_is_as_in_the_named_model) {
  g_autoptr(MeasuredRows) rows = rows_of("model_name," CORE "pythia-12b,36,5120,40,selene,1\n,36,5120,40,selene,1\n"
                                         "Qwen3-32B,12,5120,64,selene,1\nQwen3-32B,12,4096,64,selene,1\n");
  const Model *pythia = nth_row(rows, 0)->model, *nameless = nth_row(rows, 1)->model;
  const Model *qwen = nth_row(rows, 2)->model, *other = nth_row(rows, 3)->model;
  ck_assert(pythia->parallel_block && !nameless->parallel_block);
  ck_assert(pythia->head_dim == 128 && nameless->head_dim == 128);
  ck_assert(qwen->head_dim == 128 && qwen->n_layers == 12 && qwen->qk_norms == QK_NORMS_HEADS);
  ck_assert(other->head_dim == 64 && other->qk_norms == QK_NORMS_NONE);
}

int main(void) {
  return run_tests();
}
