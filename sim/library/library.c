#include "library.h"

#include <string.h>

#include "command.h"
#include "error.h"
#include "options.h"

G_DEFINE_QUARK(stepsim - stopped - quark, library_stopped)

void stepsim_free(void *memory) {
  g_free(memory);
}

const char *stepsim_version(void) {
  return STEPSIM_VERSION;
}

/* --- calls --- */

static locale_t make_locale(void) {
  const locale_t own = duplocale(LC_GLOBAL_LOCALE), with_points = newlocale(LC_NUMERIC_MASK, "C", own);
  return with_points != (locale_t)0 ? with_points : LC_GLOBAL_LOCALE;
}

locale_t library_enter(void) {
  static locale_t with_points;
  if (g_once_init_enter(&with_points))
    g_once_init_leave(&with_points, make_locale());
  return uselocale(with_points);
}

void library_leave(locale_t before, GError *error, StepsimFailure *failure) {
  const int status = error == NULL                                                     ? 0
                     : error->domain == library_stopped_quark()                        ? 130
                     : g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE) ? 1
                                                                                       : 2;
  if (failure != NULL)
    *failure = (StepsimFailure){status, error != NULL ? g_strdup(error->message) : NULL};
  g_clear_error(&error);
  uselocale(before);
}

gboolean library_set_options(Parser *parser, const char *const *options, const char *const *refused, GError **error) {
  for (; options != NULL && *options != NULL; options++) {
    const char *equals = strchr(*options, '=');
    g_autofree char *name = g_strndup(*options, equals != NULL ? (gsize)(equals - *options) : strlen(*options));
    if (equals == NULL)
      return fail_input(error, "found \"%.80s\", expected an option and its value: tp=8", *options);
    if (g_strv_contains(refused, name))
      return fail_input(error, "--%s is none of these options (stepsim.h)", name);
    if (!parser_set(parser, name, equals + 1, error))
      return FALSE;
  }
  return TRUE;
}

/* --- tables --- */

static const char *kind_of(const GOptionEntry *entry, const PlanField *field) {
  static const char *const kinds[] = {
      [PLAN_COUNT] = "count",   [PLAN_COUNT64] = "count", [PLAN_RATIO] = "ratio", [PLAN_BYTES] = "bytes",
      [PLAN_SWITCH] = "switch", [PLAN_CHOICE] = "choice", [PLAN_TEXT] = "text",   [PLAN_OWN_TEXT] = "text"};
  if (field == NULL)
    return entry->arg == G_OPTION_ARG_INT || entry->arg == G_OPTION_ARG_INT64 ? "count" : "text";
  return field->kind == PLAN_CHOICE && field->set != NULL ? "text"
                                                          : kinds[field->kind]; /* which takes more than names */
}

static StepsimOption option_of(const GOptionEntry *entry) {
  const int found = plan_field_find(entry->long_name);
  const PlanField *field = found >= 0 ? plan_field(found) : NULL;
  const char *kind = kind_of(entry, field);
  return (StepsimOption){.name = g_intern_string(entry->long_name),
                         .kind = kind,
                         .value = g_intern_string(entry->arg_description),
                         .help = g_intern_string(entry->description),
                         .choices = g_str_equal(kind, "choice") ? field->names() : NULL,
                         .is_axis = field != NULL && plan_field_is_axis(field),
                         .is_repeated = entry->arg == G_OPTION_ARG_STRING_ARRAY};
}

LibraryOptions *library_options_new(const Parser *parser, const char *const *refused) {
  LibraryOptions *options = g_array_new(TRUE, FALSE, sizeof(StepsimOption));
  for (const GOptionEntry *entry = parser_entries(parser); entry->long_name != NULL; entry++) {
    const StepsimOption option = option_of(entry);
    if (!g_strv_contains(refused, entry->long_name))
      g_array_append_val(options, option);
  }
  return options;
}

const StepsimOption *library_nth_option(const LibraryOptions *options, size_t i) {
  return i < options->len ? &g_array_index(options, StepsimOption, i) : NULL;
}

const SweepTable *library_table(void) {
  static SweepTable *table;
  if (g_once_init_enter(&table))
    g_once_init_leave(&table, sweep_table_new());
  return table;
}

const char *stepsim_column(size_t i) {
  const SweepTable *table = library_table();
  return i < (size_t)sweep_table_n_columns(table) ? sweep_table_column(table, (int)i)->name : NULL;
}

/* A Cell is handed out as it is. */
G_STATIC_ASSERT(sizeof(StepsimCell) == sizeof(Cell));
G_STATIC_ASSERT(offsetof(StepsimCell, real) == offsetof(Cell, real));
G_STATIC_ASSERT((int)STEPSIM_EMPTY == CELL_NONE && (int)STEPSIM_WHOLE == CELL_WHOLE);
G_STATIC_ASSERT((int)STEPSIM_REAL == CELL_REAL && (int)STEPSIM_TEXT == CELL_TEXT);

StepsimRow library_row(const SweepRow *row) {
  return (StepsimRow){row->index, sweep_status_names()[row->status], row->kind, row->reason,
                      (const StepsimCell *)(gconstpointer)row->cells};
}

/* --- a schedule alone --- */

static char *answer_schedule(const char *const *options, GError **error) {
  g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);
  g_ptr_array_add(words, g_strdup("schedule"));
  g_ptr_array_add(words, g_strdup("--json"));
  for (; options != NULL && *options != NULL; options++)
    g_ptr_array_add(words, g_strconcat("--", *options, NULL));
  g_autofree gpointer *argv = g_memdup2(words->pdata, words->len * sizeof *words->pdata); /* parsing moves them */
  g_autoptr(GString) out = g_string_new(NULL);
  if (!schedule_answer((int)words->len, (char **)argv, out, error))
    return NULL;
  return g_string_free(g_steal_pointer(&out), FALSE);
}

char *stepsim_schedule(const char *const *options, StepsimFailure *failure) {
  const locale_t before = library_enter();
  GError *error = NULL;
  char *json = answer_schedule(options, &error);
  library_leave(before, error, failure);
  return json;
}
