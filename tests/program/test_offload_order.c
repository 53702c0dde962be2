/* The verifier on offloaded data: it reaches the host, and comes back, in time. */
#include "program_fixture.h"
#include "run_suite.h"

/* Two shards of one layer, two steps: each is fetched, gathered, and updated on the host. */
static const char fetched[] = "program ranks=1 stages=1 micro_batches=1 steps=2\n"
                              "group 0 dp_shard axes=dp charge=dp\n"
                              "group 1 copy axes=none charge=dp route=link_in\n"
                              "group 2 copy axes=none charge=dp route=link_out\n"
                              "work 0 F layers=1\nwork 1 B layers=1\nwork 2 OPTIMIZER on_host=1 parameters=8\n"
                              "transfer 0 send_recv group=1 bytes=8\n"
                              "transfer 1 all_gather group=0 bytes=16 layers=1\n"
                              "transfer 2 reduce_scatter group=0 bytes=16 layers=1\n"
                              "transfer 3 send_recv group=2 bytes=8\n"
                              "rank 0\n 0 copy 0FETCH0 transfer=0\n 1 dp 0UNSHARD0 transfer=1 after=0\n"
                              " 2 compute 0F0 work=0 after=1\n 3 copy 0FETCH0 transfer=0 after=2\n"
                              " 4 dp 0UNSHARD0 transfer=1 after=3\n 5 compute 0B0 work=1 after=4\n"
                              " 6 dp 0REDUCE_GRAD0 transfer=2 after=5\n 7 copy_out 0GRAD_OUT0 transfer=3 after=6\n"
                              " 8 host OPTIMIZER work=2 after=7\n 9 copy 0FETCH0 step=1 transfer=0\n"
                              " 10 dp 0UNSHARD0 step=1 transfer=1 after=9\n 11 compute 0F0 step=1 work=0 after=10\n"
                              " 12 compute 0B0 step=1 work=1\n 13 dp 0REDUCE_GRAD0 step=1 transfer=2 after=12\n"
                              " 14 copy_out 0GRAD_OUT0 step=1 transfer=3 after=13\n"
                              " 15 host OPTIMIZER step=1 work=2 after=14\n";

TEST(a_gather_waits_for_a_fetch_of_its_own) {
  program_free(read_program(fetched));
  const char *says = "rank 0, op 4 (0UNSHARD0 of step 0): its weights are on the host, and it waits for no FETCH";
  assert_edit_refused(fetched, EDITS({"0UNSHARD0 transfer=1 after=3", "0UNSHARD0 transfer=1"}), says);
  assert_edit_refused(fetched, EDITS({"0UNSHARD0 transfer=1 after=3", "0UNSHARD0 transfer=1 after=0"}), says);
  /* of another layer, of another step */
  assert_edit_refused(fetched, EDITS({" 3 copy 0FETCH0 transfer=0", " 3 copy 0FETCH0 unit=1 transfer=0"}), says);
  assert_edit_refused(fetched, EDITS({" 3 copy 0FETCH0 transfer=0", " 3 copy 0FETCH0 step=1 transfer=0"}), says);
}

TEST(nothing_is_fetched_over_weights_that_are_used) {
  assert_edit_refused(fetched, EDITS({"0FETCH0 transfer=0 after=2", "0FETCH0 transfer=0"}),
                      "rank 0, op 3 (0FETCH0 of step 0): it writes over weights that 0F0 of step 0 (op 2) uses");
}

TEST(nothing_is_fetched_before_it_is_updated) {
  assert_edit_refused(fetched,
                      EDITS({" 8 host OPTIMIZER work=2 after=7\n 9 copy 0FETCH0 step=1 transfer=0\n",
                             " 8 copy 0FETCH0 step=1 transfer=0\n 9 host OPTIMIZER work=2 after=7\n"},
                            {"step=1 transfer=1 after=9", "step=1 transfer=1 after=8"}),
                      "rank 0, op 9 (OPTIMIZER of step 0): it updates on the host behind 0FETCH0 of step 1 (op 8), "
                      "which is of a later step");
}

TEST(the_host_updates_when_all_gradients_are_there) {
  assert_edit_refused(fetched, EDITS({"host OPTIMIZER work=2 after=7", "host OPTIMIZER work=2 after=6"}),
                      "rank 0, op 8 (OPTIMIZER of step 0): it updates on the host and does not wait for 0GRAD_OUT0 of "
                      "step 0 (op 7), which copies a gradient out");
  assert_edit_refused(fetched, EDITS({"host OPTIMIZER work=2 after=7", "host OPTIMIZER work=2"}), "does not wait for");
  assert_edit_refused(fetched,
                      EDITS({"7 copy_out 0GRAD_OUT0 transfer=3 after=6\n 8 host OPTIMIZER work=2 after=7",
                             "7 host OPTIMIZER work=2 after=6\n 8 copy_out 0GRAD_OUT0 transfer=3 after=6"}),
                      "rank 0, op 8 (0GRAD_OUT0 of step 0): it copies a gradient out behind OPTIMIZER of step 0 (op "
                      "7), which updates on the host");
  /* in the last step nobody comes after it */
  assert_edit_refused(fetched, EDITS({" 15 host OPTIMIZER step=1 work=2 after=14\n", ""}),
                      "rank 0: step 1 has no OPTIMIZER on the host");
  assert_edit_refused(fetched, EDITS({"host OPTIMIZER work=2", "host OPTIMIZER unit=1 work=2"}),
                      "op 8 (OPTIMIZER of step 0): it updates on the host, part 1; expected part 0");
}

TEST(the_host_updates_when_the_norm_is_known) {
  g_autofree char *normed = edit_text(
      fetched, EDITS({" 15 host OPTIMIZER step=1 work=2 after=14\n",
                      " 15 dp NORM step=1 transfer=1 after=12\n 16 host OPTIMIZER step=1 work=2 after=14,15\n"}));
  program_free(read_program(normed));
  assert_edit_refused(
      normed, EDITS({"after=14,15", "after=14"}),
      "op 16 (OPTIMIZER of step 1): it updates on the host and does not wait for NORM of step 1 (op 15)");
}

TEST(every_sum_is_copied_to_the_host) {
  const char *says = "rank 0, op 13 (0REDUCE_GRAD0 of step 1): no GRAD_OUT behind it copies to the host what it sums";
  assert_edit_refused(
      fetched,
      EDITS({" 14 copy_out 0GRAD_OUT0 step=1 transfer=3 after=13\n 15 host OPTIMIZER step=1 work=2 after=14",
             " 14 host OPTIMIZER step=1 work=2 after=13"}),
      says);
  /* over shards, then over their replicas: one copy behind both; of experts and all else each has its own */
  const Edit replicas[MAX_EDITS] = {
      {"transfer 3 send_recv", "transfer 4 all_reduce group=0 bytes=8 layers=1\ntransfer 3 send_recv"},
      {" 14 copy_out 0GRAD_OUT0 step=1 transfer=3 after=13\n 15 host OPTIMIZER step=1 work=2 after=14",
       " 14 dp 0REDUCE_GRAD0 step=1 transfer=3\n 15 copy_out 0GRAD_OUT0 step=1 transfer=4 after=14\n"
       " 16 host OPTIMIZER step=1 work=2 after=15"},
      {"transfer 4 all_reduce", "transfer X all_reduce"},
      {"transfer 3 send_recv", "transfer 4 send_recv"},
      {"transfer X all_reduce", "transfer 3 all_reduce"},
      {" 7 copy_out 0GRAD_OUT0 transfer=3", " 7 copy_out 0GRAD_OUT0 transfer=4"}};
  g_autofree char *replicated = edit_text(fetched, replicas);
  program_free(read_program(replicated));
  assert_edit_refused(replicated,
                      EDITS({"all_reduce group=0 bytes=8 layers=1", "all_reduce group=0 bytes=8 layers=1 experts=1"}),
                      says);
  assert_edit_refused(
      replicated, EDITS({" 14 dp 0REDUCE_GRAD0 step=1 transfer=3", " 14 dp 0REDUCE_GRAD0 step=1 unit=1 transfer=3"}),
      says); /* of another layer */
}

/* One rank, of whose stage nobody sums; weights come back in two parts. */
static const char alone[] = "program ranks=1 stages=1 micro_batches=2 steps=2\n"
                            "group 0 copy axes=none charge=dp route=link_in\n"
                            "group 1 copy axes=none charge=dp route=link_out\n"
                            "work 0 F layers=1\nwork 1 B layers=1\nwork 2 OPTIMIZER on_host=1 parameters=8\n"
                            "transfer 0 send_recv group=0 bytes=8\ntransfer 1 send_recv group=1 bytes=8\n"
                            "rank 0\n 0 compute 0F0 work=0\n 1 compute 0F1 work=0\n 2 compute 0B0 work=1\n"
                            " 3 compute 0B1 work=1\n 4 copy_out 0GRAD_OUT1 transfer=1 after=3\n"
                            " 5 host OPTIMIZER work=2 after=4\n 6 copy WEIGHTS_BACK transfer=0 after=5\n"
                            " 7 host OPTIMIZER unit=1 work=2\n 8 copy WEIGHTS_BACK unit=1 transfer=0 after=7\n"
                            " 9 compute 0F0 step=1 work=0 after=8\n 10 compute 0F1 step=1 work=0\n"
                            " 11 compute 0B0 step=1 work=1\n 12 compute 0B1 step=1 work=1\n"
                            " 13 copy_out 0GRAD_OUT1 step=1 transfer=1 after=12\n"
                            " 14 host OPTIMIZER step=1 work=2 after=13\n"
                            " 15 copy WEIGHTS_BACK step=1 transfer=0 after=14\n"
                            " 16 host OPTIMIZER unit=1 step=1 work=2\n"
                            " 17 copy WEIGHTS_BACK unit=1 step=1 transfer=0 after=16\n";

TEST(what_nobody_sums_is_copied_behind_its_last_backward) {
  program_free(read_program(alone));
  const char *says = "rank 0, op 3 (0B1 of step 0): no GRAD_OUT behind it copies to the host what it adds to";
  assert_edit_refused(alone, EDITS({"0GRAD_OUT1 transfer=1 after=3", "0GRAD_OUT0 transfer=1 after=2"}), says);
  assert_edit_refused(alone,
                      EDITS({" 13 copy_out 0GRAD_OUT1 step=1 transfer=1 after=12\n", " 13 host SYNC step=1\n"},
                            {"step=1 work=2 after=13", "step=1 work=2"}),
                      "rank 0, op 12 (0B1 of step 1): no GRAD_OUT");
}

TEST(weights_come_back_updated_and_before_they_are_used) {
  assert_edit_refused(alone,
                      EDITS({" 7 host OPTIMIZER unit=1 work=2\n 8 copy WEIGHTS_BACK unit=1 transfer=0 after=7",
                             " 7 copy WEIGHTS_BACK unit=1 transfer=0\n 8 host OPTIMIZER unit=1 work=2"}),
                      "rank 0, op 7 (WEIGHTS_BACK of step 0): it moves updated weights, and in front of it, for the "
                      "same unit, is nothing");
  assert_edit_refused(
      alone,
      EDITS({" 7 host OPTIMIZER unit=1 work=2\n 8 copy WEIGHTS_BACK unit=1 transfer=0 after=7",
             " 7 copy_out WEIGHTS_STORE unit=1 transfer=0\n 8 host OPTIMIZER unit=1 work=2"}),
      "op 7 (WEIGHTS_STORE of step 0): it moves updated weights, and in front of it, for the same unit, is nothing");
  assert_edit_refused(
      alone, EDITS({"0F0 step=1 work=0 after=8", "0F0 step=1 work=0 after=7"}),
      "rank 0, op 9 (0F0 of step 1): it uses weights and does not wait for WEIGHTS_BACK of step 0 (op 8)");
  /* the host has waited for it in the meantime */
  g_autofree char *late = edit_text(
      alone, EDITS({" 9 compute 0F0 step=1 work=0 after=8\n 10 compute 0F1 step=1 work=0\n"
                    " 11 compute 0B0 step=1 work=1\n 12 compute 0B1 step=1 work=1\n"
                    " 13 copy_out 0GRAD_OUT1 step=1 transfer=1 after=12\n 14 host OPTIMIZER step=1 work=2 after=13\n"
                    " 15 copy WEIGHTS_BACK step=1 transfer=0 after=14\n 16 host OPTIMIZER unit=1 step=1 work=2\n"
                    " 17 copy WEIGHTS_BACK unit=1 step=1 transfer=0 after=16\n",
                    " 9 host SYNC after=8\n 10 compute 0F0 step=1 work=0\n 11 compute 0F1 step=1 work=0\n"
                    " 12 compute 0B0 step=1 work=1\n 13 compute 0B1 step=1 work=1\n"
                    " 14 copy_out 0GRAD_OUT1 step=1 transfer=1 after=13\n 15 host OPTIMIZER step=1 work=2 after=14\n"
                    " 16 copy WEIGHTS_BACK step=1 transfer=0 after=15\n 17 host OPTIMIZER unit=1 step=1 work=2\n"
                    " 18 copy WEIGHTS_BACK unit=1 step=1 transfer=0 after=17\n"}));
  program_free(read_program(late));
}

TEST(all_weights_come_back) {
  assert_edit_refused(alone,
                      EDITS({" 8 copy WEIGHTS_BACK unit=1 transfer=0 after=7", " 8 host SYNC"},
                            {"step=1 work=0 after=8", "step=1 work=0 after=6"}),
                      "rank 0: step 0 copies 1 of the 2 parts of its weights that the host has updated");
  assert_edit_refused(alone, EDITS({" 17 copy WEIGHTS_BACK unit=1 step=1 transfer=0 after=16\n", ""}),
                      "rank 0: step 1 copies 1 of the 2 parts");
  assert_edit_refused(alone, EDITS({" 8 copy WEIGHTS_BACK unit=1", " 8 copy WEIGHTS_BACK"}),
                      "rank 0, op 8 (WEIGHTS_BACK of step 0): it moves updated weights, part 0; expected part 1");
  assert_edit_refused(alone,
                      EDITS({" 16 host OPTIMIZER unit=1 step=1 work=2\n"
                             " 17 copy WEIGHTS_BACK unit=1 step=1 transfer=0 after=16\n",
                             ""}),
                      "rank 0: step 1 updates 1 parts on the host; expected 2, as step 0");
  /* from drives to the memory of the GPU */
  assert_edit_refused(fetched, EDITS({"route=link_in\n", "route=link_in+nvme_read\n"}),
                      "rank 0: step 0 copies 0 of the 1");
}

/* The state is on the drives, in two parts; the second step reads one as soon as it is written. */
static const char drives[] =
    "program ranks=1 stages=1 micro_batches=1 steps=2\n"
    "group 0 copy axes=none charge=dp route=link_in\ngroup 1 copy axes=none charge=dp route=link_out\n"
    "group 2 copy axes=none charge=dp route=nvme_read\ngroup 3 copy axes=none charge=dp route=nvme_write\n"
    "work 0 F layers=1\nwork 1 B layers=1\nwork 2 OPTIMIZER on_host=1 parameters=8\n"
    "transfer 0 send_recv group=0 bytes=8\ntransfer 1 send_recv group=1 bytes=8\n"
    "transfer 2 send_recv group=2 bytes=8\ntransfer 3 send_recv group=3 bytes=8\n"
    "rank 0\n 0 compute 0F0 work=0\n 1 compute 0B0 work=1\n 2 copy_out 0GRAD_OUT0 transfer=1 after=1\n"
    " 3 copy STATE_READ transfer=2\n 4 copy STATE_READ unit=1 transfer=2\n 5 host OPTIMIZER work=2 after=2,3\n"
    " 6 copy_out STATE_WRITE transfer=3 after=5\n 7 copy WEIGHTS_BACK transfer=0 after=5\n"
    " 8 host OPTIMIZER unit=1 work=2 after=4\n 9 copy_out STATE_WRITE unit=1 transfer=3 after=8\n"
    " 10 copy WEIGHTS_BACK unit=1 transfer=0 after=8\n 11 compute 0F0 step=1 work=0 after=10\n"
    " 12 compute 0B0 step=1 work=1\n 13 copy_out 0GRAD_OUT0 step=1 transfer=1 after=12\n"
    " 14 copy STATE_READ step=1 transfer=2 after=6\n 15 copy STATE_READ unit=1 step=1 transfer=2 after=9\n"
    " 16 host OPTIMIZER step=1 work=2 after=13,14\n 17 copy WEIGHTS_BACK step=1 transfer=0 after=16\n"
    " 18 host OPTIMIZER unit=1 step=1 work=2 after=15\n 19 copy WEIGHTS_BACK unit=1 step=1 transfer=0 after=18\n";

TEST(state_is_read_before_its_update_and_written_behind_it) {
  program_free(read_program(drives));
  assert_edit_refused(drives, EDITS({"STATE_READ step=1 transfer=2 after=6", "STATE_READ step=1 transfer=2"}),
                      "rank 0, op 14 (STATE_READ of step 1): it reads the state of an update and does not wait for "
                      "STATE_WRITE of step 0 (op 6), which writes the state of an update");
  assert_edit_refused(drives, EDITS({"step=1 transfer=2 after=9", "step=1 transfer=2 after=8"}),
                      "STATE_WRITE of step 0 (op 9)");
  assert_edit_refused(
      drives, EDITS({"unit=1 work=2 after=4", "unit=1 work=2"}),
      "rank 0, op 8 (OPTIMIZER of step 0): it updates on the host and does not wait for STATE_READ of step 0 "
      "(op 4), which reads the state");
  assert_edit_refused(drives,
                      EDITS({" 4 copy STATE_READ unit=1 transfer=2", " 4 copy WAIT kind=collective transfer=2"}),
                      "rank 0, op 8 (OPTIMIZER of step 0): it updates on the host, and in front of it, for the same "
                      "unit, is nothing; expected STATE_READ");
  assert_edit_refused(drives, EDITS({" 3 copy STATE_READ transfer=2", " 3 copy STATE_READ unit=1 transfer=2"}),
                      "op 3 (STATE_READ of step 0): it reads the state of an update, part 1; expected part 0");
  assert_edit_refused(drives,
                      EDITS({" 6 copy_out STATE_WRITE transfer=3", " 6 copy_out STATE_WRITE unit=1 transfer=3"}),
                      "op 6 (STATE_WRITE of step 0): it writes the state of an update, and in front of it, for the "
                      "same unit, is STATE_READ of step 0 (op 4)");
}

TEST(gradients_on_the_drives_are_there_before_they_are_read) {
  g_autofree char *stored =
      edit_text(drives, EDITS({"0GRAD_OUT0 transfer=1 after=1\n", "0GRAD_OUT0 transfer=3 after=1\n"},
                              {"STATE_READ transfer=2", "STATE_READ transfer=2 after=2"}));
  program_free(read_program(stored));
  assert_edit_refused(stored, EDITS({"STATE_READ transfer=2 after=2", "STATE_READ transfer=2"}),
                      "op 3 (STATE_READ of step 0): it reads the state of an update and does not wait for 0GRAD_OUT0 "
                      "of step 0 (op 2), which copies a gradient out");
  assert_edit_refused(stored, EDITS({"copy STATE_READ transfer=2 after=2", "tp STATE_READ kind=collective transfer=2"}),
                      "op 3 (STATE_READ of step 0): expected a copy on the stream copy");
}

/* Weights are on the drives, and one rank's alone. */
TEST(weights_are_fetched_from_the_drives_when_they_are_there) {
  static const char stored[] =
      "program ranks=1 stages=1 micro_batches=1 steps=2\n"
      "group 0 copy axes=none charge=dp route=link_in+nvme_read\ngroup 1 copy axes=none charge=dp route=link_out\n"
      "group 2 copy axes=none charge=dp route=nvme_write\n"
      "work 0 F layers=1\nwork 1 B layers=1\nwork 2 OPTIMIZER on_host=1 parameters=8\n"
      "transfer 0 send_recv group=0 bytes=8 layers=1\ntransfer 1 send_recv group=1 bytes=8\n"
      "transfer 2 send_recv group=2 bytes=8\n"
      "rank 0\n 0 copy 0UNSHARD0 transfer=0\n 1 compute 0F0 work=0 after=0\n 2 copy 0UNSHARD0 transfer=0 after=1\n"
      " 3 compute 0B0 work=1 after=2\n 4 copy_out 0GRAD_OUT0 transfer=1 after=3\n 5 host OPTIMIZER work=2 after=4\n"
      " 6 copy_out WEIGHTS_STORE transfer=2 after=5\n 7 copy 0UNSHARD0 step=1 transfer=0 after=6\n"
      " 8 compute 0F0 step=1 work=0 after=7\n 9 compute 0B0 step=1 work=1\n"
      " 10 copy_out 0GRAD_OUT0 step=1 transfer=1 after=9\n 11 host OPTIMIZER step=1 work=2 after=10\n"
      " 12 copy_out WEIGHTS_STORE step=1 transfer=2 after=11\n";
  program_free(read_program(stored));
  assert_edit_refused(stored, EDITS({"step=1 transfer=0 after=6", "step=1 transfer=0"}),
                      "rank 0, op 7 (0UNSHARD0 of step 1): it gathers weights and does not wait for WEIGHTS_STORE of "
                      "step 0 (op 6), which moves updated weights");
}

/* Two layers: what the first saves leaves and comes back. */
TEST(activations_leave_whole_and_are_back_when_they_are_needed) {
  static const char saved[] = "program ranks=1 stages=1 micro_batches=1 steps=1\n"
                              "group 0 copy axes=none charge=dp route=link_in\n"
                              "group 1 copy axes=none charge=dp route=link_out\n"
                              "work 0 F layers=1\nwork 1 B layers=1\n"
                              "transfer 0 send_recv group=0 bytes=8\ntransfer 1 send_recv group=1 bytes=8\n"
                              "rank 0\n 0 compute 0F0 work=0\n 1 copy_out 0SAVED_OUT0 transfer=1 after=0\n"
                              " 2 compute 0F0 unit=1 work=0\n 3 compute 0B0 unit=1 work=1\n"
                              " 4 copy 0SAVED_IN0 transfer=0 after=1\n 5 compute 0B0 work=1 after=4\n";
  program_free(read_program(saved));
  assert_edit_refused(saved, EDITS({"transfer=1 after=0", "transfer=1"}),
                      "rank 0, op 1 (0SAVED_OUT0): it copies activations out and does not wait for 0F0 (op 0)");
  assert_edit_refused(saved, EDITS({"transfer=0 after=1", "transfer=0"}),
                      "rank 0, op 4 (0SAVED_IN0): it brings activations back and does not wait for 0SAVED_OUT0 (op 1)");
  assert_edit_refused(saved, EDITS({"work=1 after=4", "work=1"}),
                      "rank 0, op 5 (0B0): it needs activations and does not wait for 0SAVED_IN0 (op 4)");
  assert_edit_refused(
      saved, EDITS({"0SAVED_IN0 transfer=0 after=1", "WAIT kind=collective transfer=0 after=1"}),
      "rank 0, op 5 (0B0): it needs activations, and in front of it, for the same unit, is 0SAVED_OUT0 (op 1)");
  assert_edit_refused(saved, EDITS({"0SAVED_IN0 transfer=0", "0SAVED_IN0 unit=1 transfer=0"}),
                      "rank 0, op 4 (0SAVED_IN0): it brings activations back, and in front of it, for the same unit, "
                      "is 0B0 (op 3); expected SAVED_OUT");
  assert_edit_refused(saved, EDITS({"copy 0SAVED_IN0", "copy_out 0SAVED_IN0"}), "expected a copy on the stream copy");
}

TEST(activations_leave_and_come_back_once) {
  static const char saved[] =
      "program ranks=1 stages=1 micro_batches=1 steps=1\n"
      "group 0 copy axes=none charge=dp route=link_in\ngroup 1 copy axes=none charge=dp route=link_out\n"
      "work 0 F layers=1\nwork 1 B layers=1\n"
      "transfer 0 send_recv group=0 bytes=8\ntransfer 1 send_recv group=1 bytes=8\n"
      "rank 0\n 0 compute 0F0 work=0\n 1 copy_out 0SAVED_OUT0 transfer=1 after=0\n"
      " 2 copy 0SAVED_IN0 transfer=0 after=1\n 3 copy_out 0SAVED_OUT0 transfer=1 after=0,2\n"
      " 4 copy 0SAVED_IN0 transfer=0 after=3\n 5 compute 0B0 work=1 after=4\n";
  program_free(read_program(saved));
  assert_edit_refused(saved,
                      EDITS({"1 copy_out 0SAVED_OUT0 transfer=1 after=0", "1 copy_out 0SAVED_OUT0 kind=host after=0"}),
                      "rank 0, op 1 (0SAVED_OUT0): expected a copy on the stream copy_out");
  assert_edit_refused(saved, EDITS({" route=link_in", ""}, {" route=link_out", ""}),
                      "rank 0, op 1 (0SAVED_OUT0): expected a copy on the stream copy_out");
  assert_edit_refused(
      saved, EDITS({"2 copy 0SAVED_IN0 transfer=0 after=1", "2 compute 0F0 work=0"}),
      "rank 0, op 2 (0F0): it saves activations, and in front of it, for the same unit, is 0SAVED_OUT0 (op 1)");
  assert_edit_refused(saved,
                      EDITS({"2 copy 0SAVED_IN0 transfer=0 after=1", "2 copy_out 0SAVED_OUT0 transfer=1 after=0"}),
                      "rank 0, op 2 (0SAVED_OUT0): it copies activations out, and in front of it, for the same unit, "
                      "is 0SAVED_OUT0 (op 1); expected F or SAVED_IN");
  assert_edit_refused(saved,
                      EDITS({"3 copy_out 0SAVED_OUT0 transfer=1 after=0,2", "3 copy 0SAVED_IN0 transfer=0 after=1"}),
                      "rank 0, op 3 (0SAVED_IN0): it brings activations back, and in front of it, for the same unit, "
                      "is 0SAVED_IN0 (op 2); expected SAVED_OUT");
  assert_edit_refused(saved, EDITS({"4 copy 0SAVED_IN0 transfer=0", "4 copy 0SAVED_IN0 unit=1 transfer=0"}),
                      "rank 0, op 4 (0SAVED_IN0): it brings activations back, and in front of it, for the same unit, "
                      "is nothing; expected SAVED_OUT");
  assert_edit_refused(saved,
                      EDITS({"3 copy_out 0SAVED_OUT0 transfer=1 after=0,2", "3 compute 0B0 work=1 after=2"},
                            {"4 copy 0SAVED_IN0 transfer=0 after=3", "4 copy_out 0SAVED_OUT0 transfer=1 after=3"},
                            {"5 compute 0B0 work=1 after=4", "5 compute 0B0 work=1"}),
                      "rank 0, op 4 (0SAVED_OUT0): it copies activations out, and in front of it, for the same unit, "
                      "is 0B0 (op 3); expected F or SAVED_IN");
}

int main(void) {
  return run_tests();
}
