/* Private to the schedule layer: the orders themselves, and the known bubble of each. A new schedule is a row
 * in schedule_facts.c, and functions and a row in generators.c. */
#pragma once
#include "schedules.h"

typedef struct {
  const char *name;                                 /* of its row in schedule_facts.c */
  void (*generate)(Order *order, OrderShape shape); /* fills an order without actions */
  Bubble (*bubble)(OrderShape shape, const PhaseTimes *times);
  int (*repeats)(OrderShape shape);         /* as schedule_repeats(); NULL: never */
  const char *(*refusal)(OrderShape shape); /* as schedule_refusal(); NULL: of none */
} Generator;

/* Static; of a schedule of the table. */
const Generator *schedule_generator(const ScheduleFacts *schedule);

void generate_zb_h1(Order *order, OrderShape shape);
void generate_zb_h2(Order *order, OrderShape shape);
void generate_zb_v(Order *order, OrderShape shape);
void generate_v_half(Order *order, OrderShape shape);
void generate_v_min(Order *order, OrderShape shape);
void generate_dualpipe(Order *order, OrderShape shape);
void generate_dualpipe_v(Order *order, OrderShape shape);

/* formulas, and where they are exact: schedule_bubble.c */
Bubble bubble_of_zb_h1(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_zb_h2(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_zb_v(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_v_half(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_v_min(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_dualpipe(OrderShape shape, const PhaseTimes *times);
Bubble bubble_of_dualpipe_v(OrderShape shape, const PhaseTimes *times);

/* Refuses an odd number of ranks, and fewer micro-batches than pipes. */
const char *refusal_of_dualpipe(OrderShape shape);
