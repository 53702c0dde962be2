#include "import.h"

#include <string.h>

#include "error.h"
#include "recipe.h"
#include "units.h"

static void clear_key(gpointer data) {
  ImportKey *key = data;
  g_free(key->key);
  g_free(key->text);
}

void import_init(Import *import, PlanFile *file, const ImportRow *rows, gint64 gpus) {
  *import = (Import){.file = file, .rows = rows, .gpus = gpus};
  import->keys = g_array_new(FALSE, FALSE, sizeof(ImportKey));
  g_array_set_clear_func(import->keys, clear_key);
}

void import_clear(Import *import) {
  g_clear_pointer(&import->keys, g_array_unref);
}

static ImportKey *nth(const Import *import, guint i) {
  return &g_array_index(import->keys, ImportKey, i);
}

const ImportKey *import_find(const Import *import, const char *key) {
  for (guint i = 0; i < import->keys->len; i++)
    if (strcmp(nth(import, i)->key, key) == 0)
      return nth(import, i);
  return NULL;
}

const char *import_text(const Import *import, const char *key) {
  const ImportKey *found = import_find(import, key);
  return found != NULL ? found->text : NULL;
}

gboolean import_is(const Import *import, const char *key, const char *text) {
  const char *found = import_text(import, key);
  return found != NULL && g_ascii_strcasecmp(found, text) == 0;
}

gint64 import_count(const Import *import, const char *key, gint64 otherwise) {
  const char *text = import_text(import, key);
  gint64 count = otherwise;
  return text != NULL && units_parse_whole(text, -1, IMPORT_MOST, &count, NULL) ? count : otherwise;
}

gint64 import_product(gint64 a, gint64 b) {
  gint64 product;
  return __builtin_mul_overflow(a, b, &product) ? IMPORT_MOST : MIN(product, IMPORT_MOST);
}

static guint line_of(const Import *import, const char *key) {
  const ImportKey *found = import_find(import, key);
  return found != NULL ? found->line : 1;
}

void import_add(Import *import, const char *key, const char *text, guint line) {
  ImportKey *before = (ImportKey *)import_find(import, key);
  if (before == NULL) {
    const ImportKey added = {g_strdup(key), g_strdup(text), line};
    g_array_append_val(import->keys, added);
    return;
  }
  if (strcmp(before->text, text) != 0)
    import_notice(import, key, "found again in line %u, as %s, which counts", line, text);
  g_free(before->text);
  before->text = g_strdup(text);
  before->line = line;
}

void import_set(Import *import, const char *key, const char *option, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  plan_file_add(import->file, option, text, line_of(import, key));
}

void import_set_recipe(Import *import, const char *key, const double bytes[5]) {
  const char *name = NULL;
  Recipe of_preset;
  for (const char *const *preset = recipe_names(); *preset != NULL && name == NULL; preset++)
    if (recipe_parse(*preset, &of_preset, NULL) && of_preset.weights == bytes[0] && of_preset.gradients == bytes[1] &&
        of_preset.master == bytes[2] && of_preset.moments == bytes[3] + bytes[4] && of_preset.frozen == 0)
      name = *preset;
  if (name != NULL)
    import_set(import, key, "recipe", "%s", name);
  else
    import_set(import, key, "recipe", "w%g+g%g+p%g+m%g+v%g", bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]);
}

/* Takes the message. */
static void add_notice(Import *import, const char *key, const char *option, char *message) {
  const char *text = import_text(import, key);
  const PlanFileNotice notice = {
      g_strdup_printf("%s%s%.80s", key, text != NULL && *text != '\0' ? " " : "", text != NULL ? text : ""), message,
      option, line_of(import, key)};
  g_array_append_val(import->file->notices, notice);
}

void import_notice(Import *import, const char *key, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  add_notice(import, key, NULL, g_strdup_vprintf(format, arguments));
  va_end(arguments);
}

void import_ask(Import *import, const char *key, const char *option, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  add_notice(import, key, option, g_strdup_vprintf(format, arguments));
  va_end(arguments);
}

static const ImportRow *row_of(const Import *import, const char *key) {
  for (const ImportRow *row = import->rows; row->key != NULL; row++) {
    const gsize length = strlen(row->key);
    if (row->key[length - 1] == '*' ? strncmp(key, row->key, length - 1) == 0 : strcmp(key, row->key) == 0)
      return row;
  }
  return NULL;
}

static gboolean add_fact(Import *import, const ImportKey *key, const ImportRow *row, GError **error) {
  PlanFileFact fact = {.offset = row->offset, .line = key->line};
  if (!units_parse_whole(key->text, 0, G_MAXINT64, &fact.value, error)) {
    g_prefix_error(error, "%s:%u: %s: ", import->file->path, key->line, key->key);
    return FALSE;
  }
  fact.key = g_strdup(key->key);
  g_array_append_val(import->file->facts, fact);
  return TRUE;
}

gboolean import_take(Import *import, GError **error) {
  for (guint i = 0; i < import->keys->len; i++) {
    const ImportKey *key = nth(import, i);
    const ImportRow *row = row_of(import, key->key);
    if (row == NULL)
      import_notice(import, key->key, "not understood, and left out of the plan");
    else if (row->use == IMPORT_OPTION)
      plan_file_add(import->file, row->option, key->text, key->line);
    else if (row->use == IMPORT_FACT && !add_fact(import, key, row, error))
      return FALSE;
  }
  return TRUE;
}
