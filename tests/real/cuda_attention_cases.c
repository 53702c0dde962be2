/* Attention: unfused, fused by cuDNN and by our own kernels, on whole sequences and on blocks; and the kernels that
 * transpose and join its operands. */
#include "cuda_cases.h"

/* Heads 3, 4, 5 of 6: slopes of both series. */
static const struct {
  ScoreRule rule;
  ScoreDropout drop;
  const char *name;
} rules[] = {{{0}, {{0}}, ""},
             {{0, 0, 21}, {{0}}, ", a window"},
             {{6, 3, 0}, {{0}}, ", ALiBi"},
             {{6, 3, 21}, {{0}}, ", ALiBi, a window"},
             {{0}, {{41, 0.1f}, 3, 6, 3, 90}, ", dropout"},
             {{6, 3, 0}, {{41, 0.1f}, 3, 6, 3, 90}, ", ALiBi, dropout"},
             {{6, 3, 21}, {{41, 0.1f}, 3, 6, 3, 90}, ", ALiBi, a window, dropout"}};
enum { PLAIN, WINDOW, ALIBI, ALIBI_WINDOW, DROPOUT, OF_BLOCKS, RULED };

static void softmax(Comparison *comparison, Number number, gint64 seq_len, int rule) {
  Case c = case_new(KERNEL_SOFTMAX_FORWARD, "%s 3 x %d%s", number_name(number), (int)seq_len, rules[rule].name);
  Case back = case_new(KERNEL_SOFTMAX_BACKWARD, "%s 3 x %d%s", number_name(number), (int)seq_len, rules[rule].name);
  const SoftmaxKernel task = {.number = (guint8)number,
                              .matrices = 3,
                              .seq_len = seq_len,
                              .scale = 0.3f,
                              .n_heads = 3,
                              .rule = rules[rule].rule};
  const gint64 n = 3 * seq_len * seq_len;
  c.kernel.softmax = back.kernel.softmax = task;
  case_out(&c, &c.kernel.softmax.scores, number, n, -20, 20);
  case_compare(&c, comparison);
  case_in(&back, &back.kernel.softmax.scores, number, n, 0, 0.1);
  case_out(&back, &back.kernel.softmax.dscores, number, n, -1, 1);
  case_compare(&back, comparison);
}

/* Of 40 queries 26, of 70 keys 50: without a mask, and with a diagonal 24 keys further right, added to what is there;
 * tiles of 32 end within both. All of them, where only the leading dimensions differ. Pieces of a sequence, whose
 * distance ALiBi knows. Without a block: all keys. */
static const FlashBlock blocks[] = {{FALSE},
                                    {TRUE, TRUE, FALSE, 26, 50, 70, 64, 48, 72},
                                    {TRUE, FALSE, TRUE, 26, 50, 70, 64, 48, 72},
                                    {TRUE, FALSE, FALSE, 40, 40, 40, 64, 48, 96},
                                    {TRUE, TRUE, FALSE, 26, 50, 70, 64, 48, 72, {10, 60, 90}, {33, 0, 7}}};
enum { WHOLE, FULL, CAUSAL, OWN, PIECES };

typedef struct {
  gint64 seq_len, heads, kv_heads, dim, dim_v;
  int block, rule;
} Attended;

/* The log-sum-exp and output given to backward need not be the forward's: the formulas are compared. */
static void flash(Comparison *comparison, Number number, const Attended *attended) {
  const gint64 seq_len = attended->seq_len, heads = attended->heads, kv_heads = attended->kv_heads, dim = attended->dim,
               dim_v = attended->dim_v;
  const FlashBlock *block = attended->block == WHOLE ? NULL : &blocks[attended->block];
  const int rule = attended->rule;
  const gint64 rows = 2 * seq_len, ld = (heads + kv_heads) * dim + kv_heads * dim_v, ld_o = heads * dim_v;
  const gint64 key_rows = block != NULL ? 2 * block->key_rows : rows, ld_kv = block != NULL ? block->ld_kv : ld;
  const gboolean is_latent = block == NULL && dim != dim_v; /* its gradients of q lie apart from those of k and v */
  const gint64 ld_dq = block != NULL ? block->ld_dq : is_latent ? heads * dim : ld;
  const gint64 ld_dkv = block != NULL ? block->ld_dkv : is_latent ? kv_heads * (dim + dim_v) : ld;
  const char *what = block == NULL ? "" : block->is_full ? ", full block" : ", causal block";
  const FlashKernel task = {.number = (guint8)number,
                            .sequences = 2,
                            .seq_len = seq_len,
                            .n_heads = heads,
                            .n_kv_heads = kv_heads,
                            .head_dim = dim,
                            .v_head_dim = dim_v,
                            .scale = 0.25f,
                            .rule = rules[rule].rule,
                            .drop = rules[rule].drop,
                            .ld_qkv = ld,
                            .ld_dq = ld_dq,
                            .ld_dkv = ld_dkv,
                            .ld_o = ld_o,
                            .block = block != NULL ? *block : (FlashBlock){0}};
  Case c = case_new(KERNEL_FLASH_FORWARD, "%s, seq_len %d, heads %d/%d, head_dim %d/%d%s%s", number_name(number),
                    (int)seq_len, (int)heads, (int)kv_heads, (int)dim, (int)dim_v, what, rules[rule].name);
  Case back = case_new(KERNEL_FLASH_BACKWARD, "%s, seq_len %d, heads %d/%d, head_dim %d/%d%s%s", number_name(number),
                       (int)seq_len, (int)heads, (int)kv_heads, (int)dim, (int)dim_v, what, rules[rule].name);
  c.kernel.flash = back.kernel.flash = task;
  c.slack = back.slack = 2;
  FlashKernel *t = &c.kernel.flash;
  case_in(&c, &t->q, number, rows * ld, -1, 1);
  case_in(&c, &t->k, number, key_rows * ld_kv, -1, 1);
  case_in(&c, &t->v, number, key_rows * ld_kv, -1, 1);
  case_out(&c, &t->o, number, rows * ld_o, 0, 0);
  case_out(&c, &t->lse, NUMBER_FP32, rows * heads, 0, 0);
  case_compare(&c, comparison);
  t = &back.kernel.flash;
  case_in(&back, &t->q, number, rows * ld, -1, 1);
  case_in(&back, &t->k, number, key_rows * ld_kv, -1, 1);
  case_in(&back, &t->v, number, key_rows * ld_kv, -1, 1);
  case_in(&back, &t->o, number, rows * ld_o, -0.2, 0.2);
  case_in(&back, &t->lse, NUMBER_FP32, rows * heads, 3, 4);
  case_in(&back, &t->d_o, number, rows * ld_o, -1, 1);
  case_out(&back, &t->dq, number, rows * ld_dq, 0, 0);
  case_out(&back, &t->dk, number, key_rows * ld_dkv, 1, 1);
  case_out(&back, &t->dv, number, key_rows * ld_dkv, 1, 1);
  case_compare(&back, comparison);
}

static void merges(Comparison *comparison, Number number) {
  Case merge = case_new(KERNEL_MERGE, "%s", number_name(number));
  MergeKernel *m = &merge.kernel.merge;
  *m = (MergeKernel){(guint8)number, 2, 19, 11, 3, 40, NULL, NULL, NULL, NULL};
  case_out(&merge, &m->o, number, 2 * 19 * 3 * 40, -1, 1);
  case_out(&merge, &m->lse, NUMBER_FP32, 2 * 19 * 3, -3, 3);
  case_in(&merge, &m->other, number, 2 * 19 * 3 * 40, -1, 1);
  case_in(&merge, &m->other_lse, NUMBER_FP32, 2 * 19 * 3, -3, 3);
  case_compare(&merge, comparison);
}

/* Twice, unless STEPREAL_CUDNN is 0: with cuDNN where it takes the shape, and with the own kernels. */
static void flashes(Comparison *comparison, Number number) {
  static const Attended for_both[] = {
      {45, 4, 2, 24, 24, WHOLE, PLAIN},   {96, 2, 2, 64, 64, WHOLE, PLAIN},        {104, 2, 1, 128, 128, WHOLE, PLAIN},
      {33, 2, 2, 256, 256, WHOLE, PLAIN}, {45, 2, 2, 192, 128, WHOLE, PLAIN},      {66, 2, 1, 24, 24, WHOLE, WINDOW},
      {66, 4, 2, 24, 40, WHOLE, ALIBI},   {66, 3, 3, 32, 32, WHOLE, ALIBI_WINDOW}, {40, 2, 1, 24, 24, FULL, PLAIN},
      {40, 2, 1, 24, 24, CAUSAL, PLAIN},  {40, 2, 1, 24, 24, CAUSAL, WINDOW},      {40, 2, 1, 24, 24, OWN, PLAIN}};
  static const Attended for_own[] = {{70, 3, 3, 21, 21, WHOLE, PLAIN}, {45, 2, 2, 136, 96, WHOLE, PLAIN},
                                     {40, 4, 2, 24, 40, WHOLE, RULED}, {66, 2, 1, 24, 24, WHOLE, DROPOUT},
                                     {40, 2, 1, 20, 20, FULL, PLAIN},  {40, 2, 1, 20, 20, CAUSAL, RULED},
                                     {40, 2, 1, 20, 20, OWN, PLAIN},   {40, 2, 1, 20, 20, PIECES, OF_BLOCKS}};
  g_autofree char *given = g_strdup(g_getenv("STEPREAL_CUDNN"));
  for (int own = number == NUMBER_FP32 || g_strcmp0(given, "0") == 0; own < 2; own++) {
    g_setenv("STEPREAL_CUDNN", own ? "0" : "1", TRUE);
    for (gsize i = 0; i < G_N_ELEMENTS(for_both); i++)
      flash(comparison, number, &for_both[i]);
    for (gsize i = 0; own && i < G_N_ELEMENTS(for_own); i++)
      flash(comparison, number, &for_own[i]);
  }
  if (given != NULL)
    g_setenv("STEPREAL_CUDNN", given, TRUE);
  else
    g_unsetenv("STEPREAL_CUDNN");
}

static void drops(Comparison *comparison, Number number) {
  Case c = case_new(KERNEL_DROP_SCORES, "%s", number_name(number));
  DropScoresKernel *t = &c.kernel.drop_scores;
  *t = (DropScoresKernel){
      .number = (guint8)number, .matrices = 3, .seq_len = 33, .n_heads = 3, .drop = rules[RULED].drop};
  case_in(&c, &t->from, number, 3 * 33 * 33, 0, 1);
  case_out(&c, &t->to, number, 3 * 33 * 33, 2, 3);
  case_compare(&c, comparison);
}

/* Joined, and split. */
static void latents(Comparison *comparison, Number number, gboolean splits) {
  Case c = case_new(splits ? KERNEL_LATENT_SPLIT : KERNEL_LATENT_JOIN, "%s", number_name(number));
  LatentKernel *t = &c.kernel.latent;
  *t = (LatentKernel){.number = (guint8)number,
                      .rows = 2 * 67,
                      .seq_len = 67,
                      .n_heads = 3,
                      .plain_dim = 24,
                      .rotated_dim = 10,
                      .v_dim = 33,
                      .ld_shared = 31,
                      .ld_kv = 110,
                      .base = 10000,
                      .pieces = {splits ? 500 : 0, 900}};
  const gint64 made = t->rows * t->n_heads * (t->plain_dim + t->v_dim), kv = t->rows * t->ld_kv;
  if (splits) {
    case_out(&c, &t->made, number, made, 0, 0);
    case_out(&c, &t->shared, number, t->rows * t->ld_shared, -1, 1);
    case_in(&c, &t->k, number, kv, -1, 1);
    case_in(&c, &t->v, number, kv, -1, 1);
  } else {
    case_in(&c, &t->made, number, made, -1, 1);
    case_in(&c, &t->shared, number, t->rows * t->ld_shared, -1, 1);
    case_out(&c, &t->k, number, kv, 1, 2);
    case_out(&c, &t->v, number, kv, 1, 2);
  }
  case_compare(&c, comparison);
}

static void rope(Comparison *comparison, Number number, gboolean inverse) {
  Case c = case_new(KERNEL_ROPE, "%s%s", number_name(number), inverse ? " inverse" : "");
  RopeKernel *t = &c.kernel.rope;
  *t = (RopeKernel){(guint8)number,
                    (guint8)inverse,
                    2 * 4099,
                    4099,
                    3,
                    20,
                    inverse ? 31 : 20,
                    100,
                    10000.0,
                    {inverse ? 5000 : 0, 9000},
                    NULL};
  case_out(&c, &t->x, number, t->rows * t->ld, -1, 1);
  case_compare(&c, comparison);
}

void compare_attention(Comparison *comparison, Number number) {
  flashes(comparison, number);
  merges(comparison, number);
  for (int flag = 0; flag < 2; flag++) {
    rope(comparison, number, flag);
    latents(comparison, number, flag);
  }
  drops(comparison, number);
  softmax(comparison, number, 33, PLAIN);
  softmax(comparison, number, 33, RULED);
  softmax(comparison, number, 300, PLAIN);
}
