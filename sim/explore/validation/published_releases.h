/* The framework release behind a published run, as far as its model reveals it:
 * topologies/published/releases.yaml. */
#pragma once
#include "model.h"
#include "row_cells.h"

typedef struct PublishedReleases PublishedReleases;

/* INPUT as yaml_map_read(), and if a rule names a file that is not in topologies/frameworks. */
PublishedReleases *published_releases_read(GError **error);
void published_releases_free(PublishedReleases *releases);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PublishedReleases, published_releases_free)

/* The framework file for the run of a row that names `framework`: that name, unless a rule applies. `shipped` is the
 * model that the row is named for (NULL: none). Borrowed from either. */
const char *published_releases_find(PublishedReleases *releases, const char *framework, const MeasuredRow *row,
                                    const RowCells *cells, const Model *shipped);
