/* Attention to blocks of keys, on each rank of a sharded sequence: merged outputs and summed gradients equal those of
 * the whole sequence at once, whose kernel test_cpu_gradients checks. A sequence has 2·cp pieces of `half` rows; rank r
 * has pieces r and 2·cp − 1 − r. */
#include "kernel_tensor.h"

enum { SEQUENCES = 2, HEADS = 2, KV_HEADS = 1, D = 4, K_AT = HEADS * D, V_AT = K_AT + KV_HEADS * D };
enum { LD = V_AT + KV_HEADS * D, LD_O = HEADS * D };

/* Around tiles of 64 and 512 queries and keys: pieces within one, straddling two, and keys of several. */
static const struct {
  int cp;
  gint64 half;
  gint64 alibi_heads; /* of which the two here are the last; with dropout */
} cuts[] = {{2, 1, 0}, {2, 3, 4}, {3, 33, 6}, {2, 70, 0}, {2, 260, 0}};

typedef struct {
  int test_case, cp;
  Number number;
  gint64 half, length, alibi_heads, window;
  Tensor qkv, d_o, o, lse, d_qkv; /* of all rows, in order of position */
} Whole;

static char *at(const Tensor *tensor, gint64 i) {
  return (char *)tensor->data + i * kernel_element_bytes(tensor->number);
}

static FlashKernel task_of(const Whole *whole, const Tensor *qkv, gint64 seq_len) {
  return (FlashKernel){
      .number = (guint8)whole->number,
      .sequences = SEQUENCES,
      .seq_len = seq_len,
      .n_heads = HEADS,
      .n_kv_heads = KV_HEADS,
      .head_dim = D,
      .v_head_dim = D,
      .scale = 0.4f,
      .rule = {.alibi_heads = whole->alibi_heads, .first_head = whole->alibi_heads - HEADS, .window = whole->window},
      .drop = {{5, whole->alibi_heads > 0 ? 0.25f : 0}, 3, 7, 1, whole->length},
      .ld_qkv = LD,
      .ld_dq = LD,
      .ld_dkv = LD,
      .ld_o = LD_O,
      .q = at(qkv, 0),
      .k = at(qkv, K_AT),
      .v = at(qkv, V_AT)};
}

static void run(const Whole *whole, KernelKind kind, const FlashKernel *task) {
  Kernel kernel = {.kind = (guint8)kind, .flash = *task};
  run_kernel(whole->test_case, &kernel);
}

static Whole whole_new(int test_case, gsize cut, gint64 window) {
  const int cp = cuts[cut].cp;
  const gint64 half = cuts[cut].half;
  const gint64 length = 2 * cp * half, rows = SEQUENCES * length;
  const Number number = case_number(test_case);
  Whole whole = {test_case,
                 cp,
                 number,
                 half,
                 length,
                 cuts[cut].alibi_heads,
                 window,
                 tensor_random(number, rows * LD, 1, 0, 2),
                 tensor_random(number, rows * LD_O, 2, 0, 1),
                 tensor_new(number, rows * LD_O),
                 tensor_new(NUMBER_FP32, rows * HEADS),
                 tensor_new(number, rows * LD)};
  FlashKernel task = task_of(&whole, &whole.qkv, length);
  task.o = whole.o.data, task.lse = whole.lse.data, task.d_o = whole.d_o.data;
  task.dq = at(&whole.d_qkv, 0), task.dk = at(&whole.d_qkv, K_AT), task.dv = at(&whole.d_qkv, V_AT);
  run(&whole, KERNEL_FLASH_FORWARD, &task);
  run(&whole, KERNEL_FLASH_BACKWARD, &task);
  return whole;
}

static void whole_clear(Whole *whole) {
  Tensor *tensors[] = {&whole->qkv, &whole->d_o, &whole->o, &whole->lse, &whole->d_qkv};
  for (gsize i = 0; i < G_N_ELEMENTS(tensors); i++)
    tensor_clear(tensors[i]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Whole, whole_clear)

static gint64 position_of(const Whole *whole, int rank, gint64 row) {
  return row < whole->half ? rank * whole->half + row : (2 * whole->cp - 1 - rank) * whole->half + row - whole->half;
}

/* A rank's row among all of its sequences' → its place among all rows. */
static gint64 row_of(const Whole *whole, int rank, gint64 row) {
  const gint64 here = 2 * whole->half;
  return row / here * whole->length + position_of(whole, rank, row % here);
}

/* Place of a rank's log-sum-exp in the whole's. */
static gint64 lse_of(const Whole *whole, int rank, gint64 i) {
  const gint64 here = 2 * whole->half;
  return i / here * whole->length + position_of(whole, rank, i % here);
}

static Tensor rows_of(const Whole *whole, const Tensor *all, int rank, gint64 width) {
  Tensor part = tensor_new(all->number, SEQUENCES * 2 * whole->half * width);
  for (gint64 i = 0; i < part.n; i++)
    tensor_set(&part, i, tensor_get(all, row_of(whole, rank, i / width) * width + i % width));
  return part;
}

static Tensor lse_rows(const Whole *whole, int rank) {
  Tensor part = tensor_new(NUMBER_FP32, SEQUENCES * HEADS * 2 * whole->half);
  for (gint64 i = 0; i < part.n; i++)
    tensor_set(&part, i, tensor_get(&whole->lse, lse_of(whole, rank, i)));
  return part;
}

/* Of 2-byte formats every block's output, and every merge, is rounded. */
static double tolerance_of(const Whole *whole) {
  return (whole->number == NUMBER_FP32 ? 2 : 2 * whole->cp) * number_tolerance(whole->number);
}

/* What queries of `rank` see of the block of `from`, in `task`, whose k and v are the block's. */
static gint64 look_at(const Whole *whole, int rank, int from, FlashKernel *task) {
  const gint64 half = whole->half, s = 2 * half, first = from > rank ? half : 0;
  task->block = (FlashBlock){.is_cut = TRUE,
                             .is_full = from != rank,
                             .queries = s - first,
                             .keys = from < rank ? half : s,
                             .key_rows = s,
                             .ld_kv = LD,
                             .ld_dq = LD,
                             .ld_dkv = LD,
                             .query_at = {half - first, rank * half, (2 * whole->cp - 2 - rank) * half + first},
                             .key_at = {half, from * half, (2 * whole->cp - 2 - from) * half}};
  return first;
}

static void try_merging(const Whole *whole, int rank) {
  const gint64 s = 2 * whole->half;
  g_auto(Tensor) own = rows_of(whole, &whole->qkv, rank, LD), o = tensor_new(whole->number, SEQUENCES * s * LD_O);
  g_auto(Tensor) part = tensor_new(whole->number, o.n), lse = tensor_new(NUMBER_FP32, SEQUENCES * HEADS * s);
  g_auto(Tensor) part_lse = tensor_new(NUMBER_FP32, lse.n);
  for (int step = 0; step < whole->cp; step++) {
    const int from = (rank - step + whole->cp) % whole->cp;
    g_auto(Tensor) block = rows_of(whole, &whole->qkv, from, LD);
    FlashKernel task = task_of(whole, &block, s);
    const gint64 first = look_at(whole, rank, from, &task);
    task.q = at(&own, first * LD);
    task.o = at(step == 0 ? &o : &part, first * LD_O);
    task.lse = (float *)(step == 0 ? lse.data : part_lse.data) + first;
    run(whole, KERNEL_FLASH_FORWARD, &task);
    Kernel merge = {.kind = KERNEL_MERGE,
                    .merge = {.number = (guint8)whole->number,
                              .sequences = SEQUENCES,
                              .seq_len = s,
                              .queries = task.block.queries,
                              .n_heads = HEADS,
                              .head_dim = D,
                              .o = at(&o, first * LD_O),
                              .lse = (float *)lse.data + first,
                              .other = task.o,
                              .other_lse = task.lse}};
    if (step > 0)
      run_kernel(whole->test_case, &merge);
  }
  for (gint64 i = 0; i < o.n; i++)
    assert_near("o", i, tensor_get(&o, i), tensor_get(&whole->o, row_of(whole, rank, i / LD_O) * LD_O + i % LD_O),
                tolerance_of(whole), 1);
  for (gint64 i = 0; i < lse.n; i++)
    assert_near("lse", i, tensor_get(&lse, i), tensor_get(&whole->lse, lse_of(whole, rank, i)), 4e-6, 1);
}

LOOP_TEST(outputs_for_blocks_merge_to_that_for_all_keys, n_cases()) {
  for (gsize i = 0; i < G_N_ELEMENTS(cuts); i++) {
    g_auto(Whole) whole = whole_new(_i, i, 0);
    for (int rank = 0; rank < whole.cp; rank++)
      try_merging(&whole, rank);
  }
}

/* Adds the gradients that `rank` makes with the block of `from` to those of all rows. */
static void add_gradients(const Whole *whole, int rank, int from, double *sums) {
  const gint64 s = 2 * whole->half;
  g_auto(Tensor) own = rows_of(whole, &whole->qkv, rank, LD), block = rows_of(whole, &whole->qkv, from, LD);
  g_auto(Tensor) o = rows_of(whole, &whole->o, rank, LD_O), d_o = rows_of(whole, &whole->d_o, rank, LD_O);
  g_auto(Tensor) lse = lse_rows(whole, rank), d_q = tensor_new(whole->number, own.n);
  g_auto(Tensor) d_block = tensor_new(whole->number, own.n);
  FlashKernel task = task_of(whole, &block, s);
  const gint64 first = look_at(whole, rank, from, &task);
  task.q = at(&own, first * LD);
  task.o = at(&o, first * LD_O), task.d_o = at(&d_o, first * LD_O), task.lse = (float *)lse.data + first;
  task.dq = at(&d_q, first * LD), task.dk = at(&d_block, K_AT), task.dv = at(&d_block, V_AT);
  run(whole, KERNEL_FLASH_BACKWARD, &task);
  for (gint64 i = 0; i < own.n; i++) {
    const Tensor *gradient = i % LD < K_AT ? &d_q : &d_block;
    sums[row_of(whole, i % LD < K_AT ? rank : from, i / LD) * LD + i % LD] += tensor_get(gradient, i);
  }
}

LOOP_TEST(gradients_for_blocks_add_up_to_those_for_all_keys, n_cases()) {
  for (gsize i = 0; i < G_N_ELEMENTS(cuts); i++) {
    g_auto(Whole) whole = whole_new(_i, i, 0);
    g_autofree double *sums = g_new0(double, whole.d_qkv.n);
    for (int rank = 0; rank < whole.cp; rank++)
      for (int from = 0; from < whole.cp; from++)
        add_gradients(&whole, rank, from, sums);
    for (gint64 k = 0; k < whole.d_qkv.n; k++)
      assert_near("d_qkv", k, sums[k], tensor_get(&whole.d_qkv, k), tolerance_of(&whole), 4);
  }
}

/* One piece of the queries, at its place, to all keys up to its own; gradients of keys are added to `d_kv`. */
static void try_piece(const Whole *whole, gint64 piece, Tensor *d_kv) {
  const gint64 half = whole->half, first = piece * half, keys = first + half;
  g_auto(Tensor) o = tensor_new(whole->number, whole->o.n), lse = tensor_new(NUMBER_FP32, whole->lse.n);
  g_auto(Tensor) d_q = tensor_new(whole->number, SEQUENCES * whole->length * K_AT);
  FlashKernel task = task_of(whole, &whole->qkv, whole->length);
  task.q = at(&whole->qkv, first * LD);
  task.o = at(&o, first * LD_O), task.lse = (float *)lse.data + first;
  task.block = (FlashBlock){TRUE, FALSE, TRUE, half, keys, whole->length, LD, K_AT, LD, {0, 0, first}, {0}};
  run(whole, KERNEL_FLASH_FORWARD, &task);
  for (gint64 i = 0; i < o.n; i++)
    if (i / LD_O % whole->length / half == piece)
      assert_near("o", i, tensor_get(&o, i), tensor_get(&whole->o, i), 2 * number_tolerance(whole->number), 1);
  for (gint64 i = 0; i < lse.n; i++)
    if (i % whole->length / half == piece)
      assert_near("lse", i, tensor_get(&lse, i), tensor_get(&whole->lse, i), 4e-6, 1);
  task.o = at(&whole->o, first * LD_O), task.lse = (float *)whole->lse.data + first;
  task.d_o = at(&whole->d_o, first * LD_O);
  task.dq = at(&d_q, first * K_AT), task.dk = at(d_kv, K_AT), task.dv = at(d_kv, V_AT);
  run(whole, KERNEL_FLASH_BACKWARD, &task);
  for (gint64 i = 0; i < d_q.n; i++)
    if (i / K_AT % whole->length / half == piece)
      assert_near("d_q", i, tensor_get(&d_q, i), tensor_get(&whole->d_qkv, i / K_AT * LD + i % K_AT),
                  tolerance_of(whole), 4);
}

static const gint64 windows[] = {0, 2, 40, 90, 300}; /* shorter and longer than pieces and tiles of keys */

/* Of a window, too. */
LOOP_TEST(pieces_of_queries_see_the_keys_up_to_theirs, n_cases()) {
  for (gsize i = 0; i < G_N_ELEMENTS(cuts) * G_N_ELEMENTS(windows); i++) {
    g_auto(Whole) whole = whole_new(_i, i / G_N_ELEMENTS(windows), windows[i % G_N_ELEMENTS(windows)]);
    g_auto(Tensor) d_kv = tensor_new(whole.number, whole.d_qkv.n);
    for (gint64 k = 0; k < d_kv.n; k++)
      tensor_set(&d_kv, k, 1);
    for (gint64 piece = 0; piece < 2 * whole.cp; piece++)
      try_piece(&whole, piece, &d_kv);
    for (gint64 k = 0; k < d_kv.n; k++)
      assert_near("d_kv", k, tensor_get(&d_kv, k), 1 + (k % LD < K_AT ? 0 : tensor_get(&whole.d_qkv, k)),
                  2 * tolerance_of(&whole), 4);
  }
}

/* Three blocks of two rows: out = a + b, a taken backwards; a copy; zeros. What lies between the rows is left alone. */
LOOP_TEST(moves_go_by_their_strides, n_cases()) {
  enum { LD_A = 5, LD_B = 4, LD_OUT = 7, WIDTH = 3, ROWS = 2, BATCH = 3 };
  const Number number = case_number(_i);
  g_auto(Tensor) a = tensor_random(number, BATCH * ROWS * LD_A, 1, 0, 4);
  g_auto(Tensor) b = tensor_random(number, BATCH * ROWS * LD_B, 2, 0, 4);
  for (int n_operands = 0; n_operands < 3; n_operands++) {
    g_auto(Tensor) out = tensor_random(number, BATCH * ROWS * LD_OUT, 3, 0, 4);
    g_autofree double *want = g_memdup2(out.x, (gsize)out.n * sizeof(double));
    for (int i = 0; i < BATCH * ROWS * WIDTH; i++) {
      const int block = i / WIDTH / ROWS, row = i / WIDTH % ROWS, column = i % WIDTH;
      const double of_a = a.x[((BATCH - 1 - block) * ROWS + row) * LD_A + column],
                   of_b = b.x[(block * ROWS + row) * LD_B + column];
      want[(block * ROWS + row) * LD_OUT + column] =
          number_round(number, (n_operands > 0 ? of_a : 0) + (n_operands > 1 ? of_b : 0));
    }
    Kernel kernel = {.kind = KERNEL_MOVE,
                     .move = {(guint8)number, BATCH, ROWS, WIDTH, LD_A, LD_B, LD_OUT, -ROWS * LD_A, ROWS * LD_B,
                              ROWS * LD_OUT, n_operands > 0 ? at(&a, (BATCH - 1) * ROWS * LD_A) : NULL,
                              n_operands > 1 ? b.data : NULL, out.data}};
    run_kernel(_i, &kernel);
    for (gint64 i = 0; i < out.n; i++)
      assert_near("out", i, tensor_get(&out, i), want[i], 0, 1);
  }
}

/* Four columns of the same sequence of 20: what a rank drops of its rows, or of those that tp leaves it, is what is
 * dropped of them where it is whole. */
LOOP_TEST(pieces_drop_what_the_whole_does, n_cases()) {
  enum { LENGTH = 20, HERE = 10, WIDTH = 4, SEQUENCES_HERE = 2 };
  const Number number = case_number(_i);
  const SequencePieces pieces[] = {{0, 10}, {5, 5}};
  g_auto(Tensor) a = tensor_random(number, SEQUENCES_HERE * LENGTH * WIDTH, 1, 0, 2);
  g_auto(Tensor) b = tensor_random(number, a.n, 2, 0, 2), bias = tensor_random(number, WIDTH, 3, 0, 2);
  g_auto(Tensor) out = tensor_new(number, a.n);
  const Dropout dropout = {9, 0.4f};
  Kernel kernel = {.kind = KERNEL_DROP_ADD,
                   .drop_add = {(guint8)number,
                                SEQUENCES_HERE * LENGTH,
                                WIDTH,
                                dropout,
                                {0, LENGTH, 6, LENGTH, {0, 0}},
                                a.data,
                                b.data,
                                bias.data,
                                out.data}};
  g_autofree double *want = g_new(double, (gsize)a.n);
  for (gint64 i = 0; i < a.n; i++)
    want[i] =
        a.x[i] + (double)dropout_factor(&dropout, (guint64)(6 * LENGTH * WIDTH + i)) * (b.x[i] + bias.x[i % WIDTH]);
  run_kernel(_i, &kernel);
  assert_tensor("out", &out, want, 1);
  for (int rank = 0; rank < 2; rank++)
    for (int half = 0; half < 2; half++) { /* the second half of a rank's rows: its second sequence */
      g_auto(Tensor) own = tensor_new(number, HERE * WIDTH), part = tensor_new(number, HERE * WIDTH);
      g_autofree double *own_want = g_new(double, HERE *WIDTH);
      for (int i = 0; i < HERE * WIDTH; i++) {
        const gint64 at = (half * LENGTH + sequence_position(pieces[rank], i / WIDTH, HERE)) * WIDTH + i % WIDTH;
        tensor_set(&own, i, b.x[at]);
        own_want[i] = (want[at] - a.x[at]);
      }
      kernel.drop_add =
          (DropAddKernel){(guint8)number, HERE,     WIDTH,     dropout,  {half * HERE, HERE, 6, LENGTH, pieces[rank]},
                          NULL,           own.data, bias.data, part.data};
      run_kernel(_i, &kernel);
      assert_tensor("part", &part, own_want, 2);
    }
}

/* A rank's rows of a sequence of 20 with cp 2: rank 1 has positions 5 … 9 and 10 … 14, rank 0 the rest. */
LOOP_TEST(pieces_have_the_positions_of_the_whole, n_cases()) {
  enum { LENGTH = 20, HERE = 10, WIDTH = 4 };
  const Number number = case_number(_i);
  const SequencePieces pieces[] = {{0, 10}, {5, 5}};
  g_auto(Tensor) whole = tensor_random(number, LENGTH * WIDTH, 1, 0, 2);
  g_auto(Tensor) first = tensor_new(number, HERE * WIDTH), second = tensor_new(number, HERE * WIDTH);
  Tensor *const parts[] = {&first, &second};
  for (int i = 0; i < LENGTH * WIDTH; i++) {
    const int position = i / WIDTH, is_middle = position >= 5 && position < 15;
    const int row = is_middle ? position - 5 : position < 5 ? position : position - 10;
    tensor_set(parts[is_middle], row * WIDTH + i % WIDTH, whole.x[i]);
  }
  Kernel rope = {.kind = KERNEL_ROPE,
                 .rope = {(guint8)number, 0, LENGTH, LENGTH, 2, 2, 2, WIDTH, 100, {0, 0}, whole.data}};
  run_kernel(_i, &rope);
  for (int rank = 0; rank < 2; rank++) {
    rope.rope.rows = rope.rope.seq_len = HERE;
    rope.rope.pieces = pieces[rank];
    rope.rope.x = parts[rank]->data;
    run_kernel(_i, &rope);
    for (int i = 0; i < HERE * WIDTH; i++) {
      const int row = i / WIDTH, position = rank == 1 ? row + 5 : row < 5 ? row : row + 10;
      assert_near("turned", i, tensor_get(parts[rank], i), tensor_get(&whole, position * WIDTH + i % WIDTH), 0, 1);
    }
  }
}

int main(void) {
  return run_kernel_case("cpu_blocks", listed_tests());
}
