/* Events are formatted one by one into a small buffer and streamed out, since a tree of them would need gigabytes.
 *
 * Per rank, in this order:  names of process and threads · ops in list order, each followed by its kernels and by its
 * end of an arrow · memory counters. An arrow's two ends find each other by an id: the record number of the send. Both
 * ends stand after their slice in the file, since readers bind an arrow to the slice that is open when they meet it.
 *
 * Thread ids are unique over the whole file and no process is number 0: Perfetto takes process 0 for the idle task. */
#include "chrome_trace.h"

#include "json_values.h"
#include "memory_profile.h"
#include "op_kernels.h"
#include "whole_file.h"

G_STATIC_ASSERT((int)N_STREAMS <= (int)CHROME_THREADS_PER_PROCESS);

typedef struct {
  const Trace *trace;
  gint32 **match;
  GArray *spans; /* of ItemSpan */
  GString *name; /* of a slice, before it is escaped */
  GString *text; /* events not yet handed to `out` */
  WholeFile out;
  gint64 n_kernels;             /* kernels inside all ops */
  gboolean kernels;             /* whether they are written */
  gboolean tracks[N_ITEM_AXES]; /* whether collectives of the axis are among them */
  const char *separator;        /* before the next event: nothing before the first */
} Writer;

/* How each action reads on its slice, and the category it is filtered by. */
static const struct {
  const char *category, *label;
} action_texts[N_ACTIONS] = {
    [ACTION_F] = {"F", "F"},
    [ACTION_I] = {"I", "I"},
    [ACTION_W] = {"W", "W"},
    [ACTION_B] = {"B", "B"},
    [ACTION_SEND_F] = {"send", "send F"},
    [ACTION_RECV_F] = {"recv", "recv F"},
    [ACTION_SEND_B] = {"send", "send B"},
    [ACTION_RECV_B] = {"recv", "recv B"},
    [ACTION_UNSHARD] = {"unshard", "unshard"},
    [ACTION_RESHARD] = {"reshard", "reshard"},
    [ACTION_REDUCE_GRAD] = {"reduce_grad", "reduce grad"},
    [ACTION_OVERLAP_F_B] = {"overlap", "overlap"},
    [ACTION_OPTIMIZER] = {"optimizer", "optimizer"},
    [ACTION_NORM] = {"norm", "gradient norm"},
    [ACTION_TIED_GRAD] = {"tied_grad", "tied gradient"},
    [ACTION_COPY_GRAD] = {"copy_grad", "gradient of both copies"},
    [ACTION_WHOLE_GRAD] = {"whole_grad", "gradient of whole parameters"},
    [ACTION_KEPT] = {"kept", "whole vectors"},
    [ACTION_SYNC] = {"sync", "sync"},
    [ACTION_WAIT] = {"wait", "host waits"},
    [ACTION_FETCH] = {"fetch", "fetch weights"},
    [ACTION_GRAD_OUT] = {"grad_out", "gradients out"},
    [ACTION_STATE_READ] = {"state_read", "read optimizer state"},
    [ACTION_STATE_WRITE] = {"state_write", "write optimizer state"},
    [ACTION_WEIGHTS_BACK] = {"weights_back", "weights back"},
    [ACTION_WEIGHTS_STORE] = {"weights_store", "store weights"},
    [ACTION_SAVED_OUT] = {"saved_out", "activations out"},
    [ACTION_SAVED_IN] = {"saved_in", "activations in"},
    [ACTION_DATA] = {"data", "data"},
    [ACTION_PUSH] = {"push", "push gradients"},
    [ACTION_SERVE] = {"serve", "servers update"},
    [ACTION_PULL] = {"pull", "pull weights"},
    [ACTION_SPREAD] = {"spread", "gather pulled weights"},
    [ACTION_CLOCK] = {"clock", "clock"},
    [ACTION_OUTER_SUM] = {"outer_sum", "sum over islands"},
    [ACTION_OUTER_STEP] = {"outer_step", "outer step"},
    [ACTION_OUTER_GATHER] = {"outer_gather", "parts of the outer step"},
};

const char *chrome_action_label(ActionKind action) {
  return action_texts[action].label;
}

static int process_id(int rank) {
  return rank + 1;
}

static int thread_id(int rank, int stream) {
  return process_id(rank) * CHROME_THREADS_PER_PROCESS + stream;
}

/* `label` and a number that is not negative; a trace holds tens of millions, and printf() takes most of their time. */
static void append_count(GString *text, const char *label, gint64 value) {
  char digits[24];
  char *at = digits + sizeof digits;
  do
    *--at = (char)('0' + value % 10);
  while ((value /= 10) > 0);
  g_string_append(text, label);
  g_string_append_len(text, at, digits + sizeof digits - at);
}

/* Microseconds to the nanosecond; no floating point, so no rounding and no locale. */
static void append_us(GString *text, const char *label, gint64 time_ns) {
  int rest_ns = (int)(time_ns % 1000);
  append_count(text, label, time_ns / 1000);
  append_count(text, rest_ns < 10 ? ".00" : (rest_ns < 100 ? ".0" : "."), rest_ns);
}

static void begin_event(Writer *writer, char phase, int rank, int thread) {
  g_string_append(writer->text, writer->separator);
  g_string_append(writer->text, "{\"ph\":\"");
  g_string_append_c(writer->text, phase);
  append_count(writer->text, "\",\"pid\":", process_id(rank));
  append_count(writer->text, ",\"tid\":", thread);
  writer->separator = ",\n";
}

static void begin_slice(Writer *writer, int rank, int stream, gint64 start_ns, gint64 end_ns) {
  begin_event(writer, 'X', rank, thread_id(rank, stream));
  append_us(writer->text, ",\"ts\":", start_ns);
  append_us(writer->text, ",\"dur\":", end_ns - start_ns);
}

static void flush(Writer *writer) {
  whole_file_write(&writer->out, writer->text->str, writer->text->len);
  g_string_truncate(writer->text, 0);
}

/* --- names ------------------------------------------------------------------------------------------------------- */

static void write_name(Writer *writer, const char *what, int rank, int thread, const char *name, int sort_index) {
  GString *text = writer->text;
  begin_event(writer, 'M', rank, thread);
  g_string_append_printf(text, ",\"name\":\"%s_name\",\"args\":{\"name\":", what);
  json_append_string(text, name);
  g_string_append(text, "}}");
  begin_event(writer, 'M', rank, thread);
  g_string_append_printf(text, ",\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%d}}", what, sort_index);
}

/* "stage 3" or "stages 3, 11": those the list computes. */
static void append_stages(const Program *program, const OpList *list, GString *name) {
  g_autofree gboolean *held = g_new0(gboolean, program->n_stages + 1);
  int n = 0;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->stage < 0 || !action_info(op->action)->is_compute || held[op->stage])
      continue;
    held[op->stage] = TRUE;
    n++;
  }
  if (n == 0)
    return;
  g_string_append(name, n == 1 ? "stage" : "stages");
  const char *separator = " ";
  for (int stage = 0; stage < program->n_stages; stage++) {
    if (!held[stage])
      continue;
    g_string_append_printf(name, "%s%d", separator, stage);
    separator = ", ";
  }
}

/* "stage 3 (rank 384, alike 128)" folded, "stage 3 (rank 400)" otherwise. */
static char *process_name(const Trace *trace, int rank) {
  GString *name = g_string_new(NULL);
  append_stages(trace->program, trace_list(trace, rank), name);
  int global = rank, n_alike = 1;
  if (trace->folded && trace->layout.n_ranks > trace->n_ranks) {
    Coordinates at = {.at = {[AXIS_PP] = trace->pipeline_rank[rank]}};
    global = layout_rank(&trace->layout, &at);
    n_alike = trace->layout.n_ranks / trace->n_ranks;
  }
  g_string_append_printf(name, name->len ? " (rank %d" : "rank (%d", global);
  if (n_alike > 1)
    g_string_append_printf(name, ", standing for %d alike", n_alike);
  g_string_append_c(name, ')');
  return g_string_free(name, FALSE);
}

static void write_names(Writer *writer, int rank) {
  const OpList *list = trace_list(writer->trace, rank);
  gboolean used[N_STREAMS] = {FALSE};
  for (int i = 0; i < list->n_ops; i++)
    used[list->ops[i].stream] = TRUE;
  used[STREAM_TP] = used[STREAM_TP] || writer->tracks[AXIS_TP];
  used[STREAM_CP] = used[STREAM_CP] || writer->tracks[AXIS_CP];
  used[STREAM_EP] = used[STREAM_EP] || writer->tracks[AXIS_EP];
  g_autofree char *process = process_name(writer->trace, rank);
  write_name(writer, "process", rank, 0, process, rank);
  for (int stream = 0; stream < N_STREAMS; stream++)
    if (used[stream])
      write_name(writer, "thread", rank, thread_id(rank, stream), stream_info(stream)->name, stream);
}

/* --- slices ------------------------------------------------------------------------------------------------------ */

static const Transfer *op_transfer(const Program *program, const Op *op) {
  gboolean moves = op->kind == OP_SEND || op->kind == OP_RECV || op->kind == OP_COLLECTIVE;
  return moves && op->work >= 0 ? &g_array_index(program->transfers, Transfer, op->work) : NULL;
}

static const char *group_name(const Program *program, const Transfer *transfer) {
  return transfer->group < 0 ? "pp" : g_array_index(program->groups, Group, transfer->group).name;
}

/* "F 3 · mb 5", "send F 3 · mb 5", "reduce grad 3 · layer 8 · reduce_scatter dp". */
static void append_slice_name(GString *text, GString *name, const Program *program, const Op *op) {
  g_string_assign(name, action_texts[op->action].label);
  if (op->stage >= 0)
    append_count(name, " ", op->stage);
  if (op->micro_batch >= 0)
    append_count(name, " · mb ", op->micro_batch);
  if (op->unit > 0)
    append_count(name, " · layer ", op->unit);
  const Transfer *transfer = op_transfer(program, op);
  if (op->kind == OP_COLLECTIVE && transfer)
    g_string_append_printf(name, " · %s %s", collective_name(transfer->collective), group_name(program, transfer));
  json_append_string(text, name->str);
}

static const char *slice_category(const Op *op) {
  gboolean inside_layer = op->kind == OP_COLLECTIVE && action_info(op->action)->is_compute;
  return inside_layer ? stream_info(op->stream)->name : action_texts[op->action].category;
}

/* The same number on all recorded members of a collective's group, on no other rank; −1: it has no other member here.
 */
static gint64 meeting_group(const Trace *trace, int rank, const Transfer *transfer) {
  const Program *program = trace->program;
  const Group *group = &g_array_index(program->groups, Group, transfer->group);
  if (trace->folded)
    return group->spans_pp ? transfer->group : -1;
  AxisSet axes = group->axes | (group->spans_pp ? AXIS_BIT(AXIS_PP) : 0);
  return (gint64)layout_group_index(&trace->layout, axes, rank) * program->groups->len + transfer->group;
}

static void append_args(GString *text, const Trace *trace, int rank, const Op *op) {
  const Program *program = trace->program;
  append_count(text, ",\"args\":{\"step\":", op->step);
  g_string_append(text, ",\"action\":\"");
  g_string_append(text, action_info(op->action)->name);
  g_string_append_c(text, '"');
  if (op->stage >= 0)
    append_count(text, ",\"stage\":", op->stage);
  if (op->micro_batch >= 0)
    append_count(text, ",\"micro_batch\":", op->micro_batch);
  if (op->peer >= 0)
    append_count(text, ",\"peer_pipeline_rank\":", op->peer);
  const Transfer *transfer = op_transfer(program, op);
  if (transfer) {
    g_string_append(text, ",\"bytes\":");
    json_append_number(text, transfer->bytes);
    gint64 group = op->kind == OP_COLLECTIVE ? meeting_group(trace, rank, transfer) : -1;
    if (group >= 0)
      append_count(text, ",\"group\":", group);
  } else if (op->kind == OP_COMPUTE && op->work >= 0) {
    g_string_append(text, ",\"flops\":");
    json_append_number(text, g_array_index(program->works, Work, op->work).flops);
  }
  g_string_append_c(text, '}');
}

static void write_op(Writer *writer, int rank, const Op *op, gint64 start_ns, gint64 end_ns) {
  const Program *program = writer->trace->program;
  begin_slice(writer, rank, op->stream, start_ns, end_ns);
  g_string_append(writer->text, ",\"name\":");
  append_slice_name(writer->text, writer->name, program, op);
  g_string_append(writer->text, ",\"cat\":\"");
  g_string_append(writer->text, slice_category(op));
  g_string_append_c(writer->text, '"');
  append_args(writer->text, writer->trace, rank, op);
  g_string_append_c(writer->text, '}');
}

static void write_kernels(Writer *writer, int rank, int index) {
  op_kernels(writer->trace, rank, index, writer->spans);
  for (guint i = 0; i < writer->spans->len; i++) {
    const ItemSpan *span = &g_array_index(writer->spans, ItemSpan, i);
    const TimedItem *item = span->item;
    static const Stream streams[N_ITEM_AXES] = {[AXIS_TP] = STREAM_TP, [AXIS_CP] = STREAM_CP, [AXIS_EP] = STREAM_EP};
    const Stream stream = item->is_collective ? streams[item->axis] : STREAM_COMPUTE;
    begin_slice(writer, rank, stream, span->start_ns, span->end_ns);
    g_string_append(writer->text, ",\"name\":");
    json_append_string(writer->text, item->name);
    g_string_append_printf(writer->text, ",\"cat\":\"%s\"}",
                           item->is_collective ? axis_name((Axis)item->axis)
                                               : (item->recompute ? "recompute" : "kernel"));
  }
}

/* An arrow lands where the receive could first have seen the data, but inside the receive's slice. */
static void write_arrow(Writer *writer, int rank, int index, const Op *op) {
  const Trace *trace = writer->trace;
  gint32 other = writer->match[trace->pipeline_rank[rank]][index];
  if (other < 0)
    return;
  gsize own = trace->first[rank] + (gsize)index;
  gsize peer = trace->first[trace_partner(trace, rank, op->peer)] + (gsize)other;
  if (trace->end_ns[peer] < 0)
    return;
  gboolean sends = op->kind == OP_SEND;
  gint64 at_ns = trace->start_ns[own];
  if (!sends)
    at_ns = CLAMP(trace->start_ns[peer], at_ns, trace->end_ns[own]);
  begin_event(writer, sends ? 's' : 'f', rank, thread_id(rank, op->stream));
  append_us(writer->text, ",\"ts\":", at_ns);
  append_count(writer->text, ",\"id\":", (gint64)(sends ? own : peer));
  g_string_append(writer->text, ",\"name\":\"transfer\",\"cat\":\"pp\"");
  g_string_append(writer->text, sends ? "}" : ",\"bp\":\"e\"}");
}

static void write_ops(Writer *writer, int rank) {
  const Trace *trace = writer->trace;
  const OpList *list = trace_list(trace, rank);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    gsize record = trace->first[rank] + (gsize)i;
    if (trace->start_ns[record] < 0 || trace->end_ns[record] < trace->start_ns[record])
      continue;
    write_op(writer, rank, op, trace->start_ns[record], trace->end_ns[record]);
    if (writer->kernels)
      write_kernels(writer, rank, i);
    if (op->kind == OP_SEND || op->kind == OP_RECV)
      write_arrow(writer, rank, i, op);
    flush(writer);
  }
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

typedef struct {
  Writer *writer;
  int rank;
  gboolean pending; /* `sample` at `time_ns` is still to be written: a later change at the same time replaces it */
  gint64 time_ns;
  MemorySample sample;
} Counter;

static void begin_counter(Counter *counter, const char *name) {
  begin_event(counter->writer, 'C', counter->rank, 0);
  append_us(counter->writer->text, ",\"ts\":", counter->time_ns);
  g_string_append_printf(counter->writer->text, ",\"name\":\"%s\",\"args\":{", name);
}

static void write_counter(Counter *counter) {
  if (!counter->pending)
    return;
  GString *text = counter->writer->text;
  double total_bytes = 0;
  begin_counter(counter, "memory (GB)");
  for (int category = 0; category < N_MEMORY; category++) {
    double bytes = counter->sample.bytes[category];
    total_bytes += bytes;
    g_string_append_printf(text, "%s\"%s\":", category ? "," : "", memory_category_name(category));
    json_append_number(text, bytes / 1e9);
  }
  g_string_append(text, "}}");
  begin_counter(counter, "memory in all (GB)");
  g_string_append(text, "\"total\":");
  json_append_number(text, total_bytes / 1e9);
  g_string_append(text, "}}");
  flush(counter->writer);
}

static void see_sample(gint64 time_ns, const MemorySample *sample, gpointer data) {
  Counter *counter = data;
  if (counter->pending && time_ns != counter->time_ns)
    write_counter(counter);
  gboolean holds = FALSE;
  for (int category = 0; category < N_MEMORY; category++)
    holds = holds || sample->bytes[category] != 0;
  counter->pending = counter->pending || holds; /* orders without a model hold nothing: no counter for them */
  counter->time_ns = time_ns;
  counter->sample = *sample;
}

static void write_memory(Writer *writer, int rank) {
  Counter counter = {.writer = writer, .rank = rank};
  memory_profile_visit(writer->trace, rank, see_sample, &counter);
  write_counter(&counter);
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

/* Sizes of the axes and how far neighbouring pipeline ranks lie apart: orders without a model have pipeline ranks only.
 */
static void append_layout(GString *text, const Trace *trace) {
  gboolean is_given = trace->layout.n_ranks > 0;
  g_string_append(text, ",\"layout\":{");
  for (int axis = 0; axis < N_AXES; axis++) {
    int size = is_given ? trace->layout.size[axis] : (axis == AXIS_PP ? trace->program->n_ranks : 1);
    g_string_append_printf(text, "%s\"%s\":%d", axis > 0 ? "," : "", axis_name((Axis)axis), size);
  }
  g_string_append_printf(text, "},\"pipeline_stride\":%d", is_given ? trace->layout.stride[AXIS_PP] : 1);
}

static void write_metadata(Writer *writer) {
  const Trace *trace = writer->trace;
  const Program *program = trace->program;
  GString *text = writer->text;
  g_string_append(text, "{\"displayTimeUnit\":\"ns\",\n\"otherData\":{\"producer\":\"stepsim " STEPSIM_VERSION "\"");
  g_string_append_printf(text, ",\"what\":\"%s training step\"", trace->timing ? "simulated" : "measured");
  g_string_append(text, ",\"time_unit\":\"us\",\"memory_unit\":\"GB = 1e9 bytes\"");
  g_string_append_printf(text, ",\"folded\":%s,\"recorded_ranks\":%d,\"ranks\":%d", trace->folded ? "true" : "false",
                         trace->n_ranks, MAX(trace->layout.n_ranks, trace->n_ranks));
  append_layout(text, trace);
  g_string_append_printf(text, ",\"stages\":%d,\"micro_batches\":%d,\"steps\":%d,\"detail\":\"", program->n_stages,
                         program->n_micro_batches, program->n_steps);
  if (writer->kernels)
    g_string_append_printf(text, "ops and the %" G_GINT64_FORMAT " kernels inside them", writer->n_kernels);
  else if (writer->n_kernels)
    g_string_append_printf(text, "ops only: %" G_GINT64_FORMAT " kernels inside them were left out", writer->n_kernels);
  else
    g_string_append(text, "ops");
  g_string_append(text, "\"},\n\"traceEvents\":[\n");
}

static void write_all(Writer *writer) {
  write_metadata(writer);
  for (int rank = 0; rank < writer->trace->n_ranks; rank++) {
    write_names(writer, rank);
    write_ops(writer, rank);
    write_memory(writer, rank);
  }
  g_string_append(writer->text, "\n]}\n");
  flush(writer);
}

static gboolean wants_kernels(const Trace *trace, ChromeDetail detail, gint64 n_kernels) {
  if (detail == CHROME_DETAIL_AUTO)
    return n_kernels > 0 && n_kernels + (gint64)trace->first[trace->n_ranks] <= CHROME_AUTO_SPANS;
  return detail == CHROME_DETAIL_KERNELS && n_kernels > 0;
}

static gboolean has_collectives(const Timing *timing, Axis axis) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++)
      for (int i = 0; i < timing->lists[piece][phase].n_items; i++)
        if (timing->lists[piece][phase].items[i].is_collective && timing->lists[piece][phase].items[i].axis == axis)
          return TRUE;
  return FALSE;
}

gboolean chrome_trace_write_detail(const Trace *trace, ChromeDetail detail, const char *file, GError **error) {
  Writer writer = {.trace = trace, .n_kernels = op_kernels_count(trace), .separator = ""};
  writer.kernels = wants_kernels(trace, detail, writer.n_kernels);
  for (int axis = 0; axis < N_ITEM_AXES; axis++)
    writer.tracks[axis] = writer.kernels && has_collectives(trace->timing, (Axis)axis);
  if (!program_match(trace->program, &writer.match, error))
    return FALSE;
  gboolean written = whole_file_open_apart(&writer.out, file, error);
  if (written) {
    writer.spans = g_array_new(FALSE, FALSE, sizeof(ItemSpan));
    writer.text = g_string_new(NULL);
    writer.name = g_string_new(NULL);
    write_all(&writer);
    written = whole_file_close(&writer.out, error);
    g_array_unref(writer.spans);
    g_string_free(writer.text, TRUE);
    g_string_free(writer.name, TRUE);
  }
  program_match_free(trace->program, writer.match);
  return written;
}

gboolean chrome_trace_write(const Trace *trace, const char *file, GError **error) {
  return chrome_trace_write_detail(trace, CHROME_DETAIL_AUTO, file, error);
}
