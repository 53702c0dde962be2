/* Device memory, on the host. Each allocation ends at an inaccessible page, is filled with NaN, and is registered by
 * address, so that a copy, product or transfer on other memory is noticed. Allocating and freeing, also of pinned host
 * memory, waits for all streams, as CUDA may (programming guide, implicit synchronization); a deadlock is reported.
 *
 * The host must not touch device memory. After the host has waited for a stream, all device memory is protected; the
 * next access faults:
 *
 *     a stream's thread   unprotects the allocation and continues
 *     any other thread    is wrong: this is reported, and the process ends
 *
 * Host accesses to an allocation that is unprotected go unnoticed. */
#include "emulated.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>

namespace {

struct Allocation {
  size_t bytes, mapped_bytes; /* the last page is never open */
  char *mapped;
  bool is_pinned, is_open;
};

std::mutex memory_lock; /* not held while the device's memory is touched, but of open allocations */
std::map<const char *, Allocation> allocations; /* by first byte */
size_t held_bytes;
struct sigaction former_action; /* of faults */

size_t page_bytes(void) {
  static const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
  return bytes;
}

void protect(Allocation &of, bool is_open) {
  if (mprotect(of.mapped, of.mapped_bytes - page_bytes(), is_open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
    emulated_fail("mprotect");
  of.is_open = is_open;
}

/* NULL: none has it in its pages. */
Allocation *allocation_around(const char *memory) {
  for (auto &[first, allocation] : allocations)
    if (memory >= allocation.mapped && memory < allocation.mapped + allocation.mapped_bytes)
      return &allocation;
  return nullptr;
}

void say_and_end(const char *text) {
  (void)!write(STDERR_FILENO, text, strlen(text));
  signal(SIGABRT, SIG_DFL);
  abort();
}

/* Faults are of one's own reads and writes, outside of any lock: to take one is as safe as elsewhere. */
void handle_fault(int number, siginfo_t *info, void *context) {
  const char *at = (const char *)info->si_addr;
  memory_lock.lock();
  Allocation *found = allocation_around(at);
  const bool is_past = found != nullptr && at >= found->mapped + found->mapped_bytes - page_bytes();
  if (found != nullptr && emulated_is_stream && !is_past) {
    protect(*found, true); /* open already: another stream was faster */
    memory_lock.unlock();
    return;
  }
  memory_lock.unlock();
  if (is_past)
    say_and_end("emulated CUDA: memory is read or written past its end\n");
  if (found != nullptr)
    say_and_end("emulated CUDA: the host touches memory of the device\n");
  sigaction(number, &former_action, nullptr); /* the fault comes again */
}

void catch_faults(void) {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = handle_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &former_action);
  });
}

cudaError_t allocate(void **memory, size_t bytes, bool is_pinned) {
  const size_t page = page_bytes(), room = (bytes + 255) / 256 * 256;
  const size_t mapped_bytes = (room + page - 1) / page * page + page;
  catch_faults();
  std::lock_guard<std::mutex> guard(memory_lock);
  if (bytes == 0 || (!is_pinned && held_bytes + bytes > EMULATED_TOTAL_BYTES))
    return emulated_answer(bytes == 0 ? cudaErrorInvalidValue : cudaErrorMemoryAllocation);
  char *mapped =
      (char *)mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    return emulated_answer(cudaErrorMemoryAllocation);
  mprotect(mapped + mapped_bytes - page, page, PROT_NONE);
  char *first = mapped + mapped_bytes - page - room; /* 256-byte aligned: pages are */
  memset(first, 0xff, std::min(room, EMULATED_FILLED_BYTES));
  memset(first + bytes, 0xff, room - bytes);
  allocations[first] = {bytes, mapped_bytes, mapped, is_pinned, true};
  held_bytes += is_pinned ? 0 : bytes;
  *memory = first;
  return cudaSuccess;
}

void release(void *memory, bool is_pinned, const char *who) {
  if (memory == nullptr)
    return;
  emulated_await_all_streams(who);
  std::lock_guard<std::mutex> guard(memory_lock);
  const auto found = allocations.find((const char *)memory);
  if (found == allocations.end() || found->second.is_pinned != is_pinned)
    emulated_fail((std::string(who) + " of memory that was not allocated so").c_str());
  protect(found->second, true);
  for (size_t i = found->second.bytes; i < (found->second.bytes + 255) / 256 * 256; i++)
    if (((unsigned char *)memory)[i] != 0xff)
      emulated_fail("memory was written past its end");
  munmap(found->second.mapped, found->second.mapped_bytes);
  held_bytes -= is_pinned ? 0 : found->second.bytes;
  allocations.erase(found);
}

/* The whole range lies in an allocation; *is_pinned: of which kind. */
bool is_known(const void *memory, size_t bytes, bool *is_pinned) {
  std::lock_guard<std::mutex> guard(memory_lock);
  auto found = allocations.upper_bound((const char *)memory);
  if (found == allocations.begin())
    return false;
  --found;
  *is_pinned = found->second.is_pinned;
  return (const char *)memory + bytes <= found->first + found->second.bytes;
}

} // namespace

thread_local bool emulated_is_stream = false;

void emulated_close_memory(void) {
  std::lock_guard<std::mutex> guard(memory_lock);
  for (auto &[first, allocation] : allocations)
    if (allocation.is_open && !allocation.is_pinned)
      protect(allocation, false);
}

void emulated_check_memory(const void *memory, size_t bytes, bool or_pinned, const char *who) {
  bool is_pinned = false;
  if (bytes > 0 && (!is_known(memory, bytes, &is_pinned) || (is_pinned && !or_pinned)))
    emulated_fail((std::string(who) + ": memory that is not the device's, or past its end").c_str());
}

extern "C" {

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  std::lock_guard<std::mutex> guard(memory_lock);
  *total_bytes = EMULATED_TOTAL_BYTES;
  *free_bytes = EMULATED_TOTAL_BYTES - held_bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes) {
  emulated_await_all_streams("cudaMalloc");
  return allocate(memory, bytes, false);
}

cudaError_t cudaFree(void *memory) {
  release(memory, false, "cudaFree");
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags) {
  emulated_await_all_streams("cudaHostAlloc");
  return allocate(memory, bytes, true);
}

cudaError_t cudaFreeHost(void *memory) {
  release(memory, true, "cudaFreeHost");
  return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
  *device = host;
  return cudaSuccess;
}
}
