#include "grad_compressor.h"

#include "compressed_sum.h"
#include "dropout.h"

#include <math.h>
#include <string.h>

enum { WORD_BITS = 32, MOST_PARTS = 5 };

/* Of powersgd: factors of one matrix, in `p` and `q` row by row. */
typedef struct {
  GradMatrix of;
  int rank;
  gint64 p, q;
} Factors;

struct GradCompressor {
  GradCompression how;
  int n_ranks, rank;
  gint64 n, n_padded;                      /* onebit: to whole words of each rank's part */
  float *values, *error;                   /* [n_padded] */
  float *lost;                             /* [n_padded], or NULL */
  float *sent, *received;                  /* what is sent and received: values, words of signs, vectors */
  float *places, *gathered_places;         /* topk: int32 in the bits */
  gint64 n_values;                         /* topk, of a rank */
  float *server_error;                     /* onebit: [part] */
  float scale, *scales;                    /* onebit: this rank's; [ranks] */
  guint32 *signs, *part_signs, *all_signs; /* onebit: [words of all], [words of all, from all ranks], [words of all] */
  Factors *factors;                        /* powersgd */
  int n_factors;
  float *p, *q;             /* of all matrices */
  gint64 n_p, n_q, n_whole; /* elements; of the latter, those in no matrix */
};

static gint64 part_size(const GradCompressor *c) {
  return c->n_padded / c->n_ranks;
}

float *grad_compressor_values(GradCompressor *c) {
  return c->values;
}

float *grad_compressor_lost(GradCompressor *c) {
  return c->lost;
}

/* Adds the error of earlier sums, which is what will be lost no longer. */
static void begin(GradCompressor *c) {
  for (gint64 i = c->n; i < c->n_padded; i++)
    c->values[i] = 0;
  for (gint64 i = 0; i < c->n_padded; i++)
    c->values[i] += c->error[i];
  for (gint64 i = 0; i < c->n_padded && c->lost != NULL; i++)
    c->lost[i] = -c->error[i];
}

static void note_lost(GradCompressor *c) {
  for (gint64 i = 0; i < c->n_padded && c->lost != NULL; i++)
    c->lost[i] += c->error[i];
}

/* --- topk --- */

static int compare_floats_down(gconstpointer a, gconstpointer b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x < y) - (x > y);
}

/* The smallest magnitude that is chosen, and how many of that one are. */
static float threshold(const GradCompressor *c, gint64 *n_equal) {
  g_autofree float *sizes = g_new(float, c->n);
  for (gint64 i = 0; i < c->n; i++)
    sizes[i] = fabsf(c->values[i]);
  qsort(sizes, (gsize)c->n, sizeof *sizes, compare_floats_down);
  const float least = sizes[c->n_values - 1];
  *n_equal = 0;
  for (gint64 i = c->n_values; i-- > 0 && sizes[i] == least;)
    ++*n_equal;
  return least;
}

static void choose(GradCompressor *c) {
  begin(c);
  gint64 n_equal, n = 0;
  const float least = threshold(c, &n_equal);
  memcpy(c->error, c->values, (gsize)c->n * sizeof(float));
  for (gint64 i = 0; i < c->n && n < c->n_values; i++) {
    const float size = fabsf(c->values[i]);
    if (!(size > least) && !(size == least && n_equal-- > 0))
      continue;
    const gint32 place = (gint32)i;
    c->sent[n] = c->values[i];
    memcpy(&c->places[n++], &place, sizeof place);
    c->error[i] = 0;
  }
  note_lost(c);
}

/* By rank, so that all ranks have the same sum. */
static void add_chosen(GradCompressor *c) {
  memset(c->values, 0, (gsize)c->n * sizeof(float));
  for (gint64 i = 0; i < c->n_ranks * c->n_values; i++) {
    gint32 place;
    memcpy(&place, &c->gathered_places[i], sizeof place);
    c->values[place] += c->received[i];
  }
}

/* --- onebit --- */

/* Signs of x, 0 counting as positive, and a scale that keeps the norm; what x loses is its new error. */
static float take_signs(const float *x, gint64 n, float *error, guint32 *signs) {
  double sum = 0;
  for (gint64 i = 0; i < n; i++)
    sum += (double)x[i] * x[i];
  const float scale = (float)sqrt(sum / (double)n);
  memset(signs, 0, (gsize)(n / WORD_BITS) * sizeof *signs);
  for (gint64 i = 0; i < n; i++) {
    const gboolean is_positive = x[i] >= 0;
    signs[i / WORD_BITS] |= (guint32)is_positive << i % WORD_BITS;
    error[i] = x[i] - (is_positive ? scale : -scale);
  }
  return scale;
}

static float signed_scale(const guint32 *signs, gint64 i, float scale) {
  return signs[i / WORD_BITS] >> i % WORD_BITS & 1 ? scale : -scale;
}

static void compress_all(GradCompressor *c) {
  begin(c);
  c->scale = take_signs(c->values, c->n_padded, c->error, c->signs);
  note_lost(c);
}

/* What all ranks have sent of this one's part. */
static void sum_part(GradCompressor *c) {
  const gint64 n = part_size(c);
  float *sum = c->values; /* no longer needed */
  for (gint64 i = 0; i < n; i++)
    sum[i] = c->server_error[i];
  for (int rank = 0; rank < c->n_ranks; rank++)
    for (gint64 i = 0; i < n; i++)
      sum[i] += signed_scale(c->part_signs, rank * n + i, c->scales[rank]);
  float *lost = c->lost != NULL ? c->lost + c->rank * n : NULL;
  for (gint64 i = 0; i < n && lost != NULL; i++)
    lost[i] -= c->server_error[i];
  c->scale = take_signs(sum, n, c->server_error, c->signs);
  for (gint64 i = 0; i < n && lost != NULL; i++)
    lost[i] += c->server_error[i];
}

static void put_signs(GradCompressor *c) {
  const gint64 n = part_size(c);
  for (gint64 i = 0; i < c->n_padded; i++)
    c->values[i] = signed_scale(c->all_signs, i, c->scales[i / n]);
}

/* --- powersgd --- */

/* y[a] = Σ_b M[a][b]·x[b][r]; or of Mᵀ. */
static void multiply(const GradCompressor *c, const Factors *f, gboolean is_transposed, const float *x, float *y) {
  const gint64 n = is_transposed ? f->of.columns : f->of.rows, inner = is_transposed ? f->of.rows : f->of.columns;
  const float *m = c->values + f->of.first;
  for (gint64 a = 0; a < n; a++)
    for (int r = 0; r < f->rank; r++) {
      double sum = 0;
      for (gint64 b = 0; b < inner; b++)
        sum += (double)m[is_transposed ? b * f->of.columns + a : a * f->of.columns + b] * x[b * f->rank + r];
      y[a * f->rank + r] = (float)sum;
    }
}

static double column_product(const double *x, gint64 n, int rank, int a, int b) {
  double sum = 0;
  for (gint64 i = 0; i < n; i++)
    sum += x[i * rank + a] * x[i * rank + b];
  return sum;
}

/* Gram-Schmidt, each column twice; one that depends on those before it becomes zero. */
static void orthogonalize(float *x, gint64 n, int rank) {
  static const double least_left = 1e-5; /* of a column: above what rounds in fp32 */
  g_autofree double *wide = g_new(double, n *rank);
  for (gint64 i = 0; i < n * rank; i++)
    wide[i] = x[i];
  for (int r = 0; r < rank; r++) {
    const double before = sqrt(column_product(wide, n, rank, r, r));
    for (int again = 0; again < 2; again++)
      for (int other = 0; other < r; other++) {
        const double along = column_product(wide, n, rank, r, other);
        for (gint64 i = 0; i < n; i++)
          wide[i * rank + r] -= along * wide[i * rank + other];
      }
    const double left = sqrt(column_product(wide, n, rank, r, r));
    for (gint64 i = 0; i < n; i++)
      wide[i * rank + r] = left > least_left * before ? wide[i * rank + r] / left : 0;
  }
  for (gint64 i = 0; i < n * rank; i++)
    x[i] = (float)wide[i];
}

/* Between the matrices, to or from one array. */
static void move_whole(const GradCompressor *c, gboolean puts) {
  gint64 at = 0, from = 0;
  for (int i = 0; i <= c->n_factors; i++) {
    const GradMatrix *matrix = i < c->n_factors ? &c->factors[i].of : NULL;
    const gint64 n = (matrix != NULL ? matrix->first : c->n) - from;
    memcpy(puts ? c->values + from : c->sent + at, puts ? c->sent + at : c->values + from, (gsize)n * sizeof(float));
    at += n;
    from += n + (matrix != NULL ? matrix->rows * matrix->columns : 0);
  }
}

static void multiply_by_q(GradCompressor *c) {
  begin(c);
  move_whole(c, FALSE);
  memset(c->error, 0, (gsize)c->n * sizeof(float)); /* vectors lose nothing */
  for (int i = 0; i < c->n_factors; i++) {
    const Factors *f = &c->factors[i];
    memcpy(c->error + f->of.first, c->values + f->of.first, (gsize)(f->of.rows * f->of.columns) * sizeof(float));
    orthogonalize(c->q + f->q, f->of.columns, f->rank);
    multiply(c, f, FALSE, c->q + f->q, c->p + f->p);
  }
}

static void multiply_by_p(GradCompressor *c) {
  for (int i = 0; i < c->n_factors; i++) {
    const Factors *f = &c->factors[i];
    orthogonalize(c->p + f->p, f->of.rows, f->rank);
    multiply(c, f, TRUE, c->p + f->p, c->q + f->q);
  }
}

/* Each rank's error is of its part of the sum, as if all had the same. */
static void put_products(GradCompressor *c) {
  move_whole(c, TRUE);
  for (int k = 0; k < c->n_factors; k++) {
    const Factors *f = &c->factors[k];
    for (gint64 i = 0; i < f->of.rows; i++)
      for (gint64 j = 0; j < f->of.columns; j++) {
        const gint64 at = f->of.first + i * f->of.columns + j;
        double sum = 0;
        for (int r = 0; r < f->rank; r++)
          sum += (double)c->p[f->p + i * f->rank + r] * c->q[f->q + j * f->rank + r];
        c->values[at] = (float)sum;
        c->error[at] -= (float)(sum / c->n_ranks);
      }
  }
  note_lost(c);
}

/* --- parts --- */

static void run_nothing(GradCompressor *c) {
}

static void (*const parts[N_COMPRESSIONS][MOST_PARTS])(GradCompressor *) = {
    [COMPRESS_TOPK] = {choose, run_nothing, add_chosen},
    [COMPRESS_ONEBIT] = {compress_all, run_nothing, sum_part, run_nothing, put_signs},
    [COMPRESS_POWERSGD] = {multiply_by_q, run_nothing, multiply_by_p, put_products},
};

int grad_compressor_n_parts(const GradCompressor *c) {
  int n = 0;
  while (n < MOST_PARTS && parts[c->how.kind][n] != NULL)
    n++;
  return n;
}

void grad_compressor_run(GradCompressor *c, int part) {
  parts[c->how.kind][part](c);
}

static CollectiveSpec call(Collective collective, const void *in, void *out, gint64 n) {
  return (CollectiveSpec){.collective = collective, .number = NUMBER_FP32, .in = in, .out = out, .n = n};
}

gboolean grad_compressor_call(const GradCompressor *c, int part, CollectiveSpec *spec) {
  GradCompressor *own = (GradCompressor *)c; /* its buffers */
  const gint64 n_words = c->n_padded / WORD_BITS, n_gathered = c->n_ranks * c->n_values;
  if (part + 1 == grad_compressor_n_parts(c))
    return FALSE;
  if (c->how.kind == COMPRESS_TOPK)
    *spec = part == 0 ? call(COLLECTIVE_ALL_GATHER, c->sent, c->received, n_gathered)
                      : call(COLLECTIVE_ALL_GATHER, c->places, c->gathered_places, n_gathered);
  else if (c->how.kind == COMPRESS_ONEBIT)
    *spec = part == 0   ? call(COLLECTIVE_ALL_TO_ALL, c->signs, c->part_signs, n_words)
            : part == 2 ? call(COLLECTIVE_ALL_GATHER, c->signs, c->all_signs, n_words)
                        : call(COLLECTIVE_ALL_GATHER, &own->scale, c->scales, c->n_ranks);
  else
    *spec = part == 0   ? call(COLLECTIVE_ALL_REDUCE, c->sent, c->sent, c->n_whole)
            : part == 1 ? call(COLLECTIVE_ALL_REDUCE, c->p, c->p, c->n_p)
                        : call(COLLECTIVE_ALL_REDUCE, c->q, c->q, c->n_q);
  return spec->n > 0;
}

/* --- making one --- */

static void make_topk(GradCompressor *c) {
  c->n_values = (gint64)compressed_values(&c->how, (double)c->n);
  c->sent = g_new0(float, c->n_values);
  c->places = g_new0(float, c->n_values);
  c->received = g_new0(float, c->n_ranks * c->n_values);
  c->gathered_places = g_new0(float, c->n_ranks * c->n_values);
}

static void make_onebit(GradCompressor *c) {
  const gint64 n_words = c->n_padded / WORD_BITS;
  c->server_error = g_new0(float, part_size(c));
  c->scales = g_new0(float, c->n_ranks);
  c->signs = g_new0(guint32, n_words);
  c->part_signs = g_new0(guint32, n_words);
  c->all_signs = g_new0(guint32, n_words);
}

static void make_powersgd(GradCompressor *c, const GArray *matrices) {
  c->n_factors = (int)matrices->len;
  c->factors = g_new0(Factors, c->n_factors + 1);
  c->n_whole = c->n;
  for (int i = 0; i < c->n_factors; i++) {
    Factors *f = &c->factors[i];
    f->of = g_array_index(matrices, GradMatrix, i);
    f->rank = (int)MIN(c->how.rank, MIN(f->of.rows, f->of.columns));
    f->p = c->n_p;
    f->q = c->n_q;
    c->n_p += f->of.rows * f->rank;
    c->n_q += f->of.columns * f->rank;
    c->n_whole -= f->of.rows * f->of.columns;
  }
  c->sent = g_new0(float, c->n_whole + 1);
  c->p = g_new0(float, c->n_p + 1);
  c->q = g_new0(float, c->n_q + 1);
  for (gint64 i = 0; i < c->n_q; i++)
    c->q[i] = (float)((double)kernel_random(1, (guint64)i) / 0x1p32 - 0.5);
}

GradCompressor *grad_compressor_new(const GradCompression *how, gint64 n, const GArray *matrices, int n_ranks, int rank,
                                    gboolean says_lost) {
  GradCompressor *c = g_new0(GradCompressor, 1);
  const gint64 step = how->kind == COMPRESS_ONEBIT ? (gint64)WORD_BITS * n_ranks : 1;
  c->how = *how;
  c->n_ranks = n_ranks;
  c->rank = rank;
  c->n = n;
  c->n_padded = (n + step - 1) / step * step;
  c->values = g_new0(float, c->n_padded);
  c->error = g_new0(float, c->n_padded);
  c->lost = says_lost ? g_new0(float, c->n_padded) : NULL;
  if (how->kind == COMPRESS_TOPK)
    make_topk(c);
  else if (how->kind == COMPRESS_ONEBIT)
    make_onebit(c);
  else
    make_powersgd(c, matrices);
  return c;
}

void grad_compressor_free(GradCompressor *c) {
  if (c == NULL)
    return;
  gpointer const memory[] = {
      c->values, c->error,        c->lost,  c->sent,       c->received,  c->places,  c->gathered_places,
      c->scales, c->server_error, c->signs, c->part_signs, c->all_signs, c->factors, c->p,
      c->q};
  for (gsize i = 0; i < G_N_ELEMENTS(memory); i++)
    g_free(memory[i]);
  g_free(c);
}
