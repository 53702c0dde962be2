/* One block of a kernel on one thread of the host: a fiber per CUDA thread, run in turn.
 *
 *     warp by warp, lane by lane: run until it waits or ends
 *     all lanes of an exchange's mask wait  → they continue
 *     all threads of the block wait         → they continue (__syncthreads)
 *     no thread can continue                → the kernel is wrong: this is reported, and the process ends
 *
 * Each host thread makes its fibers once, and a fiber runs one CUDA thread after another. Fibers switch by the
 * compiler's own longjmp, which saves three words; swapcontext would make system calls. */
#include "emulated.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

namespace {

constexpr size_t STACK_BYTES = 64 << 10;
constexpr size_t STAGGER_BYTES = 13 * 64; /* tops of stacks on different lines of the cache */
constexpr unsigned WARP = 32;

using Place = void *[5]; /* where a fiber, or the scheduler, goes on */

struct Fiber {
  Place at;
  dim3 thread;
  unsigned parity; /* of its next exchange */
};

/* Lanes as bits. */
struct Warp {
  unsigned ready, in_exchange, at_barrier, done;
  unsigned masks[WARP];     /* of the exchanges that lanes wait in */
  uint64_t values[2][WARP]; /* of two exchanges: a lane may bring its next value before others have read the last */
};

struct Block {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  std::vector<char> shared;
  std::vector<void *> arrays; /* of shared memory, static in their functions: those that this block has come to */
  Place scheduler;
  bool is_reversed;    /* lanes and warps from the last to the first */
  unsigned first_warp; /* they begin there */
  unsigned index;      /* of the fiber that runs */
  const std::function<void()> *work;
};

thread_local Block *block; /* of this thread of the host: made by its first kernel, kept */

Warp &own_warp(void) {
  return block->warps[block->index / WARP];
}

unsigned own_bit(void) {
  return 1u << emulated_thread.lane;
}

/* Lanes whose exchange is complete are ready. */
void release_exchanges(Warp &warp) {
  unsigned left = warp.in_exchange;
  while (left != 0) {
    const unsigned mask = warp.masks[__builtin_ctz(left)];
    unsigned there = 0;
    for (unsigned lane = 0; lane < WARP; lane++)
      there |= (warp.in_exchange >> lane & 1) && warp.masks[lane] == mask ? 1u << lane : 0;
    left &= ~there;
    if ((mask & ~there) == 0) {
      warp.in_exchange &= ~mask;
      warp.ready |= mask;
    }
  }
}

[[noreturn]] __attribute__((noinline)) void go_on(Place at) {
  __builtin_longjmp(at, 1);
}

/* Where the warp's next lane that can run goes on; the scheduler where there is none. */
void **next_place(unsigned warp_index) {
  Warp &warp = block->warps[warp_index];
  if (warp.ready == 0)
    release_exchanges(warp);
  if (warp.ready == 0)
    return block->scheduler;
  const unsigned lane =
      block->is_reversed ? WARP - 1 - (unsigned)__builtin_clz(warp.ready) : (unsigned)__builtin_ctz(warp.ready);
  warp.ready &= ~(1u << lane);
  block->index = warp_index * WARP + lane;
  emulated_thread.lane = lane;
  Fiber *fiber = block->fibers[block->index].get();
  emulated_thread.thread = fiber->thread;
  return fiber->at;
}

/* To another fiber of the warp, or the scheduler, until it is this one's turn again. A macro: processors foresee where
 * a function returns to by where it was called last, which after a change of fibers is wrong for every function on the
 * way. */
#define PAUSE_FIBER()                                                                                                  \
  do {                                                                                                                 \
    Fiber *paused = block->fibers[block->index].get();                                                                 \
    void **next = next_place(block->index / WARP);                                                                     \
    if (next != paused->at && __builtin_setjmp(paused->at) == 0)                                                       \
      go_on(next);                                                                                                     \
  } while (false)

/* Until none of its lanes can go on. */
__attribute__((noinline)) void run_warp(unsigned index) {
  void **next = next_place(index);
  if (next != block->scheduler && __builtin_setjmp(block->scheduler) == 0)
    go_on(next);
}

__attribute__((noinline)) void wait_for_work(void) {
  if (__builtin_setjmp(block->fibers[block->index]->at) == 0)
    go_on(block->scheduler);
}

void fiber_main(void) {
  wait_for_work();
  for (;;) {
    (*block->work)();
    own_warp().done |= own_bit();
    PAUSE_FIBER();
  }
}

__attribute__((noinline)) void enter(const ucontext_t &start) {
  if (__builtin_setjmp(block->scheduler) == 0)
    setcontext(&start);
}

/* Runs to its first pause, in which it waits for a thread's work. */
void add_fiber(void) {
  ucontext_t start;
  void *stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED || getcontext(&start) != 0)
    emulated_fail("no stack for a fiber");
  start.uc_stack.ss_sp = stack;
  start.uc_stack.ss_size = STACK_BYTES - block->fibers.size() % 64 * STAGGER_BYTES;
  start.uc_link = nullptr;
  makecontext(&start, fiber_main, 0);
  block->index = (unsigned)block->fibers.size();
  block->fibers.push_back(std::make_unique<Fiber>());
  enter(start);
}

struct Counts {
  unsigned in_exchange, at_barrier, done;
};

Counts count_threads(unsigned n_warps) {
  Counts counts = {0, 0, 0};
  for (unsigned i = 0; i < n_warps; i++) {
    counts.in_exchange += (unsigned)__builtin_popcount(block->warps[i].in_exchange);
    counts.at_barrier += (unsigned)__builtin_popcount(block->warps[i].at_barrier);
    counts.done += (unsigned)__builtin_popcount(block->warps[i].done);
  }
  return counts;
}

void fail_stuck(const char *name, const Counts &counts) {
  char text[256];
  snprintf(text, sizeof text,
           "kernel %s, block (%u, %u, %u): %u threads wait at __syncthreads, %u in an exchange of their warp, %u have "
           "ended: nobody can go on",
           name, blockIdx.x, blockIdx.y, blockIdx.z, counts.at_barrier, counts.in_exchange, counts.done);
  emulated_fail(text);
}

void start_threads(dim3 size, unsigned n, unsigned n_warps) {
  for (unsigned i = 0; i < n; i++) {
    block->fibers[i]->parity = 0;
    block->fibers[i]->thread = dim3(i % size.x, i / size.x % size.y, i / size.x / size.y);
  }
  for (unsigned i = 0; i < n_warps; i++) {
    const unsigned n_lanes = std::min(WARP, n - i * WARP);
    Warp &warp = block->warps[i];
    warp.ready = n_lanes == WARP ? 0xffffffffu : (1u << n_lanes) - 1;
    warp.in_exchange = warp.at_barrier = warp.done = 0;
  }
}

void run_block(const char *name, unsigned n) {
  const unsigned n_warps = (n + WARP - 1) / WARP;
  start_threads(blockDim, n, n_warps);
  for (;;) {
    for (unsigned i = 0; i < n_warps; i++) {
      const unsigned warp = (block->first_warp + i) % n_warps;
      run_warp(block->is_reversed ? n_warps - 1 - warp : warp);
    }
    const Counts counts = count_threads(n_warps);
    if (counts.done == n)
      break;
    if (counts.at_barrier != n)
      fail_stuck(name, counts);
    for (unsigned i = 0; i < n_warps; i++)
      std::swap(block->warps[i].ready, block->warps[i].at_barrier);
  }
}

void choose_order(unsigned turn) {
  block->is_reversed = turn % 2 == 1;
  block->first_warp = turn / 2;
}

thread_local const char *running; /* the kernel */

/* What the compiler put before accesses has found one wrong. */
void handle_trap(int) {
  char text[256];
  snprintf(text, sizeof text,
           "kernel %s, block (%u, %u, %u), thread %u: an access aligned less than its type, or outside an array",
           running == nullptr ? "none" : running, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x);
  emulated_fail(text);
}

void catch_traps(void) {
  static std::once_flag once;
  std::call_once(once, [] { signal(SIGILL, handle_trap); });
}

} // namespace

__thread EmulatedThread emulated_thread;

void emulated_shared(void *array, size_t bytes) {
  for (const void *known : block->arrays)
    if (known == array)
      return;
  memset(array, 0xff, bytes);
  block->arrays.push_back(array);
}

void *emulated_dynamic_shared(void) {
  return block->shared.data();
}

void emulated_syncthreads(void) {
  own_warp().at_barrier |= own_bit();
  PAUSE_FIBER();
}

const uint64_t *emulated_exchange(unsigned mask, uint64_t value) {
  Fiber *own = block->fibers[block->index].get();
  Warp &warp = own_warp();
  const unsigned lane = emulated_thread.lane;
  uint64_t *values = warp.values[own->parity];
  if (!(mask >> lane & 1))
    emulated_fail("a lane exchanges by a mask without itself");
  values[lane] = value;
  own->parity ^= 1;
  warp.masks[lane] = mask;
  warp.in_exchange |= own_bit();
  PAUSE_FIBER();
  return values;
}

void emulated_run_grid(const char *name, dim3 grid, dim3 size, size_t shared_bytes, const std::function<void()> &work) {
  const unsigned n = size.x * size.y * size.z;
  static thread_local unsigned n_launches = 0; /* of this stream */
  n_launches++;
  if (block == nullptr)
    block = new Block;
  catch_traps();
  running = name;
  while (block->fibers.size() < n)
    add_fiber();
  block->warps.resize(std::max(block->warps.size(), (size_t)(n + WARP - 1) / WARP));
  block->work = &work;
  emulated_thread.block_size = size;
  emulated_thread.grid_size = grid;
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        block->shared.assign(shared_bytes, (char)0xff); /* NaN, until written */
        emulated_thread.block = dim3(x, y, z);
        block->arrays.clear();
        choose_order(n_launches + x + y + z);
        run_block(name, n);
      }
}
