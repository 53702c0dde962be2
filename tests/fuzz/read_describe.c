/* Readers of descriptions of models and clusters, and of measurements of them. */
#include "fuzz_readers.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "framework.h"
#include "model.h"
#include "nccl_tests.h"
#include "node_import.h"
#include "plan.h"
#include "predict.h"
#include "rank_map.h"
#include "route.h"
#include "topology_check.h"

/* Larger graphs cost time and show nothing that smaller ones do not. */
enum { MOST_GPUS = 64 };

const Model *fuzz_shipped_model(void) {
  static Model *model;
  if (model == NULL)
    model = model_read("llama-3-8b", NULL);
  FUZZ_REQUIRE(model != NULL);
  return model;
}

const Model *fuzz_tiny_model(void) {
  static Model *model;
  if (model == NULL)
    model = model_read(STEPSIM_SOURCE_DATA "/tests/data/models/tiny-gpt2.json", NULL);
  FUZZ_REQUIRE(model != NULL);
  return model;
}

const Cluster *fuzz_shipped_cluster(void) {
  static Cluster *cluster;
  if (cluster == NULL)
    cluster = cluster_read("dgx-h100", NULL);
  FUZZ_REQUIRE(cluster != NULL);
  return cluster;
}

gboolean fuzz_model(const FuzzInput *input, GError **error) {
  g_autoptr(Model) model = model_read(input->file, error);
  if (model == NULL)
    return FALSE;
  FUZZ_REQUIRE(model_check(model, "accepted", NULL));
  FUZZ_REQUIRE(model_parameters(model) > 0 && model_parameters(model) >= model_layer_parameters(model));
  return TRUE;
}

/* The graph that follows from an accepted file, its mistakes, and a way through it. */
static void check_graph(const Cluster *cluster) {
  const gint64 most = cluster->nics_per_node == 0 ? cluster->domain_gpus : MOST_GPUS;
  g_autoptr(Topology) topology = topology_new(cluster, MIN(most, MOST_GPUS), NULL);
  if (topology == NULL)
    return;
  g_autoptr(GArray) findings = topology_check(topology);
  FUZZ_REQUIRE(findings != NULL);
  for (int v = 0; v < topology->n_vertices; v++) {
    g_autofree char *name = topology_vertex_name(topology, v);
    FUZZ_REQUIRE(topology_find_vertex(topology, name) == v);
  }
  g_autoptr(Route) route = route_new(topology, 0, topology->n_gpus - 1, NULL);
  FUZZ_REQUIRE(route == NULL || route->n_hops >= 0);
}

/* A step of a small model on four GPUs, where they are joined: it takes some time, and an end. */
static void check_step(const Cluster *cluster) {
  g_autoptr(Plan) plan = plan_new();
  plan->tp = 2;
  plan->dp = 2;
  g_autoptr(Prediction) prediction = predict(fuzz_tiny_model(), cluster, plan, NULL);
  FUZZ_REQUIRE(prediction == NULL || (isfinite(prediction->step_time_s) && prediction->step_time_s > 0));
}

gboolean fuzz_cluster(const FuzzInput *input, GError **error) {
  g_autoptr(Cluster) cluster = cluster_read(input->file, error);
  if (cluster == NULL)
    return FALSE;
  FUZZ_REQUIRE(cluster->gpus_per_node >= 1 && cluster->domain_gpus >= cluster->gpus_per_node);
  FUZZ_REQUIRE(isfinite(cluster->scale_up_Bps) && cluster->scale_up_Bps > 0);
  if (cluster_check_sound(cluster, NULL))
    check_graph(cluster);
  check_step(cluster);
  return TRUE;
}

gboolean fuzz_gpu(const FuzzInput *input, GError **error) {
  Gpu gpu = {0};
  const gboolean is_read = gpu_read(input->file, &gpu, error);
  FUZZ_REQUIRE(!is_read || (gpu.n_sms >= 1 && isfinite(gpu.hbm_Bps) && gpu.hbm_Bps > 0));
  gpu_clear(&gpu);
  return is_read;
}

gboolean fuzz_collective_library(const FuzzInput *input, GError **error) {
  CollectiveLibrary library = {0};
  gint64 eager_bytes = 0;
  const gboolean is_read = collective_library_read(input->file, &library, &eager_bytes, error);
  FUZZ_REQUIRE(!is_read || eager_bytes >= 0);
  collective_library_clear(&library);
  return is_read;
}

gboolean fuzz_framework(const FuzzInput *input, GError **error) {
  Framework framework = {0};
  return framework_read(input->file, &framework, error);
}

gboolean fuzz_rank_map(const FuzzInput *input, GError **error) {
  g_autoptr(GArray) map = rank_map_read(input->file, fuzz_shipped_cluster(), error);
  if (map == NULL)
    return FALSE;
  FUZZ_REQUIRE(map->len > 0 && rank_map_extent(map, (int)map->len) >= map->len);
  return TRUE;
}

/* What was imported is written as a cluster file, which is read. */
static gboolean read_node(NodeImportParser parse, const FuzzInput *input, GError **error) {
  g_autoptr(NodeImport) import = parse(input->file, input->text, input->length, error);
  if (import == NULL)
    return FALSE;
  const ImportChoices choices = {
      .name = "imported", .gpu = "h100-sxm5-80gb", .generation = "hopper", .nic_Bps = import->nic_Bps > 0 ? 0 : 50e9};
  g_autofree char *yaml = node_import_yaml(import, &choices, error);
  if (yaml == NULL)
    return FALSE;
  g_autoptr(GError) problem = NULL;
  g_autoptr(Cluster) cluster = cluster_parse("imported.yaml", yaml, &problem);
  if (cluster == NULL)
    g_error("what was imported is refused: %s\n%s", problem->message, yaml);
  return TRUE;
}

gboolean fuzz_nccl_xml(const FuzzInput *input, GError **error) {
  return read_node(nccl_xml_parse, input, error);
}

gboolean fuzz_smi_matrix(const FuzzInput *input, GError **error) {
  return read_node(smi_matrix_parse, input, error);
}

gboolean fuzz_nccl_tests(const FuzzInput *input, GError **error) {
  g_autoptr(NcclTestsLog) log = nccl_tests_read(input->file, error);
  if (log == NULL)
    return FALSE;
  FUZZ_REQUIRE(log->tables->len > 0);
  for (guint i = 0; i < log->tables->len; i++) {
    const NcclTestsTable *table = g_ptr_array_index(log->tables, i);
    FUZZ_REQUIRE(table->points->len > 0);
    for (guint k = 0; k < table->points->len; k++) {
      const NcclTestsPoint *point = &g_array_index(table->points, NcclTestsPoint, k);
      FUZZ_REQUIRE(isfinite(point->bytes) && isfinite(point->time_s) && point->time_s > 0);
    }
  }
  return TRUE;
}
