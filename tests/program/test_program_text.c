/* The text form: written Programs read back equal, and unreadable text is refused with its place. */
#include "error.h"
#include "passes.h"
#include "program_fixture.h"
#include "run_suite.h"
#include "schedules.h"

/* Every kind of line and field once, as the writer spells it. */
static const char everything[] = "program ranks=2 stages=2 micro_batches=1 steps=1 expanded=1\n"
                                 "group 0 dp axes=dp charge=dp\n"
                                 "group 1 tp_dp_shard axes=tp+dp_shard charge=cp\n"
                                 "group 2 world axes=tp+ep+dp_replica pp=all charge=pp\n"
                                 "group 3 embedding axes=none pp=0,1 charge=pp\n"
                                 "work 0 F embedding=1 layers=12 head=0 flops=1500000000000\n"
                                 "work 1 B piece=layer items=3..7 recompute=1 flops=0.1\n"
                                 "work 2 OPTIMIZER stage=1 parameters=123456789.5\n"
                                 "work 3 I embedding=0 layers=3 head=1 flops=0.3333333333333333\n"
                                 "work 4 W piece=head items=0..0 flops=1e+300\n"
                                 "transfer 0 send 0->1 bytes=8388608\n"
                                 "transfer 1 send 1->0 bytes=8388608\n"
                                 "transfer 2 all_reduce group=0 bytes=2100000000\n"
                                 "transfer 3 reduce_scatter group=1 bytes=2.5\n"
                                 "transfer 4 all_reduce group=2 bytes=4\n"
                                 "transfer 5 all_reduce group=3 bytes=1.7976931348623157e+308\n"
                                 "effect 1 hold activations=1200000000\n"
                                 "effect 2 hold weights=1 buffers=0.25 drop gradients=2 optimizer=3 activations=4\n"
                                 "effect 3 drop activations=1200000000\n"
                                 "effect 4\n"
                                 "rank 0 weights=1000 gradients=2000 optimizer=12000\n"
                                 "  0 compute 0F0 work=0 effect=1\n"
                                 "  1 send_f 0SEND_F0 batch=5 peer=1 tag=0 transfer=0 after=0\n"
                                 "  2 recv_b 0RECV_B0 peer=1 tag=-7 transfer=1\n"
                                 "  3 compute 0B0 unit=4 work=1 effect=3 after=1,2\n"
                                 "  4 tp 0B0 transfer=3 after=0,1,2,3\n"
                                 "  5 dp 0REDUCE_GRAD transfer=2 after=3\n"
                                 "  6 dp TIED_GRAD transfer=5\n"
                                 "  7 compute WAIT kind=collective transfer=4\n"
                                 "  8 compute 0OPTIMIZER work=2 effect=2 after=6\n"
                                 "  9 host SYNC effect=4 after=8\n"
                                 "rank 1 buffers=1e-05\n"
                                 "  0 recv_f 1RECV_F0 peer=0 tag=0 transfer=0\n"
                                 "  1 compute 1F0 work=0 after=0\n"
                                 "  2 compute 1I0 work=3\n"
                                 "  3 send_b 1SEND_B0 peer=0 tag=-7 transfer=1 after=2\n"
                                 "  4 compute 1W0 unit=2 work=4\n"
                                 "  5 dp TIED_GRAD transfer=5 after=4\n"
                                 "  6 compute WAIT kind=collective transfer=4\n";

static void assert_round_trip(const char *text) {
  g_autoptr(Program) program = read_program(text);
  g_autofree char *written = program_to_text(program);
  ck_assert_str_eq(written, text);
}

TEST(every_field_survives_reading_and_writing) {
  assert_round_trip(everything);
}

TEST(fields_are_read_into_their_places) {
  g_autoptr(Program) program = read_program(everything);
  ck_assert_int_eq(program->expansion, EXPANSION_ALL);
  const Group *shard = &g_array_index(program->groups, Group, 1), *ends = &g_array_index(program->groups, Group, 3);
  ck_assert_str_eq(shard->name, "tp_dp_shard");
  ck_assert_uint_eq(shard->axes, AXIS_BIT(AXIS_TP) | AXIS_BIT_DP_SHARD);
  ck_assert_int_eq(shard->charge, AXIS_CP);
  ck_assert(!shard->spans_pp && shard->pp_first == -1 && shard->pp_last == -1);
  ck_assert(ends->spans_pp && ends->pp_first == 0 && ends->pp_last == 1 && ends->axes == 0);
  const Work *run = &g_array_index(program->works, Work, 1), *optimizer = &g_array_index(program->works, Work, 2);
  ck_assert(run->phase == PHASE_B && run->piece == PIECE_LAYER && run->first_item == 3 && run->last_item == 7);
  ck_assert(run->recompute == 1 && run->flops == 0.1 && run->stage == -1 && run->n_layers == 0);
  ck_assert(optimizer->phase == PHASE_OPTIMIZER && optimizer->parameters == 123456789.5 && optimizer->stage == 1);
  const Effect *effect = &g_array_index(program->effects, Effect, 2);
  ck_assert(effect->hold[MEMORY_WEIGHTS] == 1 && effect->hold[MEMORY_BUFFERS] == 0.25);
  ck_assert(effect->drop[MEMORY_GRADIENTS] == 2 && effect->drop[MEMORY_OPTIMIZER] == 3);
  ck_assert(program->ranks[0].resident[MEMORY_OPTIMIZER] == 12000);
  const Op *op = &program->ranks[0].ops[3], *norm = &program->ranks[0].ops[7];
  ck_assert(op->kind == OP_COMPUTE && op->action == ACTION_B && op->stage == 0 && op->micro_batch == 0);
  ck_assert(op->unit == 4 && op->work == 1 && op->effect == 3 && op->after[0] == 1 && op->after[1] == 2);
  ck_assert(op->after[2] == -1 && op->peer == -1 && op->tag == -1 && op->batch == -1);
  ck_assert(norm->kind == OP_COLLECTIVE && norm->stream == STREAM_COMPUTE && norm->stage == -1);
}

TEST(entries_asked_for_after_reading_are_the_ones_read) {
  g_autoptr(Program) program = read_program(everything);
  Work run = g_array_index(program->works, Work, 4);
  Effect effect = g_array_index(program->effects, Effect, 2);
  Group group = g_array_index(program->groups, Group, 3);
  ck_assert_int_eq(program_work(program, &run), 4);
  ck_assert_int_eq(program_effect(program, &effect), 2);
  ck_assert_int_eq(program_group(program, &group), 3);
  /* effect 4 is equal to 0: the first stands for both */
  ck_assert_int_eq(program_effect(program, &(Effect){0}), 0);
  run.flops = 2;
  ck_assert_int_eq(program_work(program, &run), 5);
  ck_assert_int_eq(program_work(program, &run), 5);
}

TEST(tables_keep_thousands_of_entries_apart) {
  g_autoptr(Program) program = program_new(1, 1, 1);
  Work work = {.piece = -1, .first_item = -1, .last_item = -1};
  int n_wrong = 0;
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < 5000; i++) {
      work.stage = i % 100;
      work.parameters = i / 100; /* −0 on the first: equal to 0 */
      if (round == 1 && i < 100)
        work.parameters = -0.0;
      n_wrong += program_work(program, &work) != i;
    }
  ck_assert_int_eq(n_wrong, 0);
  ck_assert_uint_eq(program->works->len, 5000);
}

TEST(lowered_programs_survive) {
  for (const char *const *name = schedule_names(); *name; name++) {
    const ScheduleFacts *schedule = schedule_find(*name, NULL);
    g_autoptr(Order) order = order_new(schedule, (OrderShape){4, schedule->most_chunks > 1 ? 2 : 1, 6, 0}, NULL);
    Lowering lowering = {.order = order, .n_steps = 3};
    g_autoptr(Program) program = lower(&lowering, NULL, NULL, NULL);
    ck_assert_ptr_nonnull(program);
    g_autofree char *text = program_to_text(program);
    assert_round_trip(text);
  }
}

TEST(numbers_are_written_short_and_read_back_exactly) {
  static const double values[] = {1,        0.1, 1.0 / 3, 1e22, 123456789012345680.0, 5e-324, 1.7976931348623157e308,
                                  2.0 / 3e7};
  for (gsize i = 0; i < G_N_ELEMENTS(values); i++) {
    g_autoptr(Program) program = read_program(two_ranks);
    g_array_index(program->transfers, Transfer, 2).bytes = values[i];
    g_autofree char *text = program_to_text(program);
    g_autoptr(Program) again = read_program(text);
    ck_assert(g_array_index(again->transfers, Transfer, 2).bytes == values[i]);
  }
  g_autoptr(Program) program = read_program(two_ranks);
  g_array_index(program->transfers, Transfer, 2).bytes = 0.1;
  g_autofree char *text = program_to_text(program);
  ck_assert_ptr_nonnull(strstr(text, "bytes=0.1\n"));
}

TEST(people_may_add_comments_blanks_and_crlf) {
  g_autofree char *text =
      edit_text(everything, (Edit[MAX_EDITS]){{"group 0 dp", "# the gradients\r\n\n \t group \t 0 dp"},
                                              {"charge=dp\ngroup 1", "charge=dp\t \r\n#\ngroup 1"}});
  g_autoptr(Program) program = read_program(text);
  g_autofree char *written = program_to_text(program);
  ck_assert_str_eq(written, everything);
}

/* A change to `everything`, and what the error about it says: the line, what was found, the nearest name. */
typedef struct {
  Edit edit;
  const char *says;
} Refusal;

static void assert_refused(const Refusal *refusals, gsize n) {
  for (gsize i = 0; i < n; i++) {
    g_autofree char *text = edit_text(everything, (Edit[MAX_EDITS]){refusals[i].edit});
    g_autoptr(GError) error = NULL;
    ck_assert_msg(program_from_text(text, "test", &error) == NULL, "accepted \"%s\"", refusals[i].edit.to);
    ck_assert_msg(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT), "%s", error->message);
    ck_assert_msg(strstr(error->message, refusals[i].says) != NULL, "expected \"%s\" in: %s", refusals[i].says,
                  error->message);
  }
}

TEST(errors_in_the_counts_and_groups_are_named) {
  static const Refusal refusals[] = {
      {{"program ranks=2", "progam ranks=2"}, "test:1: found \"progam\"; expected the program line first"},
      {{"ranks=2 ", ""}, "test:1: ranks= is missing"},
      {{"ranks=2 ", "ranks=2 ranks=2 "}, "test:1: ranks is there twice"},
      {{"ranks=2 ", "rank=2 "}, "test:1: unknown key \"rank\": expected one of ranks, stages"},
      {{"ranks=2 ", "rank=2 "}, "did you mean \"ranks\"?"},
      {{"ranks=2 ", "ranks=two "}, "test:1: ranks=\"two\"; expected a whole number"},
      {{"ranks=2 ", "ranks=99999 "}, "test:1: found ranks=99999"},
      {{"ranks=2 ", "ranks=99999999999 "}, "test:1: ranks=\"99999999999\""},
      {{"ranks=2 ", "ranks=0 "}, "test:1: found ranks=0"},
      {{"ranks=2 ", "ranks=-2 "}, "test:1: ranks=\"-2\""},
      {{"stages=2 ", "stages=2147483647 "}, "test:1: found ranks=2 stages=2147483647"},
      {{"expanded=1", "expanded=3"}, "expanded=3"},
      {{"expanded=1\n", "expanded=1\nprogram ranks=2\n"}, "test:2: a second program line"},
      {{"group 0 dp", "group 1 dp"}, "test:2: found number \"1\"; expected 0, the next"},
      {{"group 0 dp", "group zero dp"}, "test:2: found number \"zero\"; expected 0"},
      {{"group 0 dp", "group 0 axes=dp"}, "test:2: found \"axes=dp\"; expected a group's name"},
      {{"axes=tp+dp_shard", "axes=tp+dp_shards"}, "did you mean \"dp_shard\"?"},
      {{"axes=tp+dp_shard", "axes=tp+tp"}, "test:3: axes: tp is there twice"},
      {{"axes=tp+dp_shard", "axes="}, "test:3: axes=; expected axes"},
      {{"charge=cp", "charge=dp_shard"}, "test:3: charge \"dp_shard\": expected one of tp, cp, ep, dp, pp"},
      {{"pp=all", "pp=0"}, "test:4: pp=\"0\"; expected all, or two pipeline ranks"},
  };
  assert_refused(refusals, G_N_ELEMENTS(refusals));
}

TEST(errors_in_works_transfers_and_effects_are_named) {
  static const Refusal refusals[] = {
      {{"work 0 F", "work 0 FF"}, "test:6: phase \"FF\": expected one of F, I, W, B, OPTIMIZER"},
      {{"layers=12", "layer=12"}, "did you mean \"layers\"?"},
      {{"head=0 flops", "head=256 flops"}, "test:6: head=\"256\"; expected a whole number from 0 to 255"},
      {{"flops=0.1", "flops=nan"}, "test:7: flops=\"nan\"; expected a finite number"},
      {{"flops=0.1", "flops=-1"}, "test:7: flops=\"-1\""},
      {{"flops=0.1", "flops=1e999"}, "test:7: flops=\"1e999\""},
      {{"flops=0.1", "flops"}, "test:7: found \"flops\"; expected key=value"},
      {{"items=3..7", "items=3-7"}, "test:7: items=\"3-7\""},
      {{"piece=layer", "piece=layers"}, "did you mean \"layer\"?"},
      {{"send 0->1", "send 0-1"}, "test:11: found \"0-1\"; expected two pipeline ranks"},
      {{"2 all_reduce", "2 allreduce"}, "did you mean \"all_reduce\"?"},
      {{"send 0->1 bytes=8388608", "send 0->1"}, "test:11: bytes= is missing"},
      {{"hold activations=1200000000\n", "keep activations=1200000000\n"},
       "test:17: found \"keep\"; expected hold or drop"},
      {{"hold weights=1", "hold weight=1"}, "did you mean \"weights\"?"},
      {{"effect 1 hold", "effect 0 hold"}, "test:17: found number \"0\"; expected 1"},
  };
  assert_refused(refusals, G_N_ELEMENTS(refusals));
}

TEST(errors_in_the_ops_of_a_rank_are_named) {
  static const Refusal refusals[] = {
      {{"rank 0 weights", "  0 compute 0F0 work=0\nrank 0 weights"}, "test:21: an op before the first rank line"},
      {{"rank 1 ", "rank 2 "}, "test:32: found number \"2\"; expected 1"},
      {{"rank 1 ", "rank 1\nrank 2 "}, "test:33: more ranks than the 2"},
      {{"ranks=2 ", "ranks=3 "}, "the text ends after 2 ranks; expected 3"},
      {{"  1 send_f", "  2 send_f"}, "test:23: found number \"2\"; expected 1"},
      {{"send_f 0SEND_F0", "sendf 0SEND_F0"}, "did you mean \"send_f\"?"},
      {{"send_f 0SEND_F0", "send_f 0SENDF0"}, "test:23: \"0SENDF0\" is no action"},
      {{"after=1,2\n", "after=1,2,\n"}, "test:25: after=\"1,2,\""},
      {{"after=0,1,2,3", "after=0,1,2,3,0,1,2,3,0"}, "expected 1 to 8 op numbers"},
      {{"kind=collective transfer=4\n  8", "kind=collectiv transfer=4\n  8"}, "did you mean \"collective\"?"},
      {{"0F0 work=0 effect=1", "0F0 transfer=0 effect=1"}, "test:22: a compute op has no transfer="},
      {{"tag=0 transfer=0 after=0", "tag=0 work=0 after=0"}, "test:23: a send op has no work="},
      {{"rank 0 weights", "rnak 0 weights"}, "did you mean \"rank\"?"},
  };
  assert_refused(refusals, G_N_ELEMENTS(refusals));
}

TEST(empty_cut_and_missing_texts_are_refused) {
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(program_from_text(NULL, "test", &error));
  ck_assert_ptr_nonnull(strstr(error->message, "test:1: nothing here; expected a program"));
  ck_assert_ptr_null(program_from_text("", "test", NULL));
  /* cut anywhere: never accepted but where only the last line's end is missing, never a crash */
  gsize length = strlen(everything);
  for (gsize n = 0; n + 1 < length; n++) {
    g_autofree char *cut = g_strndup(everything, n);
    g_autoptr(Program) program = program_from_text(cut, "test", NULL);
    if (program)
      ck_abort_msg("accepted when cut after %d of %d bytes", (int)n, (int)length);
  }
}

static guint32 random_state = 99;

static guint32 draw(guint32 n) {
  random_state = random_state * 1664525u + 1013904223u; /* Numerical Recipes' generator */
  return (random_state >> 8) % n;
}

/* Whatever is accepted is written and read again as the same; nothing crashes. */
TEST(mangled_texts_are_refused_or_mean_what_they_say) {
  static const char alphabet[] = "0123456789=,->.+ \n#FBIWabdeforst_-\xff\x01";
  gsize length = strlen(everything);
  int n_accepted = 0;
  for (int trial = 0; trial < 4000; trial++) {
    g_autofree char *text = g_strdup(everything);
    for (guint32 n = 1 + draw(2); n > 0; n--)
      text[draw((guint32)length)] = alphabet[draw(sizeof alphabet - 1)];
    g_autoptr(GError) error = NULL;
    g_autoptr(Program) program = program_from_text(text, "test", &error);
    if (!program && !error)
      ck_abort_msg("refused without a reason:\n%s", text);
    if (!program)
      continue;
    n_accepted++;
    g_autofree char *written = program_to_text(program);
    g_autoptr(Program) again = program_from_text(written, "test", &error);
    g_autofree char *rewritten = again ? program_to_text(again) : NULL;
    if (g_strcmp0(written, rewritten) != 0)
      ck_abort_msg("%s\n%s", error ? error->message : "differs", written);
  }
  ck_assert_int_gt(n_accepted, 100); /* else the property was hardly tried */
}

TEST(noise_of_megabytes_is_refused_with_a_short_message) {
  enum { SIZE = 10 * 1000 * 1000 };
  static const char *const alphabets[] = {"program =0123456789\n", "# \n", "x", "\n", "\xff\xfe= "};
  g_autofree char *noise = g_malloc(SIZE + 1);
  for (gsize a = 0; a < G_N_ELEMENTS(alphabets); a++) {
    for (int i = 0; i < SIZE; i++)
      noise[i] = alphabets[a][draw((guint32)strlen(alphabets[a]))];
    noise[SIZE] = '\0';
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(program_from_text(noise, "test", &error));
    ck_assert_uint_lt(strlen(error->message), 500);
  }
}

TEST(axes_are_spelled_alike_everywhere) {
  g_autoptr(Program) program = read_program(two_ranks);
  for (int axis = 0; axis < N_AXES; axis++) {
    Group *group = &g_array_index(program->groups, Group, 0);
    group->axes = AXIS_BIT(axis);
    group->charge = (guint8)axis;
    g_autofree char *text = program_to_text(program);
    g_autofree char *expected = g_strdup_printf("axes=%s pp=all charge=%s\n", axis_name(axis), axis_name(axis));
    ck_assert_ptr_nonnull(strstr(text, expected));
    g_autoptr(Program) again = read_program(text);
    ck_assert_int_eq(g_array_index(again->groups, Group, 0).charge, axis);
  }
}

int main(void) {
  return run_tests();
}
