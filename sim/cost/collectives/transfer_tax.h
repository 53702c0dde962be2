/* What a transfer costs the kernels beside it (engine/tax.h), by what the cluster file says of it, or, for exchanges
 * with experts, by the SMs that the framework's own kernels for them take (expert_sms of framework_time.h):
 *
 *     transfer_tax: 0.2                        any transfer; measured, as stepreal calibrate does
 *     transfer_tax: {nvlink: 0.15, net: 0.02}  by the slowest link that a transfer crosses; a kind left out is free
 *     transfer_tax: channels                   the SMs that its channels keep busy over those of the GPU
 *
 * Channels are blocks of a collective library's kernel, each with an SM of its own while it runs (NCCL issues 689,
 * 2022, and 1656, 2025): 24 of 132 SMs for a large ring inside 8 H100, 16 for NVLS and for rings over 8 NICs, 4 for one
 * NIC (collective_algorithm_sms()). A send over nodes has one for each `send_channel` of bandwidth that its GPU's NIC
 * has; one inside a domain as many, as a communicator with ranks on several nodes uses the least number for all of them
 * (NCCL 2.30.7 src/graph/paths.cc). Copy engines and switches that reduce take none or fewer: state those by link kind.
 *
 * No shipped cluster has the key: rates of products under load were fitted to steps without it. For one's own there are
 * a measurement, or 0.15 for NVLink and 0.02 for InfiniBand (Calculon's a100_80g.json and h100_80g_nvl8.json, 2023). */
#pragma once
#include "collective_cost.h"
#include "plan.h"

/* Whether any transfer of the plan may cost any. */
gboolean transfer_tax_is_stated(const Cluster *cluster, const Plan *plan);
/* Seconds of kernels lost per second of it. What channels take where their number is not known: 0. */
double collective_tax(const Cluster *cluster, const CollectiveCost *cost);
/* Of an exchange with experts. */
double exchange_tax(const Cluster *cluster, const Plan *plan, const CollectiveCost *cost);
/* Between two GPUs, by placement. */
double send_tax(const Cluster *cluster, int from, int to);
