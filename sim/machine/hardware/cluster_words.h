/* A cluster without a file: "8x h100, 400 Gb/s x 8".
 *
 *     N x GPU          GPUs of a node (of an NVLink domain, where that is several nodes: 72x gb200) and their kind: a name
 *                      in topologies/gpus, or words of one (h100, a100-80gb, 4090)
 *     RATE [x N]       NICs of a node, each of that rate (default: one)
 *     no nics          a node alone
 *     pcie             GPUs joined by PCIe: of a short name the kind that is (h100: h100-pcie-80gb)
 *     nvlink RATE      of a GPU, per direction
 *     leaves of N      nodes on the same leaf switches
 *     N:1              oversubscription of what leaves a group of leaves
 *
 * in this order or any other behind the first, between commas. All else is as in the cluster where such GPUs usually
 * sit (topologies/imports/usual.yaml). */
#pragma once
#include "yaml_base.h"

/* Where a kind of GPU usually sits. */
typedef struct {
  YamlNode node;
  char *gpu, *cluster; /* owned */
} UsualCluster;

/* Array of UsualCluster, as the file has them. NULL with INPUT. Owned by the caller. */
GArray *usual_clusters_read(GError **error);

/* Whether `text` is such a cluster, or meant to be one: it begins with a number and x, and no file of that name is
 * there. */
gboolean cluster_words_are(const char *text);
/* INPUT, which says how words are written, if `text` is no file and none of those, but no name either: "8 h100". */
gboolean cluster_words_check(const char *text, GError **error);
/* A list of clusters, names or words, at its commas, those within words left out. Owned by the caller. */
GStrv cluster_words_split(const char *list);

/* The words as the text of a cluster file, which says in comments what the words do not. Owned by the caller. NULL with
 * INPUT, which names the part and what it may be. `bases`: of cluster files. */
char *cluster_words_yaml(const char *words, const YamlBases *bases, GError **error);
/* A number of NICs that is not said, where such nodes usually have more than one. Owned by the caller; NULL: it is not
 * so. */
char *cluster_words_notice(const char *words, const YamlBases *bases);
