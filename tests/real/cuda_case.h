/* One kernel with its operands, run on two devices and compared. */
#pragma once
#include "device.h"

/* Beside the Numbers; PLACES: 0 … n − 1 in another order. */
enum { CELL_INT32 = N_NUMBERS, CELL_DOUBLE, CELL_PLACES, CELL_E4M3, CELL_E5M2 };

typedef struct {
  gsize at; /* offset in Kernel of the pointer to it */
  int cell; /* Number or CELL_… */
  gint64 n;
  double low, high; /* contents: uniform between these, the same on both devices */
  gboolean is_output;
  gint64 skipped_bytes; /* before it: memory itself begins at 256 */
} Buffer;

typedef struct {
  Kernel kernel;
  char *name; /* kernel, formats, sizes */
  Buffer buffers[16];
  int n_buffers;
  double slack;       /* factor on the tolerance; 1: what the output's format allows */
  gboolean is_beyond; /* found when run: this GPU has no such kernel */
} Case;

typedef struct {
  Device *device, *reference;
  char **words; /* only cases with one of them in their name; NULL: all */
  int n_run, n_bad;
} Comparison;

Case case_new(KernelKind kind, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* `slot`: the address of a pointer in c->kernel. */
void case_in(Case *c, const void *slot, int cell, gint64 n, double low, double high);
void case_out(Case *c, const void *slot, int cell, gint64 n, double low, double high);
/* Runs the case on both devices, if it is wanted, and prints how they differ; frees it. */
void case_compare(Case *c, Comparison *comparison);
/* FALSE with the error printed. `memory` gets the contents of output buffers, one block each, owned by the caller. */
gboolean case_run(Case *c, Device *device, void **memory, char **attention);
