/* A layout is a word or a list. A list is walked part by part, once to check it and once for every plan it is used
 * in. */
#include "pipeline_layout.h"

#include <string.h>

#include "error.h"
#include "suggest.h"
#include "units.h"

enum { MOST_OF_A_PART = 1 << 20 };

static const char *const words[] = {"auto", "balanced", "even", "embedding", "loss", "embedding+loss", NULL};
static const char form[] = "layers of each stage as 7+8*14+6 or 7+even+6, or auto, balanced, "
                           "embedding, loss or embedding+loss";

/* `n_stages` stages of `n_layers` each; for `even` both are open. */
typedef struct {
  gboolean is_even;
  gint64 n_layers, n_stages;
} Part;

gboolean pipeline_layout_is_balanced(const char *text) {
  return text != NULL && strcmp(text, "balanced") == 0;
}

gboolean pipeline_layout_is_open(const char *text) {
  return text == NULL || strcmp(text, "auto") == 0 || pipeline_layout_is_balanced(text);
}

/* Which ends count as a layer; FALSE: the text is a list. */
static gboolean counts_ends(const char *text, int *n_first, int *n_last) {
  *n_first = strcmp(text, "embedding") == 0 || strcmp(text, "embedding+loss") == 0;
  *n_last = strcmp(text, "loss") == 0 || strcmp(text, "embedding+loss") == 0;
  return *n_first + *n_last > 0;
}

static gint64 read_count(const char **at) {
  gint64 value = 0;
  while (g_ascii_isdigit(**at) && value <= MOST_OF_A_PART)
    value = 10 * value + (*(*at)++ - '0');
  return value;
}

/* Read one part and the + after it; FALSE: not a part. */
static gboolean read_part(const char **at, Part *part) {
  *part = (Part){.n_stages = 1};
  if (g_str_has_prefix(*at, "even")) {
    part->is_even = TRUE;
    *at += strlen("even");
  } else {
    if (!g_ascii_isdigit(**at))
      return FALSE;
    part->n_layers = read_count(at);
    if (**at == '*') {
      ++*at;
      part->n_stages = read_count(at);
    }
  }
  if (part->n_layers > MOST_OF_A_PART || part->n_stages < 1 || part->n_stages > MOST_OF_A_PART)
    return FALSE;
  if (**at == '\0')
    return TRUE;
  return *(*at)++ == '+' && **at != '\0';
}

static gboolean is_list(const char *text) {
  int n_even = 0;
  Part part;
  for (const char *at = text; *at != '\0'; n_even += part.is_even)
    if (!read_part(&at, &part))
      return FALSE;
  return *text != '\0' && n_even <= 1;
}

gboolean pipeline_layout_check(const char *text, GError **error) {
  int n_first, n_last;
  if (pipeline_layout_is_open(text) || counts_ends(text, &n_first, &n_last) || is_list(text))
    return TRUE;
  g_autofree char *parted = g_strdelimit(g_strdup(text), ",", '+'); /* some would separate a list by commas */
  const char *near = is_list(parted) ? parted : g_ascii_isdigit(*text) ? NULL : suggest_nearest(text, words);
  g_autofree char *meant = near != NULL ? g_strdup_printf("; did you mean \"%.80s\"?", near) : g_strdup("");
  return fail_input(error, "found \"%.80s\", expected %s%s", text, form, meant);
}

/* Share out n_layers plus what the ends count for, with the larger stages in the middle. If only one stage is
 * smaller, it is the last, because the head costs more than the embedding. */
static void deal_evenly(const PipelineCounts *counts, int n_first, int n_last, int *layers) {
  const int n_stages = counts->n_stages, n_shared = counts->n_layers + n_first + n_last;
  const int each = n_shared / n_stages, n_larger = n_shared % n_stages, first_larger = (n_stages - n_larger) / 2;
  for (int i = 0; i < n_stages; i++)
    layers[i] = each + (i >= first_larger && i < first_larger + n_larger);
  layers[0] -= n_first;
  layers[n_stages - 1] -= n_last;
}

static void deal_auto(const PipelineCounts *counts, int *layers) {
  const int n_heads = 1 + 2 * counts->n_mtp; /* layers that the last stage's heads count as */
  const int n_layers = counts->n_layers, n_stages = counts->n_stages;
  const gboolean with_heads =
      counts->n_mtp > 0 && (n_layers + n_heads) % n_stages == 0 && n_layers >= n_heads * (n_stages - 1);
  const gboolean with_ends = !with_heads && n_layers % n_stages != 0 && (n_layers + 2) % n_stages == 0;
  deal_evenly(counts, with_ends, with_heads ? n_heads : with_ends, layers);
}

static gboolean deal_counted(const char *text, const PipelineCounts *counts, int n_first, int n_last, int *layers,
                             GError **error) {
  const int n_shared = counts->n_layers + n_first + n_last;
  if (n_shared % counts->n_stages != 0 || n_shared < counts->n_stages)
    return fail_impossible(error, "pipeline-layout %s: %d layers and %d more are not shared evenly by %d stages", text,
                           counts->n_layers, n_first + n_last, counts->n_stages);
  deal_evenly(counts, n_first, n_last, layers);
  return TRUE;
}

/* The totals of a list; `even` adds to neither. */
static Part sum_parts(const char *text) {
  Part sum = {0}, part;
  for (const char *at = text; *at != '\0';) {
    read_part(&at, &part);
    sum.is_even |= part.is_even;
    sum.n_layers += part.is_even ? 0 : part.n_layers * part.n_stages;
    sum.n_stages += part.is_even ? 0 : part.n_stages;
  }
  return sum;
}

static gboolean check_sum(const char *text, const PipelineCounts *counts, const Part *sum, GError **error) {
  const gint64 n_stages = counts->n_stages - sum->n_stages, n_layers = counts->n_layers - sum->n_layers;
  if (sum->is_even ? n_stages < 1 : n_stages != 0)
    return fail_impossible(error, "pipeline-layout %.80s: %" INT64 " stage%s not the plan's %d", text, sum->n_stages,
                           sum->is_even         ? "s and at least one of even are"
                           : sum->n_stages == 1 ? " is"
                                                : "s are",
                           counts->n_stages);
  if (sum->is_even ? n_layers < 0 : n_layers != 0)
    return fail_impossible(error, "pipeline-layout %.80s: %" INT64 " layer%s not the model's %d", text, sum->n_layers,
                           sum->n_layers == 1 ? " is" : "s are", counts->n_layers);
  if (sum->is_even && n_layers % n_stages != 0)
    return fail_impossible(
        error, "pipeline-layout %.80s: even leaves %" INT64 " layers to %" INT64 " stages: these do not divide them",
        text, n_layers, n_stages);
  return TRUE;
}

static gboolean deal_list(const char *text, const PipelineCounts *counts, int *layers, GError **error) {
  const Part sum = sum_parts(text);
  if (!check_sum(text, counts, &sum, error))
    return FALSE;
  const gint64 n_left = counts->n_stages - sum.n_stages; /* stages that even covers */
  Part part;
  gint64 stage = 0;
  for (const char *at = text; *at != '\0';) {
    read_part(&at, &part);
    if (part.is_even)
      part = (Part){.n_layers = (counts->n_layers - sum.n_layers) / n_left, .n_stages = n_left};
    for (const gint64 end = stage + part.n_stages; stage < end; stage++)
      layers[stage] = (int)part.n_layers;
  }
  return TRUE;
}

/* Micro-batches would only pass through an empty stage. */
static gboolean check_empty(const char *text, const int *layers, int n_stages, GError **error) {
  for (int i = 0; i < n_stages; i++)
    if (layers[i] < 0 || (layers[i] == 0 && i > 0 && i < n_stages - 1))
      return fail_impossible(error,
                             "pipeline-layout %.80s leaves stage %d of %d without a layer: only the first, with the "
                             "embedding, and the last, with the head, may have none",
                             text, i, n_stages);
  return TRUE;
}

gboolean pipeline_layout_deal(const char *text, const PipelineCounts *counts, int *layers, GError **error) {
  int n_first, n_last;
  if (pipeline_layout_is_open(text)) {
    deal_auto(counts, layers);
    return TRUE;
  }
  const gboolean is_dealt = counts_ends(text, &n_first, &n_last)
                                ? deal_counted(text, counts, n_first, n_last, layers, error)
                                : deal_list(text, counts, layers, error);
  return is_dealt && check_empty(text, layers, counts->n_stages, error);
}

char *pipeline_layout_text(const int *layers, int n_stages) {
  GString *text = g_string_new(NULL);
  for (int from = 0, to; from < n_stages; from = to) {
    for (to = from + 1; to < n_stages && layers[to] == layers[from];)
      to++;
    g_string_append_printf(text, "%s%d", from > 0 ? "+" : "", layers[from]);
    if (to - from > 1)
      g_string_append_printf(text, "*%d", to - from);
  }
  return g_string_free(text, FALSE);
}
