/* Why plans are impossible, counted. */
#pragma once
#include <glib.h>

typedef struct {
  char *text; /* the reason, with "…" for numbers that vary; owned */
  gint64 n;
} PlannerReason;

/* For one thread. */
typedef struct PlanReasons PlanReasons;
PlanReasons *plan_reasons_new(void);
void plan_reasons_free(PlanReasons *reasons);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PlanReasons, plan_reasons_free)
/* Count `n` more of a message; messages that differ only in numbers are one reason. */
void plan_reasons_add(PlanReasons *reasons, const char *message, gint64 n);
/* Merge `n` of these into PlannerReasons, most frequent first, ties by text; a message that occurred in one form
 * only is kept verbatim. Owned by the caller. */
GArray *plan_reasons_collect(PlanReasons *const *reasons, int n);
