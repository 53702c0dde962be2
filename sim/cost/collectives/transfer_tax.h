/* What a transfer costs the kernels beside it (engine/tax.h), as the cluster file states it:
 *
 *     transfer_tax: 0.2                        any transfer; measured, as stepreal calibrate does
 *     transfer_tax: {nvlink: 0.15, net: 0.02}  by the slowest link that a transfer crosses; a kind left out is free
 *     transfer_tax: channels                   the SMs that its channels keep busy over those of the GPU
 *
 * Channels are blocks of a collective library's kernel, each occupying an SM while it runs (NCCL issues 689, 2022,
 * and 1656, 2025): 24 of 132 SMs for a large ring inside 8 H100, 16 for NVLS and for rings over 8 NICs, 4 for one NIC
 * (collective_algorithm_sms()). A send over nodes has one channel per `send_channel` of its GPU's NIC bandwidth; one
 * inside a domain has as many, as a communicator with ranks on several nodes uses the least number for all of them
 * (NCCL 2.30.7 src/graph/paths.cc). Copy engines and switches that reduce take none or fewer: state those by link
 * kind.
 *
 * No shipped cluster has the key: rates of products under load were fitted to steps without it. For your own cluster,
 * use a measurement, or 0.15 for NVLink and 0.02 for InfiniBand (Calculon's a100_80g.json and h100_80g_nvl8.json,
 * 2023). */
#pragma once
#include "collective_cost.h"

/* Whether any transfer has a tax. */
gboolean transfer_tax_is_stated(const Cluster *cluster);
/* Seconds of kernels lost per second of the collective. By channels, 0 if their number is not known. */
double collective_tax(const Cluster *cluster, const CollectiveCost *cost);
/* The tax of a send between two GPUs, by placement. */
double send_tax(const Cluster *cluster, int from, int to);
