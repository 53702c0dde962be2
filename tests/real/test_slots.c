/* What stepreal keeps between forward and backward is what the Program says: each part as large as in the workload's
 * PieceMemory, and no more of them than micro-batches in flight. */
#include "activations.h"
#include "run_suite.h"

#include <check.h>

#include "plan.h"
#include "precision.h"
#include "small_workloads.h"

enum { N_MICRO_BATCHES = 8 };

/* Activations of the one stage of a plan, on a device that computes nothing. */
typedef struct {
  Workload *workload; /* owned, as all of these */
  LocalSizes local;
  Device *device;
  DeviceStream *stream;
  DeviceEvent *event;
  Activations activations;
} Fixture;

static void open_fixture(Fixture *fixture, Workload *workload, gboolean has_w) {
  *fixture = (Fixture){.workload = workload, .local = local_sizes_of(workload->model, workload->method)};
  fixture->device = null_device.open(0, 1, G_GINT64_CONSTANT(1) << 40, NULL);
  fixture->stream = null_device.stream_new(fixture->device, STREAM_COMPUTE, NULL);
  fixture->event = null_device.event_new(fixture->device, NULL);
  null_device.record(fixture->stream, fixture->event);
  const StageLayers *layers[] = {&workload->stages[0].layers};
  const ActivationsUse use = {.n_stages = 1, .n_micro_batches = N_MICRO_BATCHES, .layers = layers, .has_w = has_w};
  ck_assert(activations_init(&fixture->activations, &fixture->local, fixture->device, &use, NULL));
}

static void close_fixture(Fixture *fixture) {
  activations_clear(&fixture->activations);
  null_device.event_free(fixture->event);
  null_device.stream_free(fixture->stream);
  null_device.close(fixture->device);
  workload_free(fixture->workload);
}

/* Every tensor begins on a multiple of 256 bytes; the two numbers per row that a norm keeps (4 bytes each, 4 in a
 * layer, and with the loss's 5 in the head) are not among what PieceMemory counts. */
static double slack_bytes(const Fixture *fixture) {
  const double layers = fixture->workload->stages[0].layers.n_layers;
  return 256 * (24 * layers + 24) + 4.0 * fixture->local.tokens * (4 * layers + 5);
}

/* The input is among what I reads. */
static void assert_part(const Fixture *fixture, SlotPart part, double expected) {
  const Pool *pools = fixture->activations.pools;
  const double found = (double)(pools[part].piece_bytes + (part == PART_FOR_I ? pools[PART_INPUT].piece_bytes : 0));
  ck_assert_msg(found >= expected && found <= expected + slack_bytes(fixture),
                "part %d: %.0f bytes, expected %.0f (recompute %d, attention %d)", part, found, expected,
                fixture->workload->plan->recompute, fixture->workload->plan->attention);
}

/* One stage of all pieces: embedding, n layers, head. F leaves saved, of which I frees released_by_I; I adds
 * held_for_W. */
static void assert_parts(Workload *workload) {
  Fixture fixture;
  open_fixture(&fixture, workload, TRUE);
  const double counts[N_PIECES] = {
      [PIECE_EMBEDDING] = 1, [PIECE_LAYER] = fixture.workload->stages[0].layers.n_layers, [PIECE_HEAD] = 1};
  PieceMemory sum = {0};
  for (int piece = 0; piece < N_PIECES; piece++) {
    const PieceMemory *memory = &fixture.workload->memory[piece];
    sum.saved_bytes += counts[piece] * memory->saved_bytes;
    sum.released_by_I += counts[piece] * memory->released_by_I;
    sum.held_for_W += counts[piece] * memory->held_for_W;
  }
  assert_part(&fixture, PART_FOR_I, sum.released_by_I);
  assert_part(&fixture, PART_FOR_W, sum.saved_bytes - sum.released_by_I);
  assert_part(&fixture, PART_MADE_BY_I, sum.held_for_W);
  close_fixture(&fixture);
}

TEST(a_slot_s_parts_are_as_large_as_the_program_s_memory) {
  for (int attention = 0; attention < N_ATTENTIONS; attention++)
    for (int recompute = 0; recompute <= RECOMPUTE_FULL; recompute++)
      for (int tp = 1; tp <= 2; tp++)
        assert_parts(workload_of(&llama, tp, FALSE, (Attention)attention, (Recompute)recompute));
}

TEST(modules_made_again_are_not_kept) {
  const guint modules[] = {MODULE_BIT(MODULE_LAYERNORM), MODULE_BIT(MODULE_MLP),
                           MODULE_BIT(MODULE_CORE_ATTN) | MODULE_BIT(MODULE_LAYERNORM) | MODULE_BIT(MODULE_MLP)};
  for (int i = 0; i < (int)G_N_ELEMENTS(modules); i++)
    for (int attention = 0; attention < N_ATTENTIONS; attention++) {
      g_autoptr(Plan) plan = plan_of(2, FALSE, (Attention)attention, RECOMPUTE_SELECTIVE);
      plan->recompute_modules = modules[i];
      assert_parts(workload_new(&llama, plan, NULL));
    }
}

/* For W: rows as experts got them, inputs of their second products, and the shared expert's. For I: the rest, but that
 * of the scores (an element and 5 bytes for each token and expert) there are left a place and a weight of each choice.
 */
TEST(what_experts_keep_is_what_the_program_says) {
  for (int tp = 1; tp <= 2; tp++) {
    Model model = llama;
    model.experts = (ModelExperts){.n = 16, .per_token = 4, .ffn_hidden = 704, .shared_ffn_hidden = 1408, .every = 1};
    Fixture fixture;
    open_fixture(&fixture, workload_of(&model, tp, tp > 1, ATTENTION_FLASH, RECOMPUTE_NONE), FALSE);
    const LocalSizes *local = &fixture.local;
    const PieceMemory *layer = &fixture.workload->memory[PIECE_LAYER], *head = &fixture.workload->memory[PIECE_HEAD];
    const double n = fixture.workload->stages[0].layers.n_layers;
    const double for_i = n * layer->released_by_I + head->released_by_I;
    const double scores = n * (local->element_bytes + 5) * (double)local->split_tokens * 16;
    const double choices = n * 2 * 4 * (double)local->split_tokens * 4;
    assert_part(&fixture, PART_FOR_I, for_i - scores + choices);
    assert_part(&fixture, PART_FOR_W, n * layer->saved_bytes + head->saved_bytes - for_i);
    close_fixture(&fixture);
  }
}

static Slot *run_forward(Fixture *fixture, int micro_batch) {
  Slot *slot = activations_slot(&fixture->activations, 0, micro_batch);
  ck_assert(activations_open(&fixture->activations, slot, fixture->stream, NULL));
  return slot;
}

static void assert_pieces(const Fixture *fixture, SlotPart part, guint most) {
  const guint found = fixture->activations.pools[part].pieces->len;
  ck_assert_msg(found <= most, "part %d: %u pieces, expected at most %u", part, found, most);
}

/* Each I follows its F, each W comes when all I are over: one micro-batch is in flight for I, all of them for W. A pool
 * keeps two pieces more than are held: one to take while the other is still being read. Later steps take no more. */
TEST(a_late_W_keeps_nothing_that_I_has_read) {
  Fixture fixture;
  open_fixture(&fixture, workload_of(&llama, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE), TRUE);
  for (int step = 0; step < 3; step++) {
    for (int m = 0; m < N_MICRO_BATCHES; m++) {
      Slot *slot = run_forward(&fixture, m);
      ck_assert(activations_open_backward(&fixture.activations, slot, fixture.stream, NULL));
      activations_close_input(&fixture.activations, slot, fixture.event);
      ck_assert_ptr_null(slot->parts[PART_FOR_I]);
      ck_assert(slot->parts[PART_FOR_W] != NULL && slot->parts[PART_MADE_BY_I] != NULL);
    }
    for (int m = 0; m < N_MICRO_BATCHES; m++)
      activations_close(&fixture.activations, activations_slot(&fixture.activations, 0, m), fixture.event);
    assert_pieces(&fixture, PART_FOR_I, 1 + 2);
    assert_pieces(&fixture, PART_FOR_W, N_MICRO_BATCHES + 2);
    assert_pieces(&fixture, PART_MADE_BY_I, N_MICRO_BATCHES + 2);
  }
  close_fixture(&fixture);
}

/* Where W runs with I, what I would make for it is scratch of the rank. */
TEST(without_W_apart_nothing_is_made_for_it) {
  Fixture fixture;
  open_fixture(&fixture, workload_of(&llama, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE), FALSE);
  Slot *slot = run_forward(&fixture, 0);
  ck_assert(activations_open_backward(&fixture.activations, slot, fixture.stream, NULL));
  ck_assert_ptr_null(slot->parts[PART_MADE_BY_I]);
  ck_assert_int_eq(fixture.activations.pools[PART_MADE_BY_I].piece_bytes, 0);
  activations_close(&fixture.activations, slot, fixture.event);
  close_fixture(&fixture);
}

int main(void) {
  return run_tests();
}
