/* Private to the emulation, shared by its files. */
#pragma once
#include "dialect.h"

#include <atomic>
#include <functional>
#include <unistd.h>

/* Ends the process: the code that ran is wrong, and its result on a GPU would be a matter of luck. */
[[noreturn]] void emulated_fail(const char *what);

/* Waits until `is_over`, polling ever less often: other threads need the cores. */
template <typename Condition> void emulated_await(Condition is_over) {
  for (unsigned us = 5; !is_over(); us = us < 500 ? 2 * us : us)
    usleep(us);
}

constexpr int EMULATED_MULTIPROCESSORS = 132; /* an H100's, for kernels that wait for other GPUs */

/* block.cpp: runs every thread of every block on the calling thread. */
void emulated_run_grid(const char *name, dim3 grid, dim3 size, size_t shared_bytes, const std::function<void()> &work);

/* runtime.cpp */
cudaError_t emulated_answer(cudaError_t status);                    /* cudaGetLastError reports errors too */
void emulated_put(cudaStream_t stream, std::function<void()> work); /* enqueues after earlier work */
/* The same for a kernel. With EMULATED_CUDA_TIMES=EVENT_NS[,DRIFT_NS] in the environment it takes `lasts_ns` and
 * computes nothing; an event takes EVENT_NS, and DRIFT_NS more for every stream made so far; and the time between two
 * events of one stream is that of what is between them, and of the second. */
void emulated_put_kernel(cudaStream_t stream, int64_t lasts_ns, std::function<void()> work);
void emulated_await_all_streams(const char *who);
/* A kernel is launched for the first time, or may be loaded: on a GPU the host may then wait until all streams are
 * idle, which never comes if one waits for a rank that waits for this one. Fails while communicators are in use. */
void emulated_load(const char *what);
extern std::atomic<int> emulated_n_communicating; /* communicators that have been used */

/* memory.cpp */
constexpr size_t EMULATED_TOTAL_BYTES = (size_t)1 << 30;
constexpr size_t EMULATED_FILLED_BYTES = 1 << 20; /* of new memory, with NaN; the rest is 0 */
extern thread_local bool emulated_is_stream;      /* this thread works for the device */
/* Fails unless [memory, memory + bytes) lies in one device allocation (or, with `or_pinned`, a pinned one). */
void emulated_check_memory(const void *memory, size_t bytes, bool or_pinned, const char *who);
/* From now on a host thread that touches device memory ends the process; streams reopen it for all. */
void emulated_close_memory(void);
