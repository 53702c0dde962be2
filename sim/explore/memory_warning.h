/* Plans that leave next to nothing of a GPU's memory. */
#pragma once

/* Share of a GPU's memory above which a plan is warned of: predicted peaks are some per cent from measured ones (see
 * docs/validation.md), and what an allocator cannot join is not in them. */
#define MEMORY_WARNED_ABOVE 0.95

/* What to say of a GPU with such a share of its memory taken; NULL: nothing. Static.
 */
const char *memory_warning(double used_share);
