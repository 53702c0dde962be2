/* Time of a kernel from the GPU's tables of measured times (describe/hardware/measured_kernels.h), with the analytic
 * model to fill their gaps. The model is a parameter: the tables correct it, whatever it is.
 *
 * Matrix products.
 *   measured      A product equal in number, layout, accumulate, batch, m, n and k: its time t.
 *   interpolated  Products of the same number, layout and accumulate correct the model where they are near:
 *
 *                     time = model(shape) · exp( Σ wᵢ·ln(tᵢ / model(shapeᵢ)) / Σ wᵢ ),   wᵢ = 1/dᵢ − 1/R
 *
 *                 with dᵢ the Euclidean distance in (log2 batch·m, log2 n, log2 k) over the eight nearest with dᵢ < 2:
 *                 a factor of 4 in one dimension, or of 2.2 in all three. R = 2, or 1.1 times the distance of the ninth
 *                 where that is less, so that a product's weight has faded when another takes its place. Between two
 *                 measured sizes the correction is near a straight line in log size; w grows without bound towards
 *                 either: one row more than measured gets the measured time, times the model's own step if a tile or a
 *                 wave begins there. (Weights in 1/d², as Shepard's usually are, would be flat at the points and so
 *                 steep between them that a larger product could take less time.) Where no such product is near, those
 *                 of the same number in other layouts or with the other accumulate serve, by the same rule.
 *   modelled      Nothing near: the model's time.
 *
 *   Assumed: the model errs in the same way on neighbouring shapes. It is right about what changes fast (waves, k ramp,
 *   HBM roofline), wrong by a factor that changes slowly (rate, latency). The model's share of rate in a training step
 *   (matmul.under_load) cancels in tᵢ / model(shapeᵢ): neither measured nor interpolated times contain it. Both are
 *   divided by the table's own under_load. Products left to the model have matmul.under_load as ever.
 *   HBM bytes of a neighbour: the wanted product's, in proportion to the elements of A, B and C (twice when
 *   accumulated), so operands are taken to be stored in the same formats.
 *
 * Memory-bound kernels. By the curve of the item's name, else by the curve "memory", else by the model. Between points
 * a straight line in bytes; below the first point (b, t) a line from it to the device's kernel latency L at no bytes,
 * L + (t − L)·bytes/b with L ≤ t; above the last its rate, t·bytes/b.
 *
 * Attention. Measured: equal number, direction, batch, seq_len, keys, head_dim. Else the model's time times
 * measured/model of the nearest one of the same number and direction, by distance in (log batch, log seq_len, log
 * keys); those of the same head_dim go before all others. */
#pragma once
#include "gpu.h"
#include "work_item.h"

/* Where a time came from. */
typedef enum { COST_MODELLED, COST_INTERPOLATED, COST_MEASURED, N_COST_SOURCES } CostSource;

typedef double (*KernelModel)(const Gpu *gpu, const WorkItem *item);

/* Any item but a COLLECTIVE. gpu->measured may be NULL: `model` alone. */
double measured_cost_s(const Gpu *gpu, const WorkItem *item, KernelModel model, CostSource *source);
