/* The verifier on gradients: none is reduced, or copied out, before it is complete. */
#include "program_fixture.h"
#include "run_suite.h"

/* The second backward of two layers is cut, and each of its parts is the last to add to its layer. */
TEST(a_layer_s_gradient_is_whole_when_it_is_summed) {
  static const char cut[] = "program ranks=1 stages=1 micro_batches=2 steps=1\n"
                            "group 0 dp axes=dp charge=dp\n"
                            "work 0 F layers=2\nwork 1 B layers=2\nwork 2 B layers=1\n"
                            "transfer 0 all_reduce group=0 bytes=8 layers=1\n"
                            "rank 0\n 0 compute 0F0 work=0\n 1 compute 0B0 work=1\n 2 compute 0F1 work=0\n"
                            " 3 compute 0B1 work=2 unit=1\n 4 dp 0REDUCE_GRAD unit=1 transfer=0 after=3\n"
                            " 5 compute 0B1 work=2\n 6 dp 0REDUCE_GRAD transfer=0 after=5\n";
  program_free(read_program(cut));
  assert_edit_refused(
      cut, EDITS({"unit=1 transfer=0 after=3", "unit=1 transfer=0 after=2"}),
      "rank 0, op 4 (0REDUCE_GRAD): it sums a gradient and does not wait for 0B1 (op 3), which adds to a gradient");
  assert_edit_refused(cut, EDITS({"unit=1 transfer=0 after=3", "transfer=0 after=3"}),
                      "op 5 (0B1): it adds to a gradient behind 0REDUCE_GRAD (op 4), which sums a gradient");
  /* of the first micro-batch alone it would be whole by then */
  g_autofree char *first =
      edit_text(cut, EDITS({"0REDUCE_GRAD unit=1 transfer=0 after=3", "0REDUCE_GRAD0 unit=1 transfer=0 after=2"}));
  program_free(read_program(first));
}

/* Two micro-batches that are summed apart, in two steps. */
TEST(what_is_summed_apart_is_whole_by_itself) {
  static const char apart[] = "program ranks=1 stages=1 micro_batches=2 steps=2\n"
                              "group 0 dp axes=dp charge=dp\n"
                              "work 0 F layers=1\nwork 1 B layers=1\n"
                              "transfer 0 all_reduce group=0 bytes=8 layers=1\n"
                              "rank 0\n 0 compute 0F0 work=0\n 1 compute 0F1 work=0\n"
                              " 2 compute 0B0 work=1\n 3 compute 0B1 work=1\n"
                              " 4 dp 0REDUCE_GRAD0 transfer=0 after=2\n 5 dp 0REDUCE_GRAD1 transfer=0 after=3\n"
                              " 6 compute 0F0 work=0 step=1\n 7 compute 0F1 work=0 step=1\n"
                              " 8 compute 0B0 work=1 step=1\n 9 compute 0B1 work=1 step=1\n"
                              " 10 dp 0REDUCE_GRAD transfer=0 step=1 after=9\n";
  program_free(read_program(apart));
  /* the latest addition is of the other micro-batch */
  assert_edit_refused(
      apart, EDITS({"0REDUCE_GRAD0 transfer=0 after=2", "0REDUCE_GRAD0 transfer=0"}),
      "op 4 (0REDUCE_GRAD0 of step 0): it sums a gradient and does not wait for 0B0 of step 0 (op 2), which adds");
  /* so is the latest sum */
  assert_edit_refused(apart,
                      EDITS({" 2 compute 0B0 work=1\n 3 compute 0B1", " 2 compute 0B1"},
                            {" 4 dp 0REDUCE_GRAD0 transfer=0 after=2\n 5 dp 0REDUCE_GRAD1 transfer=0 after=3\n",
                             " 3 dp 0REDUCE_GRAD0 transfer=0\n 4 dp 0REDUCE_GRAD1 transfer=0 after=2\n"
                             " 5 compute 0B0 work=1\n"}),
                      "op 5 (0B0 of step 0): it adds to a gradient behind 0REDUCE_GRAD0 of step 0 (op 3), which sums");
  /* the latest addition is of the next step */
  assert_edit_refused(
      apart,
      EDITS({" 5 dp 0REDUCE_GRAD1 transfer=0 after=3\n 6 compute 0F0 work=0 step=1\n 7 compute 0F1", ""},
            {" work=0 step=1\n 8 compute 0B0 work=1 step=1\n 9 compute 0B1",
             " 5 compute 0F0 work=0 step=1\n 6 compute 0F1 work=0 step=1\n"
             " 7 compute 0B0 work=1 step=1\n 8 compute 0B1"},
            {" 10 dp 0REDUCE_GRAD transfer=0 step=1 after=9",
             " 9 dp 0REDUCE_GRAD1 transfer=0\n 10 dp 0REDUCE_GRAD transfer=0 step=1 after=8"}),
      "op 9 (0REDUCE_GRAD1 of step 0): it sums a gradient and does not wait for 0B1 of step 0 (op 3), which adds to a "
      "gradient");
}

/* A V of two stages on one rank, whose embedding and head are one matrix: it is whole behind the embedding's backward,
 * and moves with that. */
TEST(a_shared_table_is_summed_behind_both_of_its_ends) {
  static const char shared[] = "program ranks=1 stages=2 micro_batches=1 steps=1\n"
                               "group 0 dp axes=dp charge=dp\n"
                               "work 0 F embedding=1 layers=1\nwork 1 F layers=1 head=1\n"
                               "work 2 B layers=1 head=1\nwork 3 B embedding=1 layers=1\n"
                               "transfer 0 all_reduce group=0 bytes=4 layers=1 head=1\n"
                               "transfer 1 all_reduce group=0 bytes=8 embedding=1 layers=1 tables=1\n"
                               "rank 0\n 0 compute 0F0 work=0\n 1 compute 1F0 work=1\n 2 compute 1B0 work=2\n"
                               " 3 dp 1REDUCE_GRAD transfer=0 after=2\n 4 compute 0B0 work=3\n"
                               " 5 dp 0REDUCE_GRAD transfer=1 after=4\n";
  program_free(read_program(shared));
  assert_edit_refused(shared,
                      EDITS({"layers=1 head=1\ntransfer", "layers=1 head=1 tables=1\ntransfer"},
                            {"embedding=1 layers=1 tables=1", "embedding=1 layers=1"}),
                      "rank 0, op 4 (0B0): it adds to the gradient of a table that embedding and head add to behind "
                      "1REDUCE_GRAD (op 3), which sums the gradient of a table that embedding and head add to");
}

/* Two pipes: on rank 0 a head's backward comes behind the embedding's. */
TEST(a_table_is_summed_behind_the_heads_that_read_it) {
  static const char pipes[] =
      "program ranks=2 stages=4 micro_batches=2 steps=1 pipes=2\n"
      "group 0 dp axes=dp charge=dp\ngroup 1 embedding axes=none pp=0,1 charge=pp\n"
      "work 0 F embedding=1 layers=1\nwork 1 B embedding=1 layers=1\n"
      "work 2 F layers=1 head=1\nwork 3 B layers=1 head=1\n"
      "transfer 0 send 0->1 bytes=8\ntransfer 1 send 1->0 bytes=8\n"
      "transfer 2 all_reduce group=0 bytes=8 embedding=1 layers=1 tables=1\n"
      "transfer 3 all_reduce group=0 bytes=8 layers=1 head=1 tables=1\n"
      "transfer 4 all_reduce group=1 bytes=8\n"
      "rank 0\n 0 compute 0F0 work=0\n 1 send_f 0SEND_F0 peer=1 tag=0 transfer=0 after=0\n"
      " 2 recv_b 0RECV_B0 peer=1 tag=1 transfer=1\n 3 compute 0B0 work=1 after=2\n"
      " 4 dp 0REDUCE_GRAD transfer=2 after=3\n 5 recv_f 3RECV_F1 peer=1 tag=2 transfer=1\n"
      " 6 compute 3F1 work=2 after=5\n 7 compute 3B1 work=3\n 8 send_b 3SEND_B1 peer=1 tag=3 transfer=0 after=7\n"
      " 9 dp 3REDUCE_GRAD transfer=3 after=7\n 10 dp TIED_GRAD transfer=4 after=7\n"
      "rank 1\n 0 recv_f 1RECV_F0 peer=0 tag=0 transfer=0\n 1 compute 1F0 work=2 after=0\n 2 compute 1B0 work=3\n"
      " 3 send_b 1SEND_B0 peer=0 tag=1 transfer=1 after=2\n 4 compute 2F1 work=0\n"
      " 5 send_f 2SEND_F1 peer=0 tag=2 transfer=1 after=4\n 6 recv_b 2RECV_B1 peer=0 tag=3 transfer=0\n"
      " 7 compute 2B1 work=1 after=6\n 8 dp TIED_GRAD transfer=4 after=7\n";
  program_free(read_program(pipes));
  assert_edit_refused(pipes, EDITS({"pipes=2", "pipes=2 heads_add_to_table=1"}),
                      "rank 0, op 7 (3B1): it adds to the gradient of a table that embedding and head add to behind "
                      "0REDUCE_GRAD (op 4), which sums the gradient of a table that embedding and head add to");
  assert_edit_refused(
      pipes, EDITS({"8 dp TIED_GRAD transfer=4 after=7", "8 dp TIED_GRAD transfer=4 after=2"}),
      "rank 1, op 8 (TIED_GRAD): it sums the gradient of a table that embedding and head add to and does not wait for "
      "2B1 (op 7), which adds to the gradient of a table that embedding and head add to");
}

/* Over tp, of all layers at once, and by way of another op. */
TEST(what_ranks_of_tp_hold_whole_is_summed_behind_all_backwards) {
  static const char whole[] =
      "program ranks=1 stages=1 micro_batches=2 steps=1\n"
      "group 0 tp axes=tp charge=tp\n"
      "work 0 F layers=1\nwork 1 B layers=1\n"
      "transfer 0 all_reduce group=0 bytes=8\n"
      "rank 0\n 0 compute 0F0 work=0\n 1 compute 0B0 work=1\n 2 compute 0F1 work=0\n"
      " 3 compute 0B1 work=1\n 4 tp WAIT kind=collective transfer=0 after=3\n 5 tp WHOLE_GRAD transfer=0\n";
  program_free(read_program(whole));
  const char *says = "op 5 (WHOLE_GRAD): it sums what each rank of tp holds whole and does not wait for 0B1 (op 3), "
                     "which adds to a gradient";
  assert_edit_refused(whole, EDITS({" after=3", ""}), says);
  assert_edit_refused(whole, EDITS({" after=3", " after=1"}), says);
  assert_edit_refused(
      whole,
      EDITS({" 3 compute 0B1 work=1\n 4 tp WAIT kind=collective transfer=0 after=3\n 5 tp WHOLE_GRAD transfer=0",
             " 3 tp WHOLE_GRAD transfer=0 after=2\n 4 compute 0B1 work=1"}),
      "op 4 (0B1): it adds to a gradient behind WHOLE_GRAD (op 3), which sums what each rank of tp holds whole");
}

/* The bucket is on its way over dp while tp would add to it; experts are in none of what tp holds whole. */
TEST(what_ranks_of_tp_hold_whole_is_summed_behind_dp) {
  static const char both[] = "program ranks=1 stages=1 micro_batches=1 steps=1\n"
                             "group 0 dp axes=dp charge=dp\ngroup 1 tp axes=tp charge=tp\n"
                             "work 0 F layers=1\nwork 1 B layers=1\n"
                             "transfer 0 all_reduce group=0 bytes=8 layers=1\n"
                             "transfer 1 all_reduce group=1 bytes=8\n"
                             "rank 0\n 0 compute 0F0 work=0\n 1 compute 0B0 work=1\n"
                             " 2 dp 0REDUCE_GRAD transfer=0 after=1\n 3 tp WHOLE_GRAD transfer=1 after=2\n";
  program_free(read_program(both));
  assert_edit_refused(both, EDITS({"transfer=1 after=2", "transfer=1 after=1"}),
                      "rank 0, op 3 (WHOLE_GRAD): it sums what each rank of tp holds whole and does not wait for "
                      "0REDUCE_GRAD (op 2), which sums a gradient");
  g_autofree char *of_experts = edit_text(
      both, EDITS({"transfer=1 after=2", "transfer=1 after=1"}, {"bytes=8 layers=1", "bytes=8 layers=1 experts=1"}));
  program_free(read_program(of_experts));
}

/* Two buckets, of which the second is reduced over shards and then over their copies; and a head that nobody else has,
 * which is copied as it is. */
TEST(a_gradient_is_copied_out_behind_its_sum) {
  static const char out[] = "program ranks=1 stages=2 micro_batches=1 steps=1\n"
                            "group 0 dp axes=dp charge=dp\ngroup 1 copy axes=none charge=dp route=link_out\n"
                            "group 2 copy axes=none charge=dp route=link_in\n"
                            "work 0 F layers=2\nwork 1 B layers=1\nwork 2 F head=1\nwork 3 B head=1\n"
                            "work 4 OPTIMIZER on_host=1 parameters=8\n"
                            "transfer 0 all_reduce group=0 bytes=8 layers=1\ntransfer 1 send_recv group=1 bytes=8\n"
                            "transfer 2 send_recv group=2 bytes=8\n"
                            "rank 0\n 0 compute 0F0 work=0\n 1 compute 1F0 work=2\n 2 compute 1B0 work=3\n"
                            " 3 copy_out 1GRAD_OUT0 transfer=1 after=2\n 4 compute 0B0 work=1 unit=1\n"
                            " 5 dp 0REDUCE_GRAD unit=1 transfer=0 after=4\n"
                            " 6 copy_out 0GRAD_OUT unit=1 transfer=1 after=5\n 7 compute 0B0 work=1\n"
                            " 8 dp 0REDUCE_GRAD transfer=0 after=7\n 9 dp 0REDUCE_GRAD transfer=0\n"
                            " 10 copy_out 0GRAD_OUT transfer=1 after=9\n 11 host OPTIMIZER work=4 after=10\n"
                            " 12 copy WEIGHTS_BACK transfer=2 after=11\n";
  program_free(read_program(out));
  assert_edit_refused(out, EDITS({"1GRAD_OUT0 transfer=1 after=2", "1GRAD_OUT0 transfer=1 after=1"}),
                      "op 2 (1B0): no GRAD_OUT behind it copies to the host what it adds to");
  assert_edit_refused(out, EDITS({"transfer=1 after=5", "transfer=1 after=4"}),
                      "op 5 (0REDUCE_GRAD): no GRAD_OUT behind it copies to the host what it sums");
  assert_edit_refused(out, EDITS({"transfer=1 after=9", "transfer=1 after=8"}), "op 9 (0REDUCE_GRAD): no GRAD_OUT");
  assert_edit_refused(out,
                      EDITS({" 5 dp 0REDUCE_GRAD unit=1 transfer=0 after=4\n 6 copy_out 0GRAD_OUT unit=1 transfer=1 "
                             "after=5\n",
                             " 5 copy_out 0GRAD_OUT unit=1 transfer=1 after=4\n 6 dp 0REDUCE_GRAD unit=1 transfer=0 "
                             "after=4\n"}),
                      "rank 0, op 6 (0REDUCE_GRAD): no GRAD_OUT behind it copies to the host what it sums");
  /* of a place that is not that of what it copies */
  assert_edit_refused(out, EDITS({"0GRAD_OUT transfer=1", "0GRAD_OUT unit=1 transfer=1"}),
                      "op 9 (0REDUCE_GRAD): no GRAD_OUT");
  /* of experts and all else each sum has its own copy */
  assert_edit_refused(
      out,
      EDITS({" 9 dp 0REDUCE_GRAD transfer=0\n", " 9 dp 0REDUCE_GRAD transfer=3 after=7\n"},
            {"transfer 2 send_recv group=2 bytes=8\n", "transfer 2 send_recv group=2 bytes=8\n"
                                                       "transfer 3 all_reduce group=0 bytes=8 layers=1 experts=1\n"}),
      "op 8 (0REDUCE_GRAD): no GRAD_OUT");
  /* a sum of nothing leaves nothing to copy */
  g_autofree char *empty =
      edit_text(out, EDITS({" 11 host OPTIMIZER work=4 after=10\n 12 copy WEIGHTS_BACK transfer=2 after=11\n",
                            " 11 dp 0COPY_GRAD transfer=3 after=7\n 12 host OPTIMIZER work=4 after=10,11\n"
                            " 13 copy WEIGHTS_BACK transfer=2 after=12\n"},
                           {"transfer 2 send_recv group=2 bytes=8\n",
                            "transfer 2 send_recv group=2 bytes=8\ntransfer 3 all_reduce group=0 bytes=0 layers=1\n"}));
  program_free(read_program(empty));
}

int main(void) {
  return run_tests();
}
