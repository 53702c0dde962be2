/* Compressed sums of several ranks in one process, against the same methods written again as their papers have them, in
 * double, with no parts and no packing. */
#include "grad_compressor.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { N_RANKS = 3, N = 7 + 6 * 5 + 2 + 4 * 4, N_STEPS = 5 };

/* Vectors of 7 and 2 elements, matrices of 6 × 5 and 4 × 4. */
static const GradMatrix matrices[] = {{7, 6, 5}, {7 + 6 * 5 + 2, 4, 4}};

typedef struct {
  GradCompressor *ranks[N_RANKS];
} Ranks;

static Ranks ranks_new(const char *text) {
  GradCompression how;
  ck_assert(grad_compression_parse("--compress-grad", text, &how, NULL));
  g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(GradMatrix));
  g_array_append_vals(all, matrices, G_N_ELEMENTS(matrices));
  Ranks ranks;
  for (int r = 0; r < N_RANKS; r++)
    ranks.ranks[r] = grad_compressor_new(&how, N, all, N_RANKS, r, TRUE);
  return ranks;
}

static void ranks_free(Ranks *ranks) {
  for (int r = 0; r < N_RANKS; r++)
    grad_compressor_free(ranks->ranks[r]);
}

/* What a communicator does. */
static void communicate(const CollectiveSpec specs[N_RANKS]) {
  const gsize n = (gsize)specs[0].n, part = n / N_RANKS;
  g_autofree float *out = g_new0(float, n);
  if (specs[0].collective == COLLECTIVE_ALL_REDUCE) {
    for (int r = 0; r < N_RANKS; r++)
      for (gsize i = 0; i < n; i++)
        out[i] += ((const float *)specs[r].in)[i];
  }
  if (specs[0].collective == COLLECTIVE_ALL_GATHER)
    for (int r = 0; r < N_RANKS; r++)
      memcpy(out + (gsize)r * part, specs[r].in, part * sizeof(float));
  for (int r = 0; r < N_RANKS; r++) {
    for (int from = 0; specs[0].collective == COLLECTIVE_ALL_TO_ALL && from < N_RANKS; from++)
      memcpy(out + (gsize)from * part, (const float *)specs[from].in + (gsize)r * part, part * sizeof(float));
    memcpy(specs[r].out, out, n * sizeof(float));
  }
}

/* gradients[rank][element]. Returns the sum, which all ranks have. */
static const float *sum(Ranks *ranks, double gradients[N_RANKS][N]) {
  for (int r = 0; r < N_RANKS; r++)
    for (int i = 0; i < N; i++)
      grad_compressor_values(ranks->ranks[r])[i] = (float)gradients[r][i];
  for (int part = 0; part < grad_compressor_n_parts(ranks->ranks[0]); part++) {
    CollectiveSpec specs[N_RANKS];
    gboolean calls = FALSE;
    for (int r = 0; r < N_RANKS; r++) {
      grad_compressor_run(ranks->ranks[r], part);
      calls = grad_compressor_call(ranks->ranks[r], part, &specs[r]);
    }
    if (calls)
      communicate(specs);
  }
  for (int r = 1; r < N_RANKS; r++)
    ck_assert_mem_eq(grad_compressor_values(ranks->ranks[r]), grad_compressor_values(ranks->ranks[0]),
                     N * sizeof(float));
  return grad_compressor_values(ranks->ranks[0]);
}

static void draw(GRand *rand, double gradients[N_RANKS][N]) {
  for (int r = 0; r < N_RANKS; r++)
    for (int i = 0; i < N; i++)
      gradients[r][i] = (double)(float)g_rand_double_range(rand, -1, 1);
}

static void assert_near(const float *found, const double *expected, const char *what) {
  for (int i = 0; i < N; i++)
    ck_assert_msg(fabs(found[i] - expected[i]) < 3e-6, "%s: element %d: %.9g, expected %.9g", what, i, (double)found[i],
                  expected[i]);
}

static void add_ranks(double gradients[N_RANKS][N], double *all) {
  for (int i = 0; i < N; i++) {
    all[i] = 0;
    for (int r = 0; r < N_RANKS; r++)
      all[i] += gradients[r][i];
  }
}

TEST(all_values_or_full_ranks_are_the_exact_sum) {
  static const char *const methods[] = {"topk:1", "powersgd:5", "powersgd:100"};
  g_autoptr(GRand) rand = g_rand_new_with_seed(1);
  for (gsize m = 0; m < G_N_ELEMENTS(methods); m++) {
    Ranks ranks = ranks_new(methods[m]);
    for (int step = 0; step < N_STEPS; step++) {
      double gradients[N_RANKS][N], exact[N];
      draw(rand, gradients);
      add_ranks(gradients, exact);
      assert_near(sum(&ranks, gradients), exact, methods[m]);
    }
    ranks_free(&ranks);
  }
}

/* Matrices of rank 2, such as two tokens' gradients are. */
TEST(matrices_of_lower_rank_lose_nothing) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(2);
  double one[N_RANKS][N], gradients[N_RANKS][N] = {{0}}, exact[N];
  Ranks ranks = ranks_new("powersgd:2");
  draw(rand, one);
  for (gsize m = 0; m < G_N_ELEMENTS(matrices); m++)
    for (int r = 0; r < 2; r++) /* each rank adds one product, the third nothing */
      for (int i = 0; i < matrices[m].rows; i++)
        for (int j = 0; j < matrices[m].columns; j++)
          gradients[r][matrices[m].first + i * matrices[m].columns + j] = one[r][i] * one[r][20 + j];
  add_ranks(gradients, exact);
  assert_near(sum(&ranks, gradients), exact, "rank 2");
  ranks_free(&ranks);
}

TEST(what_is_summed_and_kept_is_all_there_was) {
  static const char *const methods[] = {"topk:0.1", "onebit", "powersgd:1"};
  g_autoptr(GRand) rand = g_rand_new_with_seed(3);
  for (gsize m = 0; m < G_N_ELEMENTS(methods); m++) {
    Ranks ranks = ranks_new(methods[m]);
    double largest = 0;
    for (int step = 0; step < N_STEPS; step++) {
      double gradients[N_RANKS][N], exact[N];
      draw(rand, gradients);
      add_ranks(gradients, exact);
      const float *found = sum(&ranks, gradients);
      for (int i = 0; i < N; i++) {
        double lost = 0;
        for (int r = 0; r < N_RANKS; r++)
          lost += grad_compressor_lost(ranks.ranks[r])[i];
        largest = MAX(largest, fabs(lost));
        ck_assert_double_eq_tol(found[i] + lost, exact[i], 1e-5);
      }
    }
    ck_assert_double_gt(largest, 0.1);
    ranks_free(&ranks);
  }
}

/* --- the methods again --- */

/* ⌈0.2·55⌉ = 11 of each rank, largest first. */
TEST(topk_is_as_written_again) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(4);
  Ranks ranks = ranks_new("topk:0.2");
  double errors[N_RANKS][N] = {{0}};
  for (int step = 0; step < N_STEPS; step++) {
    double gradients[N_RANKS][N], expected[N] = {0};
    draw(rand, gradients);
    const float *found = sum(&ranks, gradients);
    for (int r = 0; r < N_RANKS; r++) {
      for (int i = 0; i < N; i++)
        errors[r][i] += gradients[r][i];
      for (int taken = 0; taken < 11; taken++) {
        int most = 0;
        for (int i = 1; i < N; i++)
          most = fabs(errors[r][i]) > fabs(errors[r][most]) ? i : most;
        expected[most] += errors[r][most];
        errors[r][most] = 0;
      }
    }
    assert_near(found, expected, "topk");
  }
  ranks_free(&ranks);
}

enum { N_PADDED = 96 }; /* 55, in whole words of 32 for each of 3 ranks */

/* C(x) = ‖x‖/√n · sign(x): returns the scale, and leaves in x what is lost. */
static double lose_signs(double *x, int n, double *compressed) {
  double squares = 0;
  for (int i = 0; i < n; i++)
    squares += x[i] * x[i];
  const double scale = sqrt(squares / n);
  for (int i = 0; i < n; i++) {
    compressed[i] = x[i] < 0 ? -scale : scale;
    x[i] -= compressed[i];
  }
  return scale;
}

TEST(onebit_is_as_written_again) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(5);
  Ranks ranks = ranks_new("onebit");
  double errors[N_RANKS][N_PADDED] = {{0}}, server[N_PADDED] = {0};
  for (int step = 0; step < N_STEPS; step++) {
    double gradients[N_RANKS][N], compressed[N_PADDED], expected[N_PADDED];
    draw(rand, gradients);
    const float *found = sum(&ranks, gradients);
    for (int r = 0; r < N_RANKS; r++) {
      for (int i = 0; i < N; i++)
        errors[r][i] += gradients[r][i];
      lose_signs(errors[r], N_PADDED, compressed);
      for (int i = 0; i < N_PADDED; i++)
        server[i] += compressed[i];
    }
    for (int part = 0; part < N_RANKS; part++)
      lose_signs(server + part * N_PADDED / N_RANKS, N_PADDED / N_RANKS, expected + part * N_PADDED / N_RANKS);
    assert_near(found, expected, "onebit");
  }
  ranks_free(&ranks);
}

/* Makes the first `rank` of `n` vectors of `size` orthonormal. */
static void make_orthonormal(double vectors[6][6], int rank, int size) {
  for (int r = 0; r < rank; r++)
    for (int again = 0; again < 3; again++) {
      for (int other = 0; other < r; other++) {
        double along = 0;
        for (int i = 0; i < size; i++)
          along += vectors[r][i] * vectors[other][i];
        for (int i = 0; i < size; i++)
          vectors[r][i] -= along * vectors[other][i];
      }
      double squares = 0;
      for (int i = 0; i < size; i++)
        squares += vectors[r][i] * vectors[r][i];
      for (int i = 0; i < size; i++)
        vectors[r][i] /= sqrt(squares);
    }
}

/* A projected onto what it maps the rows of the step before's result to: U·Uᵀ·A, U a basis of A·V, V one of the rows of
 * `before`. */
static void project(const GradMatrix *m, int rank, const float *before, const double *a, double *expected) {
  const int rows = (int)m->rows, columns = (int)m->columns;
  double v[6][6] = {{0}}, u[6][6] = {{0}};
  for (int r = 0; r < rank; r++)
    for (int j = 0; j < columns; j++)
      v[r][j] = before[m->first + r * columns + j]; /* rows span it: products of random vectors */
  make_orthonormal(v, rank, columns);
  for (int r = 0; r < rank; r++)
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < columns; j++)
        u[r][i] += a[m->first + i * columns + j] * v[r][j];
  make_orthonormal(u, rank, rows);
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      double *to = &expected[m->first + i * columns + j];
      *to = 0;
      for (int r = 0; r < rank; r++)
        for (int k = 0; k < rows; k++)
          *to += u[r][i] * u[r][k] * a[m->first + k * columns + j];
    }
}

/* The first step starts from random factors; each later one from the rows of the one before. */
TEST(powersgd_is_as_written_again) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(6);
  Ranks ranks = ranks_new("powersgd:2");
  double errors[N_RANKS][N] = {{0}};
  float before[N];
  for (int step = 0; step < N_STEPS; step++) {
    double gradients[N_RANKS][N], all[N], expected[N];
    draw(rand, gradients);
    const float *found = sum(&ranks, gradients);
    for (int r = 0; r < N_RANKS; r++)
      for (int i = 0; i < N; i++)
        errors[r][i] += gradients[r][i];
    add_ranks(errors, all);
    memcpy(expected, all, sizeof expected); /* vectors as they are */
    for (gsize m = 0; m < G_N_ELEMENTS(matrices) && step > 0; m++)
      project(&matrices[m], 2, before, all, expected);
    if (step > 0)
      for (int i = 0; i < N; i++)
        ck_assert_msg(fabs(found[i] - expected[i]) < 1e-4, "step %d, element %d: %g, expected %g", step, i,
                      (double)found[i], expected[i]);
    memcpy(before, found, sizeof before);
    for (int r = 0; r < N_RANKS; r++)
      for (int i = 0; i < N; i++)
        errors[r][i] -= (double)found[i] / N_RANKS;
    for (int r = 0; r < N_RANKS; r++) { /* vectors lose nothing */
      memset(errors[r], 0, 7 * sizeof(double));
      memset(errors[r] + 7 + 6 * 5, 0, 2 * sizeof(double));
    }
  }
  ranks_free(&ranks);
}

int main(void) {
  return run_tests();
}
