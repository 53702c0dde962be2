/* What was costed before, kept by its owner from one Timing to the next: neighbours in a sweep share most of their
 * products, collectives, lists and transfers.
 *
 * A value is kept under everything that it was computed from, and found by comparing all of it byte for byte: a Timing
 * made with kept costs is the same, to the last bit, as one made without. What a cluster's pointers point to (curves,
 * fits, wiring, tables of its GPU) is taken to be the same as long as the pointers are: it must outlive the costs. Its
 * faults need not.
 *
 * Not for several threads at once. */
#pragma once
#include <glib.h>

typedef struct Costs Costs;

Costs *costs_new(void);
void costs_free(Costs *costs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Costs, costs_free)

/* --- for what computes costs --- */

/* A key's head begins with it, as a gsize: keys of different kinds may be equal otherwise. */
typedef enum {
  COST_OF_MACHINE,
  COST_OF_GROUPS,
  COST_OF_SITE,
  COST_OF_COLLECTIVE,
  COST_OF_PRODUCT,
  COST_OF_LIST,
  COST_OF_PROGRAM,
  COST_OF_SEND,
  COST_OF_TRANSFER_KIND,
  COST_OF_TRANSFER,
  COST_OF_COMPRESSED,
} CostKind;

/* Two stretches of bytes. Padding in them is compared too: where it differs, a value is computed again. */
typedef struct {
  gconstpointer head;
  gsize head_size;
  gconstpointer body; /* of different length in keys of one kind; may be empty */
  gsize body_size;
} CostKey;

/* Before each Timing: returns its number, from 1, and forgets everything if that has become too much to keep (16
 * MiB). */
gint64 costs_begin(Costs *costs);
/* The value of that key, valid until the next Timing. If it is new, it has value_size bytes, which the caller fills in.
 * Sizes are multiples of 8, except the body's. */
gpointer costs_at(Costs *costs, CostKey key, gsize value_size, gboolean *is_new);
/* Room to put a key together in; valid until the next call. */
gpointer costs_scratch(Costs *costs, gsize size);
/* For part of a value: as many bytes, valid as long. */
gpointer costs_alloc(Costs *costs, gsize size);
