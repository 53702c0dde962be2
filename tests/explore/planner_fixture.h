/* Plan spaces from a few options, and searches of them. */
#pragma once
#include "error.h"
#include "plan_space.h"
#include "planner.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* Gives an empty space these axes, "tp=1,2 pp=1 …", fills the open ones and finishes it. */
static inline void fill_space(Space *space, const char *given) {
  g_autoptr(GError) error = NULL;
  g_autoptr(GRegex) between = g_regex_new(" (?=[a-z0-9-]+=)", 0, 0, NULL); /* a path may have blanks */
  g_autofree char *lines = g_regex_replace_literal(between, given, -1, 0, "\n", 0, NULL);
  const gboolean ok =
      space_set_text(space, lines, &error) && plan_space_fill(space, &error) && space_finish(space, &error);
  ck_assert_msg(ok, "%s", error != NULL ? error->message : "");
}

static inline Space *space_of(const char *given) {
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
  static const char given[] =
      "model=llama-3-8b cluster=dgx-h100 gpus=16 tp=2 pp=4 chunks=2 pipeline-layout=auto micro-batch=1 "
      "global-batch=32 seq-len=2048 zero=1 recompute=none sequence-parallel=on schedule=interleaved";
  *space = space_of(given);
  *request = request_of(*space);
  return search(request);
}
