/* DeepSpeed's configuration (deepspeed.ai/docs/config-json, 2026-08). Lists of layers, optimizers and what is
 * recomputed without a pipeline are in the user's program, not here. */
#include <string.h>

#include "error.h"
#include "import.h"
#include "json_file.h"

#define ZERO "zero_optimization."

/* What it has where nothing is said: zero/config.py, 2026-08. */
enum { DEFAULT_BUCKET = 500000000 };

static const ImportRow rows[] = {{"train_batch_size", IMPORT_OPTION, "global-batch"},
                                 {"train_micro_batch_size_per_gpu", IMPORT_OPTION, "micro-batch"},
                                 {"gradient_accumulation_steps", IMPORT_READ, "global-batch"},
                                 {"tensor_parallel.autotp_size", IMPORT_OPTION, "tp"},
                                 {"pipeline.stages", IMPORT_OPTION, "pp"},
                                 {"pipeline.activation_checkpoint_interval", IMPORT_READ},
                                 {"pipeline.partition_method", IMPORT_READ},
                                 {"sequence_parallel_size", IMPORT_READ, "cp"},
                                 {ZERO "stage", IMPORT_OPTION, "zero"},
                                 {ZERO "overlap_comm", IMPORT_READ, "overlap-grad"},
                                 {ZERO "reduce_bucket_size", IMPORT_READ, "bucket"},
                                 {ZERO "allgather_bucket_size", IMPORT_READ, "bucket"},
                                 {ZERO "stage3_prefetch_bucket_size", IMPORT_READ, "prefetch"},
                                 {ZERO "mics_shard_size", IMPORT_READ},
                                 {ZERO "offload_optimizer.device", IMPORT_READ},
                                 {ZERO "offload_optimizer.ratio", IMPORT_READ},
                                 {ZERO "offload_param.device", IMPORT_READ},
                                 {"bf16.enabled", IMPORT_READ},
                                 {"bfloat16.enabled", IMPORT_READ},
                                 {"fp16.enabled", IMPORT_READ},
                                 {"data_types.grad_accum_dtype", IMPORT_READ},
                                 {"activation_checkpointing.cpu_checkpointing", IMPORT_READ},
                                 {"activation_checkpointing.partition_activations", IMPORT_READ},
                                 {"optimizer.type", IMPORT_READ},
                                 {"zero_allow_untested_optimizer", IMPORT_UNUSED},
                                 {"zero_force_ds_cpu_optimizer", IMPORT_UNUSED},
                                 /* as it is modelled */
                                 {ZERO "contiguous_gradients", IMPORT_UNUSED},
                                 {ZERO "reduce_scatter", IMPORT_UNUSED},
                                 {ZERO "allgather_partitions", IMPORT_UNUSED},
                                 {ZERO "round_robin_gradients", IMPORT_UNUSED},
                                 {ZERO "sub_group_size", IMPORT_UNUSED},
                                 {ZERO "stage3_max_live_parameters", IMPORT_UNUSED},
                                 {ZERO "stage3_max_reuse_distance", IMPORT_UNUSED},
                                 {ZERO "stage3_param_persistence_threshold", IMPORT_UNUSED},
                                 {ZERO "offload_optimizer.*", IMPORT_UNUSED},
                                 {ZERO "offload_param.*", IMPORT_UNUSED},
                                 /* numbers' ranges, checkpoints, logs */
                                 {ZERO "stage3_gather_16bit_weights_on_model_save", IMPORT_UNUSED},
                                 {ZERO "gather_16bit_weights_on_model_save", IMPORT_UNUSED},
                                 {ZERO "stage3_gather_fp16_weights_on_model_save", IMPORT_UNUSED},
                                 {ZERO "elastic_checkpoint", IMPORT_UNUSED},
                                 {ZERO "load_from_fp32_weights", IMPORT_UNUSED},
                                 {ZERO "ignore_unused_parameters", IMPORT_UNUSED},
                                 {"fp16.*", IMPORT_UNUSED},
                                 {"bf16.*", IMPORT_UNUSED},
                                 {"optimizer.params.*", IMPORT_UNUSED},
                                 {"scheduler.*", IMPORT_UNUSED},
                                 {"gradient_clipping", IMPORT_UNUSED},
                                 {"prescale_gradients", IMPORT_UNUSED},
                                 {"gradient_predivide_factor", IMPORT_UNUSED},
                                 {"steps_per_print", IMPORT_UNUSED},
                                 {"wall_clock_breakdown", IMPORT_UNUSED},
                                 {"dump_state", IMPORT_UNUSED},
                                 {"memory_breakdown", IMPORT_UNUSED},
                                 {"tensorboard.*", IMPORT_UNUSED},
                                 {"wandb.*", IMPORT_UNUSED},
                                 {"csv_monitor.*", IMPORT_UNUSED},
                                 {"comet.*", IMPORT_UNUSED},
                                 {"flops_profiler.*", IMPORT_UNUSED},
                                 {"comms_logger.*", IMPORT_UNUSED},
                                 {"checkpoint.*", IMPORT_UNUSED},
                                 {"seed", IMPORT_UNUSED},
                                 {NULL}};

/* --- what it comes to --- */

/* Where Transformers fills in "auto" from its own arguments, too. */
static const char in_program[] = "said by the program, not here";

static gboolean is_on(const Import *import, const char *key) {
  return import_is(import, key, "true");
}

/* Where the batch is said by its parts alone it needs dp. */
static void read_batch(Import *import) {
  const char *const steps = "gradient_accumulation_steps";
  const gint64 n = MAX(import_count(import, steps, 1), 1), whole = import_count(import, "train_batch_size", 0),
               micro = import_count(import, "train_micro_batch_size_per_gpu", 0);
  const gint64 split = import_product(import_product(import_count(import, "tensor_parallel.autotp_size", 1),
                                                     import_count(import, "pipeline.stages", 1)),
                                      import_count(import, "sequence_parallel_size", 1));
  const gint64 dp = import->gpus / MAX(split, 1), in_step = import_product(n, dp);
  if (whole > 0 && micro == 0 && dp > 0)
    import_set(import, "train_batch_size", "micro-batch", "%" INT64, whole / in_step);
  else if (whole == 0 && micro > 0 && dp > 0)
    import_set(import, "train_micro_batch_size_per_gpu", "global-batch", "%" INT64, import_product(micro, in_step));
  else if ((whole == 0) != (micro == 0))
    import_ask(import, steps, whole == 0 ? "global-batch" : "micro-batch",
               "how large the %s is follows from --gpus, which is missing",
               whole == 0 ? "step's batch" : "micro-batch");
}

static const char *tier_of(Import *import, const char *key) {
  const char *device = import_text(import, key);
  if (device == NULL || strcmp(device, "none") == 0)
    return NULL;
  if (strcmp(device, "cpu") == 0)
    return "host";
  if (strcmp(device, "nvme") != 0)
    import_notice(import, key, "not understood, expected none, cpu or nvme: taken for cpu");
  return strcmp(device, "nvme") == 0 ? "nvme" : "host";
}

static void read_offload(Import *import) {
  const char *const optimizer = ZERO "offload_optimizer.device", *const weights = ZERO "offload_param.device";
  const char *ratio = import_text(import, ZERO "offload_optimizer.ratio");
  const char *tier = tier_of(import, optimizer), *of_weights = tier_of(import, weights);
  const gboolean is_part = ratio != NULL && g_ascii_strtod(ratio, NULL) < 1;
  if (tier != NULL)
    import_set(import, optimizer, "offload-optimizer", "%s%s%s", tier, is_part ? ":" : "", is_part ? ratio : "");
  if (of_weights != NULL)
    import_set(import, weights, "offload-weights", "%s", of_weights);
}

/* overlap_comm is off by default, but with stage 3; without stages gradients are reduced behind backward. */
static void read_zero(Import *import) {
  const char *const overlap = ZERO "overlap_comm", *const gather = ZERO "allgather_bucket_size",
                    *const reduce = ZERO "reduce_bucket_size", *const prefetch = ZERO "stage3_prefetch_bucket_size";
  const gint64 stage = import_count(import, ZERO "stage", 0);
  if (stage == 0 || (import_find(import, overlap) != NULL ? !is_on(import, overlap) : stage < 3))
    import_set(import, overlap, "overlap-grad", "off");
  if (stage == 1 || stage == 2)
    import_set(import, ZERO "stage", "overlap-param", "off"); /* gathered at the end of the step */
  if (stage > 0)
    import_set(import, reduce, "bucket", "%" INT64,
               MAX(import_count(import, gather, import_count(import, reduce, DEFAULT_BUCKET)), 1));
  if (import_find(import, prefetch) != NULL && import_count(import, prefetch, 1) == 0)
    import_set(import, prefetch, "overlap-param", "off");
  else if (import_find(import, prefetch) != NULL)
    import_ask(import, prefetch, "prefetch", "taken for one layer ahead, or as the framework has it");
  if (import_count(import, ZERO "mics_shard_size", 0) > 0)
    import_set(import, ZERO "mics_shard_size", "zero-ranks", "%" INT64,
               import_count(import, ZERO "mics_shard_size", 0));
  read_offload(import);
}

static void read_precision(Import *import) {
  static const char *const switches[][2] = {
      {"bf16.enabled", "bf16"}, {"bfloat16.enabled", "bf16"}, {"fp16.enabled", "fp16"}};
  const char *key = NULL, *precision = "fp32";
  for (gsize i = 0; i < 2 * G_N_ELEMENTS(switches) && key == NULL; i++) { /* what is on goes before what may be */
    const char *const *row = switches[i % G_N_ELEMENTS(switches)];
    if (import_is(import, row[0], i < G_N_ELEMENTS(switches) ? "true" : "auto"))
      key = row[0], precision = row[1];
  }
  const gboolean is_16_bit = key != NULL;
  import_set(import, is_16_bit ? key : "fp16.enabled", "precision", "%s", precision);
  if (is_16_bit && import_is(import, key, "auto"))
    import_ask(import, key, "precision", "Transformers sets it from its own arguments: taken for %s unless typed",
               precision);
  const double bytes[] = {2, import_is(import, "data_types.grad_accum_dtype", "fp32") ? 4 : 2, 4, 4, 4};
  if (is_16_bit && import_find(import, "data_types.grad_accum_dtype") != NULL)
    import_set_recipe(import, "data_types.grad_accum_dtype", bytes);
}

/* Layers that are checkpointed are said of a pipeline alone. */
static void read_checkpoints(Import *import) {
  const char *const interval = "pipeline.activation_checkpoint_interval",
                    *const to_host = "activation_checkpointing.cpu_checkpointing";
  const gint64 n = import_count(import, interval, 0);
  const gboolean is_pipeline = import_count(import, "pipeline.stages", 1) > 1;
  if (n > 0 && is_pipeline)
    import_set(import, interval, "recompute", "full:%" INT64, n);
  else if (is_on(import, to_host))
    import_set(import, to_host, "recompute", "full");
  import_ask(import, "length of sequences", "seq-len", "%s", in_program);
  if (!is_pipeline)
    import_ask(import, "which layers are recomputed", "recompute", "%s", in_program);
  if (is_on(import, to_host))
    import_set(import, to_host, "offload-activations", "host");
}

static void read_optimizer(Import *import) {
  const char *type = import_text(import, "optimizer.type");
  if (type == NULL || g_ascii_strcasecmp(type, "adam") == 0 || g_ascii_strcasecmp(type, "adamw") == 0)
    return;
  if (g_ascii_strcasecmp(type, "onebitadam") == 0)
    import_set(import, "optimizer.type", "compress-grad", "onebit");
  else
    import_ask(import, "optimizer.type", "recipe", "taken for Adam; what an optimizer holds is said by an option");
}

/* --- from the file --- */

static char *text_of(JsonNode *node) {
  if (JSON_NODE_HOLDS_ARRAY(node))
    return json_to_string(node, FALSE);
  switch (json_node_get_value_type(node)) {
  case G_TYPE_STRING:
    return g_strdup(json_node_get_string(node));
  case G_TYPE_BOOLEAN:
    return g_strdup(json_node_get_boolean(node) ? "true" : "false");
  default: { /* a number: 5e8 is a whole one, too */
    gint64 whole;
    if (json_node_integer(node, (IntegerRange){-((gint64)1 << 53), (gint64)1 << 53}, &whole))
      return g_strdup_printf("%" INT64, whole);
    char number[G_ASCII_DTOSTR_BUF_SIZE];
    return g_strdup(g_ascii_dtostr(number, sizeof number, json_node_get_double(node)));
  }
  }
}

static void add_member(Import *import, const char *key, JsonNode *node, guint line) {
  g_autofree char *text = text_of(node);
  if (strcmp(text, "auto") != 0 || g_str_has_suffix(key, "16.enabled")) {
    import_add(import, key, text, line);
    return;
  }
  for (const ImportRow *row = rows; row->key != NULL; row++)
    if (row->use != IMPORT_UNUSED && strcmp(row->key, key) == 0) {
      const PlanFileNotice notice = {g_strconcat(key, " auto", NULL), g_strdup(in_program), row->option, line};
      g_array_append_val(import->file->notices, notice);
    }
}

static void add_members(Import *import, const JsonFile *json, JsonObject *object, const char *before) {
  g_autoptr(GList) keys = json_object_get_members(object);
  for (GList *at = keys; at != NULL; at = at->next) {
    const char *own = at->data;
    JsonNode *node = json_object_get_member(object, own);
    g_autofree char *key = g_strconcat(before, own, NULL), *inside = g_strconcat(key, ".", NULL);
    if (JSON_NODE_HOLDS_OBJECT(node))
      add_members(import, json, json_node_get_object(node), inside);
    else if (!JSON_NODE_HOLDS_NULL(node))
      add_member(import, key, node, json_file_line(json, object, own));
  }
}

static gboolean check_keys(const Import *import, GError **error) {
  for (const ImportRow *row = rows; row->key != NULL; row++)
    if (row->use != IMPORT_UNUSED && import_find(import, row->key) != NULL)
      return TRUE;
  return fail_input(error,
                    "%s: found nothing of a plan, expected DeepSpeed's keys, such as train_batch_size and "
                    "zero_optimization%s",
                    import->file->path,
                    import_find(import, "step_time_s") != NULL ? "; it is a result, which stepsim diff reads" : "");
}

gboolean import_deepspeed(PlanFile *file, const char *text, gint64 gpus, GError **error) {
  g_autoptr(JsonFile) json = json_file_parse(file->path, text, strlen(text), error);
  if (json == NULL)
    return FALSE;
  g_auto(Import) import;
  import_init(&import, file, rows, gpus);
  add_members(&import, json, json->root, "");
  if (!check_keys(&import, error))
    return FALSE;
  file->format = "DeepSpeed's configuration";
  plan_file_add(file, "framework", "deepspeed", 1);
  read_batch(&import);
  read_zero(&import);
  read_precision(&import);
  read_checkpoints(&import);
  read_optimizer(&import);
  if (import_count(&import, "sequence_parallel_size", 1) > 1) {
    import_set(&import, "sequence_parallel_size", "cp", "%s", import_text(&import, "sequence_parallel_size"));
    import_set(&import, "sequence_parallel_size", "cp-comm", "ulysses");
  }
  if (import_find(&import, "pipeline.partition_method") != NULL)
    import_ask(&import, "pipeline.partition_method", "pipeline-layout", "layers are cut as an option says");
  return import_take(&import, error);
}
