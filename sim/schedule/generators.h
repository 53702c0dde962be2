/* Private to this floor: the orders themselves, and the bubble each is known to have. A new schedule is functions here
 * and a row of the table in order.c. Signatures and units as in ScheduleInfo (order.h). */
#pragma once
#include "order.h"

void generate_gpipe(Order *order, OrderShape shape);
void generate_1f1b(Order *order, OrderShape shape);
void generate_interleaved(Order *order, OrderShape shape);

Bubble bubble_of_ramp(OrderShape shape, const PhaseTimes *times); /* gpipe and 1f1b */
Bubble bubble_of_interleaved(OrderShape shape, const PhaseTimes *times);

const char *refusal_of_interleaved(OrderShape shape);
