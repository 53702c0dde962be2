/* Time of a kernel from the GPU's tables of measured times (machine/hardware/measured_kernels.h). The analytic model
 * fills the gaps; it is a parameter, as the tables correct any model.
 *
 * Matrix products.
 *   measured      A product with the same number, layout, accumulate, batch, m, n and k: its time t.
 *   interpolated  Nearby products of the same number, layout and accumulate correct the model:
 *
 *                     time = model(shape) · exp( Σ wᵢ·ln(tᵢ / model(shapeᵢ)) / Σ wᵢ ),   wᵢ = 1/dᵢ − 1/R
 *
 *                 with dᵢ the Euclidean distance in (log2 batch·m, log2 n, log2 k) over the eight nearest with
 *                 dᵢ < 2: a factor of 4 in one dimension, or of 2.2 in all three. R = 2, or 1.1 times the distance of
 *                 the ninth if that is less, so that a product's weight has faded when another takes its place.
 *                 Between two measured sizes the correction is close to a straight line in log size. As w grows
 *                 without bound towards a measured point, one row more than measured gets the measured time, times
 *                 the model's own step if a tile or a wave begins there. (Weights in 1/d², the usual choice of
 *                 Shepard, would be flat at the points and so steep between them that a larger product could take
 *                 less time.) If no such product is near, those of the same number in other layouts or with the other
 *                 accumulate are used, by the same rule.
 *   modelled      Nothing near: the model's time.
 *
 *   Assumed: the model errs in the same way on neighbouring shapes. It is right about what changes fast (waves, k
 *   ramp, HBM roofline), and wrong by a factor that changes slowly (rate, latency). The model's share of rate in a
 *   training step (matmul.under_load) cancels in tᵢ / model(shapeᵢ), so measured and interpolated times do not have
 *   it. Both are divided by the table's own under_load. Products left to the model keep matmul.under_load.
 *   HBM bytes of a neighbour: those of the wanted product in proportion to the elements of A, B and C (C twice when
 *   accumulated), so operands are assumed to be stored in the same formats.
 *
 * Memory-bound kernels. By the curve of the item's name, else by the curve "memory", else by the model; under a
 * framework by the model alone if the curves are of other kernels (measured_cost_gpu()). The curve is
 * linear in bytes between points. Below the first point (b, t) it is a line to the device's kernel latency L at zero
 * bytes, L + (t − L)·bytes/b with L ≤ t; beyond the last point it keeps that point's rate, t·bytes/b.
 *
 * Attention. Measured: the same number, direction, batch, seq_len, keys and head_dim. Otherwise the model's time
 * times measured/model of the nearest entry of the same number and direction, by distance in (log batch, log seq_len,
 * log keys); entries with the same head_dim are preferred to all others. */
#pragma once
#include "gpu.h"
#include "work_item.h"

/* Where a time came from. */
typedef enum { COST_MODELLED, COST_INTERPOLATED, COST_MEASURED, N_COST_SOURCES } CostSource;

typedef double (*KernelModel)(const Gpu *gpu, const WorkItem *item);

/* `gpu` as plans with a framework see it, or those without: its launches, least kernel time and memory-bound kernels
 * are those of its tables only if these are of the plan's program (`origin`). Shares the tables of `gpu`: do not clear
 * it. */
Gpu measured_cost_gpu(const Gpu *gpu, gboolean has_framework);
/* Any item but a COLLECTIVE. gpu->measured may be NULL: then `model` alone. */
double measured_cost_s(const Gpu *gpu, const WorkItem *item, KernelModel model, CostSource *source);
