/* The errors that intervals (interval.h) come from, of rows of measured steps, as the text of
 * topologies/published/prediction-errors.yaml.
 *
 * An error is ln(measured / predicted). What is kept of a set of errors is its quantiles of 10 and 90 %, so that four
 * of five lie between them, or from 0 on as many, where nearly all lie on one side: split conformal prediction (Lei et
 * al., JASA 113, 2018) with either end by itself.
 *
 *     seen         on a machine, with a framework, of a class (dense or with experts, in one scale-up domain or over
 *                  several): errors of these rows and, as if they were PRIOR_ROWS more, those of all rows of the
 *                  class, so that a few rows do not count as many; `error` is the mean of |predicted / measured − 1|
 *     first_look   what a machine's first rows will be off by: the same rows predicted without what was fitted to
 *                  their framework (`--without host,rates`), on the machine of the same GPU that most other sources ran
 *                  on. Each source counts once, however many rows it has: the next one is as likely like any of them
 *                  (Dunn, Wasserman and Ramdas, JASA 118, 2023)
 *     undescribed  likewise without the framework
 *     ratio        of two plans for one model, batch and number of GPUs on one machine: the quantile of 80 % of the
 *                  difference of their errors, either way; each source counts once
 *
 * Where sources count, one that is not there counts as half a source beyond either end. */
#pragma once
#include "validation.h"

typedef struct ErrorTable ErrorTable;

/* Of `as_it_is`, the rows of these files as they are predicted; predicts them in the other ways, too. INPUT as
 * measured_rows_read(); IMPOSSIBLE if there is nothing to make one of its entries from. */
ErrorTable *error_table_new(const Validation *as_it_is, char **files, int n_files, GError **error);
void error_table_free(ErrorTable *table);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ErrorTable, error_table_free)

/* The file. Owned by the caller. */
char *error_table_yaml(const ErrorTable *table);
/* How many rows lie in intervals made without them, as Markdown: halves of the rows drawn at random against the other
 * halves, and each source against all others. */
void error_table_coverage(const ErrorTable *table, GString *out);
