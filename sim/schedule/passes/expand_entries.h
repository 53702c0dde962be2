/* Entries of an expanded program's tables (pass_expand.c): each is made of something of the program that is expanded,
 * or of a piece's list of work, when an op first needs it. Equal entries are one. */
#pragma once
#include "program.h"
#include "segments.h"

typedef enum {
  ENTRY_RUN,        /* work of a segment that is a run of kernels */
  ENTRY_NO_KERNELS, /* work of a phase that is collectives at most */
  ENTRY_ITEM,       /* transfer of a segment that is a collective */
  ENTRY_WORK,       /* of an op that is not cut, as the next */
  ENTRY_TRANSFER,
  ENTRY_EFFECT, /* all of one of the source's; of a cut op: what it holds, what it drops */
  ENTRY_HELD,
  ENTRY_DROPPED,
  ENTRY_SHARE, /* of a cut op's effect, what one of its ops has of it where pieces hold and drop apart */
} EntryKind;

/* What an op has of such an effect; added up. */
typedef enum {
  SHARE_FIRST = 1, /* all that is held but for what pieces save in a forward */
  SHARE_LAST = 2,  /* all that is dropped but for what pieces saved, in a backward */
  SHARE_PIECE = 4, /* what a piece saves: held in a forward, dropped in a backward */
} ShareRole;

typedef struct {
  guint8 kind;         /* EntryKind */
  guint8 phase, piece; /* of a segment, or a share; no kernels: the phase */
  guint8 roles;        /* ShareRole, of a share */
  gint32 of;           /* number of the segment, or of the source's entry */
  gint32 work;         /* of a share: the source's, of the op that is cut */
  gint32 number;       /* among the target's entries */
} ExpandEntry;

typedef struct {
  const Program *source;    /* borrowed, as the next two */
  const Workload *workload; /* its list of every piece has `segments` */
  Program *target;
  Segments segments;
  /* [source's entries] numbers of what was made of them; −1: none yet; owned */
  gint32 *works, *transfers, *effects, *held, *dropped;
  gint32 no_kernels[N_PHASES]; /* likewise */
  GHashTable *shares;          /* likewise, plus 1, of shares by what they are of; owned */
  GArray *made;                /* of ExpandEntry, one after another; owned */
} ExpandEntries;

void expand_entries_init(ExpandEntries *entries, const Program *source, const Workload *workload, Program *target);
void expand_entries_clear(ExpandEntries *entries);

/* Numbers of entries. `of` as ExpandEntry's; of ENTRY_WORK and those behind it. */
gint32 expand_entries_of_source(ExpandEntries *entries, EntryKind kind, gint32 of);
gint32 expand_entries_of_segment(ExpandEntries *entries, Phase phase, Piece piece, gint32 segment);
gint32 expand_entries_no_kernels(ExpandEntries *entries, Phase phase);
/* Of source effect `of` of an op with source work `work`; the piece is read for SHARE_PIECE alone. */
gint32 expand_entries_share(ExpandEntries *entries, gint32 of, gint32 work, Piece piece, guint8 roles);
/* Whether pieces of such an op hold, or drop, what they save for themselves: where a forward and a backward may take
 * turns, so that the one holds what the other drops, piece by piece. */
gboolean expand_entries_are_shared(const ExpandEntries *entries, gint32 of, gint32 work);
/* Makes entries of the same things again, in the same order. FALSE: they are not equal to one another as those were,
 * and some have other numbers. */
gboolean expand_entries_repeat(ExpandEntries *entries, const GArray *made);
