/* One property table says everything about an action kind. The grammar is digits, a name of the table, digits:
 *
 *     12SEND_F3      stage 12, SEND_F, micro-batch 3
 *     1UNSHARD       a kind without a micro-batch may omit it …
 *     SYNC           … and the stage too, if it belongs to none
 *
 * A CSV cell may also hold a forward and a backward that run as one:
 *
 *     (0F3;1B2)OVERLAP_F_B */
#include "action.h"
#include "error.h"
#include <string.h>

const ActionInfo action_infos[N_ACTIONS] = {
    [ACTION_F] = {.name = "F", .glyph = 'F', .is_compute = TRUE, .has_micro_batch = TRUE},
    [ACTION_I] = {.name = "I", .glyph = 'I', .is_compute = TRUE, .has_micro_batch = TRUE},
    [ACTION_W] = {.name = "W", .glyph = 'W', .is_compute = TRUE, .has_micro_batch = TRUE},
    [ACTION_B] = {.name = "B", .glyph = 'B', .is_compute = TRUE, .has_micro_batch = TRUE},
    [ACTION_SEND_F] = {.name = "SEND_F", .glyph = '>', .has_micro_batch = TRUE},
    [ACTION_RECV_F] = {.name = "RECV_F", .glyph = ')', .has_micro_batch = TRUE},
    [ACTION_SEND_B] = {.name = "SEND_B", .glyph = '<', .has_micro_batch = TRUE},
    [ACTION_RECV_B] = {.name = "RECV_B", .glyph = '(', .has_micro_batch = TRUE},
    [ACTION_UNSHARD] = {.name = "UNSHARD", .glyph = 'U'},
    [ACTION_RESHARD] = {.name = "RESHARD", .glyph = 'R'},
    [ACTION_REDUCE_GRAD] = {.name = "REDUCE_GRAD", .glyph = 'G'},
    [ACTION_OVERLAP_F_B] = {.name = "OVERLAP_F_B", .glyph = 'V'},
    [ACTION_OPTIMIZER] = {.name = "OPTIMIZER", .glyph = 'O'},
    [ACTION_NORM] = {.name = "NORM", .glyph = 'N'},
    [ACTION_TIED_GRAD] = {.name = "TIED_GRAD", .glyph = 'T'},
    [ACTION_COPY_GRAD] = {.name = "COPY_GRAD", .glyph = 'C'},
    [ACTION_WHOLE_GRAD] = {.name = "WHOLE_GRAD", .glyph = 'L'},
    [ACTION_KEPT] = {.name = "KEPT", .glyph = 'K'},
    [ACTION_SYNC] = {.name = "SYNC", .glyph = 'S'},
    [ACTION_WAIT] = {.name = "WAIT", .glyph = 'H'},
    [ACTION_FETCH] = {.name = "FETCH", .glyph = 'f', .is_copy = TRUE},
    [ACTION_GRAD_OUT] = {.name = "GRAD_OUT", .glyph = 'g', .is_copy = TRUE},
    [ACTION_STATE_READ] = {.name = "STATE_READ", .glyph = 'r', .is_copy = TRUE},
    [ACTION_STATE_WRITE] = {.name = "STATE_WRITE", .glyph = 'w', .is_copy = TRUE},
    [ACTION_WEIGHTS_BACK] = {.name = "WEIGHTS_BACK", .glyph = 'b', .is_copy = TRUE},
    [ACTION_WEIGHTS_STORE] = {.name = "WEIGHTS_STORE", .glyph = 's', .is_copy = TRUE},
    [ACTION_SAVED_OUT] = {.name = "SAVED_OUT", .glyph = 'o', .has_micro_batch = TRUE, .is_copy = TRUE},
    [ACTION_SAVED_IN] = {.name = "SAVED_IN", .glyph = 'i', .has_micro_batch = TRUE, .is_copy = TRUE},
    [ACTION_DATA] = {.name = "DATA", .glyph = 'd', .has_micro_batch = TRUE, .is_copy = TRUE},
    [ACTION_PUSH] = {.name = "PUSH", .glyph = 'p', .is_copy = TRUE},
    [ACTION_SERVE] = {.name = "SERVE", .glyph = 'v', .is_copy = TRUE},
    [ACTION_PULL] = {.name = "PULL", .glyph = 'l', .is_copy = TRUE},
    [ACTION_SPREAD] = {.name = "SPREAD", .glyph = 'x'},
    [ACTION_CLOCK] = {.name = "CLOCK", .glyph = 'k'},
    [ACTION_OUTER_SUM] = {.name = "OUTER_SUM", .glyph = 'a'},
    [ACTION_OUTER_STEP] = {.name = "OUTER_STEP", .glyph = 'e'},
    [ACTION_OUTER_GATHER] = {.name = "OUTER_GATHER", .glyph = 'u'},
};

/* Parses digits at *text into *number (−1 if there are none) and advances *text. FALSE if it exceeds 31 bits. */
static gboolean parse_number(const char **text, gint32 *number) {
  gint64 value = g_ascii_isdigit(**text) ? 0 : -1;
  for (; g_ascii_isdigit(**text); (*text)++) {
    value = value * 10 + (**text - '0');
    if (value > G_MAXINT32)
      return FALSE;
  }
  *number = (gint32)value;
  return TRUE;
}

static int find_kind(const char *name, gsize length) {
  for (int kind = 0; kind < N_ACTIONS; kind++)
    if (strlen(action_infos[kind].name) == length && memcmp(action_infos[kind].name, name, length) == 0)
      return kind;
  return -1;
}

static gboolean fail_grammar(const char *text, GError **error) {
  g_autofree char *shown = g_strndup(text, 40);
  g_autofree char *escaped = g_strescape(shown, NULL);
  return fail_input(error,
                    "\"%s\" is no action: expected <stage><kind><micro-batch>, as 0F3, 1I2, 1W2, 0B3, 2SEND_F1, "
                    "1RECV_F0, 1SEND_B0, 0RECV_B0, or without a micro-batch 1UNSHARD, 1RESHARD, 1REDUCE_GRAD",
                    escaped);
}

static gboolean fail_pair(const char *text, GError **error) {
  g_autofree char *shown = g_strndup(text, 80);
  g_autofree char *escaped = g_strescape(shown, NULL);
  return fail_input(error,
                    "\"%s\" is no pair: expected a forward and a whole backward that run as one, as "
                    "(0F3;1B2)OVERLAP_F_B",
                    escaped);
}

gboolean action_parse(const char *text, Action *action, GError **error) {
  Action parsed = {0};
  if (!text)
    return fail_grammar("", error);
  const char *at = text;
  if (!parse_number(&at, &parsed.stage))
    return fail_grammar(text, error);
  const char *name = at;
  while (g_ascii_isupper(*at) || *at == '_')
    at++;
  int kind = find_kind(name, (gsize)(at - name));
  if (kind < 0 || !parse_number(&at, &parsed.micro_batch) || *at != '\0')
    return fail_grammar(text, error);
  if (kind == ACTION_OVERLAP_F_B)
    return fail_pair(text, error);
  if (action_infos[kind].has_micro_batch && (parsed.stage < 0 || parsed.micro_batch < 0))
    return fail_grammar(text, error);
  parsed.kind = (guint8)kind;
  *action = parsed;
  return TRUE;
}

void action_print(const Action *action, GString *out) {
  if (action->stage >= 0)
    g_string_append_printf(out, "%d", action->stage);
  g_string_append(out, action_info(action->kind)->name);
  if (action->micro_batch >= 0)
    g_string_append_printf(out, "%d", action->micro_batch);
}

/* "(0F3;1B2)OVERLAP_F_B" */
static gboolean parse_pair(const char *text, Action actions[2], GError **error) {
  const char *semicolon = strchr(text, ';'), *bracket = strchr(text, ')');
  if (!semicolon || !bracket || semicolon > bracket || strcmp(bracket + 1, action_infos[ACTION_OVERLAP_F_B].name) != 0)
    return fail_pair(text, error);
  g_autofree char *first = g_strndup(text + 1, (gsize)(semicolon - text - 1));
  g_autofree char *second = g_strndup(semicolon + 1, (gsize)(bracket - semicolon - 1));
  if (!action_parse(g_strstrip(first), &actions[0], NULL) || !action_parse(g_strstrip(second), &actions[1], NULL) ||
      actions[0].kind != ACTION_F || actions[1].kind != ACTION_B)
    return fail_pair(text, error);
  actions[0].overlaps_next = TRUE;
  return TRUE;
}

int action_parse_cell(const char *text, Action actions[2], GError **error) {
  if (text != NULL && *text == '(')
    return parse_pair(text, actions, error) ? 2 : 0;
  return action_parse(text, &actions[0], error) ? 1 : 0;
}

int action_print_cell(const Action *action, const Action *next, GString *out) {
  if (!action->overlaps_next || next == NULL) {
    action_print(action, out);
    return 1;
  }
  g_string_append_c(out, '(');
  action_print(action, out);
  g_string_append_c(out, ';');
  action_print(next, out);
  g_string_append_printf(out, ")%s", action_infos[ACTION_OVERLAP_F_B].name);
  return 2;
}
