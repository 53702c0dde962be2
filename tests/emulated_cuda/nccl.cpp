/* The part of NCCL that real/ calls, between processes of one machine through shared memory. Like NCCL, it refuses two
 * ranks on one GPU of one host, waits for the other members where communicators are made and ended and where two
 * members first send to each other, runs one communicator's calls in order, launches a group together and, if
 * NCCL_LAUNCH_ORDER_IMPLICIT is 1, starts launches in the order of their issue. Stricter than NCCL: it compares the
 * members' calls, and the lengths of a send and its receive; without that order, only one kernel may be under way; and
 * kernels under way may not have more CTAs than a GPU has multiprocessors. Reference: NCCL 2.28 documentation,
 * "Groups", "Fault tolerance" and "Using multiple NCCL communicators concurrently"; its source for the last and for
 * connections (enqueue.cc, group.cc). */
#include "emulated.h"

extern "C" {
#include "nccl_library.h"
}

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace {

constexpr int MAX_RANKS = 16, MOST_CTAS = 64; /* of a communicator without a bound: NCCL's MAXCHANNELS */
constexpr size_t CHUNK_BYTES = 1 << 20, BOX_BYTES = 64 << 10;

enum Kind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, SEND, RECEIVE };

struct Call {
  Kind kind;
  ncclDataType_t type;
  ncclRedOp_t operation;
  size_t count;
  int peer; /* or root */
  const void *in;
  void *out;
};

/* What was sent and not yet taken: one chunk. */
struct Box {
  std::atomic<uint32_t> is_full;
  size_t all_bytes; /* of the whole send */
  char data[BOX_BYTES];
};

struct Segment {
  std::atomic<int> n_joined, n_leaving;
  std::atomic<bool> has_come[2][MAX_RANKS]
                            [MAX_RANKS]; /* by sender and receiver: the first and the second, to connect */
  int most_ctas[MAX_RANKS];
  std::atomic<uint32_t> n_waiting, generation;
  char host[MAX_RANKS][128];
  Call calls[MAX_RANKS];
  Box boxes[MAX_RANKS][MAX_RANKS];    /* by sender and receiver */
  char slots[MAX_RANKS][CHUNK_BYTES]; /* by rank */
};

} // namespace

struct ncclComm {
  Segment *segment;
  int n, rank, most_ctas;
  std::atomic<bool> is_aborted{false}, is_used{false};
  std::atomic<uint64_t> n_issued{0}, n_done{0}; /* launches */
};

namespace {

/* FALSE: aborted. */
bool await_all(ncclComm *comm) {
  Segment *s = comm->segment;
  const uint32_t generation = s->generation;
  if (++s->n_waiting == (uint32_t)comm->n) {
    s->n_waiting = 0;
    s->generation++;
    return true;
  }
  emulated_await([=] { return s->generation != generation || comm->is_aborted; });
  return s->generation != generation;
}

size_t bytes_of(ncclDataType_t type) {
  return type == ncclDouble ? 8 : type == ncclFloat32 ? 4 : type == ncclInt8 ? 1 : 2;
}

template <typename T> double value_of(T x) {
  return (double)(float)x;
}
template <> double value_of(double x) {
  return x;
}

/* Of all ranks' slots, in the order of ranks. */
template <typename T, typename Sum> void reduce_slots(ncclComm *comm, ncclRedOp_t operation, T *out, size_t n) {
  for (size_t i = 0; i < n; i++) {
    Sum result = (Sum)value_of(((const T *)comm->segment->slots[0])[i]);
    for (int r = 1; r < comm->n; r++) {
      const Sum value = (Sum)value_of(((const T *)comm->segment->slots[r])[i]);
      result = operation == ncclMax ? std::max(result, value) : result + value;
    }
    out[i] = T(result);
  }
}

void reduce(ncclComm *comm, const Call &call, void *out, size_t n) {
  if (call.operation != ncclSum && call.operation != ncclMax)
    emulated_fail("NCCL: a reduction that is not emulated");
  if (call.type == ncclDouble)
    reduce_slots<double, double>(comm, call.operation, (double *)out, n);
  else if (call.type == ncclFloat32)
    reduce_slots<float, float>(comm, call.operation, (float *)out, n);
  else if (call.type == ncclBfloat16)
    reduce_slots<__nv_bfloat16, float>(comm, call.operation, (__nv_bfloat16 *)out, n);
  else if (call.type == ncclFloat16)
    reduce_slots<__half, float>(comm, call.operation, (__half *)out, n);
  else
    emulated_fail("NCCL: a type that is not emulated");
}

/* One round: own bytes into the own slot, all have done so, `take`, all have taken. */
template <typename Take> bool exchange(ncclComm *comm, const void *own, size_t bytes, Take take) {
  memcpy(comm->segment->slots[comm->rank], own, bytes);
  if (!await_all(comm))
    return false;
  take();
  return await_all(comm);
}

bool run_chunk(ncclComm *comm, const Call &call, size_t at, size_t n) {
  const size_t size = bytes_of(call.type);
  const char *in = (const char *)call.in;
  char *out = (char *)call.out;
  switch (call.kind) {
  case ALL_REDUCE:
    return exchange(comm, in + at * size, n * size, [&] { reduce(comm, call, out + at * size, n); });
  case ALL_GATHER:
    return exchange(comm, in + at * size, n * size, [&] {
      for (int r = 0; r < comm->n; r++)
        memcpy(out + ((size_t)r * call.count + at) * size, comm->segment->slots[r], n * size);
    });
  case BROADCAST:
    return exchange(comm, in + at * size, comm->rank == call.peer ? n * size : 0,
                    [&] { memcpy(out + at * size, comm->segment->slots[call.peer], n * size); });
  default:
    for (int r = 0; r < comm->n; r++)
      if (!exchange(comm, in + ((size_t)r * call.count + at) * size, n * size, [&] {
            if (r == comm->rank)
              reduce(comm, call, out + at * size, n);
          }))
        return false;
    return true;
  }
}

bool run_collective(ncclComm *comm, const Call &call) {
  Segment *s = comm->segment;
  s->calls[comm->rank] = call;
  if (!await_all(comm))
    return false;
  for (int r = 0; r < comm->n; r++) {
    const Call &other = s->calls[r];
    if (other.kind != call.kind || other.type != call.type || other.count != call.count || other.peer != call.peer ||
        other.operation != call.operation)
      emulated_fail("NCCL: members of a communicator call different collectives");
  }
  if (!await_all(comm))
    return false;
  const size_t chunk = CHUNK_BYTES / bytes_of(call.type);
  for (size_t at = 0; at < call.count; at += chunk)
    if (!run_chunk(comm, call, at, std::min(chunk, call.count - at)))
      return false;
  return true;
}

/* A send or receive under way. */
struct Transfer {
  Call call;
  size_t done = 0;
  bool is_ended = false;

  void step(ncclComm *comm) {
    const bool is_send = call.kind == SEND;
    Box *box = is_send ? &comm->segment->boxes[comm->rank][call.peer] : &comm->segment->boxes[call.peer][comm->rank];
    const size_t bytes = call.count * bytes_of(call.type), n = std::min(BOX_BYTES, bytes - done);
    if (is_ended || (bool)box->is_full == is_send)
      return;
    if (is_send) {
      box->all_bytes = bytes;
      memcpy(box->data, (const char *)call.in + done, n);
    } else {
      if (box->all_bytes != bytes)
        emulated_fail("NCCL: a receive is longer or shorter than its send");
      memcpy((char *)call.out + done, box->data, n);
    }
    box->is_full = is_send;
    done += n;
    is_ended = done == bytes;
  }
};

/* Of those to or from one member that are left. */
bool is_first(const std::vector<Transfer> &transfers, size_t which) {
  for (size_t i = 0; i < which; i++)
    if (!transfers[i].is_ended && transfers[i].call.kind == transfers[which].call.kind &&
        transfers[i].call.peer == transfers[which].call.peer)
      return false;
  return true;
}

void run_calls(ncclComm *comm, const std::vector<Call> &calls) {
  std::vector<Transfer> transfers;
  for (const Call &call : calls)
    if (call.kind == SEND || call.kind == RECEIVE)
      transfers.push_back({call});
    else if (!run_collective(comm, call))
      return;
  emulated_await([&] {
    bool is_ended = true;
    for (size_t i = 0; i < transfers.size(); i++) {
      if (is_first(transfers, i))
        transfers[i].step(comm);
      is_ended = is_ended && transfers[i].is_ended;
    }
    return is_ended || comm->is_aborted;
  });
}

/* Of this process's GPU. */
std::atomic<uint64_t> n_launched{0}, n_started{0};
std::atomic<int> ctas_under_way{0};

bool has_implicit_order() {
  const char *value = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  return value != nullptr && strcmp(value, "1") == 0;
}

void launch(ncclComm *comm, const std::vector<Call> &calls, cudaStream_t stream) {
  if (!comm->is_used.exchange(true))
    emulated_n_communicating++;
  const uint64_t ticket = comm->n_issued++, place = n_launched++;
  emulated_put(stream, [=] {
    emulated_await([=] { return comm->n_done >= ticket || comm->is_aborted; });
    if (has_implicit_order())
      emulated_await([=] { return n_started >= place || comm->is_aborted; });
    else if (ctas_under_way > 0)
      emulated_fail("NCCL: kernels of several communicators in no order");
    n_started++;
    if ((ctas_under_way += comm->most_ctas) > EMULATED_MULTIPROCESSORS)
      emulated_fail("NCCL: kernels that wait for other GPUs have more CTAs than there are multiprocessors");
    run_calls(comm, calls);
    ctas_under_way -= comm->most_ctas;
    comm->n_done++;
  });
}

struct Grouped {
  ncclComm *comm;
  cudaStream_t stream;
  std::vector<Call> calls;
};
thread_local int depth = 0;
thread_local std::vector<Grouped> grouped; /* in order of first use */

/* Members connect before they first send to each other: all of a group at once, which waits for their hosts. */
void connect(const std::vector<Grouped> &all) {
  for (const bool waits : {false, true})
    for (const Grouped &g : all)
      for (const Call &call : g.calls) {
        if (call.kind != SEND && call.kind != RECEIVE)
          continue;
        ncclComm *comm = g.comm;
        const bool is_receive = call.kind == RECEIVE;
        const int from = is_receive ? call.peer : comm->rank, to = is_receive ? comm->rank : call.peer;
        if (!waits)
          comm->segment->has_come[is_receive][from][to] = true;
        else
          emulated_await([=] { return comm->segment->has_come[!is_receive][from][to] || comm->is_aborted; });
      }
}

void launch_all(const std::vector<Grouped> &all) {
  connect(all);
  for (const Grouped &g : all)
    launch(g.comm, g.calls, g.stream);
}

ncclResult_t add(ncclComm *comm, const Call &call, cudaStream_t stream) {
  const size_t n = (size_t)comm->n, bytes = call.count * bytes_of(call.type);
  if (call.kind != RECEIVE && (call.kind != BROADCAST || comm->rank == call.peer))
    emulated_check_memory(call.in, bytes * (call.kind == REDUCE_SCATTER ? n : 1), false, "NCCL");
  if (call.kind != SEND)
    emulated_check_memory(call.out, bytes * (call.kind == ALL_GATHER ? n : 1), false, "NCCL");
  if ((call.kind == SEND || call.kind == RECEIVE) && (call.peer < 0 || call.peer >= comm->n || call.peer == comm->rank))
    emulated_fail("NCCL: a send or receive with no other member");
  if (depth == 0) {
    launch_all({{comm, stream, {call}}});
    return ncclSuccess;
  }
  for (Grouped &g : grouped)
    if (g.comm == comm) {
      if (g.stream != stream)
        emulated_fail("NCCL: one communicator on two streams within a group is not emulated");
      g.calls.push_back(call);
      return ncclSuccess;
    }
  grouped.push_back({comm, stream, {call}});
  return ncclSuccess;
}

/* Joins the segment that the id names, once all members have. EMULATED_NCCL_MISSING=1: the second never does. */
ncclResult_t join(ncclComm *comm, const char *name) {
  const int file = shm_open(name, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Segment)) != 0)
    emulated_fail("NCCL: no shared memory");
  void *memory = mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED)
    emulated_fail("NCCL: no shared memory");
  auto *s = (Segment *)memory;
  const char *host = getenv("NCCL_HOSTID");
  snprintf(s->host[comm->rank], sizeof s->host[0], "%s", host == nullptr ? "" : host);
  s->most_ctas[comm->rank] = comm->most_ctas;
  if (getenv("EMULATED_NCCL_MISSING") != nullptr && comm->rank == atoi(getenv("EMULATED_NCCL_MISSING")))
    for (;;)
      pause();
  s->n_joined++;
  emulated_await([=] { return s->n_joined == comm->n; });
  shm_unlink(name);
  comm->segment = s;
  for (int r = 0; r < comm->n; r++) {
    if (s->most_ctas[r] != comm->most_ctas)
      emulated_fail("NCCL: members of a communicator have different bounds on its CTAs");
    if (r != comm->rank && strcmp(s->host[r], s->host[comm->rank]) == 0) {
      fprintf(stderr, "emulated NCCL: duplicate GPU: rank %d and rank %d both on one\n", r, comm->rank);
      return ncclInvalidUsage;
    }
  }
  return ncclSuccess;
}

} // namespace

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static std::atomic<int> n_made{0};
  snprintf(id->internal, sizeof id->internal, "/emulated-nccl-%d-%d", (int)getpid(), n_made++);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id, int rank, ncclConfig_t *config) {
  const bool is_bounded = config->maxCTAs != NCCL_CONFIG_UNDEF_INT;
  if (n < 1 || n > MAX_RANKS || rank < 0 || rank >= n || config->blocking != 1 || (is_bounded && config->maxCTAs < 1))
    return ncclInvalidArgument;
  auto *made = new ncclComm;
  made->n = n;
  made->rank = rank;
  made->most_ctas = is_bounded ? std::min(config->maxCTAs, MOST_CTAS) : MOST_CTAS;
  const ncclResult_t result = join(made, id.internal);
  *comm = made;
  return result;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  *state = ncclSuccess;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : result == ncclInvalidUsage ? "invalid usage" : "internal error";
}

const char *ncclGetLastError(ncclComm_t comm) {
  return "";
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  emulated_await([=] { return comm->n_done == comm->n_issued || comm->is_aborted; });
  comm->segment->n_leaving++;
  emulated_await([=] { return comm->segment->n_leaving == comm->n || comm->is_aborted; });
  emulated_n_communicating -= comm->is_used;
  munmap(comm->segment, sizeof(Segment));
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) { /* kept: what is on streams still looks at it */
  comm->is_aborted = true;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart(void) {
  depth++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
  if (--depth > 0)
    return ncclSuccess;
  std::vector<Grouped> all = std::move(grouped);
  grouped.clear();
  launch_all(all);
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {ALL_REDUCE, type, operation, count, 0, in, out}, stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add(comm, {ALL_GATHER, type, ncclSum, count, 0, in, out}, stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {REDUCE_SCATTER, type, operation, count, 0, in, out}, stream);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return add(comm, {BROADCAST, type, ncclSum, count, root, in, out}, stream);
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, {SEND, type, ncclSum, count, peer, data, nullptr}, stream);
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {RECEIVE, type, ncclSum, count, peer, nullptr, data}, stream);
}

gboolean nccl_library_load(NcclLibrary *library, GError **error) {
#define NCCL_FIND(name) library->name = nccl##name;
  NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
  return TRUE;
}
}
