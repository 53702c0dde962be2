/* Frameworks by product and release: what `--framework torchtitan` and `--framework megatron-core@0.14` mean, from
 * topologies/releases/frameworks.yaml, which says how it is written.
 *
 *     torchtitan           a product: its newest release, what people run today
 *     megatron-core@0.14   of a release, megatron-core@2025-11 of a month
 *     torchtitan.yaml      the file of that name, as is a name that no product has: megatron-kwai
 *
 * Published runs (`validate`) name files, which have been called so since those runs. */
#pragma once
#include <glib.h>

typedef struct {
  char *release; /* owned, as are the texts below; NULL: the row has none, but the month */
  char *since;   /* 2025-12 */
  char *to;      /* the newest release that is known to be so; NULL: nothing is said */
  char *file;    /* in topologies/frameworks; NULL: `as` */
  char *as;      /* the product that goes on for it */
} FrameworkRelease;

typedef struct {
  char *name, *emit; /* owned; emit, a name of --emit, may be NULL */
  GArray *releases;  /* of FrameworkRelease, in order of time */
} FrameworkProduct;

typedef struct {
  char *read;          /* owned: what is newer than this month is not known */
  GPtrArray *products; /* of FrameworkProduct */
} FrameworkReleases;

/* INPUT: as yaml_map_read(), or a row says neither `file` nor `as`. */
FrameworkReleases *framework_releases_read(GError **error);
void framework_releases_free(FrameworkReleases *releases);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FrameworkReleases, framework_releases_free)
/* Borrowed; NULL: there is no such product. */
const FrameworkProduct *framework_product_find(const FrameworkReleases *releases, const char *name);

/* What a name of --framework means. */
typedef struct {
  char *file;              /* owned: a bare name in topologies/frameworks, or a path */
  char *product, *release; /* owned; NULL: none is known, or it has no number */
  char *emit;              /* owned; NULL: nobody's settings are written for it */
} FrameworkChoice;

/* INPUT if there is no such product, release, month or file; the message lists those there are. The file itself is
 * not read. */
gboolean framework_choose(const char *name, FrameworkChoice *choice, GError **error);
void framework_choice_clear(FrameworkChoice *choice);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(FrameworkChoice, framework_choice_clear)

/* The product that has the file, a name or a path, and its name of --emit; without a product if none has it. */
void framework_choose_file(const char *file, FrameworkChoice *choice);
/* A name that means this file of topologies/frameworks: its own, unless a product has that. Owned by the caller. */
char *framework_name_of_file(const char *file);
/* All names without a release: products, and the files whose name no product has. Sorted; owned by the caller. */
GStrv framework_choices(void);
/* Three-way order of releases, number by number: 0.9 is before 0.14. */
int framework_release_compare(const char *a, const char *b);
