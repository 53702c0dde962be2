#include "plan_file.h"

#include <stdio.h>
#include <string.h>

#include "data_path.h"
#include "error.h"
#include "plan_fields.h"
#include "schedules.h"
#include "suggest.h"
#include "yaml_node.h"

static void clear_entry(gpointer data) {
  g_free(((PlanFileEntry *)data)->text);
}

static void clear_fact(gpointer data) {
  g_free(((PlanFileFact *)data)->key);
}

static void clear_notice(gpointer data) {
  PlanFileNotice *notice = data;
  g_free(notice->what);
  g_free(notice->message);
}

PlanFile *plan_file_new(const char *path) {
  PlanFile *file = g_new0(PlanFile, 1);
  file->path = g_strdup(path);
  file->entries = g_array_new(FALSE, FALSE, sizeof(PlanFileEntry));
  g_array_set_clear_func(file->entries, clear_entry);
  file->facts = g_array_new(FALSE, FALSE, sizeof(PlanFileFact));
  g_array_set_clear_func(file->facts, clear_fact);
  file->notices = g_array_new(FALSE, FALSE, sizeof(PlanFileNotice));
  g_array_set_clear_func(file->notices, clear_notice);
  return file;
}

void plan_file_free(PlanFile *file) {
  if (file == NULL)
    return;
  g_free(file->path);
  g_array_unref(file->entries);
  g_array_unref(file->facts);
  g_array_unref(file->notices);
  g_free(file);
}

static const PlanFileEntry *nth_entry(const PlanFile *file, guint i) {
  return &g_array_index(file->entries, PlanFileEntry, i);
}

const char *plan_file_text(const PlanFile *file, const char *option) {
  for (guint i = 0; i < file->entries->len; i++)
    if (strcmp(nth_entry(file, i)->option, option) == 0)
      return nth_entry(file, i)->text;
  return NULL;
}

void plan_file_add(PlanFile *file, const char *option, const char *text, guint line) {
  const PlanFileEntry entry = {g_intern_string(option), g_strdup(text), line};
  g_array_append_val(file->entries, entry);
}

gboolean plan_file_check_model(const PlanFile *file, const Model *model, GError **error) {
  for (guint i = 0; i < file->facts->len; i++) {
    const PlanFileFact *fact = &g_array_index(file->facts, PlanFileFact, i);
    if (fact->within > 0) {
      const gint64 parameters = model_parameters(model);
      if (ABS(parameters - fact->value) > fact->within)
        return fail_input(error, "%s:%u: %s: found %.4g billion parameters, model %s has %.4g", file->path, fact->line,
                          fact->key, (double)fact->value / 1e9, model->name, (double)parameters / 1e9);
      continue;
    }
    const gint64 value = *(const gint64 *)((const char *)model + fact->offset);
    if (value != fact->value)
      return fail_input(error, "%s:%u: %s: found %" INT64 ", model %s has %" INT64, file->path, fact->line, fact->key,
                        fact->value, model->name, value);
  }
  return TRUE;
}

/* --- names of files --- */

/* Options whose text may be a path, and the part in front of it. */
static gboolean names_file(const char *option, const char *text, gsize *prefix) {
  const int field = plan_field_find(option);
  *prefix = schedule_file(text) != NULL ? (gsize)(schedule_file(text) - text) : 0;
  if (field >= 0 && !(plan_field(field)->uses & PLAN_FIELD_FILE))
    return FALSE;
  return strcmp(option, "schedule") != 0 || *prefix > 0;
}

/* The text with its path replaced by one in that folder, if there is such a file. Owned by the caller. */
static char *in_folder(const char *option, const char *text, const char *folder) {
  gsize prefix;
  if (!names_file(option, text, &prefix) || g_path_is_absolute(text + prefix))
    return g_strdup(text);
  g_autofree char *path = g_build_filename(folder, text + prefix, NULL);
  g_autofree char *before = g_strndup(text, prefix);
  return g_file_test(path, G_FILE_TEST_IS_REGULAR) && strcmp(folder, ".") != 0 ? g_strconcat(before, path, NULL)
                                                                               : g_strdup(text);
}

/* --- stepsim's own --- */

typedef struct {
  const char *option;
  char *column; /* how tables call it; owned */
  int field;    /* −1: model, cluster */
} Key;

static void clear_key(gpointer data) {
  g_free(((Key *)data)->column);
}

static GArray *all_keys(void) {
  GArray *keys = g_array_new(FALSE, FALSE, sizeof(Key));
  g_array_set_clear_func(keys, clear_key);
  for (int i = -2; i < plan_n_fields(); i++) {
    const char *option = i == -2 ? "model" : i == -1 ? "cluster" : plan_field(i)->name;
    const Key key = {option, g_strdelimit(g_strdup(option), "-", '_'), MAX(i, -1)};
    g_array_append_val(keys, key);
  }
  return keys;
}

/* The key as this mapping has it: the option's name or the column's. NULL: the file has both. */
static const char *spelling(YamlNode root, const Key *key, GError **error) {
  if (!yaml_is_map(root) || strcmp(key->option, key->column) == 0)
    return key->option;
  const YamlNode as_column = yaml_map_value(root, key->column), as_option = yaml_map_value(root, key->option);
  if (!yaml_is_present(as_column) || !yaml_is_present(as_option))
    return yaml_is_present(as_column) ? key->column : key->option;
  yaml_fail(as_column, error, "found %s beside %s in line %d, expected one of the two", key->column, key->option,
            yaml_line(as_option));
  return NULL;
}

/* YAML's own words for a switch are options' on and off; of what is none they stay what was written. */
static const char *text_of_leaf(YamlNode leaf, gboolean is_switch, GError **error) {
  const char *text = yaml_text(leaf, error);
  if (text == NULL || !is_switch)
    return text;
  return g_ascii_strcasecmp(text, "true") == 0 ? "on" : g_ascii_strcasecmp(text, "false") == 0 ? "off" : text;
}

static gboolean add_leaf(PlanFile *file, const Key *key, YamlNode leaf, GError **error) {
  const char *text = text_of_leaf(leaf, key->field >= 0 && plan_field(key->field)->kind == PLAN_SWITCH, error);
  g_autofree char *folder = g_path_get_dirname(file->path);
  if (text == NULL)
    return FALSE;
  g_autofree char *resolved = in_folder(key->option, text, folder);
  plan_file_add(file, key->option, resolved, (guint)yaml_line(leaf));
  return TRUE;
}

enum { MOST_VALUES = 65536 };

/* A list is one entry for each item of what may be repeated, and else one with its items joined. */
static gboolean add_list(PlanFile *file, const Key *key, YamlNode list, GError **error) {
  if (yaml_list_length(list, MOST_VALUES, error) < 0)
    return FALSE;
  const gboolean repeats = key->field >= 0 && (plan_field(key->field)->uses & PLAN_FIELD_REPEATED);
  const guint first = file->entries->len;
  g_autoptr(GString) joined = g_string_new(NULL);
  for (YamlNode item = yaml_list_item(list, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    if (!add_leaf(file, key, item, error))
      return FALSE;
    g_string_append_printf(joined, "%s%s", joined->len > 0 ? "," : "", nth_entry(file, file->entries->len - 1)->text);
  }
  if (!repeats) {
    g_array_set_size(file->entries, first);
    plan_file_add(file, key->option, joined->str, (guint)yaml_line(list));
  }
  return TRUE;
}

static gboolean add_value(PlanFile *file, const Key *key, YamlNode value, GError **error) {
  if (yaml_is_map(value))
    return yaml_fail(value, error, "found a mapping, expected a value or a list of some");
  return yaml_is_list(value) ? add_list(file, key, value, error) : add_leaf(file, key, value, error);
}

static gboolean read_own(PlanFile *file, YamlNode root, GError **error) {
  g_autoptr(GArray) keys = all_keys();
  g_autofree YamlField *fields = g_new0(YamlField, keys->len);
  g_autofree YamlNode *values = g_new0(YamlNode, keys->len);
  for (guint i = 0; i < keys->len; i++) {
    const char *key = spelling(root, &g_array_index(keys, Key, i), error);
    if (key == NULL)
      return FALSE;
    fields[i] = (YamlField){key, FIELD_NODE, FALSE, i * sizeof(YamlNode)};
  }
  if (!yaml_map_read(root, fields, (int)keys->len, values, error))
    return FALSE;
  for (guint i = 0; i < keys->len; i++)
    if (yaml_is_present(values[i]) && !add_value(file, &g_array_index(keys, Key, i), values[i], error))
      return FALSE;
  return TRUE;
}

static PlanFile *take_own(const char *path, YamlFile *yaml, GError **error) {
  g_autoptr(YamlFile) owned = yaml;
  g_autoptr(PlanFile) file = plan_file_new(path);
  return yaml != NULL && read_own(file, yaml_file_root(yaml), error) ? g_steal_pointer(&file) : NULL;
}

PlanFile *plan_file_parse_own(const char *path, const char *text, gsize length, GError **error) {
  return take_own(path, yaml_file_parse(path, text, length, error), error);
}

PlanFile *plan_file_read_own(const char *path, GError **error) {
  return take_own(path, yaml_file_read(path, error), error);
}

/* --- writing --- */

/* A text as YAML: bare where nothing in it means anything else there. */
static void append_text(GString *out, const char *text) {
  const gboolean is_plain =
      g_ascii_isalnum(*text) && strpbrk(text, "#:{}[],&*!|>'\"%@`\\\n\t") == NULL && !g_str_has_suffix(text, " ");
  if (is_plain) {
    g_string_append(out, text);
    return;
  }
  g_string_append_c(out, '\'');
  for (; *text != '\0'; text++)
    g_string_append(out, *text == '\'' ? "''" : ((char[]){*text, '\0'}));
  g_string_append_c(out, '\'');
}

/* A path as seen from here, for a file in another folder. */
static char *as_seen(const PlanFile *file, const PlanFileEntry *entry) {
  g_autofree char *folder = g_path_get_dirname(file->path), *there = g_canonicalize_filename(folder, NULL),
                  *here = g_get_current_dir();
  return in_folder(entry->option, entry->text, strcmp(there, here) == 0 ? "." : here);
}

char *plan_file_write(const PlanFile *file) {
  GString *out = g_string_new("# A plan of stepsim's (--plan); what is left out is as --help says.\n");
  for (guint i = 0; i < file->entries->len; i++) {
    const PlanFileEntry *entry = nth_entry(file, i);
    const int field = plan_field_find(entry->option);
    const gboolean repeats = field >= 0 && (plan_field(field)->uses & PLAN_FIELD_REPEATED);
    const gboolean goes_on = repeats && i > 0 && nth_entry(file, i - 1)->option == entry->option;
    g_autofree char *text = as_seen(file, entry);
    if (!goes_on)
      g_string_append_printf(out, repeats ? "%s:\n" : "%s: ", entry->option);
    if (repeats)
      g_string_append(out, "- ");
    append_text(out, text);
    g_string_append_c(out, '\n');
  }
  return g_string_free(out, FALSE);
}
