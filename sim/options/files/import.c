#include "import.h"

#include <string.h>

#include "error.h"
#include "recipe.h"
#include "suggest.h"
#include "units.h"

static void clear_key(gpointer data) {
  ImportKey *key = data;
  g_free(key->key);
  g_free(key->text);
}

/* A file of unknown keys would else bury what matters. */
enum { MOST_ALIKE = 5 };

typedef struct {
  const char *format; /* static */
  char *key;          /* of the first; owned */
  guint n;
} Told;

static void clear_told(gpointer data) {
  g_free(((Told *)data)->key);
}

void import_init(Import *import, PlanFile *file, const ImportRow *rows, gint64 gpus) {
  *import = (Import){.file = file, .rows = rows, .gpus = gpus};
  import->keys = g_array_new(FALSE, FALSE, sizeof(ImportKey));
  g_array_set_clear_func(import->keys, clear_key);
  import->places = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  import->told = g_array_new(FALSE, FALSE, sizeof(Told));
  g_array_set_clear_func(import->told, clear_told);
  import->mistake = g_new0(GError *, 1);
}

void import_clear(Import *import) {
  g_clear_pointer(&import->keys, g_array_unref);
  g_clear_pointer(&import->places, g_hash_table_unref);
  g_clear_pointer(&import->told, g_array_unref);
  g_clear_error(import->mistake);
  g_clear_pointer(&import->mistake, g_free);
}

static ImportKey *nth(const Import *import, guint i) {
  return &g_array_index(import->keys, ImportKey, i);
}

const ImportKey *import_find(const Import *import, const char *key) {
  const guint place = GPOINTER_TO_UINT(g_hash_table_lookup(import->places, key));
  return place > 0 ? nth(import, place - 1) : NULL;
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
  g_autoptr(GError) error = NULL;
  if (text == NULL || units_parse_whole(text, -1, IMPORT_MOST, &count, &error))
    return count;
  import_fail(import, key, "%s", error->message);
  return otherwise;
}

gint64 import_product(gint64 a, gint64 b) {
  gint64 product;
  return __builtin_mul_overflow(a, b, &product) ? IMPORT_MOST : MIN(product, IMPORT_MOST);
}

static guint line_of(const Import *import, const char *key) {
  const ImportKey *found = import_find(import, key);
  return found != NULL ? found->line : 1;
}

void import_fail(const Import *import, const char *key, const char *format, ...) {
  if (*import->mistake != NULL)
    return;
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  fail_input(import->mistake, "%s:%u: %s: %s", import->file->path, line_of(import, key), key, message);
}

void import_add(Import *import, const char *key, const char *text, guint line) {
  ImportKey *before = (ImportKey *)import_find(import, key);
  if (before == NULL) {
    const ImportKey added = {g_strdup(key), g_strdup(text), line};
    g_array_append_val(import->keys, added);
    g_hash_table_insert(import->places, g_strdup(key), GUINT_TO_POINTER(import->keys->len));
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

void import_drop(Import *import, gboolean (*is_dropped)(Import *import, const ImportKey *key)) {
  guint n_kept = 0;
  for (guint i = 0; i < import->keys->len; i++) {
    ImportKey *key = nth(import, i), *free_one = nth(import, n_kept);
    if (is_dropped(import, key)) {
      g_hash_table_remove(import->places, key->key);
      continue;
    }
    const ImportKey kept = *key;
    *key = *free_one; /* which is dropped, or the same */
    *free_one = kept;
    g_hash_table_replace(import->places, g_strdup(kept.key), GUINT_TO_POINTER(++n_kept));
  }
  g_array_set_size(import->keys, n_kept);
}

/* Whether one more notice of that format is to be told. */
static gboolean is_told(Import *import, const char *key, const char *format) {
  for (guint i = 0; i < import->told->len; i++) {
    Told *told = &g_array_index(import->told, Told, i);
    if (told->format == format)
      return ++told->n <= MOST_ALIKE;
  }
  const Told first = {format, g_strdup(key), 1};
  g_array_append_val(import->told, first);
  return TRUE;
}

/* Those that were not told. */
static void tell_rest(Import *import) {
  for (guint i = 0; i < import->told->len; i++) {
    const Told *told = &g_array_index(import->told, Told, i);
    if (told->n > MOST_ALIKE)
      add_notice(import, told->key, NULL, g_strdup_printf("and %u more like that", told->n - MOST_ALIKE));
  }
}

void import_notice(Import *import, const char *key, const char *format, ...) {
  if (!is_told(import, key, format))
    return;
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

gboolean import_check_known(const Import *import, const char *expected, GError **error) {
  for (guint i = 0; i < import->keys->len; i++) {
    const ImportRow *row = row_of(import, nth(import, i)->key);
    if (row != NULL && row->use != IMPORT_UNUSED)
      return TRUE;
  }
  return fail_input(error, "%s: found nothing of a plan, expected %s", import->file->path, expected);
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

static gboolean check_value(Import *import, const ImportKey *key, const ImportRow *row) {
  gint64 count;
  g_autoptr(GError) error = NULL;
  if (row->least > 0 && !units_parse_whole(key->text, row->least, IMPORT_MOST, &count, &error)) {
    import_fail(import, key->key, "%s", error->message);
    return FALSE;
  }
  for (const char *const *value = row->values; value != NULL; value++)
    if (*value == NULL) {
      g_autofree char *expected = suggest_message(key->text, row->values);
      import_fail(import, key->key, "found \"%.80s\", %s", key->text, expected);
      return FALSE;
    } else if (g_ascii_strcasecmp(*value, key->text) == 0) {
      return TRUE;
    }
  return TRUE;
}

static gboolean take(Import *import, const ImportKey *key, const ImportRow *row, GError **error) {
  if (row == NULL)
    import_notice(import, key->key, "not understood, and left out of the plan");
  else if (row->use == IMPORT_OPTION)
    plan_file_add(import->file, row->option, key->text, key->line);
  return row == NULL ||
         (check_value(import, key, row) && (row->use != IMPORT_FACT || add_fact(import, key, row, error)));
}

gboolean import_take(Import *import, GError **error) {
  gboolean is_taken = TRUE;
  for (guint i = 0; i < import->keys->len && is_taken; i++)
    is_taken = take(import, nth(import, i), row_of(import, nth(import, i)->key), error);
  tell_rest(import);
  if (*import->mistake == NULL)
    return is_taken;
  g_clear_error(error);
  g_propagate_error(error, g_steal_pointer(import->mistake));
  return FALSE;
}
