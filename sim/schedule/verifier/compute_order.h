/* Private to the verifier: every action is computed once, and nothing before what it needs. */
#pragma once
#include "program.h"

/* Indices must be in range. Every micro-batch has, in every stage and step, one F, and one B or one I and one W; parts
 * of an action stand together on the compute stream; F, I and B come after their input (the receive, or the
 * neighbouring stage on this rank), W after its I, sends after what they send. IMPOSSIBLE naming the first op that does
 * not, or what is missing. */
gboolean compute_order_check(const Program *program, GError **error);
