/* Private to the verifier: runs the Program without time, under its semantics, with every send a rendezvous. */
#pragma once
#include "program.h"

/* Collectives of one group that spans pipeline ranks: for every member, by rank, its ops in list order. All members
 * have the same number of them, so the k-th collective of member m is ops[m · n_each + k]. */
typedef struct {
  gint32 rank, op;
} OpPlace;
typedef struct {
  GArray *ops;   /* of OpPlace; owned */
  int n_members; /* pipeline ranks in the group */
  int n_each;
} Rendezvous;

/* `partner[rank][op]`: for a send or receive, its match on the peer; for a collective over pipeline ranks, its k.
 * `rendezvous`: one per group of the program; empty for groups within a pipeline rank. IMPOSSIBLE, naming what every
 * stream waits for, if the run does not reach the end. */
gboolean untimed_run(const Program *program, gint32 *const *partner, const Rendezvous *rendezvous, GError **error);

/* "1RECV_F0", plus " of step 2" in programs of several steps. */
void untimed_run_name_op(const Program *program, const Op *op, GString *out);
