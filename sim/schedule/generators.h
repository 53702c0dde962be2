/* Private to the floor: what the rows of schedules.c are made of. */
#pragma once
#include "schedules.h"

void generate_gpipe(Order *order, OrderShape shape);
void generate_1f1b(Order *order, OrderShape shape);
void generate_interleaved(Order *order, OrderShape shape);
void generate_looped_bfs(Order *order, OrderShape shape);
void generate_zb_h1(Order *order, OrderShape shape);
void generate_zb_h2(Order *order, OrderShape shape);
void generate_zb_v(Order *order, OrderShape shape);
void generate_v_half(Order *order, OrderShape shape);
void generate_v_min(Order *order, OrderShape shape);
void generate_dualpipe(Order *order, OrderShape shape);
void generate_dualpipe_v(Order *order, OrderShape shape);

/* formulas, and where they are exact: schedule_bubble.c */
Bubble bubble_of_ramp(OrderShape shape, const PhaseTimes *times); /* gpipe and 1f1b */
Bubble bubble_of_interleaved(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_looped_bfs(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_zb_h1(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_zb_h2(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_zb_v(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_v_half(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_v_min(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_dualpipe(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_dualpipe_v(OrderShape shape, const PhaseTimes *times);

int repeats_by_one(OrderShape shape);
int repeats_of_interleaved(OrderShape shape);
const char *refusal_of_interleaved(OrderShape shape);
/* Refuses an odd number of ranks, and fewer micro-batches than pipes. */
const char *refusal_of_dualpipe(OrderShape shape);
