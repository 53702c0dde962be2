/* Plots: what gnuplot gets, what it returns, and what happens if it fails. */
#include "plots.h"
#include "run_suite.h"

#include "error.h"
#include "picture.h"
#include "stack.h"
#include "text_file.h"
#include "timeline.h"
#include "trace_fixture.h"

#include <math.h>
#include <stdlib.h>

static char *folder; /* of this run; removed at the end */
static gboolean has_gnuplot;

static char *in_folder(const char *name) {
  return g_build_filename(folder, name, NULL);
}

/* The picture's text; the file is removed. */
static char *taken(const char *file) {
  char *text = text_file_read(file);
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

static const TimeUnit microseconds = {"us", 1000};

static gboolean timeline_write(const Trace *trace, const char *title, const char *file, GError **error) {
  return picture_take(timeline_picture(trace, microseconds, title, 0, error), file, error);
}

static const FixtureTimes times = {.compute_ns = {[ACTION_F] = 1000, [ACTION_B] = 2000}, .send_ns = 100};

TEST(timeline_data_has_a_row_per_box) {
  /* p = 2, m = 1, F = 1 us, B = 2 us, a send 0.1 us once both sides are there:
   *   lane 0   F 0–1, send 1–1.1, B 4.2–6.2        lane 1   F 1.1–2.1, B 2.1–4.1, send 4.1–4.2 */
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_autoptr(Picture) picture = timeline_picture(fixture.trace, microseconds, NULL, 0, NULL);
  ck_assert_str_eq(picture->data->str, "# lane kind start end chunk micro_batch\n"
                                       "0 10 0 6.2 0 -1\n"
                                       "0 0 0 1 0 0\n"
                                       "0 3 4.2 6.2 0 0\n"
                                       "0 9 1 1.1 0 -1\n"
                                       "1 10 0 6.2 0 -1\n"
                                       "1 0 1.1 2.1 0 0\n"
                                       "1 3 2.1 4.1 0 0\n"
                                       "1 9 4.1 4.2 0 -1\n");
}

TEST(a_send_is_drawn_from_when_both_sides_are_there) {
  /* p = 2, m = 2: rank 1 posts the receive of F1 when its stream has received F0, at 1.1 us; rank 0 is ready at 2. */
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_autoptr(Picture) picture = timeline_picture(fixture.trace, microseconds, NULL, 0, NULL);
  ck_assert_ptr_nonnull(strstr(picture->data->str, "0 9 2 2.1 0 -1\n"));
  ck_assert_int_eq(text_count(picture->data->str, " 9 "), 4);
}

TEST(each_format_is_written) {
  if (!has_gnuplot)
    return;
  static const struct {
    const char *name, *magic;
  } formats[] = {{"t.svg", "<?xml"}, {"t.png", "\x89PNG"}, {"t.pdf", "%PDF"}, {"t.SVG", "<?xml"}};
  g_auto(Fixture) fixture = fixture_new("interleaved", 2, 2, 2, &times);
  for (guint i = 0; i < G_N_ELEMENTS(formats); i++) {
    g_autofree char *file = in_folder(formats[i].name);
    g_autoptr(GError) error = NULL;
    assert_drawn(timeline_write(fixture.trace, "title", file, &error), error);
    g_autofree char *picture = taken(file);
    ck_assert(g_str_has_prefix(picture, formats[i].magic));
  }
}

TEST(titles_are_text_and_nothing_else) {
  if (!has_gnuplot)
    return;
  g_autofree char *file = in_folder("title.svg");
  g_autofree char *trap = in_folder("trap");
  g_autofree char *title = g_strdup_printf("a_b ^c {d} it's `touch %s` '; system('touch %s'); x='\n\xff", trap, trap);
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_autoptr(GError) error = NULL;
  assert_drawn(timeline_write(fixture.trace, title, file, &error), error);
  ck_assert(!g_file_test(trap, G_FILE_TEST_EXISTS));
  g_autofree char *picture = taken(file);
  ck_assert_ptr_nonnull(strstr(picture, "a_b ^c {d} it's `touch "));
}

TEST(an_axis_of_relative_times_names_its_unit) {
  if (!has_gnuplot)
    return;
  g_autofree char *file = in_folder("units.svg");
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_autoptr(GError) error = NULL;
  assert_drawn(picture_take(timeline_picture(fixture.trace, (TimeUnit){"units", 1000}, NULL, 0, &error), file, &error),
               error);
  g_autofree char *picture = taken(file);
  ck_assert_ptr_nonnull(strstr(picture, "time (units)"));
}

/* The picture that gnuplot draws of it. Owned by the caller. */
static char *drawn(Picture *picture, const char *name) {
  g_autofree char *file = in_folder(name);
  g_autoptr(GError) error = NULL;
  ck_assert(picture != NULL);
  assert_drawn(picture_take(picture, file, &error), error);
  return taken(file);
}

TEST(many_runs_become_bubble_mfu_and_busbw_pictures) {
  if (!has_gnuplot)
    return;
  const BubblePoint bubbles[] = {{"1f1b", 8, 0.47, 0.4667}, {"1f1b", 16, 0.31, NAN}, {"a \"b\"", 8, 0.3, 0.3043}};
  const GpusPoint mfus[] = {{"one", 8, 0.5, TRUE}, {"one", 4096, 0.4, TRUE}, {"two", 8, 0.45, FALSE}};
  const BusbwPoint bandwidths[] = {{"choice", 1 << 20, 3e10}, {"choice", 1 << 30, 3e11}, {"ring", 1 << 20, 1e10}};

  g_autofree char *bubble = drawn(plot_bubble(bubbles, G_N_ELEMENTS(bubbles), FALSE, "bubbles", NULL), "b.svg");
  ck_assert_ptr_nonnull(strstr(bubble, ">1f1b<"));
  ck_assert_ptr_nonnull(strstr(bubble, "a 'b'"));
  ck_assert_ptr_nonnull(strstr(bubble, "dashed: closed form"));

  g_autofree char *mfu = drawn(plot_mfu(mfus, G_N_ELEMENTS(mfus), "mfus", NULL), "m.svg");
  ck_assert_ptr_nonnull(strstr(mfu, ">4096<"));
  ck_assert_ptr_nonnull(strstr(mfu, "does not fit in memory"));
  g_autofree char *fitting = drawn(plot_mfu(mfus, 2, "mfus", NULL), "m.svg");
  ck_assert_ptr_null(strstr(fitting, "does not fit in memory"));
  ck_assert_ptr_null(strstr(fitting, "scale(0.00)")); /* which librsvg draws nothing of */

  g_autofree char *busbw = drawn(plot_busbw(bandwidths, G_N_ELEMENTS(bandwidths), 3.5e11, "busbw", NULL), "b.svg");
  ck_assert_ptr_nonnull(strstr(busbw, "ring: at most 350 GB/s"));
  ck_assert_ptr_nonnull(strstr(busbw, ">1 MiB<"));
}

/* Weights, gradients, optimizer, activations, buffers, reserved: 2 + 2 + 12 + 3 + 0 + 1 = 20 GB. */
static const double big[N_STACK_MEMORY] = {2e9, 2e9, 12e9, 3e9, 0, 1e9};
/* 0.1 + 0.1 + 0.5 + 3 + 0 + 1 = 4.7 GB. */
static const double small[N_STACK_MEMORY] = {1e8, 1e8, 5e8, 3e9, 0, 1e9};

static Picture *memory_of_two(int columns) {
  g_autoptr(Stack) stack = stack_new_memory("memory", 80e9);
  stack_add(stack, "zero 0", big);
  stack_add(stack, "zero 3", small);
  stack_add(stack, "zero 9 (cannot be)", NULL);
  return stack_picture(stack, columns, NULL);
}

TEST(bars_end_with_their_totals_beside_the_capacity) {
  if (!has_gnuplot)
    return;
  g_autofree char *memory = drawn(memory_of_two(80), "s.svg");
  ck_assert_ptr_nonnull(strstr(memory, "capacity 80 GB"));
  ck_assert_ptr_nonnull(strstr(memory, ">20.0<"));
  ck_assert_ptr_nonnull(strstr(memory, ">4.7<"));
  ck_assert_ptr_nonnull(strstr(memory, "zero 9 (cannot be)"));
  ck_assert_ptr_nonnull(strstr(memory, ">weights<"));
  ck_assert_ptr_null(strstr(memory, ">buffers<")); /* nobody has any */
}

TEST(bars_in_letters_are_as_long_as_their_shares) {
  /* 72 columns: 18 of labels and 12 of margin leave 42 for 20 GB, 2.1 a GB. Running sums 2, 4, 16, 19, 20 GB end at
   * columns 4, 8, 34, 40 and 42; 0.1, 0.2, 0.7, 3.7, 4.7 GB at 0, 0, 1, 8 and 10. */
  g_autoptr(Picture) picture = memory_of_two(72);
  g_autofree char *text = picture_text(picture, 72, NULL);
  ck_assert_ptr_nonnull(strstr(text, "            zero 0 |WWWWGGGGOOOOOOOOOOOOOOOOOOOOOOOOOOAAAAAARR 20.0\n"));
  ck_assert_ptr_nonnull(strstr(text, "            zero 3 |OAAAAAAARR 4.7\n"));
  ck_assert_ptr_nonnull(strstr(text, "zero 9 (cannot be) | –\n"));
  ck_assert_ptr_nonnull(strstr(text, "O optimizer  A activations  R reserved; capacity 80 GB\n"));
}

TEST(a_breakdown_shows_the_parts_that_take_time) {
  if (!has_gnuplot)
    return;
  /* 1F1B with bare times: ranks compute or wait for each other, and nothing else */
  g_auto(Fixture) fixture = fixture_new("1f1b", 3, 1, 4, &times);
  g_autoptr(Metrics) metrics = metrics_new(fixture.trace);
  g_autoptr(Stack) stack = stack_of_ranks(fixture.trace, metrics, "breakdown");
  g_autofree char *picture = drawn(stack_picture(stack, 80, NULL), "breakdown.svg");
  ck_assert_ptr_nonnull(strstr(picture, ">rank 2<"));
  ck_assert_ptr_nonnull(strstr(picture, ">compute<"));
  ck_assert_ptr_nonnull(strstr(picture, ">bubble<"));
  ck_assert_ptr_null(strstr(picture, ">recompute<"));
}

static const char *const grid_columns[] = {"1", "2"}, *const grid_rows[] = {"1f1b", "zb-h1"};

static Grid grid_of(const GridCell *cells) {
  return (Grid){.title = "map",
                .xlabel = "tp",
                .ylabel = "schedule",
                .zlabel = "MFU (%)",
                .digits = "%.1f",
                .columns = grid_columns,
                .rows = grid_rows,
                .n_columns = 2,
                .n_rows = 2,
                .cells = cells};
}

TEST(a_map_marks_what_does_not_fit_and_what_cannot_be) {
  const GridCell cells[] = {{41.24, GRID_FITS}, {52, GRID_DOES_NOT_FIT}, {0, GRID_CANNOT_BE}, {7, GRID_FITS}};
  const Grid grid = grid_of(cells);
  g_autoptr(Picture) picture = grid_picture(&grid, NULL);
  g_autofree char *text = picture_text(picture, 80, NULL);
  ck_assert_str_eq(text, "map\n"
                         "zb-h1 |     -    7.0 \n"
                         " 1f1b |  41.2   52.0x\n"
                         "      |     1      2 \n"
                         "across: tp; upward: schedule; MFU (%); x does not fit in memory, - cannot be\n");
  if (!has_gnuplot)
    return;
  g_autofree char *svg = drawn(g_steal_pointer(&picture), "heat.svg");
  ck_assert_ptr_nonnull(strstr(svg, ">41.2<"));
  ck_assert_ptr_nonnull(strstr(svg, ">52.0<"));
  ck_assert_ptr_nonnull(strstr(svg, ">zb-h1<"));
}

TEST(a_map_of_nothing_that_fits_is_drawn_and_one_of_nothing_at_all_is_not) {
  const GridCell full[] = {{1, GRID_DOES_NOT_FIT}, {2, GRID_DOES_NOT_FIT}, {1, GRID_DOES_NOT_FIT}, {0, GRID_CANNOT_BE}};
  const GridCell none[] = {{0, GRID_CANNOT_BE}, {0, GRID_CANNOT_BE}, {0, GRID_CANNOT_BE}, {0, GRID_CANNOT_BE}};
  Grid grid = grid_of(none);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(grid_picture(&grid, &error));
  assert_input_error(error, "none of the 4 cells");
  grid = grid_of(full);
  g_autoptr(Picture) picture = grid_picture(&grid, NULL);
  ck_assert_ptr_nonnull(picture);
  if (has_gnuplot) {
    g_autofree char *svg = drawn(g_steal_pointer(&picture), "heat.svg");
    ck_assert_ptr_nonnull(strstr(svg, ">2.0<"));
  }
}

TEST(the_front_is_what_none_beats_in_both) {
  /* By hand: b (2, 5) and its equal c are reached by nothing with as little x and more y; a (1, 3) has least x; d (3,
   * 5) is beaten by b, e (4, 4) too; f (9, 9) does not fit, so g (5, 6) is on the front though f has more y. */
  ParetoPoint points[] = {{"g", 5, 6}, {"f", 9, 9}, {"e", 4, 4}, {"d", 3, 5}, {"c", 2, 5}, {"b", 2, 5}, {"a", 1, 3}};
  const gboolean fits[] = {TRUE, FALSE, TRUE, TRUE, TRUE, TRUE, TRUE};
  pareto_rank(points, fits, G_N_ELEMENTS(points));
  g_autoptr(GString) places = g_string_new(NULL);
  for (guint i = 0; i < G_N_ELEMENTS(points); i++)
    g_string_append_printf(places, "%s%d ", points[i].label, points[i].place);
  ck_assert_str_eq(places->str, "a0 b0 c0 d1 e1 g0 f2 ");
}

TEST(a_front_alone_is_a_picture) {
  if (!has_gnuplot)
    return;
  ParetoPoint points[] = {{"only \"one\"", 5, 6, PARETO_FRONT}};
  const ParetoLook look = {"front", "x", "y", 0};
  g_autofree char *one = drawn(plot_pareto(points, 1, &look, NULL), "p.svg");
  ck_assert_ptr_nonnull(strstr(one, "only 'one'"));
  points[0].place = PARETO_DOES_NOT_FIT;
  const ParetoLook capped = {"front", "x", "y", 3};
  g_autofree char *none = drawn(plot_pareto(points, 1, &capped, NULL), "p.svg");
  ck_assert_ptr_nonnull(strstr(none, "capacity 3 GB"));
}

TEST(one_point_is_a_picture_and_none_is_an_error) {
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(plot_bubble(NULL, 0, FALSE, "t", &error));
  assert_input_error(error, "nothing to draw");
  if (!has_gnuplot)
    return;
  const BubblePoint bubble = {"1f1b", 6, 0.4, 0.4};
  const GpusPoint mfu = {"s", 6, 0.4, TRUE};
  const ValidationPoint validation = {"s", 6, 7};
  g_autofree char *first = drawn(plot_bubble(&bubble, 1, TRUE, "t", NULL), "few.svg");
  g_autofree char *second = drawn(plot_mfu(&mfu, 1, "t", NULL), "few.svg");
  g_autofree char *third = drawn(plot_validation(&validation, 1, "t", NULL), "few.svg");
  ck_assert_ptr_nonnull(strstr(first, ">6<"));
  ck_assert_ptr_nonnull(strstr(second, ">6<"));
  ck_assert_ptr_nonnull(strstr(third, "within ±10 %"));
}

/* The call of gnuplot that the comments at the head of a data file show, with names filled in. Owned by the caller. */
static char *call_in(const char *data, const char *data_file, const char *picture_file) {
  const char *call = strstr(data, "# gnuplot ");
  ck_assert_ptr_nonnull(call);
  GString *command = g_string_new_len(call + 2, strcspn(call + 2, "\n"));
  ck_assert_uint_eq(g_string_replace(command, "THIS FILE", data_file, 0), 1);
  ck_assert_uint_eq(g_string_replace(command, "FILE.svg", picture_file, 0), 1);
  ck_assert_uint_eq(g_string_replace(command, " plots/", " '" STEPSIM_SOURCE_DATA "'/plots/", 0), 1);
  g_string_append(command, " 2>/dev/null");
  return g_string_free(command, FALSE);
}

/* The picture's text that such a call leaves. Owned by the caller. */
static char *drawn_by_hand(const char *data, const char *data_file, const char *picture_name) {
  g_autofree char *file = in_folder(picture_name);
  g_autofree char *command = call_in(data, data_file, file);
  int status = system(command);
  ck_assert_msg(status == 0, "%d: %s", status, command);
  return taken(file);
}

TEST(numbers_written_out_draw_the_same_picture) {
  if (!has_gnuplot)
    return;
  const GpusPoint mfus[] = {{"one", 8, 0.5, TRUE}, {"one", 4096, 0.4, FALSE}, {"two's", 8, 0.45, TRUE}};
  g_autoptr(Picture) picture = plot_mfu(mfus, G_N_ELEMENTS(mfus), "it's a title", NULL);
  g_autofree char *data = picture_data(picture), *data_file = in_folder("by_hand.dat");
  ck_assert(g_file_set_contents(data_file, data, -1, NULL));
  g_autofree char *by_hand = drawn_by_hand(data, data_file, "by_hand.svg");
  g_unlink(data_file);
  g_autofree char *drawn_here = drawn(g_steal_pointer(&picture), "mfu.svg");
  ck_assert_str_eq(by_hand, drawn_here);
}

/* Every script but the one they share has a sample in tests/data/plots, whose head is the call. */
TEST(every_script_draws_its_sample_by_itself) {
  static const char folder_of_scripts[] = STEPSIM_SOURCE_DATA "/plots";
  g_autoptr(GDir) scripts = g_dir_open(folder_of_scripts, 0, NULL);
  int n = 0;
  for (const char *name = g_dir_read_name(scripts); name != NULL && has_gnuplot; name = g_dir_read_name(scripts)) {
    if (!g_str_has_suffix(name, ".gp") || strcmp(name, "look.gp") == 0)
      continue;
    g_autofree char *stem = g_strndup(name, strlen(name) - strlen(".gp"));
    g_autofree char *sample = g_strdup_printf(STEPSIM_SOURCE_DATA "/tests/data/plots/%s.dat", stem);
    g_autofree char *script = g_build_filename(folder_of_scripts, name, NULL);
    g_autofree char *data = NULL, *code = NULL;
    ck_assert_msg(g_file_get_contents(sample, &data, NULL, NULL), "%s has no sample", name);
    ck_assert(g_file_get_contents(script, &code, NULL, NULL));
    g_autofree char *svg = drawn_by_hand(data, sample, "sample.svg");
    ck_assert_msg(text_count(svg, "<path") > 4, "%s drew %d paths", name, text_count(svg, "<path"));
    if (strstr(code, ".txt;") != NULL) { /* its head says that it draws in letters too */
      g_autofree char *text = drawn_by_hand(data, sample, "sample.txt");
      ck_assert_msg(g_utf8_validate(text, -1, NULL) && text_count(text, "\n") > 10, "%s in letters: %s", name, text);
    }
    n++;
  }
  ck_assert(n >= 10 || !has_gnuplot);
}

TEST(curves_are_drawn_in_letters_no_wider_than_asked) {
  if (!has_gnuplot)
    return;
  const GpusPoint mfus[] = {{"one", 8, 0.5, TRUE}, {"one", 4096, 0.4, FALSE}, {"two", 8, 0.45, TRUE}};
  g_autofree char *title = g_strnfill(300, 'T');
  g_autoptr(Picture) picture = plot_mfu(mfus, G_N_ELEMENTS(mfus), title, NULL);
  g_autoptr(GError) error = NULL;
  g_autofree char *text = picture_text(picture, 60, &error);
  assert_drawn(text != NULL, error);
  ck_assert_ptr_nonnull(strstr(text, "two"));
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  glong widest = 0;
  for (char **line = lines; *line != NULL; line++)
    widest = MAX(widest, g_utf8_strlen(*line, -1));
  ck_assert_int_le(widest, 60);
}

TEST(an_unknown_format_lists_the_known_ones) {
  static const char *const files[] = {"t.jpg", "t", "t.", "svg", "", NULL};
  for (guint i = 0; i < G_N_ELEMENTS(files); i++) {
    g_autoptr(GError) error = NULL;
    ck_assert(!picture_take(picture_new("timeline", NULL), files[i], &error));
    assert_input_error(error, ".svg, .png or .pdf");
  }
}

TEST(what_gnuplot_complains_about_is_said) {
  if (!has_gnuplot)
    return;
  g_autofree char *file = in_folder("bad.svg");
  g_autoptr(GError) error = NULL;
  Picture *picture = picture_new("timeline", NULL);
  g_string_append(picture->data, "no numbers here\n");
  ck_assert(!picture_take(picture, file, &error));
  assert_input_error(error, "timeline.gp");
  ck_assert(!g_file_test(file, G_FILE_TEST_EXISTS));
  g_clear_error(&error);
  ck_assert(!picture_take(picture_new("no-such-script", NULL), file, &error));
  assert_input_error(error, "no-such-script");
}

TEST(a_picture_that_cannot_be_stored_is_an_input_error) {
  if (!has_gnuplot)
    return;
  g_autofree char *file = in_folder("absent/t.svg");
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_autoptr(GError) error = NULL;
  ck_assert(!timeline_write(fixture.trace, "t", file, &error));
  assert_input_error(error, "No such file or directory");
}

TEST(without_gnuplot_the_message_says_so) {
  g_autofree char *path = g_strdup(g_getenv("PATH"));
  g_autofree char *file = in_folder("t.svg");
  const GpusPoint point = {"s", 8, 0.5, TRUE};
  g_autoptr(GError) error = NULL;
  g_setenv("PATH", folder, TRUE);
  gboolean is_drawn = picture_take(plot_mfu(&point, 1, "t", NULL), file, &error);
  g_setenv("PATH", path, TRUE);
  ck_assert(!is_drawn);
  assert_input_error(error, "gnuplot: it is not installed");
}

TEST(axis_units_follow_the_span) {
  static const struct {
    gint64 span_ns;
    const char *name;
  } cases[] = {{0, "ns"},       {999, "ns"},       {1000, "us"},     {999999, "us"},
               {1000000, "ms"}, {1000000000, "s"}, {G_MAXINT64, "s"}};
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++)
    ck_assert_str_eq(time_unit_for(cases[i].span_ns).name, cases[i].name);
}

/* A letter covers those drawn before it: b those of a, as 0.501 and 0.5 are on one line of the 20 or so up to 0.501. */
TEST(points_behind_others_are_named) {
  static const BubblePoint points[] = {{"a", 8, 0.5, 0.5},   {"a", 16, 0.25, 0.25}, {"b", 8, 0.501, NAN},
                                       {"b", 16, 0.25, NAN}, {"c", 8, 0.1, NAN},    {"c", 16, 0.25, NAN}};
  g_autoptr(Picture) picture = plot_bubble(points, G_N_ELEMENTS(points), TRUE, "t", NULL);
  ck_assert_str_eq(picture->notes->str, "a: all points are behind others, of b\n"
                                        "b: 1 of 2 points are behind others, of c\n");
  g_autoptr(Picture) apart = plot_bubble(points + 2, 1, TRUE, "t", NULL);
  ck_assert_str_eq(apart->notes->str, "");
}

int main(void) {
  folder = g_dir_make_tmp("stepsim-test-XXXXXX", NULL);
  g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
  has_gnuplot = gnuplot != NULL;
  const int failed = run_tests();
  g_rmdir(folder);
  g_free(folder);
  return failed;
}
