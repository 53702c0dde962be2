/* Activation memory of the paper's four models, against its formulas. Source: Korthikanti et al., "Reducing Activation
 * Recomputation in Large Transformer Models", arXiv 2205.05198, §4 (equations 1 to 6), Tables 2 and 3.
 *
 * Bytes a layer saves per micro-batch, fp16, dropout, unfused attention, tensor parallel t (s sequence, b
 * micro-batch, h hidden, a heads):
 *
 *     t alone                sbh·(10 + 24/t + 5as/(ht))
 *     + sequence parallel    sbh/t·(34 + 5as/h)
 *     + selective            sbh/t·34                     without the s² tensors
 *     t, selective           sbh·(10 + 24/t)
 *     full recompute         2·sbh                        the layer's input
 *
 * The first stage of a pipeline of p holds p micro-batches of its L/p layers, L layers in all; interleaved in v chunks
 * L·(1 + (p − 1)/(pv)). Outside the layers (§4.3): sbh/t for the dropout mask after the embedding, for every
 * micro-batch in flight, and without a pipeline 4·sbh/t·(1 + vocabulary/h) for the last norm, the logits' product and
 * the loss. */
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>

#include "plan.h"
#include "plan_cases.h"

typedef struct {
  const char *model;
  double layers, hidden, heads;
  int pp, chunks;
  gint64 micro_batch, global_batch;
} Size;

/* Table 3: tensor parallel 8 in all, sequence 2048, vocabulary 51200. Of the micro-batches as many as fill the pipeline
 * (interleaved: twice), which is when most are in flight. */
static const Size sizes[] = {
    {"megatron-22b", 48, 6144, 64, 1, 1, 4, 4},
    {"megatron-175b", 96, 12288, 96, 8, 3, 1, 16},
    {"megatron-530b", 105, 20480, 128, 35, 3, 1, 70},
    {"megatron-1t", 128, 25600, 160, 64, 1, 1, 64},
};
enum { TP = 8, SEQ_LEN = 2048, VOCAB = 51200 };

typedef struct {
  gboolean sequence_parallel;
  Recompute recompute;
} Technique;

static double sbh(const Size *size) {
  return SEQ_LEN * (double)size->micro_batch * size->hidden;
}

static double layer_bytes(const Size *size, Technique technique) {
  double scores = 5 * size->heads * SEQ_LEN / size->hidden / TP; /* of sbh */
  if (technique.recompute == RECOMPUTE_FULL)
    return 2 * sbh(size) / (technique.sequence_parallel ? TP : 1);
  double rest = technique.sequence_parallel ? 34.0 / TP : 10 + 24.0 / TP;
  return sbh(size) * (rest + (technique.recompute == RECOMPUTE_NONE ? scores : 0));
}

/* Layers' worth of micro-batches on the first stage. */
static double layers_in_flight(const Size *size) {
  double p = size->pp, v = size->chunks;
  return size->chunks > 1 ? size->layers * (1 + (p - 1) / (p * v)) : size->layers;
}

/* Micro-batches in flight on the first chunk, the one with the embedding. Interleaved, backward reaches it last: the p
 * of a group are still held when all p of the next have been run. */
static double embeddings_in_flight(const Size *size) {
  return size->chunks > 1 ? 2.0 * size->pp : size->pp;
}

/* Everything else the paper lists for the first stage. */
static double other_bytes(const Size *size, Technique technique) {
  double stream = sbh(size) / (technique.sequence_parallel ? TP : 1);
  double mask = embeddings_in_flight(size) * stream;
  double head = 4 * stream + 4 * sbh(size) / TP * VOCAB / size->hidden;
  return mask + (size->pp == 1 ? head : 0);
}

static Prediction *predict_size(const Size *size, Technique technique) {
  g_autoptr(Model) model = read_model(size->model);
  Cluster *cluster = read_cluster("selene");
  g_autoptr(Plan) plan = plan_new();
  plan->tp = TP;
  plan->pp = size->pp;
  plan->chunks = size->chunks;
  plan->micro_batch = size->micro_batch;
  plan->global_batch = size->global_batch;
  plan->seq_len = SEQ_LEN;
  plan->precision = PRECISION_FP16;
  plan->attention = ATTENTION_UNFUSED;
  plan->recompute = technique.recompute;
  plan->sequence_parallel = technique.sequence_parallel;
  g_autoptr(GError) error = NULL;
  Prediction *prediction = predict(model, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s: %s", size->model, error != NULL ? error->message : "");
  prediction->cluster = NULL;
  cluster_free(cluster);
  return prediction;
}

static void raise_peak(gint64 time_ns, const MemorySample *sample, gpointer data) {
  double *peak = data;
  *peak = MAX(*peak, sample->bytes[MEMORY_ACTIVATIONS]);
}

/* The paper counts what is saved between forward and backward. While a backward runs there is more on top, of one piece
 * at a time: what it makes again and the gradients it passes on. */
static double saved_peak(const Prediction *prediction) {
  double peak = 0;
  memory_profile_visit(prediction->trace, 0, raise_peak, &peak);
  const PieceMemory *memory = prediction->workload->memory;
  double transient = memory[PIECE_LAYER].transient_bytes;
  if (prediction->program->n_ranks == 1) /* the stage has the head too */
    transient = MAX(transient, memory[PIECE_HEAD].transient_bytes);
  return peak - transient;
}

static void assert_formula(const Size *size, Technique technique) {
  g_autoptr(Prediction) prediction = predict_size(size, technique);
  double saved = saved_peak(prediction), layers = layers_in_flight(size) * layer_bytes(size, technique);
  double expected = layers + other_bytes(size, technique);
  ck_assert_msg(fabs(saved / expected - 1) < 1e-9,
                "%s, sequence parallel %d, recompute %s: %.6g bytes, formula %.6g (layers alone %.6g)", size->model,
                technique.sequence_parallel, recompute_names()[technique.recompute], saved, expected, layers);
}

/* Check's loop variable _i is the model. */
LOOP_TEST(activations_are_the_paper_s, G_N_ELEMENTS(sizes)) {
  for (int recompute = 0; recompute <= RECOMPUTE_FULL; recompute++)
    for (int parallel = 0; parallel < 2; parallel++)
      assert_formula(&sizes[_i], (Technique){parallel, (Recompute)recompute});
}

/* §6.1 and Figure 7, as shares of tensor parallelism alone: both techniques about a fifth, full recompute a tenth. */
LOOP_TEST(techniques_save_what_the_paper_reports, G_N_ELEMENTS(sizes)) {
  const Size *size = &sizes[_i];
  const Technique baseline = {FALSE, RECOMPUTE_NONE}, present = {TRUE, RECOMPUTE_SELECTIVE},
                  full = {FALSE, RECOMPUTE_FULL};
  g_autoptr(Prediction) all = predict_size(size, baseline);
  g_autoptr(Prediction) both = predict_size(size, present);
  g_autoptr(Prediction) inputs = predict_size(size, full);
  double share = saved_peak(both) / saved_peak(all), least = saved_peak(inputs) / saved_peak(all);
  ck_assert_msg(share > 0.15 && share < 0.21, "%s: %g of the baseline", size->model, share);
  ck_assert_msg(least > 0.08 && least < 0.12, "%s: full recompute %g of the baseline", size->model, least);
}

int main(void) {
  return run_tests();
}
