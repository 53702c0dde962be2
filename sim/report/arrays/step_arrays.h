/* A trace as arrays, for numpy and for pages that draw it: what a Chrome trace has, and what needs the simulator to be
 * known: what each op waited for, what idle time is charged to, how full the links are.
 *
 *     window_ns [2]            the last step: from, to
 *     streams, actions, charges, memory_kinds, links, moves, kernel_names   what the numbers below mean
 *     rank_first [ranks]       the first of the plan's ranks that a recorded one stands for; rank_pp its pipeline rank
 *     op_… [records]           rank, stream, action, stage, micro_batch, layer, step, moves (a collective and its group;
 *                              −1: none), start_ns, ready_ns (all parties were there), end_ns (−1: it never ran),
 *                              bytes, flops (NaN: not of its kind), cause (causes.h), critical
 *     kernel_… [kernels]       inside compute ops: op, stream, name, charge, start_ns, end_ns; none if there are more
 *                              than CHROME_AUTO_SPANS in all
 *     idle_… [spans]           rank, charge, start_ns, end_ns: see metrics_idle_spans()
 *     memory_… [changes]       rank, time_ns, bytes [memory_kinds]: held from then on
 *     link_… [moments]         rank, time_ns, used [links]: share of each that is taken from then on; no links: unknown
 */
#pragma once
#include "cluster.h"
#include "metrics.h"
#include "npz.h"

/* `cluster` names the links; NULL: there are none. Owned by the caller; NULL with IMPOSSIBLE as program_match(). */
Npz *step_arrays_new(const Trace *trace, const Metrics *metrics, const Cluster *cluster, GError **error);
/* As a file's bytes: the same trace gives the same. Owned by the caller; NULL with IMPOSSIBLE likewise, and as
 * npz_finish(). */
GBytes *step_arrays(const Trace *trace, const Metrics *metrics, const Cluster *cluster, GError **error);
/* The same, to a file. INPUT if it cannot be written. */
gboolean step_arrays_write(const Trace *trace, const Metrics *metrics, const Cluster *cluster, const char *file,
                           GError **error);
