/* Lengths of sequences: what is read, and how they are distributed. */
#include "run_suite.h"
#include "seq_lengths.h"
#include "text_file.h"

#include <glib.h>
#include <math.h>
#include <stdlib.h>

static const SeqLengths *lengths_of(const char *text) {
  g_autoptr(GError) error = NULL;
  const SeqLengths *lengths;
  ck_assert_msg(seq_lengths_parse("--seq-lengths", text, &lengths, &error), "%s", error != NULL ? error->message : "");
  return lengths;
}

static void assert_refused(const char *text, const char *why) {
  g_autoptr(GError) error = NULL;
  const SeqLengths *lengths;
  ck_assert(!seq_lengths_parse("--seq-lengths", text, &lengths, &error));
  ck_assert_msg(strstr(error->message, why) != NULL, "%s", error->message);
}

enum { N_DRAWN = 20000 };

static int ascending(gconstpointer a, gconstpointer b) {
  const gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
  return x < y ? -1 : x > y;
}

static gint64 *draw(const char *text, guint64 seed) {
  const SeqLengths *lengths = lengths_of(text);
  gint64 *drawn = g_new(gint64, N_DRAWN);
  for (int i = 0; i < N_DRAWN; i++)
    drawn[i] = seq_lengths_nth(lengths, seed, i);
  return drawn;
}

/* Mean (A + B)/2 = 300; its standard error is (B − A)/√12/√n = 0.82. */
TEST(a_uniform_distribution_has_its_ends_and_its_mean) {
  g_autofree gint64 *drawn = draw("uniform:100-500", 7);
  double sum = 0;
  for (int i = 0; i < N_DRAWN; i++)
    sum += (double)drawn[i];
  ck_assert_double_eq_tol(sum / N_DRAWN, 300, 4 * 0.82);
  ck_assert_double_eq(seq_lengths_mean(lengths_of("uniform:100-500"), 1000), 300);
  qsort(drawn, N_DRAWN, sizeof *drawn, ascending);
  ck_assert_int_eq(drawn[0], 100);
  ck_assert_int_eq(drawn[N_DRAWN - 1], 500);
}

/* Half are below the median, and Φ(1) = 84.13 % below median·e^σ; a share's standard error is at most 0.36 %. */
TEST(a_lognormal_distribution_has_its_quantiles) {
  g_autofree gint64 *drawn = draw("lognormal:1000+0.5", 3);
  int n_half = 0, n_sigma = 0;
  for (int i = 0; i < N_DRAWN; i++) {
    n_half += drawn[i] <= 1000;
    n_sigma += (double)drawn[i] <= 1000 * exp(0.5);
  }
  ck_assert_double_eq_tol((double)n_half / N_DRAWN, 0.5, 4 * 0.0036);
  ck_assert_double_eq_tol((double)n_sigma / N_DRAWN, 0.8413, 4 * 0.0036);
}

TEST(the_seed_decides) {
  g_autofree gint64 *one = draw("lognormal:1000+1", 1), *again = draw("lognormal:1000+1", 1),
                    *other = draw("lognormal:1000+1", 2);
  ck_assert_mem_eq(one, again, N_DRAWN * sizeof *one);
  ck_assert_mem_ne(one, other, N_DRAWN * sizeof *one);
}

TEST(a_file_is_taken_in_order) {
  static const char *const texts[] = {"5\n# long\n\n900\n17\n", "id,length\na,5\nb,900\nc,17\n", "Length\n5\n900\n17"};
  static const gint64 expected[] = {5, 900, 17, 5};
  for (gsize t = 0; t < G_N_ELEMENTS(texts); t++) {
    char *path = text_file_new(".csv", texts[t], -1);
    const SeqLengths *lengths = lengths_of(path);
    ck_assert_str_eq(seq_lengths_text(lengths), path);
    for (gsize i = 0; i < G_N_ELEMENTS(expected); i++)
      ck_assert_int_eq(seq_lengths_nth(lengths, 1, (gint64)i), expected[i]);
    ck_assert_ptr_eq(lengths_of(path), lengths);
    text_file_drop(path);
  }
}

TEST(bad_files_are_refused_by_line) {
  static const struct {
    const char *text, *why;
  } files[] = {
      {"", "found no lengths"},
      {"12\n0\n", ":2: found \"0\""},
      {"12\n1.5\n", ":2: "},
      {"a,b\n1,2\n", ":1: found \"a,b\", expected a length, or a header with a column \"length\""},
      {"id,length\n7\n", ":2: found 1 cells, expected a length in number 2"},
      {"tokens\n7\n", ":1: found \"tokens\""},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(files); i++) {
    char *path = text_file_new(".txt", files[i].text, -1);
    assert_refused(path, files[i].why);
    text_file_drop(path);
  }
}

TEST(bad_texts_are_refused) {
  assert_refused("unifrom:1-2", "expected none, uniform:A-B, lognormal:MEDIAN+SIGMA or a file of lengths");
  assert_refused("uniform:9-2", "whose least is beyond its most");
  assert_refused("uniform:9", "expected the least and the most");
  assert_refused("uniform:0-9", "found \"0\"");
  assert_refused("lognormal:9", "expected median and sigma");
  assert_refused("lognormal:9+a", "found sigma \"a\"");
  assert_refused("lognormal:9+11", "from 0 to 10");
  assert_refused("/nowhere/lengths.txt", "a file of lengths");
}

int main(void) {
  return run_tests();
}
