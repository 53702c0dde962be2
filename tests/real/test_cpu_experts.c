/* The CPU kernels between tokens and experts: routing, dispatch and combine of rows, the gradient of the weights.
 * Forward against plain references in double, backward against central differences of these. */
#include "kernel_tensor.h"

enum {
  TOKENS = 12,
  EXPERTS = 6,
  PER_TOKEN = 2,
  SHIFT = 4,
  ROWS = TOKENS * PER_TOKEN,
  EACH = ROWS / EXPERTS,
  WIDTH = 19
};

static const float FACTOR = 2.5f;

static RouteKernel route_of(Number number, const Tensor *scores, gint32 *place, Tensor *weights) {
  return (RouteKernel){.number = (guint8)number,
                       .tokens = TOKENS,
                       .n_experts = EXPERTS,
                       .per_token = PER_TOKEN,
                       .shift = SHIFT,
                       .factor = FACTOR,
                       .scores = scores->data,
                       .place = place,
                       .weights = weights->data};
}

static void route(int test_case, const Tensor *scores, gint32 *place, Tensor *weights) {
  const Kernel kernel = {.kind = KERNEL_ROUTE_FORWARD,
                         .route = route_of(case_number(test_case), scores, place, weights)};
  run_kernel(test_case, &kernel);
}

/* Choice i of token t is expert (t·k + i + shift) mod E; a row of an expert belongs to it alone. */
LOOP_TEST(every_expert_gets_as_many_rows_and_a_token_different_experts, n_cases()) {
  g_auto(Tensor) scores = tensor_random(case_number(_i), TOKENS * EXPERTS, 1, 0, 3);
  g_auto(Tensor) weights = tensor_new(NUMBER_FP32, ROWS);
  gint32 place[ROWS];
  int n_named[ROWS] = {0};
  route(_i, &scores, place, &weights);
  for (int choice = 0; choice < ROWS; choice++) {
    ck_assert_int_eq(place[choice] / EACH, (choice + SHIFT) % EXPERTS);
    n_named[place[choice]]++;
  }
  for (int row = 0; row < ROWS; row++)
    ck_assert_int_eq(n_named[row], 1);
  for (int t = 0; t < TOKENS; t++)
    ck_assert_int_ne(place[2 * t] / EACH, place[2 * t + 1] / EACH);
}

typedef struct {
  const double *scores, *dweights; /* dweights by choice */
} RouteCase;

static double weight_of(const double *scores, int choice) {
  double sum = 0;
  for (int i = 0; i < PER_TOKEN; i++)
    sum += exp(scores[choice / PER_TOKEN * EXPERTS + (choice / PER_TOKEN * PER_TOKEN + i + SHIFT) % EXPERTS]);
  return FACTOR * exp(scores[choice / PER_TOKEN * EXPERTS + (choice + SHIFT) % EXPERTS]) / sum;
}

static double route_sum(gpointer data) {
  const RouteCase *c = data;
  double sum = 0;
  for (int choice = 0; choice < ROWS; choice++)
    sum += c->dweights[choice] * weight_of(c->scores, choice);
  return sum;
}

LOOP_TEST(weights_are_the_softmax_of_the_chosen_and_so_is_their_gradient, n_cases()) {
  const Number number = case_number(_i);
  g_auto(Tensor) scores = tensor_random(number, TOKENS * EXPERTS, 1, 0, 3);
  g_auto(Tensor) weights = tensor_new(NUMBER_FP32, ROWS), dweights = tensor_new(NUMBER_FP32, ROWS);
  g_auto(Tensor) dscores = tensor_random(number, TOKENS * EXPERTS, 3, 0, 1);
  gint32 place[ROWS];
  double expected[ROWS], by_choice[ROWS];
  route(_i, &scores, place, &weights);
  for (int choice = 0; choice < ROWS; choice++) {
    expected[place[choice]] = weight_of(scores.x, choice);
    tensor_set(&dweights, place[choice], kernel_random(5, (guint64)choice) * 0x1p-31 - 1);
    by_choice[choice] = dweights.x[place[choice]];
  }
  assert_tensor("weights", &weights, expected, 0);
  Kernel kernel = {.kind = KERNEL_ROUTE_BACKWARD, .route = route_of(number, &scores, place, &weights)};
  kernel.route.dweights = dweights.data;
  kernel.route.dscores = dscores.data;
  run_kernel(_i, &kernel);
  RouteCase c = {scores.x, by_choice};
  assert_gradient("dscores", &dscores, NULL, scores.x, route_sum, &c, 0, 1);
}

LOOP_TEST(rows_go_to_their_places_and_come_back_summed, n_cases()) {
  const Number number = case_number(_i);
  g_auto(Tensor) scores = tensor_random(number, TOKENS * EXPERTS, 1, 0, 3);
  g_auto(Tensor) weights = tensor_new(NUMBER_FP32, ROWS);
  g_auto(Tensor) x = tensor_random(number, TOKENS * WIDTH, 2, 0, 1), rows = tensor_new(number, ROWS * WIDTH);
  g_auto(Tensor) back = tensor_new(number, TOKENS * WIDTH);
  gint32 place[ROWS];
  route(_i, &scores, place, &weights);
  Kernel kernel = {.kind = KERNEL_PERMUTE,
                   .permute = {(guint8)number, TOKENS, PER_TOKEN, WIDTH, place, x.data, rows.data}};
  run_kernel(_i, &kernel);
  for (int choice = 0; choice < ROWS; choice++)
    for (int j = 0; j < WIDTH; j++)
      assert_near("row", choice, tensor_get(&rows, place[choice] * WIDTH + j), x.x[choice / PER_TOKEN * WIDTH + j], 0,
                  0);
  double expected[TOKENS * WIDTH];
  for (int row = 0; row < ROWS * WIDTH; row++)
    tensor_set(&rows, row, kernel_random(7, (guint64)row) * 0x1p-31 - 1);
  for (int i = 0; i < TOKENS * WIDTH; i++)
    expected[i] =
        rows.x[place[i / WIDTH * 2] * WIDTH + i % WIDTH] + rows.x[place[i / WIDTH * 2 + 1] * WIDTH + i % WIDTH];
  kernel = (Kernel){.kind = KERNEL_UNPERMUTE,
                    .permute = {(guint8)number, TOKENS, PER_TOKEN, WIDTH, place, rows.data, back.data}};
  run_kernel(_i, &kernel);
  assert_tensor("token", &back, expected, 1);
}

/* Two ranks of two tokens, one of two experts each, dealt out from expert 1 on, of which this rank has expert 0: it
 * gets the second token of both. What both have made of them goes back to where these stand, zeros to the others; the
 * second rank has not told of its token's choice (0), so nothing of it is taken. */
LOOP_TEST(gathered_tokens_are_picked_and_put_back, n_cases()) {
  enum { SOURCES = 2, OF_EACH = 2, N = 2 };
  const Number number = case_number(_i);
  g_auto(Tensor) all = tensor_random(number, SOURCES * OF_EACH * WIDTH, 1, 0, 1);
  g_auto(Tensor) back = tensor_new(number, SOURCES * OF_EACH * WIDTH);
  g_auto(Tensor) dense = tensor_new(number, SOURCES * OF_EACH * N), rows = tensor_new(number, SOURCES * WIDTH);
  float by_row[N] = {0.25f, 0.75f}, row_weights[SOURCES];
  guint8 chosen[SOURCES * OF_EACH * N];
  GatheredKernel task = {(guint8)number, SOURCES, OF_EACH, N, 1, 1, 0, 1, WIDTH, OF_EACH * N, chosen};
  Kernel kernel = {.kind = KERNEL_SPREAD, .gathered = task};
  kernel.gathered.dense = dense.data;
  kernel.gathered.weights = by_row; /* row 0: expert 0's, of token 1; row 1: expert 1's, of token 0 */
  run_kernel(_i, &kernel);
  const guint8 told[OF_EACH * N] = {0, 1, 1, 0};
  ck_assert_mem_eq(chosen, told, sizeof told);
  const double weights[SOURCES * OF_EACH * N] = {0, 0.75, 0.25, 0};
  assert_tensor("dense", &dense, weights, 0);
  memset(chosen + OF_EACH * N, 0, OF_EACH * N);
  kernel.kind = KERNEL_PICK;
  kernel.gathered.all_tokens = all.data;
  kernel.gathered.rows = rows.data;
  kernel.gathered.row_weights = row_weights;
  run_kernel(_i, &kernel);
  for (int j = 0; j < WIDTH; j++) {
    assert_near("picked", j, tensor_get(&rows, j), all.x[WIDTH + j], 0, 0);
    assert_near("not told", j, tensor_get(&rows, WIDTH + j), 0, 0, 0);
  }
  ck_assert(row_weights[0] == 0.25f && row_weights[1] == 0);
  for (int i = 0; i < SOURCES * WIDTH; i++)
    tensor_set(&rows, i, i % 7);
  row_weights[1] = -0.5f;
  kernel.kind = KERNEL_PUT;
  kernel.gathered.all_tokens = back.data;
  run_kernel(_i, &kernel);
  for (int i = 0; i < SOURCES * OF_EACH * WIDTH; i++) {
    const int token = i / WIDTH, row = token / OF_EACH;
    assert_near("put", i, tensor_get(&back, i), token % 2 == 1 ? (row * WIDTH + i % WIDTH) % 7 : 0, 0, 0);
  }
  const double gradients[SOURCES * OF_EACH * N] = {0, 0, 0.25, 0, 0, 0, -0.5, 0};
  assert_tensor("gradients", &dense, gradients, 0);
  kernel.kind = KERNEL_COLLECT;
  run_kernel(_i, &kernel);
  ck_assert(by_row[0] == 0.25f && by_row[1] == 0);
}

/* Rows that came from 3 ranks for 4 experts, 2 × WIDTH each; and back. */
LOOP_TEST(blocks_change_places, n_cases()) {
  enum { RANKS = 3, OWN = 4, BLOCK = 2 * WIDTH };
  const Number number = case_number(_i);
  g_auto(Tensor) from = tensor_random(number, RANKS * OWN * BLOCK, 1, 0, 1);
  g_auto(Tensor) to = tensor_new(number, RANKS * OWN * BLOCK), back = tensor_new(number, RANKS * OWN * BLOCK);
  Kernel kernel = {.kind = KERNEL_SWAP_BLOCKS, .swap_blocks = {(guint8)number, RANKS, OWN, BLOCK, from.data, to.data}};
  run_kernel(_i, &kernel);
  for (int rank = 0; rank < RANKS; rank++)
    for (int own = 0; own < OWN; own++)
      for (int j = 0; j < BLOCK; j++)
        assert_near("block", rank, tensor_get(&to, (own * RANKS + rank) * BLOCK + j),
                    from.x[(rank * OWN + own) * BLOCK + j], 0, 0);
  kernel.swap_blocks = (SwapBlocksKernel){(guint8)number, OWN, RANKS, BLOCK, to.data, back.data};
  run_kernel(_i, &kernel);
  for (int i = 0; i < RANKS * OWN * BLOCK; i++)
    assert_near("block", i, tensor_get(&back, i), from.x[i], 0, 0);
}

static double gate_sum(gpointer data) {
  const RouteCase *c = data;
  double sum = 0;
  for (int i = 0; i < ROWS; i++)
    sum += c->dweights[i] / (1 + exp(-c->scores[i]));
  return sum;
}

LOOP_TEST(gates_and_their_gradient, n_cases()) {
  const Number number = case_number(_i);
  g_auto(Tensor) logit = tensor_random(number, ROWS, 1, 0, 5), gate = tensor_new(NUMBER_FP32, ROWS);
  g_auto(Tensor) dgate = tensor_random(NUMBER_FP32, ROWS, 2, 0, 1), dlogit = tensor_new(number, ROWS);
  Kernel kernel = {.kind = KERNEL_GATE_FORWARD,
                   .gate = {(guint8)number, ROWS, logit.data, gate.data, dgate.data, dlogit.data}};
  run_kernel(_i, &kernel);
  for (int i = 0; i < ROWS; i++)
    assert_near("gate", i, tensor_get(&gate, i), 1 / (1 + exp(-logit.x[i])), number_tolerance(NUMBER_FP32), 0);
  kernel.kind = KERNEL_GATE_BACKWARD;
  run_kernel(_i, &kernel);
  RouteCase c = {logit.x, dgate.x};
  assert_gradient("dlogit", &dlogit, NULL, logit.x, gate_sum, &c, 0, 1);
}

/* Rows times a weight each, as experts' are. */
typedef struct {
  const double *x, *dy, *scale;
} ScaledCase;

static double scaled_y(const ScaledCase *c, int i) {
  const double gate = c->x[i / WIDTH * 2 * WIDTH + i % WIDTH], up = c->x[i / WIDTH * 2 * WIDTH + WIDTH + i % WIDTH];
  return c->scale[i / WIDTH] * gate / (1 + exp(-gate)) * up;
}

static double scaled_sum(gpointer data) {
  const ScaledCase *c = data;
  double sum = 0;
  for (int i = 0; i < ROWS * WIDTH; i++)
    sum += c->dy[i] * scaled_y(c, i);
  return sum;
}

LOOP_TEST(an_activation_is_multiplied_by_its_row_s_weight, n_cases()) {
  const Number number = case_number(_i);
  g_auto(Tensor) x = tensor_random(number, ROWS * 2 * WIDTH, 1, 0, 4), y = tensor_new(number, ROWS * WIDTH);
  g_auto(Tensor) dy = tensor_random(number, ROWS * WIDTH, 2, 0, 1), dx = tensor_new(number, ROWS * 2 * WIDTH);
  g_auto(Tensor) scale = tensor_random(NUMBER_FP32, ROWS, 3, 0.5, 0.4), dscale = tensor_new(NUMBER_FP32, ROWS);
  Kernel kernel = {.kind = KERNEL_ACTIVATION_FORWARD,
                   .activation = {.number = (guint8)number,
                                  .gated = TRUE,
                                  .rows = ROWS,
                                  .width = WIDTH,
                                  .x = x.data,
                                  .y = y.data,
                                  .dy = dy.data,
                                  .dx = dx.data,
                                  .scale = scale.data,
                                  .dscale = dscale.data}};
  run_kernel(_i, &kernel);
  ScaledCase c = {x.x, dy.x, scale.x};
  double expected[ROWS * WIDTH];
  for (int i = 0; i < ROWS * WIDTH; i++)
    expected[i] = scaled_y(&c, i);
  assert_tensor("y", &y, expected, 1);
  kernel.kind = KERNEL_ACTIVATION_BACKWARD;
  run_kernel(_i, &kernel);
  assert_gradient("dx", &dx, NULL, x.x, scaled_sum, &c, 0, 3);
  assert_gradient("dscale", &dscale, NULL, scale.x, scaled_sum, &c, 0, 3);
}

int main(void) {
  return run_kernel_case("cpu experts", listed_tests());
}
