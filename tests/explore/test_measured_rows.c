/* Rows of measured.csv: a valid row becomes its model and plan; a broken file is refused with the line its row begins
 * in; rows that cannot be modelled are kept, with the reason. */
#include "csv_text.h"
#include "plan.h"
#include "run_suite.h"

#include <math.h>

/* All columns in another order than the documented one, with one that nobody knows. */
static const char full_text[] =
    "notes,step_time_s,memory_gb,framework,overlap_param,overlap_grad,attention,precision,sequence_parallel,recompute,"
    "schedule,global_batch,micro_batch,zero_ranks,zero,dp,ep,cp,chunks,pp,tp,gpus,cluster,seq_len,moe_ffn_hidden,"
    "experts_per_token,experts,positions,tied,vocab,gated,ffn_hidden,kv_heads,heads,hidden,layers,model_name,source,id,"
    "colour\n"
    "\"quoted, \"\"twice\"\"\nand "
    "on\",1.25,32.5,nemo,off,on,unfused,fp8,on,selective,interleaved,64,2.0,4,2,8,1,1,3,4,2,"
    "64,dgx-h100,1024,,,,rotary,1,64000,1,11008,8,32,4096,24,a model,a source,a/1,blue\n";

TEST(every_cell_arrives) {
  g_autoptr(MeasuredRows) rows = rows_of(full_text);
  ck_assert_uint_eq(rows->rows->len, 1);
  const MeasuredRow *row = nth_row(rows, 0);
  ck_assert_msg(row->problem == NULL, "%s", row->problem);
  const Model *model = row->model;
  ck_assert_str_eq(model->name, "a model");
  ck_assert(model->n_layers == 24 && model->hidden == 4096 && model->n_heads == 32 && model->n_kv_heads == 8);
  ck_assert(model->head_dim == 128 && model->ffn_hidden == 11008 && model->vocab == 64000 && model->gated);
  ck_assert(model->tied && model->positions == POSITIONS_ROTARY && model->max_positions == 1024);
  const Plan *plan = row->plan;
  ck_assert(plan->gpus == 64 && plan->tp == 2 && plan->pp == 4 && plan->dp == 8 && plan->cp == 1 && plan->ep == 1);
  ck_assert(plan->chunks == 3 && plan->zero == 2 && plan->zero_ranks == 4);
  ck_assert(plan->micro_batch == 2 && plan->global_batch == 64 && plan->seq_len == 1024);
  ck_assert_str_eq(plan->schedule, "interleaved");
  ck_assert(plan->recompute == RECOMPUTE_SELECTIVE && plan->sequence_parallel && plan->precision == PRECISION_FP8);
  ck_assert(plan->attention == ATTENTION_UNFUSED && plan->overlap_grad && !plan->overlap_param);
  ck_assert_str_eq(plan->framework, "nemo");
  ck_assert_int_eq(plan->memory.spare_gradients, SPARE_GRADIENTS_KEPT);
  ck_assert_str_eq(row->cluster, "dgx-h100");
  ck_assert_str_eq(row->id, "a/1");
  ck_assert_double_eq(row->step_time_s, 1.25);
  ck_assert_double_eq(row->memory_bytes, 32.5e9);
  ck_assert_str_eq(measured_row_cell(row, "notes"), "quoted, \"twice\"\nand on");
  ck_assert_str_eq(measured_row_cell(row, "colour"), "blue");
  ck_assert_str_eq(measured_row_cell(row, "taste"), "");
}

/* A framework that no file describes adds nothing; one that a file describes holds the same in each row. */
TEST(a_framework_is_what_its_file_says_or_nothing) {
  g_autoptr(MeasuredRows) rows = rows_of("layers,hidden,heads,cluster,step_time_s,framework\n"
                                         "2,1024,16,selene,1,megatron-lm\n"
                                         "2,1024,16,selene,1,of our own\n"
                                         "2,1024,16,selene,1,megatron-lm\n"
                                         "2,1024,16,selene,1,of our own\n");
  for (guint i = 0; i < rows->rows->len; i++) {
    const Plan *plan = nth_row(rows, i)->plan;
    const FrameworkMemory none = {0};
    gboolean described = i % 2 == 0;
    ck_assert_str_eq(plan->recipe.name, described ? "megatron" : "bf16+master");
    ck_assert_int_eq(memcmp(&plan->memory, &none, sizeof none) == 0, !described);
    ck_assert_int_eq(plan->framework != NULL, described);
  }
}

TEST(empty_cells_and_missing_columns_are_the_default) {
  g_autoptr(MeasuredRows) rows = rows_of("layers,hidden,heads,cluster,step_time_s,gated,tp\n"
                                         "2,1024,16,selene,,,\n"
                                         "2,1024,16,selene,,1,\n");
  g_autoptr(Plan) plain = plan_new();
  const MeasuredRow *gpt = nth_row(rows, 0), *llama = nth_row(rows, 1);
  ck_assert(isnan(gpt->step_time_s) && isnan(gpt->memory_bytes));
  ck_assert_str_eq(gpt->id, "");
  ck_assert(gpt->model->n_kv_heads == 16 && gpt->model->vocab == 51200 && gpt->model->max_positions == 2048);
  ck_assert(!gpt->model->gated && gpt->model->tied && gpt->model->positions == POSITIONS_LEARNED);
  ck_assert_int_eq(gpt->model->ffn_hidden, 4096);
  ck_assert(llama->model->gated && !llama->model->tied && llama->model->positions == POSITIONS_ROTARY);
  /* 8·1024/3 = 2730.7, up to a multiple of 256 */
  ck_assert_int_eq(llama->model->ffn_hidden, 2816);
  ck_assert(gpt->plan->gpus == 0 && gpt->plan->dp == 0 && gpt->plan->tp == 1 && gpt->plan->chunks == 0);
  ck_assert(gpt->plan->global_batch == 0 && gpt->plan->seq_len == 0 && gpt->plan->schedule == NULL);
  ck_assert(gpt->plan->precision == plain->precision && gpt->plan->attention == plain->attention);
  ck_assert(gpt->plan->overlap_grad == plain->overlap_grad && gpt->plan->recompute == plain->recompute);
}

TEST(a_row_may_say_how_many_layers_each_stage_has) {
  g_autoptr(MeasuredRows) rows = rows_of("layers,hidden,heads,cluster,step_time_s,pp,mtp_layers,pipeline_layout\n"
                                         "24,1024,16,selene,1,4,,7+6*2+5\n"
                                         "24,1024,16,selene,1,4,,\n"
                                         "24,1024,16,selene,1,4,,6x4\n"
                                         "24,1024,16,selene,1,4,1,Et*7|(t*6|)*2t*5mL\n"
                                         "24,1024,16,selene,1,4,,Et*7|(t*6|)*2t*5mL\n"
                                         "24,1024,16,selene,1,4,,Et*7|t\n");
  ck_assert_str_eq(nth_row(rows, 0)->plan->pipeline_layout, "7+6*2+5");
  ck_assert_ptr_null(nth_row(rows, 1)->plan->pipeline_layout);
  ck_assert_ptr_nonnull(strstr(nth_row(rows, 2)->problem, "column pipeline_layout: found \"6x4\""));
  ck_assert_str_eq(nth_row(rows, 3)->plan->pipeline_layout, "7+6*2+5");
  ck_assert_int_eq(nth_row(rows, 3)->plan->mtp_layers, 1);
  ck_assert_ptr_nonnull(strstr(nth_row(rows, 4)->problem, "has 1 m, column mtp_layers is 0"));
  ck_assert_ptr_nonnull(strstr(nth_row(rows, 5)->problem, "column pipeline_layout: found \"Et*7|t\""));
}

#define CORE "layers,hidden,heads,cluster,step_time_s\n"

TEST(a_row_knows_the_line_it_begins_in) {
  /* a mark, an empty line, a cell over three lines, all three kinds of line ends, no end at the last */
  g_autoptr(MeasuredRows) rows = rows_of("\xef\xbb\xbf"
                                         "layers,hidden,heads,cluster,step_time_s,notes\r\n"
                                         "\r\n"
                                         "2,64,4,selene,1,\"a\r\nb\n,c\"\r\n"
                                         " 3 , 64,4 ,selene,2, two words \r"
                                         "   \n"
                                         "4,64,4,selene,3,");
  static const struct {
    int line, layers;
    const char *notes;
  } expected[] = {{3, 2, "a\r\nb\n,c"}, {6, 3, "two words"}, {8, 4, ""}};
  ck_assert_uint_eq(rows->rows->len, G_N_ELEMENTS(expected));
  for (guint i = 0; i < G_N_ELEMENTS(expected); i++) {
    const MeasuredRow *row = nth_row(rows, i);
    g_autofree char *place = measured_row_place(row), *ending = g_strdup_printf(".csv:%d", expected[i].line);
    ck_assert_msg(g_str_has_suffix(place, ending), "%s", place);
    ck_assert_int_eq(row->model->n_layers, expected[i].layers);
    ck_assert_str_eq(measured_row_cell(row, "notes"), expected[i].notes);
  }
}

static const struct {
  const char *text;
  int line;
  const char *words[3];
} mistakes[] = {
    {"", 1, {"no row"}},
    {CORE, 1, {"no row"}},
    {"layers,hiden,heads,cluster,step_time_s\n2,64,4,selene,1\n", 1, {"no column hidden", "\"hiden\""}},
    {"hidden,heads,cluster,step_time_s,layer\n64,4,selene,1,2\n", 1, {"no column layers", "\"layer\""}},
    {"hidden,heads,cluster,step_time_s\n64,4,selene,1\n", 1, {"no column layers"}},
    {"layers,hidden,heads,cluster\n2,64,4,selene\n", 1, {"no column step_time_s"}},
    {"layers,hidden,heads,cluster,step_time_s,layers\n2,64,4,selene,1,2\n", 1, {"layers", "twice"}},
    {CORE "2,64,4,\"sel\"ene,1\n", 2, {"quote"}},
    {CORE "2,64,4,sel\"ene,1\n", 2, {"quote"}},
    {CORE "2,64,4,selene,1\n2,64,4,\"selene,1\n2,64,4,selene,1\n", 3, {"never closed"}},
    {CORE "2,64,4,sel\xff,1\n", 2, {"0xff", "UTF-8"}},
};

TEST(mistakes_are_refused_with_line_and_column) {
  for (gsize i = 0; i < G_N_ELEMENTS(mistakes); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(MeasuredRows) rows = read_rows(mistakes[i].text, strlen(mistakes[i].text), &error);
    g_autofree char *line = g_strdup_printf(".csv:%d: ", mistakes[i].line);
    ck_assert_msg(rows == NULL, "%s was accepted", mistakes[i].text);
    ck_assert_msg(strstr(error->message, line) != NULL, "%s: %s", line, error->message);
    for (gsize w = 0; w < G_N_ELEMENTS(mistakes[i].words) && mistakes[i].words[w] != NULL; w++)
      ck_assert_msg(strstr(error->message, mistakes[i].words[w]) != NULL, "%s: %s", mistakes[i].words[w],
                    error->message);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  }
}

static const struct {
  const char *text, *words[3];
} bad_cells[] = {
    {CORE "2,64,4,\"a\nb\",fast\n", {"column step_time_s", "\"fast\"", "number above 0"}},
    {CORE "2,64,4,selene,0\n", {"step_time_s", "\"0\""}},
    {CORE "2,64,4,selene,-1\n", {"step_time_s", "\"-1\""}},
    {CORE "2,64,4,selene,nan\n", {"step_time_s", "\"nan\""}},
    {CORE "2,64,4,selene,inf\n", {"step_time_s", "\"inf\""}},
    {CORE "2,64,4,selene,1e999\n", {"step_time_s", "\"1e999\""}},
    {CORE "2,64,4,selene,1 s\n", {"step_time_s", "\"1 s\""}},
    {CORE "2.5,64,4,selene,1\n", {"layers", "\"2.5\"", "whole number from 1 to 100000"}},
    {CORE "0x2,64,4,selene,1\n", {"layers", "\"0x2\""}},
    {CORE "0,64,4,selene,1\n", {"layers", "\"0\""}},
    {CORE "2,1e30,4,selene,1\n", {"hidden", "\"1e30\""}},
    {"zero," CORE "4,2,64,4,selene,1\n", {"zero", "\"4\"", "from 0 to 3"}},
    {"gated," CORE "yes,2,64,4,selene,1\n", {"column gated", "\"yes\"", "on"}},
    {"positions," CORE "rotory,2,64,4,selene,1\n", {"positions", "did you mean \"rotary\""}},
    {"precision," CORE "bf17,2,64,4,selene,1\n", {"precision", "did you mean \"bf16\""}},
    {"schedule," CORE "1f2b,2,64,4,selene,1\n", {"schedule", "did you mean \"1f1b\""}},
    {"recompute," CORE "ful,2,64,4,selene,1\n", {"recompute", "did you mean \"full\""}},
    {"attention," CORE "Flesh,2,64,4,selene,1\n", {"attention", "did you mean \"flash\""}},
    {CORE "4,64,4,selene\n", {":3: found 4 cells", "expected 5 as the header"}},
    {CORE "4,64,4,selene,1,7\n", {":3: found 6 cells", "expected 5"}},
    {"memory_gb," CORE "80 GB,2,64,4,selene,1\n", {"memory_gb", "\"80 GB\""}},
    {"memory_of," CORE "devise,2,64,4,selene,1\n", {"memory_of", "did you mean \"device\""}},
};

/* Each between two rows that are read all the same. */
TEST(a_cell_that_cannot_be_read_costs_its_row_alone) {
  for (gsize i = 0; i < G_N_ELEMENTS(bad_cells); i++) {
    const char *row = strchr(bad_cells[i].text, '\n') + 1;
    const int n_before = (int)(row - bad_cells[i].text) - (int)strlen(CORE);
    g_autofree char *good = g_strdup_printf("%s2,64,4,selene,1\n", n_before > 0 ? "," : "");
    g_autofree char *text =
        g_strdup_printf("%.*s%s%s%s", (int)(row - bad_cells[i].text), bad_cells[i].text, good, row, good);
    g_autoptr(MeasuredRows) rows = rows_of(text);
    ck_assert_uint_eq(rows->rows->len, 3);
    ck_assert(nth_row(rows, 0)->problem == NULL && nth_row(rows, 2)->problem == NULL);
    const MeasuredRow *bad = nth_row(rows, 1);
    ck_assert_msg(bad->problem != NULL && bad->plan == NULL, "%s was accepted", bad_cells[i].text);
    for (gsize w = 0; w < G_N_ELEMENTS(bad_cells[i].words) && bad_cells[i].words[w] != NULL; w++)
      ck_assert_msg(strstr(bad->problem, bad_cells[i].words[w]) != NULL, "%s: %s", bad_cells[i].words[w], bad->problem);
    g_autofree char *run = measured_row_run(bad), *other = measured_row_run(nth_row(rows, 0));
    ck_assert_str_ne(run, other);
  }
}

TEST(a_zero_byte_is_refused) {
  static const char text[] = CORE "2,64,4,sel\0ene,1\n";
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(read_rows(text, sizeof text - 1, &error));
  ck_assert_msg(strstr(error->message, ".csv:2: ") != NULL, "%s", error->message);
}

/* Whatever the bytes: an answer or a message, and the same twice. */
TEST(broken_bytes_never_crash) {
  g_autoptr(GRand) random = g_rand_new_with_seed(7);
  int n_refused = 0;
  for (int i = 0; i < 300; i++) {
    g_autofree char *text = g_memdup2(full_text, sizeof full_text);
    gsize length = i % 4 == 0 ? (gsize)g_rand_int_range(random, 0, sizeof full_text) : sizeof full_text - 1;
    for (int n = g_rand_int_range(random, 1, 4); n > 0; n--)
      text[g_rand_int_range(random, 0, sizeof full_text - 1)] = ",\"\n\r \xff\0-9e"[g_rand_int_range(random, 0, 10)];
    g_autoptr(GError) error = NULL;
    g_autoptr(MeasuredRows) rows = read_rows(text, length, &error);
    if ((rows == NULL) != (error != NULL))
      ck_abort_msg("neither rows nor a message, or both");
    n_refused += rows == NULL;
  }
  ck_assert_int_gt(n_refused, 30);
  ck_assert_int_lt(n_refused, 300);
}

TEST(what_is_not_modelled_is_kept_with_its_reason) {
  g_autoptr(MeasuredRows) rows = rows_of("experts,kv_heads," CORE ",,2,64,4,selene,1\n"
                                         "8,,2,64,4,selene,1\n"
                                         ",,2,64,5,selene,1\n"
                                         ",3,2,64,4,selene,1\n"
                                         ",,,64,4,selene,1\n"
                                         ",,2,64,4,,1\n"
                                         "1,,2,64,4,selene,1\n"
                                         ",,100000,16777216,4,selene,1\n");
  static const char *const reasons[] = {
      NULL, "experts_per_token", "not a multiple of heads", "key-value heads", "not say layers", "not say cluster",
      NULL, "parameters"};
  ck_assert_uint_eq(rows->rows->len, G_N_ELEMENTS(reasons));
  for (guint i = 0; i < G_N_ELEMENTS(reasons); i++) {
    const char *problem = nth_row(rows, i)->problem;
    ck_assert_msg((problem == NULL) == (reasons[i] == NULL), "row %u: %s", i, problem);
    ck_assert_msg(problem == NULL || strstr(problem, reasons[i]) != NULL, "row %u: %s", i, problem);
  }
}

/* 64 GPUs, tp 2, pp 4: 8 of dp. Groups of 8 fit beside experts cut by tp, groups of 16 are made of whole ones. */
TEST(experts_are_whole_where_no_other_way_fits) {
  g_autoptr(MeasuredRows) rows =
      rows_of("experts,experts_per_token,gpus,tp,pp,ep,sequence_parallel," CORE "32,2,64,2,4,8,on,4,1024,16,selene,1\n"
              "32,2,64,2,4,16,on,4,1024,16,selene,1\n");
  for (guint i = 0; i < 2; i++) {
    const MeasuredRow *row = nth_row(rows, i);
    ck_assert_int_eq(plan_expert_tp(row->plan), i == 0 ? 2 : 1);
    g_autoptr(Plan) plan = plan_copy(row->plan);
    ck_assert(plan_complete(plan, row->model, NULL, NULL));
  }
}

TEST(only_what_was_run_tells_runs_apart) {
  g_autoptr(MeasuredRows) rows =
      rows_of("notes,tp," CORE "a,1,2,64,4,selene,1\nb,1,2,64,4,selene,2\na,2,2,64,4,selene,1\n"
              "a,1,2,64,4,dgx-h100,1\n");
  g_autofree char *first = measured_row_run(nth_row(rows, 0)), *second = measured_row_run(nth_row(rows, 1));
  g_autofree char *third = measured_row_run(nth_row(rows, 2)), *fourth = measured_row_run(nth_row(rows, 3));
  ck_assert_str_eq(first, second);
  ck_assert_str_ne(first, third);
  ck_assert_str_ne(first, fourth);
}

/* Left out it is 1f1b, and interleaved with chunks. */
TEST(a_schedule_is_the_same_however_it_is_spelled) {
  g_autoptr(MeasuredRows) rows =
      rows_of("schedule,pp,chunks," CORE "1f1b,2,1,2,64,4,selene,1\n1F1B,2,1,2,64,4,selene,1\n,2,1,2,64,4,selene,1\n"
              "interleaved,2,2,4,64,4,selene,1\n,2,2,4,64,4,selene,1\ngpipe,2,1,2,64,4,selene,1\n");
  g_autofree char *named = measured_row_run(nth_row(rows, 0)), *loud = measured_row_run(nth_row(rows, 1)),
                  *silent = measured_row_run(nth_row(rows, 2)), *chunks = measured_row_run(nth_row(rows, 3)),
                  *silent_chunks = measured_row_run(nth_row(rows, 4)), *other = measured_row_run(nth_row(rows, 5));
  ck_assert_str_eq(named, loud);
  ck_assert_str_eq(named, silent);
  ck_assert_str_eq(chunks, silent_chunks);
  ck_assert_str_ne(named, chunks);
  ck_assert_str_ne(named, other);
}

/* The framework run so, if it is described: one technique or several, in any order; what is not described is left out.
 */
TEST(notes_may_say_more_of_the_framework) {
  static const struct {
    const char *framework, *notes, *expected;
  } cases[] = {
      {"torchtitan", "Table 3; technique=FSDP", "torchtitan"},
      {"torchtitan", "Table 3; technique=FSDP + torch.compile", "torchtitan-compile"},
      {"torchtitan", "technique=vanilla TP + torch.compile; more", "torchtitan-compile"},
      {"torchtitan", "technique=async TP + torch.compile", "torchtitan-compile-async-tp"},
      {"torchtitan", "technique=torch.compile+Async TP", "torchtitan-compile-async-tp"},
      {"torchtitan", "technique=async TP", "torchtitan"},
      {"torchtitan", "technique= + ", "torchtitan"},
      {"torchtitan", "its technique=torch.compile", "torchtitan-compile"}, /* lists none: published ones are */
      {"megatron-lm", "technique=torch.compile", "megatron-lm"},
      {"TorchTitan", "technique=torch.compile", "torchtitan-compile"},
      {"Megatron-LM", "", "megatron-lm"},
      {"Megatron LM", "", "megatron-lm"},
      {"Mine", "", NULL},
      {"mine", "technique=torch.compile", NULL},
      {"", "technique=torch.compile", NULL},
  };
  g_autoptr(GString) text = g_string_new("framework,notes,layers,hidden,heads,cluster,step_time_s\n");
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    g_string_append_printf(text, "%s,%s,2,64,4,selene,1\n", cases[i].framework, cases[i].notes);
  g_autoptr(MeasuredRows) rows = rows_of(text->str);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    ck_assert_msg(g_strcmp0(nth_row(rows, (guint)i)->plan->framework, cases[i].expected) == 0, "%s, %s: %s",
                  cases[i].framework, cases[i].notes, nth_row(rows, (guint)i)->plan->framework);
  ck_assert_int_eq(nth_row(rows, 0)->plan->time.kernels, FRAMEWORK_KERNELS_PLAIN);
  ck_assert_int_eq(nth_row(rows, 1)->plan->time.kernels, FRAMEWORK_KERNELS_FUSED);
  g_autofree char *eager = measured_row_run(nth_row(rows, 0)), *compiled = measured_row_run(nth_row(rows, 1)),
                  *other = measured_row_run(nth_row(rows, 2));
  ck_assert_str_ne(eager, compiled);
  ck_assert_str_eq(compiled, other);
}

/* A column says how RMSNorm runs, or the kernels that the notes name; and the two are different runs. */
TEST(a_row_may_say_that_its_norm_is_fused) {
  static const char *const notes[] = {"from a page", "a page; kernel=flash_attention2 + RMS kernel; more",
                                      "a page; kernel=flash_attention2", "RMS kernel"};
  static const int expected[] = {-1, FRAMEWORK_KERNELS_FUSED, -1, -1};
  g_autoptr(GString) text = g_string_new("notes,layers,hidden,heads,cluster,step_time_s\n");
  for (gsize i = 0; i < G_N_ELEMENTS(notes); i++)
    g_string_append_printf(text, "%s,2,64,4,selene,1\n", notes[i]);
  g_autoptr(MeasuredRows) rows = rows_of(text->str);
  for (gsize i = 0; i < G_N_ELEMENTS(notes); i++)
    ck_assert_int_eq(nth_row(rows, (guint)i)->plan->norm_kernel, expected[i]);
  g_autofree char *plain = measured_row_run(nth_row(rows, 0)), *fused = measured_row_run(nth_row(rows, 1));
  ck_assert_str_ne(plain, fused);
  g_autoptr(MeasuredRows) column =
      rows_of("norm_kernel,layers,hidden,heads,cluster,step_time_s\nplain,2,64,4,selene,1\n");
  ck_assert_int_eq(nth_row(column, 0)->plan->norm_kernel, FRAMEWORK_KERNELS_PLAIN);
}

/* What columns say of experts goes before what follows from the others. */
TEST(names_of_choices_may_be_spelled_otherwise) {
  g_autoptr(MeasuredRows) rows = rows_of("layers,hidden,heads,cluster,step_time_s,pp,chunks,schedule,recompute\n"
                                         "8,1024,16,selene,1,2,2,ZB_V,Full\n");
  const MeasuredRow *row = nth_row(rows, 0);
  ck_assert_msg(row->problem == NULL, "%s", row->problem);
  ck_assert_str_eq(row->plan->schedule, "zb-v");
  ck_assert_int_eq(row->plan->recompute, RECOMPUTE_FULL);
}

TEST(a_column_says_how_contexts_exchange) {
  g_autoptr(MeasuredRows) rows = rows_of("cp_comm," CORE "all-gather,4,1024,16,selene,1\n,4,1024,16,selene,1\n"
                                         "gathered,4,1024,16,selene,1\n");
  ck_assert_int_eq(nth_row(rows, 0)->plan->cp_comm, CP_ALL_GATHER);
  ck_assert_int_eq(nth_row(rows, 1)->plan->cp_comm, CP_RING);
  ck_assert_ptr_nonnull(strstr(nth_row(rows, 2)->problem, "all_gather"));
}

TEST(columns_say_how_experts_are_run) {
  g_autoptr(MeasuredRows) rows =
      rows_of("recompute,recompute_modules,expert_dispatch,overlap_experts,cuda_graphs,expert_tp,mtp_layers," CORE
              "selective,layernorm+mlp,deepep,off,attention,1,1,4,1024,16,selene,1\n,,,,,,,4,1024,16,selene,1\n"
              ",,flex,,,,,4,1024,16,selene,1\nselective,mpl,,,,,,4,1024,16,selene,1\n"
              ",,,,all,,,4,1024,16,selene,1\n");
  const Plan *said = nth_row(rows, 0)->plan, *open = nth_row(rows, 1)->plan;
  ck_assert_int_eq(said->expert_dispatch, DISPATCH_DEEPEP);
  ck_assert_int_eq(open->expert_dispatch, -1);
  ck_assert_int_eq(said->overlap_experts, FALSE);
  ck_assert_int_eq(open->overlap_experts, -1);
  ck_assert_int_eq(said->cuda_graphs, CUDA_GRAPHS_ATTENTION);
  ck_assert_int_eq(open->cuda_graphs, -1);
  ck_assert_int_eq(said->expert_tp, 1);
  ck_assert_int_eq(open->expert_tp, 0);
  ck_assert_int_eq(said->mtp_layers, 1);
  ck_assert_int_eq(open->mtp_layers, 0);
  ck_assert_uint_eq(said->recompute_modules, MODULE_BIT(MODULE_LAYERNORM) | MODULE_BIT(MODULE_MLP));
  ck_assert_uint_eq(open->recompute_modules, 0);
  ck_assert_ptr_nonnull(strstr(nth_row(rows, 2)->problem, "all_to_all"));
  ck_assert_ptr_nonnull(strstr(nth_row(rows, 3)->problem, "mlp"));
  ck_assert_ptr_nonnull(strstr(nth_row(rows, 4)->problem, "attention"));
}

TEST(written_cells_are_read_back) {
  static const char *const odd[] = {"", "plain", "a,b", "\"", "\"\"x\"", "two\nlines", " blanks ", "é", "\r"};
  g_autoptr(GString) text = g_string_new(NULL);
  for (gsize i = 0; i < G_N_ELEMENTS(odd); i++) {
    g_autofree char *name = g_strdup_printf("c%zu", i);
    csv_append_cell(text, name);
  }
  csv_end_row(text);
  for (gsize i = 0; i < G_N_ELEMENTS(odd); i++)
    csv_append_cell(text, odd[i]);
  csv_end_row(text);
  csv_append_number(text, 1.5);
  csv_append_number(text, NAN);
  for (gsize i = 2; i < G_N_ELEMENTS(odd); i++)
    csv_append_number(text, -1e-9);
  csv_end_row(text);
  char *path = make_file(text->str, text->len);
  g_autoptr(GError) error = NULL;
  g_autoptr(CsvTable) table = csv_table_read(path, &error);
  drop_file(path);
  ck_assert_msg(table != NULL, "%s", error == NULL ? "" : error->message);
  ck_assert_uint_eq(csv_table_n_rows(table), 2);
  for (gsize i = 0; i < G_N_ELEMENTS(odd); i++)
    ck_assert_str_eq(csv_table_cell(table, 0, (int)i), odd[i]);
  ck_assert_str_eq(csv_table_cell(table, 1, 0), "1.5");
  ck_assert_str_eq(csv_table_cell(table, 1, 1), "");
  ck_assert_str_eq(csv_table_cell(table, 1, 2), "-1e-09");
}

/* Neighbours of 0.1, and of 1/3, whose 16th and 17th digits count; the least double and the greatest. */
TEST(a_number_reads_back_as_it_was) {
  const double values[] = {0.1,      nextafter(0.1, 1),     1.0 / 3, nextafter(1.0 / 3, 0), 4.9406564584124654e-324,
                           5e15 + 1, 1.7976931348623157e308};
  for (gsize i = 0; i < G_N_ELEMENTS(values); i++) {
    g_autoptr(GString) text = g_string_new(NULL);
    csv_append_number(text, values[i]);
    ck_assert_double_eq(g_ascii_strtod(text->str, NULL), values[i]);
  }
  g_autoptr(GString) shortest = g_string_new(NULL);
  csv_append_number(shortest, 0.1);
  ck_assert_str_eq(shortest->str, "0.1,");
}

int main(void) {
  return run_tests();
}
