/* Private to the verifier: every action is computed exactly once, and after what it needs. */
#pragma once
#include "program.h"

/* Indices must be in range. In every stage and step, every micro-batch has one F, and one B or one I and one W. Parts
 * of an action are adjacent on the compute stream. F, I and B come after their input (the receive, or the
 * neighbouring stage on this rank), W after its I, sends after what they send. What
 * belongs to a stage is on the rank that computes it. IMPOSSIBLE naming the first op that
 * violates this, or what is missing. */
gboolean actions_check(const Program *program, GError **error);
