#include "plan_order.h"
#include "error.h"
#include "order_read.h"
#include "suggest.h"
#include <string.h>

static const char file_prefix[] = "file:", auto_name[] = "auto";

const char *const *plan_order_names(void) {
  static const char *const names[] = {SCHEDULE_NAMES, auto_name, NULL};
  return names;
}

/* With two chunks per rank, auto makes a V: the shortest bubbles need the first and last stage on one rank. */
static PlacementShape shape_of(const PlanOrder *choice, int n_chunks) {
  if (choice->info != NULL)
    return choice->info->placement;
  return n_chunks == 2 ? PLACEMENT_V : PLACEMENT_LOOP;
}

static gboolean open_file(PlanOrder *choice, Plan *plan, const char *file, GError **error) {
  choice->read = order_read_csv(file, error);
  if (choice->read == NULL)
    return FALSE;
  const Placement *placement = choice->read->placement;
  int n_chunks = placement->n_stages / placement->n_ranks;
  if (placement->n_ranks != plan->pp)
    return fail_impossible(error, "%s is an order for %d pipeline ranks, the plan has pp %d", file, placement->n_ranks,
                           plan->pp);
  if (plan->chunks != 0 && plan->chunks != n_chunks)
    return fail_impossible(error, "%s is an order for %d chunks per pipeline rank, the plan has chunks %d", file,
                           n_chunks, plan->chunks);
  plan->chunks = n_chunks;
  plan->n_pipes = placement->n_pipes;
  return TRUE;
}

const char *plan_order_spelling(const char *name) {
  const int index = suggest_same(name, plan_order_names());
  return index >= 0 ? plan_order_names()[index] : name;
}

const char *plan_order_file(const char *schedule) {
  return g_str_has_prefix(schedule, file_prefix) ? schedule + strlen(file_prefix) : NULL;
}

gboolean plan_order_find(PlanOrder *choice, const char *name, GError **error) {
  *choice = (PlanOrder){0};
  if (strcmp(name, auto_name) == 0)
    return TRUE;
  choice->info = schedule_find(name, NULL);
  if (choice->info != NULL)
    return TRUE;
  g_autofree char *hint = suggest_message(name, plan_order_names());
  return fail_input(error, "unknown schedule \"%.80s\", no file:orders.csv either: %s", name, hint);
}

/* What the schedule's own runtime does; auto counts as a zero-bubble schedule, a file is followed literally. */
static gboolean overlaps_p2p(const PlanOrder *choice) {
  return choice->info == NULL || choice->info->overlaps_p2p;
}

/* Orders that defer W gain most when the next step's forwards overlap with this step's end. */
static gboolean waits_for_norm(const PlanOrder *choice) {
  return choice->info != NULL ? !choice->info->runs_on : choice->read != NULL;
}

static gboolean find_schedule(PlanOrder *choice, Plan *plan, GError **error) {
  const char *file = plan_order_file(plan->schedule);
  if (file != NULL)
    return open_file(choice, plan, file, error);
  if (!plan_order_find(choice, plan->schedule, error))
    return FALSE;
  if (plan->chunks == 0)
    plan->chunks = choice->info != NULL ? schedule_default_chunks(choice->info, plan->pp) : 1;
  plan->n_pipes = shape_of(choice, plan->chunks) == PLACEMENT_BIDIRECTIONAL ? 2 : 1;
  return choice->info == NULL || schedule_check_chunks(choice->info, plan->chunks, error);
}

/* A schedule whose own runtime overlaps does so under any framework. */
static gboolean framework_overlaps(const Plan *plan, gboolean of_schedule) {
  switch ((FrameworkP2P)plan->time.overlap_p2p) {
  case P2P_ALWAYS:
    return TRUE;
  case P2P_CHUNKS:
    return of_schedule || plan->chunks > 1;
  case P2P_OF_SCHEDULE:
    break;
  }
  return of_schedule;
}

gboolean plan_order_open(PlanOrder *choice, Plan *plan, GError **error) {
  *choice = (PlanOrder){0};
  plan_default_schedule(plan);
  if (!find_schedule(choice, plan, error))
    return FALSE;
  if (plan->overlap_p2p < 0)
    plan->overlap_p2p = framework_overlaps(plan, overlaps_p2p(choice));
  if (plan->grad_norm_barrier < 0)
    plan->grad_norm_barrier = plan->pp == 1 || waits_for_norm(choice);
  return TRUE;
}

void plan_order_clear(PlanOrder *choice) {
  g_clear_pointer(&choice->read, order_free);
}

Placement *plan_order_auto_placement(int n_ranks, int n_chunks) {
  const PlanOrder automatic = {0};
  return placement_new(shape_of(&automatic, n_chunks), n_ranks, n_chunks);
}

/* The placement of the plan's stages. Owned by the caller. */
static Placement *placement_of(const PlanOrder *choice, const Plan *plan) {
  if (choice->read != NULL)
    return placement_copy(choice->read->placement);
  return placement_new(shape_of(choice, plan->chunks), plan->pp, plan->chunks);
}

gboolean plan_order_complete(PlanOrder *choice, const Model *model, const Cluster *cluster, Plan *plan,
                             GError **error) {
  return plan_order_open(choice, plan, error) && plan_complete(plan, model, cluster, error);
}

Workload *plan_order_place(const PlanOrder *choice, const Model *model, const Plan *plan) {
  g_autoptr(Placement) placement = placement_of(choice, plan);
  return workload_new(model, plan, placement);
}

Workload *plan_order_workload(PlanOrder *choice, const Model *model, const Cluster *cluster, Plan *plan,
                              GError **error) {
  return plan_order_complete(choice, model, cluster, plan, error) ? plan_order_place(choice, model, plan) : NULL;
}

gboolean plan_order_is_auto(const PlanOrder *choice) {
  return choice->info == NULL && choice->read == NULL;
}

Order *plan_order_make(PlanOrder *choice, const Plan *plan, GError **error) {
  g_assert(!plan_order_is_auto(choice));
  if (choice->read == NULL) {
    OrderShape shape = {plan->pp, plan->chunks, (int)plan->n_micro_batches, plan->group, plan_takes_turns(plan)};
    return order_new(choice->info, shape, error);
  }
  if (choice->read->n_micro_batches == plan->n_micro_batches)
    return g_steal_pointer(&choice->read);
  fail_impossible(error,
                  "%s is an order for %d micro-batches, the plan has %" G_GINT64_FORMAT
                  " (global-batch / (micro-batch × dp))",
                  plan_order_file(plan->schedule), choice->read->n_micro_batches, plan->n_micro_batches);
  return NULL;
}

gint64 plan_order_group(const PlanOrder *choice, const Plan *plan) {
  if (choice->info == NULL || choice->info->repeats == NULL || plan->n_micro_batches > G_MAXINT)
    return 0;
  return choice->info->repeats((OrderShape){plan->pp, plan->chunks, (int)plan->n_micro_batches, plan->group});
}
