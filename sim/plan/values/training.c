/* Two options: --train says what is added and trained, --freeze what is not trained. */
#include "training.h"

#include <string.h>

#include "error.h"
#include "suggest.h"
#include "units.h"

enum { MOST_RANK = 1 << 16, MOST_FROZEN_LAYERS = 1 << 20 };

static const char *const names[N_ADAPTED + 1] = {
    [ADAPTED_Q] = "q_proj",       [ADAPTED_K] = "k_proj",   [ADAPTED_V] = "v_proj",      [ADAPTED_O] = "o_proj",
    [ADAPTED_GATE] = "gate_proj", [ADAPTED_UP] = "up_proj", [ADAPTED_DOWN] = "down_proj"};

const char *adapted_name(Adapted adapted) {
  g_assert(adapted < N_ADAPTED);
  return names[adapted];
}

/* A bit of `names` for each word of the text, joined by +. */
static gboolean parse_set(const char *what, const char *text, const char *const *words, guint *set, GError **error) {
  g_auto(GStrv) parts = g_strsplit(text, "+", -1);
  *set = 0;
  for (char **part = parts; *part != NULL; part++) {
    const int found = suggest_same(g_strstrip(*part), words);
    if (found < 0) {
      g_autofree char *expected = suggest_message(*part, words);
      return fail_input(error, "%s: found \"%.80s\", %s", what, *part, expected);
    }
    if (*set & 1u << found)
      return fail_input(error, "%s: %s stands twice in \"%.80s\"", what, words[found], text);
    *set |= 1u << found;
  }
  return TRUE;
}

static gboolean parse_number(const char *what, const char *text, gint64 most, int *number, GError **error) {
  gint64 value;
  if (!units_parse_whole(text, 1, most, &value, error)) {
    g_prefix_error(error, "%s: ", what);
    return FALSE;
  }
  *number = (int)value;
  return TRUE;
}

gboolean training_parse_train(const char *what, const char *text, TrainedParts *training, GError **error) {
  static const char *const kinds[] = {"full", "lora", NULL};
  g_auto(GStrv) parts = g_strsplit(text, ":", 3);
  const int kind = suggest_same(parts[0] != NULL ? parts[0] : "", kinds);
  const guint n_parts = g_strv_length(parts);
  if (kind < 0 || (kind == 0 ? n_parts > 1 : n_parts < 2))
    return fail_input(error,
                      "%s: found \"%.80s\", expected full, or lora:RANK such as lora:16, or with the products that are "
                      "adapted, lora:16:q_proj+v_proj",
                      what, text);
  training->rank = 0;
  training->modules = 0;
  if (kind == 0)
    return TRUE;
  g_autofree char *of_rank = g_strconcat(what, " lora", NULL);
  return parse_number(of_rank, parts[1], MOST_RANK, &training->rank, error) &&
         (n_parts == 2 || parse_set(what, parts[2], names, &training->modules, error));
}

gboolean training_parse_freeze(const char *what, const char *text, TrainedParts *training, GError **error) {
  static const char *const words[] = {"embedding", "head", "layers", NULL};
  training->frozen = 0;
  training->frozen_layers = 0;
  if (strcmp(text, "none") == 0)
    return TRUE;
  g_auto(GStrv) parts = g_strsplit(text, "+", -1);
  for (char **part = parts; *part != NULL; part++) {
    char *number = strchr(g_strstrip(*part), ':');
    if (number != NULL)
      *number++ = '\0';
    const int found = suggest_same(*part, words);
    if (found < 0 || (number != NULL) != (found == 2))
      return fail_input(error,
                        "%s: found \"%.80s\", expected none, or embedding, layers:N (the first N) and head joined by +",
                        what, text);
    if (found < 2 ? (training->frozen & 1u << found) != 0 : training->frozen_layers > 0)
      return fail_input(error, "%s: %s stands twice in \"%.80s\"", what, words[found], text);
    if (found < 2)
      training->frozen |= 1u << found;
    else if (!parse_number(what, number, MOST_FROZEN_LAYERS, &training->frozen_layers, error))
      return FALSE;
  }
  return TRUE;
}

char *training_train_text(const TrainedParts *training) {
  if (training->rank == 0)
    return g_strdup("full");
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "lora:%d", training->rank);
  const char *separator = ":";
  for (int i = 0; i < N_ADAPTED; i++)
    if (training->modules & ADAPTED_BIT(i)) {
      g_string_append_printf(text, "%s%s", separator, names[i]);
      separator = "+";
    }
  return g_string_free(g_steal_pointer(&text), FALSE);
}

char *training_freeze_text(const TrainedParts *training) {
  g_autoptr(GString) text = g_string_new(NULL);
  if (training->frozen & FREEZE_EMBEDDING)
    g_string_append(text, "embedding");
  if (training->frozen_layers > 0)
    g_string_append_printf(text, "%slayers:%d", text->len > 0 ? "+" : "", training->frozen_layers);
  if (training->frozen & FREEZE_HEAD)
    g_string_append_printf(text, "%shead", text->len > 0 ? "+" : "");
  return text->len > 0 ? g_string_free(g_steal_pointer(&text), FALSE) : g_strdup("none");
}
