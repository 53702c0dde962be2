#include "step_of_prediction.h"

#include "mixed_gpus.h"
#include "trained_parameters.h"

#include <math.h>
#include <string.h>

/* The mean over ranks of dp that differ. */
static void set_traffic(StepReport *report, const Prediction *prediction) {
  double sum[N_MOVERS] = {0};
  step_report_set_traffic(report, prediction->program, prediction->workload);
  for (int dp = 0; dp < prediction->n_programs; dp++) {
    step_report_set_traffic(report, prediction->programs[dp], prediction->workload);
    for (int mover = 0; mover < N_MOVERS; mover++)
      sum[mover] += report->traffic_bytes[mover];
  }
  for (int mover = 0; mover < N_MOVERS && prediction->n_programs > 0; mover++)
    report->traffic_bytes[mover] = sum[mover] / prediction->n_programs;
}

StepReport step_of_prediction(const Prediction *prediction, int *in_flight) {
  const Cluster *cluster = prediction->cluster;
  const Plan *plan = prediction->workload->plan;
  const double watts = plan_gpu_power_W(plan, cluster);
  StepReport report = {.model_name = prediction->workload->model->name,
                       .cluster_name = cluster->name,
                       .gpu_name = prediction->gpu_names,
                       .plan = plan,
                       .n_layers = prediction->workload->model->n_layers,
                       .n_experts = prediction->workload->model->experts.n,
                       .trained_parameters =
                           training_is_of_all(&plan->training)
                               ? 0
                               : trained_parameters(prediction->workload->model, &plan->training, FALSE),
                       .n_next_layers = prediction->workload->model->n_next_layers - plan->mtp_layers,
                       .trains_next_layers = !prediction->workload->model->other_next_layers,
                       .window = model_window(prediction->workload->model, plan->seq_len),
                       .domain_gpus = cluster->domain_gpus,
                       .peak_number = number_name(precision_info(plan->precision)->linear),
                       .peak_flops = prediction->peak_flops,
                       .step_time_s = prediction->step_time_s,
                       .interval = prediction->interval,
                       .tokens_per_s = prediction->tokens_per_s,
                       .tokens_per_s_per_gpu = prediction->tokens_per_s_per_gpu,
                       .tflops_per_gpu = prediction->tflops_per_gpu,
                       .mfu = prediction->mfu,
                       .hfu = prediction->hfu,
                       .gpu_energy_Wh = watts > 0 ? watts * plan->gpus * prediction->step_time_s / 3600 : NAN,
                       .in_flight = in_flight,
                       .n_measured = prediction->timing->n_measured,
                       .n_interpolated = prediction->timing->n_interpolated,
                       .n_modelled = prediction->timing->n_modelled,
                       .n_events = prediction->engine.n_events,
                       .n_ranks_simulated = prediction->engine.n_ranks,
                       .wall_s = prediction->wall_s};
  report.bounding.way = -1; /* for who asks: it takes a look at every kernel of a rank */
  if (link_use_of(prediction->trace, prediction->metrics, prediction->omitted, report.link_use))
    report.cluster = cluster;
  step_report_set_metrics(&report, prediction->metrics);
  step_report_set_islands(&report, prediction->metrics, prediction->program, prediction->workload);
  const ServerUse *servers = &prediction->servers;
  report.servers = (ServerReport){servers->n,    servers->bytes,   servers->capacity_bytes,
                                  servers->fits, servers->network, servers->memory};
  step_report_set_lengths(&report, prediction->program, prediction->timing, prediction->workload->batch,
                          MAX(prediction->n_programs, 1));
  step_report_set_data(&report, prediction->program, prediction->timing);
  step_report_set_compression(&report, prediction->program, prediction->workload, prediction->timing);
  double reserved_bytes = cluster->gpu.reserved_bytes;
  step_report_set_memory(&report, prediction->memory, reserved_bytes,
                         mixed_gpus_room_bytes(prediction->workload, cluster) + reserved_bytes);
  double shown_bytes[N_SHOWN];
  shown_memory(report.peak_bytes, plan, mixed_gpus_smallest(prediction->workload, cluster), shown_bytes);
  report.allocator_bytes = shown_bytes[SHOWN_RESERVED];
  report.device_bytes = shown_bytes[SHOWN_DEVICE];
  memcpy(report.tiers, prediction->tiers, sizeof report.tiers);
  report.fits &= prediction->fits;
  if (in_flight != NULL) {
    g_assert(prediction->omitted == NULL && prediction->program->n_steps == plan->steps);
    set_traffic(&report, prediction);
    step_report_set_kernels(&report, prediction->workload, prediction->timing, cluster->gpu.peak_flops);
    metrics_in_flight(prediction->trace, in_flight);
  }
  return report;
}
