/* Saved calibration progress: restored whole, truncated at every byte, damaged. */
#include "calibration_progress.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

#define HEADER "stepreal calibrate 5, device cpu, a processor, comm null, 1 ranks, 1 on a machine, 5 repeats"

static WorkItem product(gint64 m) {
  return (WorkItem){.kind = ITEM_MATMUL, .batch = 1, .m = m, .n = 64, .k = 64};
}

/* Two parts: one ran products of 16 and 32, the other of 32 again and of 64. The text, owned by the caller. */
static char *two_parts(void) {
  g_autoptr(CalibrationProgress) progress = calibration_progress_new(HEADER);
  g_autoptr(KernelTimes) times = kernel_times_new();
  const WorkItem small = product(16), middle = product(32), large = product(64);
  kernel_times_add(times, &small, 1e-6);
  kernel_times_add(times, &middle, 2e-6);
  calibration_progress_add(progress, "first, 1 × 8 tokens", times);
  kernel_times_add(times, &middle, 4e-6);
  kernel_times_add(times, &middle, 4e-6);
  kernel_times_add(times, &large, 8e-6);
  return g_strdup(calibration_progress_add(progress, "second", times));
}

typedef struct {
  int n_parts, n_kernels;
  double middle_s; /* of the product that both parts ran; 0: not known */
  gboolean has_first, has_second;
} Taken;

static Taken take(const char *text, char **problem) {
  g_autoptr(CalibrationProgress) progress = calibration_progress_new(HEADER);
  g_autoptr(KernelTimes) times = kernel_times_new();
  *problem = calibration_progress_read(progress, text, times);
  Taken taken = {.n_parts = calibration_progress_n_parts(progress),
                 .has_first = calibration_progress_has(progress, "first, 1 × 8 tokens"),
                 .has_second = calibration_progress_has(progress, "second")};
  const KernelTime *kernels = kernel_times_all(times, &taken.n_kernels);
  for (int i = 0; i < taken.n_kernels; i++)
    if (kernels[i].item.m == 32)
      taken.middle_s = kernels[i].median_s;
  return taken;
}

TEST(a_whole_text_gives_its_parts_and_the_later_time_of_a_kernel) {
  g_autofree char *text = two_parts();
  char *problem;
  const Taken taken = take(text, &problem);
  ck_assert_ptr_null(problem);
  ck_assert(taken.n_parts == 2 && taken.has_first && taken.has_second);
  ck_assert_int_eq(taken.n_kernels, 3);
  ck_assert_double_eq_tol(taken.middle_s, 4e-6, 1e-12); /* the median of 2, 4 and 4 µs */
}

/* Of a text cut behind byte k, the parts whose line "done" is whole count, with the kernels above it and no others;
 * what is cut is told, but where a text of fewer parts would end too. */
TEST(cut_off_anywhere_whole_parts_alone_count) {
  g_autofree char *text = two_parts();
  const gsize n_bytes = strlen(text), first_end = (gsize)(strstr(text, "tokens\n") + strlen("tokens\n") - text);
  for (gsize k = 0; k < n_bytes; k++) {
    g_autofree char *cut = g_strndup(text, k), *problem = NULL;
    const Taken taken = take(cut, &problem);
    const gboolean has_first = k >= first_end, is_shorter = k == first_end || k == strlen(HEADER "\n");
    ck_assert_msg((problem == NULL) == is_shorter, "%d bytes: %s", (int)k, problem);
    ck_assert_msg(taken.has_first == has_first && !taken.has_second && taken.n_parts == has_first, "%d bytes", (int)k);
    ck_assert_int_eq(taken.n_kernels, has_first ? 2 : 0);
    ck_assert_double_eq_tol(taken.middle_s, has_first ? 2e-6 : 0, 1e-12);
  }
}

TEST(a_damaged_line_is_named_and_ends_what_counts) {
  g_autofree char *text = two_parts(), *problem = NULL;
  char *damaged = strstr(strstr(text, "done first"), "kernel"); /* line 5 */
  *damaged = 'K';
  const Taken taken = take(text, &problem);
  ck_assert(taken.n_parts == 1 && taken.has_first && taken.n_kernels == 2);
  ck_assert_ptr_nonnull(problem);
  ck_assert_msg(g_str_has_prefix(problem, "line 5: found \"Kernel product"), "%s", problem);
}

TEST(what_is_added_follows_what_was_taken_back) {
  g_autofree char *text = two_parts();
  g_autofree char *cut = g_strndup(text, strlen(text) - 3), *problem = NULL;
  g_autoptr(CalibrationProgress) progress = calibration_progress_new(HEADER);
  g_autoptr(KernelTimes) times = kernel_times_new();
  const WorkItem middle = product(32), large = product(64);
  problem = calibration_progress_read(progress, cut, times);
  ck_assert_ptr_nonnull(problem);
  for (int i = 0; i < 3; i++) /* as the second part had them: median 4 µs, quartiles 2 and 4 */
    kernel_times_add(times, &middle, i == 0 ? 2e-6 : 4e-6);
  kernel_times_add(times, &large, 8e-6);
  ck_assert_str_eq(calibration_progress_add(progress, "second", times), text);
}

/* What a line of times is replaced by: none of it could have been written by a calibration. */
TEST(numbers_that_no_machine_has_are_damage) {
  static const char *const bad[] = {
      "kernel product fp32 0 0 1 64 64 64 = inf 0.1 5",
      "kernel product fp32 0 0 1 64 64 64 = nan 0.1 5",
      "kernel product fp32 0 0 1 64 64 64 = 0 0.1 5",
      "kernel product fp32 0 0 1 64 64 64 = -1e-05 0.1 5",
      "kernel product fp32 0 0 1 64 64 64 = 1e+300 0.1 5",
      "kernel product fp32 0 0 1 64 64 64 = 1e-300 0.1 5",
      "kernel product fp32 0 0 1 64 64 64 = 1e-05 nan 5",
      "kernel product fp32 0 0 1 64 64 64 = 1e-05 -1 5",
      "kernel product fp32 0 0 1 64 64 64 = 1e-05 0.1 0",
      "kernel product fp32 0 0 1 64 64 64 = 1e-05 0.1 99999999999",
      "kernel product fp32 0 0 1 64 64 64 = 1e-05 0.1 5 5",
      "kernel product fp32 0 0 1 64 64 64 64 = 1e-05 0.1 5",
      "kernel product fp32 0 0 1 0 64 64 = 1e-05 0.1 5",
      "kernel product fp32 0 0 1 -64 64 64 = 1e-05 0.1 5",
      "kernel product fp32 0 0 1 64 64 9223372036854775807 = 1e-05 0.1 5",
      "kernel product fp32 0 0 1 2000000000 2000000000 64 = 1e-05 0.1 5",
      "kernel product fp32 7 0 1 64 64 64 = 1e-05 0.1 5",
      "kernel product fp32 0 2 1 64 64 64 = 1e-05 0.1 5",
      "kernel product fp99 0 0 1 64 64 64 = 1e-05 0.1 5",
      "kernel attention fp32 0 4 64 64 0 64 = 1e-05 0.1 5",
      "kernel attention fp32 0 4 64 64 32 -64 = 1e-05 0.1 5",
      "kernel memory norm -64 = 1e-05 0.1 5",
      "kernel memory norm 1e+300 = 1e-05 0.1 5",
      "kernel memory norm nan = 1e-05 0.1 5",
  };
  static const char good[] = "kernel attention fp32 0 4 64 64 32 64 = 1e-05 0.1 5\nkernel memory norm 64 = 1e-05 0 5";
  const char *lines[G_N_ELEMENTS(bad) + 1];
  memcpy(lines, bad, sizeof bad);
  lines[G_N_ELEMENTS(bad)] = good;
  for (gsize i = 0; i < G_N_ELEMENTS(lines); i++) {
    g_autofree char *text = g_strdup_printf("%s\ndone first, 1 × 8 tokens\n%s\ndone second\n", HEADER, lines[i]);
    g_autofree char *problem = NULL;
    const Taken taken = take(text, &problem);
    const gboolean is_good = lines[i] == good;
    g_autofree char *start = g_strdup_printf("line 3: found \"%s\", expected a kernel's times", lines[i]);
    ck_assert_msg(taken.has_first && taken.has_second == is_good && taken.n_kernels == (is_good ? 2 : 0), "%s",
                  lines[i]);
    ck_assert_msg(is_good ? problem == NULL : problem != NULL && g_str_has_prefix(problem, start), "%s: %s", lines[i],
                  problem);
  }
}

TEST(of_another_calibrations_text_nothing_counts_and_it_is_told) {
  static const struct {
    const char *from, *to;
  } others[] = {{"calibrate 5", "calibrate 4"}, {"a processor", "another one"}, {"1 ranks", "2 ranks"}};
  for (gsize i = 0; i < G_N_ELEMENTS(others); i++) {
    g_autofree char *text = two_parts(), *problem = NULL;
    g_auto(GStrv) halves = g_strsplit(text, others[i].from, 2);
    g_autofree char *other = g_strconcat(halves[0], others[i].to, halves[1], NULL);
    const Taken taken = take(other, &problem);
    ck_assert(taken.n_parts == 0 && taken.n_kernels == 0);
    ck_assert_ptr_nonnull(problem);
    ck_assert_msg(g_str_has_prefix(problem, "line 1: found \"stepreal calibrate ") && strstr(problem, others[i].to) &&
                      strstr(problem, "expected \"" HEADER "\""),
                  "%s", problem);
  }
}

int main(void) {
  return run_tests();
}
