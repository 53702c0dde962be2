/* The verifier on weights: every op that computes with them waits until they are gathered. */
#include "program_fixture.h"
#include "run_suite.h"

/* One layer and the embedding under ZeRO-3, two micro-batches: gathered for each F and B, that of a B ahead of its F.
 */
static const char gathered[] = "program ranks=1 stages=1 micro_batches=2 steps=1\n"
                               "group 0 dp_shard axes=dp charge=dp\n"
                               "work 0 F embedding=1 layers=0\nwork 1 F layers=1\nwork 2 B layers=1\n"
                               "work 3 B embedding=1 layers=0\n"
                               "transfer 0 all_gather group=0 bytes=4 embedding=1\n"
                               "transfer 1 all_gather group=0 bytes=8 layers=1\n"
                               "rank 0\n 0 dp 0UNSHARD0 transfer=0\n 1 compute 0F0 work=0 after=0\n"
                               " 2 dp 0UNSHARD0 transfer=1\n 3 dp 0UNSHARD0 transfer=1 after=1\n"
                               " 4 compute 0F0 work=1 after=2\n 5 compute 0B0 work=2 after=3\n"
                               " 6 compute 0B0 work=3\n 7 dp 0UNSHARD1 transfer=0 after=4\n"
                               " 8 compute 0F1 work=0 after=7\n 9 dp 0UNSHARD1 transfer=1 after=6\n"
                               " 10 compute 0F1 work=1 after=9\n 11 dp 0UNSHARD1 transfer=1 after=8\n"
                               " 12 compute 0B1 work=2 after=11\n 13 compute 0B1 work=3\n";

TEST(every_reader_waits_for_a_gather_of_its_own) {
  program_free(read_program(gathered));
  assert_edit_refused(
      gathered, EDITS({"0F0 work=1 after=2", "0F0 work=1"}),
      "rank 0, op 4 (0F0): it reads weights and does not wait for 0UNSHARD0 (op 2), which gathers them");
  /* of the second micro-batch, of the backward, of the embedding: all have been gathered once */
  assert_edit_refused(gathered, EDITS({"0F1 work=1 after=9", "0F1 work=1"}),
                      "op 10 (0F1): it reads weights and does not");
  assert_edit_refused(gathered, EDITS({"0B0 work=2 after=3", "0B0 work=2"}), "does not wait for 0UNSHARD0 (op 3)");
  assert_edit_refused(gathered, EDITS({"0B1 work=2 after=11", "0B1 work=2"}), "does not wait for 0UNSHARD1 (op 11)");
  assert_edit_refused(gathered, EDITS({"0B1 work=2 after=11", "0B1 work=2 after=9"}),
                      "does not wait for 0UNSHARD1 (op 11)");
  assert_edit_refused(gathered, EDITS({"0F1 work=0 after=7", "0F1 work=0"}),
                      "op 8 (0F1): it reads weights and does not");
}

TEST(a_layer_is_gathered_for_every_reader) {
  assert_edit_refused(gathered, EDITS({" 9 dp 0UNSHARD1 transfer=1", " 9 dp 0UNSHARD1 transfer=0"}),
                      "rank 0, op 10 (0F1): no UNSHARD of its micro-batch gathers the weights of its layer");
  const Edit once[MAX_EDITS] = {{" 11 dp 0UNSHARD1 transfer=1", " 11 dp 0UNSHARD1 transfer=0"}};
  assert_edit_refused(
      gathered, once,
      "rank 0, op 12 (0B1): no UNSHARD gathers the weights of its layer again, which its forward has used");
  /* but where its backward says that it uses that of its forward */
  g_autofree char *kept = edit_text(gathered, once),
                  *named = edit_text(kept, EDITS({"0B1 work=2 after=11", "0B1 work=2 after=9,11"}));
  program_free(read_program(named));
}

/* A B's is gathered ahead of its F: into two buffers, in turn. */
TEST(nothing_is_gathered_over_weights_that_are_used) {
  assert_edit_refused(
      gathered, EDITS({"transfer=1 after=6", "transfer=1"}),
      "rank 0, op 9 (0UNSHARD1): it writes over weights that 0B0 (op 6) uses, and does not wait for it; "
      "expected after=6");
  assert_edit_refused(gathered, EDITS({"transfer=1 after=6", "transfer=1 after=4"}),
                      "op 9 (0UNSHARD1): it writes over");
  program_free(read_program("program ranks=1 stages=1 micro_batches=1 steps=1\nwork 0 F\nwork 1 B\n"
                            "group 0 dp_shard axes=dp charge=dp\ntransfer 0 all_gather group=0 bytes=4\n"
                            "rank 0\n 0 compute 0F0 work=0\n 1 compute 0B0 work=1\n"
                            " 2 dp 0UNSHARD transfer=0\n 3 dp 0UNSHARD transfer=0\n")); /* nobody uses it */
}

/* Gathered once a step, bucket by bucket, beside the first forward; no UNSHARD is of the second micro-batch. */
TEST(what_stays_gathered_is_waited_for_once) {
  static const char stays[] = "program ranks=1 stages=1 micro_batches=2 steps=1\n"
                              "group 0 dp_shard axes=dp charge=dp\n"
                              "work 0 F layers=1\nwork 1 F layers=2\nwork 2 B layers=2\n"
                              "transfer 0 all_gather group=0 bytes=8 layers=1\n"
                              "rank 0\n 0 dp 0UNSHARD0 transfer=0\n 1 dp 0UNSHARD0 unit=1 transfer=0\n"
                              " 2 compute 0F0 work=0 after=0\n 3 compute 0F0 unit=1 work=0 after=1\n"
                              " 4 compute 0F1 work=1\n 5 compute 0B0 work=2\n 6 compute 0B1 work=2\n";
  program_free(read_program(stays));
  assert_edit_refused(
      stays, EDITS({"unit=1 work=0 after=1", "unit=1 work=0 after=0"}),
      "rank 0, op 3 (0F0): it reads weights and does not wait for 0UNSHARD0 (op 1), which gathers them");
  g_autofree char *late = edit_text(
      stays, EDITS({"unit=1 work=0 after=1", "unit=1 work=0 after=0"}, {"0UNSHARD0 unit=1", "0UNSHARD0 unit=2"}));
  program_free(read_program(late)); /* of layers that nobody computes with */
}

/* Embedding and head are gathered apart from layers, and only who reads them waits for them. */
TEST(embedding_and_head_are_waited_for_by_their_readers) {
  static const char ends[] = "program ranks=1 stages=1 micro_batches=1 steps=1\n"
                             "group 0 dp_shard axes=dp charge=dp\n"
                             "work 0 F layers=1\nwork 1 F head=1 layers=0\nwork 2 B layers=1 head=1\n"
                             "transfer 0 all_gather group=0 bytes=8 layers=1\n"
                             "transfer 1 all_gather group=0 bytes=4 head=1\n"
                             "transfer 2 all_gather group=0 bytes=4 embedding=1\n"
                             "rank 0\n 0 dp 0UNSHARD0 transfer=0\n 1 dp 0UNSHARD0 transfer=1\n"
                             " 2 dp 0UNSHARD0 transfer=2\n 3 compute 0F0 work=0 after=0\n"
                             " 4 compute 0F0 unit=1 work=1 after=1\n 5 compute 0B0 work=2\n";
  program_free(read_program(ends));
  assert_edit_refused(
      ends, EDITS({"unit=1 work=1 after=1", "unit=1 work=1"}),
      "rank 0, op 4 (0F0): it reads weights and does not wait for 0UNSHARD0 (op 1), which gathers them");
  assert_edit_refused(ends, EDITS({"work 1 F head=1 layers=0", "work 1 F head=1 embedding=1 layers=0"}),
                      "does not wait for 0UNSHARD0 (op 2), which gathers them");
}

/* Where an order says to gather, all that follows uses what came; experts are gathered apart. */
TEST(what_is_gathered_for_all_is_waited_for_by_all) {
  static const char told[] = "program ranks=1 stages=1 micro_batches=1 steps=1\n"
                             "group 0 dp_shard axes=dp charge=dp\n"
                             "work 0 F layers=1\nwork 1 B layers=1\n"
                             "transfer 0 all_gather group=0 bytes=8 layers=1\n"
                             "transfer 1 all_gather group=0 bytes=8 layers=1 experts=1\n"
                             "rank 0\n 0 dp 0UNSHARD transfer=0\n 1 dp 0UNSHARD transfer=1\n"
                             " 2 compute 0F0 work=0 after=1\n 3 dp 0UNSHARD transfer=1 after=2\n"
                             " 4 compute 0B0 work=1 after=3\n";
  program_free(read_program(told));
  assert_edit_refused(told, EDITS({"0F0 work=0 after=1", "0F0 work=0 after=0"}), "does not wait for 0UNSHARD (op 1)");
  assert_edit_refused(told, EDITS({"0B0 work=1 after=3", "0B0 work=1"}), "does not wait for 0UNSHARD (op 3)");
}

int main(void) {
  return run_tests();
}
