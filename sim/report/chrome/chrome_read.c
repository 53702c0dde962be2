/* Events arrive one by one, the header once all are read. A mistake in an event is kept until then: a trace of another
 * program is better told from its header than from its first odd event.
 *
 * In our files a slice without `args` lies inside the op before it, and an arrow's end stands right behind its slice.
 */
#include "chrome_read.h"

#include "chrome_trace.h"
#include "error.h"
#include "json_file.h"
#include <math.h>
#include <string.h>

enum { MOST_RANKS = 1 << 24, MOST_COUNT = 1 << 30 };

/* 2^52 ns, half of what a double of microseconds with three digits can tell apart. */
static const double most_us = 4.5e12;

typedef struct {
  ChromeTrace *trace;
  gint64 last_op; /* index of the last record that is not nested; −1 none */
  GError *error;  /* of the first event with a mistake */
} Reader;

/* --- values ------------------------------------------------------------------------------------------------------ */

/* An object and the event or header that it is of. */
typedef struct {
  const JsonFile *json;
  JsonObject *object;
} Place;

static gboolean fail_at(const Place *place, const char *key, const char *expected, GError **error) {
  return json_file_fail(place->json, place->object, key, expected, error);
}

static gboolean get_int(const Place *place, const char *key, gint64 least, gint64 most, gint64 *value, GError **error) {
  if (json_file_has(place->object, key))
    return json_file_integer(place->json, place->object, key, (IntegerRange){least, most}, value, error);
  g_autofree char *expected = g_strdup_printf("an integer from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, least, most);
  return fail_at(place, key, expected, error);
}

static gboolean get_int32(const Place *place, const char *key, gint32 least, gint32 most, gint32 *value,
                          GError **error) {
  gint64 wide = 0;
  gboolean ok = get_int(place, key, least, most, &wide, error);
  *value = (gint32)wide;
  return ok;
}

/* Absent: −1. */
static gboolean get_optional(const Place *place, const char *key, gint32 *value, GError **error) {
  *value = -1;
  return !json_object_has_member(place->object, key) || get_int32(place, key, 0, MOST_COUNT, value, error);
}

static gboolean get_ns(const Place *place, const char *key, gint64 *ns, GError **error) {
  double us = NAN;
  if (!json_file_number(place->json, place->object, key, (RealRange){0, most_us}, &us, NULL) || isnan(us))
    return fail_at(place, key, "microseconds from 0 to 52 days", error);
  *ns = llround(us * 1000);
  return TRUE;
}

/* Absent: 0. */
static gboolean get_amount(const Place *place, const char *key, double *value, GError **error) {
  *value = 0;
  return json_file_number(place->json, place->object, key, (RealRange){0, G_MAXDOUBLE}, value, error);
}

static const char *text_of(const Place *place, const char *key) {
  const char *text = NULL;
  json_file_text(place->json, place->object, key, &text, NULL);
  return text;
}

static gboolean get_object(const Place *place, const char *key, Place *inner, GError **error) {
  *inner = (Place){place->json, NULL};
  return json_file_object(place->json, place->object, key, &inner->object, NULL) && inner->object != NULL
             ? TRUE
             : fail_at(place, key, "an object in braces", error);
}

/* --- events ------------------------------------------------------------------------------------------------------ */

static gboolean get_action(const Place *args, guint8 *action, GError **error) {
  const char *text = text_of(args, "action");
  for (int kind = 0; kind < N_ACTIONS && text != NULL; kind++) {
    if (strcmp(text, action_info((ActionKind)kind)->name) == 0) {
      *action = (guint8)kind;
      return TRUE;
    }
  }
  return fail_at(args, "action", "an action such as F or SEND_F (files of older versions have none)", error);
}

static gboolean get_track(const Place *event, gint32 *rank, guint8 *stream, GError **error) {
  gint64 process, thread;
  if (!get_int(event, "pid", 1, MOST_RANKS, &process, error))
    return FALSE;
  gint64 first = process * CHROME_THREADS_PER_PROCESS;
  if (!get_int(event, "tid", first, first + N_STREAMS - 1, &thread, error))
    return FALSE;
  *rank = (gint32)(process - 1);
  *stream = (guint8)(thread - first);
  return TRUE;
}

static gboolean read_args(const Place *args, ChromeRecord *record, GError **error) {
  if (json_object_has_member(args->object, "group") && !get_int(args, "group", 0, G_MAXINT64, &record->group, error))
    return FALSE;
  return get_int32(args, "step", 0, MOST_COUNT, &record->step, error) && get_action(args, &record->action, error) &&
         get_optional(args, "stage", &record->stage, error) &&
         get_optional(args, "micro_batch", &record->micro_batch, error) &&
         get_amount(args, "bytes", &record->bytes, error) && get_amount(args, "flops", &record->flops, error);
}

/* The whole op that a slice without args lies in; NULL: none on this rank. */
static const ChromeRecord *op_around(const Reader *reader, gint32 rank) {
  if (reader->last_op < 0)
    return NULL;
  const ChromeRecord *op = &g_array_index(reader->trace->records, ChromeRecord, reader->last_op);
  return op->rank == rank ? op : NULL;
}

static gboolean read_slice(Reader *reader, const Place *event, GError **error) {
  ChromeRecord record = {.pair = -1, .group = -1};
  gint64 length_ns = 0;
  const char *name = text_of(event, "name"), *category = text_of(event, "cat");
  if (name == NULL || category == NULL)
    return fail_at(event, name == NULL ? "name" : "cat", "a text in quotes", error);
  if (!get_track(event, &record.rank, &record.stream, error) || !get_ns(event, "ts", &record.start_ns, error) ||
      !get_ns(event, "dur", &length_ns, error))
    return FALSE;
  record.end_ns = record.start_ns + length_ns;
  record.is_nested = !json_object_has_member(event->object, "args");
  if (record.is_nested) {
    const ChromeRecord *op = op_around(reader, record.rank);
    if (op == NULL)
      return fail_at(event, "args", "the step and action of an op, since none is around this slice", error);
    if (record.stream == STREAM_COMPUTE)
      return TRUE; /* a kernel: its op has its time */
    record.step = op->step, record.stage = op->stage, record.micro_batch = op->micro_batch, record.action = op->action;
  } else {
    Place args;
    if (!get_object(event, "args", &args, error) || !read_args(&args, &record, error))
      return FALSE;
    reader->last_op = reader->trace->records->len;
  }
  record.name = g_quark_from_string(name);
  record.category = g_quark_from_string(category);
  g_array_append_val(reader->trace->records, record);
  return TRUE;
}

/* An end of an arrow belongs to the slice before it. */
static gboolean read_arrow(Reader *reader, const Place *event, GError **error) {
  gint32 rank;
  guint8 stream;
  gint64 id;
  if (!get_track(event, &rank, &stream, error) || !get_int(event, "id", 0, G_MAXINT64, &id, error))
    return FALSE;
  if (op_around(reader, rank) == NULL)
    return fail_at(event, "tid", "the end of an arrow right behind its slice", error);
  ChromeRecord *op = &g_array_index(reader->trace->records, ChromeRecord, reader->last_op);
  if (op->stream != stream)
    return fail_at(event, "tid", "the end of an arrow right behind its slice", error);
  op->pair = id;
  return TRUE;
}

static gboolean read_event(Reader *reader, const Place *event, GError **error) {
  const char *phase = text_of(event, "ph");
  if (phase == NULL)
    return fail_at(event, "ph", "the kind of event", error);
  if (strcmp(phase, "X") == 0)
    return read_slice(reader, event, error);
  if (strcmp(phase, "s") == 0 || strcmp(phase, "f") == 0)
    return read_arrow(reader, event, error);
  return TRUE; /* names, counters */
}

static void see_event(const JsonFile *event, gpointer data) {
  Reader *reader = data;
  const Place place = {event, event->root};
  if (reader->error == NULL)
    read_event(reader, &place, &reader->error);
}

/* --- header ------------------------------------------------------------------------------------------------------ */

static gboolean fail_foreign(const char *file, const char *found, GError **error) {
  return fail_input(error,
                    "%s: found %s, expected a trace with otherData.producer \"stepsim …\": what stepsim simulate "
                    "--trace and stepreal run --trace write",
                    file, found);
}

static gboolean find_header(const JsonFile *json, Place *header, GError **error) {
  const Place root = {json, json->root};
  if (!get_object(&root, "otherData", header, NULL))
    return fail_foreign(json->file, "no otherData", error);
  const char *producer = text_of(header, "producer");
  if (producer == NULL)
    return fail_foreign(json->file, "no otherData.producer", error);
  if (!g_str_has_prefix(producer, "stepsim")) {
    g_autofree char *found = g_strdup_printf("otherData.producer \"%.80s\"", producer);
    return fail_foreign(json->file, found, error);
  }
  JsonNode *events = json_object_get_member(json->root, "traceEvents");
  if (events == NULL || !JSON_NODE_HOLDS_ARRAY(events))
    return fail_foreign(json->file, "no list traceEvents", error);
  return g_strcmp0(text_of(header, "time_unit"), "us") == 0 || fail_at(header, "time_unit", "\"us\"", error);
}

static gboolean read_layout(const Place *header, ChromeTrace *trace, GError **error) {
  Place layout;
  if (!json_object_has_member(header->object, "layout"))
    return fail_at(header, "layout", "the sizes of tp, cp, ep, dp and pp: write the trace anew with this version",
                   error);
  if (!get_object(header, "layout", &layout, error))
    return FALSE;
  for (int axis = 0; axis < N_AXES; axis++)
    if (!get_int32(&layout, axis_name((Axis)axis), 1, MOST_RANKS, &trace->size[axis], error))
      return FALSE;
  return get_int32(header, "pipeline_stride", 1, MOST_RANKS, &trace->pipeline_stride, error);
}

static gboolean read_header(const JsonFile *json, ChromeTrace *trace, GError **error) {
  Place header;
  if (!find_header(json, &header, error))
    return FALSE;
  const char *what = text_of(&header, "what");
  if (what == NULL)
    return fail_at(&header, "what", "\"simulated training step\" or \"measured training step\"", error);
  trace->is_measured = g_str_has_prefix(what, "measured");
  if (!json_file_has(header.object, "folded"))
    return fail_at(&header, "folded", "true or false", error);
  return json_file_flag(json, header.object, "folded", &trace->folded, error) &&
         get_int32(&header, "recorded_ranks", 1, MOST_RANKS, &trace->n_recorded, error) &&
         get_int32(&header, "ranks", trace->n_recorded, MOST_RANKS, &trace->n_ranks, error) &&
         get_int32(&header, "stages", 1, MOST_COUNT, &trace->n_stages, error) &&
         get_int32(&header, "micro_batches", 1, MOST_COUNT, &trace->n_micro_batches, error) &&
         get_int32(&header, "steps", 1, MOST_RANKS, &trace->n_steps, error) && read_layout(&header, trace, error);
}

/* What header and records say of each other. */
static gboolean check_records(const ChromeTrace *trace, GError **error) {
  gint64 n_ranks = 1;
  for (int axis = 0; axis < N_AXES; axis++)
    n_ranks = MIN(n_ranks * trace->size[axis], MOST_COUNT);
  if (n_ranks != trace->n_ranks || trace->n_recorded != (trace->folded ? trace->size[AXIS_PP] : trace->n_ranks))
    return fail_input(error, "%s: otherData: ranks, recorded_ranks and layout contradict each other", trace->file);
  if ((gint64)trace->n_recorded * trace->n_steps > trace->records->len || trace->n_stages > (gint64)trace->records->len)
    return fail_input(error, "%s: found %u ops, expected at least one of each of %d ranks and %d stages in %d steps",
                      trace->file, trace->records->len, trace->n_recorded, trace->n_stages, trace->n_steps);
  gint32 rank = 0;
  for (guint i = 0; i < trace->records->len; i++) {
    const ChromeRecord *record = &g_array_index(trace->records, ChromeRecord, i);
    if (record->rank < rank)
      return fail_input(error, "%s: events of rank %d stand behind those of rank %d, expected ranks in order",
                        trace->file, record->rank, rank);
    rank = record->rank;
    if (rank >= trace->n_recorded || record->step >= trace->n_steps || record->stage >= trace->n_stages)
      return fail_input(error,
                        "%s: \"%.80s\" is of rank %d, step %d, stage %d: otherData has %d ranks, %d steps, %d stages",
                        trace->file, g_quark_to_string(record->name), rank, record->step, record->stage,
                        trace->n_recorded, trace->n_steps, trace->n_stages);
  }
  return TRUE;
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

ChromeTrace *chrome_read(const char *file, GError **error) {
  g_autoptr(ChromeTrace) trace = g_new0(ChromeTrace, 1);
  trace->file = g_strdup(file);
  trace->records = g_array_new(FALSE, FALSE, sizeof(ChromeRecord));
  Reader reader = {.trace = trace, .last_op = -1};
  g_autoptr(JsonFile) json = json_file_stream(file, "traceEvents", NULL, see_event, &reader, error);
  gboolean ok = json != NULL && read_header(json, trace, error);
  if (ok && reader.error != NULL) {
    g_propagate_error(error, g_steal_pointer(&reader.error));
    ok = FALSE;
  }
  g_clear_error(&reader.error);
  return ok && check_records(trace, error) ? g_steal_pointer(&trace) : NULL;
}

void chrome_trace_free(ChromeTrace *trace) {
  if (trace == NULL)
    return;
  g_free(trace->file);
  g_array_unref(trace->records);
  g_free(trace);
}

int chrome_trace_pipeline_rank(const ChromeTrace *trace, int rank) {
  return trace->folded ? rank : rank / trace->pipeline_stride % trace->size[AXIS_PP];
}
