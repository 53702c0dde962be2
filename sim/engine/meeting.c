/* Which instance a rank belongs to follows from the layout: ranks that agree on every axis the group does not span.
 * A folded rank stands for all its peers, which do the same at the same time; so only members on other pipeline ranks
 * have to come. */
#include "meeting.h"

static gint32 members_over_pp(const Group *group, const Program *program) {
  if (!group->spans_pp)
    return 1;
  if (group->pp_first < 0)
    return program->n_ranks;
  return group->pp_first == group->pp_last ? 1 : 2;
}

static void place_members(MeetingGroup *meeting_group, const Group *group, const Trace *trace, gint32 *n_instances) {
  meeting_group->n_members = members_over_pp(group, trace->program);
  meeting_group->instance = g_new0(gint32, trace->n_ranks);
  *n_instances = 1;
  if (trace->folded && group->spans_pp)
    return;
  if (!trace->folded)
    meeting_group->n_members *= layout_group_size(&trace->layout, group->axes);
  AxisSet axes = group->axes | (group->spans_pp ? AXIS_BIT(AXIS_PP) : 0);
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    meeting_group->instance[rank] = trace->folded ? rank : layout_group_index(&trace->layout, axes, rank);
    *n_instances = MAX(*n_instances, meeting_group->instance[rank] + 1);
  }
}

/* Number the slots; `seen` has a counter per group, for those over pipeline ranks, and a slot per group and stream for
 * the others. */
static void number_slots(MeetingGroup *groups, const Program *program, const OpList *list, Task *tasks, gint32 *n_seen,
                         gint32 (*slot_of_stream)[N_STREAMS]) {
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COLLECTIVE)
      continue;
    gint32 group = g_array_index(program->transfers, Transfer, op->work).group;
    tasks[i].group = group;
    if (g_array_index(program->groups, Group, group).spans_pp) {
      tasks[i].slot = n_seen[group]++;
      groups[group].n_slots = MAX(groups[group].n_slots, n_seen[group]);
    } else {
      gint32 *slot = &slot_of_stream[group][op->stream];
      if (*slot == 0)
        *slot = ++groups[group].n_slots;
      tasks[i].slot = *slot - 1;
    }
  }
}

void meetings_init(Meetings *meetings, const Trace *trace, TaskList *lists) {
  const Program *program = trace->program;
  meetings->n_groups = program->groups->len;
  meetings->groups = g_new0(MeetingGroup, meetings->n_groups);
  gint32(*slot_of_stream)[N_STREAMS] = g_malloc0_n(meetings->n_groups, sizeof *slot_of_stream);
  for (int rank = 0; rank < program->n_ranks; rank++) {
    g_autofree gint32 *n_seen = g_new0(gint32, meetings->n_groups);
    number_slots(meetings->groups, program, &program->ranks[rank], lists[rank].tasks, n_seen, slot_of_stream);
  }
  g_free(slot_of_stream);

  gsize n_meetings = 0;
  for (int i = 0; i < meetings->n_groups; i++) {
    gint32 n_instances;
    place_members(&meetings->groups[i], &g_array_index(program->groups, Group, i), trace, &n_instances);
    meetings->groups[i].base = n_meetings;
    n_meetings += (gsize)n_instances * meetings->groups[i].n_slots;
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
  *meetings = (Meetings){0};
}
