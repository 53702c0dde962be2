/* Which axis of parallelism uses which link, how much it sends, and how much of that time is exposed. */
#pragma once
#include "predict.h"

typedef struct {
  Axis axis;
  int size;          /* GPUs of a group */
  guint ways;        /* bits 1 << way: the ways its transfers use; see link_use_name() */
  int narrowest;     /* the one of these that they take whole: it sets their rate */
  double link_Bps;   /* of that way, as specified: a GPU's part, one direction */
  double sent_bytes; /* sent by a GPU per step; mean over pipeline ranks */
  double transfer_s; /* its transfers alone, one after the other; mean over ranks */
  double hidden_s;   /* overlapped with running kernels */
  double exposed_s;  /* in the step time */
} AxisLinks;

/* Axes with more than one GPU, in enum order, as AxisLinks; owned by the caller. */
GArray *axis_links_new(const Prediction *prediction);
/* "scale-up links", "scale-up links, NICs and uplinks of 3072 GPUs". Owned by the caller. */
char *axis_links_names(const Cluster *cluster, guint ways);
