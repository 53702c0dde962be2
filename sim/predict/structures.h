/* Programs kept by their structure: plans that differ in sizes alone (sequences, micro-batches, and their numbers
 * beyond those that are run) have the same ops, tape and repeats, and only other numbers in their tables (binding.h).
 * What occurs once is not worth keeping: a Program is kept the second time that it is made.
 *
 * The key is everything that lowering can see of a workload - the model, every field of the method, the stages - but
 * the few fields that tell sizes. So a new field of a plan is part of the key until it is said to be a size. */
#pragma once
#include "repeats.h"
#include "workload.h"

typedef struct Structures Structures;
/* For the predictions of one thread. At most some 400,000 ops are kept: the least recently used go. */
Structures *structures_new(void);
void structures_free(Structures *structures);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Structures, structures_free)

/* A kept Program; valid until the next structures_find(). */
typedef struct Structure Structure;

/* The one that this workload is lowered to. NULL: none is kept. */
Structure *structures_find(Structures *structures, const Workload *workload);
/* Keeps what the workload of the last structures_find(), which returned NULL, was lowered to; the program is taken
 * over. NULL: it is not kept, and still the caller's. */
Structure *structures_keep(Structures *structures, Program *program);
/* The workload's Program, a copy with its numbers. NULL: it has to be lowered. Owned by the caller. */
Program *structure_program(const Structure *structure, const Workload *workload);

/* The same for what is made of a structure by expansion; `whole` has the workload's numbers, `met` [transfers] tells
 * beside which transfers it is expanded (NULL: everywhere), and sends of up to eager_bytes are eager. */
Structure *structure_expanded(Structures *structures, Structure *structure, const Program *whole,
                              const Workload *workload, const gboolean *met, gint64 eager_bytes);
Structure *structure_keep_expanded(Structures *structures, Structure *structure, Program *program);
Program *structure_expanded_program(const Structure *expanded, const Program *whole, const Workload *workload);

/* Whether a run with so many of a plan's micro-batches is worth trying: if the share of such runs that were seen to
 * return to a state (steady.h) is larger than theirs of the micro-batches; and one in eight all the same. */
gboolean structure_is_worth_trying(Structure *structure, double share);
void structure_note_try(Structure *structure, gboolean returned);
/* As program_repeats_new() of a copy. */
ProgramRepeats *structure_repeats(Structure *structure, const Program *copy, int n_micro_batches);
