/* How long the sequences of a batch are, where they are not all as long as --seq-len says, and how micro-batches are
 * made of them.
 *
 *     none                    all as long as --seq-len
 *     uniform:A-B             every length from A to B as often
 *     lognormal:MEDIAN+SIGMA  exp(ln MEDIAN + SIGMA·z), z normal: most short, a few very long, as documents are
 *     FILE                    one length in each line, or a CSV with a column "length"; taken in order, and from the
 *                             beginning again
 *
 * The i-th length of a batch is a function of the seed and i alone. */
#pragma once
#include <glib.h>

typedef enum { LENGTHS_UNIFORM, LENGTHS_LOGNORMAL, LENGTHS_LISTED } LengthsKind;

typedef struct {
  LengthsKind kind;
  const char *text;     /* as --seq-lengths takes it */
  double least, most;   /* UNIFORM */
  double median, sigma; /* LOGNORMAL */
  gint64 *listed;       /* LISTED */
  gint64 n_listed;
} SeqLengths;

/* *lengths: NULL for "none"; else kept for good: equal texts (of files with equal contents) are the same. INPUT. */
gboolean seq_lengths_parse(const char *what, const char *text, const SeqLengths **lengths, GError **error);
/* Static. */
const char *seq_lengths_text(const SeqLengths *lengths);
/* The i-th of a batch, ≥ 1. */
gint64 seq_lengths_nth(const SeqLengths *lengths, guint64 seed, gint64 i);

/* About, with longer ones cut at `most`; of a lognormal its median, which is less. */
double seq_lengths_mean(const SeqLengths *lengths, gint64 most);

typedef enum {
  BATCHING_PADDED,       /* every sequence to --seq-len */
  BATCHING_LONGEST,      /* to the longest of its micro-batch */
  BATCHING_PACKED,       /* rows of --seq-len filled with whole sequences, first-fit decreasing; attention stays within
                            each */
  BATCHING_CONCATENATED, /* rows of --seq-len cut out of the sequences laid end to end; likewise */
  BATCHING_BALANCED,     /* no padding: the step's sequences dealt so that micro-batches have about as many tokens, each
                            laid end to end in one row; likewise */
  N_BATCHINGS
} Batching;
const char *const *batching_names(void);
static inline gboolean batching_packs(Batching batching) {
  return batching >= BATCHING_PACKED;
}
