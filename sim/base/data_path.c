/* A described thing is named by a path or by a bare name. Bare names are looked up as <root>/<subdir>/<name><suffix>,
 * the user's own folders before the shipped data:
 *
 *     .   $STEPSIM_DATA   the source folder   the installed data
 *
 * An installed program or library takes the data installed with it, wherever the installation was staged (DESTDIR) or
 * moved to, and not those of the folder it was built from. */
#include "data_path.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "error.h"
#include "suggest.h"

enum { N_ROOTS = 4 };
static const gsize largest_file_bytes = 64u << 20;

typedef struct {
  const char *folders[N_ROOTS]; /* NULL: none */
} Roots;

/* NULL: there is none. Owned by the caller. */
static char *realpath_of(const char *path) {
  char *real = realpath(path, NULL), *copy = g_strdup(real);
  free(real);
  return copy;
}

/* The data installed with a program or library `file`, whose folder is called `installed`; NULL: it is elsewhere. Owned
 * by the caller. */
static char *data_installed_with(const char *file, const char *installed) {
  g_autofree char *folder = file != NULL ? g_path_get_dirname(file) : NULL;
  if (folder == NULL || !g_str_has_suffix(folder, installed))
    return NULL;
  g_autofree char *prefix = g_strndup(folder, strlen(folder) - strlen(installed));
  g_autofree char *data = g_strconcat(prefix, STEPSIM_INSTALL_DATA, NULL);
  return g_file_test(data, G_FILE_TEST_IS_DIR) ? g_steal_pointer(&data) : NULL;
}

/* With the library that this is part of, whatever program uses it, or with the running program; NULL: neither runs from
 * where it is installed. Owned by the caller. */
static char *find_installed_data(void) {
  Dl_info object;
  g_autofree char *library =
      dladdr((gconstpointer)find_installed_data, &object) != 0 ? realpath_of(object.dli_fname) : NULL;
  char *data = data_installed_with(library, STEPSIM_INSTALL_LIBRARY);
  if (data != NULL)
    return data;
  g_autofree char *program = g_file_read_link("/proc/self/exe", NULL);
  return data_installed_with(program, STEPSIM_INSTALL_PROGRAMS);
}

/* Where the program or library lies is looked up once; $STEPSIM_DATA may change. */
static Roots roots_of_process(void) {
  static gsize is_found;
  static const char *installed;
  if (g_once_init_enter(&is_found)) {
    installed = find_installed_data();
    g_once_init_leave(&is_found, 1);
  }
  if (installed != NULL)
    return (Roots){{".", g_getenv("STEPSIM_DATA"), installed}};
  return (Roots){{".", g_getenv("STEPSIM_DATA"), STEPSIM_SOURCE_DATA, STEPSIM_PREFIX STEPSIM_INSTALL_DATA}};
}

/* Pipes and devices count: `<(command)` is one. Folders do not. */
static gboolean is_readable_kind(const char *path) {
  return g_file_test(path, G_FILE_TEST_EXISTS) && !g_file_test(path, G_FILE_TEST_IS_DIR);
}

/* "models/x.json" and "x.json" both become "x", for subdir "models" and suffix ".json". Owned by the caller. */
static char *bare_name(const char *subdir, const char *name, const char *suffix) {
  g_autofree char *prefix = g_strconcat(subdir, "/", NULL);
  const char *start = g_str_has_prefix(name, prefix) ? name + strlen(prefix) : name;
  gsize length = strlen(start);
  if (g_str_has_suffix(start, suffix))
    length -= strlen(suffix);
  return g_strndup(start, length);
}

GStrv data_path_list(const char *subdir, const char *suffix) {
  const Roots roots = roots_of_process();
  g_autoptr(GHashTable) names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (int i = 0; i < N_ROOTS; i++) {
    if (roots.folders[i] == NULL)
      continue;
    g_autofree char *folder = g_build_filename(roots.folders[i], subdir, NULL);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *entry;
    while (dir != NULL && (entry = g_dir_read_name(dir)) != NULL)
      if (g_str_has_suffix(entry, suffix) && strlen(entry) > strlen(suffix))
        g_hash_table_add(names, g_strndup(entry, strlen(entry) - strlen(suffix)));
  }
  g_autoptr(GList) sorted = g_list_sort(g_hash_table_get_keys(names), (GCompareFunc)g_strcmp0);
  GStrvBuilder *builder = g_strv_builder_new();
  for (GList *at = sorted; at != NULL; at = at->next)
    g_strv_builder_add(builder, at->data);
  GStrv list = g_strv_builder_end(builder);
  g_strv_builder_unref(builder);
  return list;
}

/* What `stepsim list` calls the files of a folder; NULL: it does not list them. */
static const char *listed_as(const char *subdir) {
  static const char *const kinds[][2] = {{"models", "models"},
                                         {"topologies", "clusters"},
                                         {"topologies/gpus", "gpus"},
                                         {"topologies/frameworks", "frameworks"}};
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    if (strcmp(subdir, kinds[i][0]) == 0)
      return kinds[i][1];
  return NULL;
}

/* The names, or where they are listed. Owned by the caller. */
static char *expected_of(const char *subdir, char **known) {
  const char *kind = listed_as(subdir);
  return kind != NULL ? g_strdup_printf("stepsim list %s shows the %u that there are", kind, g_strv_length(known))
                      : suggest_message("", (const char *const *)known);
}

/* A bare name that is near others gets them as suggestions, and so does a path; the list is for a bare name that is
 * near none. */
static void fail_not_found(const char *subdir, const char *name, const char *bare, const char *suffix, GError **error) {
  g_auto(GStrv) known = data_path_list(subdir, suffix);
  const char *slash = strrchr(bare, '/');
  g_autofree char *question = suggest_question(slash != NULL ? slash + 1 : bare, (const char *const *)known);
  g_autofree char *expected = expected_of(subdir, known);
  if (g_file_test(name, G_FILE_TEST_IS_DIR))
    fail_input(error, "%.200s: a folder, expected a file", name);
  else if (known[0] == NULL)
    fail_input(error, "%.200s: no such file, and no %s/*%s was found", name, subdir, suffix);
  else if (slash != NULL)
    fail_input(error, "%.200s: no such file%s%s", name, question != NULL ? "; " : "", question != NULL ? question : "");
  else if (question != NULL)
    fail_input(error, "%.200s: no such file, and none of that name in %s/, which has %u; %s", name, subdir,
               g_strv_length(known), question);
  else
    fail_input(error, "%.200s: no such file, and none of that name in %s/; %s", name, subdir, expected);
}

char *data_path_find(const char *subdir, const char *name, const char *suffix, GError **error) {
  if (name == NULL || name[0] == '\0') {
    g_auto(GStrv) known = data_path_list(subdir, suffix);
    g_autofree char *expected = expected_of(subdir, known);
    fail_input(error, "found an empty name where a file of %s/ belongs, %s", subdir, expected);
    return NULL;
  }
  if (is_readable_kind(name))
    return g_strdup(name);
  g_autofree char *bare = bare_name(subdir, name, suffix);
  g_autofree char *file = g_strconcat(bare, suffix, NULL);
  const Roots roots = roots_of_process();
  for (int i = 0; i < N_ROOTS && strchr(bare, '/') == NULL; i++) {
    if (roots.folders[i] == NULL)
      continue;
    g_autofree char *path = g_build_filename(roots.folders[i], subdir, file, NULL);
    if (is_readable_kind(path))
      return g_steal_pointer(&path);
  }
  if (error != NULL) /* which looks through folders for what may be meant */
    fail_not_found(subdir, name, bare, suffix, error);
  return NULL;
}

/* Owned by the caller; NULL: not shipped with the program. */
static char *find_shipped(const char *name, const char *subdir, const char *suffix) {
  g_autofree char *folder = g_path_get_basename(subdir);
  g_autofree char *prefix = g_strconcat(folder, "/", NULL);
  return g_str_has_prefix(name, prefix) ? data_path_find(subdir, name + strlen(prefix), suffix, NULL) : NULL;
}

char *data_path_find_beside(const char *file, const char *subdir, const char *name, const char *suffix,
                            GError **error) {
  g_autofree char *folder = g_path_get_dirname(file);
  g_autofree char *beside = g_path_is_absolute(name) ? g_strdup(name) : g_build_filename(folder, name, NULL);
  if (is_readable_kind(beside))
    return g_steal_pointer(&beside);
  char *shipped = find_shipped(name, subdir, suffix);
  return shipped != NULL ? shipped : data_path_find(subdir, name, suffix, error);
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

static gboolean is_inside(const char *path, const char *folder) {
  g_autofree char *real = realpath_of(folder);
  return real != NULL && g_str_has_prefix(path, real) && path[strlen(real)] == '/';
}

/* Where what is read was written by someone else, as on the lab's page, a description may not name any file of this
 * machine: $STEPSIM_CONFINED is then the one folder that is read besides the data. */
static gboolean may_be_read(const char *file) {
  static const char *const subdirs[] = {"models", "topologies"};
  const char *own = g_getenv("STEPSIM_CONFINED");
  g_autofree char *path = own != NULL ? realpath_of(file) : NULL;
  if (path == NULL || is_inside(path, own)) /* what is not there cannot be read anyway */
    return TRUE;
  const Roots roots = roots_of_process();
  for (int i = 1; i < N_ROOTS; i++)
    for (gsize k = 0; k < G_N_ELEMENTS(subdirs); k++) {
      g_autofree char *folder = roots.folders[i] != NULL ? g_build_filename(roots.folders[i], subdirs[k], NULL) : NULL;
      if (folder != NULL && is_inside(path, folder))
        return TRUE;
    }
  return FALSE;
}

static char *fail_read(const char *file, GError **error) {
  fail_input(error, "%s: cannot be read: %s", file, g_strerror(errno));
  return NULL;
}

/* The rest of an open file. */
static char *read_all(const char *file, int fd, gsize *length, GError **error) {
  g_autoptr(GByteArray) text = g_byte_array_new();
  guint8 block[64 << 10];
  gssize n_read;
  while ((n_read = read(fd, block, sizeof block)) != 0) {
    if (n_read < 0 && errno == EINTR)
      continue;
    if (n_read < 0)
      return fail_read(file, error);
    g_byte_array_append(text, block, (guint)n_read);
    if (text->len > largest_file_bytes) {
      fail_input(error, "%s: larger than %u MiB, expected a description", file, (guint)(largest_file_bytes >> 20));
      return NULL;
    }
  }
  *length = text->len;
  g_byte_array_append(text, (const guint8 *)"", 1);
  return (char *)g_byte_array_free(g_steal_pointer(&text), FALSE);
}

/* Files that were read: keys are "device/inode". Sweeps read on several threads. */
G_LOCK_DEFINE_STATIC(files_read);
static GHashTable *files_read;

static char *key_of(const struct stat *status) {
  return g_strdup_printf("%ju/%ju", (uintmax_t)status->st_dev, (uintmax_t)status->st_ino);
}

static void note_read(int fd) {
  struct stat status;
  if (fstat(fd, &status) != 0)
    return;
  G_LOCK(files_read);
  if (files_read == NULL)
    files_read = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  g_hash_table_add(files_read, key_of(&status));
  G_UNLOCK(files_read);
}

gboolean data_file_was_read(const struct stat *status) {
  g_autofree char *key = key_of(status);
  G_LOCK(files_read);
  const gboolean was_read = files_read != NULL && g_hash_table_contains(files_read, key);
  G_UNLOCK(files_read);
  return was_read;
}

char *data_file_read(const char *file, gsize *length, GError **error) {
  if (!may_be_read(file)) {
    errno = EACCES;
    return fail_read(file, error);
  }
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return fail_read(file, error);
  note_read(fd);
  char *text = read_all(file, fd, length, error);
  close(fd);
  return text;
}
