/* Sliding windows and chunks: on all layers, on some, or alternating. */
#include "model_family.h"

#include <string.h>

#include "error.h"

static const char layer_types[] = "layer_types", sliding[] = "sliding_attention", whole[] = "full_attention";
static const char pattern_key[] = "sliding_window_pattern";

/* Whether layer_types gives layer `i` the window, which it calls `limited`; −1 with INPUT. */
static int read_layer_type(const JsonFile *json, JsonArray *types, const char *limited, guint i, GError **error) {
  JsonNode *node = json_array_get_element(types, i);
  const char *type = json_node_get_value_type(node) == G_TYPE_STRING ? json_node_get_string(node) : "";
  if (strcmp(type, limited) == 0 || strcmp(type, whole) == 0)
    return strcmp(type, limited) == 0;
  fail_input(error, "%s:%u: %s: item %u: expected \"%s\" or \"%s\"", json->file,
             json_file_line(json, json->root, layer_types), layer_types, i + 1, limited, whole);
  return -1;
}

char *model_marked_layers(const int *marked, guint n) {
  GString *layers = g_string_sized_new(n);
  for (guint i = 0; i < n; i++)
    g_string_append_c(layers, marked[i] ? '1' : '0');
  return g_string_free(layers, FALSE);
}

/* Fill the model from `windowed`, one flag per layer. All layers are modelled alike, as the mean of both kinds. That
 * suits stages if the kinds alternate, that is, if the first `period` layers repeat. */
static void take_turns(Model *model, const int *windowed) {
  const guint n = (guint)model->n_layers;
  guint n_windowed = 0, period = 1;
  for (guint i = 0; i < n; i++) {
    n_windowed += (guint)windowed[i];
    if (windowed[i] != windowed[i % period])
      period = i + 1;
  }
  model->some_windowed = model->window > 0 && period > n / 2 && n_windowed > 0 && n_windowed < n;
  model->windowed_share = n_windowed == n ? 0 : (double)n_windowed / n;
  if (n_windowed == 0)
    model->window = 0;
  if (model->window > 0 && n_windowed < n)
    model->windowed_layers = model_marked_layers(windowed, n);
  if (model->window == 0)
    model->windowed_share = 0;
}

/* layer_types has an entry for every layer. */
static gboolean read_layer_types(const JsonFile *json, const char *limited, int *windowed, guint n, GError **error) {
  JsonNode *node = json_object_get_member(json->root, layer_types);
  JsonArray *types = JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
  if (types == NULL || json_array_get_length(types) != n)
    return fail_input(error, "%s:%u: %s: expected a list of %u layers", json->file,
                      json_file_line(json, json->root, layer_types), layer_types, n);
  for (guint i = 0; i < n; i++) {
    windowed[i] = read_layer_type(json, types, limited, i, error);
    if (windowed[i] < 0)
      return FALSE;
  }
  return TRUE;
}

/* sliding_window_pattern if it is text; NULL: a number, or absent. */
static const char *pattern_letters(const JsonFile *json) {
  JsonNode *node = json_object_get_member(json->root, pattern_key);
  return node != NULL && json_node_get_value_type(node) == G_TYPE_STRING ? json_node_get_string(node) : NULL;
}

/* "LLLG": the repeating pattern of layers with (L) and without (G) the window. The last layer never has it, whatever
 * its letter (EXAONE 4). */
static gboolean read_letters(const JsonFile *json, const char *letters, int *windowed, guint n, GError **error) {
  const size_t length = strlen(letters);
  if (length == 0 || strspn(letters, "LG") != length)
    return fail_input(error, "%s:%u: %s: found \"%.80s\", expected letters L, with the window, and G, without",
                      json->file, json_file_line(json, json->root, pattern_key), pattern_key, letters);
  for (guint i = 0; i < n; i++)
    windowed[i] = letters[i % length] == 'L' && i + 1 < n;
  return TRUE;
}

/* All layers of a period but the last, or only the last. */
static void read_period(WindowDefaults defaults, gint64 period, int *windowed, guint n) {
  for (guint i = 0; i < n; i++)
    windowed[i] = ((i + 1) % period == 0) == defaults.is_last_only;
}

gboolean model_read_window(const JsonFile *json, Model *model, WindowDefaults defaults, GError **error) {
  static const char switch_key[] = "use_sliding_window", window_key[] = "sliding_window";
  gboolean used = !defaults.is_off;
  gint64 window = json_object_has_member(json->root, window_key) ? 0 : defaults.window, period = defaults.period;
  gint64 n_whole = defaults.n_whole;
  const char *letters = defaults.has_letters ? pattern_letters(json) : NULL;
  if (!json_file_flag(json, json->root, switch_key, &used, error) ||
      !json_file_integer(json, json->root, window_key, (IntegerRange){1, G_MAXINT32}, &window, error) ||
      !json_file_integer(json, json->root, "max_window_layers", (IntegerRange){0, G_MAXINT32}, &n_whole, error) ||
      (letters == NULL &&
       !json_file_integer(json, json->root, pattern_key, (IntegerRange){1, G_MAXINT32}, &period, error)))
    return FALSE;
  model->window = used ? window : 0;
  const guint n = (guint)model->n_layers;
  g_autofree int *windowed = g_new(int, n);
  if (used && json_file_has(json->root, layer_types)) {
    if (!read_layer_types(json, sliding, windowed, n, error))
      return FALSE;
    take_turns(model, windowed);
    return TRUE;
  }
  if (letters != NULL && !read_letters(json, letters, windowed, n, error))
    return FALSE;
  if (letters == NULL && period > 1)
    read_period(defaults, period, windowed, n);
  if (letters != NULL || period > 1) {
    take_turns(model, windowed);
    return TRUE;
  }
  if (n_whole >= model->n_layers)
    model->window = 0;
  model->some_windowed = model->window > 0 && n_whole > 0;
  return TRUE;
}

gboolean model_read_chunks(const JsonFile *json, Model *model, GError **error) {
  static const char key[] = "attention_chunk_size";
  const guint n = (guint)model->n_layers;
  gint64 chunk = json_object_has_member(json->root, key) ? 0 : 8192;
  if (!json_file_integer(json, json->root, key, (IntegerRange){1, G_MAXINT32}, &chunk, error))
    return FALSE;
  g_autofree int *chunked = g_new(int, n);
  for (guint i = 0; i < n; i++)
    chunked[i] = model->unrotated_layers == NULL || model->unrotated_layers[i] == '0';
  if (json_file_has(json->root, layer_types) && !read_layer_types(json, "chunked_attention", chunked, n, error))
    return FALSE;
  model->window = chunk;
  take_turns(model, chunked);
  model->is_chunked = model->window > 0;
  return TRUE;
}
