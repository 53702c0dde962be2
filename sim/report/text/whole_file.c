/* The temporary lies beside its target, so that the rename stays within one file system and is atomic:
 *
 *     open    an unnamed file in the target's folder (Linux), or one named .stepsim-…; killed now, the first
 *             leaves nothing
 *     close   name it .stepsim-…, rename that to the target
 *
 * Write errors (a full disk shows up as late as the last flush or the close) are remembered, not returned from every
 * write. */
#include "whole_file.h"

#include "data_path.h"
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

/* The name under which an unnamed file is found while it is open. Owned by the caller. */
static char *path_of_fd(int fd) {
  return g_strdup_printf("/proc/self/fd/%d", fd);
}

/* Or −1 where the system has no unnamed files. */
static int open_unnamed(const char *folder) {
#ifdef O_TMPFILE
  int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  g_autofree char *path = fd >= 0 ? path_of_fd(fd) : NULL;
  if (!path || access(path, F_OK) == 0)
    return fd;
  close(fd); /* it could never be named */
#endif
  return -1;
}

static int open_named(WholeFile *out, const char *folder) {
  out->temporary = g_build_filename(folder, ".stepsim-XXXXXX", NULL);
  int fd = g_mkstemp_full(out->temporary, O_WRONLY | O_CLOEXEC, 0666);
  int code = errno;
  if (fd < 0)
    g_clear_pointer(&out->temporary, g_free);
  errno = code;
  return fd;
}

/* An unnamed file gets a name of its own beside the target. */
static void name_unnamed(WholeFile *out) {
  enum { MOST_TRIES = 1000 }; /* names left by earlier runs that were killed right here */
  g_autofree char *path = path_of_fd(fileno(out->stream));
  g_autofree char *folder = g_path_get_dirname(out->target);
  for (int i = 0; i < MOST_TRIES; i++) {
    g_autofree char *name = g_strdup_printf("%s/.stepsim-%d-%d", folder, (int)getpid(), i);
    if (linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
      out->temporary = g_steal_pointer(&name);
      return;
    }
    if (errno != EEXIST)
      break;
  }
  out->failure = errno;
}

static FILE *open_temporary(WholeFile *out, const struct stat *existing) {
  char *resolved = existing ? realpath(out->file, NULL) : NULL;
  out->target = g_strdup(resolved ? resolved : out->file);
  free(resolved);
  g_autofree char *folder = g_path_get_dirname(out->target);
  int fd = open_unnamed(folder);
  if (fd < 0)
    fd = open_named(out, folder);
  if (fd < 0)
    return NULL;
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

gboolean whole_file_open_apart(WholeFile *out, const char *file, GError **error) {
  struct stat status;
  *out = (WholeFile){0};
  if (file != NULL && strcmp(file, "-") != 0 && stat(file, &status) == 0 && S_ISREG(status.st_mode) &&
      data_file_was_read(&status))
    return fail_input(error, "%s: was read for what is to be written there, expected another file", file);
  return whole_file_open(out, file, error);
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
  if (fflush(out->stream) != 0 && out->failure == 0)
    out->failure = errno;
  if (out->failure == 0 && out->target && !out->temporary)
    name_unnamed(out);
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
