/* stepsim: how long will one training step of this transformer take on this cluster under this parallel plan, and
 * where do the time and the memory go?
 *
 * A map of the program, from input to output:
 *
 *     base/       files, units, errors with the nearest names
 *     schedule/   pipeline schedules: one row each, their orders and bubbles, PyTorch's CSV
 *     model/      the transformer, from a Hugging Face config
 *     machine/    GPUs, nodes, links and the collective library, from YAML
 *     plan/       the parallel plan and the framework: their fields, their quirks, what is impossible
 *     method/     plan, framework and machine come to one Method: nothing below sees plan or framework
 *     work/       what must be computed and held: kernels, bytes, layout of ranks
 *     program/    the Program: an order lowered in passes, its verifier, its text form
 *     search/     an order made for given times (--schedule auto)
 *     cost/       how long each distinct thing takes on the described hardware
 *     engine/     virtual time: along a tape, or by a clock; network/: flows that share links fairly
 *     trace/      what happened
 *     report/     metrics, tables, JSON, Chrome trace, pictures: all from the Trace
 *     predict/    the façade over all of it
 *     explore/    many predictions: sweeps, the best plan, what-ifs, predictions of measured runs
 *     profile/    recordings of other profilers: steps, sums, who is late, kernels beside the model
 *     options/    parsing of the verbs' command lines
 *     lab/        the page that `stepsim lab` serves, and its server
 *     commands/   one verb each: options → library → print
 *
 * library/ is another way in: libstepsim, predictions within other programs; python/ a package on it. */
#include "command.h"
#include "lab_job.h"
#include "launcher.h"

static const Command commands[] = {
    {"simulate", "one configuration: step time, MFU, where the time goes, memory", command_simulate},
    {"schedule", "a pipeline schedule on its own: drawing, bubble, micro-batches in flight", command_schedule},
    {"memory", "what a GPU holds under each ZeRO stage, and what fits", command_memory},
    {"collective", "time and bus bandwidth of a collective, as nccl-tests prints it", command_collective},
    {"plan", "the best plan, why the others lost, what each option changes, how to start it", command_plan},
    {"explain", "why a step takes so long, what would shorten it, what grows with the GPUs", command_explain},
    {"plot", "figures: bubble, MFU, memory, Pareto fronts, maps, timelines", command_plot},
    {"compare", "a predicted and a measured trace of the same Program, op by op", command_compare},
    {"diff", "two plans or two results: what differs, what it costs, where the time went", command_diff},
    {"lab", "a page to change a plan and see the step: timeline, memory, links, what would help", command_lab},
    {"fit", "runs of your own: a cluster file that predicts the rest, with its uncertainty", command_fit},
    {"trace", "a profiler's recording: where the time went, which kernels, who comes late", command_trace},
    {"sweep", "a space of configurations: the best, the Pareto front, why the rest failed", command_sweep},
    {"validate", "predictions of measured runs: signed errors by source, next to a baseline", command_validate},
    {"topology", "how a cluster is wired: trees, paths, mistakes, a picture; imports a machine", command_topology},
    {"list", "models, clusters, GPUs, frameworks, schedules there are, and how far they are validated", command_list},
};

int main(int argc, char **argv) {
  /* a process of the lab, which is told its verb and options when there is a question */
  g_auto(GStrv) told = argc == 1 && g_getenv("STEPSIM_CONFINED") != NULL ? lab_job_arguments(argv) : NULL;
  if (told != NULL) {
    argc = (int)g_strv_length(told);
    argv = told;
  }
  const VerbTable table = {.program = "stepsim",
                           .usage = "stepsim VERB [OPTION…]",
                           .about = "Predicts a training step of a transformer on a cluster under a parallel plan.",
                           .statuses =
                               "0 done, 1 the configuration is impossible or does not fit, 2 bad usage or input.",
                           .commands = commands,
                           .n_commands = G_N_ELEMENTS(commands),
                           .is_silent = argc > 1 && g_str_equal(argv[1], "sweep") && launcher_n_processes() > 1 &&
                                        !g_str_equal(launcher_rank(), "0")};
  return verbs_main(&table, argc, argv);
}
