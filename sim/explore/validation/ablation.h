/* The parts the model adds to kernels, collectives and their order, by name; each can be removed to see how much of
 * the accuracy it accounts for. */
#pragma once
#include "plan.h"

/* A set of parts: bit i stands for the i-th. */
typedef guint Parts;

int parts_count(void);
/* Name of the i-th, 0 ≤ i < parts_count(). */
const char *part_name(int i);

/* "skew,host" → *parts. INPUT for an unknown name (listing the valid ones and the nearest), a duplicate, or a
 * missing name. */
gboolean parts_parse(const char *text, Parts *parts, GError **error);
/* "host, skew", in the order of the table; "" for none. Owned by the caller. */
char *parts_text(Parts parts);
/* One line each, "  host            host time …"; owned by the caller. */
char *parts_help(void);

/* A plan (not completed) without `parts`. A recipe set by a framework becomes that of a new plan. */
void parts_take_away(Parts parts, Plan *plan);
