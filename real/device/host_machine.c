/* Cores are divided among ranks in numerical order, so that no two ranks' workers compete for one:
 *
 *      may use   0 1 2 3 4 5 6 7          n_local = 3
 *      rank 0    0 1                      [0·8/3, 1·8/3)
 *      rank 1        2 3 4                [1·8/3, 2·8/3)
 *      rank 2              5 6 7
 *
 * A launcher that binds (srun --cpu-bind, mpirun -bind-to) gives its children fewer cores than it has itself: then the
 * share is already cut. A `taskset` around the launcher restricts both alike, and its cores are divided here. */
#include "host_machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

gint64 host_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (gint64)now.tv_sec * 1000000000 + now.tv_nsec;
}

#ifdef __linux__

enum { MAX_CORES = 8192 };

static cpu_set_t *cores_of_process(pid_t process, gsize *bytes) {
  *bytes = CPU_ALLOC_SIZE(MAX_CORES);
  cpu_set_t *set = g_malloc0(*bytes);
  if (sched_getaffinity(process, *bytes, set) != 0)
    g_clear_pointer(&set, g_free);
  return set;
}

static gboolean launcher_has_bound(int n_cores) {
  gsize bytes;
  g_autofree cpu_set_t *set = cores_of_process(getppid(), &bytes);
  return set != NULL && CPU_COUNT_S(bytes, set) > n_cores;
}

HostCores host_cores(int local_rank, int n_local) {
  HostCores cores = {.n_cores = 1, .first_core = -1};
  gsize bytes;
  g_autofree cpu_set_t *all = cores_of_process(0, &bytes);
  if (all == NULL)
    return cores;
  cores.n_cores = CPU_COUNT_S(bytes, all);
  const gboolean is_chosen = launcher_has_bound(cores.n_cores);
  cores.is_bound = cores.n_cores >= n_local && !is_chosen;
  cores.is_crowded = cores.n_cores < n_local && !is_chosen;
  int from = cores.is_bound ? (int)((gint64)cores.n_cores * local_rank / n_local) : 0;
  int to = cores.is_bound ? (int)((gint64)cores.n_cores * (local_rank + 1) / n_local) : cores.n_cores;
  cpu_set_t *share = g_malloc0(bytes);
  for (int core = 0, nth = 0; core < MAX_CORES; core++) {
    if (!CPU_ISSET_S((size_t)core, bytes, all))
      continue;
    if (nth >= from && nth < to) {
      CPU_SET_S((size_t)core, bytes, share);
      cores.first_core = cores.first_core < 0 ? core : cores.first_core;
    }
    nth++;
  }
  cores.n_cores = to - from;
  cores.mask = (guint8 *)share;
  cores.mask_bytes = bytes;
  if (!cores.is_bound)
    host_cores_clear(&cores);
  return cores;
}

void host_cores_bind(const HostCores *cores) {
  if (cores->is_bound && sched_setaffinity(0, cores->mask_bytes, (const cpu_set_t *)(const void *)cores->mask) != 0)
    g_debug("cores were not bound");
}

#else

HostCores host_cores(int local_rank, int n_local) {
  return (HostCores){.n_cores = (int)g_get_num_processors(), .first_core = -1};
}

void host_cores_bind(const HostCores *cores) {
}

#endif

void host_cores_clear(HostCores *cores) {
  g_clear_pointer(&cores->mask, g_free);
}

/* The text after "key" and its colon on the first line of a /proc file that starts with it; NULL: none. */
static char *line_of(const char *file, const char *key) {
  g_autofree char *text = NULL;
  if (!g_file_get_contents(file, &text, NULL, NULL))
    return NULL;
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line != NULL; line++) {
    const char *colon = strchr(*line, ':');
    if (colon != NULL && g_str_has_prefix(*line, key))
      return g_strstrip(g_strdup(colon + 1));
  }
  return NULL;
}

/* The number in a file that holds one; −1 if it holds something else ("max"). */
static gint64 number_in(const char *file) {
  g_autofree char *text = NULL;
  if (!g_file_get_contents(file, &text, NULL, NULL) || !g_ascii_isdigit(text[0]))
    return -1;
  return g_ascii_strtoll(text, NULL, 10);
}

gint64 host_available_bytes(void) {
  g_autofree char *available = line_of("/proc/meminfo", "MemAvailable");
  gint64 bytes = available == NULL ? 0 : g_ascii_strtoll(available, NULL, 10) * 1024; /* "12345 kB" */
  gint64 limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  if (limit >= 0 && used >= 0)
    bytes = MIN(bytes, MAX(limit - used, 0));
  return bytes;
}

char *host_processor_name(void) {
  char *name = line_of("/proc/cpuinfo", "model name");
  return name != NULL ? name : g_strdup("CPU");
}

double host_clock_Hz(int core) {
  g_autofree char *file = g_strdup_printf("/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", MAX(core, 0));
  gint64 kHz = number_in(file);
  if (kHz > 0)
    return (double)kHz * 1e3;
  g_autofree char *MHz = line_of("/proc/cpuinfo", "cpu MHz");
  return MHz == NULL ? 0 : g_ascii_strtod(MHz, NULL) * 1e6;
}
