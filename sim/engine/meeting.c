/* The instance a rank belongs to follows from the layout: ranks that agree on every axis the group does not span. A
 * folded rank stands for all its peers, which do the same at the same time, so only members on other pipeline ranks
 * have to arrive. */
#include "meeting.h"

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

void meetings_init(Meetings *meetings, const Trace *trace, const Tape *tape) {
  gsize n_meetings = 0;
  meetings->n_groups = (int)trace->program->groups->len;
  meetings->groups = g_new0(MeetingGroup, meetings->n_groups);
  for (int i = 0; i < meetings->n_groups; i++) {
    const Group *group = &g_array_index(trace->program->groups, Group, i);
    MeetingGroup *places = &meetings->groups[i];
    if (trace->folded && !group->spans_pp)
      continue;
    places->n_slots = group->spans_pp ? tape->count[i] : N_STREAMS;
    places->base = n_meetings;
    n_meetings += (gsize)place_members(places, group, trace) * (gsize)places->n_slots;
  }
  meetings->meetings = g_new(Meeting, n_meetings);
  for (gsize i = 0; i < n_meetings; i++)
    meetings->meetings[i] = (Meeting){.last = -1};
}

void meetings_clear(Meetings *meetings) {
  for (int i = 0; i < meetings->n_groups; i++)
    g_free(meetings->groups[i].instance);
  g_free(meetings->groups);
  g_free(meetings->meetings);
}
