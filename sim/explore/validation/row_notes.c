#include "row_notes.h"

#include <string.h>

#include "framework.h"

/* Behind `key` in the part that begins with it; NULL: there is none. Owned by the caller. */
static char *find_part(const char *notes, const char *key) {
  g_auto(GStrv) parts = g_strsplit(notes, ";", -1);
  for (char **part = parts; *part != NULL; part++)
    if (g_str_has_prefix(g_strstrip(*part), key))
      return g_strdup(*part + strlen(key));
  return NULL;
}

gint64 row_notes_norm_kernel(const char *notes) {
  g_autofree char *kernels = find_part(notes, "kernel=");
  return kernels != NULL && strstr(kernels, "RMS kernel") != NULL ? FRAMEWORK_KERNELS_FUSED : -1;
}

/* In place. */
static char *as_files_are_named(char *name) {
  for (char *c = name; *c != '\0'; c++)
    *c = *c == ' ' ? '-' : g_ascii_tolower(*c);
  return name;
}

/* torch.compile is compile, async TP is async-tp: as names of files are written. In place. */
static char *file_word(char *technique) {
  g_strstrip(technique);
  char *dot = strrchr(technique, '.');
  if (dot != NULL)
    memmove(technique, dot + 1, strlen(dot));
  return as_files_are_named(technique);
}

/* Adds the first of the techniques that the framework is described with. */
static gboolean add_technique(char *techniques[], char **name) {
  for (char **technique = techniques; *technique != NULL; technique++) {
    char *longer = g_strdup_printf("%s-%s", *name, *technique);
    if (**technique != '\0' && framework_is_described(longer)) {
      **technique = '\0'; /* once */
      g_free(*name);
      *name = longer;
      return TRUE;
    }
    g_free(longer);
  }
  return FALSE;
}

/* As it is written, where a file has that name; else as files are: Megatron-LM is megatron-lm. */
static char *file_name(const char *name) {
  if (*name == '\0')
    return g_strdup(name);
  char *as_file = as_files_are_named(g_strdup(name));
  if (!framework_is_described(name) && framework_is_described(as_file))
    return as_file;
  g_free(as_file);
  return g_strdup(name);
}

char *row_notes_framework(const char *notes, const char *name) {
  char *found = file_name(name);
  g_autofree char *listed = find_part(notes, "technique=");
  if (listed == NULL || *name == '\0')
    return found;
  g_auto(GStrv) techniques = g_strsplit(listed, "+", -1);
  for (char **technique = techniques; *technique != NULL; technique++)
    file_word(*technique);
  while (add_technique(techniques, &found))
    ;
  return found;
}

gboolean row_notes_list_techniques(const char *notes) {
  g_autofree char *listed = find_part(notes, "technique=");
  return listed != NULL;
}
