/* What parameter servers (servers.h) take for pushes, updates and pulls. Parameters are spread over all servers, so
 * that every rank sends each server the same share of what it pushes.
 *
 * Of R ranks that push b bytes each at once, with a rank's part β of its node's NICs and S servers of B each:
 *
 *     time = latency + b / min(β, S·B/R)        the in-cast; the same for pulls
 *
 * and a server's memory, which reads a push and reads and writes the sum, must keep up. Servers on the workers' nodes
 * leave out what stays there, and a push and a pull at the same time share the NICs. An update reads and writes the
 * optimizer's state like that of an offloaded one (copy_cost_update_s()).
 *
 * In a run where ranks differ, those that move at one moment share the servers by max-min: each alone has
 * min(β, S·B) (contention.c). */
#pragma once
#include "layout.h"
#include "program.h"
#include "timing.h"
#include "workload.h"

/* Facts about a plan's servers on a cluster. */
typedef struct {
  double rank_Bps;    /* of a rank to the network */
  double servers_Bps; /* of all servers together, in each direction; 0: they are on the workers' nodes */
  double memory_Bps;  /* of all servers together, as updates reach it */
  double leaving;     /* share of what is pushed that leaves the node */
  double latency_s;
  int n_ranks;
  int n_updates;      /* in a step: those of one bucket that are done at once, one after another */
  double push_passes; /* bytes that a server's memory moves for a byte pushed; 0: an update of its own follows */
} ServerSite;

ServerSite server_site(const Method *method, const Layout *layout, const Cluster *cluster);
/* Seconds along one of ROUTES_OF_SERVERS; `is_alone`: while no other rank does the same. For ROUTE_SERVE, bytes that
 * an update reads and writes. */
double server_cost_s(const ServerSite *site, guint route, double bytes, gboolean is_alone);
/* How many that are alone the servers carry at once. */
double server_capacity(const ServerSite *site, guint route);

/* What a step leaves on the servers. */
typedef struct {
  int n;
  double bytes, capacity_bytes; /* held by one, and its memory; capacity 0: not stated */
  gboolean fits;
  double network, memory; /* shares of the step in which all their links, in the fuller direction, and all their memory
                             are busy */
} ServerUse;
ServerUse server_use(const Workload *workload, const Cluster *cluster, double step_s);
