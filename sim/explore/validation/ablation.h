/* What the model adds to kernels, collectives and an order of them, by name, each to be taken away: how much of the
 * accuracy is due to it? */
#pragma once
#include "plan.h"

/* A set of parts: bit i stands for the i-th. */
typedef guint Parts;

int parts_count(void);
/* Of the i-th, 0 ≤ i < parts_count(). */
const char *part_name(int i);

/* "skew,host" → *parts. INPUT for a name that is unknown, with those there are and the nearest, for one that is written
 * twice, and where a name is missing. */
gboolean parts_parse(const char *text, Parts *parts, GError **error);
/* "host, skew", in the order of the table; "" for none. Owned by the caller. */
char *parts_text(Parts parts);
/* A line for each, "  host            host time …"; owned by the caller. */
char *parts_help(void);

/* A plan (not completed) without `parts`. The recipe that a framework set becomes that of a new plan. */
void parts_take_away(Parts parts, Plan *plan);
