/* The passes read two kinds of input: what decides which ops there are and how they depend on each other (the key,
 * below), and sizes, which only end up in the tables. So a kept Program consists of the ops and, for each table
 * entry, the source of its size:
 *
 *     work       pieces of a stage: their FLOPs;  the optimizer's: parameters of the rank
 *     transfer   the action it is for, and what it moves
 *     effect     a recipe (effect_recipes.h)
 *
 * Entries share a number if they have the same source, not if they have the same size: sizes that are equal under one
 * plan may differ under the next.
 *
 * The proof of a Program (verify.h) depends on sizes in one place: members of a collective over pipeline ranks must
 * give equal bytes. If that relies on two entries being equal, it is checked again for each plan. */
#include "program_cache.h"

#include "effect_recipes.h"
#include "error.h"
#include "more_groups.h"
#include "number_key.h"
#include "passes.h"
#include "recent_table.h"
#include "transfer_sizes.h"

#include <string.h>

typedef struct {
  gint32 from; /* number in the lowered program */
  gint32 rank; /* of an optimizer's work; else −1 */
} WorkSource;

typedef struct {
  gint32 from;
  guint8 action; /* ActionKind; ACTION_SEND_F for all sends */
  gint32 of;     /* COPY_GRAD, broadcast of weights: the stage; WHOLE_GRAD: the rank; else −1 */
} TransferSource;

typedef struct {
  gint32 a, b; /* transfers */
} Pair;

typedef struct {
  Program *program;       /* shared ops; its tables have the sizes of the plan it was lowered for */
  GArray *works;          /* of WorkSource, one per work; shared with longer programs, as all below */
  GArray *transfers;      /* of TransferSource */
  EffectRecipes *recipes; /* one per effect */
  GArray *equals;         /* of Pair: transfers whose bytes must be equal */
  gsize n_ops;            /* in all its lists */
} Kept;

struct ProgramCache {
  RecentTable *kept;       /* of Kept; its size is counted in ops */
  GHashTable *cuts;        /* number key of what decides a stage's cuts → what they add to the main key; owned */
  ProgramCacheStats stats; /* n_lowered + n_longer numbers the shared ops */
};

/* --- the key: all that decides the ops --- */

/* Where a stage's parameters are cut into gathers and buckets, and which of these move anything at all. */
static void add_cuts(GArray *key, const Workload *workload, const Part *part, double least, gboolean backward,
                     GArray *cuts) {
  g_array_set_size(cuts, 0);
  part_cut(workload, part, backward, least, cuts);
  for (guint c = 0; c < cuts->len; c++) {
    const Part *cut = &g_array_index(cuts, Part, c);
    gint64 moves = (part_parameters_once(workload, cut, PIECE_EMBEDDING) > 0 ? 1 : 0) |
                   (part_parameters_once(workload, cut, PIECE_HEAD) > 0 ? 2 : 0);
    number_key_add(key, (gint64)cut->first_layer << 32 | cut->n_layers << 4 | cut->n_head << 3 | cut->n_embedding << 2 |
                            moves);
    number_key_add(key, cut->n_dense);
  }
}

static gint64 bits_of(double value) {
  gint64 bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Everything that part_cut() and add_cuts() read from the workload, and the part. */
static GArray *key_of_cuts(const Workload *workload, const Part *part, double least) {
  G_STATIC_ASSERT(sizeof workload->piece_parameters[0] == sizeof(gint64));
  GArray *key = g_array_sized_new(FALSE, FALSE, sizeof(gint64), N_PIECES + 4);
  g_array_append_vals(key, workload->piece_parameters, N_PIECES);
  number_key_add(key, workload->shared_parameters);
  number_key_add(key, bits_of(least));
  number_key_add(key, (gint64)part->n_layers << 2 | (part->n_embedding > 0 ? 2 : 0) | (part->n_head > 0 ? 1 : 0));
  number_key_add(key, part->n_dense);
  return key;
}

/* Adds the cuts of both forwards and backwards, remembered from recent plans with such a stage: the plans of a sweep
 * have few distinct ones. */
static void add_cuts_of(ProgramCache *cache, GArray *key, const Workload *workload, int stage) {
  enum { MOST_KEPT = 64 };
  const Part part = part_of_stage(workload, stage);
  const double least = workload->plan->zero == 3 ? 0 : (double)workload->plan->bucket_parameters;
  g_autoptr(GArray) inputs = key_of_cuts(workload, &part, least);
  GArray *known = g_hash_table_lookup(cache->cuts, inputs);
  if (known == NULL) {
    g_autoptr(GArray) cuts = g_array_new(FALSE, FALSE, sizeof(Part));
    known = number_key_new();
    add_cuts(known, workload, &part, least, FALSE, cuts);
    add_cuts(known, workload, &part, least, TRUE, cuts);
    if (g_hash_table_size(cache->cuts) == MOST_KEPT)
      g_hash_table_remove_all(cache->cuts);
    g_hash_table_insert(cache->cuts, g_steal_pointer(&inputs), known);
  }
  g_array_append_vals(key, known->data, known->len);
}

static gboolean holds_alike(const StageLayers *a, const StageLayers *b) {
  return a->n_layers == b->n_layers && a->n_dense == b->n_dense && a->has_embedding == b->has_embedding &&
         a->has_head == b->has_head;
}

/* Stages with the same contents are cut alike: in a run of such stages the first is enough. */
static void add_stages(ProgramCache *cache, GArray *key, const Workload *workload) {
  const gboolean is_cut = lowering_reduces(workload);
  for (int stage = 0; stage < workload->n_stages; stage++) {
    const StageLayers *layers = &workload->stages[stage].layers;
    number_key_add(key, layers->n_dense);
    number_key_add(key, (gint64)layers->n_layers << 2 | (layers->has_embedding ? 2 : 0) | (layers->has_head ? 1 : 0));
    if (lowering_broadcasts_weights(workload))
      number_key_add(key,
                     (gint64)lowering_owners(workload, stage, TRUE) << 32 | lowering_owners(workload, stage, FALSE));
    if (lowering_moves_tensors(workload))
      number_key_add(key, (gint64)workload_stage_matrices(workload, stage, TRUE) << 32 |
                              workload_stage_matrices(workload, stage, FALSE));
    if (is_cut && (stage == 0 || !holds_alike(layers, &workload->stages[stage - 1].layers)))
      add_cuts_of(cache, key, workload, stage);
  }
}

static GArray *key_of(ProgramCache *cache, const PlanOrder *choice, const Workload *workload, gint64 n_micro_batches) {
  const Plan *plan = workload->plan;
  const gboolean gathers_early = lowering_gathers_early(workload);
  const gint64 numbers[] = {
      (gint64)GPOINTER_TO_SIZE(choice->info), /* a row of a static table */
      plan->pp,
      plan->chunks,
      n_micro_batches,
      plan->group,
      plan->steps,
      plan->zero,
      plan->overlap_p2p,
      plan->time.sends,
      plan->time.gradients,
      plan_reduces_once(plan),
      lowering_optimizers(workload),
      lowering_moves_tensors(workload),
      gathers_early,
      gathers_early && plan->zero == 3 ? lowering_window(workload) : 0,
      lowering_exceeds_live(workload) && plan->recompute == RECOMPUTE_FULL,
      plan->grad_norm_barrier,
      plan->overlap_grad && lowering_makes_buckets(workload),
      plan->cp > 1, /* dp groups then span the cp ranks */
      plan_data_ranks(plan) > 1,
      lowering_shards(workload) > 1,
      lowering_replicas(workload) > 1,
      plan->ep > 1, /* the norm's group spans its ranks */
      lowering_takes_turns(workload),
      workload->layout.takes_tp,
      workload->expert_parameters[PIECE_LAYER] > 0,
      workload->expert_parameters[PIECE_HEAD] > 0,
      lowering_expert_shards(workload) > 1,
      lowering_expert_copies(workload) > 1,
      plan->tp > 1,
      plan->tp > 1 && plan->sequence_parallel,
      workload->model->qk_norms != QK_NORMS_NONE, /* reduced over tp: with the layers, or with heads that have some */
      plan->mtp_layers > 0,
      workload->tied_parameters > 0,
      workload->shared_parameters > 0,
  };
  GArray *key = number_key_new();
  g_array_append_vals(key, numbers, G_N_ELEMENTS(numbers));
  add_stages(cache, key, workload);
  return key;
}

/* --- sizes --- */

/* The entry, sized for this workload. */
static Work sized_work(const Work *work, const WorkSource *source, const Workload *workload) {
  Work sized = *work;
  const Part part = part_of_work(work, 0);
  if (work->phase == PHASE_OPTIMIZER) {
    sized.parameters = optimizer_parameters(workload, source->rank);
    sized.passed = optimizer_passed(workload, source->rank);
  } else {
    sized.flops = part_flops(workload, work->phase, &part);
  }
  return sized;
}

static gboolean bytes_agree(const Kept *kept, const Program *program) {
  const Transfer *transfers = (const Transfer *)(void *)program->transfers->data;
  for (guint i = 0; i < kept->equals->len; i++) {
    const Pair *pair = &g_array_index(kept->equals, Pair, i);
    if (transfers[pair->a].bytes != transfers[pair->b].bytes)
      return FALSE;
  }
  return TRUE;
}

static void size_tables(const Kept *kept, Program *program, const Workload *workload) {
  for (guint i = 0; i < program->works->len; i++) {
    Work *work = &g_array_index(program->works, Work, i);
    *work = sized_work(work, &g_array_index(kept->works, WorkSource, i), workload);
  }
  for (guint i = 0; i < program->transfers->len; i++) {
    Transfer *transfer = &g_array_index(program->transfers, Transfer, i);
    const TransferSource *source = &g_array_index(kept->transfers, TransferSource, i);
    transfer->bytes = transfer_size(workload, program, transfer, (ActionKind)source->action, source->of);
  }
  g_array_set_size(program->effects, (guint)effect_recipes_count(kept->recipes));
  for (guint i = 0; i < program->effects->len; i++)
    g_array_index(program->effects, Effect, i) = effect_recipes_evaluate(kept->recipes, (gint32)i, program, workload);
  memory_set_residents(program, workload);
}

/* A program that runs the kept one's ops, with tables sized for the workload. NULL if members of a collective would
 * give different bytes. */
static Program *lend(const Kept *kept, const Workload *workload) {
  const Program *source = kept->program;
  g_autoptr(Program) program = program_new_sharing(source);
  size_tables(kept, program, workload);
  return bytes_agree(kept, program) ? g_steal_pointer(&program) : NULL;
}

/* --- keeping a program --- */

/* Maps entries of the lowered program to those of the kept one. */
typedef struct {
  Kept *kept;
  const Program *lowered; /* with its original tables */
  gint32 *works;          /* [lowered works] new number; −1 none yet. Not used for optimizers */
  gint32 *sends;          /* [lowered transfers] the same, for sends only */
  int rank;
  gint32 optimizer; /* the rank's; −1 none yet */
} Renumbering;

static gint32 add_work(Renumbering *renumbering, gint32 from, gint32 rank) {
  WorkSource source = {from, rank};
  g_array_append_val(renumbering->kept->works, source);
  return (gint32)renumbering->kept->works->len - 1;
}

static gint32 kept_work(Renumbering *renumbering, const Op *op) {
  gboolean is_optimizer = g_array_index(renumbering->lowered->works, Work, op->work).phase == PHASE_OPTIMIZER;
  gint32 *number = is_optimizer ? &renumbering->optimizer : &renumbering->works[op->work];
  if (*number < 0)
    *number = add_work(renumbering, op->work, is_optimizer ? renumbering->rank : -1);
  return *number;
}

static gint32 find_transfer(GArray *sources, const TransferSource *wanted) {
  for (guint i = 0; i < sources->len; i++) {
    const TransferSource *source = &g_array_index(sources, TransferSource, i);
    if (source->from == wanted->from && source->action == wanted->action && source->of == wanted->of)
      return (gint32)i;
  }
  g_array_append_vals(sources, wanted, 1);
  return (gint32)sources->len - 1;
}

static gint32 kept_transfer(Renumbering *renumbering, const Op *op) {
  GArray *sources = renumbering->kept->transfers;
  TransferSource source = {op->work, op->action, -1};
  if (op->kind == OP_COLLECTIVE) {
    const Transfer *transfer = &g_array_index(renumbering->lowered->transfers, Transfer, op->work);
    const gboolean is_of_stage = op->action == ACTION_COPY_GRAD || transfer->collective == COLLECTIVE_BROADCAST;
    source.of = is_of_stage ? op->stage : op->action == ACTION_WHOLE_GRAD ? renumbering->rank : -1;
    return find_transfer(sources, &source);
  }
  gint32 *number = &renumbering->sends[op->work];
  source.action = ACTION_SEND_F;
  if (*number < 0)
    *number = find_transfer(sources, &source);
  return *number;
}

static void renumber_rank(Renumbering *renumbering, int rank) {
  OpList *list = &renumbering->kept->program->ranks[rank];
  renumbering->rank = rank;
  renumbering->optimizer = -1;
  for (int i = 0; i < list->n_ops; i++) {
    Op *op = &list->ops[i];
    if (op->kind == OP_COMPUTE)
      op->work = kept_work(renumbering, op);
    else if (op->kind != OP_HOST)
      op->work = kept_transfer(renumbering, op);
  }
}

/* Builds the kept program's tables from those of the lowered one. */
static void pick_entries(Kept *kept, GArray *works, GArray *transfers) {
  for (guint i = 0; i < kept->works->len; i++)
    g_array_append_val(kept->program->works,
                       g_array_index(works, Work, g_array_index(kept->works, WorkSource, i).from));
  for (guint i = 0; i < kept->transfers->len; i++)
    g_array_append_val(kept->program->transfers,
                       g_array_index(transfers, Transfer, g_array_index(kept->transfers, TransferSource, i).from));
}

/* n + 1 times −1: n may be 0. */
static gint32 *no_numbers(guint n) {
  gint32 *numbers = g_new(gint32, n + 1);
  memset(numbers, 0xff, (n + 1) * sizeof *numbers);
  return numbers;
}

static void renumber(Kept *kept) {
  Program *program = kept->program;
  Renumbering renumbering = {.kept = kept,
                             .lowered = program,
                             .works = no_numbers(program->works->len),
                             .sends = no_numbers(program->transfers->len)};
  for (int rank = 0; rank < program->n_ranks; rank++)
    renumber_rank(&renumbering, rank);
  g_free(renumbering.works);
  g_free(renumbering.sends);
  g_autoptr(GArray) works = g_steal_pointer(&program->works), transfers = g_steal_pointer(&program->transfers);
  program->works = g_array_new(FALSE, FALSE, sizeof(Work));
  program->transfers = g_array_new(FALSE, FALSE, sizeof(Transfer));
  pick_entries(kept, works, transfers);
}

/* Pairs the k-th collective of each group over pipeline ranks on every member with that of the group's first
 * member. */
static void find_equals(Kept *kept) {
  const Program *program = kept->program;
  for (guint g = 0; g < program->groups->len; g++) {
    if (!g_array_index(program->groups, Group, g).spans_pp)
      continue;
    g_autoptr(GArray) first = g_array_new(FALSE, FALSE, sizeof(gint32)); /* transfers of the first member */
    int n_members = 0;
    for (int rank = 0; rank < program->n_ranks; rank++) {
      guint k = 0;
      for (int i = 0; i < program->ranks[rank].n_ops; i++) {
        const Op *op = &program->ranks[rank].ops[i];
        if (op->kind != OP_COLLECTIVE || g_array_index(program->transfers, Transfer, op->work).group != (gint32)g)
          continue;
        if (n_members == 0)
          g_array_append_val(first, op->work);
        Pair pair = {g_array_index(first, gint32, k++), op->work};
        if (pair.a != pair.b)
          g_array_append_val(kept->equals, pair);
      }
      n_members += k > 0;
    }
  }
}

static void kept_free(gpointer data) {
  Kept *kept = data;
  program_free(kept->program);
  g_array_unref(kept->works);
  g_array_unref(kept->transfers);
  effect_recipes_free(kept->recipes);
  g_array_unref(kept->equals);
  g_free(kept);
}

static gsize count_ops(const Program *program) {
  gsize n_ops = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_ops += (gsize)program->ranks[rank].n_ops;
  return n_ops;
}

/* Takes ownership of the program and its matches. */
static Kept *keep(Program *program, const Lowering *lowering, gint32 **match) {
  Kept *kept = g_new0(Kept, 1);
  *kept = (Kept){.program = program,
                 .works = g_array_new(FALSE, FALSE, sizeof(WorkSource)),
                 .transfers = g_array_new(FALSE, FALSE, sizeof(TransferSource)),
                 .equals = g_array_new(FALSE, FALSE, sizeof(Pair))};
  renumber(kept);
  program_share_matched(program, match);
  kept->recipes = memory_recipes(program, lowering, program->n_steps);
  find_equals(kept);
  kept->n_ops = count_ops(program);
  return kept;
}

/* The ops of `kept`, extended to the plan's micro-batches. NULL: cannot be derived. */
static Program *longer_program(const Kept *kept, const Workload *workload, gint64 group) {
  g_autoptr(Program) fewer = lend(kept, workload);
  g_autoptr(ProgramRepeats) repeats = fewer != NULL ? program_repeats_new(fewer, (int)group) : NULL;
  const gint64 n_more = workload->plan->n_micro_batches - kept->program->n_micro_batches;
  return repeats != NULL && n_more % group == 0 ? program_of_more_groups(repeats, n_more / group) : NULL;
}

/* The matching of sends is checked on the longer lists. Collectives over pipeline ranks are those of `kept`: no group
 * contains one. */
static Kept *keep_longer(const Kept *kept, const Workload *workload, gint64 group) {
  g_autoptr(Program) program = longer_program(kept, workload, group);
  gint32 **match;
  if (program == NULL || !program_match(program, &match, NULL))
    return NULL;
  program_share_matched(program, match);
  Kept *longer = g_new(Kept, 1);
  *longer = (Kept){.program = g_steal_pointer(&program),
                   .works = g_array_ref(kept->works),
                   .transfers = g_array_ref(kept->transfers),
                   .recipes = effect_recipes_share(kept->recipes),
                   .equals = g_array_ref(kept->equals)};
  longer->n_ops = count_ops(longer->program);
  return longer;
}

/* --- the cache --- */

ProgramCache *program_cache_new(gsize most_ops) {
  ProgramCache *cache = g_new0(ProgramCache, 1);
  cache->kept = recent_table_new(most_ops, kept_free);
  cache->cuts = g_hash_table_new_full(number_key_hash, number_key_equal, (GDestroyNotify)g_array_unref,
                                      (GDestroyNotify)g_array_unref);
  return cache;
}

void program_cache_free(ProgramCache *cache) {
  if (cache == NULL)
    return;
  recent_table_free(cache->kept);
  g_hash_table_unref(cache->cuts);
  g_free(cache);
}

ProgramCacheStats program_cache_stats(const ProgramCache *cache) {
  return cache->stats;
}

/* NULL: no program with n_fewer micro-batches is kept, or it cannot be extended. */
static Kept *lengthen(ProgramCache *cache, const PlanOrder *choice, const Workload *workload, gint64 n_fewer) {
  const gint64 group = plan_order_group(choice, workload->plan);
  if (group == 0 || n_fewer >= workload->plan->n_micro_batches)
    return NULL;
  g_autoptr(GArray) key = key_of(cache, choice, workload, n_fewer);
  const Kept *kept = recent_table_find(cache->kept, key);
  Kept *longer = kept != NULL ? keep_longer(kept, workload, group) : NULL;
  cache->stats.n_longer += longer != NULL;
  return longer;
}

static Kept *lower_and_keep(ProgramCache *cache, PlanOrder *choice, const Workload *workload, GError **error) {
  g_autoptr(Order) order = plan_order_make(choice, workload->plan, error);
  if (order == NULL)
    return NULL;
  const Lowering lowering = {
      .order = order, .workload = workload, .n_steps = workload->plan->steps, .no_effects = TRUE};
  g_autoptr(Program) program = lower(&lowering, NULL, NULL, error);
  gint32 **match;
  if (program == NULL || !program_match(program, &match, error))
    return NULL;
  cache->stats.n_lowered++;
  return keep(g_steal_pointer(&program), &lowering, match);
}

Program *program_cache_lower(ProgramCache *cache, PlanOrder *choice, const Workload *workload, gint64 n_fewer,
                             GError **error) {
  g_assert(choice->info != NULL);
  g_autoptr(GArray) key = key_of(cache, choice, workload, workload->plan->n_micro_batches);
  const Kept *kept = recent_table_find(cache->kept, key);
  Program *lent = kept != NULL ? lend(kept, workload) : NULL;
  if (lent != NULL) {
    cache->stats.n_lent++;
    return lent;
  }
  Kept *made = lengthen(cache, choice, workload, n_fewer);
  if (made == NULL)
    made = lower_and_keep(cache, choice, workload, error);
  if (made == NULL)
    return NULL;
  made->program->shared->number = cache->stats.n_lowered + cache->stats.n_longer;
  recent_table_add(cache->kept, g_steal_pointer(&key), made, made->n_ops);
  return lend(made, workload);
}
