/* Option arguments: texts of one line. An input goes to every such parser in turn; each must accept it or refuse it
 * with a message of its own. */
#include "fuzz_readers.h"

#include <math.h>
#include <string.h>

#include "action.h"
#include "collective_request.h"
#include "error.h"
#include "number_list.h"
#include "options.h"
#include "plan.h"
#include "precision.h"
#include "recipe.h"
#include "schedule_times.h"
#include "units.h"

static gboolean take_units(const char *text, GError **error) {
  for (UnitKind kind = UNIT_BYTES; kind <= UNIT_WATT_HOURS; kind++) {
    double value = -1;
    if (!units_parse(text, kind, &value, kind == UNIT_WATT_HOURS ? error : NULL))
      continue;
    FUZZ_REQUIRE(isfinite(value) && value >= 0);
    g_autofree char *printed = units_format(value, kind);
    FUZZ_REQUIRE(printed != NULL);
    return TRUE;
  }
  return FALSE;
}

static gboolean take_count(const char *text, GError **error) {
  double value = -1;
  const gboolean is_read = units_parse_count(text, &value, error);
  FUZZ_REQUIRE(!is_read || (isfinite(value) && value > 0));
  return is_read;
}

static gboolean take_numbers(const char *text, GError **error) {
  g_autoptr(GArray) numbers = g_array_new(FALSE, FALSE, sizeof(int));
  if (!number_list_read(text, "rank", 1023, 256, numbers, error))
    return FALSE;
  FUZZ_REQUIRE(numbers->len <= 256);
  for (guint i = 0; i < numbers->len; i++)
    FUZZ_REQUIRE(g_array_index(numbers, int, i) >= 0 && g_array_index(numbers, int, i) <= 1023);
  return TRUE;
}

static gboolean take_counts(const char *text, GError **error) {
  g_autoptr(GArray) counts = parse_count_list("--of", text, error);
  FUZZ_REQUIRE(counts == NULL || (counts->len >= 1 && counts->len <= 4096));
  return counts != NULL;
}

static gboolean take_recipe(const char *text, GError **error) {
  Recipe recipe;
  const gboolean is_read = recipe_parse(text, &recipe, error);
  FUZZ_REQUIRE(!is_read || isfinite(recipe.weights + recipe.gradients + recipe_optimizer_bytes(&recipe)));
  return is_read;
}

static gboolean take_precision(const char *text, GError **error) {
  Precision precision;
  return precision_parse(text, &precision, error);
}

static gboolean take_rank_order(const char *text, GError **error) {
  g_autoptr(Plan) plan = plan_new();
  return plan_parse_order(plan, text, error);
}

/* What was read is printed, and reads as the same. */
static gboolean take_cell(const char *text, GError **error) {
  Action actions[2], again[2];
  const int n = action_parse_cell(text, actions, error);
  if (n == 0)
    return FALSE;
  g_autoptr(GString) printed = g_string_new(NULL);
  FUZZ_REQUIRE(action_print_cell(&actions[0], n > 1 ? &actions[1] : NULL, printed) == n);
  FUZZ_REQUIRE(action_parse_cell(printed->str, again, NULL) == n);
  for (int i = 0; i < n; i++)
    FUZZ_REQUIRE(again[i].kind == actions[i].kind && again[i].stage == actions[i].stage &&
                 again[i].micro_batch == actions[i].micro_batch);
  return TRUE;
}

static gboolean take_times(const char *text, GError **error) {
  GivenTimes times;
  return parse_times(text, &times, error);
}

static gboolean take_memory(const char *text, GError **error) {
  HeldShares held;
  return parse_memory(text, &held, error);
}

static gboolean take_cap(const char *text, GError **error) {
  double cap = 0;
  const gboolean is_read = parse_memory_cap(text, &cap, error);
  FUZZ_REQUIRE(!is_read || (isfinite(cap) && cap > 0));
  return is_read;
}

static gboolean take_collective(const char *text, GError **error) {
  Collective op;
  return collective_op_parse(text, &op, error);
}

static gboolean take_switch(const char *text, GError **error) {
  gboolean value;
  return parse_switch("--of", text, &value, error);
}

/* Takes a text or refuses it, in the form of FuzzReader. */
typedef gboolean (*Take)(const char *text, GError **error);

gboolean fuzz_words(const FuzzInput *input, GError **error) {
  static const Take takes[] = {take_units,     take_count,      take_numbers, take_counts, take_recipe,
                               take_precision, take_rank_order, take_cell,    take_times,  take_memory,
                               take_cap,       take_collective, take_switch};
  gboolean any = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS(takes); i++) {
    g_autoptr(GError) problem = NULL;
    const gboolean is_taken = takes[i](input->text, &problem);
    FUZZ_REQUIRE(is_taken == (problem == NULL));
    any |= is_taken;
    if (!is_taken && !any) {
      g_clear_error(error);
      g_propagate_error(error, g_steal_pointer(&problem));
    }
  }
  if (any)
    g_clear_error(error);
  return any;
}

/* A line for each word of a command line, then the plan they make, completed for a model on a cluster. */
gboolean fuzz_plan(const FuzzInput *input, GError **error) {
  g_autofree char *line = g_strconcat("simulate\n", input->text, NULL);
  g_auto(GStrv) owned = g_strsplit(line, "\n", 64);
  g_autofree char **words = g_memdup2(owned, sizeof *owned * (g_strv_length(owned) + 1)); /* parsing moves them */
  int n_words = (int)g_strv_length(owned);
  char **argv = words;
  g_autoptr(Parser) parser = parser_new(NULL, "fuzz", "fuzz");
  PlanOptions options;
  plan_options_init(&options);
  plan_options_add(&options, PLAN_OPTIONS_SIMULATED, parser);
  gboolean ok = parser_run(parser, &n_words, &argv, FALSE, error) && plan_options_make_plan(&options, error) &&
                plan_options_check_cluster(&options, fuzz_shipped_cluster(), error) &&
                plan_complete(options.plan, fuzz_shipped_model(), fuzz_shipped_cluster(), error);
  if (ok)
    FUZZ_REQUIRE(options.plan->n_micro_batches >= 1);
  if (!ok && error != NULL && g_error_matches(*error, STEPSIM_ERROR, STEPSIM_ERROR_HELP)) {
    g_clear_error(error);
    ok = TRUE;
  }
  plan_options_clear(&options);
  return ok;
}

/* A plan in a file, of stepsim's or of another program, and what is written of it. */
gboolean fuzz_plan_file(const FuzzInput *input, GError **error) {
  g_autoptr(PlanFile) file = plan_file_read(input->file, 16, error);
  if (file == NULL)
    return FALSE;
  g_autofree char *text = plan_file_write(file);
  for (guint i = 0; i < file->entries->len; i++) {
    const PlanFileEntry *entry = &g_array_index(file->entries, PlanFileEntry, i);
    FUZZ_REQUIRE(entry->text != NULL && entry->line >= 1);
    FUZZ_REQUIRE(strcmp(entry->option, "model") == 0 || strcmp(entry->option, "cluster") == 0 ||
                 plan_field_find(entry->option) >= 0);
  }
  return TRUE;
}
