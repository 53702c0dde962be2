/* The gradients of a whole model, assembled as the trainer assembles them, are the derivatives of its loss.
 *
 * The check is independent of any backward kernel: a run with learning rate 0 uses the same tokens in every step, and a
 * hook at the end of a step sets the weights for the next, whose loss is then the loss at these weights.
 *
 *     step 0 | w := w₀ + h·v | step 1: loss L(w₀ + h·v) | w := w₀ − h·v | step 2: loss L(w₀ − h·v) | …
 *
 *     g·v = (L(w₀ + h·v) − L(w₀ − h·v)) / 2h + O(h²)        for directions v of length 1 within one tensor
 *
 * g is the gradient of step 1 of a run whose hook only sets w₀. All points of a tensor are steps of one run, because
 * starting a run takes as long as several steps.
 *
 * w₀ is not the initial model, whose layers do almost nothing: its matrices are large enough for attention to be
 * selective and activations nonlinear. Three directions per tensor: random signs, along g, and the element of the
 * largest gradient. If a model is repeated with another order or recomputation, random signs only: they involve every
 * element. */
#include "executor.h"
#include "gradient_models.h"
#include "plan.h"
#include "plan_program.h"
#include "run_suite.h"
#include "schedules.h"

#include <check.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static World *world; /* of one rank; opened once */

/* ---- plans ---- */

enum { SIGNS, ALONG_GRADIENT, LARGEST_ELEMENT, N_KINDS };
#ifdef __SANITIZE_ADDRESS__ /* which memory is touched does not depend on where the weights go */
enum { N_DIRECTIONS = 1 };
#else
enum { N_DIRECTIONS = N_KINDS };
#endif
static const char *const direction_names[N_KINDS] = {"of random signs", "along the gradient", "of its largest element"};

/* Where the loss is asked for in each direction, in lengths H. */
static const double H = 0.005;
static const double points[] = {1, -1, 2, -2};
enum { MOST_STEPS = 1 + N_DIRECTIONS * (int)G_N_ELEMENTS(points) };
static int n_directions; /* of the case at hand */

/* Step 0 comes before the first point. */
static int count_steps(void) {
  return 1 + n_directions * (int)G_N_ELEMENTS(points);
}

typedef enum { ORDER_B, ORDER_I_W, ORDER_TWO_STAGES } OrderKind;

typedef struct {
  const char *model;
  Attention attention;
  Recompute recompute;
  OrderKind order;
  int n_tensors; /* counted by hand: per layer, then the ends */
  int mtp_layers;
  const char *train; /* NULL: full */
} Case;

static const Case cases[] = {
    {"llama", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_B, LAYERS * 9 + 3},
    {"gpt2", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_B, LAYERS * 16 + 4},
    {"mixed", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_B, LAYERS * 12 + 2},
    {"bare", ATTENTION_UNFUSED, RECOMPUTE_NONE, ORDER_B, LAYERS * 8 + 3},
    {"llama", ATTENTION_UNFUSED, RECOMPUTE_SELECTIVE, ORDER_B, LAYERS * 9 + 3},
    {"gpt2", ATTENTION_UNFUSED, RECOMPUTE_NONE, ORDER_B, LAYERS * 16 + 4},
    {"mixed", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_I_W, LAYERS * 12 + 2},
    {"gpt2", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_TWO_STAGES, LAYERS * 16 + 4},
    /* with two vectors, or four, of the norms of q and k, and two of the embedding's */
    {"normed", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_I_W, LAYERS * 11 + 3},
    {"turned", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_TWO_STAGES, LAYERS * 11 + 3},
    {"dropped", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_B, LAYERS * 20 + 5},
    {"dropped", ATTENTION_UNFUSED, RECOMPUTE_SELECTIVE, ORDER_I_W, LAYERS * 20 + 5},
    {"own", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_I_W, LAYERS * 13 + 4},
    /* two norms more; shifts of all four */
    {"sandwiched", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_I_W, LAYERS * 13 + 3},
    {"sandwiched", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_TWO_STAGES, LAYERS * 13 + 3},
    {"scores_dropped", ATTENTION_UNFUSED, RECOMPUTE_NONE, ORDER_I_W, LAYERS * 9 + 2},
    {"multiplied", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_I_W, LAYERS * 9 + 2},
    {"multiplied", ATTENTION_UNFUSED, RECOMPUTE_SELECTIVE, ORDER_TWO_STAGES, LAYERS * 9 + 2},
    {"behind", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_I_W, LAYERS * 15 + 4},
    {"behind", ATTENTION_UNFUSED, RECOMPUTE_FULL, ORDER_I_W, LAYERS * 15 + 4},
    {"behind", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_TWO_STAGES, LAYERS * 15 + 4},
    /* without a table of positions; with one norm less in a layer, two biases there, and a matrix and a bias more */
    {"beside", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_B, LAYERS * 16 + 3},
    {"beside", ATTENTION_UNFUSED, RECOMPUTE_FULL, ORDER_I_W, LAYERS * 16 + 3},
    {"beside_one", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_I_W, LAYERS * 10 + 5},
    {"beside_one", ATTENTION_UNFUSED, RECOMPUTE_SELECTIVE, ORDER_TWO_STAGES, LAYERS * 10 + 5},
    /* two norms, q, k, v, attn_out, the router, and 3 of each of 4 experts */
    {"routed", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_B, LAYERS *(7 + 12) + 3},
    {"routed", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_I_W, LAYERS *(7 + 12) + 3},
    /* with shifts of four norms, five biases */
    {"routed_biased", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_I_W, LAYERS *(16 + 2 + 12) + 5},
    {"routed_biased", ATTENTION_UNFUSED, RECOMPUTE_FULL, ORDER_TWO_STAGES, LAYERS *(16 + 2 + 12) + 5},
    /* four norms, five products of attention, a dense layer's 3; the router, its bias, 3 of each expert */
    {"latent", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_B, (9 + 3) + (9 + 2 + 5 * 3) + 3},
    {"latent", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_I_W, (9 + 3) + (9 + 2 + 5 * 3) + 3},
    {"latent_kv", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_I_W, LAYERS *(7 + 3) + 3},
    {"latent_kv", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_TWO_STAGES, LAYERS *(7 + 3) + 3},
    {"latent", ATTENTION_UNFUSED, RECOMPUTE_NONE, ORDER_I_W, (9 + 3) + (9 + 2 + 5 * 3) + 3},
    {"latent_kv", ATTENTION_UNFUSED, RECOMPUTE_SELECTIVE, ORDER_B, LAYERS *(7 + 3) + 3},
    /* and for each head that predicts further a product, its norms, and a layer of the last kind */
    {"llama", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_I_W, (LAYERS + 2) * 9 + 2 * 4 + 3, 2},
    {"mixed", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_B, (LAYERS + 1) * 12 + 4 + 2, 1},
    {"latent_kv", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_TWO_STAGES, (LAYERS + 1) * (7 + 3) + 4 + 3, 1},
    {"routed", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_B, (LAYERS + 1) * (7 + 12) + 4 + 3, 1},
    /* a dense layer; and the shared expert's 3 and its gate */
    {"shared", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_I_W, 9 + (7 + 12 + 4) + 3},
    {"shared", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_TWO_STAGES, 9 + (7 + 12 + 4) + 3},
    /* two matrices for each of the products that have adapters, and nothing else: seven, or six without a gate */
    {"llama", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_B, LAYERS * 2 * 7, .train = "lora:4"},
    {"llama", ATTENTION_FLASH, RECOMPUTE_FULL, ORDER_I_W, LAYERS * 2 * 7, .train = "lora:4"},
    {"gpt2", ATTENTION_UNFUSED, RECOMPUTE_NONE, ORDER_TWO_STAGES, LAYERS * 2 * 6, .train = "lora:3"},
    {"beside", ATTENTION_FLASH, RECOMPUTE_NONE, ORDER_I_W, LAYERS * 2 * 3, .train = "lora:4:k_proj+o_proj+up_proj"},
};

/* An order of two stages on one rank, which no schedule of the table has. Its name is owned by the caller. */
static char *two_stages_file(void) {
  g_autoptr(GString) text = g_string_new(NULL);
  for (int i = 0; i < MICRO_BATCHES; i++)
    g_string_append_printf(text, "%s0F%d,1F%d,1B%d,0B%d", i > 0 ? "," : "", i, i, i, i);
  char *name = NULL;
  const int file = g_file_open_tmp("two-stages-XXXXXX", &name, NULL);
  g_assert(file >= 0 && g_file_set_contents(name, text->str, -1, NULL)); /* Check can fail only while a test runs */
  close(file);
  return name;
}

static char *two_stages; /* the file of that order, while tests run */

static Workload *make_workload(const Case *c) {
  Model models[] = {llama,           gpt2,         mixed(),  bare(),      normed(), dropped(),    scores_dropped(),
                    sandwiched(),    multiplied(), behind(), own(),       beside(), beside_one(), routed(),
                    routed_biased(), shared(),     latent(), latent_kv(), turned(), fixed()};
  Model *model = NULL;
  for (gsize i = 0; i < G_N_ELEMENTS(models); i++)
    if (strcmp(models[i].name, c->model) == 0)
      model = &models[i];
  model->n_next_layers = c->mtp_layers;
  g_autoptr(Plan) plan = plan_new();
  plan->mtp_layers = c->mtp_layers;
  plan->precision = PRECISION_FP32;
  ck_assert(recipe_parse("fp32", &plan->recipe, NULL));
  plan->attention = c->attention;
  ck_assert(c->train == NULL || training_parse_train("train", c->train, &plan->training, NULL));
  plan->recompute = c->recompute;
  plan->chunks = c->order == ORDER_TWO_STAGES ? 2 : 1;
  plan->schedule = c->order == ORDER_TWO_STAGES ? g_strconcat("file:", two_stages, NULL) : NULL;
  plan->micro_batch = 2;
  plan->global_batch = plan->micro_batch * MICRO_BATCHES;
  plan->seq_len = SEQUENCE;
  plan->steps = count_steps();
  g_autoptr(GError) error = NULL;
  ck_assert_msg(plan_complete(plan, model, NULL, &error), "%s", error ? error->message : "");
  return workload_new(model, plan, NULL);
}

static void add_actions(GArray *actions, ActionKind kind, int stage) {
  for (int micro_batch = 0; micro_batch < MICRO_BATCHES; micro_batch++) {
    const Action action = {stage, micro_batch, (guint8)kind};
    g_array_append_val(actions, action);
  }
}

/* F of all micro-batches, then the gradients in halves: every W waits while another micro-batch's I runs. */
static Program *halves_program(const Workload *workload) {
  g_autoptr(GError) error = NULL;
  const ScheduleFacts *schedule = schedule_find("gpipe", &error);
  g_autoptr(Order) order = order_new(schedule, (OrderShape){1, 1, MICRO_BATCHES, 0}, &error);
  g_array_set_size(order->actions[0], 0);
  add_actions(order->actions[0], ACTION_F, 0);
  add_actions(order->actions[0], ACTION_I, 0);
  add_actions(order->actions[0], ACTION_W, 0);
  const Lowering lowering = {.order = order, .workload = workload, .n_steps = workload->plan->steps};
  g_autoptr(Program) whole = lower(&lowering, NULL, NULL, &error);
  ck_assert_msg(whole != NULL, "%s", error ? error->message : "");
  return program_expand(whole, workload);
}

/* ---- runs ---- */

/* Where one tensor lies. */
typedef struct {
  int block, tensor;
  gint64 n;
} Place;

typedef struct {
  Place place;             /* that is moved; n = 0: none */
  const float *directions; /* float[n_directions][n] */
  GPtrArray *names;        /* out, of char *: NULL not wanted */
  GArray *places;          /* out */
  GPtrArray *gradients;    /* out: float[n] of each */
} Probe;

/* Numbers of one sort for all plans: reproducible and far from the initial ones. */
static double random_number(guint64 seed, gint64 i) {
  return kernel_random(seed, (guint64)i) / 4294967296.0 * 2 - 1;
}

static void set_weights(Block *block, const Tensor *tensor) {
  float *weight = (float *)block->weight + tensor->offset;
  const gboolean is_vector = tensor->whole_rows == 1;
  for (gint64 i = 0; i < tensor->rows * tensor->columns; i++)
    weight[i] = (float)(tensor->mean + random_number(tensor->seed + 1, i) *
                                           (is_vector ? 0.5 : 2.5 / sqrt((double)tensor->whole_columns)));
}

static void take_gradient(const Parameters *parameters, int b, int t, Probe *probe) {
  const Block *block = &parameters->blocks[b];
  const Tensor *tensor = &block->tensors[t];
  const Place place = {b, t, tensor->rows * tensor->columns};
  g_array_append_val(probe->places, place);
  g_ptr_array_add(probe->names, g_strdup(tensor->name));
  g_ptr_array_add(probe->gradients,
                  g_memdup2((const float *)block->gradient + tensor->offset, (gsize)place.n * sizeof(float)));
}

/* Every later step sees what step 1 sees. */
static void repeat_tokens(const Trainer *trainer) {
  const Plan *plan = trainer->workload->plan;
  const gsize n = (gsize)(plan->global_batch * plan->seq_len), bytes = n * sizeof *trainer->tokens;
  for (int behind = 0; behind < 2 + plan->mtp_layers; behind++)
    for (gsize step = 2; step < (gsize)count_steps(); step++) {
      gint32 *tokens = trainer->tokens + behind * trainer->n_tokens;
      memcpy(tokens + step * n, tokens + n, bytes);
    }
}

static void move_weights(Parameters *parameters, int point, const Probe *probe) {
  const Block *block = &parameters->blocks[probe->place.block];
  float *weight = (float *)block->weight + block->tensors[probe->place.tensor].offset;
  const int n_points = G_N_ELEMENTS(points);
  const float *direction = probe->directions + point / n_points * probe->place.n;
  for (gint64 i = 0; i < probe->place.n; i++)
    weight[i] += (float)(H * points[point % n_points] * direction[i]);
}

static gboolean probe_step(Trainer *trainer, int step, gpointer data, GError **error) {
  Probe *probe = data;
  Parameters *parameters = trainer->parameters;
  for (int b = 0; b < parameters->n_blocks; b++)
    for (int t = 0; t < parameters->blocks[b].n_tensors; t++) {
      if (step == 1 && probe->names != NULL && !parameters->blocks[b].is_frozen)
        take_gradient(parameters, b, t, probe);
      set_weights(&parameters->blocks[b], &parameters->blocks[b].tensors[t]);
    }
  if (step == 0)
    repeat_tokens(trainer);
  trainer->training.seed--; /* with the step after it makes the same number: every step drops the same */
  if (step < count_steps() - 1 && probe->place.n > 0)
    move_weights(parameters, step, probe);
  return TRUE;
}

/* The losses of all steps. */
static void run_probe(const Workload *workload, const Program *program, Probe *probe, double losses[MOST_STEPS]) {
  Execution execution = {.workload = workload,
                         .program = program,
                         .world = world,
                         .device = &cpu_device,
                         .comm = &null_comm,
                         .training = training_default(),
                         .hook = probe_step,
                         .hook_data = probe};
  execution.training.lr = 0;
  ExecutionResult result;
  g_autoptr(GError) error = NULL;
  ck_assert_msg(execute(&execution, &result, &error), "%s", error ? error->message : "");
  memcpy(losses, result.losses, (gsize)count_steps() * sizeof *losses);
  execution_result_clear(&result);
}

/* ---- directions ---- */

static double length(const float *x, gint64 n) {
  double sum = 0;
  for (gint64 i = 0; i < n; i++)
    sum += (double)x[i] * x[i];
  return sqrt(sum);
}

static void make_direction(int kind, const float *gradient, gint64 n, float *direction) {
  gint64 largest = 0;
  for (gint64 i = 0; i < n; i++) {
    largest = fabsf(gradient[i]) > fabsf(gradient[largest]) ? i : largest;
    direction[i] = kind == ALONG_GRADIENT    ? gradient[i]
                   : kind == LARGEST_ELEMENT ? 0
                                             : (random_number((guint64)kind, i) < 0 ? -1 : 1);
  }
  if (kind == LARGEST_ELEMENT)
    direction[largest] = 1;
  const double norm = length(direction, n);
  for (gint64 i = 0; i < n && norm > 0; i++)
    direction[i] = (float)(direction[i] / norm);
}

/* Of the losses at `points`: central differences with h and 2h, their error of h² taken out: (4·D(h) − D(2h)) / 3. What
 * is left is the noise of fp32 activations in the loss, some 1e-7 of it, over h. */
static double derivative(const double *losses) {
  return (4 * (losses[0] - losses[1]) / (2 * H) - (losses[2] - losses[3]) / (4 * H)) / 3;
}

static void check_tensor(const Workload *workload, const Program *program, const char *name, Place place,
                         const float *gradient, double mean) { /* mean length of a tensor's gradient */
  g_autofree float *directions = g_new(float, n_directions *place.n);
  for (int kind = 0; kind < n_directions; kind++)
    make_direction(kind, gradient, place.n, directions + kind * place.n);
  Probe probe = {.place = place, .directions = directions};
  double losses[MOST_STEPS];
  run_probe(workload, program, &probe, losses);
  for (int kind = 0; kind < n_directions; kind++) {
    double expected = 0;
    for (gint64 i = 0; i < place.n; i++)
      expected += (double)gradient[i] * directions[kind * place.n + i];
    const double found = derivative(losses + 1 + kind * (int)G_N_ELEMENTS(points));
    const double tolerance = 2e-3 * fabs(expected) + 4e-4 * mean; /* worst seen: a third of it */
    ck_assert_msg(fabs(found - expected) <= tolerance, "%s, %s: %g, the loss says %g", name, direction_names[kind],
                  expected, found);
  }
}

static gboolean comes_again(int i) {
  for (int before = 0; before < i; before++)
    if (strcmp(cases[before].model, cases[i].model) == 0)
      return TRUE;
  return FALSE;
}

LOOP_TEST(gradients_are_derivatives_of_the_loss, G_N_ELEMENTS(cases)) {
  const Case *c = &cases[_i];
  n_directions = comes_again(_i) ? 1 : N_DIRECTIONS;
  g_autoptr(Workload) workload = make_workload(c);
  g_autoptr(GError) error = NULL;
  g_autoptr(Program) program = c->order == ORDER_I_W ? halves_program(workload) : program_of_plan(workload, &error);
  ck_assert_msg(program != NULL, "%s", error ? error->message : "");
  Probe probe = {.names = g_ptr_array_new_with_free_func(g_free),
                 .places = g_array_new(FALSE, FALSE, sizeof(Place)),
                 .gradients = g_ptr_array_new_with_free_func(g_free)};
  double losses[MOST_STEPS];
  run_probe(workload, program, &probe, losses);
  ck_assert_double_gt(losses[1], 0.5 * log(VOCAB));
  for (int step = 2; step < count_steps(); step++)
    ck_assert_double_eq(losses[step], losses[1]); /* the same tokens, the same weights */
  double mean = 0;
  for (guint i = 0; i < probe.names->len; i++)
    mean += length(g_ptr_array_index(probe.gradients, i), g_array_index(probe.places, Place, i).n) / probe.names->len;
  ck_assert_int_eq((int)probe.names->len, c->n_tensors);
  for (guint i = 0; i < probe.names->len; i++)
    check_tensor(workload, program, g_ptr_array_index(probe.names, i), g_array_index(probe.places, Place, i),
                 g_ptr_array_index(probe.gradients, i), mean);
  g_ptr_array_unref(probe.names);
  g_array_unref(probe.places);
  g_ptr_array_unref(probe.gradients);
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  world = world_open(&argc, &argv, 10, &error);
  if (world == NULL)
    return 2;
  two_stages = two_stages_file();
  const int status = run_case_here("gradients", listed_tests());
  g_unlink(two_stages);
  g_free(two_stages);
  return world_close(world, status);
}
