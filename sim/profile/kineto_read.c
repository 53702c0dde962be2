#include "kineto_read.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "json_file.h"

enum { MOST_RANKS = 1 << 24 };

typedef struct {
  gint64 correlation, begin_ns, thread;
} Launch;

typedef struct {
  gint64 begin_ns, end_ns, thread, id; /* id −1: none */
  gint32 index;                        /* of the profile's operators */
} Call;

/* What a kernel's event says of itself, until launches and calls are known. */
typedef struct {
  gint64 correlation, id;
} Origin;

typedef struct {
  Profile *profile;
  ProfileRank *rank;
  GArray *launches;  /* of Launch */
  GArray *calls;     /* of Call */
  GArray *origins;   /* [activities] of Origin */
  GHashTable *kinds; /* interned kernel → kind + 1 by its name alone */
  gint64 device;     /* of the last activity */
  GError *error;
} Reader;

/* --- values --- */

static gint64 integer_of(JsonObject *object, const char *key, gint64 missing) {
  JsonNode *node = object != NULL ? json_object_get_member(object, key) : NULL;
  gint64 value;
  return node != NULL && json_node_integer(node, (IntegerRange){-G_MAXINT64, G_MAXINT64}, &value) ? value : missing;
}

/* Lists and numbers too, as JSON; owned by the caller; NULL: absent. */
static char *json_of(JsonObject *object, const char *key) {
  JsonNode *node = object != NULL ? json_object_get_member(object, key) : NULL;
  return node != NULL ? json_to_string(node, FALSE) : NULL;
}

static gboolean fail_value(Reader *reader, const JsonFile *event, const char *key, const char *expected) {
  return json_file_fail(event, event->root, key, expected, &reader->error);
}

/* Whole microseconds apart from their fraction: an epoch's do not fit a double of nanoseconds. */
static gboolean get_ns(Reader *reader, const JsonFile *event, const char *key, gint64 *ns) {
  JsonNode *node = json_object_get_member(event->root, key);
  const GType type = node != NULL ? json_node_get_value_type(node) : G_TYPE_INVALID;
  const double us = type == G_TYPE_INT64 || type == G_TYPE_DOUBLE ? json_node_get_double(node) : NAN, most = 4e15;
  if (!(us >= 0 && us < most))
    return fail_value(reader, event, key, "microseconds, a number from 0 to 4e15");
  *ns = (gint64)us * 1000 + llround((us - floor(us)) * 1000);
  return TRUE;
}

static JsonObject *args_of(const JsonFile *event) {
  JsonNode *node = json_object_get_member(event->root, "args");
  return node != NULL && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

static gint64 id_of(JsonObject *args) {
  const gint64 id = integer_of(args, "External id", -1);
  return id >= 0 ? id : integer_of(args, "external id", -1);
}

/* --- events --- */

static double element_bytes(const char *type) {
  static const struct {
    const char *name;
    double bytes;
  } known[] = {{"Float", 4}, {"BFloat16", 2}, {"Half", 2},   {"Long", 8},  {"Int", 4},           {"Byte", 1},
               {"Char", 1},  {"Bool", 1},     {"Double", 8}, {"Short", 2}, {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}};
  for (gsize i = 0; type != NULL && i < G_N_ELEMENTS(known); i++)
    if (g_str_equal(known[i].name, type))
      return known[i].bytes;
  return 0;
}

static gint32 collective_of(Reader *reader, const char *kernel, JsonObject *args) {
  const char *told = json_member_text(args, "Collective name"), *ranks = json_member_text(args, "Process Group Ranks");
  const char *op = told != NULL ? profile_collective_of(told) : NULL;
  op = op != NULL ? op : profile_collective_of(kernel);
  g_autofree char *listed = ranks == NULL ? json_of(args, "Process Group Ranks") : NULL;
  ranks = ranks != NULL && *ranks != '\0' ? ranks : listed;
  const char *name = json_member_text(args, "Process Group Name"); /* ranks may meet in several groups at a time */
  g_autofree char *named = ranks != NULL && name != NULL ? g_strdup_printf("%s, group %s", ranks, name) : NULL;
  ranks = named != NULL ? named : ranks != NULL ? ranks : name;
  const gint64 most = MAX(integer_of(args, "In msg nelems", 0), integer_of(args, "Out msg nelems", 0));
  return profile_collective(reader->profile, op != NULL ? op : "other", ranks, integer_of(args, "Group size", 0),
                            (double)most * element_bytes(json_member_text(args, "dtype")));
}

static ProfileKind kind_by_name(Reader *reader, const char *name) {
  const gint known = GPOINTER_TO_INT(g_hash_table_lookup(reader->kinds, name));
  if (known > 0)
    return (ProfileKind)(known - 1);
  const ProfileKind kind = profile_kind_of(name, NULL);
  g_hash_table_insert(reader->kinds, (gpointer)name, GINT_TO_POINTER((gint)kind + 1));
  return kind;
}

static gboolean see_activity(Reader *reader, const JsonFile *event, gboolean is_kernel) {
  JsonObject *args = args_of(event);
  const char *name = json_member_text(event->root, "name");
  ProfileActivity activity = {.issued_ns = -1, .operator_index = -1, .collective_index = -1, .call = -1};
  gint64 length_ns;
  if (name == NULL)
    return fail_value(reader, event, "name", "a text in quotes");
  if (!get_ns(reader, event, "ts", &activity.start_ns) || !get_ns(reader, event, "dur", &length_ns))
    return FALSE;
  activity.end_ns = activity.start_ns + length_ns;
  activity.name = profile_intern(reader->profile, name);
  activity.stream = profile_stream(reader->rank, integer_of(args, "stream", integer_of(event->root, "tid", 0)));
  activity.kind = is_kernel ? kind_by_name(reader, activity.name) : PROFILE_COPY;
  if (activity.kind == PROFILE_COLLECTIVE)
    activity.collective_index = collective_of(reader, name, args);
  if (!is_kernel)
    activity.operator_index = profile_copy(reader->profile, name, (double)integer_of(args, "bytes", 0));
  reader->device = integer_of(args, "device", reader->device);
  const Origin origin = {integer_of(args, "correlation", -1), id_of(args)};
  g_array_append_val(reader->rank->activities, activity);
  g_array_append_val(reader->origins, origin);
  return TRUE;
}

static gboolean see_call(Reader *reader, const JsonFile *event) {
  JsonObject *args = args_of(event);
  const char *name = json_member_text(event->root, "name");
  Call call = {.thread = integer_of(event->root, "tid", -1), .id = id_of(args)};
  gint64 length_ns;
  if (name == NULL)
    return fail_value(reader, event, "name", "a text in quotes");
  if (!get_ns(reader, event, "ts", &call.begin_ns) || !get_ns(reader, event, "dur", &length_ns))
    return FALSE;
  call.end_ns = call.begin_ns + length_ns;
  g_autofree char *dims = json_of(args, "Input Dims"), *types = json_of(args, "Input type"),
                  *strides = json_of(args, "Input Strides"), *values = json_of(args, "Concrete Inputs");
  call.index = profile_operator(reader->profile, (ProfileOperator){name, dims, types, strides, values});
  g_array_append_val(reader->calls, call);
  return TRUE;
}

static gboolean see_launch(Reader *reader, const JsonFile *event) {
  Launch launch = {.correlation = integer_of(args_of(event), "correlation", -1),
                   .thread = integer_of(event->root, "tid", -1)};
  if (launch.correlation < 0)
    return TRUE;
  if (!get_ns(reader, event, "ts", &launch.begin_ns))
    return FALSE;
  g_array_append_val(reader->launches, launch);
  return TRUE;
}

/* "ProfilerStep#12" of torch.profiler, by the host; "execute_context_1(888_788544)_generation_0(0)" of vLLM, whose
 * steps have no number. */
static gboolean see_mark(Reader *reader, const JsonFile *event) {
  static const char numbered[] = "ProfilerStep#", unnumbered[] = "execute_context_";
  const char *name = json_member_text(event->root, "name");
  ProfileStep step = {.number = -1};
  gint64 length_ns;
  if (name == NULL || (!g_str_has_prefix(name, numbered) && !g_str_has_prefix(name, unnumbered)))
    return TRUE;
  if (g_str_has_prefix(name, numbered))
    step.number = g_ascii_strtoll(name + strlen(numbered), NULL, 10);
  if (!get_ns(reader, event, "ts", &step.begin_ns) || !get_ns(reader, event, "dur", &length_ns))
    return FALSE;
  step.end_ns = step.begin_ns + length_ns;
  g_array_append_val(reader->rank->marks, step);
  return TRUE;
}

static gboolean read_event(Reader *reader, const JsonFile *event) {
  const char *phase = json_member_text(event->root, "ph"), *category = json_member_text(event->root, "cat");
  if (g_strcmp0(phase, "X") != 0 || category == NULL)
    return TRUE;
  if (g_ascii_strcasecmp(category, "kernel") == 0)
    return see_activity(reader, event, TRUE);
  if (g_str_equal(category, "gpu_memcpy") || g_str_equal(category, "gpu_memset"))
    return see_activity(reader, event, FALSE);
  if (g_str_equal(category, "cpu_op"))
    return see_call(reader, event);
  if (g_str_equal(category, "cuda_runtime") || g_str_equal(category, "cuda_driver"))
    return see_launch(reader, event);
  return !g_str_equal(category, "user_annotation") || see_mark(reader, event);
}

/* Most events of a large trace are arrows and Python's calls. */
static gboolean is_wanted(const char *key, const char *text) {
  if (g_str_equal(key, "ph"))
    return g_str_equal(text, "X");
  return !g_str_equal(key, "cat") || !g_str_equal(text, "python_function");
}

static void see_event(const JsonFile *event, gpointer data) {
  Reader *reader = data;
  if (reader->error == NULL)
    read_event(reader, event);
}

/* --- what issued what --- */

static gint compare_correlations(gconstpointer a, gconstpointer b) {
  const Launch *x = a, *y = b;
  return (x->correlation > y->correlation) - (x->correlation < y->correlation);
}

static const Launch *find_launch(const Reader *reader, gint64 correlation) {
  const Launch wanted = {.correlation = correlation};
  guint at;
  return correlation >= 0 && g_array_binary_search(reader->launches, &wanted, compare_correlations, &at)
             ? &g_array_index(reader->launches, Launch, at)
             : NULL;
}

static gint compare_calls(gconstpointer a, gconstpointer b) {
  const Call *x = a, *y = b;
  if (x->thread != y->thread)
    return x->thread < y->thread ? -1 : 1;
  if (x->begin_ns != y->begin_ns)
    return x->begin_ns < y->begin_ns ? -1 : 1;
  return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns); /* the outer one first */
}

/* `around` [calls]: the call that each is nested in, by place; −1: none. */
static gint32 *nest(const GArray *calls) {
  gint32 *around = g_new(gint32, MAX(calls->len, 1)), open = -1;
  for (gint32 i = 0; i < (gint32)calls->len; i++) {
    const Call *call = &g_array_index(calls, Call, i);
    while (open >= 0 && (g_array_index(calls, Call, open).thread != call->thread ||
                         g_array_index(calls, Call, open).end_ns <= call->begin_ns))
      open = around[open];
    around[i] = open;
    open = i;
  }
  return around;
}

/* The innermost call that was running when this was launched; NULL: none. */
static const Call *call_around(const GArray *calls, const gint32 *around, const Launch *launch) {
  gint32 low = 0, high = (gint32)calls->len; /* the first that begins later */
  while (low < high) {
    const gint32 middle = (low + high) / 2;
    const Call *call = &g_array_index(calls, Call, middle);
    if (call->thread < launch->thread || (call->thread == launch->thread && call->begin_ns <= launch->begin_ns))
      low = middle + 1;
    else
      high = middle;
  }
  for (gint32 i = low - 1; i >= 0; i = around[i]) {
    const Call *call = &g_array_index(calls, Call, i);
    if (call->thread != launch->thread)
      return NULL;
    if (call->end_ns > launch->begin_ns)
      return call;
  }
  return NULL;
}

static void link_origins(Reader *reader) {
  g_autoptr(GHashTable) by_id = g_hash_table_new(g_int64_hash, g_int64_equal);
  g_array_sort(reader->launches, compare_correlations);
  g_array_sort(reader->calls, compare_calls);
  g_autofree gint32 *around = nest(reader->calls);
  for (guint i = 0; i < reader->calls->len; i++) {
    Call *call = &g_array_index(reader->calls, Call, i);
    if (call->id >= 0)
      g_hash_table_insert(by_id, &call->id, call);
  }
  for (guint i = 0; i < reader->rank->activities->len; i++) {
    const Origin *origin = &g_array_index(reader->origins, Origin, i);
    ProfileActivity *activity = profile_activity(reader->rank, i);
    const Launch *launch = find_launch(reader, origin->correlation);
    const Call *call = origin->id >= 0 ? g_hash_table_lookup(by_id, &origin->id) : NULL;
    if (call == NULL && launch != NULL)
      call = call_around(reader->calls, around, launch);
    activity->issued_ns = launch != NULL ? launch->begin_ns : -1;
    if (activity->kind == PROFILE_COPY)
      continue;
    activity->operator_index = call != NULL ? call->index : -1;
    activity->call = call != NULL ? (gint32)(call - (const Call *)(const void *)reader->calls->data) : -1;
    if (call != NULL && (activity->kind == PROFILE_OTHER || activity->kind == PROFILE_ELEMENTWISE))
      activity->kind =
          profile_kind_of(activity->name, g_array_index(reader->profile->operators, ProfileOperator, call->index).name);
  }
}

/* --- the file --- */

static void read_header(Reader *reader, const JsonFile *json) {
  JsonNode *node = json_object_get_member(json->root, "distributedInfo");
  if (node != NULL && JSON_NODE_HOLDS_OBJECT(node)) {
    const gint64 rank = integer_of(json_node_get_object(node), "rank", -1);
    reader->rank->rank = rank >= 0 && rank < MOST_RANKS ? rank : -1;
    reader->rank->world_size = integer_of(json_node_get_object(node), "world_size", 0);
  }
  static const gint64 since_1970_ns = G_GINT64_CONSTANT(1000000000000000000); /* 2001: what is later is a date */
  const gint64 base_ns = integer_of(json->root, "baseTimeNanoseconds", -1);
  const gboolean is_date =
      reader->rank->activities->len > 0 && profile_activity(reader->rank, 0)->start_ns > since_1970_ns;
  reader->rank->day_ns = is_date ? 0 : base_ns > since_1970_ns && base_ns < 4 * since_1970_ns ? base_ns : -1;
  node = json_object_get_member(json->root, "deviceProperties");
  for (guint i = 0; node != NULL && JSON_NODE_HOLDS_ARRAY(node) && i < json_array_get_length(json_node_get_array(node));
       i++) {
    JsonNode *element = json_array_get_element(json_node_get_array(node), i);
    if (JSON_NODE_HOLDS_OBJECT(element) && integer_of(json_node_get_object(element), "id", -1) == reader->device)
      reader->rank->gpu = profile_intern(reader->profile, json_member_text(json_node_get_object(element), "name"));
  }
}

static gint compare_marks(gconstpointer a, gconstpointer b) {
  const ProfileStep *x = a, *y = b;
  if (x->begin_ns != y->begin_ns)
    return x->begin_ns < y->begin_ns ? -1 : 1;
  return (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns); /* the outer one first */
}

gboolean kineto_read(Profile *profile, const char *file, GError **error) {
  Reader reader = {.profile = profile,
                   .rank = profile_add_rank(profile, file, -1),
                   .launches = g_array_new(FALSE, FALSE, sizeof(Launch)),
                   .calls = g_array_new(FALSE, FALSE, sizeof(Call)),
                   .origins = g_array_new(FALSE, FALSE, sizeof(Origin)),
                   .kinds = g_hash_table_new(NULL, NULL)};
  g_autoptr(JsonFile) json = json_file_stream(file, "traceEvents", is_wanted, see_event, &reader, error);
  gboolean ok = json != NULL;
  if (ok && reader.error != NULL) {
    g_propagate_error(error, g_steal_pointer(&reader.error));
    ok = FALSE;
  }
  if (ok && !json_object_has_member(json->root, "traceEvents"))
    ok = fail_input(error, "%s: found no list traceEvents, expected a profiler's trace", file);
  if (ok) {
    read_header(&reader, json);
    link_origins(&reader);
    g_array_sort(reader.rank->marks, compare_marks);
  }
  g_clear_error(&reader.error);
  g_array_unref(reader.launches);
  g_array_unref(reader.calls);
  g_array_unref(reader.origins);
  g_hash_table_unref(reader.kinds);
  return ok;
}
