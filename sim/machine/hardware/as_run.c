#include "as_run.h"

#include "error.h"

const AsRun as_run_none = {.rate = 1, .memory_rate = 1, .host_time = 1};

static const YamlField fields[] = {
    {"rate", FIELD_NUMBER, FALSE, offsetof(AsRun, rate), 0.05, 2},
    {"memory_rate", FIELD_NUMBER, FALSE, offsetof(AsRun, memory_rate), 0.05, 2},
    {"network_falls", FIELD_NUMBER, FALSE, offsetof(AsRun, network_falls), 0, 2},
    {"host_time", FIELD_NUMBER, FALSE, offsetof(AsRun, host_time), 0.05, 20},
    {"collective_host", FIELD_QUANTITY, FALSE, offsetof(AsRun, collective_host_s), 0, 1, UNIT_SECONDS},
    {"collective_host_beside_sends", FIELD_QUANTITY, FALSE, offsetof(AsRun, beside_sends_host_s), 0, 1, UNIT_SECONDS},
    {"step", FIELD_QUANTITY, FALSE, offsetof(AsRun, step_s), 0, 1e4, UNIT_SECONDS},
    {"memory", FIELD_QUANTITY, FALSE, offsetof(AsRun, memory_bytes), 0, 1e13, UNIT_BYTES},
    {"error", FIELD_NUMBER, FALSE, offsetof(AsRun, error), 1e-4, 3,
     .what = "share of a step's time that four of five predictions are off by at most, such as 0.05"},
};

gboolean as_run_read(YamlNode map, AsRun *as_run, GError **error) {
  *as_run = as_run_none;
  return !yaml_is_present(map) || yaml_map_read(map, fields, G_N_ELEMENTS(fields), as_run, error);
}

gboolean as_run_apply(const AsRun *from, const AsRun *to, Gpu *gpu, GError **error) {
  gpu->rate *= to->rate / from->rate;
  gpu->hbm_efficiency *= to->memory_rate / from->memory_rate;
  gpu->host_launch_s *= to->host_time / from->host_time;
  gpu->reserved_bytes += to->memory_bytes - from->memory_bytes;
  return gpu_room_bytes(gpu) > 0 ||
         fail_input(error,
                    "as_run.memory: found %.2f GB, which with what is reserved leaves nothing of the %.2f GB of %s",
                    to->memory_bytes / 1e9, gpu->hbm_bytes / 1e9, gpu->name);
}
