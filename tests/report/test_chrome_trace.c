/* Chrome traces, read back with a JSON parser; files are written completely or not at all. */
#include "chrome_trace.h"
#include "run_suite.h"
#include "text_file.h"

#include "error.h"
#include "hand_trace.h"
#include "json_values.h"
#include "trace_fixture.h"
#include <check.h>
#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char *folder; /* of this run; removed at the end */

static char *in_folder(const char *name) {
  return g_build_filename(folder, name, NULL);
}

static int n_files_in_folder(void) {
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  int n = 0;
  while (g_dir_read_name(dir))
    n++;
  return n;
}

static char *written(const Trace *trace, ChromeDetail detail) {
  g_autofree char *file = in_folder("trace.json");
  g_autoptr(GError) error = NULL;
  ck_assert_msg(chrome_trace_write_detail(trace, detail, file, &error), "%s", error ? error->message : "");
  char *text = text_file_read(file);
  g_unlink(file);
  return text;
}

static JsonParser *parsed(const char *text) {
  JsonParser *parser = json_parser_new();
  g_autoptr(GError) error = NULL;
  ck_assert_msg(json_parser_load_from_data(parser, text, -1, &error), "%s", error ? error->message : "");
  return parser;
}

static JsonArray *events_of(JsonParser *parser) {
  return json_object_get_array_member(json_node_get_object(json_parser_get_root(parser)), "traceEvents");
}

static gboolean is_event(JsonObject *event, const char *phase, const char *category) {
  return g_str_equal(json_object_get_string_member(event, "ph"), phase) &&
         (!category || g_str_equal(json_object_get_string_member(event, "cat"), category));
}

static int count_events(JsonArray *events, const char *phase, const char *category) {
  int n = 0;
  for (guint i = 0; i < json_array_get_length(events); i++)
    n += is_event(json_array_get_object_element(events, i), phase, category);
  return n;
}

/* Nanoseconds, exactly. */
static gint64 ns_of(JsonObject *event, const char *member) {
  return (gint64)(json_object_get_double_member(event, member) * 1000 + 0.5);
}

static const FixtureTimes times = {.compute_ns = {[ACTION_F] = 1000, [ACTION_B] = 2001}, .send_ns = 7};

START_TEST(every_record_is_one_slice) {
  /* 1f1b, p = 4, m = 6: 6·4 F and as many B; over 3 boundaries 6 sends and 6 receives each way. */
  g_auto(Fixture) fixture = fixture_new("1f1b", 4, 1, 6, &times);
  g_autofree char *text = written(fixture.trace, CHROME_DETAIL_AUTO);
  g_autoptr(JsonParser) parser = parsed(text);
  JsonArray *events = events_of(parser);
  ck_assert_int_eq(count_events(events, "X", "F"), 24);
  ck_assert_int_eq(count_events(events, "X", "B"), 24);
  ck_assert_int_eq(count_events(events, "X", "send"), 36);
  ck_assert_int_eq(count_events(events, "X", "recv"), 36);
  ck_assert_int_eq(count_events(events, "X", NULL), 120);
}
END_TEST

START_TEST(slices_have_the_times_of_their_records_to_the_nanosecond) {
  /* p = 2, m = 1, F 1000 ns, send 7 ns, B 2001 ns: stage 1's B runs from 1000 + 7 + 1000 for 2001 ns. */
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_autofree char *text = written(fixture.trace, CHROME_DETAIL_AUTO);
  ck_assert_ptr_nonnull(strstr(text, "\"ts\":2.007,\"dur\":2.001,\"name\":\"B 1 · mb 0\",\"cat\":\"B\""));
}
END_TEST

START_TEST(slices_of_a_track_follow_one_another) {
  g_auto(Fixture) fixture = fixture_new("interleaved", 4, 2, 8, &times);
  g_autofree char *text = written(fixture.trace, CHROME_DETAIL_AUTO);
  g_autoptr(JsonParser) parser = parsed(text);
  JsonArray *events = events_of(parser);
  g_autoptr(GHashTable) ends_ns = g_hash_table_new_full(NULL, NULL, NULL, g_free);
  for (guint i = 0; i < json_array_get_length(events); i++) {
    JsonObject *event = json_array_get_object_element(events, i);
    if (!is_event(event, "X", NULL))
      continue;
    gpointer track = GINT_TO_POINTER(json_object_get_int_member(event, "tid"));
    const gint64 *end_ns = g_hash_table_lookup(ends_ns, track);
    gint64 start_ns = ns_of(event, "ts");
    ck_assert_int_ge(start_ns, end_ns ? *end_ns : 0);
    gint64 own_end_ns = start_ns + ns_of(event, "dur");
    g_hash_table_insert(ends_ns, track, g_memdup2(&own_end_ns, sizeof own_end_ns));
  }
  /* Four ranks: compute, and both directions of sends and receives. The ring of interleaving uses them all. */
  ck_assert_uint_eq(g_hash_table_size(ends_ns), 4 * 5);
}
END_TEST

START_TEST(each_send_has_an_arrow_to_its_receive) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 3, 1, 4, &times);
  g_autofree char *text = written(fixture.trace, CHROME_DETAIL_AUTO);
  g_autoptr(JsonParser) parser = parsed(text);
  JsonArray *events = events_of(parser);
  g_autoptr(GHashTable) from = g_hash_table_new(NULL, NULL);
  for (guint i = 0; i < json_array_get_length(events); i++) {
    JsonObject *event = json_array_get_object_element(events, i);
    if (is_event(event, "s", NULL))
      g_hash_table_insert(from, GINT_TO_POINTER(json_object_get_int_member(event, "id")), event);
  }
  /* 2 boundaries, 4 micro-batches, 2 directions. */
  ck_assert_uint_eq(g_hash_table_size(from), 16);
  for (guint i = 0; i < json_array_get_length(events); i++) {
    JsonObject *event = json_array_get_object_element(events, i);
    if (!is_event(event, "f", NULL))
      continue;
    gpointer id = GINT_TO_POINTER(json_object_get_int_member(event, "id"));
    JsonObject *start = g_hash_table_lookup(from, id);
    ck_assert_ptr_nonnull(start);
    ck_assert_str_eq(json_object_get_string_member(event, "bp"), "e");
    ck_assert_int_eq(ABS(json_object_get_int_member(event, "pid") - json_object_get_int_member(start, "pid")), 1);
    ck_assert_int_ge(ns_of(event, "ts"), ns_of(start, "ts"));
    g_hash_table_remove(from, id);
  }
  ck_assert_uint_eq(g_hash_table_size(from), 0);
}
END_TEST

START_TEST(processes_and_threads_are_named) {
  g_auto(Fixture) fixture = fixture_new("interleaved", 2, 2, 2, &times);
  g_autofree char *text = written(fixture.trace, CHROME_DETAIL_AUTO);
  ck_assert_ptr_nonnull(strstr(text, "{\"name\":\"stages 1, 3 (rank 1)\"}"));
  ck_assert_ptr_nonnull(strstr(text, "\"thread_name\",\"args\":{\"name\":\"compute\"}"));
}
END_TEST

START_TEST(a_folded_rank_says_whom_it_stands_for) {
  /* tp 8 · dp 16 · pp 2, innermost first: pipeline rank 1 begins at rank 128 and stands for 128 ranks. */
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  fixture.trace->layout = (Layout){.size = {[AXIS_TP] = 8, [AXIS_CP] = 1, [AXIS_EP] = 1, [AXIS_DP] = 16, [AXIS_PP] = 2},
                                   .stride = {1, 8, 8, 8, 128},
                                   .dp_shard = 16,
                                   .n_ranks = 256};
  g_autofree char *text = written(fixture.trace, CHROME_DETAIL_AUTO);
  ck_assert_ptr_nonnull(strstr(text, "\"stage 1 (rank 128, standing for 128 alike)\""));
}
END_TEST

START_TEST(a_file_says_what_a_reader_needs_to_match_ranks) {
  /* Folded orders have no layout but their pipeline; unfolded, tp 2 · dp 2 · pp 2: pipeline rank = rank / 4. */
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_autofree char *folded = written(fixture.trace, CHROME_DETAIL_AUTO);
  ck_assert_ptr_nonnull(
      strstr(folded, "\"layout\":{\"tp\":1,\"cp\":1,\"ep\":1,\"dp\":1,\"pp\":2},\"pipeline_stride\":1"));
  ck_assert_ptr_nonnull(strstr(folded, "\"args\":{\"step\":0,\"action\":\"SEND_F\",\"stage\":0,"));
  const Layout layout = {.size = {[AXIS_TP] = 2, [AXIS_CP] = 1, [AXIS_EP] = 1, [AXIS_DP] = 2, [AXIS_PP] = 2},
                         .stride = {1, 2, 2, 2, 4},
                         .dp_shard = 2,
                         .n_ranks = 8};
  g_autoptr(Trace) apart = trace_new(fixture.program, &layout, FALSE);
  g_autofree char *unfolded = written(apart, CHROME_DETAIL_AUTO);
  ck_assert_ptr_nonnull(
      strstr(unfolded, "\"layout\":{\"tp\":2,\"cp\":1,\"ep\":1,\"dp\":2,\"pp\":2},\"pipeline_stride\":4"));
}
END_TEST

START_TEST(members_of_a_collective_share_a_group_number) {
  /* dp 2 · pp 2, dp innermost: ranks 0 and 1 reduce together, 2 and 3 apart from them; folded, each is alone. */
  const Group group = {.name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};
  g_auto(Hand) hand = hand_new(2, 1);
  for (int rank = 0; rank < 2; rank++)
    hand_add(&hand, rank, hand_collective(&hand, &group, STREAM_DP, ACTION_REDUCE_GRAD, 8), 0, 0, 10);
  g_autofree char *folded = written(hand_finish(&hand), CHROME_DETAIL_AUTO);
  ck_assert_ptr_null(strstr(folded, "\"group\":"));
  const Layout layout = {.size = {1, 1, 1, 2, 2}, .stride = {1, 1, 1, 1, 2}, .dp_shard = 2, .n_ranks = 4};
  g_autoptr(Trace) apart = trace_new(hand.program, &layout, FALSE);
  for (int rank = 0; rank < 4; rank++)
    apart->start_ns[rank] = 0, apart->end_ns[rank] = 10;
  g_autofree char *text = written(apart, CHROME_DETAIL_AUTO);
  g_autoptr(JsonParser) parser = parsed(text);
  JsonArray *events = events_of(parser);
  for (guint i = 0; i < json_array_get_length(events); i++) {
    JsonObject *event = json_array_get_object_element(events, i);
    if (!is_event(event, "X", NULL))
      continue;
    JsonObject *args = json_object_get_object_member(event, "args");
    ck_assert_int_eq(json_object_get_int_member(args, "group"), json_object_get_int_member(event, "pid") <= 2 ? 0 : 1);
  }
}
END_TEST

START_TEST(the_same_trace_gives_the_same_bytes) {
  g_auto(Fixture) fixture = fixture_new("interleaved", 4, 2, 8, &times);
  g_autofree char *first = written(fixture.trace, CHROME_DETAIL_AUTO);
  g_autofree char *second = written(fixture.trace, CHROME_DETAIL_AUTO);
  ck_assert_str_eq(first, second);
}
END_TEST

START_TEST(ops_that_never_ran_are_left_out) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  for (gsize i = 0; i < fixture.trace->first[2]; i++)
    fixture.trace->start_ns[i] = fixture.trace->end_ns[i] = -1;
  g_autofree char *text = written(fixture.trace, CHROME_DETAIL_AUTO);
  g_autoptr(JsonParser) parser = parsed(text);
  ck_assert_int_eq(count_events(events_of(parser), "X", NULL), 0);
  ck_assert_int_eq(count_events(events_of(parser), "s", NULL), 0);
}
END_TEST

/* One F of two layers; a layer is qkv 10 ns → all_reduce 4 ns (tp) → mlp 20 ns, which waits for it: 34 ns a layer. */
typedef struct {
  Hand hand;
  Timing timing;
  TimedItem items[3];
} Kernels;

static const Trace *kernels_init(Kernels *kernels, const char *name, gint64 end_ns) {
  *kernels = (Kernels){.hand = hand_new(1, 1)};
  kernels->items[0] = (TimedItem){.name = name, .duration_ns = 10, .after = -1};
  kernels->items[1] = (TimedItem){.name = "all_reduce", .duration_ns = 4, .after = 0, .is_collective = TRUE};
  kernels->items[2] = (TimedItem){.name = "mlp", .duration_ns = 20, .after = 1};
  TimedList *list = &kernels->timing.lists[PIECE_LAYER][PHASE_F];
  *list = (TimedList){.items = kernels->items, .n_items = 3};
  timed_list_finish(list);
  Op op = op_new(OP_COMPUTE, STREAM_COMPUTE, ACTION_F, 0, 0);
  Work work = {.phase = PHASE_F, .n_layers = 2, .piece = -1, .first_item = -1, .last_item = -1, .stage = -1};
  op.work = program_work(kernels->hand.program, &work);
  hand_add(&kernels->hand, 0, op, 100, 100, end_ns);
  hand_finish(&kernels->hand);
  kernels->hand.trace->timing = &kernels->timing;
  return kernels->hand.trace;
}

START_TEST(kernels_nest_in_their_op_and_collectives_have_the_tp_track) {
  /* From 100: qkv 100–110, all_reduce 110–114, mlp 114–134, then the same 34 ns later; the op ends at 168. */
  Kernels kernels;
  const Trace *trace = kernels_init(&kernels, "qkv", 168);
  g_autofree char *text = written(trace, CHROME_DETAIL_AUTO);
  g_autoptr(JsonParser) parser = parsed(text);
  ck_assert_int_eq(count_events(events_of(parser), "X", NULL), 1 + 6);
  ck_assert_int_eq(count_events(events_of(parser), "X", "tp"), 2);
  ck_assert_ptr_nonnull(strstr(text, "\"tid\":16,\"ts\":0.134,\"dur\":0.010,\"name\":\"qkv\",\"cat\":\"kernel\""));
  ck_assert_ptr_nonnull(strstr(text, "\"tid\":17,\"ts\":0.144,\"dur\":0.004,\"name\":\"all_reduce\",\"cat\":\"tp\""));
  ck_assert_ptr_nonnull(strstr(text, "\"args\":{\"name\":\"tp\"}"));
  hand_clear(&kernels.hand);
}
END_TEST

START_TEST(kernels_stretch_with_an_op_that_took_longer) {
  /* Twice as long: the second all_reduce, 44–48 of 68 ns, becomes 88–96 of 136. */
  Kernels kernels;
  const Trace *trace = kernels_init(&kernels, "qkv", 100 + 136);
  g_autofree char *text = written(trace, CHROME_DETAIL_AUTO);
  ck_assert_ptr_nonnull(strstr(text, "\"ts\":0.188,\"dur\":0.008,\"name\":\"all_reduce\""));
  hand_clear(&kernels.hand);
}
END_TEST

START_TEST(kernels_can_be_left_out_and_the_file_says_so) {
  Kernels kernels;
  const Trace *trace = kernels_init(&kernels, "qkv", 168);
  g_autofree char *text = written(trace, CHROME_DETAIL_OPS);
  g_autoptr(JsonParser) parser = parsed(text);
  ck_assert_int_eq(count_events(events_of(parser), "X", NULL), 1);
  ck_assert_ptr_nonnull(strstr(text, "\"detail\":\"ops only: 6 kernels inside them were left out\""));
  hand_clear(&kernels.hand);
}
END_TEST

START_TEST(too_many_kernels_are_left_out_unless_asked_for) {
  /* 66,667 layers of 3 items are 200,001 slices: over the limit of 200,000 even without the op's own. */
  Kernels kernels;
  const Trace *trace = kernels_init(&kernels, "qkv", 100 + 34 * 66667);
  g_array_index(kernels.hand.program->works, Work, 0).n_layers = 66667;
  g_autofree char *automatic = written(trace, CHROME_DETAIL_AUTO);
  ck_assert_ptr_nonnull(strstr(automatic, "ops only: 200001 kernels"));
  ck_assert_ptr_null(strstr(automatic, "\"name\":\"qkv\""));
  g_autofree char *all = written(trace, CHROME_DETAIL_KERNELS);
  ck_assert_ptr_nonnull(strstr(all, "\"name\":\"qkv\""));
  hand_clear(&kernels.hand);
}
END_TEST

START_TEST(names_cannot_break_the_file) {
  Kernels kernels;
  const char *hostile = "a\"b\\c\nd\x01 e\xff";
  const Trace *trace = kernels_init(&kernels, hostile, 168);
  g_autofree char *text = written(trace, CHROME_DETAIL_AUTO);
  g_autoptr(JsonParser) parser = parsed(text);
  JsonArray *events = events_of(parser);
  int n_found = 0;
  for (guint i = 0; i < json_array_get_length(events); i++) {
    JsonObject *event = json_array_get_object_element(events, i);
    n_found += g_str_equal(json_object_get_string_member(event, "name"), "a\"b\\c\nd\x01 e\xEF\xBF\xBD");
  }
  ck_assert_int_eq(n_found, 2);
  hand_clear(&kernels.hand);
}
END_TEST

START_TEST(memory_is_counted_in_GB_by_category) {
  /* 2 GB of weights from the start; 0.5 GB of activations held over [3000, 5000) ns. */
  g_auto(Hand) hand = hand_new(1, 1);
  hand.program->ranks[0].resident[MEMORY_WEIGHTS] = 2e9;
  Op op = hand_compute(&hand, 0, PHASE_F, ACTION_F, 0);
  Effect effect = {.hold[MEMORY_ACTIVATIONS] = 5e8, .drop[MEMORY_ACTIVATIONS] = 5e8};
  op.effect = program_effect(hand.program, &effect);
  hand_add(&hand, 0, op, 3000, 3000, 5000);
  g_autofree char *text = written(hand_finish(&hand), CHROME_DETAIL_AUTO);
  ck_assert_ptr_nonnull(strstr(text, "\"ts\":3.000,\"name\":\"memory (GB)\",\"args\":{\"weights\":2,\"gradients\":0,"
                                     "\"optimizer\":0,\"activations\":0.5,\"buffers\":0}"));
  ck_assert_ptr_nonnull(strstr(text, "\"ts\":5.000,\"name\":\"memory in all (GB)\",\"args\":{\"total\":2}"));
}
END_TEST

START_TEST(orders_without_a_model_have_no_memory_counters) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_autofree char *text = written(fixture.trace, CHROME_DETAIL_AUTO);
  ck_assert_ptr_null(strstr(text, "\"ph\":\"C\""));
}
END_TEST

static void assert_refused(const char *file, const char *reason) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_autoptr(GError) error = NULL;
  ck_assert(!chrome_trace_write(fixture.trace, file, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, file ? file : "") != NULL, "%s", error->message);
  ck_assert_msg(strstr(error->message, reason) != NULL, "%s", error->message);
}

START_TEST(a_file_that_cannot_be_made_is_an_input_error) {
  g_autofree char *absent = in_folder("absent/trace.json");
  assert_refused(absent, "No such file or directory");
  assert_refused(folder, "Is a directory");
  assert_refused("", "without a name");
  assert_refused(NULL, "without a name");
  ck_assert_int_eq(n_files_in_folder(), 0);
}
END_TEST

START_TEST(a_full_device_is_an_input_error) {
  if (g_file_test("/dev/full", G_FILE_TEST_EXISTS))
    assert_refused("/dev/full", "No space left on device");
}
END_TEST

START_TEST(a_failed_write_leaves_what_was_there) {
  /* 64 bytes is less than any trace: the write fails half-way. */
  g_autofree char *file = in_folder("kept.json");
  ck_assert(g_file_set_contents(file, "precious", -1, NULL));
  struct rlimit before, tight;
  getrlimit(RLIMIT_FSIZE, &before);
  tight = before;
  tight.rlim_cur = 64;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &tight);
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_autoptr(GError) error = NULL;
  gboolean success = chrome_trace_write(fixture.trace, file, &error);
  setrlimit(RLIMIT_FSIZE, &before);
  ck_assert(!success);
  ck_assert_msg(strstr(error->message, "File too large") != NULL, "%s", error->message);
  g_autofree char *text = NULL;
  ck_assert(g_file_get_contents(file, &text, NULL, NULL));
  ck_assert_str_eq(text, "precious");
  ck_assert_int_eq(n_files_in_folder(), 1);
  g_unlink(file);
}
END_TEST

START_TEST(a_symbolic_link_stays_one) {
  g_autofree char *target = in_folder("target.json");
  g_autofree char *link = in_folder("link.json");
  ck_assert(g_file_set_contents(target, "old", -1, NULL));
  ck_assert_int_eq(symlink(target, link), 0);
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  ck_assert(chrome_trace_write(fixture.trace, link, NULL));
  ck_assert(g_file_test(link, G_FILE_TEST_IS_SYMLINK));
  g_autofree char *text = NULL;
  ck_assert(g_file_get_contents(target, &text, NULL, NULL));
  ck_assert_ptr_nonnull(strstr(text, "traceEvents"));
  g_unlink(link);
  g_unlink(target);
}
END_TEST

START_TEST(strings_are_escaped_as_JSON_wants) {
  static const struct {
    const char *text, *json;
  } cases[] = {
      {"plain", "\"plain\""},     {NULL, "\"\""},
      {"\"\\/", "\"\\\"\\\\/\""}, {"\t\r\n\x1f\x7f", "\"\\u0009\\u000d\\u000a\\u001f\x7f\""},
      {"µ → 𝄞", "\"µ → 𝄞\""},     {"\xc3(", "\"\xEF\xBF\xBD(\""},
  };
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GString) out = g_string_new(NULL);
    json_append_string(out, cases[i].text);
    ck_assert_str_eq(out->str, cases[i].json);
  }
}
END_TEST

START_TEST(numbers_are_numbers_or_null) {
  g_autoptr(GString) out = g_string_new(NULL);
  const double values[] = {0.5, 8388608, 1.5e12, -1e-9, NAN, INFINITY};
  for (guint i = 0; i < G_N_ELEMENTS(values); i++) {
    json_append_number(out, values[i]);
    g_string_append_c(out, ' ');
  }
  ck_assert_str_eq(out->str, "0.5 8388608 1.5e+12 -1e-09 null null ");
}
END_TEST

static void add_content_tests(TCase *tests) {
  tcase_add_test(tests, every_record_is_one_slice);
  tcase_add_test(tests, slices_have_the_times_of_their_records_to_the_nanosecond);
  tcase_add_test(tests, slices_of_a_track_follow_one_another);
  tcase_add_test(tests, each_send_has_an_arrow_to_its_receive);
  tcase_add_test(tests, processes_and_threads_are_named);
  tcase_add_test(tests, a_folded_rank_says_whom_it_stands_for);
  tcase_add_test(tests, a_file_says_what_a_reader_needs_to_match_ranks);
  tcase_add_test(tests, members_of_a_collective_share_a_group_number);
  tcase_add_test(tests, the_same_trace_gives_the_same_bytes);
  tcase_add_test(tests, ops_that_never_ran_are_left_out);
  tcase_add_test(tests, kernels_nest_in_their_op_and_collectives_have_the_tp_track);
  tcase_add_test(tests, kernels_stretch_with_an_op_that_took_longer);
  tcase_add_test(tests, kernels_can_be_left_out_and_the_file_says_so);
  tcase_add_test(tests, too_many_kernels_are_left_out_unless_asked_for);
  tcase_add_test(tests, names_cannot_break_the_file);
  tcase_add_test(tests, memory_is_counted_in_GB_by_category);
  tcase_add_test(tests, orders_without_a_model_have_no_memory_counters);
}

static void add_file_tests(TCase *tests) {
  tcase_add_test(tests, a_file_that_cannot_be_made_is_an_input_error);
  tcase_add_test(tests, a_full_device_is_an_input_error);
  tcase_add_test(tests, a_failed_write_leaves_what_was_there);
  tcase_add_test(tests, a_symbolic_link_stays_one);
  tcase_add_test(tests, strings_are_escaped_as_JSON_wants);
  tcase_add_test(tests, numbers_are_numbers_or_null);
}

int main(void) {
  folder = g_dir_make_tmp("stepsim-test-XXXXXX", NULL);
  Suite *suite = suite_create("chrome_trace");
  TCase *content = tcase_create("content");
  add_content_tests(content);
  suite_add_tcase(suite, content);
  TCase *files = tcase_create("files");
  add_file_tests(files);
  suite_add_tcase(suite, files);
  const int failed = run_suite(suite);
  g_rmdir(folder);
  g_free(folder);
  return failed;
}
