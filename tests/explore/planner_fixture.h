/* Plan spaces from a few options, and searches of them. */
#pragma once
#include "error.h"
#include "plan_space.h"
#include "planner.h"

#include <check.h>
#include <math.h>
#include <string.h>

typedef struct {
  const char *name, *text;
} Given;

/* Gives an empty space these axes, fills the open ones and finishes it. */
static inline void fill_space(Space *space, const Given *given) {
  g_autoptr(GError) error = NULL;
  gboolean ok = TRUE;
  for (; ok && given->name != NULL; given++)
    ok = space_set(space, given->name, given->text, &error);
  ok = ok && plan_space_fill(space, &error) && space_finish(space, &error);
  ck_assert_msg(ok, "%s", error != NULL ? error->message : "");
}

static inline Space *space_of(const Given *given) {
  Space *space = space_new();
  fill_space(space, given);
  return space;
}

static inline PlannerRequest request_of(const Space *space) {
  return (PlannerRequest){.space = space,
                          .scoring = {OBJECTIVE_TOKENS_PER_S, -1},
                          .n_kept = 5,
                          .framework = PLANNER_ANY_FRAMEWORK,
                          .n_threads = 1};
}

static inline PlannerResult *search(const PlannerRequest *request) {
  g_autoptr(GError) error = NULL;
  PlannerResult *result = planner_search(request, NULL, &error);
  ck_assert_msg(result != NULL, "%s", error != NULL ? error->message : "");
  return result;
}

/* llama-3-8b has 32 layers: 8 stages of 4 over pp 4 and 2 chunks; the next even splits are 4 and 16 stages. */
static inline PlannerResult *search_one_plan(Space **space, PlannerRequest *request) {
  const Given given[] = {{"model", "llama-3-8b"},
                         {"cluster", "dgx-h100"},
                         {"gpus", "16"},
                         {"tp", "2"},
                         {"pp", "4"},
                         {"chunks", "2"},
                         {"pipeline-layout", "auto"},
                         {"micro-batch", "1"},
                         {"global-batch", "32"},
                         {"seq-len", "2048"},
                         {"zero", "1"},
                         {"recompute", "none"},
                         {"sequence-parallel", "on"},
                         {"schedule", "interleaved"},
                         {NULL}};
  *space = space_of(given);
  *request = request_of(*space);
  return search(request);
}
