/* The Program's tables hold distinct entries. Passes look up an entry for every op, some 10⁵ times per lowering, so
 * each table has a small open-addressing index. The arrays are open data: before each lookup the index takes in
 * entries that were appended to an array directly (a reader keeps the numbers of its file, even of equal entries). */
#include "program.h"

#include <string.h>

/* Defines equality for one table's entries, and whether the numbers of equal ones have one source. */
typedef struct {
  guint (*hash)(gconstpointer entry);
  gboolean (*equal)(gconstpointer a, gconstpointer b);
  gboolean (*is_alike)(gconstpointer a, gconstpointer b);
} EntryType;

typedef struct {
  gint32 *slots; /* entry + 1; 0 = free */
  guint n_slots; /* a power of two, or 0 */
  guint n_known; /* entries of the array already in the slots */
  guint latest;  /* index + 1 of the entry found last; 0 = none yet */
} TableIndex;

struct ProgramIndex {
  TableIndex tables[N_PROGRAM_TABLES];
};

static guint hash_mix(guint hash, guint64 value) {
  guint64 mixed = (hash ^ value) * 0x9E3779B97F4A7C15u; /* 2⁶⁴ / golden ratio: spreads neighbouring integers */
  return (guint)(mixed >> 32);
}

static guint hash_double(guint hash, double value) {
  guint64 bits;
  value += 0.0; /* −0 equals 0, so it must hash as 0 */
  memcpy(&bits, &value, sizeof bits);
  return hash_mix(hash, bits);
}

static guint work_hash(gconstpointer entry) {
  const Work *work = entry;
  guint hash = hash_mix(work->phase, (guint)work->n_layers | (guint64)(guint)work->n_dense << 32);
  hash = hash_mix(hash, work->n_embedding | work->n_head << 8 | work->recompute << 16 | (guint)work->overlapped << 24 |
                            (guint64)work->on_host << 32 | (guint64)work->is_outer << 40);
  hash = hash_mix(hash, ((guint64)(guint)work->piece << 32) | (guint)work->stage);
  hash = work->lengths != 0 ? hash_mix(hash, (guint)work->lengths) : hash;
  hash = hash_mix(hash, ((guint64)(guint)work->first_item << 32) | (guint)work->last_item);
  return hash_double(hash_double(hash_double(hash, work->parameters), work->passed), work->flops);
}

static gboolean work_equal(gconstpointer a, gconstpointer b) {
  const Work *x = a, *y = b;
  return x->phase == y->phase && x->n_embedding == y->n_embedding && x->n_head == y->n_head &&
         x->recompute == y->recompute && x->overlapped == y->overlapped && x->on_host == y->on_host &&
         x->is_outer == y->is_outer && x->n_layers == y->n_layers && x->n_dense == y->n_dense &&
         others_equal(&x->others, &y->others) && x->piece == y->piece && x->first_item == y->first_item &&
         x->last_item == y->last_item && x->stage == y->stage && x->lengths == y->lengths &&
         x->parameters == y->parameters && x->passed == y->passed && x->flops == y->flops;
}

static guint transfer_hash(gconstpointer entry) {
  const Transfer *transfer = entry;
  guint hash = hash_mix(transfer->collective, (guint)transfer->group);
  hash = hash_mix(hash, ((guint64)(guint)transfer->source << 32) | (guint)transfer->target);
  hash = hash_mix(hash, transfer->n_embedding | transfer->n_head << 8 | transfer->n_tables << 16 |
                            (guint64)(guint)transfer->n_layers << 32);
  hash =
      hash_mix(hash, transfer->is_item | (guint64)(guint)transfer->piece << 8 | (guint64)(guint)transfer->item << 32);
  hash = transfer->lengths != 0 ? hash_mix(hash, (guint)transfer->lengths) : hash;
  return hash_double(hash, transfer->bytes);
}

static gboolean transfer_equal(gconstpointer a, gconstpointer b) {
  const Transfer *x = a, *y = b;
  return x->group == y->group && x->source == y->source && x->target == y->target && x->collective == y->collective &&
         x->bytes == y->bytes && x->n_embedding == y->n_embedding && x->n_head == y->n_head &&
         x->n_tables == y->n_tables && x->of_experts == y->of_experts && x->n_layers == y->n_layers &&
         x->n_dense == y->n_dense && others_equal(&x->others, &y->others) && x->n_calls == y->n_calls &&
         x->n_listed == y->n_listed && x->is_item == y->is_item && x->piece == y->piece && x->item == y->item &&
         x->lengths == y->lengths;
}

static guint group_hash(gconstpointer entry) {
  const Group *group = entry;
  guint hash = hash_mix(g_str_hash(group->name), group->axes | (guint64)group->route << 32);
  return hash_mix(hash, ((guint64)(guint)group->pp_first << 32) | (guint)group->pp_last);
}

static gboolean group_equal(gconstpointer a, gconstpointer b) {
  const Group *x = a, *y = b;
  return strcmp(x->name, y->name) == 0 && x->axes == y->axes && x->spans_pp == y->spans_pp &&
         x->pp_first == y->pp_first && x->pp_last == y->pp_last && x->charge == y->charge && x->route == y->route;
}

static guint effect_hash(gconstpointer entry) {
  const Effect *effect = entry;
  guint hash = 0;
  for (int category = 0; category < N_MEMORY; category++)
    hash = hash_double(hash_double(hash, effect->hold[category]), effect->drop[category]);
  return hash;
}

static gboolean effect_alike(gconstpointer a, gconstpointer b) {
  const EffectSource *x = &((const Effect *)a)->source, *y = &((const Effect *)b)->source;
  if (x->chain != y->chain || x->part != y->part || x->roles != y->roles || x->phase != y->phase ||
      x->piece != y->piece)
    return FALSE;
  return memcmp(x->saving, y->saving, sizeof x->saving) == 0;
}

static gboolean effect_equal(gconstpointer a, gconstpointer b) {
  const Effect *x = a, *y = b;
  for (int category = 0; category < N_MEMORY; category++)
    if (x->hold[category] != y->hold[category] || x->drop[category] != y->drop[category])
      return FALSE;
  return x->source.is_apart == y->source.is_apart && (!x->source.is_apart || effect_alike(x, y));
}

static gboolean work_alike(gconstpointer a, gconstpointer b) {
  return ((const Work *)a)->owner == ((const Work *)b)->owner;
}

static gboolean transfer_alike(gconstpointer a, gconstpointer b) {
  const Transfer *x = a, *y = b;
  return x->size == y->size && x->of == y->of;
}

static gboolean group_alike(gconstpointer a, gconstpointer b) {
  return TRUE;
}

static const EntryType entry_types[N_PROGRAM_TABLES] = {
    [TABLE_WORKS] = {work_hash, work_equal, work_alike},
    [TABLE_TRANSFERS] = {transfer_hash, transfer_equal, transfer_alike},
    [TABLE_GROUPS] = {group_hash, group_equal, group_alike},
    [TABLE_EFFECTS] = {effect_hash, effect_equal, effect_alike},
};

static gconstpointer entry_at(const GArray *array, guint i) {
  return array->data + (gsize)i * g_array_get_element_size((GArray *)array);
}

/* The slot that holds an entry equal to `entry`, or the free one where it belongs. */
static gint32 *find_slot(const TableIndex *index, const GArray *array, const EntryType *type, gconstpointer entry) {
  guint mask = index->n_slots - 1;
  for (guint at = type->hash(entry) & mask;; at = (at + 1) & mask) {
    gint32 *slot = &index->slots[at];
    if (*slot == 0 || type->equal(entry_at(array, (guint)*slot - 1), entry))
      return slot;
  }
}

/* Takes in entries appended since the last lookup; keeps at least half of the slots free. */
static void index_catch_up(TableIndex *index, const GArray *array, const EntryType *type) {
  if (2 * (array->len + 1) > index->n_slots) {
    g_free(index->slots);
    index->n_slots = MAX(64, 2 * index->n_slots);
    while (2 * (array->len + 1) > index->n_slots)
      index->n_slots *= 2;
    index->slots = g_new0(gint32, index->n_slots);
    index->n_known = 0;
  }
  for (; index->n_known < array->len; index->n_known++) {
    gint32 *slot = find_slot(index, array, type, entry_at(array, index->n_known));
    if (*slot == 0) /* among equal entries, the first is the one found */
      *slot = (gint32)index->n_known + 1;
  }
}

/* The entry at `number` stands for this one, unless it is the same or known to. */
static void add_alias(Program *program, ProgramTable table, const GArray *array, gint32 number, gconstpointer entry) {
  const guint size = g_array_get_element_size((GArray *)array);
  GArray **aliases = &program->aliases[table];
  if (*aliases == NULL)
    *aliases = g_array_new(FALSE, FALSE, PROGRAM_ALIAS_ENTRY + size);
  for (guint i = 0; i < (*aliases)->len; i++) {
    const char *known = entry_at(*aliases, i);
    if (*(const gint32 *)(const void *)known == number &&
        entry_types[table].is_alike(known + PROGRAM_ALIAS_ENTRY, entry))
      return;
  }
  g_array_set_size(*aliases, (*aliases)->len + 1);
  char *alias = (*aliases)->data + (gsize)((*aliases)->len - 1) * (PROGRAM_ALIAS_ENTRY + size);
  *(gint32 *)(void *)alias = number;
  memcpy(alias + PROGRAM_ALIAS_ENTRY, entry, size);
}

static gint32 found_entry(Program *program, ProgramTable table, const GArray *array, gint32 number,
                          gconstpointer entry) {
  if (!entry_types[table].is_alike(entry_at(array, (guint)number), entry))
    add_alias(program, table, array, number, entry);
  return number;
}

static gint32 table_entry(Program *program, ProgramTable table, GArray *array, gconstpointer entry) {
  TableIndex *index = &program->index->tables[table];
  const EntryType *type = &entry_types[table];
  if (index->latest > 0 && type->equal(entry_at(array, index->latest - 1), entry)) /* usually a repeated lookup */
    return found_entry(program, table, array, (gint32)index->latest - 1, entry);
  index_catch_up(index, array, type);
  gint32 *slot = find_slot(index, array, type, entry);
  if (*slot == 0) {
    g_array_append_vals(array, entry, 1);
    *slot = (gint32)array->len;
    index->n_known++;
  }
  index->latest = (guint)*slot;
  return found_entry(program, table, array, *slot - 1, entry);
}

gint32 program_work(Program *program, const Work *work) {
  return table_entry(program, TABLE_WORKS, program->works, work);
}

gint32 program_transfer(Program *program, const Transfer *transfer) {
  Transfer entry = *transfer;
  if (entry.group < 0)
    entry.collective = COLLECTIVE_SEND_RECV;
  else
    entry.source = entry.target = -1;
  return table_entry(program, TABLE_TRANSFERS, program->transfers, &entry);
}

gint32 program_group(Program *program, const Group *group) {
  Group entry = *group;
  if (!entry.spans_pp)
    entry.pp_first = entry.pp_last = -1;
  return table_entry(program, TABLE_GROUPS, program->groups, &entry);
}

gint32 program_effect(Program *program, const Effect *effect) {
  return table_entry(program, TABLE_EFFECTS, program->effects, effect);
}

ProgramIndex *program_index_new(void) {
  return g_new0(ProgramIndex, 1);
}

void program_index_free(ProgramIndex *index) {
  for (int table = 0; table < N_PROGRAM_TABLES; table++)
    g_free(index->tables[table].slots);
  g_free(index);
}
