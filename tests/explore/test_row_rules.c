/* What published runs leave unsaid and rules of topologies/published/rows.yaml tell. */
#include "csv_text.h"
#include "plan.h"
#include "run_suite.h"

/* In fp8 it is the first of two rules that holds. */
TEST(the_format_may_tell_more) {
  g_autoptr(MeasuredRows) rows =
      rows_of("framework,kv_heads,gated,vocab,precision,cluster,layers,hidden,heads,step_time_s\n"
              "pytorch-fsdp,2,1,128256,fp8,dgx-h100,2,64,4,1\n"
              "pytorch-fsdp,2,1,128256,bf16,dgx-h100,2,64,4,1\n");
  ck_assert_str_eq(nth_row(rows, 0)->plan->framework, "torchtitan-compile");
  ck_assert_str_eq(nth_row(rows, 1)->plan->framework, "torchtitan");
}

/* torchtitan's log prints what the allocator reserved, unless the row knows better. */
TEST(who_counted_memory_is_told_by_the_row_or_a_rule) {
  g_autoptr(MeasuredRows) rows = rows_of("framework,memory_of,cluster,layers,hidden,heads,step_time_s\n"
                                         "torchtitan,,dgx-h100,2,64,4,1\n"
                                         "torchtitan,Device,dgx-h100,2,64,4,1\n"
                                         "megatron-core,,dgx-h100,2,64,4,1\n");
  ck_assert_int_eq(nth_row(rows, 0)->memory_of, SHOWN_RESERVED);
  ck_assert_int_eq(nth_row(rows, 1)->memory_of, SHOWN_DEVICE);
  ck_assert_int_eq(nth_row(rows, 2)->memory_of, SHOWN_ALLOCATED);
}

/* DeepSpeed's pipelines in bf16 have an optimizer of their own; a gate stands for years in which that was asked for. */
TEST(the_format_tells_of_an_optimizer) {
  g_autoptr(MeasuredRows) rows = rows_of("framework,gated,vocab,precision,cluster,layers,hidden,heads,step_time_s\n"
                                         "megatron-deepspeed,0,51200,bf16,selene,2,64,4,1\n"
                                         "megatron-deepspeed,0,51200,fp16,selene,2,64,4,1\n"
                                         "megatron-deepspeed,1,51200,bf16,selene,2,64,4,1\n");
  ck_assert_str_eq(nth_row(rows, 0)->plan->framework, "megatron-deepspeed-bf16");
  ck_assert_str_eq(nth_row(rows, 1)->plan->framework, "megatron-deepspeed-gpt");
  ck_assert_str_eq(nth_row(rows, 2)->plan->framework, "megatron-deepspeed");
}

/* A name alone is read with the release of the model's time, on GPUs that there were then; models with experts and, of
 * 128,256 words, with fewer key-value heads are not Llama 2's. A name that is a release's own, and a framework that no
 * rule names stay. torchtitan's notes may list what was compiled. */
TEST(a_model_tells_the_release_of_a_published_run) {
  static const struct {
    const char *framework, *kv_heads, *gated, *vocab, *experts, *cluster, *notes, *expected;
  } cases[] = {
      {"megatron-lm", "4", "1", "128256", "", "selene", "", "megatron-lm-2023"},
      {"megatron-lm", "", "1", "128256", "", "selene", "", "megatron-lm"}, /* whatever its key-value heads are */
      {"megatron-lm", "", "1", "", "", "selene", "", "megatron-lm-2023"},
      {"pytorch-fsdp", "2", "1", "128256", "", "dgx-h100", "", "torchtitan"},
      {"pytorch-fsdp", "2", "1", "128256", "8", "dgx-h100", "", "pytorch-fsdp"},
      {"pytorch-fsdp", "2", "1", "32000", "", "dgx-h100", "", "pytorch-fsdp"},
      {"pytorch-fsdp", "", "0", "50368", "", "dgx-h100", "", "pytorch-fsdp"},
      {"megatron-lm", "2", "1", "32000", "", "dgx-h100", "", "megatron-lm-2023"},
      {"megatron-lm", "2", "1", "32000", "", "dgx-b200", "", "megatron-lm"},
      {"megatron-lm", "2", "1", "128256", "", "selene", "", "megatron-lm"},
      {"megatron-lm", "", "0", "32000", "", "selene", "", "megatron-lm"},
      {"megatron-lm", "", "1", "32000", "8", "selene", "", "megatron-lm"},
      {"megatron-core", "", "1", "32000", "", "selene", "", "megatron-core"},
      {"megatron-core", "", "1", "32000", "8", "dgx-h100", "", "megatron-core-2024"},
      {"megatron-core", "", "1", "32000", "8", "dgx-b200", "", "megatron-core"},
      {"megatron-core", "", "1", "151936", "8", "dgx-h100", "", "megatron-core"},
      {"Megatron-LM", "", "1", "32000", "", "selene", "", "megatron-lm-2023"},
      {"nemo", "", "1", "32000", "", "dgx-h100", "", "nemo-launcher"},
      {"nemo", "2", "1", "128256", "", "dgx-h100", "", "nemo"},
      {"deepspeed", "2", "1", "128256", "", "dgx-b200", "", "deepspeed-transformers"},
      {"deepspeed", "", "0", "51200", "", "selene", "", "deepspeed"},
      {"megatron-deepspeed", "", "0", "51200", "", "selene", "", "megatron-deepspeed-bf16"}, /* bf16: the default */
      {"megatron-deepspeed", "", "1", "32000", "", "selene", "", "megatron-deepspeed"},
      {"torchtitan", "2", "1", "128256", "", "selene", "", "torchtitan-compile"},
      {"torchtitan", "2", "1", "128256", "", "selene", "technique=FSDP", "torchtitan"},
  };
  g_autoptr(GString) text = g_string_new("framework,kv_heads,gated,vocab,experts,experts_per_token,cluster,notes,"
                                         "layers,hidden,heads,step_time_s\n");
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    g_string_append_printf(text, "%s,%s,%s,%s,%s,%s,%s,%s,2,64,4,1\n", cases[i].framework, cases[i].kv_heads,
                           cases[i].gated, cases[i].vocab, cases[i].experts, *cases[i].experts != '\0' ? "2" : "",
                           cases[i].cluster, cases[i].notes);
  g_autoptr(MeasuredRows) rows = rows_of(text->str);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    ck_assert_msg(g_strcmp0(nth_row(rows, (guint)i)->plan->framework, cases[i].expected) == 0,
                  "%" G_GSIZE_FORMAT ": %s", i, nth_row(rows, (guint)i)->plan->framework);
}

/* Without the rules of names these stand for their files; read_as does in any case. */
TEST(names_may_be_taken_as_they_are) {
  static const char text[] = "framework,read_as,kv_heads,gated,vocab,cluster,notes,layers,hidden,heads,step_time_s\n"
                             "Megatron-LM,,4,1,32000,selene,,2,64,4,1\n"
                             "torchtitan,,2,1,128256,dgx-h100,technique=torch.compile,2,64,4,1\n"
                             "nemo,torchtitan,2,1,128256,dgx-h100,,2,64,4,1\n";
  static const char *const expected[2][2] = {{"megatron-lm", "torchtitan"}, {"megatron-lm-2023", "torchtitan-compile"}};
  for (int by_release = 0; by_release <= 1; by_release++) {
    char *path = make_file(text, strlen(text));
    g_autoptr(GError) error = NULL;
    g_autoptr(MeasuredRows) rows = measured_rows_read(&path, 1, &(MeasuredAs){by_release}, &error);
    drop_file(path);
    ck_assert_msg(rows != NULL, "%s", error != NULL ? error->message : "");
    for (guint i = 0; i < 2; i++) {
      ck_assert_str_eq(nth_row(rows, i)->read_as, expected[by_release][i]);
      ck_assert_str_eq(nth_row(rows, i)->plan->framework, expected[by_release][i]);
      ck_assert_int_eq(nth_row(rows, i)->is_by_rule, by_release);
    }
    ck_assert_str_eq(nth_row(rows, 2)->read_as, "torchtitan");
    ck_assert(!nth_row(rows, 2)->is_by_rule);
  }
}

#define COLUMNS "framework,notes,layers,hidden,heads,cluster,step_time_s\n"

/* A name alone is compiled, as published runs of it are; with a list of techniques that has nothing of it, it is not.
 * Two names that nothing describes are predicted alike. */
TEST(runs_of_other_files_are_other_runs) {
  for (int order = 0; order <= 1; order++) {
    g_autoptr(MeasuredRows) rows =
        rows_of(order == 0 ? COLUMNS "torchtitan,,2,64,4,selene,1\n"
                                     "torchtitan,technique=FSDP,2,64,4,selene,1\ntorchtitan-compile,,2,64,4,selene,1\n"
                                     "mine,,2,64,4,selene,1\nyours,,2,64,4,selene,1\n"
                           : COLUMNS "torchtitan,technique=FSDP,2,64,4,selene,1\n"
                                     "torchtitan,,2,64,4,selene,1\ntorchtitan-compile,,2,64,4,selene,1\n"
                                     "yours,,2,64,4,selene,1\nmine,,2,64,4,selene,1\n");
    const guint compiled = order == 0 ? 0 : 1, eager = 1 - compiled;
    ck_assert_str_eq(nth_row(rows, eager)->read_as, "torchtitan");
    ck_assert_str_eq(nth_row(rows, compiled)->read_as, "torchtitan-compile");
    ck_assert_str_eq(nth_row(rows, 3)->read_as, "");
    g_autofree char *first = measured_row_run(nth_row(rows, 0)), *second = measured_row_run(nth_row(rows, 1));
    g_autofree char *full = measured_row_run(nth_row(rows, 2)), *mine = measured_row_run(nth_row(rows, 3));
    g_autofree char *yours = measured_row_run(nth_row(rows, 4));
    ck_assert_str_ne(first, second);
    ck_assert_str_eq(full, compiled == 0 ? first : second);
    ck_assert_str_eq(mine, yours);
  }
}

int main(void) {
  return run_tests();
}
