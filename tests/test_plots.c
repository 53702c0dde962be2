/* Pictures: what is handed to gnuplot, what comes back, and what happens when it cannot draw. */
#include "plots.h"

#include "error.h"
#include "gnuplot.h"
#include "timeline.h"
#include "trace_fixture.h"

#include <check.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

static char *folder; /* of this run; removed at the end */
static gboolean has_gnuplot;

static char *in_folder(const char *name) {
  return g_build_filename(folder, name, NULL);
}

/* The picture's text; the file is removed. */
static char *taken(const char *file) {
  char *text = NULL;
  ck_assert(g_file_get_contents(file, &text, NULL, NULL));
  g_unlink(file);
  return text;
}

static void assert_drawn(gboolean drawn, const GError *error) {
  ck_assert_msg(drawn, "%s", error ? error->message : "");
}

static void assert_input_error(const GError *error, const char *part) {
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, part) != NULL, "%s", error->message);
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
    n++;
  return n;
}

static const FixtureTimes times = {.compute_ns = {[ACTION_F] = 1000, [ACTION_B] = 2000}, .send_ns = 100};

START_TEST(timeline_data_has_a_row_per_box) {
  /* p = 2, m = 1, F = 1 us, B = 2 us, a send 0.1 us once both sides are there:
   *   lane 0   F 0–1, send 1–1.1, B 4.2–6.2        lane 1   F 1.1–2.1, B 2.1–4.1, send 4.1–4.2 */
  Fixture fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_autofree char *data = timeline_data(fixture.trace, 1000, NULL);
  ck_assert_str_eq(data, "# lane kind start end chunk micro_batch\n"
                         "0 10 0 6.2 0 -1\n"
                         "0 0 0 1 0 0\n"
                         "0 3 4.2 6.2 0 0\n"
                         "0 9 1 1.1 0 -1\n"
                         "1 10 0 6.2 0 -1\n"
                         "1 0 1.1 2.1 0 0\n"
                         "1 3 2.1 4.1 0 0\n"
                         "1 9 4.1 4.2 0 -1\n");
  fixture_clear(&fixture);
}
END_TEST

START_TEST(a_send_is_drawn_from_when_both_sides_are_there) {
  /* p = 2, m = 2: rank 1 posts the receive of F1 when its stream has received F0, at 1.1 us; rank 0 is ready at 2. */
  Fixture fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_autofree char *data = timeline_data(fixture.trace, 1000, NULL);
  ck_assert_ptr_nonnull(strstr(data, "0 9 2 2.1 0 -1\n"));
  ck_assert_int_eq(count(data, " 9 "), 4);
  fixture_clear(&fixture);
}
END_TEST

START_TEST(each_format_is_written) {
  if (!has_gnuplot)
    return;
  static const struct {
    const char *name, *magic;
  } formats[] = {{"t.svg", "<?xml"}, {"t.png", "\x89PNG"}, {"t.pdf", "%PDF"}, {"t.SVG", "<?xml"}};
  Fixture fixture = fixture_new("interleaved", 2, 2, 2, &times);
  for (guint i = 0; i < G_N_ELEMENTS(formats); i++) {
    g_autofree char *file = in_folder(formats[i].name);
    g_autoptr(GError) error = NULL;
    assert_drawn(timeline_write(fixture.trace, "title", file, &error), error);
    g_autofree char *picture = taken(file);
    ck_assert(g_str_has_prefix(picture, formats[i].magic));
  }
  fixture_clear(&fixture);
}
END_TEST

START_TEST(titles_are_text_and_nothing_else) {
  if (!has_gnuplot)
    return;
  g_autofree char *file = in_folder("title.svg");
  g_autofree char *trap = in_folder("trap");
  g_autofree char *title = g_strdup_printf("a_b ^c {d} it's `touch %s` '; system('touch %s'); x='\n\xff", trap, trap);
  Fixture fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_autoptr(GError) error = NULL;
  assert_drawn(timeline_write(fixture.trace, title, file, &error), error);
  ck_assert(!g_file_test(trap, G_FILE_TEST_EXISTS));
  g_autofree char *picture = taken(file);
  ck_assert_ptr_nonnull(strstr(picture, "a_b ^c {d} it's `touch "));
  fixture_clear(&fixture);
}
END_TEST

START_TEST(an_axis_of_relative_times_names_its_unit) {
  if (!has_gnuplot)
    return;
  g_autofree char *file = in_folder("units.svg");
  Fixture fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_autoptr(GError) error = NULL;
  assert_drawn(timeline_write_in_units(fixture.trace, (TimeUnit){"units", 1000}, NULL, file, &error), error);
  g_autofree char *picture = taken(file);
  ck_assert_ptr_nonnull(strstr(picture, "time (units)"));
  fixture_clear(&fixture);
}
END_TEST

START_TEST(many_runs_become_bubble_mfu_and_memory_pictures) {
  if (!has_gnuplot)
    return;
  const BubblePoint bubbles[] = {{"1f1b", 8, 0.47, 0.4667}, {"1f1b", 16, 0.31, NAN}, {"a \"b\"", 8, 0.3, 0.3043}};
  const MfuPoint mfus[] = {{"one", 8, 0.5}, {"one", 4096, 0.4}, {"two", 8, 0.45}};
  const MemoryBar bars[] = {{"ZeRO-0", 2e9, 2e9, 12e9, 3e9, 1e9}, {"ZeRO-3", 1e8, 1e8, 5e8, 3e9, 1e9}};
  g_autofree char *file = in_folder("plot.svg");
  g_autoptr(GError) error = NULL;

  assert_drawn(plot_bubble(bubbles, G_N_ELEMENTS(bubbles), "bubbles", file, &error), error);
  g_autofree char *bubble = taken(file);
  ck_assert_ptr_nonnull(strstr(bubble, "1f1b"));
  ck_assert_ptr_nonnull(strstr(bubble, "a 'b'"));

  assert_drawn(plot_mfu(mfus, G_N_ELEMENTS(mfus), "mfus", file, &error), error);
  g_autofree char *mfu = taken(file);
  ck_assert_ptr_nonnull(strstr(mfu, ">4096<"));

  /* Totals 2 + 2 + 12 + 3 + 1 = 20 GB and 0.1 + 0.1 + 0.5 + 3 + 1 = 4.7 GB stand on the bars. */
  assert_drawn(plot_memory(bars, G_N_ELEMENTS(bars), 80e9, "memory", file, &error), error);
  g_autofree char *memory = taken(file);
  ck_assert_ptr_nonnull(strstr(memory, "capacity 80 GB"));
  ck_assert_ptr_nonnull(strstr(memory, "20.0"));
  ck_assert_ptr_nonnull(strstr(memory, "4.7"));
}
END_TEST

START_TEST(a_breakdown_shows_the_parts_that_take_time) {
  if (!has_gnuplot)
    return;
  /* 1F1B with bare times: ranks compute or wait for each other, and nothing else */
  Fixture fixture = fixture_new("1f1b", 3, 1, 4, &times);
  g_autoptr(Metrics) metrics = metrics_new(fixture.trace);
  g_autofree char *file = in_folder("breakdown.svg");
  g_autoptr(GError) error = NULL;
  assert_drawn(plot_breakdown(fixture.trace, metrics, "breakdown", file, &error), error);
  g_autofree char *picture = taken(file);
  ck_assert_ptr_nonnull(strstr(picture, ">compute<"));
  ck_assert_ptr_nonnull(strstr(picture, ">bubble<"));
  ck_assert_ptr_null(strstr(picture, ">recompute<"));
  fixture_clear(&fixture);
}
END_TEST

START_TEST(one_point_is_a_picture_and_none_is_an_error) {
  g_autofree char *file = in_folder("few.svg");
  g_autoptr(GError) error = NULL;
  ck_assert(!plot_bubble(NULL, 0, "t", file, &error));
  assert_input_error(error, "nothing to draw");
  if (!has_gnuplot)
    return;
  const BubblePoint bubble = {"1f1b", 6, 0.4, 0.4};
  const MfuPoint mfu = {"s", 6, 0.4};
  g_clear_error(&error);
  assert_drawn(plot_bubble(&bubble, 1, "t", file, &error), error);
  assert_drawn(plot_mfu(&mfu, 1, "t", file, &error), error);
  g_unlink(file);
}
END_TEST

START_TEST(an_unknown_format_lists_the_known_ones) {
  static const char *const files[] = {"t.jpg", "t", "t.", "svg", "", NULL};
  for (guint i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autoptr(GError) error = NULL;
    ck_assert(!gnuplot_run("timeline", "", NULL, files[i], &error));
    assert_input_error(error, ".svg, .png or .pdf");
  }
}
END_TEST

START_TEST(what_gnuplot_complains_about_is_said) {
  if (!has_gnuplot)
    return;
  g_autofree char *file = in_folder("bad.svg");
  g_autoptr(GError) error = NULL;
  ck_assert(!gnuplot_run("timeline", "no numbers here\n", NULL, file, &error));
  assert_input_error(error, "timeline.gp");
  ck_assert(!g_file_test(file, G_FILE_TEST_EXISTS));
  g_clear_error(&error);
  ck_assert(!gnuplot_run("no-such-script", "", NULL, file, &error));
  assert_input_error(error, "no-such-script");
}
END_TEST

START_TEST(a_picture_that_cannot_be_stored_is_an_input_error) {
  if (!has_gnuplot)
    return;
  g_autofree char *file = in_folder("absent/t.svg");
  Fixture fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_autoptr(GError) error = NULL;
  ck_assert(!timeline_write(fixture.trace, "t", file, &error));
  assert_input_error(error, "No such file or directory");
  fixture_clear(&fixture);
}
END_TEST

START_TEST(without_gnuplot_the_message_says_so) {
  g_autofree char *path = g_strdup(g_getenv("PATH"));
  g_autofree char *file = in_folder("t.svg");
  const MfuPoint point = {"s", 8, 0.5};
  g_autoptr(GError) error = NULL;
  g_setenv("PATH", folder, TRUE);
  gboolean drawn = plot_mfu(&point, 1, "t", file, &error);
  g_setenv("PATH", path, TRUE);
  ck_assert(!drawn);
  assert_input_error(error, "gnuplot: it is not installed");
}
END_TEST

START_TEST(axis_units_follow_the_span) {
  static const struct {
    gint64 span_ns;
    const char *name;
  } cases[] = {{0, "ns"},       {999, "ns"},       {1000, "us"},     {999999, "us"},
               {1000000, "ms"}, {1000000000, "s"}, {G_MAXINT64, "s"}};
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++)
    ck_assert_str_eq(time_unit_for(cases[i].span_ns).name, cases[i].name);
}
END_TEST

int main(void) {
  folder = g_dir_make_tmp("stepsim-test-XXXXXX", NULL);
  g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
  has_gnuplot = gnuplot != NULL;
  Suite *suite = suite_create("plots");
  TCase *tests = tcase_create("plots");
  tcase_set_timeout(tests, 60);
  tcase_add_test(tests, timeline_data_has_a_row_per_box);
  tcase_add_test(tests, a_send_is_drawn_from_when_both_sides_are_there);
  tcase_add_test(tests, each_format_is_written);
  tcase_add_test(tests, titles_are_text_and_nothing_else);
  tcase_add_test(tests, an_axis_of_relative_times_names_its_unit);
  tcase_add_test(tests, many_runs_become_bubble_mfu_and_memory_pictures);
  tcase_add_test(tests, a_breakdown_shows_the_parts_that_take_time);
  tcase_add_test(tests, one_point_is_a_picture_and_none_is_an_error);
  tcase_add_test(tests, an_unknown_format_lists_the_known_ones);
  tcase_add_test(tests, what_gnuplot_complains_about_is_said);
  tcase_add_test(tests, a_picture_that_cannot_be_stored_is_an_input_error);
  tcase_add_test(tests, without_gnuplot_the_message_says_so);
  tcase_add_test(tests, axis_units_follow_the_span);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int n_failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  g_rmdir(folder);
  g_free(folder);
  return n_failed != 0;
}
