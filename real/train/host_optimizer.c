#include "host_optimizer.h"

#include "cpu_kernels.h"
#include "error.h"
#include "state.h"

/* --- kernels on the host --- */

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

/* --- chunks --- */

/* Part of a block's shard. */
typedef struct {
  const Block *block;
  gint64 first, n;
} Part;

/* The parts of a chunk, of at most `most` elements each; array of Part. */
static GArray *parts_of_chunk(const Trainer *trainer, int chunk, gint64 most) {
  const Parameters *parameters = trainer->parameters;
  GArray *parts = g_array_new(FALSE, FALSE, sizeof(Part));
  gint64 total = 0, before = 0;
  for (int i = 0; i < parameters->n_blocks; i++)
    total += parameters->blocks[i].host_n;
  const gint64 begin = total * chunk / trainer->n_updates, end = total * (chunk + 1) / trainer->n_updates;
  for (int i = 0; i < parameters->n_blocks; i++) {
    const Block *block = &parameters->blocks[i];
    const gint64 last = MIN(end - before, block->host_n);
    for (Part part = {block, MAX(begin - before, 0), 0}; part.first < last; part.first += part.n) {
      part.n = MIN(most, last - part.first);
      g_array_append_val(parts, part);
    }
    before += block->host_n;
  }
  return parts;
}

static char *at(void *base, gint64 element, int number) {
  return (char *)base + element * kernel_element_bytes((Number)number);
}

/* --- update --- */

typedef struct {
  const Trainer *trainer;
  int step;
  const double *norm_squared;
  const LossScale *scale;
} Update;

static Kernel adam_of(const Update *update, const Part *part) {
  const Block *block = part->block;
  AdamKernel adam = state_adam(update->trainer, block, update->step);
  adam.n = part->n;
  adam.weight = at(block->host_weight, part->first, adam.number);
  adam.master = block->on_host.master != NULL ? block->on_host.master + part->first : NULL;
  adam.gradients = at(block->host_gradient, part->first, adam.gradient);
  adam.m = block->on_host.m + part->first;
  adam.v = block->on_host.v + part->first;
  adam.norm_squared = update->norm_squared;
  adam.scale = update->scale;
  return (Kernel){.kind = KERNEL_ADAM, .adam = adam};
}

gboolean host_optimizer_step(const Trainer *trainer, int step, int chunk, const double *norm_squared,
                             const LossScale *scale, int n_threads, GError **error) {
  g_autoptr(GArray) parts = parts_of_chunk(trainer, chunk, HOST_OPTIMIZER_PART);
  const Update update = {trainer, step, norm_squared, scale};
  g_autofree Kernel *kernels = g_new(Kernel, parts->len + 1);
  for (guint i = 0; i < parts->len; i++)
    kernels[i] = adam_of(&update, &g_array_index(parts, Part, i));
  return host_kernels_run(kernels, (int)parts->len, n_threads) ||
         fail_impossible(error, "the update on the host has failed");
}

/* --- weights --- */

void host_optimizer_weights_back(const Trainer *trainer, int chunk, DeviceStream *stream) {
  const int number = trainer->parameters->number;
  g_autoptr(GArray) parts = parts_of_chunk(trainer, chunk, G_MAXINT64);
  for (guint i = 0; i < parts->len; i++) {
    const Part *part = &g_array_index(parts, Part, i);
    const gint64 own = zero_shards_weights(part->block->zero) ? 0 : part->block->shard_first;
    stream->device->type->copy(stream, at(part->block->weight, own + part->first, number),
                               at(part->block->host_weight, part->first, number),
                               part->n * kernel_element_bytes((Number)number));
  }
}
