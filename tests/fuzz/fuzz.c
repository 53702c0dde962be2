/* libFuzzer's side: one program for all readers, `fuzz --reader=NAME`. Each input is written to a file and given to
 * that reader, which must accept it or refuse it with an error that main() could print. Anything else is a finding, as
 * are sanitizer reports, endless loops and unbounded memory. With --tell it prints the outcome of each input. */
#include "fuzz_readers.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

/* Longer messages bury what is wrong. */
enum { LONGEST_MESSAGE = 8192 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const guint8 *data, size_t size);

typedef struct {
  const char *name;
  FuzzReader read;
} NamedReader;

static const NamedReader readers[] = {
    {"model", fuzz_model},
    {"cluster", fuzz_cluster},
    {"gpu", fuzz_gpu},
    {"collective-library", fuzz_collective_library},
    {"framework", fuzz_framework},
    {"rank-map", fuzz_rank_map},
    {"nccl-xml", fuzz_nccl_xml},
    {"smi-matrix", fuzz_smi_matrix},
    {"nccl-tests", fuzz_nccl_tests},
    {"order", fuzz_order},
    {"program", fuzz_program},
    {"trace", fuzz_trace},
    {"profile", fuzz_profile},
    {"space", fuzz_space},
    {"csv", fuzz_csv},
    {"measured", fuzz_measured},
    {"database", fuzz_database},
    {"words", fuzz_words},
    {"plan", fuzz_plan},
    {"plan-file", fuzz_plan_file},
};

/* libFuzzer calls back without a context. */
static struct {
  FuzzReader read;
  gboolean tells;
  char *folder, *file;
} fuzz;

static FuzzReader find_reader(const char *name) {
  g_autoptr(GString) names = g_string_new(NULL);
  for (guint i = 0; i < G_N_ELEMENTS(readers); i++) {
    if (strcmp(readers[i].name, name) == 0)
      return readers[i].read;
    g_string_append_printf(names, "%s%s", i > 0 ? ", " : "", readers[i].name);
  }
  g_printerr("found --reader=%s, expected one of %s\n", name, names->str);
  exit(2);
}

static void remove_file(void) {
  g_unlink(fuzz.file);
  g_rmdir(fuzz.folder);
  g_clear_pointer(&fuzz.file, g_free);
  g_clear_pointer(&fuzz.folder, g_free);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  static const char prefix[] = "--reader="; /* libFuzzer leaves two dashes alone */
  const char *name = "";
  for (int i = 1; i < *argc; i++) {
    if (g_str_has_prefix((*argv)[i], prefix))
      name = (*argv)[i] + strlen(prefix);
    fuzz.tells |= strcmp((*argv)[i], "--tell") == 0;
  }
  fuzz.read = find_reader(name);
  fuzz.folder = g_dir_make_tmp("stepsim-fuzz-XXXXXX", NULL);
  if (fuzz.folder == NULL) {
    g_printerr("no folder for inputs in %s\n", g_get_tmp_dir());
    exit(2);
  }
  fuzz.file = g_build_filename(fuzz.folder, "input", NULL);
  atexit(remove_file);
  return 0;
}

static void check_error(const GError *error) {
  FUZZ_REQUIRE(error != NULL);
  FUZZ_REQUIRE(error->domain == STEPSIM_ERROR);
  FUZZ_REQUIRE(error->code == STEPSIM_ERROR_INPUT || error->code == STEPSIM_ERROR_IMPOSSIBLE);
  const gsize length = strlen(error->message);
  if (length == 0 || length > LONGEST_MESSAGE)
    g_error("a message of %" G_GSIZE_FORMAT " bytes: %.200s", length, error->message);
  FUZZ_REQUIRE(g_utf8_validate(error->message, -1, NULL));
}

int LLVMFuzzerTestOneInput(const guint8 *data, size_t size) {
  g_autofree char *text = g_malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
  FILE *stream = fopen(fuzz.file, "wb");
  if (stream == NULL || fwrite(text, 1, size, stream) != size || fclose(stream) != 0)
    g_error("%s cannot be written", fuzz.file);
  const FuzzInput input = {.file = fuzz.file, .text = text, .length = size};
  g_autoptr(GError) error = NULL;
  if (fuzz.read(&input, &error))
    FUZZ_REQUIRE(error == NULL);
  else
    check_error(error);
  if (fuzz.tells)
    g_printerr("%s%s\n", error == NULL ? "accepted" : "refused: ", error == NULL ? "" : error->message);
  return 0;
}
