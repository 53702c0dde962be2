/* A GPU file describes the chip itself, its memory (hbm), and what its kernels reach (matmul, attention, latency), in
 * one table each: key, target, range, unit. A format with a peak must have the share of it that large products sustain,
 * and vice versa, so that no rate is half described. The mapping `measured` is optional and has its own reader. */
#include "gpu.h"

#include <string.h>

#include "error.h"
#include "yaml_base.h"

typedef struct {
  Gpu gpu;
  YamlNode tiles, measured;
} Draft;

#define IN_GPU(member) offsetof(Draft, gpu.member)

static const char *const host_names[] = {"other", "grace", NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(host_names) == N_GPU_HOSTS + 1);
const char *const architecture_names[N_ARCHITECTURES + 1] = {"other", "volta", "ampere", "ada", "hopper", "blackwell"};

static const YamlField flops = {.type = FIELD_QUANTITY, .min = 1e6, .max = 1e18, .unit = UNIT_FLOPS_PER_SECOND};
static const YamlField share = {.type = FIELD_NUMBER, .min = 1e-3, .max = 1};

static const YamlField hbm_fields[] = {
    {"capacity", FIELD_QUANTITY, TRUE, IN_GPU(hbm_bytes), 1e6, 1e15, UNIT_BYTES},
    {"reserved", FIELD_QUANTITY, TRUE, IN_GPU(reserved_bytes), 0, 1e15, UNIT_BYTES},
    {"bandwidth", FIELD_QUANTITY, TRUE, IN_GPU(hbm_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"efficiency", FIELD_NUMBER, TRUE, IN_GPU(hbm_efficiency), 1e-3, 1},
};

static const YamlField unaligned_fields[] = {
    {"2 B", FIELD_NUMBER, TRUE, UNALIGNED_2 * sizeof(double), 1e-3, 1},
    {"4 B", FIELD_NUMBER, TRUE, UNALIGNED_4 * sizeof(double), 1e-3, 1},
    {"8 B", FIELD_NUMBER, TRUE, UNALIGNED_8 * sizeof(double), 1e-3, 1},
};
G_STATIC_ASSERT(G_N_ELEMENTS(unaligned_fields) == N_UNALIGNED);

#define PER_NUMBER(pattern) .names = number_names, .fields = &(pattern), .stride = sizeof(double)

static const YamlField matmul_fields[] = {
    {"sustained", FIELD_EACH, TRUE, IN_GPU(sustained), PER_NUMBER(share)},
    {"under_load", FIELD_NUMBER, TRUE, IN_GPU(under_load), 0.05, 1},
    {"under_load_of", FIELD_EACH, FALSE, IN_GPU(under_load_of), PER_NUMBER(share)},
    {"k_ramp", FIELD_NUMBER, TRUE, IN_GPU(k_ramp), 0, 1e5},
    {"accumulate_exposed", FIELD_NUMBER, FALSE, IN_GPU(accumulate_exposed), 0, 1},
    {"grouped_exposed", FIELD_NUMBER, FALSE, IN_GPU(grouped_exposed), 0, 1},
    {"unaligned", FIELD_MAP, FALSE, IN_GPU(unaligned), YAML_FIELDS(unaligned_fields)},
    {"unaligned_batched", FIELD_MAP, FALSE, IN_GPU(unaligned_batched), YAML_FIELDS(unaligned_fields)},
    {"unaligned_tf32", FIELD_NUMBER, FALSE, IN_GPU(unaligned_tf32), 1e-3, 1},
    {"tiles", FIELD_NODE, TRUE, offsetof(Draft, tiles)},
};

static const YamlField tile_fields[] = {
    {"m", FIELD_INT, TRUE, offsetof(GpuTile, m), 1, 65536},
    {"n", FIELD_INT, TRUE, offsetof(GpuTile, n), 1, 65536},
    {"efficiency", FIELD_NUMBER, TRUE, offsetof(GpuTile, efficiency), 1e-3, 1},
};

static const YamlField narrow_fields[] = {
    {"up_to", FIELD_INT, TRUE, IN_GPU(attention_narrow_head), 1, 1024},
    {"rate", FIELD_NUMBER, TRUE, IN_GPU(attention_narrow), 0.05, 1},
};

static const YamlField narrow_flash_2_fields[] = {
    {"up_to", FIELD_INT, TRUE, IN_GPU(flash_2.narrow_head), 1, 1024},
    {"rate", FIELD_NUMBER, TRUE, IN_GPU(flash_2.narrow), 0.05, 1},
};

static const YamlField flash_2_fields[] = {
    {"forward", FIELD_NUMBER, TRUE, IN_GPU(flash_2.forward), 1e-3, 1},
    {"backward", FIELD_NUMBER, TRUE, IN_GPU(flash_2.backward), 1e-3, 1},
    {"ramp", FIELD_NUMBER, FALSE, IN_GPU(flash_2.ramp), 0, 1e5},
    {"narrow_heads", FIELD_MAP, FALSE, YAML_FIELDS(narrow_flash_2_fields)},
};

static const YamlField attention_fields[] = {
    {"forward", FIELD_NUMBER, TRUE, IN_GPU(attention_forward), 1e-3, 1},
    {"backward", FIELD_NUMBER, TRUE, IN_GPU(attention_backward), 1e-3, 1},
    {"ramp", FIELD_NUMBER, FALSE, IN_GPU(attention_ramp_forward), 0, 1e5},
    {"of_generation", FIELD_NUMBER, FALSE, IN_GPU(attention_of_generation), 0.05, 1},
    {"wide_keys", FIELD_NUMBER, FALSE, IN_GPU(attention_wide), 0.05, 1},
    {"narrow_heads", FIELD_MAP, FALSE, YAML_FIELDS(narrow_fields)},
    {"head_multiple", FIELD_INT, FALSE, IN_GPU(attention_head_multiple), 1, 1024},
    {"flash_2", FIELD_MAP, FALSE, YAML_FIELDS(flash_2_fields)},
};

static const YamlField latency_fields[] = {
    {"kernel", FIELD_QUANTITY, TRUE, IN_GPU(kernel_latency_s), 0, 1, UNIT_SECONDS},
    {"host_launch", FIELD_QUANTITY, TRUE, IN_GPU(host_launch_s), 0, 1, UNIT_SECONDS},
    {"host", FIELD_CHOICE, FALSE, IN_GPU(host), .names = host_names},
};

static const YamlField top_fields[] = {
    {"name", FIELD_TEXT, TRUE, IN_GPU(name)},
    {"source", FIELD_TEXT, TRUE, IN_GPU(source)},
    {"architecture", FIELD_CHOICE, FALSE, IN_GPU(architecture), .names = architecture_names},
    {"sms", FIELD_INT, TRUE, IN_GPU(n_sms), 1, 10000},
    {"clock", FIELD_QUANTITY, TRUE, IN_GPU(clock_Hz), 1e8, 1e11, UNIT_HERTZ},
    {"power", FIELD_QUANTITY, FALSE, IN_GPU(power_W), 1, 1e5, UNIT_WATTS},
    {"peak", FIELD_EACH, TRUE, IN_GPU(peak_flops), PER_NUMBER(flops)},
    {"hbm", FIELD_MAP, TRUE, YAML_FIELDS(hbm_fields)},
    {"matmul", FIELD_MAP, TRUE, YAML_FIELDS(matmul_fields)},
    {"attention", FIELD_MAP, TRUE, YAML_FIELDS(attention_fields)},
    {"latency", FIELD_MAP, TRUE, YAML_FIELDS(latency_fields)},
    {"measured", FIELD_NODE, FALSE, offsetof(Draft, measured)},
};

static gboolean check_rates(const Gpu *gpu, YamlNode root, GError **error) {
  const YamlNode peak = yaml_map_value(root, "peak"),
                 sustained = yaml_map_value(yaml_map_value(root, "matmul"), "sustained");
  gboolean any = FALSE;
  for (int i = 0; i < N_NUMBERS; i++) {
    if (gpu->peak_flops[i] > 0 && gpu->sustained[i] == 0)
      return yaml_fail(sustained, error, "the key \"%s\" is missing, as peak has it", number_names[i]);
    if (gpu->peak_flops[i] == 0 && gpu->sustained[i] > 0)
      return yaml_fail(sustained, error, "found the key \"%s\", which peak lacks", number_names[i]);
    any = any || gpu->peak_flops[i] > 0;
  }
  return any || yaml_fail(peak, error, "found no key, expected the peak of at least one number format");
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
static gboolean check_shares(YamlNode root, const char *key, const double shares[N_UNALIGNED], GError **error) {
  for (int i = 1; i < N_UNALIGNED; i++)
    if (shares[i] < shares[i - 1])
      return yaml_fail(yaml_map_value(yaml_map_value(root, "matmul"), key), error,
                       "found less at \"%s\" than at \"%s\", expected shares that do not fall", unaligned_fields[i].key,
                       unaligned_fields[i - 1].key);
  return TRUE;
}

static gboolean read_measured(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->measured))
    return TRUE;
  draft->gpu.measured = measured_kernels_read(draft->measured, draft->gpu.peak_flops, error);
  return draft->gpu.measured != NULL;
}

static gboolean read_draft(YamlNode root, Draft *draft, GError **error) {
  Gpu *gpu = &draft->gpu;
  if (!yaml_map_read(root, top_fields, G_N_ELEMENTS(top_fields), draft, error) || !check_rates(gpu, root, error) ||
      !check_shares(root, "unaligned", gpu->unaligned, error) ||
      !check_shares(root, "unaligned_batched", gpu->unaligned_batched, error) || !read_tiles(draft, error) ||
      !read_measured(draft, error))
    return FALSE;
  if (gpu->unaligned_batched[0] == 0) /* not stated: as single products */
    memcpy(gpu->unaligned_batched, gpu->unaligned, sizeof gpu->unaligned);
  gpu->attention_ramp_backward = gpu->attention_ramp_forward; /* `ramp` sets both */
  if (gpu->reserved_bytes >= gpu->hbm_bytes)
    return yaml_fail(yaml_map_value(root, "hbm"), error, "found as much memory reserved as there is, expected less");
  return TRUE;
}

gboolean gpu_read(const char *file, Gpu *gpu, GError **error) {
  g_autoptr(GPtrArray) bases = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(YamlFile) yaml = yaml_read_over_bases(file, "topologies/gpus", bases, error);
  if (yaml == NULL)
    return FALSE;
  Draft draft = {.gpu.rate = 1, .gpu.attention_wide = 1, .gpu.attention_head_multiple = 1};
  if (!read_draft(yaml_file_root(yaml), &draft, error)) {
    gpu_clear(&draft.gpu);
    return yaml_prefix_over_base(yaml, error);
  }
  *gpu = draft.gpu;
  gpu->file = g_strdup(file);
  gpu->bases = g_steal_pointer(&bases);
  return TRUE;
}

Gpu gpu_of_flash_2(const Gpu *gpu) {
  Gpu slower = *gpu;
  if (gpu->flash_2.forward <= 0)
    return slower;
  slower.attention_forward = gpu->flash_2.forward;
  slower.attention_backward = gpu->flash_2.backward;
  slower.attention_ramp_forward = slower.attention_ramp_backward = gpu->flash_2.ramp;
  slower.attention_narrow_head = gpu->flash_2.narrow_head;
  slower.attention_narrow = gpu->flash_2.narrow;
  return slower;
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
