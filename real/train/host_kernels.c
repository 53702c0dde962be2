#include "host_kernels.h"

#include "cpu_kernels.h"

typedef struct {
  const Kernel *kernels;
  gint n;
  gint next; /* atomic: next kernel not yet taken */
  gint has_failed;
} Queue;

int host_kernels_threads(const DeviceType *device, const World *world) {
  return device->is_host_memory ? 1 : MAX(1, (int)g_get_num_processors() / world_n_local(world));
}

static gpointer run_from(gpointer data) {
  Queue *queue = data;
  g_autoptr(CpuScratch) scratch = cpu_scratch_new();
  for (gint i; (i = g_atomic_int_add(&queue->next, 1)) < queue->n;)
    if (!cpu_kernel_run(&queue->kernels[i], scratch, NULL))
      g_atomic_int_set(&queue->has_failed, TRUE);
  return NULL;
}

gboolean host_kernels_run(const Kernel *kernels, int n, int n_threads) {
  Queue queue = {kernels, n, 0, FALSE};
  const int n_more = MIN(n_threads, n) - 1;
  g_autofree GThread **more = g_new0(GThread *, MAX(n_more, 1));
  for (int i = 0; i < n_more; i++)
    more[i] = g_thread_new("host kernels", run_from, &queue);
  run_from(&queue);
  for (int i = 0; i < n_more; i++)
    g_thread_join(more[i]);
  return !g_atomic_int_get(&queue.has_failed);
}
