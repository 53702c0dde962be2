/* What plans with collectives inside their layers (cp, ep) are held to, whatever the axis. */
#pragma once
#include "engine.h"
#include "lowering.h"
#include "plan_cases.h"
#include "plan_order.h"
#include "program_text.h"
#include "timing_model.h"
#include "verify.h"

static Metrics *run_program(const Case *drawn, const Workload *workload, const Program *program) {
  g_autoptr(Timing) timing = timing_model(program, workload, drawn->cluster);
  Simulation simulation = {.program = program,
                           .timing = timing,
                           .layout = &workload->layout,
                           .folded = TRUE,
                           .eager_bytes = drawn->cluster->eager_bytes};
  g_autoptr(Trace) trace = engine_run(&simulation, NULL);
  return metrics_new(trace);
}

/* Where transfers do not disturb each other, an op that is taken whole is as long as its kernels and its collectives of
 * all axes one by one, and is charged what they are. `text` names the plan. */
static inline void assert_whole_ops_are_sums(const Case *drawn, const char *text) {
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Plan) plan = plan_copy(drawn->plan);
  g_autoptr(Workload) workload = plan_order_workload(&choice, &drawn->model, drawn->cluster, plan, NULL);
  ck_assert_ptr_nonnull(workload);
  g_autoptr(Order) order = plan_order_make(&choice, plan, NULL);
  const Lowering lowering = {.order = order, .workload = workload, .n_steps = plan->steps};
  g_autoptr(Program) whole = lower(&lowering, NULL, NULL, NULL);
  g_autoptr(Program) expanded = program_expand(whole, workload);
  g_autoptr(Metrics) of_whole = run_program(drawn, workload, whole);
  g_autoptr(Metrics) of_runs = run_program(drawn, workload, expanded);
  ck_assert_msg(of_whole->step_ns == of_runs->step_ns, "%s: %d and %d ns", text, (int)of_whole->step_ns,
                (int)of_runs->step_ns);
  for (int rank = 0; rank < of_whole->n_ranks; rank++)
    for (int kind = 0; kind < N_BREAKDOWN; kind++)
      if (of_whole->ranks[rank].ns[kind] != of_runs->ranks[rank].ns[kind])
        ck_abort_msg("%s: rank %d, %s %d and %d ns", text, rank, breakdown_name((BreakdownKind)kind),
                     (int)of_whole->ranks[rank].ns[kind], (int)of_runs->ranks[rank].ns[kind]);
}

/* What is run is what the verifier proves, and the same again from its text, in which `group` stands. */
static inline void assert_survives_its_text(const Case *drawn, const char *group) {
  g_autoptr(Prediction) prediction = predict_case(drawn);
  g_autoptr(GError) error = NULL;
  ck_assert_msg(program_verify(prediction->program, &error), "%s", error != NULL ? error->message : "");
  g_autofree char *text = program_to_text(prediction->program);
  ck_assert_ptr_nonnull(strstr(text, group));
  Program *read = program_from_text(text, "dump", &error);
  ck_assert_msg(read != NULL, "%s", error != NULL ? error->message : "");
  g_autofree char *again = program_to_text(read);
  ck_assert(strcmp(text, again) == 0);
  g_autoptr(Prediction) same = predict_program(&drawn->model, drawn->cluster, drawn->plan, read, &error);
  ck_assert_msg(same != NULL, "%s", error != NULL ? error->message : "");
  ck_assert_int_eq(same->metrics->step_ns, prediction->metrics->step_ns);
}
