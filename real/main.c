/* stepreal: the Program that stepsim simulates, executed on real processors.
 *
 * A map of the program, from the bottom up:
 *
 *     kernels/    what a transformer step is made of: plain data, run by cpu (OpenBLAS) and cuda (cuBLASLt)
 *     device/     in-order streams and events: cpu (worker threads), cuda, null
 *     comm/       the world of ranks; collectives and sends: mpi, nccl, null
 *     train/      a real model: parameters, activations, items → kernels; the executor; the numerics check
 *     calibrate/  measured times → a GPU file and a cluster file for stepsim
 *     commands/   one verb each
 */
#include "real_command.h"

static const Command commands[] = {
    {"run", "execute a training step's Program on this machine's processors, check its numbers", command_run},
    {"calibrate", "measure this machine; write a cluster file and a GPU file for stepsim", command_calibrate},
};

int main(int argc, char **argv) {
  const VerbTable table = {.program = "stepreal",
                           .usage = "[mpirun -n RANKS] stepreal VERB [OPTION…]",
                           .about = "Executes a training step that stepsim predicts, on this machine's processors.",
                           .statuses = "0 done, 1 the run failed or its numbers are wrong, 2 bad usage or input.",
                           .commands = commands,
                           .n_commands = G_N_ELEMENTS(commands),
                           .is_silent = !world_is_first_launched()};
  return verbs_main(&table, argc, argv);
}
