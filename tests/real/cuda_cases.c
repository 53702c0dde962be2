#include "cuda_cases.h"

static const Number numbers[] = {NUMBER_FP32, NUMBER_BF16, NUMBER_FP16};

enum { NO_BIAS, BIAS, BIAS_ASIDE }; /* aside: not at a multiple of 16 bytes */

static void matmul(Comparison *comparison, Number number, Number result, int layout, const gint64 size[4],
                   gboolean accumulate, int bias) {
  const gint64 m = size[0], n = size[1], k = size[2], batch = size[3], pad = size[0] % 2 == 0 ? 0 : 3;
  Case c = case_new(KERNEL_MATMUL, "%s to %s, layout %d, %d x %d x %d, batch %d%s%s", number_name(number),
                    number_name(result), layout, (int)m, (int)n, (int)k, (int)batch, accumulate ? ", accumulate" : "",
                    bias == BIAS_ASIDE ? ", bias aside"
                    : bias == BIAS     ? ", bias"
                                       : "");
  MatmulKernel *t = &c.kernel.matmul;
  t->layout = (guint8)layout, t->number = (guint8)number, t->result = (guint8)result;
  t->accumulate = (guint8)accumulate, t->alpha = accumulate ? 1.0f : 0.5f;
  t->batch = batch, t->m = m, t->n = n, t->k = k;
  const gint64 rows_a = layout == LAYOUT_NT ? k : m, rows_b = layout == LAYOUT_TN ? n : k;
  t->lda = (layout == LAYOUT_NT ? m : k) + pad, t->ldb = (layout == LAYOUT_TN ? k : n) + pad, t->ldc = n + pad;
  t->stride_a = rows_a * t->lda, t->stride_b = rows_b * t->ldb, t->stride_c = m * t->ldc;
  case_in(&c, &t->a, number, batch * t->stride_a, -1, 1);
  case_in(&c, &t->b, number, batch * t->stride_b, -1, 1);
  case_out(&c, &t->c, result, batch * t->stride_c, -1, 1);
  if (bias != NO_BIAS)
    case_in(&c, &t->bias, number, n, -1, 1);
  if (bias == BIAS_ASIDE)
    c.buffers[c.n_buffers - 1].skipped_bytes = kernel_element_bytes(number);
  case_compare(&c, comparison);
}

static void matmuls(Comparison *comparison, Number number) {
  static const gint64 sizes[][4] = {{33, 65, 17, 1}, {128, 256, 64, 1}, {1, 7, 300, 1}, {48, 40, 24, 3}};
  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++)
    for (int layout = LAYOUT_TN; layout <= LAYOUT_NT; layout++) {
      matmul(comparison, number, number, layout, sizes[i], FALSE, NO_BIAS);
      matmul(comparison, number, NUMBER_FP32, layout, sizes[i], TRUE, NO_BIAS);
      if (layout != LAYOUT_TN)
        continue;
      matmul(comparison, number, number, layout, sizes[i], FALSE, BIAS);
      matmul(comparison, number, number, layout, sizes[i], FALSE, BIAS_ASIDE);
      matmul(comparison, number, NUMBER_FP32, layout, sizes[i], FALSE, BIAS);
    }
}

/* Zeros, a copy, a sum; `width` a multiple of packs or not. */
static void moves(Comparison *comparison, Number number, gint64 width) {
  for (int n_operands = 0; n_operands < 3; n_operands++) {
    Case c = case_new(KERNEL_MOVE, "%s, %d columns, %d operands", number_name(number), (int)width, n_operands);
    MoveKernel *m = &c.kernel.move;
    const gint64 ld = 2 * width, stride = 5 * ld;
    *m = (MoveKernel){(guint8)number, 3, 5, width, ld, width, ld, stride, 5 * width, stride, NULL, NULL, NULL};
    if (n_operands > 0)
      case_in(&c, &m->a, number, 3 * stride, -1, 1);
    if (n_operands > 1)
      case_in(&c, &m->b, number, 15 * width, -1, 1);
    case_out(&c, &m->out, number, 3 * stride, -1, 1);
    case_compare(&c, comparison);
  }
}

static void pointwise(Comparison *comparison, Number number, gint64 rows, gint64 width, gboolean gated) {
  const gint64 n = rows * width, n_x = gated ? 2 * n : n;
  Case c = case_new(KERNEL_ACTIVATION_FORWARD, "%s %s %d x %d", gated ? "silu gated" : "gelu", number_name(number),
                    (int)rows, (int)width);
  Case back = case_new(KERNEL_ACTIVATION_BACKWARD, "%s %s %d x %d", gated ? "silu gated" : "gelu", number_name(number),
                       (int)rows, (int)width);
  c.kernel.activation = back.kernel.activation =
      (ActivationKernel){.number = (guint8)number, .gated = (guint8)gated, .rows = rows, .width = width};
  case_in(&c, &c.kernel.activation.x, number, n_x, -6, 6);
  case_out(&c, &c.kernel.activation.y, number, n, 0, 0);
  case_compare(&c, comparison);
  case_in(&back, &back.kernel.activation.x, number, n_x, -6, 6);
  case_in(&back, &back.kernel.activation.dy, number, n, -1, 1);
  case_out(&back, &back.kernel.activation.dx, number, n_x, 0, 0);
  case_compare(&back, comparison);
  Case sum = case_new(KERNEL_ADD, "%s %d x %d%s", number_name(number), (int)rows, (int)width, gated ? ", bias" : "");
  AddKernel *t = &sum.kernel.add;
  *t = (AddKernel){.number = (guint8)number, .rows = rows, .width = width};
  case_in(&sum, &t->a, number, n, -1, 1);
  case_in(&sum, &t->b, number, n, -1, 1);
  case_out(&sum, &t->out, number, n, 0, 0);
  if (gated)
    case_in(&sum, &t->bias, number, width, -1, 1);
  case_compare(&sum, comparison);
}

/* Of the rows that cp leaves a rank of two sequences of 80, added or not. */
static void drop_add(Comparison *comparison, Number number, gint64 width, gboolean adds) {
  const gint64 rows = 40, n = rows * width;
  Case c = case_new(KERNEL_DROP_ADD, "%s %d x %d%s", number_name(number), (int)rows, (int)width, adds ? ", added" : "");
  DropAddKernel *t = &c.kernel.drop_add;
  *t = (DropAddKernel){
      .number = (guint8)number,
      .rows = rows,
      .width = width,
      .dropout = {17, 0.3f},
      .places = {.first_row = 40, .seq_len = 40, .first_sequence = 5, .length = 80, .pieces = {20, 20}}};
  case_in(&c, &t->b, number, n, -1, 1);
  if (adds) {
    case_in(&c, &t->a, number, n, -1, 1);
    case_in(&c, &t->bias, number, width, -1, 1);
  }
  case_out(&c, &t->out, number, n, 4, 5);
  case_compare(&c, comparison);
}

static Case route_case(KernelKind kind, Number number, gint64 tokens, gint64 per_token, gint64 n_experts) {
  Case c = case_new(kind, "%s, %d tokens, %d of %d experts", number_name(number), (int)tokens, (int)per_token,
                    (int)n_experts);
  c.kernel.route = (RouteKernel){.number = (guint8)number,
                                 .tokens = tokens,
                                 .n_experts = n_experts,
                                 .per_token = per_token,
                                 .shift = 3,
                                 .factor = 1.5f};
  return c;
}

/* Choice, rows there and back, gates: `tokens` × per_token has no divisor in common with 101. */
static void experts(Comparison *comparison, Number number, gint64 tokens, gint64 per_token, gint64 n_experts) {
  const gint64 n = tokens * per_token, width = 72 + tokens % 2;
  Case c = route_case(KERNEL_ROUTE_FORWARD, number, tokens, per_token, n_experts);
  case_in(&c, &c.kernel.route.scores, number, tokens * n_experts, -4, 4);
  case_out(&c, &c.kernel.route.place, CELL_INT32, n, 0, 0);
  case_out(&c, &c.kernel.route.weights, NUMBER_FP32, n, 0, 0);
  case_compare(&c, comparison);
  Case back = route_case(KERNEL_ROUTE_BACKWARD, number, tokens, per_token, n_experts);
  case_in(&back, &back.kernel.route.place, CELL_PLACES, n, 0, 0);
  case_in(&back, &back.kernel.route.weights, NUMBER_FP32, n, 0, 1);
  case_in(&back, &back.kernel.route.dweights, NUMBER_FP32, n, -1, 1);
  case_out(&back, &back.kernel.route.dscores, number, tokens * n_experts, 1, 2);
  case_compare(&back, comparison);
  for (int is_back = 0; is_back < 2; is_back++) {
    Case rows =
        case_new(is_back ? KERNEL_UNPERMUTE : KERNEL_PERMUTE, "%s, %d x %d", number_name(number), (int)n, (int)width);
    PermuteKernel *t = &rows.kernel.permute;
    *t = (PermuteKernel){.number = (guint8)number, .tokens = tokens, .per_token = per_token, .width = width};
    case_in(&rows, &t->place, CELL_PLACES, n, 0, 0);
    case_in(&rows, &t->from, number, (is_back ? n : tokens) * width, -1, 1);
    case_out(&rows, &t->to, number, (is_back ? tokens : n) * width, 2, 3);
    case_compare(&rows, comparison);
  }
  Case swap = case_new(KERNEL_SWAP_BLOCKS, "%s, %d x %d", number_name(number), (int)tokens, (int)per_token);
  swap.kernel.swap_blocks =
      (SwapBlocksKernel){.number = (guint8)number, .outer = tokens, .inner = per_token, .block = width};
  case_in(&swap, &swap.kernel.swap_blocks.from, number, n * width, -1, 1);
  case_out(&swap, &swap.kernel.swap_blocks.to, number, n * width, 2, 3);
  case_compare(&swap, comparison);
}

static Case gathered_case(KernelKind kind, Number number, gint64 tokens, gint64 per_token, gint64 n_experts) {
  enum { SOURCES = 3 };
  Case c = case_new(kind, "%s, %d tokens, %d of %d experts", number_name(number), (int)tokens, (int)per_token,
                    (int)n_experts);
  c.kernel.gathered = (GatheredKernel){.number = (guint8)number,
                                       .sources = SOURCES,
                                       .tokens = tokens,
                                       .n_experts = n_experts,
                                       .per_token = per_token,
                                       .shift = 3,
                                       .first = n_experts / 3,
                                       .n_own = n_experts / 2,
                                       .width = 72 + tokens % 2,
                                       .chosen_bytes = (tokens * n_experts + 3) / 4 * 4};
  return c;
}

/* Tokens of three ranks where half of the experts are: told of, picked, put back, told of again. */
static void gathered_experts(Comparison *comparison, Number number, gint64 tokens, gint64 per_token, gint64 n_experts) {
  const gint64 n = tokens * per_token, table = tokens * n_experts;
  Case spread = gathered_case(KERNEL_SPREAD, number, tokens, per_token, n_experts);
  GatheredKernel *t = &spread.kernel.gathered;
  const gint64 all = t->sources * tokens, rows = t->n_own * t->sources * n / n_experts, width = t->width;
  const gint64 chosen = t->chosen_bytes / 4;
  case_in(&spread, &t->weights, NUMBER_FP32, n, 0, 1);
  case_out(&spread, &t->chosen, CELL_INT32, chosen, 0, 0);
  case_out(&spread, &t->dense, number, table, 1, 2);
  case_compare(&spread, comparison);
  Case collect = gathered_case(KERNEL_COLLECT, number, tokens, per_token, n_experts);
  t = &collect.kernel.gathered;
  case_in(&collect, &t->dense, number, table, -1, 1);
  case_out(&collect, &t->weights, NUMBER_FP32, n, 1, 2);
  case_compare(&collect, comparison);
  for (int is_back = 0; is_back < 2; is_back++) {
    Case pick = gathered_case(KERNEL_PICK, number, tokens, per_token, n_experts);
    t = &pick.kernel.gathered;
    case_in(&pick, &t->all_tokens, number, all * width, -1, 1);
    case_out(&pick, &t->rows, number, rows * width, 1, 2);
    if (!is_back) {
      case_in(&pick, &t->chosen, CELL_INT32, t->sources * chosen, 0, 1000); /* some bytes of it are 0 */
      case_in(&pick, &t->dense, number, t->sources * table, -1, 1);
      case_out(&pick, &t->row_weights, NUMBER_FP32, rows, 1, 2);
    }
    case_compare(&pick, comparison);
    Case put = gathered_case(KERNEL_PUT, number, tokens, per_token, n_experts);
    t = &put.kernel.gathered;
    case_in(&put, &t->rows, number, rows * width, -1, 1);
    case_out(&put, &t->all_tokens, number, all * width, 1, 2);
    if (is_back) {
      case_in(&put, &t->row_weights, NUMBER_FP32, rows, -1, 1);
      case_out(&put, &t->dense, number, t->sources * table, 1, 2);
    }
    case_compare(&put, comparison);
  }
}

static void gates(Comparison *comparison, Number number) {
  enum { N = 300 };
  for (int is_back = 0; is_back < 2; is_back++) {
    Case c = case_new(is_back ? KERNEL_GATE_BACKWARD : KERNEL_GATE_FORWARD, "%s", number_name(number));
    GateKernel *t = &c.kernel.gate;
    *t = (GateKernel){.number = (guint8)number, .n = N};
    if (is_back) {
      case_in(&c, &t->gate, NUMBER_FP32, N, 0, 1);
      case_in(&c, &t->dgate, NUMBER_FP32, N, -1, 1);
      case_out(&c, &t->dlogit, number, N, 1, 2);
    } else {
      case_in(&c, &t->logit, number, N, -9, 9);
      case_out(&c, &t->gate, NUMBER_FP32, N, 1, 2);
    }
    case_compare(&c, comparison);
  }
}

/* Within the cap and far beyond it. */
static void caps(Comparison *comparison, Number number, gint64 width) {
  const gint64 rows = 7, n = rows * width;
  for (int is_back = 0; is_back < 2; is_back++) {
    Case c =
        case_new(is_back ? KERNEL_CAP_BACKWARD : KERNEL_CAP_FORWARD, "%s, %d columns", number_name(number), (int)width);
    CapKernel *t = &c.kernel.cap;
    *t = (CapKernel){.number = (guint8)number, .rows = rows, .width = width, .cap = 3};
    if (is_back) {
      case_in(&c, &t->y, number, n, -2.9, 2.9);
      case_in(&c, &t->dy, number, n, -1, 1);
      case_out(&c, &t->dx, number, n, 1, 2);
    } else {
      case_in(&c, &t->x, number, n, -9, 9);
      case_out(&c, &t->y, number, n, 1, 2);
    }
    case_compare(&c, comparison);
  }
}

/* Rows of an activation times a weight each. */
static void weighted(Comparison *comparison, Number number, gboolean gated) {
  enum { R = 9, WIDTH = 300 };
  for (int is_back = 0; is_back < 2; is_back++) {
    Case c = case_new(is_back ? KERNEL_ACTIVATION_BACKWARD : KERNEL_ACTIVATION_FORWARD, "%s %s, weighted rows",
                      gated ? "silu gated" : "gelu", number_name(number));
    ActivationKernel *t = &c.kernel.activation;
    *t = (ActivationKernel){.number = (guint8)number, .gated = (guint8)gated, .rows = R, .width = WIDTH};
    case_in(&c, &t->x, number, (gated ? 2 : 1) * R * WIDTH, -6, 6);
    case_in(&c, &t->scale, NUMBER_FP32, R, 0, 1);
    if (is_back) {
      case_in(&c, &t->dy, number, R * WIDTH, -1, 1);
      case_out(&c, &t->dx, number, (gated ? 2 : 1) * R * WIDTH, 2, 3);
      case_out(&c, &t->dscale, NUMBER_FP32, R, 2, 3);
    } else {
      case_out(&c, &t->y, number, R * WIDTH, 2, 3);
    }
    case_compare(&c, comparison);
  }
}

static void tables(Comparison *comparison, Number number, Number gradient) {
  const float factor = gradient == number ? 1 : 2.5f;
  const gint64 tokens = 150, width = 65, n_words = 40;
  Case c = case_new(KERNEL_EMBEDDING_FORWARD, "%s", number_name(number));
  Case back = case_new(KERNEL_EMBEDDING_BACKWARD, "%s, gradient %s", number_name(number), number_name(gradient));
  c.kernel.embedding = back.kernel.embedding = (EmbeddingKernel){.number = (guint8)number,
                                                                 .gradient = (guint8)gradient,
                                                                 .tokens = tokens,
                                                                 .width = width,
                                                                 .first_word = 20,
                                                                 .n_words = n_words,
                                                                 .factor = factor};
  case_in(&c, &c.kernel.embedding.token, CELL_INT32, tokens, 0, 80);
  case_in(&c, &c.kernel.embedding.table, number, n_words * width, -1, 1);
  case_out(&c, &c.kernel.embedding.out, number, tokens * width, 5, 6);
  case_compare(&c, comparison);
  case_in(&back, &back.kernel.embedding.token, CELL_INT32, tokens, 0, 80);
  case_in(&back, &back.kernel.embedding.dout, number, tokens * width, -1, 1);
  case_out(&back, &back.kernel.embedding.dtable, gradient, n_words * width, -1, 1);
  case_compare(&back, comparison);
  Case at = case_new(KERNEL_POSITIONS_FORWARD, "%s", number_name(number));
  Case at_back = case_new(KERNEL_POSITIONS_BACKWARD, "%s, gradient %s", number_name(number), number_name(gradient));
  at.kernel.positions = at_back.kernel.positions = (PositionsKernel){.number = (guint8)number,
                                                                     .gradient = (guint8)gradient,
                                                                     .rows = 70,
                                                                     .width = width,
                                                                     .first_row = 50,
                                                                     .seq_len = 32,
                                                                     .pieces = {8, 20}};
  case_in(&at, &at.kernel.positions.table, number, 52 * width, -1, 1);
  case_out(&at, &at.kernel.positions.x, number, 70 * width, -1, 1);
  case_compare(&at, comparison);
  case_in(&at_back, &at_back.kernel.positions.dx, number, 70 * width, -1, 1);
  case_out(&at_back, &at_back.kernel.positions.dtable, gradient, 52 * width, -1, 1);
  case_compare(&at_back, comparison);
}

enum { DOUBLES_OF_SCALE = sizeof(LossScale) / sizeof(double) };

static Case loss_case(KernelKind kind, Number number, gint64 n_words) {
  Case c = case_new(kind, "%s, %d words", number_name(number), (int)n_words);
  c.kernel.loss = (LossKernel){.number = (guint8)number,
                               .tokens = 21,
                               .width = 50,
                               .first_word = 100,
                               .n_words = n_words,
                               .loss_scale = 0.5,
                               .gradient_scale = 3.0f};
  return c;
}

/* The second of shards of 50 words: whole, partly padding, all padding. */
static void losses(Comparison *comparison, Number number, gint64 n_words) {
  const gint64 tokens = 21, n = 21 * 50;
  Case most = loss_case(KERNEL_LOSS_MAX, number, n_words), powers = loss_case(KERNEL_LOSS_EXP, number, n_words);
  Case sum = loss_case(KERNEL_LOSS_SOFTMAX, number, n_words), back = loss_case(KERNEL_LOSS_BACKWARD, number, n_words);
  case_in(&most, &most.kernel.loss.logits, number, n, -9, 9);
  case_out(&most, &most.kernel.loss.row_max, NUMBER_FP32, tokens, 0, 0);
  case_compare(&most, comparison);
  case_in(&powers, &powers.kernel.loss.logits, number, n, -9, 9);
  case_in(&powers, &powers.kernel.loss.target, CELL_INT32, tokens, 80, 150);
  case_in(&powers, &powers.kernel.loss.row_max, NUMBER_FP32, tokens, 9, 10);
  case_out(&powers, &powers.kernel.loss.probabilities, NUMBER_FP32, n, 0, 0);
  case_out(&powers, &powers.kernel.loss.row_sum, NUMBER_FP32, tokens, 0, 0);
  case_out(&powers, &powers.kernel.loss.row_target, NUMBER_FP32, tokens, 0, 0);
  case_compare(&powers, comparison);
  case_in(&sum, &sum.kernel.loss.target, CELL_INT32, tokens, -40, 150); /* padding, too */
  case_in(&sum, &sum.kernel.loss.row_sum, NUMBER_FP32, tokens, 1, 30);
  case_in(&sum, &sum.kernel.loss.row_target, NUMBER_FP32, tokens, -5, 0);
  case_out(&sum, &sum.kernel.loss.probabilities, NUMBER_FP32, n, 0, 1);
  case_out(&sum, &sum.kernel.loss.loss, CELL_DOUBLE, 1, 2, 3);
  case_compare(&sum, comparison);
  case_in(&back, &back.kernel.loss.target, CELL_INT32, tokens, -40, 150);
  case_in(&back, &back.kernel.loss.probabilities, NUMBER_FP32, n, 0, 1);
  case_out(&back, &back.kernel.loss.dlogits, number, n, 0, 0);
  if (n_words == 125) /* multiplied by a scale on the device */
    case_in(&back, &back.kernel.loss.scale, CELL_DOUBLE, DOUBLES_OF_SCALE, 2, 3);
  case_compare(&back, comparison);
}

/* A step that is made, and one that is skipped. */
static void loss_scales(Comparison *comparison) {
  for (int is_skipped = 0; is_skipped < 2; is_skipped++) {
    Case c = case_new(KERNEL_LOSS_SCALE, "%s", is_skipped ? "skipped" : "made");
    c.kernel.loss_scale = (LossScaleKernel){.beta1 = 0.9, .beta2 = 0.95};
    case_in(&c, &c.kernel.loss_scale.from, CELL_DOUBLE, DOUBLES_OF_SCALE, 2, 3);
    case_in(&c, &c.kernel.loss_scale.norm_squared, CELL_DOUBLE, 1, is_skipped ? (double)NAN : 4, 9);
    case_out(&c, &c.kernel.loss_scale.to, CELL_DOUBLE, DOUBLES_OF_SCALE, 0, 0);
    case_compare(&c, comparison);
  }
}

static void adam_buffers(Case *c, Number number, Number gradient, gint64 n, gboolean has_master) {
  AdamKernel *t = &c->kernel.adam;
  *t = (AdamKernel){.number = (guint8)number,
                    .gradient = (guint8)gradient,
                    .n = n,
                    .max_norm = 1.0f,
                    .lr = 0.01f,
                    .beta1 = 0.9f,
                    .beta2 = 0.95f,
                    .epsilon = 1e-8f,
                    .decay = 0.1f,
                    .correction1 = 0.19f,
                    .correction2 = 0.0975f};
  case_out(c, &t->weight, number, n, -1, 1);
  case_out(c, &t->gradients, gradient, n, -1, 1);
  case_out(c, &t->m, NUMBER_FP32, n, -0.1, 0.1);
  case_out(c, &t->v, NUMBER_FP32, n, 0, 0.1);
  if (has_master)
    case_out(c, &t->master, NUMBER_FP32, n, -1, 1);
}

static void adam(Comparison *comparison, Number number, Number gradient, gboolean has_master) {
  Case c = case_new(KERNEL_ADAM, "%s, gradient %s%s", number_name(number), number_name(gradient),
                    has_master ? ", master" : "");
  adam_buffers(&c, number, gradient, 100003, has_master);
  if (has_master)
    case_in(&c, &c.kernel.adam.norm_squared, CELL_DOUBLE, 1, 4, 9);
  case_compare(&c, comparison);
}

static void outer(Comparison *comparison, Number number, gboolean is_before, gboolean has_master) {
  const gint64 n = 10007;
  Case c = case_new(KERNEL_OUTER, "%s, %s%s", number_name(number), is_before ? "before" : "after",
                    has_master ? ", master" : "");
  OuterKernel *t = &c.kernel.outer;
  *t = (OuterKernel){
      .number = (guint8)number, .is_before = (guint8)is_before, .n = n, .share = 0.25f, .lr = 0.7f, .factor = 0.9f};
  case_out(&c, &t->weight, number, n, -1, 1);
  case_out(&c, &t->anchor, NUMBER_FP32, n, -1, 1);
  case_out(&c, &t->m, NUMBER_FP32, n, -0.1, 0.1);
  case_out(&c, &t->sum, NUMBER_FP32, n, -1, 1);
  if (has_master)
    case_out(&c, &t->master, NUMBER_FP32, n, -1, 1);
  case_compare(&c, comparison);
}

/* Made with a scale and powers below 1; skipped with a scale above. */
static void scaled_adam(Comparison *comparison, Number gradient, gboolean is_skipped) {
  Case c = case_new(KERNEL_ADAM, "scaled, gradient %s%s", number_name(gradient), is_skipped ? ", skipped" : "");
  adam_buffers(&c, NUMBER_FP16, gradient, 10007, TRUE);
  case_in(&c, &c.kernel.adam.norm_squared, CELL_DOUBLE, 1, is_skipped ? (double)NAN : 4, 9);
  case_in(&c, &c.kernel.adam.scale, CELL_DOUBLE, DOUBLES_OF_SCALE, is_skipped ? 2 : 0.5, is_skipped ? 3 : 0.9);
  case_compare(&c, comparison);
}

static void state(Comparison *comparison, Number number, Number other) {
  for (int accumulate = 0; accumulate < 2; accumulate++)
    for (gint64 n = 1000; n <= 1003; n += 3) {
      Case c = case_new(KERNEL_CONVERT, "%s to %s%s, %d", number_name(number), number_name(other),
                        accumulate ? ", accumulate" : "", (int)n);
      c.kernel.convert = (ConvertKernel){(guint8)number, (guint8)other, (guint8)accumulate, n, NULL, NULL};
      case_in(&c, &c.kernel.convert.from, number, n, -1, 1);
      case_out(&c, &c.kernel.convert.to, other, n, -1, 1);
      case_compare(&c, comparison);
    }
  Case bias = case_new(KERNEL_BIAS_GRADIENT, "%s, gradient %s", number_name(number), number_name(other));
  bias.kernel.bias_gradient = (BiasGradientKernel){(guint8)number, (guint8)other, 333, 65, NULL, NULL};
  case_in(&bias, &bias.kernel.bias_gradient.dy, number, 333 * 65, -1, 1);
  case_out(&bias, &bias.kernel.bias_gradient.out, other, 65, -1, 1);
  case_compare(&bias, comparison);
}

static void single(Comparison *comparison, Number number) {
  Case sum = case_new(KERNEL_SUM_SQUARES, "%s", number_name(number));
  sum.kernel.sum_squares = (SumSquaresKernel){(guint8)number, 1000003, NULL, NULL};
  case_in(&sum, &sum.kernel.sum_squares.x, number, 1000003, -1, 1);
  case_out(&sum, &sum.kernel.sum_squares.sum, CELL_DOUBLE, 1, 1, 2);
  case_compare(&sum, comparison);
  Case fill = case_new(KERNEL_FILL, "%s", number_name(number));
  fill.kernel.fill.bytes = 99 * kernel_element_bytes(number);
  case_out(&fill, &fill.kernel.fill.to, number, 100, 1, 2);
  case_compare(&fill, comparison);
  Case init = case_new(KERNEL_INIT, "%s", number_name(number));
  init.kernel.init = (InitKernel){.number = (guint8)number,
                                  .rows = 20,
                                  .columns = 33,
                                  .ld = 40,
                                  .first_row = 90,
                                  .first_column = 7,
                                  .whole_rows = 105,
                                  .whole_width = 1000,
                                  .seed = 42,
                                  .mean = 0.5f,
                                  .deviation = 0.02f};
  case_out(&init, &init.kernel.init.to, number, 20 * 40, 3, 4);
  case_compare(&init, comparison);
}

void compare_all_kernels(Comparison *comparison) {
  loss_scales(comparison);
  compare_fp8(comparison);
  for (int is_skipped = 0; is_skipped < 2; is_skipped++) {
    scaled_adam(comparison, NUMBER_FP16, is_skipped);
    scaled_adam(comparison, NUMBER_FP32, is_skipped);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
    const Number number = numbers[i];
    for (int flags = 0; flags < 4; flags++)
      outer(comparison, number, flags & 1, flags > 1);
    single(comparison, number);
    matmuls(comparison, number);
    compare_attention(comparison, number);
    compare_norms(comparison, number);
    moves(comparison, number, 32);
    moves(comparison, number, 27);
    for (int flag = 0; flag < 2; flag++) {
      weighted(comparison, number, flag);
      pointwise(comparison, number, 7, 65, flag);
      drop_add(comparison, number, 64 + flag, flag);
      pointwise(comparison, number, 9, 2048, flag);
    }
    experts(comparison, number, 24, 2, 8);
    experts(comparison, number, 45, 4, 6);
    gathered_experts(comparison, number, 24, 2, 8);
    gathered_experts(comparison, number, 45, 4, 6);
    gates(comparison, number);
    caps(comparison, number, 64);
    caps(comparison, number, 67);
    for (gint64 n_words = 90; n_words <= 200; n_words += 35) /* 90 125 160 195 */
      losses(comparison, number, n_words);
    for (gsize j = 0; j < G_N_ELEMENTS(numbers); j++) {
      tables(comparison, number, numbers[j]);
      state(comparison, number, numbers[j]);
      adam(comparison, number, numbers[j], FALSE);
      adam(comparison, number, numbers[j], TRUE);
    }
  }
}
