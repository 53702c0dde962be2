/* Products, attention and memory-bound kernels of a profile beside what the cost model says of their shapes. */
#pragma once
#include "gpu.h"
#include "profile.h"
#include "work_item.h"

typedef struct {
  WorkItem item;             /* MATMUL, ATTENTION or MEMORY */
  const char *operator_name; /* interned */
  ProfileKind kind;          /* of its kernels */
  gboolean is_causal;        /* attention */
  gint64 n;                  /* calls */
  double median_s;           /* of a call */
  double alone_s;            /* the model's time of it run alone */
  double in_step_s;          /* and in a training step, with the GPU's under_load */
} ProfileShape;

typedef struct {
  GArray *shapes;          /* of ProfileShape: products and attention, by all their time; owned */
  GArray *passes;          /* memory-bound ones likewise: norms, elementwise, softmax, optimizer, copies; owned */
  gint64 n_unknown;        /* calls of products or attention without shapes, or of a kind that is not understood */
  gint64 n_unknown_passes; /* kernels */
} ProfileShapes;

/* `gpu`'s own tables are not used. */
ProfileShapes *profile_shapes_new(const Profile *profile, const Gpu *gpu);
void profile_shapes_free(ProfileShapes *shapes);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ProfileShapes, profile_shapes_free)

/* `n_shown`: rows of each table. */
void profile_shapes_text(GString *out, const ProfileShapes *shapes, const Gpu *gpu, int n_shown, gboolean colour);
/* A GPU file with the measured times, based on `base`, the name or file of `gpu`; owned by the caller. */
char *profile_shapes_yaml(const ProfileShapes *shapes, const Profile *profile, const Gpu *gpu, const char *base);
