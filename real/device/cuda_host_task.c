/* Host steps in stream order, without CUDA's host callbacks: a step may wait for another rank, and CUDA runs the
 * callbacks of all streams on one thread.
 *
 * Each stream has two words in pinned host memory. For the k-th task of a stream, the host thread enqueues:
 *
 *     stream   … earlier work │ write ready = k │ wait until done ≥ k │ later work …
 *     poller                         sees ready ≥ k: step() … step() → TRUE: done = k
 *
 * The driver's stream memory operations (of every GPU since CUDA 12) write and wait for the words. One poller thread
 * serves all streams of the device: it steps the first task of every stream that has reached it. After the device has
 * failed, tasks end without being stepped. Words are compared as CUDA does, modulo 2³². */
#include "cuda_parts.h"

#include <cudaTypedefs.h>

/* Each word has a cache line of its own. */
typedef struct {
  guint32 ready;
  guint32 pad[31];
  guint32 done;
  guint32 more_pad[31];
} Words;

typedef struct {
  HostStep step;
  gpointer data;
  guint32 number;
} Task;

struct CudaQueue {
  CudaTasks *tasks;
  Words *words;          /* pinned */
  CUdeviceptr on_device; /* of words */
  guint32 n_issued;
  GQueue waiting; /* of Task, owned; under the lock of CudaTasks */
};

struct CudaTasks {
  CudaDevice *device;
  PFN_cuStreamWriteValue32_v11070 write_value;
  PFN_cuStreamWaitValue32_v11070 wait_value;
  GThread *poller;
  GMutex lock;
  GCond wake;
  GPtrArray *queues;  /* of CudaQueue, not owned */
  CudaQueue *stepped; /* the one whose step is running now, without the lock */
  gint n_waiting;     /* tasks in all queues */
  gboolean is_closing;
};

/* Looks in the driver that the runtime has loaded: libcuda itself is not linked. */
static gboolean find_driver_call(const char *name, void **function, GError **error) {
  enum cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion(name, function, 12000, cudaEnableDefault, &result);
#else
  const cudaError_t status = cudaGetDriverEntryPoint(name, function, cudaEnableDefault, &result);
#endif
  if (!CUDA_CALL(status, error))
    return FALSE;
  return result == cudaDriverEntryPointSuccess || fail_impossible(error, "the CUDA driver has no %s", name);
}

/* TRUE: the queue's first task has ended. The step runs without the lock, as it may take a while; only the poller
 * removes tasks. */
static gboolean step_queue(CudaTasks *tasks, CudaQueue *queue) {
  Task *task = g_queue_peek_head(&queue->waiting);
  const gboolean has_failed = cuda_device_has_failed(&tasks->device->device);
  if (task == NULL ||
      (!has_failed && (gint32)((guint32)g_atomic_int_get((gint *)&queue->words->ready) - task->number) < 0))
    return FALSE;
  gboolean is_done = has_failed;
  if (!is_done) {
    GError *error = NULL;
    tasks->stepped = queue;
    g_mutex_unlock(&tasks->lock);
    is_done = task->step(task->data, &error);
    if (error != NULL) {
      cuda_device_fail(&tasks->device->device, error);
      is_done = TRUE;
    }
    g_mutex_lock(&tasks->lock);
    tasks->stepped = NULL;
  }
  if (!is_done)
    return FALSE;
  g_atomic_int_set((gint *)&queue->words->done, (gint)task->number);
  g_free(g_queue_pop_head(&queue->waiting));
  tasks->n_waiting--;
  return TRUE;
}

/* Spins, yielding, for a while after a task ended; then sleeps between polls for 1/256 of the time waited so far. */
static gpointer poll_tasks(gpointer data) {
  CudaTasks *tasks = data;
  const gint64 close_ns = 200 * 1000, longest_us = 200;
  gint64 last_ns = 0;
  g_mutex_lock(&tasks->lock);
  while (!tasks->is_closing) {
    if (tasks->n_waiting == 0) {
      g_cond_wait(&tasks->wake, &tasks->lock);
      last_ns = host_now_ns();
      continue;
    }
    for (guint i = 0; i < tasks->queues->len; i++)
      if (step_queue(tasks, g_ptr_array_index(tasks->queues, i)))
        last_ns = host_now_ns();
    g_mutex_unlock(&tasks->lock);
    const gint64 waited_ns = host_now_ns() - last_ns;
    if (waited_ns < close_ns)
      g_thread_yield();
    else
      g_usleep((gulong)CLAMP(waited_ns / 256 / 1000, 10, longest_us));
    g_mutex_lock(&tasks->lock);
  }
  g_mutex_unlock(&tasks->lock);
  return NULL;
}

CudaTasks *cuda_tasks_new(CudaDevice *device, GError **error) {
  CudaTasks *tasks = g_new0(CudaTasks, 1);
  tasks->device = device;
  tasks->queues = g_ptr_array_new();
  g_mutex_init(&tasks->lock);
  g_cond_init(&tasks->wake);
  if (find_driver_call("cuStreamWriteValue32", (void **)&tasks->write_value, error) &&
      find_driver_call("cuStreamWaitValue32", (void **)&tasks->wait_value, error)) {
    tasks->poller = g_thread_new("cuda host tasks", poll_tasks, tasks);
    return tasks;
  }
  cuda_tasks_free(tasks);
  return NULL;
}

void cuda_tasks_free(CudaTasks *tasks) {
  if (tasks == NULL)
    return;
  g_mutex_lock(&tasks->lock);
  tasks->is_closing = TRUE;
  g_cond_signal(&tasks->wake);
  g_mutex_unlock(&tasks->lock);
  if (tasks->poller != NULL)
    g_thread_join(tasks->poller);
  g_ptr_array_unref(tasks->queues);
  g_mutex_clear(&tasks->lock);
  g_cond_clear(&tasks->wake);
  g_free(tasks);
}

CudaQueue *cuda_queue_new(CudaTasks *tasks, cudaStream_t stream, GError **error) {
  CudaQueue *queue = g_new0(CudaQueue, 1);
  queue->tasks = tasks;
  void *on_device = NULL;
  if (!CUDA_CALL(cudaHostAlloc((void **)&queue->words, sizeof(Words), cudaHostAllocPortable | cudaHostAllocMapped),
                 error) ||
      !CUDA_CALL(cudaHostGetDevicePointer(&on_device, queue->words, 0), error)) {
    (void)cudaFreeHost(queue->words);
    g_free(queue);
    return NULL;
  }
  *queue->words = (Words){0};
  queue->on_device = (CUdeviceptr)(guintptr)on_device;
  g_mutex_lock(&tasks->lock);
  g_ptr_array_add(tasks->queues, queue);
  g_mutex_unlock(&tasks->lock);
  return queue;
}

void cuda_queue_release(CudaQueue *queue) {
  if (queue == NULL)
    return;
  CudaTasks *tasks = queue->tasks;
  g_mutex_lock(&tasks->lock);
  while (tasks->stepped == queue) { /* steps do not block */
    g_mutex_unlock(&tasks->lock);
    g_thread_yield();
    g_mutex_lock(&tasks->lock);
  }
  g_ptr_array_remove(tasks->queues, queue);
  tasks->n_waiting -= (gint)queue->waiting.length;
  g_queue_clear_full(&queue->waiting, g_free);
  g_atomic_int_set((gint *)&queue->words->done, (gint)queue->n_issued);
  g_mutex_unlock(&tasks->lock);
}

void cuda_queue_free(CudaQueue *queue) {
  if (queue == NULL)
    return;
  (void)cudaFreeHost(queue->words);
  g_free(queue);
}

static gboolean put_on_stream(const CudaQueue *queue, cudaStream_t stream, guint32 number, GError **error) {
  const CUdeviceptr ready = queue->on_device + G_STRUCT_OFFSET(Words, ready);
  const CUdeviceptr done = queue->on_device + G_STRUCT_OFFSET(Words, done);
  CUresult result = queue->tasks->write_value((CUstream)stream, ready, number, CU_STREAM_WRITE_VALUE_DEFAULT);
  if (result != CUDA_SUCCESS)
    return fail_impossible(error, "cuStreamWriteValue32: CUresult %d", (int)result);
  result = queue->tasks->wait_value((CUstream)stream, done, number, CU_STREAM_WAIT_VALUE_GEQ);
  return result == CUDA_SUCCESS || fail_impossible(error, "cuStreamWaitValue32: CUresult %d", (int)result);
}

void cuda_stream_host_task(DeviceStream *base, HostStep step, gpointer data) {
  CudaStream *stream = (CudaStream *)base;
  CudaDevice *device = (CudaDevice *)base->device;
  CudaQueue *queue = stream->queue;
  CudaTasks *tasks = queue->tasks;
  if (!cuda_device_enter(device))
    return;
  Task *task = g_new(Task, 1);
  *task = (Task){step, data, ++queue->n_issued};
  g_mutex_lock(&tasks->lock);
  g_queue_push_tail(&queue->waiting, task);
  tasks->n_waiting++;
  g_cond_signal(&tasks->wake);
  g_mutex_unlock(&tasks->lock);
  GError *error = NULL;
  if (!put_on_stream(queue, stream->handle, task->number, &error)) /* the poller then ends the task unstepped */
    cuda_device_fail(&device->device, error);
}
