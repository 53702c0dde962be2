/* The inside of a space. Private to it and its reader. */
#pragma once
#include "space.h"

enum { MOST_VALUES = 65536 }; /* of one axis */

typedef struct {
  const char *name, *description; /* static */
  int field;                      /* of the plan (plan_fields.h); −1: model, cluster */
  gboolean is_whole, is_switch;   /* its values are whole numbers; on and off */
  char *text;                     /* owned: as given; NULL: not given */
  char *origin;                   /* owned: "file:line", or NULL: the command line */
  GPtrArray *values;              /* of char *; set once finished */
} SpaceAxis;

struct Space {
  SpaceAxis *axes; /* all possible axes, in the order of --help */
  int n_axes;
  GArray *given;       /* of int: indices of the axes given; set once finished */
  int model, cluster;  /* of these, −1: not given */
  GPtrArray *models;   /* of Model *, per value of the model's axis */
  GPtrArray *clusters; /* the same */
  MemoryMargin margin;
  char **slow_ranks; /* for every plan, as given by --slow-rank; owned; NULL: none */
  gint64 count;
};

/* Fill `values` from `text`. INPUT naming the option. */
gboolean space_axis_expand(SpaceAxis *axis, GError **error);
/* Check each value on its own, with all other options at their defaults. INPUT. */
gboolean space_axis_check(const Space *space, const SpaceAxis *axis, GError **error);
