/* Parameters of a whole model that are trained (training.h). */
#pragma once
#include "model.h"
#include "recipe.h"
#include "training.h"

/* What goes in and comes out of a layer's products that have adapters, summed: times the rank their parameters, and
 * what a token multiplies in them. `n_experts`: all of a layer's, or those that a token goes to; 0: it has an MLP. */
double adapter_widths(const Model *model, const TrainedParts *training, gint64 n_experts);

/* All, or those in routed experts. */
double trained_parameters(const Model *model, const TrainedParts *training, gboolean of_experts);
/* Bytes of the weights that are not, unsharded; `element_bytes`: each outside of layers, if the recipe keeps those in
 * layers in fewer bits. */
double frozen_weight_bytes(const Model *model, const TrainedParts *training, const Recipe *recipe, double element_bytes,
                           gboolean of_experts);
