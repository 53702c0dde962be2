/* Entries of an expanded program's tables (pass_expand.c). Each is derived from an entry of the source program, or
 * from a piece's work list, when an op first needs it. Equal entries are merged. */
#pragma once
#include "program.h"
#include "segments.h"

typedef enum {
  ENTRY_RUN,        /* work: a segment that is a run of kernels */
  ENTRY_NO_KERNELS, /* work: a phase with no kernels, at most collectives */
  ENTRY_ITEM,       /* transfer: a segment that is a collective */
  ENTRY_WORK,       /* work of an op that is not cut; next: its transfer */
  ENTRY_TRANSFER,
  ENTRY_EFFECT, /* a whole effect of the source; next: for a cut op, only what it holds, and only what it drops */
  ENTRY_HELD,
  ENTRY_DROPPED,
  ENTRY_SHARE, /* the share of a cut op's effect that one of its ops has, when pieces hold and drop separately */
} EntryKind;

/* The share of such an effect that an op has; roles can be combined. */
typedef enum {
  SHARE_FIRST = 1, /* everything held, except what pieces save in a forward */
  SHARE_LAST = 2,  /* everything dropped, except what pieces had saved, in a backward */
  SHARE_PIECE = 4, /* what a piece saves: held in a forward, dropped in a backward */
} ShareRole;

typedef struct {
  guint8 kind;         /* EntryKind */
  guint8 phase, piece; /* of a segment or share; ENTRY_NO_KERNELS: only the phase */
  guint8 roles;        /* ShareRole; shares only */
  gint32 of;           /* number of the segment, or of the source entry */
  gint32 work;         /* shares: source work of the op that is cut */
  gint32 number;       /* in the target's table */
} ExpandEntry;

typedef struct {
  const Program *source;    /* borrowed, as the next two */
  const Workload *workload; /* source of `segments` */
  Program *target;
  Segments segments;
  /* [source entries] number of the entry made from each; −1: none yet; owned */
  gint32 *works, *transfers, *effects, *held, *dropped;
  gint32 no_kernels[N_PHASES]; /* likewise */
  GHashTable *shares;          /* number + 1 of each share, by its source; owned */
  GArray *made;                /* of ExpandEntry, in the order made; owned */
} ExpandEntries;

void expand_entries_init(ExpandEntries *entries, const Program *source, const Workload *workload, Program *target);
void expand_entries_clear(ExpandEntries *entries);

/* Numbers of entries, made on first use. `of` as in ExpandEntry; `kind` is ENTRY_WORK or later. */
gint32 expand_entries_of_source(ExpandEntries *entries, EntryKind kind, gint32 of);
gint32 expand_entries_of_segment(ExpandEntries *entries, Phase phase, Piece piece, gint32 segment);
gint32 expand_entries_no_kernels(ExpandEntries *entries, Phase phase);
/* For source effect `of` of an op with source work `work`; `piece` is only used with SHARE_PIECE. */
gint32 expand_entries_share(ExpandEntries *entries, gint32 of, gint32 work, Piece piece, guint8 roles);
/* Whether the pieces of such an op hold, or drop, their saved activations separately. They do where a forward and a
 * backward may take turns, so that one holds while the other drops, piece by piece. */
gboolean expand_entries_are_shared(const ExpandEntries *entries, gint32 of, gint32 work);
/* Makes entries from the same sources again, in the same order. FALSE: some got other numbers, because different
 * entries are equal. */
gboolean expand_entries_repeat(ExpandEntries *entries, const GArray *made);
