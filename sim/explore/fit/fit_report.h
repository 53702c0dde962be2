/* A fit for people, scripts and as the file of a cluster. Texts are owned by the caller. */
#pragma once
#include "fit_suggest.h"

/* Append: what each unknown was found to be, what the runs say nothing of and what they cannot tell apart; each run
 * before and after, with those that do not fit the rest; the error to expect of others; suggestions (of Suggestion). */
void fit_text(GString *out, const Fit *fit, const GArray *suggestions);

/* One JSON object and a newline: base, unknowns[{key, what, base, value, low, high, narrowed, found}],
 * not_told_apart[{a, b, correlation}], runs[{id, place, measured_s, base_s, predicted_s, without_s, odd}], unused[],
 * before, after and leave_one_out{mape, median_ape, p90_ape, bias}, noise, error, memory_beyond_bytes,
 * suggestions[{gpus, tp, pp, micro_batch, predicted_s, known_to, after, tells}]. */
char *fit_json(const Fit *fit, const GArray *suggestions);

/* The file: over `base` (a name or file), with what was found, and where that is from. `files`: those that the runs
 * were read from; `section`: of the file, in addition; NULL: none. */
char *fit_yaml(const Fit *fit, const char *name, const char *base, const char *files, const char *section);
/* A text as a value of YAML, in quotes where it needs them. Owned by the caller. */
char *fit_yaml_value(const char *text);
