/* Check what a plan says of its data against the rest of the plan and against the cluster. */
#include "error.h"
#include "plan.h"

gboolean plan_check_data(const Plan *plan, const Cluster *cluster, GError **error) {
  if (plan->data.sample_bytes == 0)
    return TRUE;
  if (offload_is_any(&plan->offload))
    return fail_impossible(error,
                           "data and offloading clash: copies of one would wait for those of the other, which real "
                           "ones do not; leave out --data or what is offloaded");
  return cluster == NULL || plan->data.storage_Bps > 0 || cluster->storage.read_Bps > 0 ||
         fail_impossible(
             error,
             "%s does not state how fast its storage is, which data needs: add \"storage: {read: 100 GB/s}\", "
             "or +storage=100GB/s to --data",
             cluster->file);
}
