/* Why plans are impossible, counted. */
#pragma once
#include <glib.h>

typedef struct {
  char *text; /* the reason, its numbers as "…" where they are not always the same; owned */
  gint64 n;
} PlannerReason;

/* For one thread. */
typedef struct PlanReasons PlanReasons;
PlanReasons *plan_reasons_new(void);
void plan_reasons_free(PlanReasons *reasons);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PlanReasons, plan_reasons_free)
/* Count `n` more of a message; what differs in numbers alone is one reason. */
void plan_reasons_add(PlanReasons *reasons, const char *message, gint64 n);
/* Of `n` such, together: PlannerReason, a single message as it is, most frequent first, equally frequent ones by their
 * text. Owned by the caller.
 */
GArray *plan_reasons_collect(PlanReasons *const *reasons, int n);
