/* Private to this floor: the orders themselves, and the bubble each is known to have. A new schedule is two functions
 * here and a row of the table in order.c. Signatures and units as in ScheduleInfo (order.h). */
#pragma once
#include "order.h"

/* Ranks without actions yet; stage s lives on rank s % n_ranks (looped placement). Never fails. */
Order *order_new_looped(int n_ranks, int n_chunks, int n_micro_batches);
void order_add(Order *order, int rank, ActionKind kind, int stage, int micro_batch);

Order *generate_gpipe(int n_ranks, int n_chunks, int n_micro_batches);
Order *generate_1f1b(int n_ranks, int n_chunks, int n_micro_batches);
Order *generate_interleaved(int n_ranks, int n_chunks, int n_micro_batches);

double bubble_of_ramp(int n_ranks, int n_chunks, int n_micro_batches, double f, double b); /* gpipe and 1f1b */
double bubble_of_interleaved(int n_ranks, int n_chunks, int n_micro_batches, double f, double b);
