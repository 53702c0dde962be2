#include "parallel.h"
#include "progress_line.h"
#include "run_suite.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void visit(gint64 index, int thread, gpointer data) {
  ((guint8 *)data)[index]++; /* each index has a byte of its own */
}

TEST(every_index_is_visited_once) {
  for (gint64 n = 0; n < 700; n += 69) {
    g_autofree guint8 *visits = g_new0(guint8, n + 1);
    parallel_for(n, 4, visit, visits, NULL);
    gint64 n_once = 0;
    for (gint64 i = 0; i < n; i++)
      n_once += visits[i] == 1;
    ck_assert_int_eq(n_once, n);
  }
}

typedef struct {
  gint n_visited; /* atomic */
  gint64 last_seen;
} Looked;

static void visit_slowly(gint64 index, int thread, gpointer data) {
  g_atomic_int_inc(&((Looked *)data)->n_visited);
  g_usleep(1000);
}

static gboolean look_once(gint64 n_done, gpointer data) {
  ((Looked *)data)->last_seen = n_done;
  return FALSE;
}

/* 2,000,000 visits of a millisecond would take a quarter of an hour. */
TEST(who_looks_on_may_want_no_more) {
  Looked looked = {0};
  const ParallelWatch watch = {look_once, &looked};
  ck_assert(!parallel_for(2000000, 3, visit_slowly, &looked, &watch));
  ck_assert_int_gt(looked.n_visited, 0);
  ck_assert_int_ge(looked.last_seen, 1);
  ck_assert_int_lt(looked.n_visited, 2000000);
}

/* 1,234 of 5,000 are 24.68 %; the 3,766 left take 37.66 s at 100 a second, of which those done before say nothing. */
TEST(progress_tells_how_much_how_fast_and_how_long) {
  static const struct {
    Progress progress;
    double per_s;
    const char *text;
  } lines[] = {
      {{.n_wanted = 5000, .n_before = 234, .n_now = 1000, .detail = "3 ran"},
       100,
       "1,234 of 5,000 (24.7 %): 3 ran; 100/s, 38 s left"},
      {{.doing = "simulating plans: ", .n_wanted = 40, .n_now = 10, .is_most = TRUE},
       0.05,
       "simulating plans: 10 of at most 40 (25.0 %); 0.1/s, at most 10 min left"},
      {{.n_wanted = 7}, 0, "0 of 7 (0.0 %); 0.0/s, ? left"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(lines); i++) {
    g_autofree char *text = progress_text(&lines[i].progress, lines[i].per_s);
    ck_assert_str_eq(text, lines[i].text);
  }
}

/* Of 49 columns the last stays empty, or the next line would begin. */
TEST(progress_ends_before_the_last_column) {
  const Progress progress = {.n_wanted = 5000, .n_before = 234, .n_now = 1000, .detail = "3 ran"};
  static const struct {
    int columns;
    const char *text;
  } cases[] = {{50, "1,234 of 5,000 (24.7 %): 3 ran; 100/s, 38 s left"},
               {49, "1,234 of 5,000 (24.7 %): 3 ran; 100/s, 38 s left"},
               {48, "1,234 of 5,000 (24.7 %); 100/s, 38 s left"},
               {42, "1,234 of 5,000 (24.7 %); 100/s, 38 s left"},
               {41, "1,234 of 5,000 (24.7 %); 100/s, 38 s lef"},
               {1, ""}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = progress_text_within(&progress, 100, cases[i].columns);
    ck_assert_str_eq(text, cases[i].text);
  }
}

/* What is shown on a terminal of a line that has just begun; that a second is over has to be waited for. */
static gboolean is_shown_at_once(gboolean is_news) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK), was = dup(STDERR_FILENO);
  ck_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
  const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
  dup2(terminal, STDERR_FILENO);
  ProgressLine line;
  progress_line_init(&line);
  const Progress progress = {.n_wanted = 9, .n_now = 1, .detail = "best so far 12 s", .is_news = is_news};
  progress_line_show(&line, &progress);
  dup2(was, STDERR_FILENO);
  char shown[100] = "";
  const gboolean is_shown = read(master, shown, sizeof shown - 1) > 0 && strstr(shown, progress.detail) != NULL;
  close(was);
  close(terminal);
  close(master);
  return is_shown;
}

TEST(news_waits_for_no_second) {
  ck_assert(is_shown_at_once(TRUE));
  ck_assert(!is_shown_at_once(FALSE));
}

int main(void) {
  return run_tests();
}
