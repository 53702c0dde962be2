/* The best rule for a problem is found by trial. Starting from a good rule, each setting in turn is tried with all
 * its values and the best value is kept; this repeats until no setting helps. Patience, the most effective setting,
 * is then aimed at steps slightly shorter than the best. */
#include "auto_trial.h"
#include <string.h>

typedef enum {
  SET_PATIENCE,
  SET_DEPTH,
  SET_GUIDANCE,
  SET_TAIL,
  SET_W,
  SET_FORWARD,
  SET_ARRIVAL,
  SET_PACE,
  N_SETTINGS
} Setting;

static const double depths[] = {0, 1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.15, 2.3, 2.4, 2.5, 2.55, 2.6, 2.7, 2.8, 3};
static const double patiences[] = {-1, -0.5, 0, 0.01, 0.03, 0.07, 0.15, 0.25, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 1e9};
static const double paces[] = {0, 0.25, 0.5, 1, 1.02};

static int n_values(const Length *length, const Trial *trial, Setting setting) {
  gboolean guided = trial->rule.guide != NULL;
  gboolean has_chunks = length->flat.n_stages > length->flat.n_ranks;
  switch (setting) {
  case SET_GUIDANCE:
    return guided ? N_GUIDANCES : 0;
  case SET_DEPTH:
    return guided ? 0 : G_N_ELEMENTS(depths);
  case SET_PATIENCE:
    return G_N_ELEMENTS(patiences);
  case SET_TAIL:
  case SET_W:
    return guided ? 2 : 0;
  case SET_FORWARD:
    return !guided || trial->rule.frees_tail ? 2 : 0;
  case SET_ARRIVAL:
    return has_chunks && (!guided || trial->rule.frees_tail) ? 2 : 0;
  case SET_PACE:
    return guided || !has_chunks ? 0 : G_N_ELEMENTS(paces);
  default:
    return 0;
  }
}

static void set_value(ListRule *rule, Setting setting, int value) {
  switch (setting) {
  case SET_GUIDANCE:
    rule->guidance = (Guidance)value;
    break;
  case SET_DEPTH:
    rule->depth = depths[value];
    break;
  case SET_PATIENCE:
    rule->patience = patiences[value];
    break;
  case SET_TAIL:
    rule->frees_tail = value;
    break;
  case SET_W:
    rule->follows_w = value;
    break;
  case SET_FORWARD:
    rule->forward_first = value;
    break;
  case SET_ARRIVAL:
    rule->by_arrival = value;
    break;
  default:
    rule->pace = paces[value];
    break;
  }
}

static gboolean rules_equal(const ListRule *a, const ListRule *b) {
  return a->guidance == b->guidance && a->follows_w == b->follows_w && a->frees_tail == b->frees_tail &&
         a->depth == b->depth && a->pace == b->pace && a->patience == b->patience &&
         a->forward_first == b->forward_first && a->by_arrival == b->by_arrival;
}

/* Tries the patience that fits steps slightly shorter than the trial's. */
static void aim(Search *search, Length *length, Trial *trial) {
  static const double parts[] = {0.998, 0.99, 0.97, 0.94, 0.9, 0.87, 0.84, 0.8, 0.75, 0.7};
  Trial from = *trial;
  for (gsize i = 0; i < G_N_ELEMENTS(parts) && !search_is_over(search, length); i++) {
    Trial next = from;
    next.rule.patience = parts[i] * list_patience_for(length->list, from.objective);
    search_try(search, length, trial->objective, &next);
    if (next.objective < trial->objective)
      *trial = next;
  }
}

static void descend(Search *search, Length *length, Trial trial, gint64 n_steps) {
  gint64 stop_at = MAX(0, search->steps_left - n_steps), before;
  do {
    before = trial.objective;
    for (int setting = 0; setting < N_SETTINGS; setting++) {
      Trial from = trial;
      for (int value = 0; value < n_values(length, &from, setting); value++) {
        Trial next = from;
        set_value(&next.rule, setting, value);
        if (search_is_over(search, length) || search->steps_left <= stop_at)
          return;
        if (!rules_equal(&next.rule, &from.rule))
          search_try(search, length, trial.objective, &next);
        if (next.objective < trial.objective)
          trial = next;
      }
    }
    if (search->steps_left > stop_at)
      aim(search, length, &trial);
  } while (trial.objective < before);
}

void search_descend(Search *search, Length *length) {
  Trial starts[N_KEPT];
  int n = MIN(N_STARTS, length->n_kept);
  memcpy(starts, length->kept, sizeof starts);
  for (int i = 0; i < n; i++)
    descend(search, length, starts[i], search->steps_left / (n - i));
}

void search_improve(Search *search, Length *length) {
  static const ListRule rules[] = {{.guidance = GUIDE_STRICT},
                                   {.guidance = GUIDE_LOOSE},
                                   {.guidance = GUIDE_RESERVE, .frees_tail = TRUE, .forward_first = TRUE},
                                   {.guidance = GUIDE_ROOM}};
  gint64 before;
  do {
    before = flat_objective(&length->flat, &length->best);
    length_guide_by_best(length);
    for (gsize i = 0; i < G_N_ELEMENTS(rules); i++)
      for (gsize n = 0; n < G_N_ELEMENTS(patiences) && !search_is_over(search, length); n++) {
        Trial trial = {{NULL, THE_BEST}, rules[i], 0};
        trial.rule.patience = patiences[n];
        search_try(search, length, flat_objective(&length->flat, &length->best), &trial);
      }
  } while (flat_objective(&length->flat, &length->best) < before);
}
