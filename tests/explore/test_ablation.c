/* Parts of the model removed for measured rows. Frameworks and rows are chosen to show which part affects what:
 * megatron-deepspeed has all parts except rates, torchtitan has rates, and both overlap pipelines and gradients. */
#include "csv_text.h"
#include "plan.h"
#include "run_suite.h"
#include "validation.h"

#define HEAD                                                                                                           \
  "id,framework,layers,hidden,heads,vocab,seq_len,positions,precision,cluster,gpus,tp,pp,cp,zero,sequence_parallel,"   \
  "micro_batch,global_batch,step_time_s\n"
/* Two nodes: tp of 2 in a node, stages and replicas between them; or two parts of each sequence. */
#define RUN ",8,2048,16,8000,2048,rotary,bf16,"
#define PLAN ",16,2,4,1,1,on,1,32,1\n"
#define PLAN_CP ",16,2,4,2,1,on,1,32,1\n"

enum { DEEPSPEED, TORCHTITAN, NO_FRAMEWORK, N_ROWS };
static const char rows_text[] = HEAD "a,megatron-deepspeed" RUN "aleph-a100" PLAN /* */
                                     "b,torchtitan" RUN "torchtitan-h100" PLAN_CP /* */
                                     "c," RUN "aleph-a100" PLAN;

static Validation *validate_without(const char *parts_named) {
  g_autoptr(GError) error = NULL;
  MeasuredRows *rows = rows_of(rows_text);
  Parts parts = 0;
  ck_assert_msg(*parts_named == '\0' || parts_parse(parts_named, &parts, &error), "%s",
                error == NULL ? "no message" : error->message);
  measured_rows_take_away(rows, parts);
  ck_assert_uint_eq(rows->without, parts);
  Validation *validation = validation_run(rows, NULL, 1, &error);
  ck_assert_msg(validation != NULL, "%s", error == NULL ? "no message" : error->message);
  for (int i = 0; i < N_ROWS; i++)
    ck_assert_msg(validation->predictions[i].problem == NULL, "%s", validation->predictions[i].problem);
  return validation;
}

/* What a part changes in a row, and in which direction: −1 the prediction gets less without it, 0 it stays. */
static const struct {
  const char *part;
  int row;
  int time, bytes;
} effects[] = {
    {"host", DEEPSPEED, -1, 0},          {"waits", DEEPSPEED, -1, 0},
    {"kernels", DEEPSPEED, -1, -1},      {"tensor-parallel", DEEPSPEED, -1, 0},
    {"skew", DEEPSPEED, -1, 0},          {"memory", DEEPSPEED, 0, -1},
    {"contention", NO_FRAMEWORK, -1, 0}, {"framework", DEEPSPEED, -1, -1},
    {"rates", TORCHTITAN, -1, 0},        {"data-parallel", DEEPSPEED, -1, 0},
    {"context", TORCHTITAN, -1, -1},
};

static int sign(double difference) {
  return (difference > 0) - (difference < 0);
}

LOOP_TEST(each_part_is_worth_something, G_N_ELEMENTS(effects)) {
  g_autoptr(Validation) whole = validate_without("");
  const char *part = effects[_i].part;
  g_autoptr(Validation) without = validate_without(part);
  const RowPrediction *less = &without->predictions[effects[_i].row], *all = &whole->predictions[effects[_i].row];
  ck_assert_msg(sign(less->step_time_s - all->step_time_s) == effects[_i].time, "%s: %.9g s, %.9g without", part,
                all->step_time_s, less->step_time_s);
  ck_assert_msg(sign(less->peak_bytes - all->peak_bytes) == effects[_i].bytes, "%s: %.9g bytes, %.9g without", part,
                all->peak_bytes, less->peak_bytes);
}

TEST(every_part_is_tried_here) {
  for (int i = 0; i < parts_count(); i++) {
    gboolean is_tried = FALSE;
    for (gsize e = 0; e < G_N_ELEMENTS(effects); e++)
      is_tried |= strcmp(effects[e].part, part_name(i)) == 0;
    ck_assert_msg(is_tried, "%s", part_name(i));
  }
}

static void check_same(const RowPrediction *a, const RowPrediction *b) {
  ck_assert_double_eq(a->step_time_s, b->step_time_s);
  ck_assert_double_eq(a->peak_bytes, b->peak_bytes);
}

/* Row c differs from row a in that it names no framework. */
TEST(a_framework_taken_away_is_no_framework) {
  g_autoptr(Validation) without = validate_without("framework");
  check_same(&without->predictions[DEEPSPEED], &without->predictions[NO_FRAMEWORK]);
}

TEST(a_framework_is_all_its_parts) {
  g_autoptr(Validation) at_once = validate_without("framework");
  g_autoptr(Validation) one_by_one =
      validate_without("host,waits,rates,kernels,tensor-parallel,data-parallel,context,skew,memory");
  check_same(&at_once->predictions[DEEPSPEED], &one_by_one->predictions[DEEPSPEED]);
  check_same(&at_once->predictions[TORCHTITAN], &one_by_one->predictions[TORCHTITAN]);
}

TEST(a_row_without_framework_has_none_of_its_parts) {
  g_autoptr(Validation) whole = validate_without("");
  g_autoptr(Validation) without = validate_without("framework");
  check_same(&whole->predictions[NO_FRAMEWORK], &without->predictions[NO_FRAMEWORK]);
}

TEST(a_recipe_of_the_precision_stays) {
  static const char text[] = HEAD "a,megatron-lm,8,2048,16,32000,2048,rotary,fp32,selene,1,1,1,1,0,off,1,1,1\n"
                                  "b,megatron-lm,8,2048,16,32000,2048,rotary,bf16,selene,1,1,1,1,0,off,1,1,1\n";
  g_autoptr(MeasuredRows) rows = rows_of(text);
  Parts parts = 0;
  ck_assert(parts_parse("memory", &parts, NULL));
  ck_assert_str_eq(nth_row(rows, 1)->plan->recipe.name, "megatron");
  measured_rows_take_away(rows, parts);
  ck_assert_str_eq(nth_row(rows, 0)->plan->recipe.name, "fp32");
  ck_assert_str_eq(nth_row(rows, 1)->plan->recipe.name, "bf16+master");
}

TEST(parts_are_listed_in_the_order_of_the_table) {
  Parts parts = 0;
  ck_assert(parts_parse(" skew, host ", &parts, NULL));
  g_autofree char *text = parts_text(parts);
  ck_assert_str_eq(text, "host, skew");
  g_autofree char *none = parts_text(0);
  ck_assert_str_eq(none, "");
}

static const struct {
  const char *text, *words;
} refused[] = {
    {"", "found \"\""},
    {"skew,", "found \"\""},
    {"skew,hosts", "did you mean \"host\""},
    {"host,skew,host", "\"host\" is named twice"},
    {"Skew", "did you mean \"skew\""},
};

LOOP_TEST(parts_that_make_no_sense_are_refused, G_N_ELEMENTS(refused)) {
  g_autoptr(GError) error = NULL;
  Parts parts;
  ck_assert(!parts_parse(refused[_i].text, &parts, &error));
  ck_assert_int_eq(error->code, STEPSIM_ERROR_INPUT);
  ck_assert_msg(strstr(error->message, refused[_i].words) != NULL, "%s", error->message);
}

int main(void) {
  return run_tests();
}
