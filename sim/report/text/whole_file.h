/* A file that appears whole or not at all: written under a temporary name in its own folder, renamed at the end.
 * Symbolic links are followed; devices and pipes are written in place, and "-" is standard output. */
#pragma once
#include <glib.h>
#include <stdio.h>

typedef struct {
  char *file;      /* as the user named it; owned */
  char *target;    /* target to be replaced on close; NULL if written in place; owned */
  char *temporary; /* NULL if written in place, or while the file has no name; owned */
  FILE *stream;    /* NULL when closed */
  int failure;     /* errno of the first failed write; 0 = none */
} WholeFile;

/* INPUT naming the file and the reason. */
gboolean whole_file_open(WholeFile *out, const char *file, GError **error);
/* The same, and a file that was read is refused: some are named only in others, as a cluster's GPU. */
gboolean whole_file_open_apart(WholeFile *out, const char *file, GError **error);
/* Failures are kept for whole_file_close(); later writes are skipped. */
void whole_file_write(WholeFile *out, const char *data, gsize n_bytes);
/* Flush and publish. INPUT naming the file and the reason of the first failure; no file was created or changed
 * then. */
gboolean whole_file_close(WholeFile *out, GError **error);
/* Discard an open file without publishing it. Accepts one that is closed or zeroed. */
void whole_file_discard(WholeFile *out);
