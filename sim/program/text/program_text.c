/* The writer. A field with its default value is omitted; the reader restores it. Numbers are written with the fewest
 * digits that read back as the same double. */
#include "program_text.h"
#include "program_words.h"
#include "units.h"

static void append_number(GString *out, const char *key, double value) {
  g_string_append_printf(out, " %s=", key);
  units_append_exact(out, value);
}

static void append_number_unless_0(GString *out, const char *key, double value) {
  if (value != 0)
    append_number(out, key, value);
}

static void append_int_unless(GString *out, const char *key, int value, int usual) {
  if (value != usual)
    g_string_append_printf(out, " %s=%d", key, value);
}

static void append_bits(GString *out, const char *key, guint bits, const char *const *words) {
  const char *separator = "";
  g_string_append_printf(out, " %s=", key);
  for (int bit = 0; words[bit] != NULL; bit++) {
    if (!(bits & 1u << bit))
      continue;
    g_string_append_printf(out, "%s%s", separator, words[bit]);
    separator = "+";
  }
  if (*separator == '\0')
    g_string_append(out, "none");
}

static void append_group(GString *out, guint i, const Group *group) {
  g_string_append_printf(out, "group %u %s", i, group->name);
  append_bits(out, "axes", group->axes, axis_words);
  if (group->spans_pp && group->pp_first < 0)
    g_string_append(out, " pp=all");
  else if (group->spans_pp)
    g_string_append_printf(out, " pp=%d,%d", group->pp_first, group->pp_last);
  g_string_append_printf(out, " charge=%s", axis_name(group->charge));
  if (group->route != 0)
    append_bits(out, "route", group->route, route_words);
  g_string_append_c(out, '\n');
}

static void append_work(GString *out, guint i, const Work *work) {
  g_string_append_printf(out, "work %u %s", i, phase_words[work->phase]);
  if (work->n_embedding || work->n_layers || work->n_head)
    g_string_append_printf(out, " embedding=%d layers=%d head=%d", work->n_embedding, work->n_layers, work->n_head);
  append_int_unless(out, "dense", work->n_dense, 0);
  if (work->piece >= 0)
    g_string_append_printf(out, " piece=%s", piece_words[work->piece]);
  if (work->first_item >= 0 || work->last_item >= 0)
    g_string_append_printf(out, " items=%d..%d", work->first_item, work->last_item);
  append_int_unless(out, "recompute", work->recompute, 0);
  append_int_unless(out, "overlapped", work->overlapped, 0);
  append_int_unless(out, "on_host", work->on_host, 0);
  append_int_unless(out, "stage", work->stage, -1);
  append_number_unless_0(out, "parameters", work->parameters);
  append_number_unless_0(out, "passed", work->passed);
  append_number_unless_0(out, "flops", work->flops);
  g_string_append_c(out, '\n');
}

static void append_transfer(GString *out, guint i, const Transfer *transfer) {
  g_string_append_printf(out, "transfer %u ", i);
  if (transfer->group < 0)
    g_string_append_printf(out, "send %d->%d", transfer->source, transfer->target);
  else
    g_string_append_printf(out, "%s group=%d", collective_name(transfer->collective), transfer->group);
  append_number(out, "bytes", transfer->bytes);
  append_int_unless(out, "embedding", transfer->n_embedding, 0);
  append_int_unless(out, "layers", transfer->n_layers, 0);
  append_int_unless(out, "dense", transfer->n_dense, 0);
  append_int_unless(out, "experts", transfer->of_experts, 0);
  append_int_unless(out, "head", transfer->n_head, 0);
  append_int_unless(out, "tables", transfer->n_tables, 0);
  append_int_unless(out, "calls", transfer->n_calls, 0);
  if (transfer->is_item)
    g_string_append_printf(out, " piece=%s item=%d", piece_words[transfer->piece], transfer->item);
  g_string_append_c(out, '\n');
}

static void append_memory(GString *out, const char *heading, const double bytes[N_MEMORY]) {
  gboolean headed = heading == NULL;
  for (int category = 0; category < N_MEMORY; category++) {
    if (bytes[category] != 0 && !headed) {
      g_string_append_printf(out, " %s", heading);
      headed = TRUE;
    }
    append_number_unless_0(out, memory_category_name(category), bytes[category]);
  }
}

static void append_effect(GString *out, guint i, const Effect *effect) {
  g_string_append_printf(out, "effect %u", i);
  append_memory(out, "hold", effect->hold);
  append_memory(out, "drop", effect->drop);
  g_string_append_c(out, '\n');
}

static void append_after(GString *out, const Op *op) {
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    g_string_append_printf(out, "%s%d", i == 0 ? " after=" : ",", op->after[i]);
}

static void append_op(GString *out, int i, const Op *op) {
  g_string_append_printf(out, "  %d %s ", i, stream_info(op->stream)->name);
  action_print(&(Action){op->stage, op->micro_batch, op->action}, out);
  if (op->kind != program_words_usual_kind(op->stream))
    g_string_append_printf(out, " kind=%s", op_kind_words[op->kind]);
  append_int_unless(out, "step", op->step, 0);
  append_int_unless(out, "batch", op->batch, -1);
  append_int_unless(out, "overlapped", op->overlapped, 0);
  append_int_unless(out, "takes_turns", op->takes_turns, 0);
  append_int_unless(out, "unit", op->unit, 0);
  append_int_unless(out, "peer", op->peer, -1);
  append_int_unless(out, "tag", op->tag, -1);
  append_int_unless(out, op_computes(op) ? "work" : "transfer", op->work, -1);
  append_int_unless(out, "effect", op->effect, 0);
  append_after(out, op);
  g_string_append_c(out, '\n');
}

static void append_rank(GString *out, int rank, const OpList *list) {
  g_string_append_printf(out, "rank %d", rank);
  append_memory(out, NULL, list->resident);
  g_string_append_c(out, '\n');
  for (int i = 0; i < list->n_ops; i++)
    append_op(out, i, &list->ops[i]);
}

char *program_to_text(const Program *program) {
  GString *out = g_string_new(NULL);
  g_string_append_printf(out, "program ranks=%d stages=%d micro_batches=%d steps=%d", program->n_ranks,
                         program->n_stages, program->n_micro_batches, program->n_steps);
  if (program->n_pipes > 1)
    g_string_append_printf(out, " pipes=%d", program->n_pipes);
  if (program->heads_add_to_table)
    g_string_append(out, " heads_add_to_table=1");
  g_string_append_printf(out, " expanded=%d\n", program->expansion);
  for (guint i = 0; i < program->groups->len; i++)
    append_group(out, i, &g_array_index(program->groups, Group, i));
  for (guint i = 0; i < program->works->len; i++)
    append_work(out, i, &g_array_index(program->works, Work, i));
  for (guint i = 0; i < program->transfers->len; i++)
    append_transfer(out, i, &g_array_index(program->transfers, Transfer, i));
  for (guint i = 1; i < program->effects->len; i++) /* effect 0 is empty in every program */
    append_effect(out, i, &g_array_index(program->effects, Effect, i));
  for (int rank = 0; rank < program->n_ranks; rank++)
    append_rank(out, rank, &program->ranks[rank]);
  return g_string_free(out, FALSE);
}
