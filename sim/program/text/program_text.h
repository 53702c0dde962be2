/* The Program as text: can be generated apart from a run, read, diffed, edited and run again. One line per entry:
 *
 *     program ranks=2 stages=2 micro_batches=2 steps=1 expanded=0
 *     group 0 dp axes=dp charge=dp
 *     work 0 F embedding=1 layers=12 head=0 flops=1.5e12
 *     transfer 0 send 0->1 bytes=8388608
 *     transfer 1 all_reduce group=0 bytes=2.1e9
 *     effect 1 hold activations=1.2e9
 *     rank 0 weights=… gradients=… optimizer=…
 *       0 compute 0F0 work=0 effect=1
 *       1 send_f 0SEND_F0 peer=1 tag=0 transfer=0 after=0
 *
 * expanded is an Expansion (program.h): 0 whole ops, 1 runs of kernels, 2 runs only where tp collectives may compete
 * with other transfers. Reading what was written gives an equal Program; writing that again gives equal bytes. */
#pragma once
#include "program.h"

char *program_to_text(const Program *program);
/* INPUT with name:line, found, expected. The result has been verified (program_verify_given()). `name` appears in
 * messages. */
Program *program_from_text(const char *text, const char *name, GError **error);
