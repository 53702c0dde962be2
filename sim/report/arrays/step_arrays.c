#include "step_arrays.h"

#include <math.h>
#include <string.h>

#include "arrivals.h"
#include "causes.h"
#include "chrome_trace.h"
#include "link_use.h"
#include "memory_profile.h"
#include "op_kernels.h"
#include "whole_file.h"

/* A growing array under the name and type that it is written with. */
typedef struct {
  const char *name, *type;
  GArray *values;
} Column;

#define COLUMN(name, type, of) ((Column){name, type, g_array_new(FALSE, FALSE, sizeof(of))})
#define PUT(column, of, number)                                                                                        \
  do {                                                                                                                 \
    const of value = (of)(number);                                                                                     \
    g_array_append_val((column).values, value);                                                                        \
  } while (0)

static void take(Npz *npz, Column *columns, gsize n) {
  for (gsize i = 0; i < n; i++) {
    npz_add(npz, columns[i].name, columns[i].type, columns[i].values->len, 0, columns[i].values->data);
    g_array_unref(columns[i].values);
  }
}

/* Texts that were met, each once, with their number. */
typedef struct {
  GPtrArray *texts;
  GHashTable *number;
} Names;

static Names names_new(void) {
  return (Names){g_ptr_array_new_with_free_func(g_free), g_hash_table_new(g_str_hash, g_str_equal)};
}

static int name_number(Names *names, const char *text) {
  gpointer number;
  if (g_hash_table_lookup_extended(names->number, text, NULL, &number))
    return GPOINTER_TO_INT(number);
  char *copy = g_strdup(text);
  g_ptr_array_add(names->texts, copy);
  g_hash_table_insert(names->number, copy, GINT_TO_POINTER((int)names->texts->len - 1));
  return (int)names->texts->len - 1;
}

static void names_take(Names *names, const char *name, Npz *npz) {
  npz_add_texts(npz, name, names->texts->len, (const char *const *)names->texts->pdata);
  g_hash_table_unref(names->number);
  g_ptr_array_unref(names->texts);
}

static void add_vocabulary(Npz *npz) {
  const char *streams[N_STREAMS], *actions[N_ACTIONS], *charges[N_BREAKDOWN], *memory[N_MEMORY];
  for (int i = 0; i < N_STREAMS; i++)
    streams[i] = stream_info((Stream)i)->name;
  for (int i = 0; i < N_ACTIONS; i++)
    actions[i] = chrome_action_label((ActionKind)i);
  for (int i = 0; i < N_BREAKDOWN; i++)
    charges[i] = breakdown_name((BreakdownKind)i);
  for (int i = 0; i < N_MEMORY; i++)
    memory[i] = memory_category_name((MemoryCategory)i);
  npz_add_texts(npz, "streams", N_STREAMS, streams);
  npz_add_texts(npz, "actions", N_ACTIONS, actions);
  npz_add_texts(npz, "charges", N_BREAKDOWN, charges);
  npz_add_texts(npz, "memory_kinds", N_MEMORY, memory);
}

static void add_ranks(const Trace *trace, const Metrics *metrics, Npz *npz) {
  const gint64 end_ns = trace_end(trace), window_ns[] = {end_ns - metrics->step_ns, end_ns};
  npz_add(npz, "window_ns", "<i8", 2, 0, window_ns);
  Column columns[] = {COLUMN("rank_first", "<i4", gint32), COLUMN("rank_pp", "<i4", gint32)};
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    PUT(columns[0], gint32, trace_first_rank(trace, rank));
    PUT(columns[1], gint32, trace->pipeline_rank[rank]);
  }
  take(npz, columns, G_N_ELEMENTS(columns));
}

static gboolean is_transfer(const Op *op) {
  return op->work >= 0 && (op->kind == OP_SEND || op->kind == OP_RECV || op->kind == OP_COLLECTIVE);
}

/* −1: a send or receive, or nothing. */
static int moves_of(const Program *program, const Op *op, Names *names) {
  const Transfer *transfer = is_transfer(op) ? &g_array_index(program->transfers, Transfer, op->work) : NULL;
  if (transfer == NULL || transfer->group < 0)
    return -1;
  const Group *group = &g_array_index(program->groups, Group, transfer->group);
  g_autofree char *text = g_strdup_printf("%s %s", collective_name((Collective)transfer->collective), group->name);
  return name_number(names, text);
}

static void add_ops(const Trace *trace, const gint64 *causes, const guint8 *critical, Npz *npz) {
  enum { RANK, STREAM, ACTION, STAGE, MICRO_BATCH, LAYER, STEP, MOVES, START, READY, END, BYTES, FLOPS };
  Column columns[] = {
      [RANK] = COLUMN("op_rank", "<i4", gint32),     [STREAM] = COLUMN("op_stream", "|u1", guint8),
      [ACTION] = COLUMN("op_action", "|u1", guint8), [STAGE] = COLUMN("op_stage", "<i4", gint32),
      [LAYER] = COLUMN("op_layer", "<i4", gint32),   [MICRO_BATCH] = COLUMN("op_micro_batch", "<i4", gint32),
      [STEP] = COLUMN("op_step", "<i4", gint32),     [MOVES] = COLUMN("op_moves", "<i2", gint16),
      [BYTES] = COLUMN("op_bytes", "<f8", double),   [START] = COLUMN("op_start_ns", "<i8", gint64),
      [FLOPS] = COLUMN("op_flops", "<f8", double),   [READY] = COLUMN("op_ready_ns", "<i8", gint64),
      [END] = COLUMN("op_end_ns", "<i8", gint64),
  };
  const Program *program = trace->program;
  Names names = names_new();
  g_autoptr(Arrivals) arrivals = arrivals_new(trace);
  g_autofree gint64 *ready_ns = g_new(gint64, trace_longest_list(trace) + 1);
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const OpList *list = trace_list(trace, rank);
    arrivals_of_rank(arrivals, rank, ready_ns);
    for (int i = 0; i < list->n_ops; i++) {
      const Op *op = &list->ops[i];
      const gsize record = trace->first[rank] + (gsize)i;
      const gboolean computes = op->kind == OP_COMPUTE && op->work >= 0;
      PUT(columns[RANK], gint32, rank);
      PUT(columns[STREAM], guint8, op->stream);
      PUT(columns[ACTION], guint8, op->action);
      PUT(columns[STAGE], gint32, op->stage);
      PUT(columns[MICRO_BATCH], gint32, op->micro_batch);
      PUT(columns[LAYER], gint32, op->unit);
      PUT(columns[STEP], gint32, op->step);
      PUT(columns[MOVES], gint16, moves_of(program, op, &names));
      PUT(columns[START], gint64, trace->start_ns[record]);
      PUT(columns[READY], gint64, ready_ns[i]);
      PUT(columns[END], gint64, trace->end_ns[record]);
      PUT(columns[BYTES], double, is_transfer(op) ? g_array_index(program->transfers, Transfer, op->work).bytes : NAN);
      PUT(columns[FLOPS], double, computes ? g_array_index(program->works, Work, op->work).flops : NAN);
    }
  }
  take(npz, columns, G_N_ELEMENTS(columns));
  npz_add(npz, "op_cause", "<i8", trace->first[trace->n_ranks], 0, causes);
  npz_add(npz, "op_critical", "|u1", trace->first[trace->n_ranks], 0, critical);
  names_take(&names, "moves", npz);
}

static void add_kernels(const Trace *trace, Npz *npz) {
  enum { OP, STREAM, NAME, CHARGE, START, END };
  static const Stream streams[N_ITEM_AXES] = {[AXIS_TP] = STREAM_TP, [AXIS_CP] = STREAM_CP, [AXIS_EP] = STREAM_EP};
  static const BreakdownKind charges[N_ITEM_AXES] = {
      [AXIS_TP] = BREAKDOWN_TP, [AXIS_CP] = BREAKDOWN_CP, [AXIS_EP] = BREAKDOWN_EP};
  Column columns[] = {
      [OP] = COLUMN("kernel_op", "<i4", gint32),          [STREAM] = COLUMN("kernel_stream", "|u1", guint8),
      [NAME] = COLUMN("kernel_name", "<i2", gint16),      [CHARGE] = COLUMN("kernel_charge", "|u1", guint8),
      [START] = COLUMN("kernel_start_ns", "<i8", gint64), [END] = COLUMN("kernel_end_ns", "<i8", gint64),
  };
  Names names = names_new();
  g_autoptr(GArray) spans = g_array_new(FALSE, FALSE, sizeof(ItemSpan));
  const gboolean are_too_many = op_kernels_count(trace) + (gint64)trace->first[trace->n_ranks] > CHROME_AUTO_SPANS;
  for (int rank = 0; rank < trace->n_ranks && !are_too_many; rank++)
    for (int i = 0; i < trace_list(trace, rank)->n_ops; i++) {
      op_kernels(trace, rank, i, spans);
      for (guint k = 0; k < spans->len; k++) {
        const ItemSpan *span = &g_array_index(spans, ItemSpan, k);
        const TimedItem *item = span->item;
        PUT(columns[OP], gint32, trace->first[rank] + (gsize)i);
        PUT(columns[STREAM], guint8, item->is_collective ? streams[item->axis] : STREAM_COMPUTE);
        PUT(columns[NAME], gint16, name_number(&names, item->name));
        PUT(columns[CHARGE], guint8,
            item->is_collective ? charges[item->axis]
            : item->recompute   ? BREAKDOWN_RECOMPUTE
                                : BREAKDOWN_COMPUTE);
        PUT(columns[START], gint64, span->start_ns);
        PUT(columns[END], gint64, span->end_ns);
      }
    }
  take(npz, columns, G_N_ELEMENTS(columns));
  names_take(&names, "kernel_names", npz);
}

static void add_idle(const Trace *trace, Npz *npz) {
  Column columns[] = {COLUMN("idle_rank", "<i4", gint32), COLUMN("idle_charge", "|u1", guint8),
                      COLUMN("idle_start_ns", "<i8", gint64), COLUMN("idle_end_ns", "<i8", gint64)};
  g_autoptr(GArray) spans = metrics_idle_spans(trace);
  for (guint i = 0; i < spans->len; i++) {
    const IdleSpan *span = &g_array_index(spans, IdleSpan, i);
    PUT(columns[0], gint32, span->rank);
    PUT(columns[1], guint8, span->charge);
    PUT(columns[2], gint64, span->start_ns);
    PUT(columns[3], gint64, span->end_ns);
  }
  take(npz, columns, G_N_ELEMENTS(columns));
}

typedef struct {
  int rank;
  Column ranks, times, bytes;
} MemoryColumns;

static void see_sample(gint64 time_ns, const MemorySample *sample, gpointer data) {
  MemoryColumns *columns = data;
  PUT(columns->ranks, gint32, columns->rank);
  PUT(columns->times, gint64, time_ns);
  g_array_append_vals(columns->bytes.values, sample->bytes, N_MEMORY);
}

static void add_memory(const Trace *trace, Npz *npz) {
  MemoryColumns columns = {0, COLUMN("memory_rank", "<i4", gint32), COLUMN("memory_time_ns", "<i8", gint64),
                           COLUMN("memory_bytes", "<f8", double)};
  for (; columns.rank < trace->n_ranks; columns.rank++)
    memory_profile_visit(trace, columns.rank, see_sample, &columns);
  npz_add(npz, columns.bytes.name, columns.bytes.type, columns.bytes.values->len / N_MEMORY, N_MEMORY,
          columns.bytes.values->data);
  g_array_unref(columns.bytes.values);
  Column others[] = {columns.ranks, columns.times};
  take(npz, others, G_N_ELEMENTS(others));
}

/* The moments of all ranks; `used` [TIMING_MAX_WAYS]: whether any of them takes some of a way. An array of GArrays. */
static GPtrArray *link_moments(const Trace *trace, const Metrics *metrics, gboolean *used) {
  GPtrArray *ranks = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    GArray *moments = link_timeline_of(trace, metrics, rank);
    g_ptr_array_add(ranks, moments != NULL ? moments : g_array_new(FALSE, FALSE, sizeof(LinkMoment)));
    for (guint i = 0; moments != NULL && i < moments->len; i++)
      for (int way = 0; way < TIMING_MAX_WAYS; way++)
        used[way] = used[way] || g_array_index(moments, LinkMoment, i).used[way] > 0;
  }
  return ranks;
}

static void add_links(const Trace *trace, const Metrics *metrics, const Cluster *cluster, Npz *npz) {
  Names names = names_new();
  Column columns[] = {COLUMN("link_rank", "<i4", gint32), COLUMN("link_time_ns", "<i8", gint64)};
  Column shares = COLUMN("link_used", "<f4", float);
  gboolean used[TIMING_MAX_WAYS] = {FALSE};
  g_autoptr(GPtrArray) ranks = cluster != NULL ? link_moments(trace, metrics, used) : g_ptr_array_new();
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (used[way])
      g_ptr_array_add(names.texts, link_use_name(cluster, way));
  for (guint rank = 0; rank < ranks->len && names.texts->len > 0; rank++) {
    const GArray *moments = ranks->pdata[rank];
    for (guint i = 0; i < moments->len; i++) {
      const LinkMoment *moment = &g_array_index(moments, LinkMoment, i);
      const gboolean is_last = i + 1 == moments->len;
      if (i > 0 && !is_last && memcmp(moment->used, moment[-1].used, sizeof moment->used) == 0)
        continue; /* holds on */
      PUT(columns[0], gint32, rank);
      PUT(columns[1], gint64, moment->time_ns);
      for (int way = 0; way < TIMING_MAX_WAYS; way++)
        if (used[way])
          PUT(shares, float, moment->used[way]);
    }
  }
  npz_add(npz, shares.name, shares.type, columns[0].values->len, names.texts->len, shares.values->data);
  g_array_unref(shares.values);
  take(npz, columns, G_N_ELEMENTS(columns));
  names_take(&names, "links", npz);
}

Npz *step_arrays_new(const Trace *trace, const Metrics *metrics, const Cluster *cluster, GError **error) {
  g_autofree gint64 *causes = causes_of(trace, error);
  if (causes == NULL)
    return NULL;
  g_autofree guint8 *critical = causes_critical(trace, causes);
  Npz *npz = npz_new();
  add_vocabulary(npz);
  add_ranks(trace, metrics, npz);
  add_ops(trace, causes, critical, npz);
  add_kernels(trace, npz);
  add_idle(trace, npz);
  add_memory(trace, npz);
  add_links(trace, metrics, cluster, npz);
  return npz;
}

GBytes *step_arrays(const Trace *trace, const Metrics *metrics, const Cluster *cluster, GError **error) {
  g_autoptr(Npz) npz = step_arrays_new(trace, metrics, cluster, error);
  return npz != NULL ? npz_finish(npz, error) : NULL;
}

gboolean step_arrays_write(const Trace *trace, const Metrics *metrics, const Cluster *cluster, const char *file,
                           GError **error) {
  g_autoptr(GBytes) bytes = step_arrays(trace, metrics, cluster, error);
  WholeFile out;
  if (bytes == NULL || !whole_file_open_apart(&out, file, error))
    return FALSE;
  whole_file_write(&out, g_bytes_get_data(bytes, NULL), g_bytes_get_size(bytes));
  return whole_file_close(&out, error);
}
