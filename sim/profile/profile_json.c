#include "json_values.h"
#include "meetings.h"
#include "profile_report.h"

static void add_seconds(JsonBuilder *json, const char *key, gint64 ns, gint64 n_steps) {
  json_add_number(json, key, (double)ns * 1e-9 / (double)n_steps);
}

static void add_times(JsonBuilder *json, const ProfileTimes *times, gint64 n_steps) {
  add_seconds(json, "computing_s", times->computing_ns, n_steps);
  add_seconds(json, "communicating_s", times->communicating_ns, n_steps);
  add_seconds(json, "copying_s", times->copying_ns, n_steps);
}

static void add_steps(JsonBuilder *json, const ProfileRank *rank) {
  json_add_text(json, "steps_from", rank->steps_from);
  json_begin_list(json, "steps");
  for (guint i = 0; i < rank->steps->len; i++) {
    const ProfileStep *step = &g_array_index(rank->steps, ProfileStep, i);
    json_begin_object(json, NULL);
    if (step->number >= 0)
      json_add_count(json, "number", step->number);
    json_add_number(json, "step_s", (double)(step->end_ns - step->begin_ns) * 1e-9);
    json_builder_end_object(json);
  }
  json_builder_end_array(json);
}

static void add_rank(JsonBuilder *json, const ProfileRank *rank, const ProfileRankSums *sums,
                     const RankLateness *late) {
  json_begin_object(json, NULL);
  json_add_text(json, "file", rank->file);
  json_add_count(json, "rank", rank->rank);
  json_add_text(json, "gpu", rank->gpu);
  json_add_number(json, "clock_offset_s", (double)rank->offset_ns * 1e-9);
  add_steps(json, rank);
  json_begin_object(json, "step");
  add_seconds(json, "step_s", sums->times.step_ns, sums->n_steps);
  add_times(json, &sums->times, sums->n_steps);
  add_seconds(json, "communicating_hidden_s", sums->times.hidden_ns, sums->n_steps);
  add_seconds(json, "idle_s", sums->times.idle_ns, sums->n_steps);
  add_seconds(json, "waiting_for_host_s", sums->times.host_ns, sums->n_steps);
  json_builder_end_object(json);
  json_begin_object(json, "kinds");
  for (int kind = 0; kind < N_PROFILE_KINDS; kind++)
    add_seconds(json, profile_kind_name((ProfileKind)kind), sums->kinds[kind].ns, sums->n_steps);
  json_builder_end_object(json);
  json_begin_list(json, "streams");
  for (guint s = 0; s < rank->streams->len; s++) {
    json_begin_object(json, NULL);
    json_add_count(json, "stream", g_array_index(rank->streams, gint64, s));
    add_times(json, &sums->streams[s], sums->n_steps);
    json_builder_end_object(json);
  }
  json_builder_end_array(json);
  if (late != NULL) {
    json_begin_object(json, "late");
    json_add_count(json, "meetings", late->n_meetings);
    json_add_count(json, "last", late->n_last);
    json_add_count(json, "last_by_host", late->n_late_by_host);
    json_add_number(json, "cost_s", (double)late->cost_ns * 1e-9);
    json_add_number(json, "worst_s", (double)late->worst_ns * 1e-9);
    json_add_number(json, "waited_s", (double)late->waited_ns * 1e-9);
    json_builder_end_object(json);
  }
  json_builder_end_object(json);
}

static void add_rows(JsonBuilder *json, const char *key, const ProfileSums *sums, const GArray *rows, guint n) {
  json_begin_list(json, key);
  for (guint i = 0; i < MIN(rows->len, n); i++) {
    const ProfileRow *row = &g_array_index(rows, ProfileRow, i);
    const ProfileActivity *activity = profile_activity(profile_rank(sums->profile, row->rank), (guint)row->index);
    json_begin_object(json, NULL);
    if (rows == sums->kernels) {
      json_add_text(json, "name", activity->name);
      json_add_text(json, "kind", profile_kind_name(activity->kind));
    } else {
      const ProfileCollective *collective =
          &g_array_index(sums->profile->collectives, ProfileCollective, activity->collective_index);
      json_add_text(json, "op", collective->op);
      json_add_text(json, "ranks", collective->ranks);
      json_add_count(json, "group_size", collective->group_size);
      json_add_number(json, "bytes", collective->bytes);
    }
    json_add_count(json, "count", row->sum.n);
    json_add_number(json, "total_s", (double)row->sum.ns * 1e-9);
    json_builder_end_object(json);
  }
  json_builder_end_array(json);
}

static void add_shapes(JsonBuilder *json, const ProfileShapes *shapes) {
  json_begin_list(json, "shapes");
  for (guint i = 0; i < shapes->shapes->len; i++) {
    const ProfileShape *shape = &g_array_index(shapes->shapes, ProfileShape, i);
    const WorkItem *item = &shape->item;
    json_begin_object(json, NULL);
    json_add_text(json, "kind", item->name);
    json_add_text(json, "number", number_name((Number)item->number));
    json_add_count(json, "batch", item->batch);
    json_add_count(json, "m", item->m);
    json_add_count(json, "n", item->n);
    json_add_count(json, "k", item->k);
    json_add_count(json, "calls", shape->n);
    json_add_number(json, "flops", item->flops);
    json_add_number(json, "measured_s", shape->median_s);
    json_add_number(json, "modelled_alone_s", shape->alone_s);
    json_add_number(json, "modelled_in_step_s", shape->in_step_s);
    json_builder_end_object(json);
  }
  json_builder_end_array(json);
}

static void add_passes(JsonBuilder *json, const ProfileShapes *shapes) {
  json_begin_list(json, "passes");
  for (guint i = 0; i < shapes->passes->len; i++) {
    const ProfileShape *pass = &g_array_index(shapes->passes, ProfileShape, i);
    json_begin_object(json, NULL);
    json_add_text(json, "operator", pass->operator_name);
    json_add_text(json, "kind", profile_kind_name(pass->kind));
    json_add_number(json, "bytes", pass->item.bytes);
    json_add_count(json, "kernels", pass->item.n_launches);
    json_add_count(json, "calls", pass->n);
    json_add_number(json, "measured_s", pass->median_s);
    json_add_number(json, "modelled_s", pass->alone_s);
    json_builder_end_object(json);
  }
  json_builder_end_array(json);
}

static void add_rings(JsonBuilder *json, const ProfileRings *rings) {
  json_begin_list(json, "rings");
  for (guint i = 0; i < rings->rings->len; i++) {
    const ProfileRing *ring = &g_array_index(rings->rings, ProfileRing, i);
    json_begin_object(json, NULL);
    json_add_text(json, "op", collective_name(ring->op));
    json_add_count(json, "gpus", ring->gpus);
    json_add_count(json, "nodes", ring->nodes);
    json_add_number(json, "bytes", ring->bytes);
    json_add_count(json, "calls", ring->n);
    json_add_number(json, "measured_s", ring->time_s);
    json_add_flag(json, "waiting_inside", ring->waits);
    json_add_number(json, "modelled_s", ring->modelled_s);
    json_builder_end_object(json);
  }
  json_builder_end_array(json);
}

char *profile_json(const ProfileSums *sums, const ProfileShapes *shapes, const ProfileRings *rings, int n_kernels) {
  const Profile *profile = sums->profile;
  g_autoptr(Meetings) meetings = profile->ranks->len > 1 ? meetings_new(profile) : NULL;
  g_autofree RankLateness *late = meetings != NULL ? meetings_lateness(profile, meetings) : NULL;
  JsonBuilder *json = json_builder_new();
  json_begin_object(json, NULL);
  json_add_text(json, "source", profile->source);
  json_begin_list(json, "ranks");
  for (guint r = 0; r < profile->ranks->len; r++)
    add_rank(json, profile_rank(profile, r), &sums->ranks[r], late != NULL ? &late[r] : NULL);
  json_builder_end_array(json);
  add_rows(json, "kernels", sums, sums->kernels, (guint)n_kernels);
  add_rows(json, "collectives", sums, sums->collectives, G_MAXUINT);
  if (shapes != NULL) {
    add_shapes(json, shapes);
    add_passes(json, shapes);
  }
  if (rings != NULL)
    add_rings(json, rings);
  json_builder_end_object(json);
  return json_finish(json);
}
