/* Reasons that differ only in their numbers are one: "tp 3 does not divide 8" and "tp 5 does not divide 8". */
#pragma once

/* `reason` with `placeholder` for each free-standing number: with N, "tp 3 × pp 5" → "tp N × pp N". Names keep their
 * numbers: llama-3-8b. Owned by the caller. */
char *reason_kind(const char *reason, const char *placeholder);
