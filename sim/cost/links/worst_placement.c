/* The placement of "rank r and rank r + d" depends on r only through r's place in its domain and tiers. If pipeline
 * neighbours are a domain or more apart they never share one; otherwise a domain's worth of ranks from either end
 * shows all cases. Whether a tier's boundary lies between them shows at the ends of a stage whose ranks are
 * consecutive. Where they are not (pp is not outermost), or where a map places them, any rank of the stage may be the
 * one beside a boundary. */
#include "worst_placement.h"

GArray *worst_placement_ranks(const Layout *layout, const Cluster *cluster) {
  GArray *ranks = g_array_new(FALSE, FALSE, sizeof(int));
  int n_dp = layout->size[AXIS_DP];
  int n_ends = layout->stride[AXIS_PP] < cluster->domain_gpus ? MIN(n_dp, cluster->domain_gpus) : 1;
  gboolean is_scattered = layout->stride[AXIS_PP] * layout->size[AXIS_PP] != layout->n_ranks;
  if ((cluster_n_levels(cluster) > 1 && is_scattered) || layout->gpu_of_rank != NULL)
    n_ends = n_dp;
  Coordinates at = {{0}};
  for (at.at[AXIS_DP] = 0; at.at[AXIS_DP] < n_dp; at.at[AXIS_DP]++) {
    if (at.at[AXIS_DP] == n_ends && n_dp > 2 * n_ends)
      at.at[AXIS_DP] = n_dp - n_ends;
    for (at.at[AXIS_EP] = 0; at.at[AXIS_EP] < layout->size[AXIS_EP]; at.at[AXIS_EP]++)
      for (at.at[AXIS_CP] = 0; at.at[AXIS_CP] < layout->size[AXIS_CP]; at.at[AXIS_CP]++)
        for (at.at[AXIS_TP] = 0; at.at[AXIS_TP] < layout->size[AXIS_TP]; at.at[AXIS_TP]++) {
          int rank = layout_rank(layout, &at);
          g_array_append_val(ranks, rank);
        }
  }
  return ranks;
}

static int compare_ranks(gconstpointer a, gconstpointer b) {
  return *(const int *)a - *(const int *)b;
}

/* Shape of the group that holds `rank` (pp = 0) on pipeline ranks pp_first and pp_last. */
static GroupShape pair_shape(const Layout *layout, const Cluster *cluster, const Group *group, int rank, int *members) {
  int stride = layout->stride[AXIS_PP], size = layout_group_size(layout, group->axes);
  layout_group_members(layout, group->axes, rank + group->pp_first * stride, members);
  layout_group_members(layout, group->axes, rank + group->pp_last * stride, members + size);
  qsort(members, 2 * size, sizeof *members, compare_ranks);
  layout_gpus_of(layout, members, 2 * size);
  return layout_shape_of(cluster, members, 2 * size);
}

static gboolean reaches_further(const GroupShape *a, const GroupShape *b) {
  if (a->n_domains != b->n_domains)
    return a->n_domains > b->n_domains;
  for (int i = CLUSTER_MAX_LEVELS - 1; i >= 0; i--)
    if (a->levels[i].n_spans != b->levels[i].n_spans)
      return a->levels[i].n_spans > b->levels[i].n_spans;
    else if (a->levels[i].fewest != b->levels[i].fewest)
      return a->levels[i].fewest < b->levels[i].fewest;
  return FALSE;
}

/* The shape with most domains, then most spans of the outermost level, over the groups of the representative ranks;
 * each group is looked at once. */
static GroupShape worst_pair_shape(const Layout *layout, const Cluster *cluster, const int *ranks, int n_ranks,
                                   const Group *group) {
  g_autofree int *members = g_new(int, 2 * layout_group_size(layout, group->axes));
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  GroupShape worst = {0};
  for (int i = 0; i < n_ranks; i++) {
    if (!g_hash_table_add(seen, GINT_TO_POINTER(layout_group_index(layout, group->axes, ranks[i]))))
      continue;
    GroupShape shape = pair_shape(layout, cluster, group, ranks[i], members);
    if (worst.n == 0 || reaches_further(&shape, &worst))
      worst = shape;
  }
  return worst;
}

GroupShape worst_placement_shape(const Layout *layout, const Cluster *cluster, const int *ranks, int n_ranks,
                                 const Group *group) {
  if (!group->spans_pp)
    return layout_group_shape(layout, cluster, group->axes);
  if (group->pp_first < 0)
    return layout_group_shape(layout, cluster, group->axes | AXIS_BIT(AXIS_PP));
  return worst_pair_shape(layout, cluster, ranks, n_ranks, group);
}
