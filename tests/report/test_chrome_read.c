/* Chrome traces read back: exact times, with any white space, and what is refused. */
#include "chrome_read.h"
#include "run_suite.h"

#include "chrome_fixture.h"
#include "compare.h"
#include "error.h"
#include "hand_trace.h"
#include "json_report.h"
#include "trace_fixture.h"
#include <string.h>

static const FixtureTimes times = {.compute_ns = {[ACTION_F] = 1000, [ACTION_B] = 2000}, .send_ns = 100};

TEST(times_come_back_to_the_nanosecond) {
  /* 52 days less a bit are the most that microseconds with three digits hold exactly in a double. */
  static const gint64 starts_ns[] = {0, 1, 999, 2007, 1234567890123457, 4499999999999990};
  g_auto(Hand) hand = hand_new(1, G_N_ELEMENTS(starts_ns));
  for (guint i = 0; i < G_N_ELEMENTS(starts_ns); i++)
    hand_add(&hand, 0, hand_compute(&hand, 0, PHASE_F, ACTION_F, (int)i), 0, starts_ns[i], starts_ns[i] + 1 + i);
  g_autoptr(ChromeTrace) trace = read_back(hand_finish(&hand));
  ck_assert_uint_eq(trace->records->len, G_N_ELEMENTS(starts_ns));
  for (guint i = 0; i < G_N_ELEMENTS(starts_ns); i++) {
    const ChromeRecord *record = &g_array_index(trace->records, ChromeRecord, i);
    ck_assert_int_eq(record->start_ns, starts_ns[i]);
    ck_assert_int_eq(record->end_ns, starts_ns[i] + 1 + i);
    ck_assert_int_eq(record->micro_batch, i);
  }
}

TEST(records_say_what_the_ops_were) {
  g_auto(Fixture) fixture = fixture_new("interleaved", 2, 2, 4, &times);
  g_autoptr(ChromeTrace) trace = read_back(fixture.trace);
  ck_assert(trace->folded && trace->is_measured);
  ck_assert_int_eq(trace->n_stages, 4);
  ck_assert_int_eq(trace->n_micro_batches, 4);
  guint i = 0;
  for (int rank = 0; rank < 2; rank++) {
    const OpList *list = trace_list(fixture.trace, rank);
    for (int k = 0; k < list->n_ops; k++, i++) {
      const ChromeRecord *record = &g_array_index(trace->records, ChromeRecord, i);
      ck_assert_int_eq(record->rank, rank);
      ck_assert_int_eq(record->stream, list->ops[k].stream);
      ck_assert_int_eq(record->action, list->ops[k].action);
      ck_assert_int_eq(record->stage, list->ops[k].stage);
      ck_assert_int_eq(record->start_ns, fixture.trace->start_ns[i]);
      ck_assert((record->pair >= 0) == (list->ops[k].kind == OP_SEND || list->ops[k].kind == OP_RECV));
    }
  }
  ck_assert_uint_eq(trace->records->len, i);
}

TEST(a_file_with_other_spaces_reads_the_same) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_autofree char *text = text_of(fixture.trace);
  g_autoptr(GString) spaced = g_string_new(text);
  g_string_replace(spaced, "{", "\n { ", 0);
  g_string_replace(spaced, ",\"", " ,\r\n\t\"", 0);
  g_autoptr(ChromeTrace) trace = read_text(text, -1, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(ChromeTrace) other = read_text(spaced->str, -1, &error);
  ck_assert_msg(other != NULL, "%s", error ? error->message : "");
  ck_assert_uint_eq(trace->records->len, other->records->len);
  ck_assert_mem_eq(trace->records->data, other->records->data, trace->records->len * sizeof(ChromeRecord));
}

#define HEADER(more)                                                                                                   \
  "{\"otherData\":{\"producer\":\"stepsim 1\",\"what\":\"measured training step\",\"time_unit\":\"us\",\"folded\":"    \
  "false,\"recorded_ranks\":1,\"ranks\":1,\"stages\":1,\"micro_batches\":1,\"steps\":1" more "},\n\"traceEvents\":[\n"
#define LAYOUT ",\"layout\":{\"tp\":1,\"cp\":1,\"ep\":1,\"dp\":1,\"pp\":1},\"pipeline_stride\":1"
#define SLICE "{\"ph\":\"X\",\"pid\":1,\"tid\":16,\"ts\":0,\"dur\":1,\"name\":\"F\",\"cat\":\"F\""
#define ARGS ",\"args\":{\"step\":0,\"action\":\"F\",\"stage\":0,\"micro_batch\":0}}"

TEST(what_is_no_trace_of_ours_is_refused) {
  static const struct {
    const char *text, *words[3];
  } cases[] = {
      {"", {":1:", "an empty file"}},
      {"what?", {":1:", "\"w\"", "JSON"}},
      {"true", {":1:", "found true", "a JSON object"}},
      {"[1]", {":1:", "found a list"}},
      {"{}", {"no otherData", "producer", "simulate --trace"}},
      {"{\"otherData\":{}}", {"no otherData.producer"}},
      {"{\"otherData\":{\"producer\":\"kineto\"}}", {"\"kineto\"", "stepreal run --trace"}},
      {"{\"otherData\":{\"producer\":\"stepsim 1\"}}", {"no list traceEvents"}},
      {"{\"traceEvents\":[{\"ph\":\"X\"}]}", {"no otherData"}},
      {"{\"traceEvents\":[\n{\"ph\":\"M\"},\n{\"ph\" \"X\"}]}", {":3:"}},
      {"{\"traceEvents\":[\n{\"ph\":\"M\"}\n{\"ph\":\"X\"}]}", {":3:", "after array element"}},
      {"{\"traceEvents\":[{\"ph\":\"M\"},]}", {":1:", "unallowed token"}},
      {"{\"traceEvents\":[7]}", {":1:", "found 7", "an object"}},
      {"{\"traceEvents\":[],\"traceEvents\":[]}", {":1:", "a second time"}},
      {"{\"traceEvents\":[]}\n{}", {":2:", "trailing garbage"}},
      {"{\"traceEvents\":[\n{\"ph\":\"M\"", {":2:", "found the end of the file"}},
      {"{\"a\":12345678901234567890}", {"18 digits"}},
      {"{\"a\":\"\xff\"}", {"UTF-8"}},
      {"{\"a\":\"b\nc\"}", {":1:", "invalid character inside string"}},
      {HEADER("") "]}", {":1:", "layout: found none", "anew"}},
      {HEADER(",\"layout\":{\"tp\":2,\"cp\":1,\"ep\":1,\"dp\":1,\"pp\":1},\"pipeline_stride\":1") "]}", {"contradict"}},
      {HEADER(LAYOUT) "]}", {"found 0 ops"}},
      {HEADER(LAYOUT) SLICE "}]}", {":3:", "args"}},
      {HEADER(LAYOUT) "{\"pid\":1}]}", {":3:", "ph"}},
      {HEADER(LAYOUT) SLICE ",\"args\":{\"step\":0}}]}", {":3:", "action", "older"}},
      {HEADER(LAYOUT) SLICE ",\"args\":{\"step\":1,\"action\":\"F\"}}]}", {"step 1"}},
      {HEADER(LAYOUT) SLICE ",\"args\":{\"step\":-1,\"action\":\"F\"}}]}", {":3:", "step", "from 0"}},
      {HEADER(LAYOUT) SLICE ",\"ts\":-1" ARGS "]}", {":3:", "ts", "52 days"}},
      {HEADER(LAYOUT) SLICE ",\"tid\":40" ARGS "]}", {":3:", "tid", "16 to 31"}},
      {HEADER(LAYOUT) SLICE ",\"tid\":16.5" ARGS "]}", {":3:", "tid: found 16.5", "16 to 31"}},
      {HEADER(LAYOUT) SLICE ARGS ",\n{\"ph\":\"s\",\"pid\":1,\"tid\":20,\"id\":1}]}", {":4:", "right behind"}},
  };
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(ChromeTrace) trace = read_text(cases[i].text, -1, &error);
    ck_assert_msg(trace == NULL, "%s", cases[i].text);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    for (int k = 0; k < 3 && cases[i].words[k]; k++)
      ck_assert_msg(strstr(error->message, cases[i].words[k]) != NULL, "%s: %s", cases[i].text, error->message);
  }
  g_autoptr(ChromeTrace) trace = read_text(HEADER(LAYOUT) SLICE ",\"tid\":16.0" ARGS "]}", -1, NULL);
  ck_assert_ptr_nonnull(trace);
}

/* A stream is read block by block, and what is kept of it is bounded. */
TEST(a_value_or_a_beginning_without_end_is_refused) {
  static const struct {
    const char *begin, *more, *words;
  } cases[] = {{"{\"a\":\"", "\\n", "a value of more than 1 MiB"},
               {"{\"a\":[1", ",1234567890", "more than 1 MiB beside traceEvents"},
               {"{\"traceEvents\":[{\"name\":\"", "x", "a value of more than 1 MiB"}};
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GString) text = g_string_new(cases[i].begin);
    while (text->len < 3 << 20)
      g_string_append(text, cases[i].more);
    g_autoptr(GError) error = NULL;
    g_autoptr(ChromeTrace) trace = read_text(text->str, -1, &error);
    ck_assert_ptr_null(trace);
    ck_assert_msg(strstr(error->message, cases[i].words) != NULL, "%s", error->message);
  }
}

/* 32 KiB blocks end within characters of two to four bytes. */
TEST(characters_may_lie_across_blocks) {
  for (int shift = 0; shift < 4; shift++) {
    g_autoptr(GString) text = g_string_new("{\"a\":\"");
    g_string_append(text, &"xxx"[3 - shift]);
    while (text->len < 100000)
      g_string_append(text, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    g_string_append(text, "\"}");
    g_autoptr(GError) error = NULL;
    g_autoptr(ChromeTrace) trace = read_text(text->str, -1, &error);
    ck_assert_msg(strstr(error->message, "no otherData") != NULL, "%s", error->message);
  }
}

TEST(damaged_files_are_refused_or_read) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_autofree char *text = text_of(fixture.trace);
  gsize length = strlen(text);
  g_autoptr(ChromeTrace) whole = read_text(text, -1, NULL);
  for (gsize cut = 0; cut + 3 < length; cut += 97) { /* the last bytes are a bracket, a brace and a line's end */
    g_autoptr(ChromeTrace) trace = read_text(text, (gssize)cut, NULL);
    ck_assert_ptr_null(trace);
  }
  g_autoptr(GRand) random = g_rand_new_with_seed(1);
  for (int i = 0; i < 1500; i++) {
    g_autofree char *damaged = g_strdup(text);
    for (int n = g_rand_int_range(random, 1, 4); n > 0; n--) {
      static const char bytes[] = "{}[]\",:0179-.eE \n\\atf\x80";
      damaged[g_rand_int_range(random, 0, (gint32)length)] = bytes[g_rand_int_range(random, 0, sizeof bytes - 1)];
    }
    g_autoptr(GError) error = NULL;
    g_autoptr(ChromeTrace) trace = read_text(damaged, (gssize)length, &error);
    ck_assert((trace == NULL) == (error != NULL));
    g_autoptr(Compare) compare = trace != NULL ? compare_new(whole, trace, NULL) : NULL;
    g_autofree char *json = compare != NULL ? json_report_compare(compare, -1) : NULL;
    ck_assert(compare == NULL || json != NULL);
  }
}

int main(void) {
  folder = g_dir_make_tmp("stepsim-test-XXXXXX", NULL);
  const int failed = run_tests();
  g_rmdir(folder);
  g_free(folder);
  return failed;
}
