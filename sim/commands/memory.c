#include <math.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "error.h"
#include "json_report.h"
#include "largest_fit.h"
#include "layout.h"
#include "options.h"
#include "predict.h"
#include "state_memory.h"
#include "trained_parameters.h"
#include "units.h"

typedef struct {
  PlanOptions plan;
  char *params, *capacity;
} MemoryOptions;

/* One ZeRO stage's answer. */
typedef struct {
  double bytes[N_MEMORY];
  double total_bytes;         /* includes reserved memory if the GPU is known */
  double tier_bytes[N_TIERS]; /* of host memory and drives: per GPU, or simulated for the fullest node */
  double sent_bytes;          /* over dp × cp in a step; without a cluster */
  gboolean tiers_fit;
  char *impossible; /* why the plan is under this stage; NULL: it is not; owned */
} MemoryRow;

typedef struct {
  MemoryRow rows[N_ZERO_STAGES];
  double parameters;        /* all */
  double expert_parameters; /* those in experts */
  HeldParameters held;
  double capacity_bytes; /* of a GPU; 0: unknown */
  double reserved_bytes;
  gboolean has_activations;
  LargestFit largest; /* with activations */
  Method *method;     /* owned */
} MemoryTable;

static gboolean parse_options(MemoryOptions *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser = parser_new(
      NULL, "Shows what a GPU holds under each ZeRO stage: weights, gradients, optimizer state, activations.",
      "--params counts the state only. --model and --cluster simulate the step: activations, gathered parameters and\n"
      "buffers of the fullest rank are included, and the report gives the largest micro-batch and sequence length that "
      "fit.\n\n"
      "Examples:\n  stepsim memory --params 7e9 --recipe w2+g2+p4+m4+v4 --dp 64 --zero 3 --capacity 80GB\n"
      "  stepsim memory --model llama-3-70b --cluster dgx-h100 --tp 8 --dp 8 --zero 1\n\nGB = 1e9 bytes.\n\n"
      "Exit status: 0 done, 1 the plan is impossible or does not fit in memory, 2 bad usage or input.");
  const GOptionEntry entries[] = {{"params", 0, 0, G_OPTION_ARG_STRING, &o->params,
                                   "number of parameters, e.g. 7e9 or 70B, instead of --model", "N"},
                                  {"capacity", 0, 0, G_OPTION_ARG_STRING, &o->capacity,
                                   "memory of one GPU, e.g. 80GB (default: the cluster's)", "BYTES"},
                                  G_OPTION_ENTRY_NULL};
  plan_options_init(&o->plan);
  parser_add(parser, entries);
  plan_options_add(&o->plan, PLAN_OPTIONS_JSON | PLAN_OPTIONS_SIMULATED, parser);
  return parser_run(parser, argc, argv, FALSE, error) && plan_options_take_file(&o->plan, "stepsim memory", error);
}

static int model_ranks(const MemoryTable *table) {
  return table->method->tp * table->method->pp;
}

/* Model state only. */
static void fill_state(const MemoryTable *table, int zero, MemoryRow *row) {
  const RankState state = rank_state(table->method, &table->held, zero);
  row->bytes[MEMORY_WEIGHTS] = state.on_gpu.weights_bytes;
  row->bytes[MEMORY_GRADIENTS] = state.on_gpu.gradients_bytes;
  row->bytes[MEMORY_OPTIMIZER] = state.on_gpu.optimizer_bytes;
  row->bytes[MEMORY_BUFFERS] = state.made_bytes;
  row->total_bytes = state_memory_total(&state.on_gpu) + state.made_bytes;
  memcpy(row->tier_bytes, state.tier_bytes, sizeof row->tier_bytes);
  row->sent_bytes = state.sent_bytes;
}

/* The fullest rank of the simulated step. */
static gboolean fill_simulated(const PlanOptions *o, const Plan *plan, MemoryRow *row, GError **error) {
  g_autoptr(Prediction) prediction = predict(o->model, o->cluster, plan, error);
  if (prediction == NULL)
    return FALSE;
  memcpy(row->bytes, prediction->memory->at_peak.bytes, sizeof row->bytes);
  row->total_bytes = prediction->memory->peak_bytes + o->cluster->gpu.reserved_bytes;
  for (int tier = TIER_HOST; tier < N_TIERS; tier++) {
    row->tier_bytes[tier] = prediction->tiers[tier].bytes;
    row->tiers_fit &= prediction->tiers[tier].fits;
  }
  return TRUE;
}

static gboolean fill_row(const MemoryTable *table, const PlanOptions *o, int zero, MemoryRow *row, GError **error) {
  g_autoptr(Plan) plan = plan_copy(o->plan);
  plan->zero = zero;
  if (!zero_shards_optimizer(zero))
    plan->zero_ranks = 0; /* nothing is sharded */
  row->tiers_fit = TRUE;
  if (table->has_activations)
    return fill_simulated(o, plan, row, error);
  if (!plan_complete(plan, o->model, o->cluster, error))
    return FALSE;
  fill_state(table, zero, row);
  return TRUE;
}

/* The stages that the plan does not ask for may be impossible. */
static gboolean fill_rows(MemoryTable *table, const PlanOptions *o, GError **error) {
  for (int zero = 0; zero < N_ZERO_STAGES; zero++) {
    g_autoptr(GError) why = NULL;
    MemoryRow *row = &table->rows[zero];
    if (fill_row(table, o, zero, row, &why))
      continue;
    if (zero == table->method->zero || !g_error_matches(why, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE)) {
      g_propagate_error(error, g_steal_pointer(&why));
      return FALSE;
    }
    row->impossible = g_strdup(why->message);
  }
  return TRUE;
}

static gboolean row_fits(const MemoryTable *table, const MemoryRow *row) {
  return row->tiers_fit && (table->capacity_bytes <= 0 || row->total_bytes <= table->capacity_bytes);
}

/* Without a cluster the step is not simulated: what data parallelism sends is that of rings. */
static gboolean says_sent(const MemoryTable *table) {
  return !table->has_activations && table->method->data_ranks > 1;
}

/* Idle time over busy time, of equal stages and free sends; NAN: not known. */
static double bubble_overhead(const Method *method, gboolean *is_exact) {
  const ScheduleFacts *schedule = method_schedule(method);
  const PhaseTimes times = {1, 1, 1, 3};
  if (schedule == NULL || schedule->bubble_time == NULL)
    return NAN;
  const Bubble bubble = schedule_bubble(schedule, method_shape(method, method->n_micro_batches), &times);
  *is_exact = bubble.is_exact;
  return bubble.time / (3 * (double)method->n_micro_batches);
}

static void print_step(const MemoryTable *table, GString *out) {
  const Method *method = table->method;
  gboolean is_exact = FALSE;
  const double overhead = method->pp > 1 ? bubble_overhead(method, &is_exact) : NAN;
  if (says_sent(table)) {
    g_string_append(out, "\n  sent: by a GPU in a step of ");
    units_append_count(out, method->n_micro_batches, "micro-batch", "micro-batches");
    g_string_append(out, ", to sum gradients and gather weights, as rings do\n");
  }
  if (isfinite(overhead))
    g_string_append_printf(out,
                           "%s  pipeline: %s of equal stages with %" INT64
                           " micro-batches idles %s%.4g %% of the step, %.4g %% of its work\n",
                           says_sent(table) ? "" : "\n", method->schedule, method->n_micro_batches,
                           is_exact ? "" : "at least ", 100 * overhead / (1 + overhead), 100 * overhead);
}

static void print_table(const MemoryTable *table, const char *title, GString *out) {
  g_autofree char *ep = table->method->ep > 1 ? g_strdup_printf("ep %d, ", table->method->ep) : g_strdup("");
  g_string_append_printf(out, "%s\n", title);
  g_string_append_printf(
      out,
      "  recipe %s: %g weights + %g gradients + %g optimizer bytes per parameter; tp × pp %d, %sdp%s "
      "%d, shards %d; GB = 1e9 bytes per GPU\n\n",
      table->method->recipe.name, table->method->recipe.weights, table->method->recipe.gradients,
      recipe_optimizer_bytes(&table->method->recipe), model_ranks(table), ep, table->method->cp > 1 ? " × cp" : "",
      table->method->data_ranks, table->method->zero_ranks);
  g_string_append(out, "           weights  gradients  optimizer");
  g_string_append(out, table->has_activations ? "  activations    buffers   reserved      total" : "      total");
  if (offload_is_any(&table->method->offload))
    g_string_append_printf(out, "  %s", table->has_activations ? " host/node  NVMe/node" : "  host/GPU   NVMe/GPU");
  if (says_sent(table))
    g_string_append(out, "  sent/step");
  g_string_append_c(out, '\n');
  for (int zero = 0; zero < N_ZERO_STAGES; zero++) {
    const MemoryRow *row = &table->rows[zero];
    if (row->impossible != NULL) {
      g_string_append_printf(out, "  ZeRO-%d  impossible: %s\n", zero, row->impossible);
      continue;
    }
    g_string_append_printf(out, "%s ZeRO-%d %10.4g %10.4g %10.4g", zero == table->method->zero ? "→" : " ", zero,
                           row->bytes[MEMORY_WEIGHTS] * 1e-9, row->bytes[MEMORY_GRADIENTS] * 1e-9,
                           row->bytes[MEMORY_OPTIMIZER] * 1e-9);
    if (table->has_activations)
      g_string_append_printf(out, " %12.4g %10.4g %10.4g", row->bytes[MEMORY_ACTIVATIONS] * 1e-9,
                             row->bytes[MEMORY_BUFFERS] * 1e-9, table->reserved_bytes * 1e-9);
    g_string_append_printf(out, " %10.4g", row->total_bytes * 1e-9);
    if (offload_is_any(&table->method->offload))
      g_string_append_printf(out, "  %10.4g %10.4g", row->tier_bytes[TIER_HOST] * 1e-9,
                             row->tier_bytes[TIER_NVME] * 1e-9);
    if (says_sent(table))
      g_string_append_printf(out, " %10.4g", row->sent_bytes * 1e-9);
    if (table->capacity_bytes > 0)
      g_string_append_printf(out, "  %s", row_fits(table, row) ? "fits" : "does not fit");
    g_string_append_c(out, '\n');
  }
}

/* Says what limits the size if it is not memory. */
static const char *bound_in_words(LargestBound bound) {
  static const char *const words[] = {[LARGEST_BY_MEMORY] = "",
                                      [LARGEST_BY_BATCH] = " (all that a pipeline gets of the batch)",
                                      [LARGEST_BY_PLAN] = " (the model or the plan has none beyond)",
                                      [LARGEST_TRIED] = " (none larger is tried)"};
  return words[bound];
}

static void print_largest(const MemoryTable *table, GString *out) {
  const LargestFit *largest = &table->largest;
  const Method *method = table->method;
  g_string_append_printf(out, "  largest micro-batch that fits with ZeRO-%d: ", method->zero);
  if (largest->micro_batch > 0)
    g_string_append_printf(out, "%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " tokens%s\n", largest->micro_batch,
                           method->seq_len, bound_in_words(largest->micro_batch_bound));
  else
    g_string_append_printf(out, "none, not one sequence of %" G_GINT64_FORMAT " tokens%s\n", method->seq_len,
                           bound_in_words(largest->micro_batch_bound));
  g_string_append_printf(out, "  longest sequences that fit in micro-batches of %" G_GINT64_FORMAT ": ",
                         method->micro_batch);
  if (largest->seq_len > 0)
    g_string_append_printf(out, "%" G_GINT64_FORMAT " tokens, in steps of %" G_GINT64_FORMAT "%s\n", largest->seq_len,
                           largest->seq_step, bound_in_words(largest->seq_len_bound));
  else
    g_string_append_printf(out, "none of %" G_GINT64_FORMAT " tokens or more%s\n", largest->seq_step,
                           bound_in_words(largest->seq_len_bound));
}

/* Bytes of a GPU for what the model holds, at least 1. The capacity must be known. */
static double room_bytes(const MemoryTable *table) {
  return MAX(table->capacity_bytes - table->reserved_bytes, 1);
}

/* What the optimizer makes exists per parameter that a rank updates, like its moments, so it is added to those. */
static Recipe recipe_while_updating(const Method *method) {
  Recipe recipe = recipe_on_gpu(method, method->zero);
  recipe.moments += offload_kept_share(&method->offload) * method->update_bytes;
  return recipe;
}

static void print_limits(const MemoryTable *table, GString *out) {
  g_autofree char *of_recipe = recipe_warning(&table->method->recipe);
  if (of_recipe != NULL)
    g_string_append_printf(out, "\n  warning: %s\n", of_recipe);
  const double made = table->method->update_bytes;
  if (!table->has_activations && made > 0)
    g_string_append_printf(
        out,
        "\n  the totals count %g bytes of each updated parameter for what the optimizer makes while it "
        "runs\n",
        made);
  if (!table->has_activations)
    g_string_append(out, "\n  activations are not counted: they need --model and --cluster\n");
  if (table->capacity_bytes <= 0)
    return;
  g_string_append_c(out, '\n');
  if (table->has_activations)
    print_largest(table, out);
  if (!training_is_of_all(&table->method->training))
    return; /* of which a model's number of parameters says nothing */
  const Recipe on_gpu = recipe_while_updating(table->method);
  g_string_append_printf(out, "  fewest GPUs of %.4g GB that hold the state: %.0f\n", table->capacity_bytes * 1e-9,
                         state_memory_min_gpus(&on_gpu, table->parameters, room_bytes(table)));
  if (on_gpu.weights + on_gpu.gradients + recipe_optimizer_bytes(&on_gpu) == 0) {
    g_string_append(out, "  largest model: no state is on the GPUs, host memory and drives say\n");
    return;
  }
  g_string_append_printf(out, "  largest model whose state fits with ZeRO-%d on these ranks: %.6g parameters\n",
                         table->method->zero,
                         state_memory_max_parameters(&on_gpu, model_ranks(table), table->method->zero,
                                                     table->method->zero_ranks, room_bytes(table)));
}

static StateRow state_row(const MemoryTable *table, const MemoryRow *row) {
  return (StateRow){.impossible = row->impossible,
                    .weights_bytes = row->bytes[MEMORY_WEIGHTS],
                    .gradients_bytes = row->bytes[MEMORY_GRADIENTS],
                    .optimizer_bytes = row->bytes[MEMORY_OPTIMIZER],
                    .activations_bytes = table->has_activations ? row->bytes[MEMORY_ACTIVATIONS] : NAN,
                    .buffers_bytes = row->bytes[MEMORY_BUFFERS],
                    .total_bytes = row->total_bytes,
                    .host_bytes = row->tier_bytes[TIER_HOST],
                    .nvme_bytes = row->tier_bytes[TIER_NVME],
                    .sent_bytes = table->has_activations ? NAN : row->sent_bytes,
                    .fits = row_fits(table, row)};
}

static StateReport state_report(const MemoryTable *table) {
  StateReport report = {.parameters = table->parameters,
                        .zero = table->method->zero,
                        .reserved_bytes = table->has_activations ? table->reserved_bytes : NAN,
                        .tiers_are_used = offload_is_any(&table->method->offload),
                        .tiers_per = table->has_activations ? "node" : "gpu",
                        .has_capacity = table->capacity_bytes > 0,
                        .max_micro_batch = table->has_activations ? table->largest.micro_batch : -1,
                        .max_seq_len = table->has_activations ? table->largest.seq_len : -1,
                        .min_gpus = NAN,
                        .bubble_overhead = NAN};
  gboolean is_exact;
  if (!table->has_activations)
    report.bubble_overhead = bubble_overhead(table->method, &is_exact);
  const Recipe on_gpu = recipe_while_updating(table->method);
  for (int zero = 0; zero < N_ZERO_STAGES; zero++)
    report.stages[zero] = state_row(table, &table->rows[zero]);
  if (table->capacity_bytes > 0 && training_is_of_all(&table->method->training))
    report.min_gpus = state_memory_min_gpus(&on_gpu, table->parameters, room_bytes(table));
  return report;
}

static void count_trained(const Model *model, const Plan *plan, MemoryTable *table) {
  const TrainedParts *training = &plan->training;
  const double element_bytes = precision_info(plan->precision)->element_bytes;
  table->parameters = model_parameters(model);
  table->expert_parameters = model_expert_parameters(model);
  table->held.trained = table->parameters;
  table->held.trained_experts = table->expert_parameters;
  if (training_is_of_all(training))
    return;
  table->held.trained = trained_parameters(model, training, FALSE);
  table->held.trained_experts = trained_parameters(model, training, TRUE);
  table->held.frozen_bytes = frozen_weight_bytes(model, training, &plan->recipe, element_bytes, FALSE);
  table->held.frozen_experts_bytes = frozen_weight_bytes(model, training, &plan->recipe, element_bytes, TRUE);
}

/* Either --params or --model must be given, not both. */
static gboolean read_parameters(MemoryOptions *o, MemoryTable *table, GError **error) {
  PlanOptions *p = &o->plan;
  if ((o->params != NULL) == (p->model_file != NULL))
    return fail_input(error, "give either --model FILE or --params N%s", o->params != NULL ? ", not both" : "");
  if (o->params != NULL && p->cluster_file != NULL)
    return fail_input(error, "--cluster %s needs --model: activations depend on its layers", p->cluster_file);
  if (o->params != NULL && !units_parse_count(o->params, &table->parameters, error)) {
    g_prefix_error(error, "--params: ");
    return FALSE;
  }
  if (!plan_options_read(p, error))
    return FALSE;
  table->held.trained = table->parameters;
  if (p->model != NULL)
    count_trained(p->model, p->plan, table);
  return p->model != NULL || training_is_of_all(&p->plan->training) ||
         fail_input(error, "--train and --freeze need --model: --params says nothing of its layers");
}

static gboolean check_compression(const PlanOptions *p, GError **error) {
  return p->plan->compression.kind != COMPRESS_POWERSGD || p->cluster != NULL ||
         fail_input(error, "--compress-grad powersgd needs --model and --cluster: what it keeps and sends follows from "
                           "the shapes of matrices on a rank");
}

static gboolean read_capacity(const MemoryOptions *o, MemoryTable *table, GError **error) {
  if (o->plan.cluster != NULL) {
    table->capacity_bytes = o->plan.cluster->gpu.hbm_bytes;
    table->reserved_bytes = o->plan.cluster->gpu.reserved_bytes;
  }
  if (o->capacity == NULL)
    return TRUE;
  if (!units_parse(o->capacity, UNIT_BYTES, &table->capacity_bytes, error)) {
    g_prefix_error(error, "--capacity: ");
    return FALSE;
  }
  if (table->capacity_bytes < 1)
    return fail_input(error, "--capacity: found \"%.80s\", expected at least one byte", o->capacity);
  return TRUE;
}

static gboolean prepare(MemoryOptions *o, MemoryTable *table, GError **error) {
  if (!read_parameters(o, table, error) || !read_capacity(o, table, error) || !check_compression(&o->plan, error))
    return FALSE;
  table->has_activations = o->plan.cluster != NULL;
  table->method = method_complete(o->plan.model, o->plan.cluster, o->plan.plan, error);
  return table->method != NULL;
}

/* The exit status. */
static int print(const MemoryOptions *o, const MemoryTable *table) {
  StateReport report = state_report(table);
  g_autoptr(GString) out = g_string_new(NULL);
  if (o->plan.json) {
    g_autofree char *json = json_report_memory(&report);
    g_string_append(out, json);
  } else {
    g_autofree char *trained = table->held.trained != table->parameters
                                   ? g_strdup_printf(", %.0f trained", table->held.trained)
                                   : g_strdup("");
    g_autofree char *title = o->plan.model != NULL ? g_strdup_printf("%s: %.0f parameters%s", o->plan.model->name,
                                                                     table->parameters, trained)
                                                   : g_strdup_printf("%.6g parameters", table->parameters);
    print_table(table, title, out);
    if (!table->has_activations)
      print_step(table, out);
    print_limits(table, out);
  }
  fputs(out->str, stdout);
  return report.stages[report.zero].fits ? 0 : 1;
}

static int run(MemoryOptions *o, MemoryTable *table, GError **error) {
  if (!prepare(o, table, error))
    return 2;
  if (!fill_rows(table, &o->plan, error))
    return 2;
  if (table->has_activations)
    table->largest =
        largest_fit(o->plan.model, o->plan.cluster, o->plan.plan, table->method->plan, table->capacity_bytes);
  return print(o, table);
}

int command_memory(int argc, char **argv, GError **error) {
  MemoryOptions options = {0};
  MemoryTable table = {0};
  int status = parse_options(&options, &argc, &argv, error) ? run(&options, &table, error) : 2;
  plan_options_clear(&options.plan);
  method_free(table.method);
  for (int zero = 0; zero < N_ZERO_STAGES; zero++)
    g_free(table.rows[zero].impossible);
  g_free(options.params);
  g_free(options.capacity);
  return status;
}
