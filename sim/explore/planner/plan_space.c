/* The lists depend on what the model and the cluster are, which is read ahead in a space of their own. With several
 * models, clusters or numbers of GPUs a list is the union of what each allows; what does not go together is found
 * impossible later. */
#include "plan_space.h"

#include <string.h>

#include "error.h"
#include "options.h"
#include "suggest.h"

enum { MOST_TP = 1024 };

/* Model, cluster and GPUs of one combination. */
typedef struct {
  const Model *model;
  const Cluster *cluster;
  gint64 gpus, seq_len;
} Case;

typedef gboolean (*Allows)(const Case *c, gint64 value, const GArray *pp);

static gboolean allows_tp(const Case *c, gint64 tp, const GArray *pp) {
  const Model *model = c->model;
  return c->gpus % tp == 0 && tp <= MAX(c->cluster->domain_gpus, c->cluster->gpus_per_node) &&
         model->n_heads % tp == 0 && model->hidden % tp == 0 && model->ffn_hidden % tp == 0 &&
         (model->n_kv_heads % tp == 0 || tp % model->n_kv_heads == 0);
}

static gboolean allows_pp(const Case *c, gint64 value, const GArray *pp) {
  return c->gpus % value == 0 && (value <= c->model->n_layers || value == c->model->n_layers + 2);
}

static gboolean allows_ep(const Case *c, gint64 ep, const GArray *pp) {
  return ep == 1 || (c->gpus % ep == 0 && model_has_experts(c->model) && c->model->experts.n % ep == 0);
}

static gboolean allows_chunks(const Case *c, gint64 chunks, const GArray *pp) {
  if (chunks == 1)
    return TRUE;
  for (guint i = 0; i < pp->len; i++) {
    gint64 n_stages = g_array_index(pp, gint64, i) * chunks, n_layers = c->model->n_layers;
    if (g_array_index(pp, gint64, i) > 1 && (n_layers % n_stages == 0 || (n_layers + 2) % n_stages == 0))
      return TRUE;
  }
  return FALSE;
}

gint64 plan_space_only_chunks(const char *schedule) {
  const ScheduleFacts *facts = schedule_facts(schedule_spelling(schedule));
  return facts->least_chunks > 1 && facts->least_chunks == facts->most_chunks ? facts->least_chunks : 0;
}

static gboolean has_number(const GArray *values, gint64 value) {
  for (guint i = 0; i < values->len; i++)
    if (g_array_index(values, gint64, i) == value)
      return TRUE;
  return FALSE;
}

/* Schedules that were asked for have theirs, whether they cut the layers evenly or not. */
static void add_chunks_of_schedules(GArray *chunks, const char *schedules) {
  g_auto(GStrv) given = g_strsplit(schedules != NULL ? schedules : "", ",", -1);
  for (int i = 0; given[i] != NULL; i++) {
    const gint64 needed = plan_space_only_chunks(g_strstrip(given[i]));
    if (needed > 0 && !has_number(chunks, needed))
      g_array_append_val(chunks, needed);
  }
}

/* Values from 1 to `most` that some case allows. */
static GArray *allowed(const GArray *cases, gint64 most, Allows allows, const GArray *pp) {
  GArray *values = g_array_new(FALSE, FALSE, sizeof(gint64));
  for (gint64 value = 1; value <= most; value++) {
    gboolean is_allowed = FALSE;
    for (guint i = 0; i < cases->len && !is_allowed; i++)
      is_allowed = allows(&g_array_index(cases, Case, i), value, pp);
    if (is_allowed)
      g_array_append_val(values, value);
  }
  return values;
}

static gboolean set_open(Space *space, const char *name, const char *text, GError **error) {
  return space_given(space, name) != NULL || space_set(space, name, text, error);
}

static gboolean set_numbers(Space *space, const char *name, const GArray *values, GError **error) {
  g_autoptr(GString) text = g_string_new(NULL);
  for (guint i = 0; i < values->len; i++)
    g_string_append_printf(text, "%s%" G_GINT64_FORMAT, i > 0 ? "," : "", g_array_index(values, gint64, i));
  return set_open(space, name, text->str, error);
}

/* The same model, cluster, GPUs, pp and sequence alone, finished. */
static Space *read_ahead(const Space *space, GError **error) {
  static const char *const names[] = {"model", "cluster", "gpus", "pp", "seq-len"};
  g_autoptr(Space) ahead = space_new();
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    const char *text = space_given(space, names[i]);
    if (text != NULL && !space_set(ahead, names[i], text, error))
      return NULL;
  }
  return space_finish(ahead, error) ? g_steal_pointer(&ahead) : NULL;
}

static GArray *cases_of(const Space *ahead, GError **error) {
  g_autoptr(GArray) cases = g_array_new(FALSE, FALSE, sizeof(Case));
  g_autoptr(SpaceReader) reader = space_reader_new(ahead);
  for (gint64 i = 0; i < space_count(ahead); i++) {
    SpacePoint point;
    if (!space_reader_read(reader, i, &point, error))
      return NULL;
    Case c = {point.model, point.cluster, point.plan->gpus, point.plan->seq_len};
    g_array_append_val(cases, c);
  }
  return g_steal_pointer(&cases);
}

/* What stands in the list of pp, where there is one. */
static GArray *values_of_pp(const Space *ahead, const GArray *cases, gint64 most) {
  int axis = 0;
  while (axis < space_n_axes(ahead) && g_strcmp0(space_axis_name(ahead, axis), "pp") != 0)
    axis++;
  if (axis == space_n_axes(ahead))
    return allowed(cases, most, allows_pp, NULL);
  GArray *values = g_array_new(FALSE, FALSE, sizeof(gint64));
  for (int i = 0; i < space_axis_n_values(ahead, axis); i++) {
    gint64 value = g_ascii_strtoll(space_axis_nth(ahead, axis, i), NULL, 10);
    g_array_append_val(values, value);
  }
  return values;
}

static gboolean has_long_sequences(const GArray *cases) {
  for (guint i = 0; i < cases->len; i++)
    if (g_array_index(cases, Case, i).seq_len >= LONG_SEQUENCE)
      return TRUE;
  return FALSE;
}

static gboolean have_experts(const GArray *cases) {
  for (guint i = 0; i < cases->len; i++)
    if (model_has_experts(g_array_index(cases, Case, i).model))
      return TRUE;
  return FALSE;
}

static gboolean fill_numbers(Space *space, const Space *ahead, const GArray *cases, GError **error) {
  gint64 most_layers = 1;
  for (guint i = 0; i < cases->len; i++)
    most_layers = MAX(most_layers, g_array_index(cases, Case, i).model->n_layers + 2);
  gint64 most_experts = 1;
  for (guint i = 0; i < cases->len; i++)
    most_experts = MAX(most_experts, g_array_index(cases, Case, i).model->experts.n);
  g_autoptr(GArray) ep = allowed(cases, most_experts, allows_ep, NULL);
  g_autoptr(GArray) tp = allowed(cases, MOST_TP, allows_tp, NULL);
  g_autoptr(GArray) pp = values_of_pp(ahead, cases, most_layers);
  g_autoptr(GArray) chunks = allowed(cases, most_layers, allows_chunks, pp);
  add_chunks_of_schedules(chunks, space_given(space, "schedule"));
  return set_numbers(space, "tp", tp, error) && set_numbers(space, "ep", ep, error) &&
         set_numbers(space, "pp", pp, error) && set_numbers(space, "chunks", chunks, error);
}

void plan_space_describe(Space *space) {
  static const struct {
    const char *name, *description;
  } axes[] = {
      {"gpus", "number of GPUs (required)"},
      {"tp", "tensor-parallel size (default: what divides GPUs, heads and sizes, within a scale-up domain)"},
      {"pp", "pipeline-parallel size (default: what divides the GPUs, up to one stage per layer)"},
      {"dp", "data-parallel size (default: the GPUs left by the other axes)"},
      {"cp", "context-parallel size (default 1; with 32768 tokens per sequence or more 1,2,4,8,16)"},
      {"ep", "expert-parallel size, out of cp × dp, or of tp × cp × dp with --expert-tp 1 (default: what divides "
             "experts and GPUs)"},
      {"expert-tp", "tensor-parallel size of the experts: 1, or 0 for that of --tp (default 0; for MoE models 0,1)"},
      {"chunks", "model chunks per pipeline rank (default: 1, what divides the layers evenly with some pp, and what "
                 "the given schedules need)"},
      {"pipeline-layout", "layers of each stage: 7+8*14+6, or 7+even+6; balanced: by FLOPs; embedding, loss or "
                          "embedding+loss: count these as a layer (default auto,balanced)"},
      {"micro-batch", "sequences per micro-batch (default 1,2,4,8,16)"},
      {"global-batch", "sequences per step (required)"},
      {"zero", "ZeRO stage (default 0,1,2,3)"},
      {"zero-ranks", "ranks that share one set of shards; 0: all of dp × cp (default: under ZeRO-3 the best of: all, "
                     "those of one node or larger scale-up domain, half, a quarter … and 2, 4 … times as many)"},
      {"recompute", "none, selective, full, full:N, block:N or every:N; block or every alone: with N = 1, 2, 4 … "
                    "(default none,selective,full; with --recompute-modules selective)"},
      {"sequence-parallel", "on or off (default on,off)"},
      {"overlap-p2p", "a stage computes while it sends to the next: on or off (default: that of the schedule and the "
                      "framework; with --emit megatron off,on)"},
  };
  g_autofree char *names = g_strjoinv(", ", (char **)schedule_choices());
  g_autofree char *schedules = g_strdup_printf("%s, or file:orders.csv (default 1f1b,interleaved; with --emit "
                                               "deepspeed 1f1b, with torchtitan zb-v too)",
                                               names);
  space_describe(space, "schedule", g_intern_string(schedules));
  for (gsize i = 0; i < G_N_ELEMENTS(axes); i++)
    space_describe(space, axes[i].name, axes[i].description);
}

/* Sequences, GPUs, model, cluster: what a search cannot choose. */
static gboolean check_given(const Space *space, GError **error) {
  static const struct {
    const char *name, *why;
  } needed[] = {{"model", "a Hugging Face config.json, or a name in models/ such as llama-3-8b"},
                {"cluster", "a cluster YAML, or a name in topologies/ such as dgx-h100"},
                {"gpus", "how many to plan for"},
                {"global-batch", "sequences per step, which plans are compared at"}};
  for (gsize i = 0; i < G_N_ELEMENTS(needed); i++)
    if (space_given(space, needed[i].name) == NULL)
      return fail_input(error, "--%s is missing: %s", needed[i].name, needed[i].why);
  return TRUE;
}

/* The list of the option has the value, however it is spelled. */
static gboolean is_given(const Space *space, const char *option, const char *value) {
  const char *text = space_given(space, option), *const names[] = {value, NULL};
  g_auto(GStrv) given = g_strsplit(text != NULL ? text : "", ",", -1);
  gboolean has_value = FALSE;
  for (int i = 0; given[i] != NULL; i++)
    has_value |= suggest_same(g_strstrip(given[i]), names) >= 0;
  return has_value;
}

/* `option` is given `value`, as `plan` has it, and no model heeds it. */
static gboolean check_heeded(const Space *space, const GArray *cases, const char *option, const char *value,
                             const Plan *plan, GError **error) {
  if (!is_given(space, option, value))
    return TRUE;
  for (guint i = 0; i < cases->len; i++) {
    g_clear_error(error);
    if (plan_options_check_model(plan, g_array_index(cases, Case, i).model, error))
      return TRUE;
  }
  return FALSE;
}

static gboolean check_models(const Space *space, const GArray *cases, GError **error) {
  const Plan plain = {.norm_kernel = FRAMEWORK_KERNELS_PLAIN}, once = {.expert_dispatch = DISPATCH_DEEPEP},
             gathered = {.expert_dispatch = DISPATCH_ALL_GATHER};
  const Plan turns = {.pp = 1, .overlap_experts = TRUE}, router = {.cuda_graphs = CUDA_GRAPHS_ROUTER},
             attention = {.cuda_graphs = CUDA_GRAPHS_ATTENTION};
  return check_heeded(space, cases, "norm-kernel", kernels_names()[FRAMEWORK_KERNELS_PLAIN], &plain, error) &&
         check_heeded(space, cases, "expert-dispatch", expert_dispatch_names()[DISPATCH_DEEPEP], &once, error) &&
         check_heeded(space, cases, "expert-dispatch", expert_dispatch_names()[DISPATCH_ALL_GATHER], &gathered,
                      error) &&
         check_heeded(space, cases, "overlap-experts", "on", &turns, error) &&
         check_heeded(space, cases, "cuda-graphs", cuda_graphs_names()[CUDA_GRAPHS_ROUTER], &router, error) &&
         check_heeded(space, cases, "cuda-graphs", cuda_graphs_names()[CUDA_GRAPHS_ATTENTION], &attention, error);
}

gboolean plan_space_fill_for(Space *space, LaunchFramework framework, GError **error) {
  const char *overlaps = launch_overlaps_p2p(framework);
  return set_open(space, "framework", launch_product(framework), error) &&
         set_open(space, "schedule", launch_schedules(framework), error) &&
         (overlaps == NULL || set_open(space, "overlap-p2p", overlaps, error));
}

/* "block" and "every" without a number stand for 1, 2, 4 … layers, up to half of the model's. */
static gboolean fill_recompute(Space *space, const GArray *cases, GError **error) {
  const char *given = space_given(space, "recompute");
  if (given == NULL || space_given(space, "recompute-num-layers") != NULL)
    return TRUE;
  gint64 most_layers = 1;
  for (guint i = 0; i < cases->len; i++)
    most_layers = MAX(most_layers, g_array_index(cases, Case, i).model->n_layers);
  g_auto(GStrv) words = g_strsplit(given, ",", -1);
  g_autoptr(GString) text = g_string_new(NULL);
  for (int i = 0; words[i] != NULL; i++) {
    const char *word = g_strstrip(words[i]);
    const gboolean is_counted =
        strcmp(word, recompute_names()[RECOMPUTE_BLOCK]) == 0 || strcmp(word, recompute_names()[RECOMPUTE_EVERY]) == 0;
    if (!is_counted)
      g_string_append_printf(text, "%s%s", text->len > 0 ? "," : "", word);
    for (gint64 n = 1; is_counted && n <= MAX(1, most_layers / 2); n *= 2)
      g_string_append_printf(text, "%s%s:%" INT64, text->len > 0 ? "," : "", word, n);
  }
  return space_set(space, "recompute", text->str, error);
}

gboolean plan_space_fill(Space *space, GError **error) {
  if (!check_given(space, error))
    return FALSE;
  const gboolean has_modules = space_given(space, "recompute-modules") != NULL;
  g_autoptr(Space) ahead = read_ahead(space, error);
  g_autoptr(GArray) cases = ahead != NULL ? cases_of(ahead, error) : NULL;
  return cases != NULL && check_models(space, cases, error) &&
         set_open(space, "cp", has_long_sequences(cases) ? "1..16*2" : "1", error) &&
         (!have_experts(cases) || set_open(space, "expert-tp", "0,1", error)) &&
         fill_numbers(space, ahead, cases, error) && set_open(space, "schedule", "1f1b,interleaved", error) &&
         set_open(space, "pipeline-layout", "auto,balanced", error) &&
         set_open(space, "micro-batch", "1..16*2", error) && set_open(space, "zero", "0..3", error) &&
         set_open(space, "recompute", has_modules ? "selective" : "none,selective,full", error) &&
         fill_recompute(space, cases, error) && set_open(space, "sequence-parallel", "on,off", error);
}
