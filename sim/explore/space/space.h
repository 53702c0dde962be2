/* A space of configurations: every option of a plan, the model and the cluster, with the values each may take.
 *
 *     --tp 1,2,4  --pp 1..3  --schedule 1f1b,zb-v      3 × 3 × 2 = 18 configurations
 *
 *     index 7 = 1·(3·2) + 0·2 + 1  →  tp 2, pp 1, schedule zb-v
 *
 * Axes are in the order of --help; the last one varies fastest. A configuration is built from its index on demand,
 * so a space of any size only takes the memory of its lists. Values of an axis are separated by commas:
 *
 *     1,2,4          these           1..16      each from 1 to 16
 *     1..16*2        1 2 4 8 16      8..64+8    8 16 24 … 64         ranges of whole numbers only
 *
 * A file holds the same keys and values; its lists may also be YAML's:
 *
 *     model: llama-3-70b
 *     cluster: [dgx-h100, dgx-a100]
 *     tp: 1..8*2
 *     zero: [0, 1..3] */
#pragma once
#include "memory_margin.h"
#include "model.h"
#include "parser.h"
#include "plan.h"

typedef struct Space Space;

Space *space_new(void);
void space_free(Space *space);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Space, space_free)

/* Options --tp LIST … of a command line, one per axis, to be filled by parser_run(). */
void space_add_options(Space *space, Parser *parser);
/* Adds the option --slow-rank R=F, which may be repeated and applies to all configurations. */
void space_add_slow_ranks(Space *space, Parser *parser);
/* Replace the help text of one axis, which must exist: for a verb with other defaults. Static text. */
void space_describe(Space *space, const char *name, const char *description);
/* Whether any axis was given. */
gboolean space_is_given(const Space *space);
/* What an axis was given, as "1,2,4"; NULL: nothing, or there is no such axis. Borrowed. */
const char *space_given(const Space *space, const char *name);
/* Set an axis: `name` as "tp", `text` as "1,2,4"; replaces earlier values. INPUT for an unknown name. */
gboolean space_set(Space *space, const char *name, const char *text, GError **error);
/* Read a file's axes; axes that already have values keep them. INPUT with file:line and the nearest valid key. */
gboolean space_read(Space *space, const char *file, GError **error);
/* The same of the file that --plan names, as plan_options_take_file() has it; models are held against it by
 * space_finish(). Nothing is done without --plan. */
gboolean space_take_plan(Space *space, const char *verb, GError **error);
/* All axes given, one per line as "tp=1,2,4", in order and with ranges written out: equal spaces have equal texts.
 * For a finished space. Owned by the caller. */
char *space_text(const Space *space);
/* Set the axes from such a text. INPUT naming the line. */
gboolean space_set_text(Space *space, const char *text, GError **error);

/* How much of each GPU's memory plans must leave free. Call before space_finish(), which rejects a margin that
 * leaves nothing. */
void space_set_memory_margin(Space *space, const MemoryMargin *margin);

/* Once all axes are given: expand the lists, check each value on its own, read models and clusters. INPUT naming the
 * option (or file:line), the value and what was expected; also for a duplicate value, an empty list, more than
 * 65,536 values of one axis, and a missing model or cluster. Afterwards the space no longer changes. */
gboolean space_finish(Space *space, GError **error);
/* As space_finish(), but reads no model and no cluster, so no configurations can be built: for a space whose results
 * are already known. */
gboolean space_finish_closed(Space *space, GError **error);

/* Number of configurations; G_MAXINT64 if there are that many or more. */
gint64 space_count(const Space *space);

/* Axes that were given. */
int space_n_axes(const Space *space);
const char *space_axis_name(const Space *space, int axis); /* "tp" */
int space_axis_n_values(const Space *space, int axis);
const char *space_axis_nth(const Space *space, int axis, int i); /* its i-th value. Borrowed */
/* The value of one axis in a configuration, spelled as its option takes it. Borrowed. */
const char *space_axis_value(const Space *space, int axis, gint64 index);

/* The model or cluster read for the value of that index. Borrowed. */
int space_n_clusters(const Space *space);
const Model *space_model(const Space *space, int i);
const Cluster *space_cluster(const Space *space, int i);

/* One configuration. */
typedef struct {
  const Model *model;     /* borrowed from the space */
  const Cluster *cluster; /* borrowed from the space */
  const Plan *plan;       /* borrowed from the reader, until its next read; not completed: predict() does that */
} SpacePoint;

/* Builds configurations of a finished space; one reader per thread, any number per space. */
typedef struct SpaceReader SpaceReader;
SpaceReader *space_reader_new(const Space *space);
void space_reader_free(SpaceReader *reader);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SpaceReader, space_reader_free)
/* `index` from 0 to space_count() − 1. Values that conflict before any plan is made, such as a memory cap with a
 * schedule that takes none, are INPUT; plan_complete() finds the other conflicts. Options that do not apply to the
 * model are IMPOSSIBLE, but INPUT in a space of one configuration. */
gboolean space_reader_read(SpaceReader *reader, gint64 index, SpacePoint *point, GError **error);
