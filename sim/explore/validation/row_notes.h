/* What the notes of a measured row say of the run that no column does. Notes are parts between semicolons, of which two
 * are read:
 *
 *     kernel=flash_attention2 + RMS kernel     RMSNorm is one kernel
 *     technique=async TP + torch.compile       ways to run that a framework may be described with one by one: of the
 *                                              row's framework F the file F-compile, if there is one, then
 *                                              F-compile-async-tp, if there is one; others are not */
#pragma once
#include <glib.h>

/* FRAMEWORK_KERNELS_FUSED, or −1 where they say nothing of it. */
gint64 row_notes_norm_kernel(const char *notes);
/* The described framework that is nearest to `name` run so; capitals and blanks of a name are as in a file's,
 * Megatron-LM is megatron-lm. Owned by the caller. */
char *row_notes_framework(const char *notes, const char *name);
/* Whether they have such a list, be it empty. */
gboolean row_notes_list_techniques(const char *notes);
