/* Transfers of a Program may also start in the order of its lists, whatever their streams: each once the one before it
 * has started. NCCL is told to start them so (real/comm/nccl_group.c), as it would otherwise start kernels of several
 * communicators in any order, which may not all find room on a GPU. Nothing may wait in a cycle then:
 *
 *     a transfer starts   after its stream's and the host's op before it, what `after` names, and the start of the
 *                         transfer before it (or before its batch)
 *     it ends             once its peer, or all pipeline ranks of its group, have started
 *
 * Checked on drawn plans under every schedule. A Program made otherwise may list transfers in an order that gets stuck.
 */
#include "error.h"
#include "run_suite.h"

#include <check.h>

#include "passes.h"
#include "plan.h"
#include "plan_cases.h"
#include "plan_schedule.h"
#include "program_fixture.h"

enum { N_DRAWN = 1200, LEAST_RUN = 400, MOST_GPUS = 1024 };
typedef enum { IDLE, STARTED, ENDED } State;

typedef struct {
  int on_stream, of_host, transfer; /* the op before it; −1: none */
  int k;                            /* its number among its group's collectives on this rank */
  State state;
} Place;

static gboolean is_transfer(const Op *op) {
  return op->kind == OP_SEND || op->kind == OP_RECV ||
         (op->kind == OP_COLLECTIVE && op->stream != STREAM_COPY && op->stream != STREAM_COPY_OUT);
}

static int group_of(const Program *program, const Op *op) {
  return g_array_index(program->transfers, Transfer, op->work).group;
}

static Place *places_of(const Program *program, int rank) {
  const OpList *list = &program->ranks[rank];
  g_autofree int *n_of_group = g_new0(int, program->groups->len + 1);
  Place *places = g_new0(Place, (gsize)list->n_ops + 1);
  int on_stream[N_STREAMS], of_host = -1, transfer = -1, before_batch = -1, batch = -1;
  for (int i = 0; i < N_STREAMS; i++)
    on_stream[i] = -1;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    places[i] = (Place){.on_stream = on_stream[op->stream], .of_host = of_host, .transfer = -1};
    on_stream[op->stream] = i;
    of_host = op->kind == OP_HOST ? i : of_host;
    if (!is_transfer(op))
      continue;
    before_batch = op->batch >= 0 && op->batch == batch ? before_batch : transfer;
    places[i].transfer = before_batch;
    places[i].k = op->kind == OP_COLLECTIVE ? n_of_group[group_of(program, op)]++ : 0;
    batch = op->batch;
    transfer = i;
  }
  return places;
}

static gboolean can_start(const Op *op, const Place *places, int i) {
  const Place *place = &places[i];
  gboolean can = (place->on_stream < 0 || places[place->on_stream].state == ENDED) &&
                 (place->of_host < 0 || places[place->of_host].state == ENDED) &&
                 (place->transfer < 0 || places[place->transfer].state != IDLE);
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
    can = can && places[op->after[k]].state == ENDED;
  return can;
}

/* Whether the rank has started the k-th collective of the group. */
static gboolean has_come(const Program *program, int rank, const Place *places, int group, int k) {
  for (int i = 0; i < program->ranks[rank].n_ops; i++) {
    const Op *op = &program->ranks[rank].ops[i];
    if (op->kind == OP_COLLECTIVE && places[i].k == k && group_of(program, op) == group)
      return places[i].state != IDLE;
  }
  return FALSE;
}

static gboolean can_end(const Program *program, Place **places, gint32 *const *match, int rank, int i) {
  const Op *op = &program->ranks[rank].ops[i];
  if (op->kind == OP_SEND || op->kind == OP_RECV)
    return places[op->peer][match[rank][i]].state != IDLE;
  if (op->kind != OP_COLLECTIVE)
    return TRUE;
  const int at = group_of(program, op);
  const Group *group = &g_array_index(program->groups, Group, at);
  for (int other = 0; group->spans_pp && other < program->n_ranks; other++)
    if ((group->pp_first < 0 || other == group->pp_first || other == group->pp_last) &&
        !has_come(program, other, places[other], at, places[rank][i].k))
      return FALSE;
  return TRUE;
}

/* Whether anything moved. */
static gboolean step_rank(const Program *program, Place **places, gint32 *const *match, int rank) {
  gboolean moves = FALSE;
  for (int i = 0; i < program->ranks[rank].n_ops; i++) {
    State *state = &places[rank][i].state, before = *state;
    if (*state == IDLE && can_start(&program->ranks[rank].ops[i], places[rank], i))
      *state = STARTED;
    if (*state == STARTED && can_end(program, places, match, rank, i))
      *state = ENDED;
    moves = moves || *state != before;
  }
  return moves;
}

/* The rank and op where it stops; rank −1: it reaches the end. */
static int run_in_order(const Program *program, int *stuck) {
  g_autoptr(GError) error = NULL;
  gint32 **match;
  ck_assert(program_match(program, &match, &error));
  g_autofree Place **places = g_new(Place *, program->n_ranks);
  int rank_of_stuck = -1;
  for (int rank = 0; rank < program->n_ranks; rank++)
    places[rank] = places_of(program, rank);
  for (gboolean moves = TRUE; moves;) {
    moves = FALSE;
    for (int rank = 0; rank < program->n_ranks; rank++)
      moves = step_rank(program, places, match, rank) || moves;
  }
  for (int rank = program->n_ranks - 1; rank >= 0; rank--) {
    for (int i = program->ranks[rank].n_ops - 1; i >= 0; i--)
      if (places[rank][i].state != ENDED)
        rank_of_stuck = rank, *stuck = i;
    g_free(places[rank]);
  }
  program_match_free(program, match);
  return rank_of_stuck;
}

/* NULL: the plan has no such Program. */
static Program *program_of(const Case *drawn) {
  g_autoptr(Workload) workload = workload_complete(&drawn->model, NULL, drawn->plan, NULL);
  if (workload == NULL || method_is_auto(workload->method))
    return NULL;
  g_autoptr(Order) order = method_order(workload->method, NULL);
  const Lowering lowering = {.order = order, .workload = workload, .n_steps = 2};
  g_autoptr(Program) whole = order != NULL ? lower(&lowering, NULL, NULL, NULL) : NULL;
  return whole != NULL ? program_expand(whole, workload) : NULL;
}

static void take_schedule(Case *drawn, int i) {
  const char *const *names = schedule_names();
  g_autoptr(Plan) other = plan_copy(drawn->plan);
  g_free(other->schedule);
  other->schedule = g_strdup(names[i % (int)g_strv_length((char **)names)]);
  other->chunks = i % 3 == 0 ? 1 : 2;
  if (!plan_complete(other, &drawn->model, drawn->cluster, NULL))
    return;
  plan_free(drawn->plan);
  drawn->plan = g_steal_pointer(&other);
}

TEST(transfers_may_start_in_list_order) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  int n_run = 0;
  for (int i = 0; i < N_DRAWN; i++) {
    g_auto(Case) drawn = random_case((guint)i, clusters, MOST_GPUS);
    take_schedule(&drawn, i);
    if (i % 4 == 1)
      add_experts(&drawn);
    else if (i % 4 == 2)
      add_cp(&drawn);
    g_autoptr(Program) program = drawn.plan->pp > 1 ? program_of(&drawn) : NULL;
    int op = -1;
    const int rank = program != NULL ? run_in_order(program, &op) : -1;
    g_autofree char *text = case_text(&drawn);
    ck_assert_msg(rank < 0, "%s: op %d of rank %d never ends", text, op, rank);
    n_run += program != NULL;
  }
  ck_assert_int_ge(n_run, LEAST_RUN);
  free_case_clusters(clusters);
}

/* Rank 1's third receive starts once the second has ended, for which rank 0 needs the first gradient: which is sent
 * after that receive has started. On its own stream it would not wait for it. */
TEST(a_receive_that_is_listed_too_early_gets_stuck) {
  g_autoptr(Program) program = read_program("program ranks=2 stages=2 micro_batches=3 steps=1 expanded=0\n"
                                            "work 0 F stage=0\n"
                                            "work 1 B stage=0\n"
                                            "work 2 F stage=1\n"
                                            "work 3 B stage=1\n"
                                            "transfer 0 send 0->1 bytes=1000\n"
                                            "transfer 1 send 1->0 bytes=1000\n"
                                            "rank 0\n"
                                            "  0 compute 0F0 work=0\n"
                                            "  1 send_f 0SEND_F0 peer=1 tag=0 transfer=0 after=0\n"
                                            "  2 recv_b 0RECV_B0 peer=1 tag=1 transfer=1\n"
                                            "  3 compute 0B0 work=1 after=2\n"
                                            "  4 compute 0F1 work=0\n"
                                            "  5 send_f 0SEND_F1 peer=1 tag=2 transfer=0 after=4\n"
                                            "  6 compute 0F2 work=0\n"
                                            "  7 send_f 0SEND_F2 peer=1 tag=4 transfer=0 after=6\n"
                                            "  8 recv_b 0RECV_B1 peer=1 tag=3 transfer=1\n"
                                            "  9 compute 0B1 work=1 after=8\n"
                                            "  10 recv_b 0RECV_B2 peer=1 tag=5 transfer=1\n"
                                            "  11 compute 0B2 work=1 after=10\n"
                                            "rank 1\n"
                                            "  0 recv_f 1RECV_F0 peer=0 tag=0 transfer=0\n"
                                            "  1 recv_f 1RECV_F1 peer=0 tag=2 transfer=0\n"
                                            "  2 recv_f 1RECV_F2 peer=0 tag=4 transfer=0\n"
                                            "  3 compute 1F0 work=2 after=0\n"
                                            "  4 compute 1B0 work=3\n"
                                            "  5 send_b 1SEND_B0 peer=0 tag=1 transfer=1 after=4\n"
                                            "  6 compute 1F1 work=2 after=1\n"
                                            "  7 compute 1B1 work=3\n"
                                            "  8 send_b 1SEND_B1 peer=0 tag=3 transfer=1 after=7\n"
                                            "  9 compute 1F2 work=2 after=2\n"
                                            "  10 compute 1B2 work=3\n"
                                            "  11 send_b 1SEND_B2 peer=0 tag=5 transfer=1 after=10\n");
  int op = -1;
  ck_assert_int_eq(run_in_order(program, &op), 0);
  ck_assert_int_eq(op, 2);
}

int main(void) {
  return run_tests();
}
