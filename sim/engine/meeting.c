/* The instance a rank belongs to follows from the layout: ranks that agree on every axis the group does not span. A
 * folded rank stands for all its peers, which do the same at the same time, so only members on other pipeline ranks
 * have to arrive. */
#include "meeting.h"

void meetings_init(Meetings *meetings, const Program *program) {
  meetings->n_groups = program->groups->len;
  meetings->groups = g_new0(MeetingGroup, meetings->n_groups);
  for (int i = 0; i < meetings->n_groups; i++) {
    meetings->groups[i].spans_pp = g_array_index(program->groups, Group, i).spans_pp;
    for (int stream = 0; stream < N_STREAMS; stream++)
      meetings->groups[i].slot_of_stream[stream] = -1;
  }
}

void meetings_begin_list(Meetings *meetings) {
  for (int i = 0; i < meetings->n_groups; i++)
    meetings->groups[i].n_in_list = 0;
}

gint32 meetings_number(Meetings *meetings, gint32 group_index, Stream stream) {
  MeetingGroup *group = &meetings->groups[group_index];
  if (group->spans_pp) {
    group->n_slots = MAX(group->n_slots, group->n_in_list + 1);
    return group->n_in_list++;
  }
  if (group->slot_of_stream[stream] < 0)
    group->slot_of_stream[stream] = group->n_slots++;
  return group->slot_of_stream[stream];
}

static gint32 members_over_pp(const Group *group, const Program *program) {
  if (!group->spans_pp)
    return 1;
  if (group->pp_first < 0)
    return program->n_ranks;
  return group->pp_first == group->pp_last ? 1 : 2;
}

/* Returns the number of instances. */
static gint32 place_members(MeetingGroup *places, const Group *group, const Trace *trace) {
  places->n_members = members_over_pp(group, trace->program);
  places->instance = g_new0(gint32, trace->n_ranks);
  if (trace->folded && group->spans_pp)
    return 1;
  if (!trace->folded)
    places->n_members *= layout_group_size(&trace->layout, group->axes);
  AxisSet axes = group->axes | (group->spans_pp ? AXIS_BIT(AXIS_PP) : 0);
  gint32 last = 0;
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    places->instance[rank] = trace->folded ? rank : layout_group_index(&trace->layout, axes, rank);
    last = MAX(last, places->instance[rank]);
  }
  return last + 1;
}

void meetings_finish(Meetings *meetings, const Trace *trace) {
  gsize n_meetings = 0;
  for (int i = 0; i < meetings->n_groups; i++) {
    MeetingGroup *group = &meetings->groups[i];
    gint32 n_instances = place_members(group, &g_array_index(trace->program->groups, Group, i), trace);
    group->base = n_meetings;
    n_meetings += (gsize)n_instances * group->n_slots;
  }
  meetings->meetings = g_new(Meeting, n_meetings);
  meetings->n_meetings = n_meetings;
  for (gsize i = 0; i < meetings->n_meetings; i++)
    meetings->meetings[i] = (Meeting){.last = -1};
}

void meetings_clear(Meetings *meetings) {
  for (int i = 0; i < meetings->n_groups; i++)
    g_free(meetings->groups[i].instance);
  g_free(meetings->groups);
  g_free(meetings->meetings);
  *meetings = (Meetings){0};
}
