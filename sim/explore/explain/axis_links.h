/* Which axis of parallelism crosses which link, with what, and how much of it is seen. */
#pragma once
#include "predict.h"

typedef struct {
  Axis axis;
  int size;          /* GPUs of a group */
  guint ways;        /* bits 1 << way of what its transfers take a part of: link_use_name() */
  int narrowest;     /* of these, the way they take whole */
  double link_Bps;   /* of that way, as specified: a GPU's part, one direction */
  double sent_bytes; /* by a GPU in a step; mean over pipeline ranks */
  double transfer_s; /* what these take alone, one after the other; mean over ranks */
  double hidden_s;   /* beside running kernels */
  double exposed_s;  /* of the step */
} AxisLinks;

/* Axes with more than one GPU, in enum order; of AxisLinks, owned by the caller. */
GArray *axis_links_new(const Prediction *prediction);
/* "scale-up links", "scale-up links, NICs and uplinks of 3072 GPUs". Owned by the caller. */
char *axis_links_names(const Cluster *cluster, guint ways);
