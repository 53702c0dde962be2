/* Reasons that differ in their numbers alone are one: "tp 3 does not divide 8" and "tp 5 does not divide 8". */
#pragma once

/* `reason` with `placeholder` for each number that stands alone: with N, "tp 3 × pp 5" → "tp N × pp N". Names keep
 * theirs: llama-3-8b. Owned by the caller. */
char *reason_kind(const char *reason, const char *placeholder);
