/* A GPU without tables, and one with all that tables can say, as texts and as files. */
#pragma once
#include "gpu.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>

#define FIXTURES STEPSIM_SOURCE_DATA "/tests/data"

static char *bare_text;   /* a GPU without tables */
static char *tables_text; /* everything that tables can say */
static char *gpu_text;    /* one after the other */
static char *path;        /* of the file the tests write */

static inline void set_up(void) {
  g_autofree char *folder = g_dir_make_tmp("stepsim-measured-XXXXXX", NULL);
  ck_assert_ptr_nonnull(folder);
  path = g_build_filename(folder, "gpu.yaml", NULL);
  ck_assert(g_file_get_contents(FIXTURES "/gpu.yaml", &bare_text, NULL, NULL));
  ck_assert(g_file_get_contents(FIXTURES "/gpu-measured.yaml", &tables_text, NULL, NULL));
  gpu_text = g_strconcat(bare_text, tables_text, NULL);
}

static inline void tear_down(void) {
  g_autofree char *folder = g_path_get_dirname(path);
  g_unlink(path);
  g_rmdir(folder);
  g_clear_pointer(&path, g_free);
  g_clear_pointer(&gpu_text, g_free);
  g_clear_pointer(&tables_text, g_free);
  g_clear_pointer(&bare_text, g_free);
}

static inline gboolean read_gpu(const char *text, Gpu *gpu, GError **error) {
  FILE *file = fopen(path, "wb");
  ck_assert_ptr_nonnull(file);
  ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
  ck_assert_int_eq(fclose(file), 0);
  return gpu_read(path, gpu, error);
}

/* The fixture's GPU with `tables` (lines indented by two) in place of its own. */
static inline Gpu gpu_with(const char *tables) {
  g_autofree char *text = g_strconcat(bare_text, "measured:\n  source: this test\n", tables, NULL);
  g_autoptr(GError) error = NULL;
  Gpu gpu = {0};
  ck_assert_msg(read_gpu(text, &gpu, &error), "%s", error != NULL ? error->message : "");
  return gpu;
}
