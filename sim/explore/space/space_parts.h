/* What a space is made of. Private to it and its reader. */
#pragma once
#include "space.h"

enum { MOST_VALUES = 65536 }; /* of one axis */

typedef struct {
  const char *name, *description; /* borrowed from the options' table */
  gboolean is_whole, is_switch;   /* its values are whole numbers; on and off */
  char *text;                     /* owned: as given; NULL: not given */
  char *origin;                   /* owned: "file:line", or NULL: the command line */
  GPtrArray *values;              /* of char *; once finished */
} SpaceAxis;

struct Space {
  SpaceAxis *axes; /* all there can be, in the order of --help */
  int n_axes;
  GArray *given;       /* of int: indices of those given; once finished */
  int model, cluster;  /* of these, −1: not given */
  GPtrArray *models;   /* of Model *, per value of the model's axis */
  GPtrArray *clusters; /* the same */
  MemoryMargin margin;
  char **slow_ranks;           /* of every plan, as --slow-rank has them; owned; NULL: none */
  const char *slow_ranks_help; /* borrowed from the options' table */
  gint64 count;
};

/* Fill `values` from `text`. INPUT naming the option. */
gboolean space_axis_expand(SpaceAxis *axis, GError **error);
/* Each of them makes sense by itself, other options as they are by default. INPUT. */
gboolean space_axis_check(const Space *space, const SpaceAxis *axis, GError **error);
