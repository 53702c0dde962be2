/* What a profiler saw GPUs do: kernels, copies and collectives with the calls that issued them, and the steps they
 * belong to. Read from PyTorch's profiler (kineto_read.h), Nsight Systems (nsight_read.h), stepreal's and stepsim's own
 * traces (chrome_read.h); whatever reads it never sees which. */
#pragma once
#include <glib.h>

typedef enum {
  PROFILE_PRODUCT,
  PROFILE_ATTENTION,
  PROFILE_NORM,
  PROFILE_SOFTMAX, /* and losses */
  PROFILE_ELEMENTWISE,
  PROFILE_EMBEDDING, /* rows gathered, scattered, sorted: tables, routing */
  PROFILE_OPTIMIZER,
  PROFILE_OTHER,
  PROFILE_COPY, /* memcpy and memset */
  PROFILE_COLLECTIVE,
  N_PROFILE_KINDS
} ProfileKind;
const char *profile_kind_name(ProfileKind kind);
/* By the names of the kernel and of the operator that issued it (NULL: unknown). */
ProfileKind profile_kind_of(const char *kernel, const char *operator_name);
/* "all_reduce" of "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(…)", or of a profiler's "_allgather_base"; NULL: none. */
const char *profile_collective_of(const char *name);

/* An operator of PyTorch's, or a copy, with sizes, types, strides and plain values of its inputs, lists in JSON as the
 * file has them; NULL: unknown. Interned. */
typedef struct {
  const char *name, *dims, *types, *strides, *values;
} ProfileOperator;

typedef struct {
  const char *op;    /* "all_reduce"; static */
  const char *ranks; /* "[0, 1]" or a group's name; NULL: unknown; interned */
  gint64 group_size; /* 0: unknown */
  double bytes;      /* the larger of what goes in and what comes out, per rank; 0: unknown */
} ProfileCollective;

typedef struct {
  gint64 start_ns, end_ns;
  gint64 issued_ns;                        /* when the call that issued it began; −1: unknown */
  const char *name;                        /* interned */
  gint32 operator_index, collective_index; /* of the profile; −1: none */
  gint32 call;                             /* equal for what one call of the operator issued on a rank; −1: unknown */
  gint32 stream;                           /* of its rank */
  ProfileKind kind;
} ProfileActivity;

typedef struct {
  gint64 begin_ns, end_ns; /* on the GPU (steps.c); as a mark: on the host */
  gint64 number;           /* as the file counts; −1: found by repetition */
} ProfileStep;

typedef struct {
  const char *file;         /* interned */
  gint64 rank;              /* as the file says; −1: it does not */
  gint64 world_size;        /* of its job; 0: not told */
  gint64 day_ns;            /* since 1970 by its host's clock, of time 0 of the file; −1: not told */
  const char *device;       /* which of the file's processes and GPUs; NULL: it has one */
  const char *gpu;          /* "NVIDIA H100 80GB HBM3"; NULL: unknown; interned */
  GArray *activities;       /* of ProfileActivity, by start; owned, as are all below */
  GArray *streams;          /* of gint64: their numbers in the file */
  GArray *marks;            /* of ProfileStep: steps as the host marked them, by begin; none: it marked none */
  GArray *steps;            /* of ProfileStep, whole ones only; none: nothing tells where one ends */
  const char *steps_from;   /* how they were found, in words; static */
  gint64 offset_ns;         /* added to this rank's times, they are on the clock of the first rank */
  gboolean has_clock;       /* its offset is known, by collectives with others */
  gboolean marks_are_steps; /* the marks are the steps themselves, from their first op's issue on */
} ProfileRank;

typedef struct {
  GPtrArray *ranks;       /* of ProfileRank, by rank; owned */
  GArray *operators;      /* of ProfileOperator */
  GArray *collectives;    /* of ProfileCollective */
  GHashTable *op_numbers; /* of operators and collectives, to intern them */
  GHashTable *collective_numbers;
  GStringChunk *texts;
  const char *source; /* "PyTorch profiler"; static */
} Profile;

Profile *profile_new(void);
void profile_free(Profile *profile);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Profile, profile_free)

/* Whose a file is, by its first bytes; what is nobody else's is taken for PyTorch's. INPUT if it cannot be read. */
typedef enum { PROFILE_PYTORCH, PROFILE_NSIGHT, PROFILE_OWN, N_PROFILE_SOURCES } ProfileSource;
gboolean profile_source(const char *file, ProfileSource *source, GError **error);
/* Adds the ranks of a file, whatever wrote it. INPUT with file:line. */
gboolean profile_read(Profile *profile, const char *file, GError **error);
/* Once all files are read: sorts ranks and activities, finds steps, sets clocks beside each other. INPUT: no GPU did
 * anything, a rank twice, files of different jobs. */
gboolean profile_complete(Profile *profile, GError **error);

/* --- for readers --- */

ProfileRank *profile_add_rank(Profile *profile, const char *file, gint64 rank);
/* What is no UTF-8, or controls a terminal, is replaced. NULL stays NULL. */
const char *profile_intern(Profile *profile, const char *text);
/* Its texts need not be interned. */
gint32 profile_operator(Profile *profile, ProfileOperator call);
/* Of a copy or memset, which say their bytes themselves; −1: to or from the host, or not told. */
gint32 profile_copy(Profile *profile, const char *name, double bytes);
gint32 profile_collective(Profile *profile, const char *op, const char *ranks, gint64 group_size, double bytes);
/* The place of a stream among those of the rank. */
gint32 profile_stream(ProfileRank *rank, gint64 number);

static inline ProfileRank *profile_rank(const Profile *profile, guint i) {
  return (ProfileRank *)profile->ranks->pdata[i];
}
static inline ProfileActivity *profile_activity(const ProfileRank *rank, guint i) {
  return &g_array_index(rank->activities, ProfileActivity, i);
}
