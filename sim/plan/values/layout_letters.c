/* Megatron-LM's --pipeline-model-parallel-layout: a letter per layer, a bar between stages. As in Megatron-LM
 * (core/transformer/pipeline_parallel_layer_layout.py, 2026-08), commas have no meaning, and repetitions are expanded
 * in two passes:
 *
 *     Et*3|(tt|)*2,t,mL  →  Et*3|tt|tt|t,mL  →  Ettt|tt|tt|tmL  →  3+2*2+1, one multi-token-prediction head */
#include "pipeline_layout.h"

#include <string.h>

#include "error.h"

enum { MOST_LETTERS = 1 << 20 };

static gboolean fail_letters(const char *text, const char *expected, GError **error) {
  return fail_input(error, "found \"%.80s\", expected %s", text, expected);
}

/* Append `part` as often as the "*N" at *at says, and move *at past it; once if there is none. FALSE: too often. */
static gboolean append_times(GString *out, const char *part, gsize length, const char **at) {
  guint64 n = 1;
  if (**at == '*' && g_ascii_isdigit((*at)[1])) {
    char *end;
    n = g_ascii_strtoull(*at + 1, &end, 10);
    *at = end;
  }
  if (n > MOST_LETTERS || out->len + n * length > MOST_LETTERS)
    return FALSE;
  while (n-- > 0)
    g_string_append_len(out, part, (gssize)length);
  return TRUE;
}

/* Expand (abc)*N. */
static GString *repeat_groups(const char *text) {
  g_autoptr(GString) out = g_string_new(NULL);
  for (const char *at = text; *at != '\0';) {
    const char *end = *at == '(' ? strchr(at, ')') : NULL;
    const char *part = end != NULL ? at + 1 : at;
    const gsize length = end != NULL ? (gsize)(end - part) : 1;
    at = end != NULL ? end + 1 : at + 1;
    if (end == NULL)
      g_string_append_c(out, *part); /* a letter's own *N is left for the next pass */
    else if (!append_times(out, part, length, &at))
      return NULL;
  }
  return g_steal_pointer(&out);
}

/* Expand a*N and drop commas. */
static GString *repeat_letters(const char *text) {
  g_autoptr(GString) out = g_string_new(NULL);
  for (const char *at = text; *at != '\0';) {
    const char *letter = at++;
    if (*letter != ',' && !append_times(out, letter, 1, &at))
      return NULL;
  }
  return g_steal_pointer(&out);
}

/* Count each stage's t, and the m; errors quote the whole text. */
static gboolean count_layers(const char *text, const char *letters, GArray *layers, int *n_mtp, GError **error) {
  const char *last = strrchr(letters, '|');
  int zero = 0;
  *n_mtp = 0;
  g_array_append_val(layers, zero);
  for (const char *at = letters; *at != '\0'; at++) {
    if (*at == '|')
      g_array_append_val(layers, zero);
    else if (*at == 't' && *n_mtp == 0)
      g_array_index(layers, int, layers->len - 1)++;
    else if (*at == 'm' && (last == NULL || at > last))
      ++*n_mtp;
    else if (!(*at == 'E' && at == letters) && !(*at == 'L' && at[1] == '\0'))
      return fail_letters(text,
                          "Megatron-LM's letters with E first, L last, m before it in its stage and t for layers, as "
                          "Et*3|(tt|)*29,mL",
                          error);
  }
  return (*letters == 'E' && g_str_has_suffix(letters, "L")) ||
         fail_letters(text, "E at the first stage and L at the last, as Et|tt|tL", error);
}

gboolean pipeline_layout_is_letters(const char *text) {
  return strpbrk(text, "EL|") != NULL;
}

char *pipeline_layout_of_letters(const char *text, int *n_mtp, GError **error) {
  g_autoptr(GString) groups = strlen(text) <= MOST_LETTERS ? repeat_groups(text) : NULL;
  g_autoptr(GString) letters = groups != NULL ? repeat_letters(groups->str) : NULL;
  g_autoptr(GArray) layers = g_array_new(FALSE, FALSE, sizeof(int));
  if (letters == NULL) {
    fail_letters(text, "at most a million layers", error);
    return NULL;
  }
  return count_layers(text, letters->str, layers, n_mtp, error)
             ? pipeline_layout_text((const int *)(void *)layers->data, (int)layers->len)
             : NULL;
}
