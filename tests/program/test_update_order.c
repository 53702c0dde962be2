/* The verifier on the GPU's optimizer update: it runs after its gradients are ready, and before updated weights are
 * gathered. */
#include "program_fixture.h"
#include "run_suite.h"

/* Two shards that tp cuts too: summed over dp and tp, clipped, updated, gathered. */
static const char updated[] = "program ranks=1 stages=1 micro_batches=1 steps=1\n"
                              "group 0 dp_shard axes=dp charge=dp\ngroup 1 tp axes=tp charge=tp\n"
                              "work 0 F layers=1\nwork 1 B layers=1\nwork 2 OPTIMIZER parameters=8\n"
                              "transfer 0 reduce_scatter group=0 bytes=16 layers=1\n"
                              "transfer 1 all_reduce group=1 bytes=4\ntransfer 2 all_reduce group=0 bytes=4\n"
                              "transfer 3 all_gather group=0 bytes=16 layers=1\n"
                              "rank 0\n 0 compute 0F0 work=0\n 1 compute 0B0 work=1\n"
                              " 2 dp 0REDUCE_GRAD transfer=0 after=1\n 3 tp WHOLE_GRAD transfer=1 after=2\n"
                              " 4 dp NORM transfer=2 after=3\n 5 compute OPTIMIZER work=2 after=4\n"
                              " 6 dp 0UNSHARD transfer=3 after=5\n 7 host SYNC after=6\n";

TEST(the_optimizer_waits_for_sums_and_norm) {
  program_free(read_program(updated));
  assert_edit_refused(updated, EDITS({"OPTIMIZER work=2 after=4", "OPTIMIZER work=2"}),
                      "rank 0, op 5 (OPTIMIZER): it updates with the step's gradient and does not wait for "
                      "0REDUCE_GRAD (op 2), which sums a gradient");
  assert_edit_refused(updated, EDITS({"OPTIMIZER work=2 after=4", "OPTIMIZER work=2 after=2"}),
                      "op 5 (OPTIMIZER): it updates with the step's gradient and does not wait for NORM (op 4), which "
                      "takes the norm of the step's gradient");
}

TEST(the_norm_is_of_all_sums) {
  assert_edit_refused(updated, EDITS({"NORM transfer=2 after=3", "NORM transfer=2"}),
                      "rank 0, op 4 (NORM): it takes the norm of the step's gradient and does not wait for WHOLE_GRAD "
                      "(op 3), which sums what each rank of tp holds whole");
  assert_edit_refused(updated,
                      EDITS({" 2 dp 0REDUCE_GRAD transfer=0 after=1\n 3 tp WHOLE_GRAD transfer=1 after=2\n"
                             " 4 dp NORM transfer=2 after=3\n",
                             " 2 host WAIT\n 3 host WAIT\n 4 dp NORM transfer=2 after=0\n"}),
                      "does not wait for 0B0 (op 1)");
  assert_edit_refused(updated,
                      EDITS({" 3 tp WHOLE_GRAD transfer=1 after=2\n 4 dp NORM transfer=2 after=3\n",
                             " 3 tp NORM kind=collective transfer=1 after=2\n 4 dp NORM transfer=2\n"}),
                      "rank 0, op 4 (NORM): it takes the norm of the step's gradient and does not wait for NORM (op "
                      "3), which takes the norm of the step's gradient");
}

TEST(nothing_changes_a_gradient_behind_its_norm_or_update) {
  assert_edit_refused(updated,
                      EDITS({" 4 dp NORM transfer=2 after=3\n 5 compute OPTIMIZER work=2 after=4",
                             " 4 compute OPTIMIZER work=2 after=3\n 5 dp NORM transfer=2 after=4"},
                            {" 3 tp WHOLE_GRAD transfer=1 after=2", " 3 host WAIT after=2"},
                            {" 6 dp 0UNSHARD transfer=3", " 6 tp WHOLE_GRAD transfer=1"}),
                      "rank 0, op 6 (WHOLE_GRAD): it sums what each rank of tp holds whole behind NORM (op 5), which "
                      "takes the norm of the step's gradient");
  assert_edit_refused(updated,
                      EDITS({" 3 tp WHOLE_GRAD transfer=1 after=2\n 4 dp NORM transfer=2 after=3\n",
                             " 3 dp NORM transfer=2 after=2\n 4 tp WHOLE_GRAD transfer=1 after=3\n"}),
                      "rank 0, op 4 (WHOLE_GRAD): it sums what each rank of tp holds whole behind NORM (op 3), which "
                      "takes the norm of the step's gradient");
  assert_edit_refused(
      updated,
      EDITS({" 1 compute 0B0 work=1\n 2 dp 0REDUCE_GRAD transfer=0 after=1\n 3 tp WHOLE_GRAD transfer=1 "
             "after=2\n 4 dp NORM transfer=2 after=3\n 5 compute OPTIMIZER work=2 after=4",
             " 1 host WAIT\n 2 host WAIT\n 3 host WAIT\n 4 compute OPTIMIZER work=2\n 5 compute 0B0 work=1"}),
      "rank 0, op 5 (0B0): it adds to a gradient behind OPTIMIZER (op 4)");
}

TEST(sums_and_gathers_are_on_streams_that_are_watched) {
  assert_edit_refused(updated, EDITS({"tp WHOLE_GRAD transfer=1", "cp WHOLE_GRAD kind=collective transfer=1"}),
                      "rank 0, op 3 (WHOLE_GRAD): expected a collective on the stream tp");
  assert_edit_refused(updated, EDITS({"dp NORM transfer=2", "ep NORM kind=collective transfer=2"}),
                      "(NORM): expected a coll");
  assert_edit_refused(updated, EDITS({"dp 0UNSHARD transfer=3", "tp 0UNSHARD kind=collective transfer=3"}),
                      "rank 0, op 6 (0UNSHARD): expected a collective on the stream dp or copy");
}

TEST(what_is_gathered_is_updated_and_then_the_step_ends) {
  assert_edit_refused(updated, EDITS({"0UNSHARD transfer=3 after=5", "0UNSHARD transfer=3"}),
                      "rank 0, op 6 (0UNSHARD): it gathers weights and does not wait for OPTIMIZER (op 5)");
  assert_edit_refused(updated, EDITS({"SYNC after=6", "SYNC after=5"}),
                      "rank 0, op 7 (SYNC): it ends a step and does not wait for 0UNSHARD (op 6)");
  assert_edit_refused(updated, EDITS({"SYNC after=6", "SYNC after=4"}),
                      "op 7 (SYNC): it ends a step and does not wait for 0UNSHARD (op 6), which gathers weights");
}

int main(void) {
  return run_tests();
}
