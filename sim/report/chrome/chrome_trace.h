/* A Trace as Chrome trace JSON, for Perfetto (ui.perfetto.dev) or chrome://tracing.
 *
 * One process per recorded rank, one thread per stream it uses, one complete event per op; the kernels inside whole
 * compute ops as nested slices (tensor-parallel collectives on the tp track); an arrow from each send to its receive;
 * resident memory as counters. chrome_read.h reads it back. Source: Trace Event Format, Google,
 * docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU */
#pragma once
#include "trace.h"

typedef enum {
  CHROME_DETAIL_AUTO,    /* kernels unless that makes more than CHROME_AUTO_SPANS slices; the file says which */
  CHROME_DETAIL_OPS,     /* one slice per op */
  CHROME_DETAIL_KERNELS, /* including the kernels inside, however many */
} ChromeDetail;

enum { CHROME_AUTO_SPANS = 200000 };

/* Process number: recorded rank + 1; thread number: process · CHROME_THREADS_PER_PROCESS + stream. */
enum { CHROME_THREADS_PER_PROCESS = 16 };

/* How an action reads on its slice: "reduce grad". Static. */
const char *chrome_action_label(ActionKind action);

/* INPUT naming the file and the reason if it cannot be written; no partial file is left behind. The same trace gives
 * the same bytes. */
gboolean chrome_trace_write(const Trace *trace, const char *file, GError **error); /* CHROME_DETAIL_AUTO */
gboolean chrome_trace_write_detail(const Trace *trace, ChromeDetail detail, const char *file, GError **error);
