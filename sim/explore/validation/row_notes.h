/* What the notes of a measured row say about the run that no column does. Notes are separated by semicolons; two
 * kinds are read:
 *
 *     kernel=flash_attention2 + RMS kernel     RMSNorm is one kernel
 *     technique=async TP + torch.compile       features with framework files of their own: of the row's framework F,
 *                                              the file F-compile, if there is one, then F-compile-async-tp, if there
 *                                              is one; others are ignored */
#pragma once
#include <glib.h>

/* FRAMEWORK_KERNELS_FUSED, or −1 if the notes do not say. */
gint64 row_notes_norm_kernel(const char *notes);
/* The described framework closest to `name` run this way; case and blanks of a name are normalised as in file names,
 * Megatron-LM is megatron-lm. Owned by the caller. */
char *row_notes_framework(const char *notes, const char *name);
/* Whether the notes have such a list, even an empty one. */
gboolean row_notes_list_techniques(const char *notes);
