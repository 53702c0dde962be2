/* Inside the emulation: what its files share. */
#pragma once
#include "dialect.h"

#include <functional>
#include <unistd.h>

/* Ends the process: what ran is wrong, and on a GPU its outcome would be a matter of luck. */
[[noreturn]] void emulated_fail(const char *what);

/* Until `is_over`, looked at ever more seldom: others need the cores. */
template <typename Condition> void emulated_await(Condition is_over) {
  for (unsigned us = 5; !is_over(); us = us < 500 ? 2 * us : us)
    usleep(us);
}

/* block.cpp: every thread of every block, on the calling thread. */
void emulated_run_grid(const char *name, dim3 grid, dim3 size, size_t shared_bytes, const std::function<void()> &work);

/* runtime.cpp */
cudaError_t emulated_answer(cudaError_t status);                    /* an error is also what cudaGetLastError tells */
void emulated_put(cudaStream_t stream, std::function<void()> work); /* after what is on the stream */
void emulated_await_all_streams(const char *who);

/* memory.cpp */
constexpr size_t EMULATED_TOTAL_BYTES = (size_t)4 << 30;
extern thread_local bool emulated_is_stream; /* this thread works for the device */
/* Fails unless [memory, memory + bytes) lies in one allocation of the device (or pinned, where `or_pinned`). */
void emulated_check_memory(const void *memory, size_t bytes, bool or_pinned, const char *who);
/* From now on threads of the host that touch the device's memory end the process; streams open it again for all. */
void emulated_close_memory(void);
