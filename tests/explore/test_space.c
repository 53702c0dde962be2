/* Configuration spaces: the meaning of a list, the configuration of an index, and what is refused. */
#include "run_suite.h"
#include "space.h"
#include "text_file.h"

#include "error.h"
#include "plan_fields.h"
#include <check.h>
#include <string.h>

typedef struct {
  const char *name, *text;
} Given;

/* Unfinished; ends with a NULL name. */
static Space *space_with(const Given *given) {
  Space *space = space_new();
  ck_assert(space_set(space, "model", "gpt2", NULL));
  ck_assert(space_set(space, "cluster", "selene", NULL));
  for (; given->name != NULL; given++)
    ck_assert(space_set(space, given->name, given->text, NULL));
  return space;
}

static Space *finished(const Given *given) {
  g_autoptr(GError) error = NULL;
  Space *space = space_with(given);
  gboolean ok = space_finish(space, &error);
  ck_assert_msg(ok, "%s", error == NULL ? "no message" : error->message);
  return space;
}

static void check_text(const Given *given, const char *expected) {
  g_autoptr(Space) space = finished(given);
  g_autofree char *text = space_text(space);
  g_autofree char *whole = g_strconcat("model=gpt2\ncluster=selene\n", expected, NULL);
  ck_assert_str_eq(text, whole);
}

TEST(ranges_are_written_out) {
  check_text((Given[]){{"tp", "1..4"}, {NULL}}, "tp=1,2,3,4\n");
  check_text((Given[]){{"tp", "1..16*2"}, {NULL}}, "tp=1,2,4,8,16\n");
  check_text((Given[]){{"tp", "1..15*2"}, {NULL}}, "tp=1,2,4,8\n");
  check_text((Given[]){{"gpus", "8..64+24"}, {NULL}}, "gpus=8,32,56\n");
  check_text((Given[]){{"zero", "0..3"}, {NULL}}, "zero=0,1,2,3\n");
  check_text((Given[]){{"tp", "3,6..8, 12..48*2"}, {NULL}}, "tp=3,6,7,8,12,24,48\n");
  check_text((Given[]){{"tp", "5..5"}, {NULL}}, "tp=5\n");
  check_text((Given[]){{"seq-len", "8Ki,16Ki..32Ki*2"}, {NULL}}, "seq-len=8192,16384,32768\n");
  check_text((Given[]){{"tp", "08"}, {NULL}}, "tp=8\n");
  /* the next power would not fit int64 */
  check_text((Given[]){{"seed", "1..4503599627370496*67108864"}, {NULL}}, "seed=1,67108864,4503599627370496\n");
}

TEST(axes_stand_in_the_order_of_help_whatever_order_they_came_in) {
  check_text((Given[]){{"zero", "1"}, {"pp", "2"}, {"tp", "4"}, {NULL}}, "tp=4\npp=2\nzero=1\n");
}

static const char *value_of(const Space *space, const char *name, gint64 index) {
  for (int axis = 0; axis < space_n_axes(space); axis++)
    if (strcmp(space_axis_name(space, axis), name) == 0)
      return space_axis_value(space, axis, index);
  return NULL;
}

TEST(an_index_is_written_in_mixed_radix_and_the_last_axis_turns_fastest) {
  g_autoptr(Space) space =
      finished((Given[]){{"tp", "1,2,4"}, {"pp", "1..3"}, {"schedule", "1f1b,gpipe"}, {"zero", "1"}, {NULL}});
  ck_assert_int_eq(space_count(space), 3 * 3 * 2);
  /* 7 = 1·(3·2) + 0·2 + 1 */
  ck_assert_str_eq(value_of(space, "tp", 7), "2");
  ck_assert_str_eq(value_of(space, "pp", 7), "1");
  ck_assert_str_eq(value_of(space, "schedule", 7), "gpipe");
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  const int tp[] = {1, 2, 4};
  const char *schedule[] = {"1f1b", "gpipe"};
  int n_wrong = 0;
  for (gint64 index = 0; index < 18; index++) {
    SpacePoint point;
    ck_assert(space_reader_read(reader, index, &point, NULL));
    n_wrong += point.plan->tp != tp[index / 6] || point.plan->pp != 1 + index / 2 % 3 ||
               strcmp(point.plan->schedule, schedule[index % 2]) != 0 || point.plan->zero != 1 || point.plan->dp != 0 ||
               point.model != space_model(space, 0) || point.cluster != space_cluster(space, 0);
  }
  ck_assert_int_eq(n_wrong, 0);
}

TEST(a_configuration_keeps_nothing_of_the_one_read_before) {
  g_autoptr(Space) space = finished((Given[]){{"schedule", "auto,1f1b"}, {"memory-cap", "10GB"}, {NULL}});
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  SpacePoint point;
  ck_assert(space_reader_read(reader, 0, &point, NULL));
  ck_assert(point.plan->memory_cap == 10e9);
  g_autoptr(GError) error = NULL;
  ck_assert(!space_reader_read(reader, 1, &point, &error)); /* only auto takes a cap */
  ck_assert_ptr_nonnull(strstr(error->message, "--memory-cap limits the order that --schedule auto makes"));
  ck_assert(space_reader_read(reader, 0, &point, NULL));
}

/* Whether both read the same: a plan, field by field with what frameworks set, or the same refusal. */
static gboolean read_the_same(SpaceReader *a, SpaceReader *b, gint64 index) {
  g_autoptr(GError) of_a = NULL, of_b = NULL;
  SpacePoint x, y;
  const gboolean is_read = space_reader_read(a, index, &x, &of_a);
  if (space_reader_read(b, index, &y, &of_b) != is_read || !is_read)
    return of_a != NULL && of_b != NULL && strcmp(of_a->message, of_b->message) == 0;
  gboolean are_same = memcmp(&x.plan->time, &y.plan->time, sizeof x.plan->time) == 0 &&
                      memcmp(&x.plan->memory, &y.plan->memory, sizeof x.plan->memory) == 0 &&
                      x.plan->slow_ranks->len == y.plan->slow_ranks->len;
  for (int i = 0; i < plan_n_fields(); i++) {
    g_autofree char *own = plan_field_text(plan_field(i), x.plan), *other = plan_field_text(plan_field(i), y.plan);
    are_same &= g_strcmp0(own, other) == 0;
  }
  return are_same;
}

/* A reader goes on from what it set for the one before: precision and framework set the recipe, a layout reads the
 * number of heads, and a memory cap the schedule. */
TEST(in_any_order_a_configuration_is_what_a_new_reader_reads) {
  g_autoptr(Space) space = finished((Given[]){{"tp", "1,2"},
                                              {"schedule", "auto,1f1b"},
                                              {"pipeline-layout", "Et*3|t*3L,Et*3|t*3mL,auto"},
                                              {"memory-cap", "20GB"},
                                              {"seq-len", "512,1024"},
                                              {"mtp-layers", "0,1"},
                                              {"precision", "bf16,fp32"},
                                              {"framework", "megatron-core,deepspeed"},
                                              {"recipe", "no-master,fp32"},
                                              {NULL}});
  g_autoptr(SpaceReader) kept = space_reader_new(space);
  g_autoptr(GRand) rand = g_rand_new_with_seed(3);
  for (int i = 0; i < 400; i++) {
    g_autoptr(SpaceReader) fresh = space_reader_new(space);
    const gint64 index = i < 200 ? i : g_rand_int_range(rand, 0, (gint32)space_count(space));
    ck_assert_msg(read_the_same(kept, fresh, index), "configuration %d", (int)index);
  }
}

TEST(models_and_clusters_are_axes_too) {
  g_autoptr(Space) space =
      finished((Given[]){{"model", "gpt2,llama-3-8b"}, {"cluster", "selene,dgx-h100"}, {"tp", "1,2"}, {NULL}});
  ck_assert_int_eq(space_count(space), 8);
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  SpacePoint point;
  ck_assert(space_reader_read(reader, 6, &point, NULL)); /* 1·4 + 1·2 + 0 */
  ck_assert_str_eq(point.cluster->name, "dgx-h100");
  ck_assert(point.model == space_model(space, 1) && point.plan->tp == 1);
}

TEST(a_space_larger_than_int64_is_counted_as_its_largest) {
  g_autoptr(Space) space = finished((Given[]){
      {"tp", "1..65536"}, {"pp", "1..65536"}, {"dp", "1..65536"}, {"micro-batch", "1..65536"}, {NULL}}); /* 2^64 */
  ck_assert_int_eq(space_count(space), G_MAXINT64);
}

TEST(equal_spaces_have_equal_texts_and_come_back_from_them) {
  g_autoptr(Space) space = finished((Given[]){{"tp", "1..4*2"}, {"schedule", "1f1b,zb-v"}, {NULL}});
  g_autofree char *text = space_text(space);
  g_autoptr(Space) again = space_new();
  ck_assert(!space_is_given(again));
  ck_assert(space_set_text(again, text, NULL));
  ck_assert(space_is_given(again));
  ck_assert(space_finish(again, NULL));
  g_autofree char *text_again = space_text(again);
  ck_assert_str_eq(text, text_again);
  ck_assert(!space_set_text(again, "tp\n", NULL));
}

/* The space of a file and of options typed beside it, as text; or the message of what is wrong with it. */
static char *read_file(const char *yaml, const Given *typed) {
  char *path = text_file_new(".yaml", yaml, -1);
  g_autoptr(Space) space = space_new();
  for (; typed->name != NULL; typed++)
    ck_assert(space_set(space, typed->name, typed->text, NULL));
  g_autoptr(GError) error = NULL;
  gboolean ok = space_read(space, path, &error) && space_finish(space, &error);
  text_file_drop(path);
  return ok ? space_text(space) : g_strdup(error->message);
}

TEST(a_file_has_the_same_keys_lists_and_ranges) {
  g_autofree char *text = read_file("model: gpt2\ncluster: selene\ntp: [1, 2..4]\npp: 1..4*2\nschedule: 1f1b,gpipe\n",
                                    (Given[]){{"pp", "7"}, {NULL}}); /* typed options go before the file's */
  ck_assert_str_eq(text, "model=gpt2\ncluster=selene\ntp=1,2,3,4\npp=7\nschedule=1f1b,gpipe\n");
  g_autofree char *columns =
      read_file("model: gpt2\ncluster: selene\nglobal_batch: 64\nsequence-parallel: [true, off]\n"
                "overlap_grad: false\noverlap_experts: true\n",
                (Given[]){{NULL}}); /* as columns of tables are named, and YAML's switches */
  ck_assert_str_eq(columns, "model=gpt2\ncluster=selene\nglobal-batch=64\nsequence-parallel=on,off\n"
                            "overlap-experts=on\noverlap-grad=off\n");
}

static void check_file_refused(const char *yaml, const char *part) {
  g_autofree char *message = read_file(yaml, (Given[]){{"model", "gpt2"}, {"cluster", "selene"}, {NULL}});
  ck_assert_msg(strstr(message, part) != NULL, "\"%s\" not in \"%s\"", part, message);
}

TEST(mistakes_in_a_file_name_their_line) {
  check_file_refused("tp: 1\npq: 2\n", ".yaml:2: unknown key \"pq\"");
  check_file_refused("tp: 1\nschedule: [1f1b, 1f2b]\n", ".yaml:2: unknown schedule \"1f2b\"");
  check_file_refused("tp: 1\ntp: 2\n", "found twice");
  check_file_refused("seq-len: 1024\nseq_len: 2048\n", ".yaml:2: seq_len: found seq_len beside seq-len in line 1");
  check_file_refused("tp: {a: 1}\n", ".yaml:1: tp: found a mapping");
  check_file_refused("tp:\n", ".yaml:1: tp: found nothing");
  check_file_refused("tp: [1, true]\n", ".yaml:1: --tp: found \"true\""); /* no switch: as it was written */
}

TEST(slow_ranks_are_those_of_every_configuration) {
  g_autoptr(Space) space = space_with((Given[]){{"gpus", "8"}, {"tp", "1,2"}, {NULL}});
  g_autoptr(Parser) parser = parser_new(NULL, NULL, NULL);
  space_add_slow_ranks(space, parser);
  char *words[] = {"explain", "--slow-rank", "5=1.4", "--slow-rank", "0..1=2", NULL}, **argv = words;
  int argc = G_N_ELEMENTS(words) - 1;
  ck_assert(parser_run(parser, &argc, &argv, FALSE, NULL) && space_finish(space, NULL));
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  for (gint64 i = 0; i < 2; i++) {
    SpacePoint point;
    ck_assert(space_reader_read(reader, i, &point, NULL));
    ck_assert_uint_eq(point.plan->slow_ranks->len, 3); /* 5, 0 and 1 */
    const SlowRank *last = &g_array_index(point.plan->slow_ranks, SlowRank, 2);
    ck_assert(last->rank == 1 && last->factor == 2);
  }
}

static void check_refused(const char *name, const char *text, const char *part) {
  g_autoptr(Space) space = space_with((Given[]){{name, text}, {NULL}});
  g_autoptr(GError) error = NULL;
  ck_assert_msg(!space_finish(space, &error), "--%s %s was taken", name, text);
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, part) != NULL, "\"%s\" not in \"%s\"", part, error->message);
}

TEST(a_value_that_makes_no_sense_by_itself_is_refused) {
  check_refused("tp", "", "--tp: found nothing");
  check_refused("tp", "1,,2", "--tp: found nothing between commas");
  check_refused("tp", "1,2,1", "--tp: 1 stands twice");
  check_refused("tp", "1..4,2", "--tp: 2 stands twice");
  check_refused("tp", "4..1", "expected FIRST..LAST");
  check_refused("tp", "0..8*2", "expected FIRST..LAST");
  check_refused("tp", "1..8*1", "expected FIRST..LAST");
  check_refused("tp", "1..8+0", "expected FIRST..LAST");
  check_refused("tp", "1..", "expected FIRST..LAST");
  check_refused("tp", "1-8", "found \"1-8\", expected whole numbers or FIRST..LAST");
  check_refused("tp", "2,4:8", "found \"4:8\", expected whole numbers or FIRST..LAST");
  check_refused("tp", "two", "--tp: found \"two\", expected a whole number");
  check_refused("tp", "1,0", "tp: found 0, expected 1");
  check_refused("tp", "1..100000", "more than 65536 values");
  check_refused("gpus", "0", "--gpus: found 0, expected at least 1");
  check_refused("zero", "0..4", "zero: found 4, expected 0 to 3");
  check_refused("schedule", "1f1b,1f2b", "unknown schedule \"1f2b\"");
  check_refused("recompute", "full,some", "--recompute: found \"some\"");
  check_refused("overlap-grad", "on,of", "expected on or off");
  check_refused("memory-cap", "10", "--memory-cap");
  check_refused("jitter", "0..0.1", "expected a number");
  check_refused("model", "gpt2,gpt-none", "gpt-none");
  check_refused("cluster", "selene,atlantis", "atlantis");
}

TEST(a_layout_in_letters_is_one_value_with_its_commas) {
  const Given given[] = {{"pipeline-layout", "auto, Et*2|(t*2|)*1,t*2,L,3+3+0,EttL"}, {"mtp-layers", "0"}, {NULL}};
  g_autoptr(Space) space = finished(given);
  ck_assert_int_eq(space_count(space), 4);
  ck_assert_str_eq(value_of(space, "pipeline-layout", 1), "Et*2|(t*2|)*1,t*2,L");
  ck_assert_str_eq(value_of(space, "pipeline-layout", 3), "EttL");
  g_autofree char *text = space_text(space);
  ck_assert_ptr_nonnull(strstr(text, "pipeline-layout=auto,Et*2|(t*2|)*1,t*2,L,3+3+0,EttL\n"));
  check_refused("pipeline-layout", "Et|t,auto", "found \"Et|t,auto\"");
}

/* Heads that predict further are said twice: a value of the one may go with one of the other. */
TEST(letters_go_with_as_many_heads_as_they_name) {
  g_autoptr(Space) space = finished((Given[]){{"pipeline-layout", "EtmL,EtL"}, {"mtp-layers", "0,1"}, {NULL}});
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  int n_possible = 0;
  for (gint64 index = 0; index < space_count(space); index++) {
    SpacePoint point;
    g_autoptr(GError) error = NULL;
    if (space_reader_read(reader, index, &point, &error))
      n_possible++;
    else
      ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  }
  ck_assert_int_eq(n_possible, 2);
}

TEST(unknown_options_and_missing_files_are_refused) {
  g_autoptr(Space) space = space_new();
  g_autoptr(GError) error = NULL;
  ck_assert(!space_set(space, "scheduel", "1f1b", &error));
  ck_assert_ptr_nonnull(strstr(error->message, "did you mean \"schedule\"?"));
  g_clear_error(&error);
  ck_assert(!space_finish(space, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "--model is missing"));
  g_clear_error(&error);
  g_autoptr(Space) without = space_new();
  ck_assert(space_set(without, "model", "gpt2", NULL) && !space_finish(without, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "--cluster is missing"));
}

int main(void) {
  return run_tests();
}
