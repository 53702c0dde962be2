/* Entries of an expanded program's tables (pass_expand.c). Each is derived from an entry of the source program, or
 * from a piece's work list, when an op first needs it. Equal entries are merged. */
#pragma once
#include "program.h"
#include "workload.h"

/* The segments of a piece's work list when compute ops become runs of kernels (pass_expand.c): collectives, and
 * stretches of kernels between them; others wait only for a stretch's end, and it waits for others only at its
 * start. */
typedef struct {
  gboolean is_collective;
  gboolean is_awaited; /* the host issues it only after the preceding run has ended */
  int axis;            /* of a collective */
  int first_item, last_item;
  int waits_for; /* segment on another stream; −1: the start of the piece */
  gint32 entry;  /* work or transfer in the expanded program, of these lengths; −1: none yet */
  gint32 lengths;
} Segment;

typedef struct {
  Segment *segments; /* owned */
  int n_segments;
} SegmentList;

typedef struct {
  SegmentList of[N_PIECES][N_PHASES]; /* the optimizer's are empty */
} Segments;

/* What is made of an entry of the source. */
typedef enum {
  ENTRY_WORK, /* of an op that is not cut; next: its transfer */
  ENTRY_TRANSFER,
  ENTRY_EFFECT, /* a whole effect; next: for a cut op, only what it holds, and only what it drops */
  ENTRY_HELD,
  ENTRY_DROPPED,
} EntryKind;

/* The share of a cut op's effect that one of its ops has, when pieces hold and drop separately; roles can be
 * combined. */
typedef enum {
  SHARE_FIRST = 1, /* everything held, except what pieces save in a forward */
  SHARE_LAST = 2,  /* everything dropped, except what pieces had saved, in a backward */
  SHARE_PIECE = 4, /* what a piece saves: held in a forward, dropped in a backward */
} ShareRole;

typedef struct {
  const Program *source;    /* borrowed, as the next two */
  const Workload *workload; /* source of `segments` */
  Program *target;
  Segments segments;
  /* [source entries] number of the entry made from each; −1: none yet; owned */
  gint32 *works, *transfers, *effects, *held, *dropped;
  gint32 no_kernels[N_PHASES]; /* likewise */
  GHashTable *shares;          /* number + 1 of each share, by its source; owned */
} ExpandEntries;

void expand_entries_init(ExpandEntries *entries, const Program *source, const Workload *workload, Program *target);
void expand_entries_clear(ExpandEntries *entries);

/* Numbers of entries, made on first use: from entry `of` of the source; */
gint32 expand_entries_of_source(ExpandEntries *entries, EntryKind kind, gint32 of);
/* the work of a segment that is a run of kernels, or the transfer of one that is a collective; */
gint32 expand_entries_of_segment(ExpandEntries *entries, Phase phase, Piece piece, gint32 lengths, gint32 segment);
/* the work of a phase with no kernels, at most collectives. */
gint32 expand_entries_no_kernels(ExpandEntries *entries, Phase phase);
/* For source effect `of` of an op with source work `work`; `piece` is only used with SHARE_PIECE. */
gint32 expand_entries_share(ExpandEntries *entries, gint32 of, gint32 work, Piece piece, guint8 roles);
/* Whether the pieces of such an op hold, or drop, their saved activations separately. They do where a forward and a
 * backward may take turns, so that one holds while the other drops, piece by piece. */
gboolean expand_entries_are_shared(const ExpandEntries *entries, gint32 of, gint32 work);
