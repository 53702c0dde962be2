/* Schedules drawn in the terminal: exact if they fit, otherwise wrapped or scaled, and labelled. */
#include "draw.h"
#include "run_suite.h"

#include "text_file.h"
#include "trace_fixture.h"

static const FixtureTimes unit_times = {
    .compute_ns = {[ACTION_F] = 1000000000, [ACTION_I] = 1000000000, [ACTION_W] = 1000000000, [ACTION_B] = 2000000000}};

static char *drawn(const Trace *trace, int width, gboolean colour) {
  GString *out = g_string_new(NULL);
  draw_schedule(trace, time_unit_for(trace_end(trace)), width, colour, out);
  return g_string_free(out, FALSE);
}

/* Without escape sequences. */
static char *stripped(const char *text) {
  g_autoptr(GRegex) escapes = g_regex_new("\033\\[[0-9;]*m", 0, 0, NULL);
  return g_regex_replace_literal(escapes, text, -1, 0, "", 0, NULL);
}

/* The drawing's row of a rank, between its bars. */
static char *row_of(const char *text, int rank) {
  g_autofree char *label = g_strdup_printf("%d |", rank);
  const char *start = strstr(text, label);
  ck_assert_ptr_nonnull(start);
  start += strlen(label);
  return g_strndup(start, strchr(start, '|') - start);
}

TEST(a_small_schedule_is_drawn_exactly) {
  /* 1f1b, p = 2, m = 2, F = 1, B = 2:
   *   rank 0: F0 0–1, F1 1–2, B0 4–6, B1 7–9     rank 1: F0 1–2, B0 2–4, F1 4–5, B1 5–7
   * A unit is two columns, so that F and its number fit; 9 units, ticks every 5 = 10 columns. */
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &unit_times);
  g_autofree char *text = drawn(fixture.trace, 80, FALSE);
  ck_assert_str_eq(text, "rank\n"
                         "   0 |F0F1....B0--..B1--|\n"
                         "   1 |..F0B0--F1B1--....|\n"
                         "      0         5      s\n"
                         "      F forward   B backward   . idle\n"
                         "      numbers: micro-batch, where there is room; -: goes on\n");
}

TEST(colour_shows_kind_by_background_and_micro_batch_by_number) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &unit_times);
  g_autofree char *text = drawn(fixture.trace, 80, TRUE);
  g_autofree char *plain = stripped(text);
  g_autofree char *row = row_of(plain, 1);
  ck_assert_str_eq(row, "··0 0   1 1   ····");
  /* Two rows of two F and two B each, and the legend's one of each. */
  ck_assert_int_eq(text_count(text, "\033[48;5;25;"), 4 + 1);
  ck_assert_int_eq(text_count(text, "\033[48;5;28;"), 4 + 1);
}

TEST(idle_columns_are_the_bubble) {
  /* gpipe and 1f1b idle (p−1)(F+B) = 7·3 = 21 units on every rank of the makespan; 117 units fit 200 columns once, so a
   * unit is one column. */
  static const char *const names[] = {"gpipe", "1f1b"};
  for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
    g_auto(Fixture) fixture = fixture_new(names[i], 8, 1, 32, &unit_times);
    g_autofree char *text = drawn(fixture.trace, 200, TRUE);
    g_autofree char *plain = stripped(text);
    for (int rank = 0; rank < 8; rank++) {
      g_autofree char *row = row_of(plain, rank);
      ck_assert_int_eq(g_utf8_strlen(row, -1), 117);
      ck_assert_int_eq(text_count(row, "·"), 21);
      ck_assert_ptr_nonnull(strstr(row, "31"));
    }
  }
}

/* The rank's rows of all strips, one after the other. */
static char *joined_row(const char *text, int rank) {
  g_autofree char *label = g_strdup_printf("%4d |", rank);
  GString *row = g_string_new(NULL);
  for (const char *at = text; (at = strstr(at, label)) != NULL;) {
    at += strlen(label);
    g_string_append_len(row, at, strchr(at, '|') - at);
  }
  return g_string_free(row, FALSE);
}

TEST(what_is_too_long_goes_on_in_a_strip_below) {
  /* 8 ranks of 117 units, a column each: 74 fit 80 columns, so two strips of 59 and 58 show what 200 columns show in
   * one row. A backward cut by the end of a strip goes on as '-' where its number would stand. */
  for (const char *const *name = (const char *const[]){"gpipe", "1f1b", NULL}; *name != NULL; name++) {
    g_auto(Fixture) fixture = fixture_new(*name, 8, 1, 32, &unit_times);
    g_autofree char *wide = drawn(fixture.trace, 200, FALSE), *strips = drawn(fixture.trace, 80, FALSE);
    ck_assert_int_eq(text_count(strips, "   7 |"), 2);
    ck_assert_ptr_nonnull(strstr(strips, "       60"));
    ck_assert_int_eq(text_count(strips, " s\n"), 1);
    for (int rank = 0; rank < 8; rank++) {
      g_autofree char *row = joined_row(strips, rank), *whole = joined_row(wide, rank);
      ck_assert_int_eq(strlen(row), 117);
      for (int c = 0; c < 117; c++)
        if (row[c] != whole[c] && !(c == 59 && row[c] == '-'))
          ck_abort_msg("%s rank %d column %d:\n%s\n%s", *name, rank, c, row, whole);
    }
  }
}

TEST(no_pass_vanishes_while_strips_can_show_it) {
  /* F = 1.000007 s: no grid with B fits any width. The whole is some 117 times as long as F, so two to four strips give
   * F a column: every forward and backward of a rank has its letter. */
  FixtureTimes odd = unit_times;
  odd.compute_ns[ACTION_F] = 1000007000;
  g_auto(Fixture) fixture = fixture_new("1f1b", 8, 1, 32, &odd);
  for (int width = 40; width <= 110; width += 5) {
    g_autofree char *text = drawn(fixture.trace, width, FALSE);
    for (int rank = 0; rank < 8; rank++) {
      g_autofree char *row = joined_row(text, rank);
      ck_assert_int_eq(text_count(row, "F"), 32);
      ck_assert_int_eq(text_count(row, "B"), 32);
    }
  }
}

TEST(more_rows_than_a_screen_has_are_not_made_more) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 40, 1, 40, &unit_times);
  g_autofree char *text = drawn(fixture.trace, 80, FALSE);
  ck_assert_int_eq(text_count(text, "  39 |"), 1);
  ck_assert_ptr_nonnull(
      strstr(text, "letters: what takes most of a column; numbers: micro-batch, where there is room"));
}

TEST(chunks_differ) {
  /* Interleaved, p = 2, v = 2: rank 0 has stages 0 and 2, the second drawn in lower case, and in a shade of its own. */
  g_auto(Fixture) fixture = fixture_new("interleaved", 2, 2, 2, &unit_times);
  g_autofree char *text = drawn(fixture.trace, 120, FALSE);
  g_autofree char *row = row_of(text, 0);
  static const char *const boxes[] = {"F0", "F1", "f0", "f1", "B0--", "B1--", "b0--", "b1--"};
  for (guint i = 0; i < G_N_ELEMENTS(boxes); i++)
    ck_assert_int_eq(text_count(row, boxes[i]), 1);
  g_autofree char *coloured = drawn(fixture.trace, 120, TRUE);
  ck_assert_int_eq(text_count(coloured, "\033[48;5;25;"), 4 + 1);
  ck_assert_int_eq(text_count(coloured, "\033[48;5;32;"), 4 + 1);
}

TEST(no_line_is_wider_than_asked) {
  /* F = 1.000007 s has no grid with B that fits: scaled at every width. */
  FixtureTimes odd = unit_times;
  odd.compute_ns[ACTION_F] = 1000007000;
  const FixtureTimes *times[] = {&unit_times, &odd};
  for (int t = 0; t < 2; t++) {
    g_auto(Fixture) fixture = fixture_new("1f1b", 8, 1, 32, times[t]);
    for (int width = 40; width < 230; width += 7) {
      g_autofree char *text = drawn(fixture.trace, width, width % 2);
      g_autofree char *plain = stripped(text);
      g_auto(GStrv) lines = g_strsplit(plain, "\n", -1);
      const int n_lines = (int)g_strv_length(lines) - 3; /* all but the legend, whose text has its own width */
      for (int i = 0; i < n_lines; i++)
        ck_assert_int_le(g_utf8_strlen(lines[i], -1), width);
    }
  }
}

TEST(a_scaled_column_shows_what_takes_most_of_it) {
  /* One rank, m = 2: F0 B0 F1 B1 with F = 1 ns, B = 999,999 ns on some 1,000,000 ns each: F is never the most. */
  const FixtureTimes times = {.compute_ns = {[ACTION_F] = 1, [ACTION_B] = 999999}};
  g_auto(Fixture) fixture = fixture_new("1f1b", 1, 1, 2, &times);
  g_autofree char *text = drawn(fixture.trace, 47, FALSE);
  g_autofree char *row = row_of(text, 0);
  ck_assert_int_eq(strlen(row), 40);
  ck_assert_str_eq(row, "B0------------------B1------------------");
  ck_assert_ptr_nonnull(strstr(text, "letters: what takes most of a column"));
}

TEST(relative_times_have_an_axis_in_units) {
  FixtureTimes times = {.compute_ns = {[ACTION_F] = 720720, [ACTION_B] = 1441440}};
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_autoptr(GString) out = g_string_new(NULL);
  draw_schedule(fixture.trace, (TimeUnit){"units", 720720}, 80, FALSE, out);
  ck_assert_ptr_nonnull(strstr(out->str, "      0         5  units\n"));
}

TEST(hostile_widths_and_empty_traces_are_drawn) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &unit_times);
  static const int widths[] = {G_MININT, -1, 0, 1, 5, G_MAXINT};
  for (guint i = 0; i < G_N_ELEMENTS(widths); i++) {
    g_autofree char *text = drawn(fixture.trace, widths[i], TRUE);
    ck_assert_ptr_nonnull(strstr(text, "forward"));
  }
  for (gsize i = 0; i < fixture.trace->first[2]; i++)
    fixture.trace->start_ns[i] = fixture.trace->end_ns[i] = -1;
  g_autofree char *empty = drawn(fixture.trace, 80, FALSE);
  ck_assert_str_eq(empty, "nothing ran\n");
}

TEST(times_near_the_end_of_the_clock_are_drawn) {
  const FixtureTimes times = {.compute_ns = {[ACTION_F] = G_MAXINT64 / 8, [ACTION_B] = G_MAXINT64 / 8 + 3}};
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_autofree char *text = drawn(fixture.trace, 80, FALSE);
  ck_assert_ptr_nonnull(strstr(text, "B1-"));
}

int main(void) {
  return run_tests();
}
