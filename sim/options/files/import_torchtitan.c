/* torchtitan's job configuration, TOML, as its releases from v0.1.0 (2025-05) to v0.2.2 (2026-02) read it
 * (config/job_config.py). */
#include <math.h>
#include <string.h>

#include "error.h"
#include "import.h"
#include "schedules.h"
#include "toml.h"
#include "units.h"

#define PARALLEL "parallelism."

/* Sizes in names leave out embeddings or are rounded. */
#define FLAVOR_WITHIN 0.15

static const char *const reshards[] = {"default", "always", "never", NULL};
static const char *const formats[] = {"bfloat16", "float32", NULL};

static const ImportRow rows[] = {{PARALLEL "tensor_parallel_degree", IMPORT_OPTION, "tp"},
                                 {PARALLEL "pipeline_parallel_degree", IMPORT_OPTION, "pp"},
                                 {PARALLEL "context_parallel_degree", IMPORT_OPTION, "cp"},
                                 {PARALLEL "expert_parallel_degree", IMPORT_OPTION, "ep"},
                                 {PARALLEL "expert_tensor_parallel_degree", IMPORT_OPTION, "expert-tp"},
                                 {"training.seq_len", IMPORT_OPTION, "seq-len"},
                                 {PARALLEL "data_parallel_replicate_degree", IMPORT_READ, IMPORT_COUNT},
                                 {PARALLEL "data_parallel_shard_degree", IMPORT_READ},
                                 {PARALLEL "fsdp_reshard_after_forward", IMPORT_READ, .values = reshards},
                                 {PARALLEL "context_parallel_rotate_method", IMPORT_READ},
                                 {PARALLEL "pipeline_parallel_schedule", IMPORT_READ},
                                 {PARALLEL "pipeline_parallel_microbatch_size", IMPORT_READ, IMPORT_COUNT},
                                 {PARALLEL "pipeline_parallel_schedule_csv", IMPORT_READ},
                                 {PARALLEL "module_fqns_per_model_part", IMPORT_READ},
                                 {"training.local_batch_size", IMPORT_READ, IMPORT_COUNT},
                                 {"training.batch_size", IMPORT_READ, IMPORT_COUNT}, /* of v0.1 */
                                 {"training.compile", IMPORT_READ},                  /* likewise */
                                 {"training.global_batch_size", IMPORT_READ},
                                 {"training.mixed_precision_param", IMPORT_READ, .values = formats},
                                 {"training.enable_cpu_offload", IMPORT_READ},
                                 {"activation_checkpoint.mode", IMPORT_READ},
                                 {"activation_checkpoint.selective_ac_option", IMPORT_READ},
                                 {"compile.enable", IMPORT_READ},
                                 {"model.converters", IMPORT_READ},
                                 {"model.name", IMPORT_READ},
                                 {"model.flavor", IMPORT_READ},
                                 {"model.*", IMPORT_UNUSED},
                                 /* as it is modelled */
                                 {"training.mixed_precision_reduce", IMPORT_UNUSED},
                                 {"training.dtype", IMPORT_UNUSED},
                                 {"compile.components", IMPORT_UNUSED},
                                 {PARALLEL "disable_loss_parallel", IMPORT_UNUSED},
                                 {PARALLEL "enable_compiled_autograd", IMPORT_UNUSED},
                                 {"quantize.linear.float8.*", IMPORT_UNUSED},
                                 {"float8.*", IMPORT_UNUSED},
                                 {"quantize.linear.mx.*", IMPORT_UNUSED},
                                 /* data, optimizer, checkpoints, logs */
                                 {"training.dataset*", IMPORT_UNUSED},
                                 {"training.steps", IMPORT_UNUSED},
                                 {"training.max_norm", IMPORT_UNUSED},
                                 {"training.seed", IMPORT_UNUSED},
                                 {"training.deterministic", IMPORT_UNUSED},
                                 {"training.gc_*", IMPORT_UNUSED},
                                 {"optimizer.*", IMPORT_UNUSED},
                                 {"lr_scheduler.*", IMPORT_UNUSED},
                                 {"checkpoint.*", IMPORT_UNUSED},
                                 {"validation.*", IMPORT_UNUSED},
                                 {"job.*", IMPORT_UNUSED},
                                 {"profiling.*", IMPORT_UNUSED},
                                 {"metrics.*", IMPORT_UNUSED},
                                 {"comm.*", IMPORT_UNUSED},
                                 {"debug.*", IMPORT_UNUSED},
                                 {"memory_estimation.*", IMPORT_UNUSED},
                                 {"experimental.custom_*", IMPORT_UNUSED},
                                 {"activation_checkpoint.per_op_sac_force_recompute_mm_shapes_by_fqns", IMPORT_UNUSED},
                                 {"activation_checkpoint.early_stop", IMPORT_UNUSED},
                                 {NULL}};

static gint64 degree(const Import *import, const char *key) {
  return MAX(import_count(import, key, 1), 1);
}

static gint64 pipeline_ranks(const Import *import) {
  return degree(import, PARALLEL "pipeline_parallel_degree");
}

/* Replicas times shards; what shards is −1 follows from the GPUs. 0: not known. */
static gint64 data_ranks(const Import *import) {
  const gint64 shards = import_count(import, PARALLEL "data_parallel_shard_degree", -1);
  if (shards > 0)
    return import_product(shards, degree(import, PARALLEL "data_parallel_replicate_degree"));
  return import->gpus /
         import_product(import_product(degree(import, PARALLEL "tensor_parallel_degree"), pipeline_ranks(import)),
                        degree(import, PARALLEL "context_parallel_degree"));
}

/* "default" keeps parameters gathered in a pipeline, and else shards them again. */
static int zero_of_shards(const Import *import) {
  const char *const key = PARALLEL "fsdp_reshard_after_forward";
  if (import_is(import, key, "always"))
    return 3;
  if (import_is(import, key, "never"))
    return 2;
  return pipeline_ranks(import) > 1 ? 2 : 3;
}

static void read_data_parallelism(Import *import) {
  const char *const shard = PARALLEL "data_parallel_shard_degree", *const replicate =
                                                                       PARALLEL "data_parallel_replicate_degree";
  const gint64 shards = import_count(import, shard, -1), replicas = degree(import, replicate);
  const gint64 dp = data_ranks(import), cp = degree(import, PARALLEL "context_parallel_degree");
  const gboolean is_sharded = shards != 1 || cp > 1 || import_find(import, PARALLEL "fsdp_reshard_after_forward");
  if (shards > 0)
    import_set(import, shard, "dp", "%" INT64, dp);
  import_set(import, shard, "zero", "%d", is_sharded ? zero_of_shards(import) : 0);
  if (is_sharded && replicas > 1 && dp > 0)
    import_set(import, replicate, "zero-ranks", "%" INT64, import_product(dp / replicas, cp));
  else if (is_sharded && replicas > 1)
    import_ask(import, replicate, "zero-ranks",
               "how many ranks share a set of shards follows from --gpus, which is missing");
}

/* Without a pipeline the local batch is a micro-batch, and there is one but for accumulation. */
static void read_batch(Import *import) {
  const char *const local = import_find(import, "training.batch_size") != NULL ? "training.batch_size"
                                                                               : "training.local_batch_size",
                    *const global = "training.global_batch_size";
  const gint64 each = MAX(import_count(import, local, 8), 1), whole = import_count(import, global, -1),
               dp = data_ranks(import);
  const ImportKey *of_now = import_find(import, "training.local_batch_size");
  if (of_now != NULL && strcmp(local, of_now->key) != 0)
    import_fail(import, local, "found beside %s in line %u, expected one of the two", of_now->key, of_now->line);
  if (pipeline_ranks(import) > 1)
    import_set(import, PARALLEL "pipeline_parallel_microbatch_size", "micro-batch", "%" INT64,
               degree(import, PARALLEL "pipeline_parallel_microbatch_size"));
  else
    import_set(import, local, "micro-batch", "%" INT64, each);
  if (whole > 0 || dp > 0)
    import_set(import, whole > 0 ? global : local, "global-batch", "%" INT64,
               whole > 0 ? whole : import_product(each, dp));
  else
    import_ask(import, local, "global-batch", "how large the step's batch is follows from --gpus, which is missing");
  if (import_find(import, "training.seq_len") == NULL)
    import_set(import, local, "seq-len", "2048"); /* its default, as is 8 of the local batch */
}

/* --- the pipeline --- */

static const char *schedule_in_pytorch(const char *theirs) {
  for (const char *const *name = schedule_names(); *name != NULL; name++)
    if (g_strcmp0(schedule_facts(*name)->in_pytorch, theirs) == 0)
      return *name;
  return NULL;
}

/* Layers of each part, "8+8+7": of what is called layers.N. */
static void read_parts(Import *import) {
  const char *const key = PARALLEL "module_fqns_per_model_part";
  if (import_text(import, key) == NULL || pipeline_ranks(import) == 1)
    return;
  g_auto(GStrv) parts = g_strsplit(import_text(import, key), ";", -1);
  g_autoptr(GString) layout = g_string_new(NULL);
  for (char **part = parts; *part != NULL; part++) {
    g_auto(GStrv) names = g_strsplit(*part, ",", -1);
    int n = 0;
    for (char **name = names; *name != NULL; name++)
      n += g_str_has_prefix(*name, "layers.");
    g_string_append_printf(layout, "%s%d", part > parts ? "+" : "", n);
  }
  import_set(import, key, "pipeline-layout", "%s", layout->str);
  import_set(import, key, "chunks", "%" INT64, g_strv_length(parts) / pipeline_ranks(import));
}

static void read_pipeline(Import *import) {
  const char *const key = PARALLEL "pipeline_parallel_schedule", *const csv = PARALLEL "pipeline_parallel_schedule_csv";
  const char *theirs = import_text(import, key), *order = import_text(import, csv);
  if (pipeline_ranks(import) == 1)
    return;
  if (order != NULL && *order != '\0')
    import_set(import, csv, "schedule", "file:%s", order);
  else if (theirs == NULL)
    import_set(import, key, "schedule", "1f1b"); /* its default */
  else if (schedule_in_pytorch(theirs) != NULL)
    import_set(import, key, "schedule", "%s", schedule_in_pytorch(theirs));
  else
    import_ask(import, key, "schedule", "not one of stepsim's schedules by PyTorch's name");
  read_parts(import);
}

/* --- the rest --- */

static void read_recompute(Import *import) {
  const char *const mode = "activation_checkpoint.mode", *const option = "activation_checkpoint.selective_ac_option";
  const gint64 every = import_is(import, option, "op") ? 0 : import_count(import, option, 2); /* its default */
  const char *what = import_text(import, mode) != NULL ? import_text(import, mode) : "selective";
  if (strcmp(what, "selective") == 0 && every > 0)
    import_set(import, option, "recompute", "every:%" INT64, every);
  else if (strcmp(what, "selective") == 0 || strcmp(what, "full") == 0 || strcmp(what, "none") == 0)
    import_set(import, mode, "recompute", "%s", what);
  else
    import_notice(import, mode, "not understood, expected none, selective or full: taken for none");
}

static void read_precision(Import *import) {
  const char *converters = import_text(import, "model.converters"), *const param = "training.mixed_precision_param";
  const gboolean is_fp8 = converters != NULL && strstr(converters, "float8") != NULL;
  const gboolean is_mx = converters != NULL && strstr(converters, "linear.mx") != NULL;
  import_set(import, is_fp8 || is_mx ? "model.converters" : param, "precision", "%s",
             is_fp8                                ? "fp8"
             : is_mx                               ? "mxfp8"
             : import_is(import, param, "float32") ? "fp32"
                                                   : "bf16");
}

static void read_memory(Import *import) {
  const char *const offload = "training.enable_cpu_offload";
  if (!import_is(import, offload, "true"))
    return;
  import_set(import, offload, "offload-optimizer", "host");
  import_set(import, offload, "offload-weights", "host");
}

static void read_context(Import *import) {
  const char *const how = PARALLEL "context_parallel_rotate_method";
  if (degree(import, PARALLEL "context_parallel_degree") > 1)
    import_set(import, how, "cp-comm", import_is(import, how, "alltoall") ? "ring" : "all_gather");
}

/* "8B", "30B-A3B": rounded, so that 1B may have 1.24. "17bx16e" is not the size of the whole, and no number none. */
static void read_flavor(Import *import) {
  const ImportKey *flavor = import_find(import, "model.flavor");
  const char *text = flavor != NULL ? flavor->text : "";
  const gsize n = strspn(text, G_CSET_DIGITS "."), n_whole = strspn(text, G_CSET_DIGITS);
  const double unit = g_ascii_toupper(text[n]) == 'B' ? 1e9 : g_ascii_toupper(text[n]) == 'M' ? 1e6 : 0;
  const double size = g_ascii_strtod(text, NULL) * unit;
  if (n_whole == 0 || n > 8 || unit == 0 || size == 0 || g_ascii_isalnum(text[n + 1]))
    return;
  const double rounding = 0.5 * unit / pow(10, n > n_whole ? (double)(n - n_whole - 1) : 0);
  const PlanFileFact fact = {.key = g_strdup_printf("%s \"%s\"", flavor->key, text),
                             .value = (gint64)size,
                             .line = flavor->line,
                             .within = (gint64)MAX(FLAVOR_WITHIN * size, rounding)};
  g_array_append_val(import->file->facts, fact);
}

static void add(const char *key, const char *text, guint line, gpointer data) {
  import_add(data, key, text, line);
}

gboolean import_torchtitan(PlanFile *file, const char *text, gint64 gpus, GError **error) {
  g_auto(Import) import;
  import_init(&import, file, rows, gpus);
  if (!toml_read(file->path, text, add, &import, error))
    return FALSE;
  if (!import_check_known(&import, "torchtitan's keys, such as training.seq_len", error))
    return FALSE;
  file->format = "torchtitan's configuration";
  const gboolean is_compiled =
      import_is(&import, "compile.enable", "true") || import_is(&import, "training.compile", "true");
  import_set(&import, "compile.enable", "framework", is_compiled ? "torchtitan" : "torchtitan-eager");
  if (degree(&import, PARALLEL "tensor_parallel_degree") > 1) /* it always does */
    import_set(&import, PARALLEL "tensor_parallel_degree", "sequence-parallel", "on");
  read_data_parallelism(&import);
  read_batch(&import);
  read_pipeline(&import);
  read_context(&import);
  read_recompute(&import);
  read_precision(&import);
  read_memory(&import);
  read_flavor(&import);
  if (import_find(&import, "model.name") != NULL)
    import_notice(&import, "model.name", "--model says which model that is here");
  return import_take(&import, error);
}
