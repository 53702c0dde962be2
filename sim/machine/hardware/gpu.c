/* A GPU file has five mappings: the chip itself (top), its memory (hbm), and what its kernels reach (matmul,
 * attention, latency). Each is one table below: key, target, range, unit. A format with a peak must have the share of
 * it that large products sustain, and vice versa, so that no rate is half described. The sixth mapping, `measured`,
 * is optional and has its own reader. */
#include "gpu.h"

#include <string.h>

#include "error.h"
#include "yaml_base.h"

typedef struct {
  Gpu gpu;
  YamlNode peak, hbm, matmul, sustained, under_load_of, unaligned, unaligned_batched, tiles, attention, narrow_heads,
      latency, measured;
} Draft;

#define IN_GPU(member) offsetof(Draft, gpu.member)

static const char *const host_names[] = {"other", "grace", NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(host_names) == N_GPU_HOSTS + 1);
static const char *const architecture_name_list[] = {"other", "volta", "ampere", "ada", "hopper", "blackwell", NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(architecture_name_list) == N_ARCHITECTURES + 1);

const char *const *architecture_names(void) {
  return architecture_name_list;
}

static const YamlField top_fields[] = {
    {"name", FIELD_TEXT, TRUE, IN_GPU(name)},
    {"source", FIELD_TEXT, TRUE, IN_GPU(source)},
    {"architecture", FIELD_CHOICE, FALSE, IN_GPU(architecture), .names = architecture_name_list},
    {"sms", FIELD_INT, TRUE, IN_GPU(n_sms), 1, 10000},
    {"clock", FIELD_QUANTITY, TRUE, IN_GPU(clock_Hz), 1e8, 1e11, UNIT_HERTZ},
    {"power", FIELD_QUANTITY, FALSE, IN_GPU(power_W), 1, 1e5, UNIT_WATTS},
    {"peak", FIELD_NODE, TRUE, offsetof(Draft, peak)},
    {"hbm", FIELD_NODE, TRUE, offsetof(Draft, hbm)},
    {"matmul", FIELD_NODE, TRUE, offsetof(Draft, matmul)},
    {"attention", FIELD_NODE, TRUE, offsetof(Draft, attention)},
    {"latency", FIELD_NODE, TRUE, offsetof(Draft, latency)},
    {"measured", FIELD_NODE, FALSE, offsetof(Draft, measured)},
};

static const YamlField hbm_fields[] = {
    {"capacity", FIELD_QUANTITY, TRUE, IN_GPU(hbm_bytes), 1e6, 1e15, UNIT_BYTES},
    {"reserved", FIELD_QUANTITY, TRUE, IN_GPU(reserved_bytes), 0, 1e15, UNIT_BYTES},
    {"bandwidth", FIELD_QUANTITY, TRUE, IN_GPU(hbm_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"efficiency", FIELD_NUMBER, TRUE, IN_GPU(hbm_efficiency), 1e-3, 1},
};

static const YamlField matmul_fields[] = {
    {"sustained", FIELD_NODE, TRUE, offsetof(Draft, sustained)},
    {"under_load", FIELD_NUMBER, TRUE, IN_GPU(under_load), 0.05, 1},
    {"under_load_of", FIELD_NODE, FALSE, offsetof(Draft, under_load_of)},
    {"k_ramp", FIELD_NUMBER, TRUE, IN_GPU(k_ramp), 0, 1e5},
    {"accumulate_exposed", FIELD_NUMBER, FALSE, IN_GPU(accumulate_exposed), 0, 1},
    {"grouped_exposed", FIELD_NUMBER, FALSE, IN_GPU(grouped_exposed), 0, 1},
    {"unaligned", FIELD_NODE, FALSE, offsetof(Draft, unaligned)},
    {"unaligned_batched", FIELD_NODE, FALSE, offsetof(Draft, unaligned_batched)},
    {"tiles", FIELD_NODE, TRUE, offsetof(Draft, tiles)},
};

static const YamlField unaligned_fields[] = {
    {"2 B", FIELD_NUMBER, TRUE, UNALIGNED_2 * sizeof(double), 1e-3, 1},
    {"4 B", FIELD_NUMBER, TRUE, UNALIGNED_4 * sizeof(double), 1e-3, 1},
    {"8 B", FIELD_NUMBER, TRUE, UNALIGNED_8 * sizeof(double), 1e-3, 1},
};
G_STATIC_ASSERT(G_N_ELEMENTS(unaligned_fields) == N_UNALIGNED);

static const YamlField tile_fields[] = {
    {"m", FIELD_INT, TRUE, offsetof(GpuTile, m), 1, 65536},
    {"n", FIELD_INT, TRUE, offsetof(GpuTile, n), 1, 65536},
    {"efficiency", FIELD_NUMBER, TRUE, offsetof(GpuTile, efficiency), 1e-3, 1},
};

static const YamlField attention_fields[] = {
    {"forward", FIELD_NUMBER, TRUE, IN_GPU(attention_forward), 1e-3, 1},
    {"backward", FIELD_NUMBER, TRUE, IN_GPU(attention_backward), 1e-3, 1},
    {"ramp", FIELD_NUMBER, FALSE, IN_GPU(attention_ramp_forward), 0, 1e5},
    {"of_generation", FIELD_NUMBER, FALSE, IN_GPU(attention_of_generation), 0.05, 1},
    {"wide_keys", FIELD_NUMBER, FALSE, IN_GPU(attention_wide), 0.05, 1},
    {"narrow_heads", FIELD_NODE, FALSE, offsetof(Draft, narrow_heads)},
    {"head_multiple", FIELD_INT, FALSE, IN_GPU(attention_head_multiple), 1, 1024},
};

static const YamlField narrow_fields[] = {
    {"up_to", FIELD_INT, TRUE, IN_GPU(attention_narrow_head), 1, 1024},
    {"rate", FIELD_NUMBER, TRUE, IN_GPU(attention_narrow), 0.05, 1},
};

static const YamlField latency_fields[] = {
    {"kernel", FIELD_QUANTITY, TRUE, IN_GPU(kernel_latency_s), 0, 1, UNIT_SECONDS},
    {"host_launch", FIELD_QUANTITY, TRUE, IN_GPU(host_launch_s), 0, 1, UNIT_SECONDS},
    {"host", FIELD_CHOICE, FALSE, IN_GPU(host), .names = host_names},
};

/* Read a mapping from number formats to a double each, using `pattern` with the key and offset of every format in
 * turn. */
static gboolean read_per_number(YamlNode map, const YamlField *pattern, double *values, GError **error) {
  YamlField fields[N_NUMBERS];
  for (int i = 0; i < N_NUMBERS; i++) {
    fields[i] = *pattern;
    fields[i].key = number_name((Number)i);
    fields[i].offset = (size_t)i * sizeof *values;
  }
  return yaml_map_read(map, fields, N_NUMBERS, values, error);
}

static gboolean read_rates(Draft *draft, GError **error) {
  static const YamlField flops = {.type = FIELD_QUANTITY, .min = 1e6, .max = 1e18, .unit = UNIT_FLOPS_PER_SECOND};
  static const YamlField share = {.type = FIELD_NUMBER, .min = 1e-3, .max = 1};
  Gpu *gpu = &draft->gpu;
  if (!read_per_number(draft->peak, &flops, gpu->peak_flops, error) ||
      !read_per_number(draft->sustained, &share, gpu->sustained, error))
    return FALSE;
  if (yaml_is_present(draft->under_load_of) &&
      !read_per_number(draft->under_load_of, &share, gpu->under_load_of, error))
    return FALSE;
  gboolean any = FALSE;
  for (int i = 0; i < N_NUMBERS; i++) {
    const char *name = number_name((Number)i);
    if (gpu->peak_flops[i] > 0 && gpu->sustained[i] == 0)
      return yaml_fail(draft->sustained, error, "the key \"%s\" is missing, as peak has it", name);
    if (gpu->peak_flops[i] == 0 && gpu->sustained[i] > 0)
      return yaml_fail(draft->sustained, error, "found the key \"%s\", which peak lacks", name);
    any = any || gpu->peak_flops[i] > 0;
  }
  return any || yaml_fail(draft->peak, error, "found no key, expected the peak of at least one number format");
}

static gboolean read_tiles(Draft *draft, GError **error) {
  int n_tiles = yaml_list_length(draft->tiles, GPU_MAX_TILES, error);
  for (int i = 0; i < n_tiles; i++)
    if (!yaml_map_read(yaml_list_item(draft->tiles, i), tile_fields, G_N_ELEMENTS(tile_fields), &draft->gpu.tiles[i],
                       error))
      return FALSE;
  draft->gpu.n_tiles = n_tiles;
  return n_tiles >= 1;
}

/* Worse alignment never gives a higher rate. */
static gboolean read_shares(YamlNode map, double shares[N_UNALIGNED], GError **error) {
  if (!yaml_map_read(map, unaligned_fields, N_UNALIGNED, shares, error))
    return FALSE;
  for (int i = 1; i < N_UNALIGNED; i++)
    if (shares[i] < shares[i - 1])
      return yaml_fail(map, error, "found less at \"%s\" than at \"%s\", expected shares that do not fall",
                       unaligned_fields[i].key, unaligned_fields[i - 1].key);
  return TRUE;
}

/* Batches default to the values of single products. */
static gboolean read_unaligned(Draft *draft, GError **error) {
  Gpu *gpu = &draft->gpu;
  if (yaml_is_present(draft->unaligned) && !read_shares(draft->unaligned, gpu->unaligned, error))
    return FALSE;
  memcpy(gpu->unaligned_batched, gpu->unaligned, sizeof gpu->unaligned);
  return !yaml_is_present(draft->unaligned_batched) ||
         read_shares(draft->unaligned_batched, gpu->unaligned_batched, error);
}

static gboolean read_narrow_heads(Draft *draft, GError **error) {
  return !yaml_is_present(draft->narrow_heads) ||
         yaml_map_read(draft->narrow_heads, narrow_fields, G_N_ELEMENTS(narrow_fields), draft, error);
}

static gboolean read_measured(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->measured))
    return TRUE;
  draft->gpu.measured = measured_kernels_read(draft->measured, draft->gpu.peak_flops, error);
  return draft->gpu.measured != NULL;
}

static gboolean read_draft(YamlNode root, Draft *draft, GError **error) {
  if (!yaml_map_read(root, top_fields, G_N_ELEMENTS(top_fields), draft, error) ||
      !yaml_map_read(draft->hbm, hbm_fields, G_N_ELEMENTS(hbm_fields), draft, error) ||
      !yaml_map_read(draft->matmul, matmul_fields, G_N_ELEMENTS(matmul_fields), draft, error) ||
      !yaml_map_read(draft->attention, attention_fields, G_N_ELEMENTS(attention_fields), draft, error) ||
      !yaml_map_read(draft->latency, latency_fields, G_N_ELEMENTS(latency_fields), draft, error) ||
      !read_narrow_heads(draft, error) || !read_rates(draft, error) || !read_unaligned(draft, error) ||
      !read_tiles(draft, error) || !read_measured(draft, error))
    return FALSE;
  draft->gpu.attention_ramp_backward = draft->gpu.attention_ramp_forward; /* `ramp` sets both */
  if (draft->gpu.reserved_bytes >= draft->gpu.hbm_bytes)
    return yaml_fail(draft->hbm, error, "found as much memory reserved as there is, expected less");
  return TRUE;
}

gboolean gpu_read(const char *file, Gpu *gpu, GError **error) {
  g_autoptr(GPtrArray) bases = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(YamlFile) yaml = yaml_read_over_bases(file, "topologies/gpus", bases, error);
  if (yaml == NULL)
    return FALSE;
  Draft draft = {.gpu.attention_wide = 1, .gpu.attention_head_multiple = 1};
  if (!read_draft(yaml_file_root(yaml), &draft, error)) {
    gpu_clear(&draft.gpu);
    return yaml_prefix_over_base(yaml, error);
  }
  *gpu = draft.gpu;
  gpu->file = g_strdup(file);
  gpu->bases = g_steal_pointer(&bases);
  return TRUE;
}

double gpu_room_bytes(const Gpu *gpu) {
  return gpu->hbm_bytes - gpu->reserved_bytes - gpu->margin_bytes;
}

void gpu_clear(Gpu *gpu) {
  if (gpu == NULL)
    return;
  g_free(gpu->name);
  g_free(gpu->source);
  g_free(gpu->file);
  g_clear_pointer(&gpu->bases, g_ptr_array_unref);
  measured_kernels_free(gpu->measured);
  memset(gpu, 0, sizeof *gpu);
}
