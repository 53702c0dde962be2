/* NCCL, loaded with dlopen on first use, so that a program built with NCCL also runs where it is missing. */
#pragma once
#include <glib.h>
#include <nccl.h>

/* The functions used; NcclLibrary.f is nccl##f. */
#define NCCL_FUNCTIONS(X)                                                                                              \
  X(AllGather)                                                                                                         \
  X(AllReduce)                                                                                                         \
  X(Broadcast)                                                                                                         \
  X(CommAbort)                                                                                                         \
  X(CommDestroy)                                                                                                       \
  X(CommGetAsyncError)                                                                                                 \
  X(CommInitRankConfig)                                                                                                \
  X(GetErrorString)                                                                                                    \
  X(GetLastError)                                                                                                      \
  X(GetUniqueId)                                                                                                       \
  X(GroupEnd)                                                                                                          \
  X(GroupStart)                                                                                                        \
  X(Recv)                                                                                                              \
  X(ReduceScatter)                                                                                                     \
  X(Send)

/* Zeroed: not loaded. */
typedef struct {
#define NCCL_MEMBER(name) __typeof__(&nccl##name) name;
  NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
} NcclLibrary;

/* FALSE with the error if NCCL is missing or lacks a function. It is never unloaded: its threads may outlive an aborted
 * communicator. */
gboolean nccl_library_load(NcclLibrary *library, GError **error);
