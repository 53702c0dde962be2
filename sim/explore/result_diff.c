#include "result_diff.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "json_file.h"
#include "json_values.h"
#include "units.h"

/* --- results --- */

/* A member of an object, or of one in it; NULL: there is none. */
static JsonNode *member(const Result *result, const char *object, const char *key) {
  JsonNode *inside = object != NULL ? json_object_get_member(result->root, object) : NULL;
  if (object != NULL && (inside == NULL || !JSON_NODE_HOLDS_OBJECT(inside)))
    return NULL;
  return json_object_get_member(object != NULL ? json_node_get_object(inside) : result->root, key);
}

static double number_of(JsonNode *node) {
  if (node == NULL || !JSON_NODE_HOLDS_VALUE(node))
    return NAN;
  const GType type = json_node_get_value_type(node);
  return type == G_TYPE_DOUBLE || type == G_TYPE_INT64 ? json_node_get_double(node) : NAN;
}

static double number(const Result *result, const char *object, const char *key) {
  return number_of(member(result, object, key));
}

static gboolean fail_key(const Result *result, const char *key, GError **error) {
  return fail_input(error, "%s: found no %s, expected what stepsim simulate --json prints", result->name, key);
}

gboolean result_take(Result *result, const char *name, JsonNode *node, GError **error) {
  *result = (Result){.name = name, .node = node, .root = json_node_get_object(node)};
  static const char *const needed[][2] = {
      {NULL, "step_time_s"}, {NULL, "tokens_per_s"}, {"memory", "total_bytes"}, {"memory", "capacity_bytes"}};
  JsonNode *plan = json_object_get_member(result->root, "plan");
  if (plan == NULL || !JSON_NODE_HOLDS_OBJECT(plan))
    return fail_key(result, "plan", error);
  result->plan = json_node_get_object(plan);
  result->model = json_member_text(result->root, "model");
  result->cluster = json_member_text(result->root, "cluster");
  if (result->model == NULL || result->cluster == NULL)
    return fail_key(result, result->model == NULL ? "model" : "cluster", error);
  for (gsize i = 0; i < G_N_ELEMENTS(needed); i++)
    if (!(number(result, needed[i][0], needed[i][1]) > 0))
      return fail_key(result, needed[i][1], error);
  for (int kind = 0; kind < N_BREAKDOWN; kind++) {
    const char *part = breakdown_name((BreakdownKind)kind);
    result->breakdown_s[kind] = number(result, "breakdown_s", part);
    if (!isfinite(result->breakdown_s[kind]))
      return fail_key(result, part, error);
  }
  return TRUE;
}

void result_clear(Result *result) {
  g_clear_pointer(&result->node, json_node_unref);
}

static gboolean says_fits(const Result *result, const char *object) {
  JsonNode *fits = member(result, object, "fits");
  return fits == NULL || json_node_get_value_type(fits) != G_TYPE_BOOLEAN || json_node_get_boolean(fits);
}

gboolean result_fits(const Result *result) {
  return says_fits(result, "memory") && says_fits(result, "host_memory") && says_fits(result, "nvme");
}

/* --- what differs --- */

typedef struct {
  char *option, *a, *b; /* owned; a value as its option takes it, "" where there is none */
} Difference;

static void clear_difference(gpointer data) {
  Difference *difference = data;
  g_free(difference->option);
  g_free(difference->a);
  g_free(difference->b);
}

static char *value_text(JsonNode *node) {
  if (node == NULL || JSON_NODE_HOLDS_NULL(node))
    return g_strdup("");
  switch (json_node_get_value_type(node)) {
  case G_TYPE_STRING:
    return g_strdup(json_node_get_string(node));
  case G_TYPE_BOOLEAN:
    return g_strdup(json_node_get_boolean(node) ? "on" : "off");
  default:
    return json_node_words(node);
  }
}

static void add_difference(GArray *all, const char *option, const char *a, const char *b) {
  const Difference difference = {g_strdelimit(g_strdup(option), "_", '-'), g_strdup(a), g_strdup(b)};
  if (strcmp(a, b) != 0)
    g_array_append_val(all, difference);
  else
    g_free(difference.option), g_free(difference.a), g_free(difference.b);
}

/* Whether a key of both plans says no more than others do: an expert's tp that is tp's, shards over all of dp · cp. */
static gboolean is_derived(const Result *result, const char *key) {
  const double value = number_of(json_object_get_member(result->plan, key));
  if (strcmp(key, "expert_tp") == 0)
    return value == number_of(json_object_get_member(result->plan, "tp"));
  return strcmp(key, "zero_ranks") == 0 && value == number_of(json_object_get_member(result->plan, "dp")) *
                                                        number_of(json_object_get_member(result->plan, "cp"));
}

static GArray *differences(const Result *a, const Result *b) {
  GArray *all = g_array_new(FALSE, FALSE, sizeof(Difference));
  g_array_set_clear_func(all, clear_difference);
  add_difference(all, "model", a->model, b->model);
  add_difference(all, "cluster", a->cluster, b->cluster);
  g_autoptr(GList) of_a = json_object_get_members(a->plan), of_b = json_object_get_members(b->plan);
  for (GList *key = of_a; key != NULL; key = key->next) {
    g_autofree char *text_a = value_text(json_object_get_member(a->plan, key->data)),
                    *text_b = value_text(json_object_get_member(b->plan, key->data));
    if (!is_derived(a, key->data) || !is_derived(b, key->data))
      add_difference(all, key->data, text_a, text_b);
  }
  for (GList *key = of_b; key != NULL; key = key->next) /* of a later version, maybe */
    if (!json_object_has_member(a->plan, key->data)) {
      g_autofree char *text_b = value_text(json_object_get_member(b->plan, key->data));
      add_difference(all, key->data, "", text_b);
    }
  return all;
}

/* --- what it costs --- */

typedef enum { IN_SECONDS, IN_SHARES, IN_BYTES, IN_COUNTS, IN_DOLLARS } Measure;

static const struct {
  const char *label, *object, *key, *json; /* json: the member of --json */
  Measure measure;
} costs[] = {
    {"step time", NULL, "step_time_s", "step_time_s", IN_SECONDS},
    {"tokens/s", NULL, "tokens_per_s", "tokens_per_s", IN_COUNTS},
    {"tokens/s per GPU", NULL, "tokens_per_s_per_gpu", "tokens_per_s_per_gpu", IN_COUNTS},
    {"MFU", NULL, "mfu", "mfu", IN_SHARES},
    {"memory", "memory", "total_bytes", "memory_bytes", IN_BYTES},
    {"$ per million tokens", "cost", "dollars_per_million_tokens", "dollars_per_million_tokens", IN_DOLLARS},
};

/* How far the ratio of both is off in one of five cases, at most; NAN: not known. On one machine with one framework
 * errors have most in common (plan_ties.h). */
static double tie_width(const Result *a, const Result *b) {
  const Result *const both[] = {a, b};
  double ratios[2], logs[2];
  for (int i = 0; i < 2; i++) {
    ratios[i] = number(both[i], "interval", "ratio");
    logs[i] = log(number(both[i], "interval", "high_s") / number(both[i], "interval", "low_s")) / 2;
  }
  const gboolean is_alike =
      strcmp(a->model, b->model) == 0 && strcmp(a->cluster, b->cluster) == 0 &&
      g_strcmp0(json_member_text(a->plan, "framework"), json_member_text(b->plan, "framework")) == 0;
  return is_alike ? MAX(ratios[0], ratios[1]) : expm1(hypot(logs[0], logs[1]));
}

/* Whether either may be the faster one. */
static gboolean is_tied(const Result *a, const Result *b) {
  const double ratio = number(a, NULL, "tokens_per_s") / number(b, NULL, "tokens_per_s");
  return MAX(ratio, 1 / ratio) - 1 <= tie_width(a, b);
}

/* --- as text --- */

static char *measured_text(double value, Measure measure) {
  switch (measure) {
  case IN_SECONDS:
    return units_format(value, UNIT_SECONDS);
  case IN_SHARES:
    return g_strdup_printf("%.2f %%", 100 * value);
  case IN_BYTES:
    return g_strdup_printf("%.2f GB", value / 1e9);
  case IN_COUNTS:
    return g_strdup_printf("%.0f", value);
  default:
    return g_strdup_printf("%.4g", value);
  }
}

/* "−540 ms": as much more or less. */
static char *signed_text(double value, Measure measure) {
  g_autofree char *size = measured_text(ABS(value), measure);
  return g_strconcat(value < 0 ? "−" : "+", size, NULL);
}

/* A text and what fills it up to a width in characters, which bytes are not. */
static void append_right(GString *out, const char *text, int width) {
  g_string_append_printf(out, "%*s%s", MAX(width - (int)g_utf8_strlen(text, -1), 0), "", text);
}

static void append_left(GString *out, const char *text, int width) {
  g_string_append_printf(out, "%s%*s", text, MAX(width - (int)g_utf8_strlen(text, -1), 1), "");
}

enum { LABEL = 24, COLUMN = 13 };

static void append_head(GString *out, const char *head) {
  g_string_append_c(out, '\n');
  append_left(out, head, LABEL);
  append_right(out, "A", COLUMN);
  append_right(out, "B", COLUMN);
  append_right(out, "B − A\n", COLUMN + 1);
}

/* `share`: how B changes, of what it is of A; NAN: not said. */
static void append_row(GString *out, const char *label, double a, double b, Measure measure, double share) {
  g_autofree char *indented = g_strconcat("  ", label, NULL), *text_a = measured_text(a, measure),
                  *text_b = measured_text(b, measure), *change = signed_text(b - a, measure);
  append_left(out, indented, LABEL);
  append_right(out, text_a, COLUMN);
  append_right(out, text_b, COLUMN);
  append_right(out, change, COLUMN);
  if (isfinite(share))
    g_string_append_printf(out, "  %+.2f %%", units_percent(share));
  g_string_append_c(out, '\n');
}

static void append_differences(GString *out, const GArray *all) {
  int width = 16;
  if (all->len == 0) {
    g_string_append(out, "\nThe plans do not differ\n");
    return;
  }
  for (guint i = 0; i < all->len; i++)
    width = MAX(width, (int)g_utf8_strlen(g_array_index(all, Difference, i).a, -1) + 2);
  g_string_append_c(out, '\n');
  append_left(out, "What differs", LABEL);
  append_left(out, "A", width);
  g_string_append(out, "B\n");
  for (guint i = 0; i < all->len; i++) {
    const Difference *difference = &g_array_index(all, Difference, i);
    g_autofree char *label = g_strconcat("  ", difference->option, NULL);
    append_left(out, label, LABEL);
    append_left(out, *difference->a != '\0' ? difference->a : "–", width);
    g_string_append_printf(out, "%s\n", *difference->b != '\0' ? difference->b : "–");
  }
}

static void append_costs(GString *out, const Result *a, const Result *b) {
  const Result *const both[] = {a, b};
  append_head(out, "What it costs");
  for (gsize i = 0; i < G_N_ELEMENTS(costs); i++) {
    const double of_a = number(a, costs[i].object, costs[i].key), of_b = number(b, costs[i].object, costs[i].key);
    if (isfinite(of_a) && isfinite(of_b))
      append_row(out, costs[i].label, of_a, of_b, costs[i].measure,
                 costs[i].measure == IN_SHARES ? NAN : of_b / of_a - 1);
  }
  for (int i = 0; i < 2; i++)
    if (!result_fits(both[i]))
      g_string_append_printf(out, "  %c does not fit in memory\n", "AB"[i]);
  if (is_tied(a, b))
    g_string_append_printf(out,
                           "  either may be the faster one: the ratio of two such predictions is off by up to %.1f %% "
                           "in four of five cases\n",
                           100 * tie_width(a, b));
}

static double tokens_of(const Result *result) {
  return number(result, NULL, "tokens_per_s") * number(result, NULL, "step_time_s");
}

static void append_breakdown(GString *out, const Result *a, const Result *b) {
  const double step_s = number(a, NULL, "step_time_s"), tokens_a = tokens_of(a), tokens_b = tokens_of(b);
  append_head(out, "Where the time goes");
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    if (a->breakdown_s[kind] > 0 || b->breakdown_s[kind] > 0)
      append_row(out, breakdown_name((BreakdownKind)kind), a->breakdown_s[kind], b->breakdown_s[kind], IN_SECONDS,
                 (b->breakdown_s[kind] - a->breakdown_s[kind]) / step_s);
  append_row(out, "step", step_s, number(b, NULL, "step_time_s"), IN_SECONDS,
             number(b, NULL, "step_time_s") / step_s - 1);
  g_string_append(out, "  (mean over ranks; shares are of A's step)\n");
  if (ABS(tokens_a - tokens_b) > 0.5)
    g_string_append_printf(out, "  A's step is of %.0f tokens, B's of %.0f: for the same tokens B takes %+.2f %%\n",
                           tokens_a, tokens_b,
                           units_percent(number(a, NULL, "tokens_per_s") / number(b, NULL, "tokens_per_s") - 1));
}

void result_diff_text(GString *out, const Result *a, const Result *b) {
  g_autoptr(GArray) all = differences(a, b);
  g_string_append_printf(out, "A  %s on %s: %s\nB  %s on %s: %s\n", a->model, a->cluster, a->name, b->model, b->cluster,
                         b->name);
  append_differences(out, all);
  append_costs(out, a, b);
  append_breakdown(out, a, b);
}

/* --- as JSON --- */

static void add_side(JsonBuilder *builder, const char *key, const Result *result) {
  json_begin_object(builder, key);
  json_add_text(builder, "name", result->name);
  json_add_text(builder, "model", result->model);
  json_add_text(builder, "cluster", result->cluster);
  json_add_text(builder, "options", json_member_text(result->root, "options"));
  json_add_flag(builder, "fits", result_fits(result));
  json_builder_end_object(builder);
}

static void add_pair(JsonBuilder *builder, const char *key, double a, double b) {
  json_begin_object(builder, key);
  json_add_number(builder, "a", a);
  json_add_number(builder, "b", b);
  json_add_number(builder, "difference", b - a);
  json_builder_end_object(builder);
}

char *result_diff_json(const Result *a, const Result *b) {
  g_autoptr(GArray) all = differences(a, b);
  JsonBuilder *builder = json_builder_new();
  json_builder_begin_object(builder);
  add_side(builder, "a", a);
  add_side(builder, "b", b);
  json_begin_list(builder, "differs");
  for (guint i = 0; i < all->len; i++) {
    const Difference *difference = &g_array_index(all, Difference, i);
    json_begin_object(builder, NULL);
    json_add_text(builder, "option", difference->option);
    json_add_text(builder, "a", difference->a);
    json_add_text(builder, "b", difference->b);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
  for (gsize i = 0; i < G_N_ELEMENTS(costs); i++)
    add_pair(builder, costs[i].json, number(a, costs[i].object, costs[i].key),
             number(b, costs[i].object, costs[i].key));
  json_begin_object(builder, "breakdown_s");
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    add_pair(builder, breakdown_name((BreakdownKind)kind), a->breakdown_s[kind], b->breakdown_s[kind]);
  json_builder_end_object(builder);
  json_add_number(builder, "tied_within", tie_width(a, b));
  json_add_flag(builder, "tied", is_tied(a, b));
  return json_finish(json_builder_end_object(builder));
}
