/* A workload's lists name what is done; here each name is bound to its kernel, once per list. A name that occurs
 * twice in a list (the two norms of a layer) is distinguished by its occurrence, counted separately for each MTP
 * head. */
#include "items.h"

#include "error.h"
#include "host_machine.h"
#include "item_parts.h"

#include <string.h>

static const ItemKernel *find_in(const ItemKernel *table, const char *name) {
  for (const ItemKernel *kernel = table; kernel->name != NULL; kernel++)
    if (g_strcmp0(kernel->name, name) == 0)
      return kernel;
  return NULL;
}

static const ItemKernel *find_kernel(const Workload *workload, const WorkItem *item) {
  const Method *method = workload->method;
  const ItemKernel *const tables[] = {layer_kernels, attention_kernels, expert_kernels, dropout_kernels,
                                      end_kernels,   mtp_kernels,       adapter_kernels};
  const ItemKernel *kernel = method->cp > 1 ? find_in(context_kernels(method), item->name) : NULL;
  if (kernel == NULL && method->gathers_tokens)
    kernel = find_in(gathered_kernels, item->name);
  if (kernel == NULL && workload->model->latent.kv_rank > 0)
    kernel = find_in(latent_kernels, item->name);
  for (gsize i = 0; i < G_N_ELEMENTS(tables) && kernel == NULL; i++)
    kernel = find_in(tables[i], item->name);
  return kernel;
}

static const ItemKernel *find_function(const Workload *workload, const WorkItem *item) {
  if (item->kind != ITEM_COLLECTIVE)
    return find_kernel(workload, item);
  if (item->axis == AXIS_CP)
    return find_in(context_collectives, item->operand);
  const ItemKernel *const tables[] = {tp_collectives, latent_collectives, mtp_collectives, expert_collectives};
  const ItemKernel *function = workload->method->gathers_tokens ? find_in(gathered_collectives, item->operand) : NULL;
  for (gsize i = 0; i < G_N_ELEMENTS(tables) && function == NULL; i++)
    function = find_in(tables[i], item->operand);
  return function;
}

static gboolean fail_missing(const Workload *workload, const WorkItem *item, GError **error) {
  const char *framework = workload->method->framework;
  return fail_impossible(error, "%s%s%sthere is no kernel for \"%s\"%s%s here (stepsim simulate predicts it)%s",
                         framework != NULL ? "--framework " : "", framework != NULL ? framework : "",
                         framework != NULL ? ": " : "", item->name, item->operand ? " of " : "",
                         item->operand ? item->operand : "", framework != NULL ? "; leave --framework out" : "");
}

/* A product in fp8, or a copy for one. */
static gboolean is_narrow(const WorkItem *item) {
  return item->kind == ITEM_MATMUL ? item->number == NUMBER_FP8
                                   : item->kind == ITEM_MEMORY && g_str_has_suffix(item->name, "cast");
}

static gboolean bind_item(const Workload *workload, const WorkList *list, int i, ItemBinding *binding, GError **error) {
  const WorkItem *item = &list->items[i];
  for (const WorkItem *before = list->items; before < item; before++)
    binding->occurrence += before->mtp == item->mtp && strcmp(before->name, item->name) == 0 &&
                           g_strcmp0(before->operand, item->operand) == 0;
  const ItemKernel *function = find_function(workload, item);
  if (function == NULL)
    return fail_missing(workload, item, error);
  binding->run = function->run;
  binding->argument = function->argument;
  binding->linear = is_narrow(item) ? narrow_linear_of(item->name) : NARROW_NONE;
  return TRUE;
}

gboolean items_check(const Workload *workload, GError **error) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++) {
      const WorkList *list = &workload->work[piece][phase];
      for (int i = 0; i < list->n_items; i++)
        if (find_function(workload, &list->items[i]) == NULL)
          return fail_missing(workload, &list->items[i], error);
    }
  return TRUE;
}

gboolean items_bind(Trainer *trainer, GError **error) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++) {
      const WorkList *list = &trainer->workload->work[piece][phase];
      ItemBinding *items = trainer->lists[piece][phase].items = g_new0(ItemBinding, list->n_items + 1);
      for (int i = 0; i < list->n_items; i++)
        if (!bind_item(trainer->workload, list, i, &items[i], error))
          return FALSE;
    }
  return TRUE;
}

void items_clear(Trainer *trainer) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++)
      g_clear_pointer(&trainer->lists[piece][phase].items, g_free);
}

gboolean items_log_init(Trainer *trainer, int n, int from_step, GError **error) {
  const DeviceType *device = trainer->device->type;
  ItemLog *log = &trainer->item_log;
  *log = (ItemLog){.records = g_new0(ItemRecord, (gsize)n + 1), .from_step = from_step};
  for (; log->n_made < n; log->n_made++) {
    ItemRecord *record = &log->records[log->n_made];
    record->start = device->event_new(trainer->device, error);
    record->end = record->start != NULL ? device->event_new(trainer->device, error) : NULL;
    if (record->end == NULL) {
      device->event_free(record->start);
      return FALSE;
    }
  }
  return TRUE;
}

void items_log_clear(Trainer *trainer) {
  ItemLog *log = &trainer->item_log;
  for (int i = 0; i < log->n_made; i++) {
    trainer->device->type->event_free(log->records[i].start);
    trainer->device->type->event_free(log->records[i].end);
  }
  g_clear_pointer(&log->records, g_free);
}

static void run_logged(const ItemBinding *binding, const ItemCall *call) {
  const DeviceType *device = call->trainer->device->type;
  ItemLog *log = &call->trainer->item_log;
  g_assert(log->n < log->n_made);
  ItemRecord *record = &log->records[log->n++];
  record->item = call->item;
  record->step = call->step;
  device->record(call->stream, record->start);
  binding->run(call);
  device->record(call->stream, record->end);
  record->issued_ns = host_now_ns();
}

void items_run(Trainer *trainer, Piece piece, Phase phase, int item, const ItemCall *where) {
  const ItemBinding *binding = &trainer->lists[piece][phase].items[item];
  ItemCall call = *where;
  call.trainer = trainer;
  call.item = &workload_list(trainer->workload, workload_lengths(trainer->workload, where->micro_batch), piece, phase)
                   ->items[item];
  call.piece = piece;
  call.is_backward = phase != PHASE_F && !call.item->recompute;
  call.occurrence = binding->occurrence;
  call.argument = binding->argument;
  call.linear = binding->linear;
  call.mtp = call.item->mtp;
  if (call.mtp > 0)
    call.layer = trainer->workload->stages[call.stage].layers.n_layers + 2 * call.mtp - 1;
  item_narrow_prepare(&call); /* not in the item's time */
  if (trainer->item_log.records == NULL || call.step < trainer->item_log.from_step ||
      call.item->kind == ITEM_COLLECTIVE)
    binding->run(&call);
  else
    run_logged(binding, &call);
}
