/* One rank of a test on four: its world, a device, groups; and numbers that every rank can compute for all ranks, so
 * that each checks its own results. */
#pragma once
#include "comm.h"
#include "queue_device.h"

#include <stdio.h>

typedef struct {
  World *world;
  int rank, size;
  Device *device;
  const CommType *type;
  Comm *comm;
  CommGroup *all, *row, *column, *self; /* {0,1,2,3}; {0,1} {2,3}; {0,2} {1,3}; alone */
  DeviceStream *streams[4];
  int n_tests;
} Ranks;

static inline void must(gboolean condition, World *world, GError *error) {
  if (!condition)
    world_fail(world, error != NULL ? error->message : "fixture");
}

/* Rank 0 prints whether all ranks succeeded. */
static inline void report(Ranks *ranks, const char *name, gboolean is_good) {
  gboolean all = world_all(ranks->world, is_good);
  if (!is_good)
    printf("# rank %d: %s\n", ranks->rank, name);
  if (ranks->rank == 0)
    printf("%s %d - %s: %s\n", all ? "ok" : "not ok", ++ranks->n_tests,
           ranks->device->type->is_host_memory ? "host" : "remote", name);
  fflush(stdout);
}

static inline CommGroup *group_of(Ranks *ranks, int a, int b) {
  GError *error = NULL;
  int members[] = {a, b};
  CommGroup *group = ranks->type->group_new(ranks->comm, members, 2, &error);
  must(group != NULL, ranks->world, error);
  return group;
}

static inline void ranks_open(Ranks *ranks, const DeviceType *type) {
  GError *error = NULL;
  int all[] = {0, 1, 2, 3}, rank = ranks->rank;
  ranks->device = queue_open(type);
  for (int i = 0; i < 4; i++)
    ranks->streams[i] = queue_stream_new(ranks->device, STREAM_TP, &error);
  ranks->comm = ranks->type->open(ranks->world, ranks->device, &error);
  must(ranks->comm != NULL, ranks->world, error);
  ranks->all = ranks->type->group_new(ranks->comm, all, 4, &error);
  must(ranks->all != NULL, ranks->world, error);
  ranks->row = group_of(ranks, rank & 2, rank | 1);
  ranks->column = group_of(ranks, rank & 1, rank | 2);
  ranks->self = ranks->type->group_new(ranks->comm, &rank, 1, &error);
  must(ranks->self != NULL, ranks->world, error);
}

static inline void ranks_close(Ranks *ranks) {
  ranks->type->group_free(ranks->all);
  ranks->type->group_free(ranks->row);
  ranks->type->group_free(ranks->column);
  ranks->type->group_free(ranks->self);
  ranks->type->close(ranks->comm);
  queue_close(ranks->device);
}

/* Device memory, and how a test writes and reads it. */
static inline void *memory_new(Ranks *ranks, gint64 bytes) {
  return ranks->device->type->allocate(ranks->device, bytes, NULL);
}

static inline void memory_free(Ranks *ranks, void *memory) {
  ranks->device->type->release(ranks->device, memory);
}

static inline void memory_copy(Ranks *ranks, void *to, const void *from, gint64 bytes) {
  queue_protect(ranks->device, PROT_READ | PROT_WRITE);
  memcpy(to, from, (gsize)bytes);
  queue_protect(ranks->device, PROT_NONE);
}

/* Integers 0 … 255, which all formats hold exactly. */
static inline void put(Number number, void *data, gint64 i, int value) {
  float x = (float)value;
  guint32 bits;
  memcpy(&bits, &x, sizeof bits);
  guint16 half = (guint16)(bits >> 16); /* bf16 */
  if (number == NUMBER_FP16)            /* exponent bias 15 instead of 127, 13 bits less */
    half = value == 0 ? 0 : (guint16)((bits >> 13) - ((127 - 15) << 10));
  if (number == NUMBER_FP32)
    memcpy((char *)data + 4 * i, &x, 4);
  else
    memcpy((char *)data + 2 * i, &half, 2);
}

/* Called millions of times, so each width has its own code, which stays in registers. */
static inline gboolean holds(Number number, const void *data, gint64 i, int value) {
  guint32 expected, found;
  guint16 expected_half, found_half;
  if (number == NUMBER_FP32) {
    put(number, &expected, 0, value);
    memcpy(&found, (const char *)data + 4 * i, 4);
    return expected == found;
  }
  put(number, &expected_half, 0, value);
  memcpy(&found_half, (const char *)data + 2 * i, 2);
  return expected_half == found_half;
}

/* Rank `rank`'s value at i: below 61, so that four of them add up exactly. */
static inline int value_of(int rank, gint64 i) {
  return (int)((i * 7 + rank * 5 + i / 1000) % 61);
}
