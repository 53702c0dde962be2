/* Attention on the CPU, unfused and fused, with ALiBi, windows and dropout: forward against plain references in double,
 * backward against central differences of these. */
#include "kernel_tensor.h"

#include <stdlib.h>

/* ---- softmax ---- */

/* ALiBi's slopes as the paper has them for 8 heads, 2⁻¹ … 2⁻⁸; of 6 the first four are 2⁻² 2⁻⁴ 2⁻⁶ 2⁻⁸, as of 4, and
 * the others every other of 8, 2⁻¹ and 2⁻³. */
static const double slopes_of_8[] = {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625};
static const double slopes_of_6[] = {0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125};

static double slope_of(const ScoreRule *rule, gint64 head) {
  return rule->alibi_heads == 0 ? 0 : (rule->alibi_heads == 6 ? slopes_of_6 : slopes_of_8)[rule->first_head + head];
}

/* Of the last two of 6 heads; and no key 11 places or more before its query. */
static const ScoreRule rules[] = {{0}, {6, 4, 0}, {0, 0, 11}, {6, 4, 11}};

TEST(slopes_are_those_of_the_paper) {
  const ScoreRule eight = {.alibi_heads = 8, .first_head = 3}, six = {.alibi_heads = 6}, none = {0};
  for (int head = 0; head < 5; head++)
    ck_assert_float_eq(alibi_slope(&eight, head), (float)slopes_of_8[3 + head]);
  for (int head = 0; head < 6; head++)
    ck_assert_float_eq(alibi_slope(&six, head), (float)slopes_of_6[head]);
  ck_assert_float_eq(alibi_slope(&none, 3), 0);
}

typedef struct {
  gint64 matrices, seq_len;
  double scale;
  const ScoreRule *rule; /* of two heads */
  const double *s, *dp;
  double *p;
} SoftmaxCase;

static gboolean is_seen(const ScoreRule *rule, gint64 query, gint64 key) {
  return key <= query && (rule->window == 0 || query - key < rule->window);
}

static double softmax_sum(gpointer data) {
  const SoftmaxCase *softmax = data;
  gint64 n = softmax->seq_len;
  double total = 0;
  for (gint64 row = 0; row < softmax->matrices * n; row++) {
    const double *s = softmax->s + row * n;
    double *p = softmax->p + row * n, sum = 0;
    const double slope = slope_of(softmax->rule, row / n % 2);
    for (gint64 j = 0; j < n; j++)
      sum += p[j] = is_seen(softmax->rule, row % n, j) ? exp(softmax->scale * s[j] - slope * (double)(row % n - j)) : 0;
    for (gint64 j = 0; j < n; j++) {
      p[j] /= sum;
      total += softmax->dp[row * n + j] * p[j];
    }
  }
  return total;
}

LOOP_TEST(softmax_and_its_gradient, n_cases()) {
  Number number = case_number(_i);
  const gint64 lengths[] = {1, 2, 19, 40};
  for (guint i = 0; i < G_N_ELEMENTS(lengths) * G_N_ELEMENTS(rules); i++) {
    const ScoreRule *rule = &rules[i / G_N_ELEMENTS(lengths)];
    gint64 n = lengths[i % G_N_ELEMENTS(lengths)], elements = 2 * n * n;
    g_auto(Tensor) s = tensor_random(number, elements, 1, 0, 8);
    g_auto(Tensor) p = tensor_random(number, elements, 1, 0, 8);
    g_auto(Tensor) dp = tensor_random(number, elements, 2, 0, 1);
    g_autofree double *want = g_new0(double, elements);
    Kernel kernel = {.kind = KERNEL_SOFTMAX_FORWARD,
                     .softmax = {.number = (guint8)number,
                                 .matrices = 2,
                                 .seq_len = n,
                                 .scale = 0.5f,
                                 .n_heads = 2,
                                 .rule = *rule,
                                 .scores = p.data,
                                 .dscores = dp.data}};
    run_kernel(_i, &kernel);
    SoftmaxCase softmax = {2, n, 0.5, rule, s.x, dp.x, want};
    softmax_sum(&softmax);
    assert_tensor("p", &p, want, 1);
    kernel.kind = KERNEL_SOFTMAX_BACKWARD;
    run_kernel(_i, &kernel);
    assert_gradient("ds", &dp, NULL, s.x, softmax_sum, &softmax, 100, 1);
  }
}

/* ---- fused attention ---- */

typedef struct {
  FlashKernel flash;
  const double *q, *k, *v, *d_o;
  double *o, *lse;
} FlashCase;

/* Elements of a probability tensor (sequences of the step, heads of the model, queries, keys), the first of these here
 * being of sequence 5 and head 2 of 9. */
static const ScoreDropout third = {{77, 0.3f}, 5, 9, 2, 0};

static double kept_of(const ScoreDropout *drop, gint64 sequence, gint64 head, gint64 query, gint64 key) {
  if (drop->dropout.rate == 0)
    return 1;
  const gint64 matrix = (5 + sequence) * 9 + 2 + head;
  return (double)dropout_factor(&drop->dropout, (guint64)((matrix * drop->length + query) * drop->length + key));
}

static double flash_query(const FlashCase *c, gint64 sequence, gint64 head, gint64 query, double *scores) {
  const FlashKernel *flash = &c->flash;
  gint64 d = flash->head_dim, dv = flash->v_head_dim, first = sequence * flash->seq_len;
  gint64 kv_head = head / (flash->n_heads / flash->n_kv_heads);
  const double *q = c->q + (first + query) * flash->ld_qkv + head * d;
  double sum = 0, total = 0;
  for (gint64 key = 0; key <= query; key++) {
    scores[key] = 0;
    if (!is_seen(&flash->rule, query, key))
      continue;
    const double *k = c->k + (first + key) * flash->ld_qkv + kv_head * d;
    double dot = 0;
    for (gint64 j = 0; j < d; j++)
      dot += q[j] * k[j];
    sum += scores[key] = exp((double)flash->scale * dot - slope_of(&flash->rule, head) * (double)(query - key));
  }
  c->lse[(sequence * flash->n_heads + head) * flash->seq_len + query] = log(sum);
  gint64 place = (first + query) * flash->ld_o + head * dv;
  for (gint64 j = 0; j < dv; j++) {
    double o = 0;
    for (gint64 key = 0; key <= query; key++)
      o += kept_of(&flash->drop, sequence, head, query, key) * scores[key] / sum *
           c->v[(first + key) * flash->ld_qkv + kv_head * dv + j];
    c->o[place + j] = o;
    total += c->d_o[place + j] * o;
  }
  return total;
}

static double flash_sum(gpointer data) {
  const FlashCase *c = data;
  g_autofree double *scores = g_new(double, c->flash.seq_len);
  double total = 0;
  for (gint64 sequence = 0; sequence < c->flash.sequences; sequence++)
    for (gint64 head = 0; head < c->flash.n_heads; head++)
      for (gint64 query = 0; query < c->flash.seq_len; query++)
        total += flash_query(c, sequence, head, query, scores);
  return total;
}

/* q, k, v side by side in rows, as a fused projection leaves them; the gradients likewise. */
static void try_heads(int test_case, gint64 sequences, gint64 s, gint64 heads, gint64 kv_heads, gint64 d, gint64 dv,
                      int n_samples, ScoreRule rule, ScoreDropout drop) {
  drop.length = s;
  Number number = case_number(test_case);
  gint64 ld = (heads + kv_heads) * d + kv_heads * dv, ld_o = heads * dv + 3, rows = sequences * s;
  g_auto(Tensor) qkv = tensor_random(number, rows * ld, 1, 0, 2);
  g_auto(Tensor) dqkv = tensor_random(number, rows * ld, 2, 0, 2);
  g_auto(Tensor) o = tensor_new(number, rows * ld_o);
  g_auto(Tensor) d_o = tensor_random(number, rows * ld_o, 3, 0, 1);
  g_auto(Tensor) lse = tensor_new(NUMBER_FP32, sequences * heads * s);
  gint64 element = number == NUMBER_FP32 ? 4 : 2, k_at = heads * d, v_at = (heads + kv_heads) * d;
  char *in = qkv.data, *out = dqkv.data;
  FlashKernel flash = {.number = (guint8)number,
                       .sequences = sequences,
                       .seq_len = s,
                       .n_heads = heads,
                       .n_kv_heads = kv_heads,
                       .head_dim = d,
                       .v_head_dim = dv,
                       .scale = (float)(1 / sqrt((double)d)),
                       .rule = rule,
                       .drop = drop,
                       .ld_qkv = ld,
                       .ld_dq = ld,
                       .ld_dkv = ld,
                       .ld_o = ld_o,
                       .q = in,
                       .k = in + k_at * element,
                       .v = in + v_at * element,
                       .o = o.data,
                       .lse = lse.data,
                       .d_o = d_o.data,
                       .dq = out,
                       .dk = out + k_at * element,
                       .dv = out + v_at * element};
  Kernel kernel = {.kind = KERNEL_FLASH_FORWARD, .flash = flash};
  run_kernel(test_case, &kernel);
  FlashCase c = {flash, qkv.x, qkv.x + k_at, qkv.x + v_at, d_o.x, o.x, lse.x};
  flash_sum(&c);
  assert_tensor("o", &o, o.x, 2);
  assert_tensor("lse", &lse, lse.x, 2);
  kernel.kind = KERNEL_FLASH_BACKWARD;
  run_kernel(test_case, &kernel);
  assert_gradient("dqkv", &dqkv, NULL, qkv.x, flash_sum, &c, n_samples, 8);
}

static void try_flash(int test_case, gint64 sequences, gint64 s, gint64 heads, gint64 kv_heads, gint64 d, int n_samples,
                      ScoreRule rule, ScoreDropout drop) {
  try_heads(test_case, sequences, s, heads, kv_heads, d, d, n_samples, rule, drop);
}

TEST(a_share_is_dropped_and_the_rest_scaled_up) {
  enum { N = 100000 };
  const Dropout dropout = {3, 0.3f}, other = {4, 0.3f}, all = {3, 1};
  int n_dropped = 0, n_equal = 0;
  for (guint64 i = 0; i < N; i++) {
    const float factor = dropout_factor(&dropout, i);
    if (factor != 0 && factor != 1 / 0.7f)
      ck_abort_msg("element %d is multiplied by %g", (int)i, (double)factor);
    n_dropped += factor == 0;
    n_equal += (factor == 0) == (dropout_factor(&other, i) == 0);
    if (dropout_factor(&all, i) != 0)
      ck_abort_msg("element %d is kept", (int)i);
  }
  /* binomial: 0.3 ± 0.00145, and 0.3² + 0.7² = 0.58 ± 0.00156 of two seeds agree; five deviations */
  ck_assert_int_lt(abs(n_dropped - 30000), 725);
  ck_assert_int_lt(abs(n_equal - 58000), 780);
}

LOOP_TEST(dropped_scores_are_those_of_their_places, n_cases()) {
  enum { S = 7, HEADS = 3, N = 2 * HEADS * S * S };
  const Number number = case_number(_i);
  g_auto(Tensor) from = tensor_random(number, N, 1, 0, 2), to = tensor_random(number, N, 2, 0, 2);
  g_autofree double *want = g_new(double, N);
  ScoreDropout drop = third;
  drop.length = S;
  for (int i = 0; i < N; i++)
    want[i] = from.x[i] * kept_of(&drop, i / (HEADS * S * S), i / (S * S) % HEADS, i / S % S, i % S);
  Kernel kernel = {.kind = KERNEL_DROP_SCORES,
                   .drop_scores = {.number = (guint8)number,
                                   .matrices = 2 * HEADS,
                                   .seq_len = S,
                                   .n_heads = HEADS,
                                   .drop = drop,
                                   .from = from.data,
                                   .to = to.data}};
  run_kernel(_i, &kernel);
  assert_tensor("to", &to, want, 1);
  kernel.drop_scores.to = from.data; /* in place */
  run_kernel(_i, &kernel);
  assert_tensor("in place", &from, want, 1);
}

LOOP_TEST(flash_attention_and_its_gradient, n_cases()) {
  const ScoreDropout none = {0};
  try_heads(_i, 2, 16, 4, 2, 6, 4, 60, rules[0], none); /* heads of V narrower than those of K, and wider */
  try_heads(_i, 1, 129, 2, 2, 5, 8, 20, rules[0], none);
  try_flash(_i, 1, 1, 1, 1, 2, 0, rules[0], none);
  try_flash(_i, 2, 3, 2, 1, 4, 0, rules[0], none);
  try_flash(_i, 2, 17, 4, 2, 6, 60, rules[0], none);
  try_flash(_i, 1, 128, 1, 1, 8, 30, rules[0], none);
  try_flash(_i, 1, 129, 2, 1, 5, 30, rules[0], none);
  try_flash(_i, 1, 300, 3, 1, 16, 10, rules[0], none);
  for (guint rule = 1; rule < G_N_ELEMENTS(rules); rule++) {
    try_flash(_i, 2, 17, 2, 1, 6, 20, rules[rule], none);
    try_flash(_i, 1, 129, 2, 2, 5, 5, rules[rule], none);
  }
  try_flash(_i, 2, 17, 2, 1, 6, 30, rules[0], third);
  try_flash(_i, 1, 129, 2, 2, 5, 5, rules[3], third);
  try_flash(_i, 1, 600, 1, 1, 4, 2, (ScoreRule){8, 7, 70}, none); /* windows that end in tiles before */
}

int main(void) {
  return run_kernel_case("cpu_attention", listed_tests());
}
