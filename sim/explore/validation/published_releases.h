/* Which release of a framework a published run had, as far as its model tells: topologies/published/releases.yaml. */
#pragma once
#include "model.h"
#include "row_cells.h"

typedef struct PublishedReleases PublishedReleases;

/* INPUT as yaml_map_read(), and where a rule takes a file that is not in topologies/frameworks. */
PublishedReleases *published_releases_read(GError **error);
void published_releases_free(PublishedReleases *releases);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PublishedReleases, published_releases_free)

/* The file that the run of a row that names `framework` is read with: that name, where no rule holds. `shipped` is the
 * model that the row is named for (NULL: none). Borrowed from either. */
const char *published_releases_find(PublishedReleases *releases, const char *framework, const MeasuredRow *row,
                                    const RowCells *cells, const Model *shipped);
