#include "structures.h"

#include <string.h>

#include "binding.h"

static const gsize most_ops_kept = 400000;

struct Structure {
  GByteArray *key;         /* owned, as are all below */
  Program *program;        /* the pattern of its copies */
  ProgramRepeats *repeats; /* of the pattern, whatever it holds; NULL: not looked for, or there are none */
  gboolean has_looked;
  double returned;     /* of its runs the share that returned to a state, the latest counting most */
  guint n_spared;      /* runs left out since the last one */
  GPtrArray *expanded; /* of Structure */
};

struct Structures {
  GPtrArray *kept;    /* of Structure, the most recently used last; owned */
  GByteArray *looked; /* key of the last search; owned */
  GByteArray *looked_expanded;
  GHashTable *seen; /* set of hashes of the keys looked for; owned */
  gboolean is_kept; /* that workload's Program would be kept */
  gsize n_ops;
};

static void structure_free(Structure *structure) {
  g_byte_array_unref(structure->key);
  program_repeats_free(structure->repeats);
  program_free(structure->program);
  g_ptr_array_unref(structure->expanded);
  g_free(structure);
}

Structures *structures_new(void) {
  Structures *structures = g_new0(Structures, 1);
  structures->kept = g_ptr_array_new_with_free_func((GDestroyNotify)structure_free);
  structures->looked = g_byte_array_new();
  structures->looked_expanded = g_byte_array_new();
  structures->seen = g_hash_table_new(NULL, NULL);
  return structures;
}

void structures_free(Structures *structures) {
  if (structures == NULL)
    return;
  g_ptr_array_unref(structures->kept);
  g_byte_array_unref(structures->looked);
  g_byte_array_unref(structures->looked_expanded);
  g_hash_table_unref(structures->seen);
  g_free(structures);
}

static Structure *structure_new(const GByteArray *key, Program *program) {
  Structure *structure = g_new0(Structure, 1);
  structure->key = g_byte_array_append(g_byte_array_sized_new(key->len), key->data, key->len);
  structure->program = program;
  structure->returned = 1;
  structure->expanded = g_ptr_array_new_with_free_func((GDestroyNotify)structure_free);
  return structure;
}

static gboolean is_key(const Structure *structure, const GByteArray *key) {
  return structure->key->len == key->len && memcmp(structure->key->data, key->data, key->len) == 0;
}

/* --- the key --- */

static void add_bytes(GByteArray *key, gconstpointer bytes, gsize n) {
  g_byte_array_append(key, bytes, (guint)n);
}

static void add_text(GByteArray *key, const char *text) {
  add_bytes(key, text != NULL ? text : "", text != NULL ? strlen(text) + 1 : 1);
}

/* Everything but sizes, and texts and lists by what they say. Where GPUs are, and which are slow, moves no op. */
static void add_method(GByteArray *key, const Method *method) {
  Method told = *method;
  told.plan = NULL;
  told.schedule = told.pipeline_layout = told.framework = NULL;
  told.framework_file = told.framework_product = told.framework_release = NULL;
  told.rank_map = told.slow_ranks = NULL;
  told.micro_batch = told.global_batch = told.seq_len = 0;
  add_bytes(key, &told, sizeof told);
  add_text(key, method->schedule);
  add_text(key, method->framework);
}

static void add_model(GByteArray *key, const Model *model) {
  Model told = *model;
  told.name = told.file = told.windowed_layers = told.unrotated_layers = NULL;
  add_bytes(key, &told, sizeof told);
  add_text(key, model->windowed_layers);
}

static void add_stages(GByteArray *key, const Workload *workload) {
  for (int stage = 0; stage < workload->n_stages; stage++)
    add_bytes(key, &workload->stages[stage].layers, sizeof workload->stages[stage].layers);
}

/* The kinds of a phase's items, which are what ops are cut along. */
static void add_items(GByteArray *key, const WorkList *list) {
  add_bytes(key, &list->n_items, sizeof list->n_items);
  for (int i = 0; i < list->n_items; i++) {
    const WorkItem *item = &list->items[i];
    const guint8 kinds[] = {item->kind,       item->axis,    item->collective, item->recompute,
                            item->host_waits, item->counted, item->spans_tp,   0};
    add_bytes(key, kinds, sizeof kinds);
    add_bytes(key, &item->after, sizeof item->after);
  }
}

static void set_key(GByteArray *key, const Workload *workload) {
  g_byte_array_set_size(key, 0);
  add_stages(key, workload);
  add_method(key, workload->method);
  add_model(key, workload->model);
}

static void set_expanded_key(GByteArray *key, const Program *whole, const Workload *workload, const gboolean *met,
                             gint64 eager_bytes) {
  g_byte_array_set_size(key, 0);
  for (guint i = 0; i < whole->transfers->len; i++) {
    const gboolean is_eager = g_array_index(whole->transfers, Transfer, i).bytes <= (double)eager_bytes;
    const guint8 bits = (guint8)(met == NULL ? 0 : 1 | (met[i] != FALSE) << 1 | (is_eager != FALSE) << 2);
    add_bytes(key, &bits, 1);
  }
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++)
      add_items(key, &workload->work[piece][phase]);
}

/* --- what is kept --- */

/* Orders that are searched for or read are made from more than the method; copies to other tiers, and of
 * data, outer steps and what servers do have sizes of their own. */
static gboolean is_kept_kind(const Method *method) {
  return !method_is_auto(method) && method_schedule(method) != NULL && !offload_is_any(&method->offload) &&
         method->data.sample_bytes == 0 && method->islands == 1 && !servers_are_used(&method->servers) &&
         method->seq_lengths == NULL;
}

static gboolean is_seen(Structures *structures) {
  enum { MOST_SEEN = 100000 };
  g_autoptr(GBytes) key = g_bytes_new_static(structures->looked->data, structures->looked->len);
  if (g_hash_table_size(structures->seen) == MOST_SEEN)
    g_hash_table_remove_all(structures->seen);
  return !g_hash_table_add(structures->seen, GUINT_TO_POINTER(g_bytes_hash(key)));
}

Structure *structures_find(Structures *structures, const Workload *workload) {
  structures->is_kept = is_kept_kind(workload->method);
  if (!structures->is_kept)
    return NULL;
  set_key(structures->looked, workload);
  GPtrArray *kept = structures->kept;
  for (guint i = kept->len; i-- > 0;)
    if (is_key(kept->pdata[i], structures->looked)) {
      Structure *found = kept->pdata[i];
      memmove(&kept->pdata[i], &kept->pdata[i + 1], sizeof *kept->pdata * (kept->len - 1 - i));
      return kept->pdata[kept->len - 1] = found;
    }
  structures->is_kept = is_seen(structures);
  return NULL;
}

static gsize count_ops(const Program *program) {
  gsize n = 0;
  for (int rank = 0; program != NULL && rank < program->n_ranks; rank++)
    n += (gsize)program->ranks[rank].n_ops;
  return n;
}

static gsize count_all_ops(const Structure *structure) {
  gsize n = count_ops(structure->program);
  for (guint i = 0; i < structure->expanded->len; i++)
    n += count_ops(((const Structure *)structure->expanded->pdata[i])->program);
  return n;
}

/* The last one stays. */
static void make_room(Structures *structures) {
  while (structures->n_ops > most_ops_kept && structures->kept->len > 1) {
    structures->n_ops -= count_all_ops(structures->kept->pdata[0]);
    g_ptr_array_remove_index(structures->kept, 0);
  }
}

Structure *structures_keep(Structures *structures, Program *program) {
  if (!structures->is_kept)
    return NULL;
  Structure *structure = structure_new(structures->looked, program);
  g_ptr_array_add(structures->kept, structure);
  structures->n_ops += count_ops(program);
  make_room(structures);
  return structure;
}

static Program *bound(Program *copy, gboolean is_bound) {
  g_autoptr(Program) owned = copy;
  return is_bound ? g_steal_pointer(&owned) : NULL;
}

Program *structure_program(const Structure *structure, const Workload *workload) {
  Program *copy = program_copy(structure->program);
  return bound(copy, program_bind(copy, workload));
}

Structure *structure_expanded(Structures *structures, Structure *structure, const Program *whole,
                              const Workload *workload, const gboolean *met, gint64 eager_bytes) {
  set_expanded_key(structures->looked_expanded, whole, workload, met, eager_bytes);
  for (guint i = 0; i < structure->expanded->len; i++)
    if (is_key(structure->expanded->pdata[i], structures->looked_expanded))
      return structure->expanded->pdata[i];
  return NULL;
}

Structure *structure_keep_expanded(Structures *structures, Structure *structure, Program *program) {
  Structure *expanded = structure_new(structures->looked_expanded, program);
  g_ptr_array_add(structure->expanded, expanded);
  structures->n_ops += count_ops(program);
  make_room(structures);
  return expanded;
}

Program *structure_expanded_program(const Structure *expanded, const Program *whole, const Workload *workload) {
  Program *copy = program_copy(expanded->program);
  return bound(copy, program_bind_expanded(copy, whole, workload));
}

gboolean structure_is_worth_trying(Structure *structure, double share) {
  enum { ONE_IN = 8 };
  if (structure->returned > share || structure->n_spared == ONE_IN - 1)
    return TRUE;
  structure->n_spared++;
  return FALSE;
}

void structure_note_try(Structure *structure, gboolean returned) {
  const double weight = 0.25;
  structure->returned += weight * ((returned ? 1 : 0) - structure->returned);
  structure->n_spared = 0;
}

ProgramRepeats *structure_repeats(Structure *structure, const Program *copy, int n_micro_batches) {
  if (!structure->has_looked)
    structure->repeats = program_repeats_find(structure->program, n_micro_batches);
  structure->has_looked = TRUE;
  return structure->repeats != NULL ? program_repeats_of_copy(structure->repeats, copy) : NULL;
}
