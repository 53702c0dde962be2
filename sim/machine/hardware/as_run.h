/* What runs on a cluster showed beyond its parts' own files, as `stepsim fit` finds it:
 *
 *     as_run:
 *       rate: 0.94              # share of the rate that products and attention reach, of what GPU and framework say
 *       memory_rate: 1.02       # the same of memory-bound kernels
 *       network_falls: 0.2      # a NIC's bandwidth in a job over n nodes is divided by (n / 2)^this
 *       host_time: 1.3          # factor on host times, of the framework and to launch a kernel
 *       collective_host: 20 us  # host time of a collective of tp, per member, in jobs over several scale-up domains
 *       collective_host_beside_sends: 20 us  # the same besides, where a pipeline's sends cross domains, too
 *       step: 12 ms             # of every step, beyond the framework's own
 *       memory: 1.2 GB          # of every GPU, beyond what its file reserves
 *       error: 0.05             # 80 % of such runs' times are within this of what is predicted, in either direction
 *
 * All of it is optional. */
#pragma once
#include "gpu.h"
#include "yaml_node.h"

/* As in the file; its defaults are as_run_none. */
typedef struct {
  double rate, memory_rate;
  double network_falls;
  double host_time;
  double collective_host_s, beside_sends_host_s;
  double step_s;
  double memory_bytes;
  double error; /* |ln(measured / predicted)|; 0: not stated */
} AsRun;
extern const AsRun as_run_none;

/* Reads `map`; an absent one is as_run_none. INPUT with file:line. */
gboolean as_run_read(YamlNode map, AsRun *as_run, GError **error);
/* A GPU, which is as `from` left it, becomes as `to` says. INPUT if nothing is left of its memory. */
gboolean as_run_apply(const AsRun *from, const AsRun *to, Gpu *gpu, GError **error);
