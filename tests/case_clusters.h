/* The clusters of plan_cases.h, read once for all tests of a case: tcase_add_unchecked_fixture(…, set_up, tear_down).
 */
#pragma once
#include "error.h" /* ahead of Check, which has a macro fail() */

#include "plan_cases.h"

static Cluster *clusters[N_CASE_CLUSTERS];

static inline void set_up(void) {
  read_case_clusters(clusters);
}

static inline void tear_down(void) {
  free_case_clusters(clusters);
}
