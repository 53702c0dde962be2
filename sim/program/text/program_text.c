#include "program_text.h"

#include <string.h>

#include "error.h"
#include "program_fields.h"
#include "suggest.h"
#include "units.h"
#include "verify.h"

/* --- the writer ---
 *
 * A field with its default value is omitted; the reader restores it. Numbers are written with the fewest
 * digits that read back as the same double. */

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

static void append_others(GString *out, const OtherLayers *others) {
  const char *separator = " others=";
  for (int piece = 0; piece < N_PIECES; piece++) {
    if (others->n[piece] == 0)
      continue;
    g_string_append_printf(out, "%s%s:%d", separator, piece_words[piece], others->n[piece]);
    separator = ",";
  }
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
  append_others(out, &work->others);
  if (work->piece >= 0)
    g_string_append_printf(out, " piece=%s", piece_words[work->piece]);
  if (work->first_item >= 0 || work->last_item >= 0)
    g_string_append_printf(out, " items=%d..%d", work->first_item, work->last_item);
  append_int_unless(out, "recompute", work->recompute, 0);
  append_int_unless(out, "overlapped", work->overlapped, 0);
  append_int_unless(out, "on_host", work->on_host, 0);
  append_int_unless(out, "outer", work->is_outer, 0);
  append_int_unless(out, "lengths", work->lengths, 0);
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
  append_others(out, &transfer->others);
  append_int_unless(out, "experts", transfer->of_experts, 0);
  append_int_unless(out, "head", transfer->n_head, 0);
  append_int_unless(out, "tables", transfer->n_tables, 0);
  append_int_unless(out, "calls", transfer->n_calls, 0);
  append_int_unless(out, "listed", transfer->n_listed, 0);
  append_int_unless(out, "lengths", transfer->lengths, 0);
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
  if (op->kind != usual_op_kind(op->stream))
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

/* --- the reader ---
 *
 * A line is words separated by blanks: the first says what it is, then come positional words, then
 * `key=value` fields. The fields of a line are a table built where the line is read: key, reader of the value,
 * target. Entries are numbered consecutively, so a skipped or repeated number is an error; references to other
 * entries are checked by the verifier once everything is read. A line that starts with # is a comment. */

/* A larger program is a mistake. */
enum { MAX_RANKS = 1 << 16, MAX_STAGES = 1 << 20, MAX_MICRO_BATCHES = 1 << 24, MAX_STEPS = 1 << 20 };

typedef struct {
  Line line;        /* being read */
  Program *program; /* NULL until its line has been read */
  int rank;         /* whose ops are being read; −1 before the first */
  GArray *ops;      /* of Op: ops of that rank so far */
} Reader;

static gboolean read_program_line(Reader *reader, GError **error) {
  gint32 n_ranks = 0, n_stages = 0, n_micro_batches = 0, n_steps = 1, n_pipes = 1, expansion = EXPANSION_NONE;
  guint8 heads_add_to_table = 0;
  const Field fields[] = {{"ranks", field_count, &n_ranks, TRUE},
                          {"stages", field_count, &n_stages, TRUE},
                          {"micro_batches", field_count, &n_micro_batches, TRUE},
                          {"steps", field_count, &n_steps},
                          {"pipes", field_count, &n_pipes},
                          {"heads_add_to_table", field_byte, &heads_add_to_table},
                          {"expanded", field_count, &expansion}};
  if (reader->program)
    return line_fail(&reader->line, error, "a second program line");
  if (!line_read_fields(&reader->line, 1, line_n_words(&reader->line), fields, G_N_ELEMENTS(fields), error))
    return FALSE;
  if (n_ranks < 1 || n_ranks > MAX_RANKS || n_stages < 1 || n_stages > MAX_STAGES || n_micro_batches < 1 ||
      n_micro_batches > MAX_MICRO_BATCHES || n_steps < 1 || n_steps > MAX_STEPS || expansion > EXPANSION_BESIDE)
    return line_fail(&reader->line, error,
                     "found ranks=%d stages=%d micro_batches=%d steps=%d expanded=%d; expected 1 to %d, %d, %d, %d, "
                     "and 0, 1 or 2",
                     n_ranks, n_stages, n_micro_batches, n_steps, expansion, MAX_RANKS, MAX_STAGES, MAX_MICRO_BATCHES,
                     MAX_STEPS);
  if (n_pipes < 1 || n_pipes > 2 || n_stages % n_pipes != 0)
    return line_fail(&reader->line, error, "pipes=%d; expected 1, or 2 with an even number of stages", n_pipes);
  reader->program = program_new(n_ranks, n_stages, n_micro_batches);
  reader->program->n_steps = n_steps;
  reader->program->n_pipes = n_pipes;
  reader->program->heads_add_to_table = heads_add_to_table != 0;
  reader->program->expansion = (guint8)expansion;
  return TRUE;
}

static gboolean is_name(const char *text) {
  gsize length = strspn(text, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_-");
  return length > 0 && length <= 40 && text[length] == '\0';
}

static gboolean read_group_line(Reader *reader, GError **error) {
  Group group = {.pp_first = -1, .pp_last = -1};
  const Field fields[] = {{"axes", field_axes, &group.axes, TRUE},
                          {"pp", field_pp, &group},
                          {"charge", field_charge, &group.charge, TRUE},
                          {"route", field_route, &group.route}};
  const char *name = line_word(&reader->line, 2);
  if (!line_check_number(&reader->line, line_word(&reader->line, 1), reader->program->groups->len, error))
    return FALSE;
  if (!is_name(name))
    return line_fail(&reader->line, error, "found " FOUND "; expected a group's name of letters, digits, _ and -",
                     name);
  if (!line_read_fields(&reader->line, 3, line_n_words(&reader->line), fields, G_N_ELEMENTS(fields), error))
    return FALSE;
  group.name = g_intern_string(name);
  g_array_append_val(reader->program->groups, group);
  return TRUE;
}

static gboolean read_work_line(Reader *reader, GError **error) {
  Work work = {.piece = -1, .first_item = -1, .last_item = -1, .stage = -1};
  const Field fields[] = {{"embedding", field_byte, &work.n_embedding},
                          {"layers", field_count, &work.n_layers},
                          {"dense", field_count, &work.n_dense},
                          {"others", field_others, &work.others},
                          {"head", field_byte, &work.n_head},
                          {"piece", field_piece, &work.piece},
                          {"items", field_items, &work},
                          {"recompute", field_byte, &work.recompute},
                          {"overlapped", field_byte, &work.overlapped},
                          {"on_host", field_byte, &work.on_host},
                          {"outer", field_byte, &work.is_outer},
                          {"lengths", field_count, &work.lengths},
                          {"stage", field_count, &work.stage},
                          {"parameters", field_number, &work.parameters},
                          {"passed", field_number, &work.passed},
                          {"flops", field_number, &work.flops}};
  if (!line_check_number(&reader->line, line_word(&reader->line, 1), reader->program->works->len, error))
    return FALSE;
  int phase = line_word_of(&reader->line, "phase", line_word(&reader->line, 2), phase_words, error);
  if (phase < 0 ||
      !line_read_fields(&reader->line, 3, line_n_words(&reader->line), fields, G_N_ELEMENTS(fields), error))
    return FALSE;
  work.phase = (guint8)phase;
  g_array_append_val(reader->program->works, work);
  return TRUE;
}

static gboolean read_ends(const Reader *reader, const char *text, Transfer *transfer, GError **error) {
  const char *at;
  if (field_parse_int(text, &at, 0, &transfer->source) && g_str_has_prefix(at, "->") &&
      field_parse_int(at + 2, &at, 0, &transfer->target) && *at == '\0')
    return TRUE;
  return line_fail(&reader->line, error, "found " FOUND "; expected two pipeline ranks, as 0->1", text);
}

static gboolean read_send(const Reader *reader, Transfer *transfer, GError **error) {
  const Field fields[] = {{"bytes", field_number, &transfer->bytes, TRUE},
                          {"lengths", field_count, &transfer->lengths}};
  transfer->collective = COLLECTIVE_SEND_RECV;
  return read_ends(reader, line_word(&reader->line, 3), transfer, error) &&
         line_read_fields(&reader->line, 4, line_n_words(&reader->line), fields, G_N_ELEMENTS(fields), error);
}

static gboolean read_collective(const Reader *reader, Transfer *transfer, GError **error) {
  gint32 piece = -1, item = -1;
  const Field fields[] = {{"group", field_count, &transfer->group, TRUE},
                          {"bytes", field_number, &transfer->bytes, TRUE},
                          {"embedding", field_byte, &transfer->n_embedding},
                          {"layers", field_count, &transfer->n_layers},
                          {"dense", field_count, &transfer->n_dense},
                          {"others", field_others, &transfer->others},
                          {"experts", field_byte, &transfer->of_experts},
                          {"head", field_byte, &transfer->n_head},
                          {"tables", field_byte, &transfer->n_tables},
                          {"calls", field_count, &transfer->n_calls},
                          {"listed", field_count, &transfer->n_listed},
                          {"lengths", field_count, &transfer->lengths},
                          {"piece", field_piece, &piece},
                          {"item", field_count, &item}};
  int collective = line_word_of(&reader->line, "neither send nor a collective:", line_word(&reader->line, 2),
                                collective_names(), error);
  transfer->collective = (guint8)collective;
  if (collective < 0 ||
      !line_read_fields(&reader->line, 3, line_n_words(&reader->line), fields, G_N_ELEMENTS(fields), error))
    return FALSE;
  if ((piece < 0) != (item < 0))
    return line_fail(&reader->line, error, "piece= and item= belong together");
  if (piece >= 0) {
    transfer->is_item = TRUE;
    transfer->piece = piece;
    transfer->item = item;
  }
  return TRUE;
}

static gboolean read_transfer_line(Reader *reader, GError **error) {
  Transfer transfer = {.group = -1, .source = -1, .target = -1};
  if (!line_check_number(&reader->line, line_word(&reader->line, 1), reader->program->transfers->len, error))
    return FALSE;
  gboolean is_send = strcmp(line_word(&reader->line, 2), "send") == 0;
  if (!(is_send ? read_send : read_collective)(reader, &transfer, error))
    return FALSE;
  g_array_append_val(reader->program->transfers, transfer);
  return TRUE;
}

static gboolean read_memory(const Reader *reader, guint first, guint end, double bytes[N_MEMORY], GError **error) {
  Field fields[N_MEMORY];
  for (int category = 0; category < N_MEMORY; category++)
    fields[category] = (Field){memory_category_name(category), field_number, &bytes[category]};
  return line_read_fields(&reader->line, first, end, fields, N_MEMORY, error);
}

/* "effect 1 hold weights=… drop activations=…": either part may be omitted. */
static gboolean read_effect_line(Reader *reader, GError **error) {
  Effect effect = {0};
  guint n = line_n_words(&reader->line), hold = 2, drop = 2;
  if (!line_check_number(&reader->line, line_word(&reader->line, 1), reader->program->effects->len, error))
    return FALSE;
  while (drop < n && strcmp(line_word(&reader->line, drop), "drop") != 0)
    drop++;
  if (hold < drop && strcmp(line_word(&reader->line, hold), "hold") != 0)
    return line_fail(&reader->line, error, "found " FOUND "; expected hold or drop", line_word(&reader->line, hold));
  if ((hold < drop && !read_memory(reader, hold + 1, drop, effect.hold, error)) ||
      (drop < n && !read_memory(reader, drop + 1, n, effect.drop, error)))
    return FALSE;
  g_array_append_val(reader->program->effects, effect);
  return TRUE;
}

/* The ops read so far become their rank's list. */
static void finish_rank(Reader *reader) {
  if (reader->rank < 0)
    return;
  OpList *list = &reader->program->ranks[reader->rank];
  list->n_ops = (int)reader->ops->len;
  list->ops = g_memdup2(reader->ops->data, reader->ops->len * sizeof(Op));
  g_array_set_size(reader->ops, 0);
}

static gboolean read_rank_line(Reader *reader, GError **error) {
  if (reader->rank + 1 >= reader->program->n_ranks)
    return line_fail(&reader->line, error, "more ranks than the %d of the program line", reader->program->n_ranks);
  if (!line_check_number(&reader->line, line_word(&reader->line, 1), (guint)reader->rank + 1, error))
    return FALSE;
  finish_rank(reader);
  reader->rank++;
  return read_memory(reader, 2, line_n_words(&reader->line), reader->program->ranks[reader->rank].resident, error);
}

static gboolean read_stream(const Reader *reader, const char *text, Stream *stream, GError **error) {
  const char *names[N_STREAMS + 1] = {NULL};
  for (int i = 0; i < N_STREAMS; i++)
    names[i] = stream_info(i)->name;
  int found = line_word_of(&reader->line, "stream", text, names, error);
  *stream = (Stream)found;
  return found >= 0;
}

static gboolean read_op_fields(const Reader *reader, Op *op, GError **error) {
  gint32 work = -1, transfer = -1;
  guint8 overlapped = 0, takes_turns = 0;
  const Field fields[] = {{"kind", field_kind, &op->kind},
                          {"step", field_count, &op->step},
                          {"batch", field_count, &op->batch},
                          {"unit", field_count, &op->unit},
                          {"peer", field_count, &op->peer},
                          {"tag", field_int, &op->tag},
                          {"work", field_count, &work},
                          {"transfer", field_count, &transfer},
                          {"effect", field_count, &op->effect},
                          {"after", field_after, op->after},
                          {"overlapped", field_byte, &overlapped},
                          {"takes_turns", field_byte, &takes_turns}};
  if (!line_read_fields(&reader->line, 3, line_n_words(&reader->line), fields, G_N_ELEMENTS(fields), error))
    return FALSE;
  if (op_computes(op) ? transfer >= 0 : work >= 0)
    return line_fail(&reader->line, error, "a %s op has no %s=", op_kind_words[op->kind],
                     op_computes(op) ? "transfer" : "work");
  op->work = MAX(work, transfer);
  op->overlapped = overlapped != 0;
  op->takes_turns = takes_turns != 0;
  return TRUE;
}

static gboolean read_op_line(Reader *reader, GError **error) {
  Stream stream;
  Action action;
  if (reader->rank < 0)
    return line_fail(&reader->line, error, "an op before the first rank line");
  if (!line_check_number(&reader->line, line_word(&reader->line, 0), reader->ops->len, error) ||
      !read_stream(reader, line_word(&reader->line, 1), &stream, error))
    return FALSE;
  if (!action_parse(line_word(&reader->line, 2), &action, error)) {
    g_prefix_error(error, "%s:%d: ", reader->line.name, reader->line.number);
    return FALSE;
  }
  Op op = op_new(usual_op_kind(stream), stream, action.kind, action.stage, action.micro_batch);
  if (!read_op_fields(reader, &op, error))
    return FALSE;
  g_array_append_val(reader->ops, op);
  return TRUE;
}

static const struct {
  const char *word;
  gboolean (*read)(Reader *reader, GError **error);
} lines[] = {{"program", read_program_line},   {"group", read_group_line},   {"work", read_work_line},
             {"transfer", read_transfer_line}, {"effect", read_effect_line}, {"rank", read_rank_line}};

static gboolean read_line(Reader *reader, GError **error) {
  const char *first = line_word(&reader->line, 0);
  if (*first == '\0' || *first == '#')
    return TRUE;
  if (!reader->program && strcmp(first, "program") != 0)
    return line_fail(&reader->line, error, "found " FOUND "; expected the program line first", first);
  if (g_ascii_isdigit(*first))
    return read_op_line(reader, error);
  const char *words[G_N_ELEMENTS(lines) + 1] = {NULL};
  for (gsize i = 0; i < G_N_ELEMENTS(lines); i++) {
    words[i] = lines[i].word;
    if (strcmp(first, lines[i].word) == 0)
      return lines[i].read(reader, error);
  }
  return line_fail_word(&reader->line, "neither an op nor a known line:", first, words, error);
}

/* Cuts `line` into words, in place. */
static void split_words(Reader *reader, char *line) {
  g_ptr_array_set_size(reader->line.words, 0);
  for (char *save, *word = strtok_r(line, " \t\r", &save); word; word = strtok_r(NULL, " \t\r", &save))
    g_ptr_array_add(reader->line.words, word);
  g_ptr_array_add(reader->line.words, NULL);
}

static gboolean read_lines(Reader *reader, char *text, GError **error) {
  for (char *line = text; line != NULL;) {
    char *end = strchr(line, '\n');
    if (end)
      *end++ = '\0';
    reader->line.number++;
    split_words(reader, line);
    if (!read_line(reader, error))
      return FALSE;
    line = end;
  }
  if (!reader->program)
    return line_fail(&reader->line, error, "nothing here; expected a program");
  if (reader->rank + 1 < reader->program->n_ranks)
    return line_fail(&reader->line, error, "the text ends after %d ranks; expected %d", reader->rank + 1,
                     reader->program->n_ranks);
  finish_rank(reader);
  return TRUE;
}

Program *program_from_text(const char *text, const char *name, GError **error) {
  g_autofree char *copy = g_strdup(text ? text : "");
  Reader reader = {.line.name = name, .rank = -1};
  reader.line.words = g_ptr_array_new();
  reader.ops = g_array_new(FALSE, FALSE, sizeof(Op));
  gboolean ok = read_lines(&reader, copy, error);
  if (ok && !program_verify_given(reader.program, error)) {
    g_prefix_error(error, "%s: ", name);
    ok = FALSE;
  }
  g_ptr_array_unref(reader.line.words);
  g_array_unref(reader.ops);
  if (!ok)
    g_clear_pointer(&reader.program, program_free);
  return reader.program;
}
