/* The temporary lies beside its target, so that the rename stays within one file system and is atomic. Write errors
 * (a full disk shows up as late as the last flush or the close) are remembered, not returned from every write. */
#include "whole_file.h"

#include "error.h"
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18 };

static gboolean fail_write(const char *file, int code, GError **error) {
  return fail_input(error, "cannot write %s: %s", strcmp(file, "-") == 0 ? "standard output" : file, g_strerror(code));
}

static FILE *open_temporary(WholeFile *out, const struct stat *existing) {
  char *resolved = existing ? realpath(out->file, NULL) : NULL;
  out->target = g_strdup(resolved ? resolved : out->file);
  free(resolved);
  g_autofree char *folder = g_path_get_dirname(out->target);
  out->temporary = g_build_filename(folder, ".stepsim-XXXXXX", NULL);
  int fd = g_mkstemp_full(out->temporary, O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) {
    int code = errno;
    g_clear_pointer(&out->temporary, g_free);
    errno = code;
    return NULL;
  }
  if (existing && fchmod(fd, existing->st_mode & 07777) != 0)
    out->failure = errno;
  return fdopen(fd, "w");
}

/* Standard output, closed on its own: what was printed before comes before. */
static FILE *open_standard(void) {
  fflush(stdout);
  int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
  return fd >= 0 ? fdopen(fd, "w") : NULL;
}

gboolean whole_file_open(WholeFile *out, const char *file, GError **error) {
  *out = (WholeFile){.file = g_strdup(file ? file : "")};
  if (!file || !*file) {
    whole_file_discard(out);
    return fail_input(error, "cannot write a file without a name");
  }
  struct stat status;
  gboolean exists = stat(file, &status) == 0;
  if (strcmp(file, "-") == 0)
    out->stream = open_standard();
  else if (exists && !S_ISREG(status.st_mode))
    out->stream = fopen(file, "we");
  else
    out->stream = open_temporary(out, exists ? &status : NULL);
  if (!out->stream) {
    int code = errno;
    whole_file_discard(out);
    return fail_write(file, code, error);
  }
  setvbuf(out->stream, NULL, _IOFBF, BUFFER_BYTES);
  return TRUE;
}

void whole_file_write(WholeFile *out, const char *data, gsize n_bytes) {
  if (out->failure == 0 && fwrite(data, 1, n_bytes, out->stream) != n_bytes)
    out->failure = errno ? errno : EIO;
}

gboolean whole_file_close(WholeFile *out, GError **error) {
  if (fclose(out->stream) != 0 && out->failure == 0)
    out->failure = errno;
  out->stream = NULL;
  if (out->failure == 0 && out->temporary) {
    if (g_rename(out->temporary, out->target) != 0)
      out->failure = errno;
    else
      g_clear_pointer(&out->temporary, g_free);
  }
  int failure = out->failure;
  if (failure != 0)
    fail_write(out->file, failure, error);
  whole_file_discard(out);
  return failure == 0;
}

void whole_file_discard(WholeFile *out) {
  if (out->stream)
    fclose(out->stream);
  if (out->temporary)
    g_unlink(out->temporary);
  g_free(out->file);
  g_free(out->target);
  g_free(out->temporary);
  *out = (WholeFile){0};
}
