/* chrome_read.h reads ops; here what runs inside them counts, and an op only where nothing is shown inside it. */
#include "own_read.h"

#include <math.h>
#include <string.h>

#include "chrome_trace.h"
#include "error.h"
#include "json_file.h"

typedef struct {
  Profile *profile;
  const char *file;
  ProfileRank *rank; /* of the last event */
  gint64 process;    /* of it; −1: none yet */
  gint64 op_end_ns;  /* of the last op that computes on that rank */
  guint op;          /* its place among the activities, if it is still the last word; G_MAXUINT: it is not */
  gint64 step;       /* of the last op */
  GError *error;
} Reader;

static double number_of(JsonObject *object, const char *key, double missing) {
  JsonNode *node = object != NULL ? json_object_get_member(object, key) : NULL;
  const GType type = node != NULL ? json_node_get_value_type(node) : G_TYPE_INVALID;
  return type == G_TYPE_INT64 || type == G_TYPE_DOUBLE ? json_node_get_double(node) : missing;
}

ProfileKind own_kernel_kind(const char *name) {
  static const struct {
    const char *text;
    ProfileKind kind;
  } known[] = {{"bias", PROFILE_ELEMENTWISE},    {"embedding", PROFILE_EMBEDDING}, {"positions", PROFILE_EMBEDDING},
               {"norm", PROFILE_NORM},           {"loss", PROFILE_SOFTMAX},        {"softmax", PROFILE_SOFTMAX},
               {"optimizer", PROFILE_OPTIMIZER}, {"grad", PROFILE_PRODUCT},        {"qkv", PROFILE_PRODUCT},
               {"q_proj", PROFILE_PRODUCT},      {"k_proj", PROFILE_PRODUCT},      {"v_proj", PROFILE_PRODUCT},
               {"attn_out", PROFILE_PRODUCT},    {"attention", PROFILE_ATTENTION}, {"mlp", PROFILE_PRODUCT},
               {"logits", PROFILE_PRODUCT},      {"router", PROFILE_PRODUCT},      {"scores", PROFILE_PRODUCT},
               {"up", PROFILE_PRODUCT},          {"down", PROFILE_PRODUCT},        {"dispatch", PROFILE_EMBEDDING},
               {"permute", PROFILE_EMBEDDING}};
  if (g_str_has_prefix(name, "residual"))
    return PROFILE_ELEMENTWISE;
  for (gsize i = 0; i < G_N_ELEMENTS(known); i++)
    if (strstr(name, known[i].text) != NULL)
      return known[i].kind;
  return PROFILE_ELEMENTWISE;
}

/* Of an op on its stream; what moves is a collective with what its name says. */
static void classify_op(Reader *reader, JsonObject *args, Stream stream, ProfileActivity *activity) {
  const char *action = json_member_text(args, "action");
  activity->kind = PROFILE_OTHER;
  if (stream == STREAM_COMPUTE) {
    activity->kind = g_strcmp0(action, "OPTIMIZER") == 0 ? PROFILE_OPTIMIZER : PROFILE_OTHER;
  } else if (stream == STREAM_COPY || stream == STREAM_COPY_OUT) {
    activity->kind = PROFILE_COPY;
  } else if (stream != STREAM_HOST) {
    const char *op = profile_collective_of(activity->name);
    const double met = number_of(args, "group", -1); /* of those recorded; −1: no other member was */
    g_autofree char *group =
        g_strdup_printf(met >= 0 ? "%s, group %.0f" : "%s of rank %.0f", axis_name(stream_info(stream)->axis),
                        met >= 0 ? met : (double)reader->rank->rank);
    activity->kind = PROFILE_COLLECTIVE;
    activity->collective_index =
        profile_collective(reader->profile, op != NULL ? op : "other", group, 0, number_of(args, "bytes", 0));
  }
}

static void find_rank(Reader *reader, gint64 process) {
  if (process == reader->process)
    return;
  reader->process = process;
  reader->op = G_MAXUINT;
  reader->rank = NULL;
  for (guint i = 0; i < reader->profile->ranks->len && reader->rank == NULL; i++)
    if (profile_rank(reader->profile, i)->rank == process - 1 && profile_rank(reader->profile, i)->file == reader->file)
      reader->rank = profile_rank(reader->profile, i);
  if (reader->rank == NULL)
    reader->rank = profile_add_rank(reader->profile, reader->file, process - 1);
  reader->rank->marks_are_steps = TRUE;
}

static void mark_step(ProfileRank *rank, gint64 number, const ProfileActivity *activity) {
  ProfileStep *last = rank->marks->len > 0 ? &g_array_index(rank->marks, ProfileStep, rank->marks->len - 1) : NULL;
  if (last != NULL && last->number == number) {
    last->begin_ns = MIN(last->begin_ns, activity->start_ns);
    last->end_ns = MAX(last->end_ns, activity->end_ns);
    return;
  }
  const ProfileStep step = {activity->start_ns, activity->end_ns, number};
  g_array_append_val(rank->marks, step);
}

static void see_event(const JsonFile *event, gpointer data) {
  Reader *reader = data;
  JsonObject *root = event->root, *args = NULL;
  const char *name = json_member_text(root, "name"), *category = json_member_text(root, "cat");
  if (reader->error != NULL || g_strcmp0(json_member_text(root, "ph"), "X") != 0 || name == NULL || category == NULL)
    return;
  const double start_us = number_of(root, "ts", NAN), length_us = number_of(root, "dur", NAN),
               process = number_of(root, "pid", NAN), thread = number_of(root, "tid", NAN);
  JsonNode *node = json_object_get_member(root, "args");
  args = node != NULL && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
  const double lane = thread - process * CHROME_THREADS_PER_PROCESS, step = number_of(args, "step", 0);
  if (!(start_us >= 0 && length_us >= 0 && start_us < 4.5e12 && length_us < 4.5e12 && process >= 1 && process < 1e9 &&
        lane >= 0 && lane < N_STREAMS && step >= 0 && step < 1e9)) {
    json_file_fail(event, root, "ts", "ts, dur, pid, tid and step as stepsim writes them", &reader->error);
    return;
  }
  const gint64 stream = (gint64)lane;
  find_rank(reader, (gint64)process);
  ProfileActivity activity = {.start_ns = llround(start_us * 1000),
                              .issued_ns = -1,
                              .name = profile_intern(reader->profile, name),
                              .operator_index = -1,
                              .collective_index = -1,
                              .call = -1,
                              .stream = profile_stream(reader->rank, stream)};
  activity.end_ns = activity.start_ns + llround(length_us * 1000);
  if (args != NULL) {
    reader->step = (gint64)step;
    classify_op(reader, args, (Stream)stream, &activity);
    reader->op = stream == STREAM_COMPUTE ? reader->rank->activities->len : G_MAXUINT;
  } else if (stream == STREAM_COMPUTE) {
    activity.kind = own_kernel_kind(name);
    if (reader->op != G_MAXUINT) { /* the op is told by what runs inside it */
      g_array_remove_index(reader->rank->activities, reader->op);
      reader->op = G_MAXUINT;
    }
  } else {
    classify_op(reader, NULL, (Stream)stream, &activity);
  }
  mark_step(reader->rank, reader->step, &activity);
  if (activity.end_ns > activity.start_ns && stream != STREAM_HOST) {
    g_array_append_val(reader->rank->activities, activity);
  } else if (stream == STREAM_COMPUTE) {
    reader->op = G_MAXUINT;
  }
}

gboolean own_read(Profile *profile, const char *file, GError **error) {
  Reader reader = {.profile = profile, .file = profile_intern(profile, file), .process = -1, .op = G_MAXUINT};
  g_autoptr(JsonFile) json = json_file_stream(file, "traceEvents", NULL, see_event, &reader, error);
  if (json != NULL && reader.error == NULL)
    return TRUE;
  if (json != NULL)
    g_propagate_error(error, g_steal_pointer(&reader.error));
  g_clear_error(&reader.error);
  return FALSE;
}
