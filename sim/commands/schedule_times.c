#include "schedule_times.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "error.h"
#include "suggest.h"
#include "units.h"

enum { MOST_NAMED = 8 };

/* One entry of `name=value,…`. */
typedef struct {
  const char *name;
  gboolean is_needed;
  double *target;
  gboolean is_given, is_bare; /* (set by reading) */
} Named;

typedef gboolean (*ReadValue)(const char *option, const char *text, Named *named, GError **error);

static Named *find_named(const char *option, const char *text, Named *all, int n, GError **error) {
  const char *names[MOST_NAMED + 1] = {NULL};
  for (int i = 0; i < n; i++) {
    names[i] = all[i].name;
    if (strcmp(text, all[i].name) == 0)
      return &all[i];
  }
  g_autofree char *hint = suggest_message(text, names);
  fail_input(error, "%s: found \"%.40s\": %s", option, text, hint);
  return NULL;
}

static gboolean read_part(const char *option, const char *part, Named *all, int n, ReadValue read, GError **error) {
  g_auto(GStrv) sides = g_strsplit(part, "=", 2);
  Named *named = find_named(option, sides[0] != NULL ? sides[0] : "", all, n, error);
  if (named == NULL)
    return FALSE;
  if (sides[1] == NULL)
    return fail_input(error, "%s: found \"%.40s\", expected %s=…", option, part, named->name);
  if (named->is_given)
    return fail_input(error, "%s: found \"%.40s\": %s is there twice", option, part, named->name);
  named->is_given = TRUE;
  return read(option, sides[1], named, error);
}

static gboolean read_list(const char *option, const char *text, Named *all, int n, ReadValue read, GError **error) {
  g_assert(n <= MOST_NAMED);
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);
  for (char **part = parts; *part != NULL; part++)
    if (!read_part(option, *part, all, n, read, error))
      return FALSE;
  for (int i = 0; i < n; i++)
    if (all[i].is_needed && !all[i].is_given)
      return fail_input(error, "%s: found \"%s\", %s=… is missing", option, text, all[i].name);
  return TRUE;
}

/* A plain decimal number; strtod would also take hexadecimal. */
static gboolean read_number(const char *text, double *number) {
  char *end = NULL;
  *number = g_ascii_strtod(text, &end);
  return end != text && *end == '\0' && strpbrk(text, "xX") == NULL && isfinite(*number);
}

static const double most_ns = 86400e9, most_ticks = 9007199254740992; /* a day; 2^53 */

static gboolean read_time(const char *option, const char *text, Named *named, GError **error) {
  double number, seconds;
  named->is_bare = read_number(text, &number);
  if (named->is_bare) {
    *named->target = number;
  } else {
    if (!units_parse(text, UNIT_SECONDS, &seconds, error)) {
      g_prefix_error(error, "%s: ", option);
      return FALSE;
    }
    *named->target = seconds * 1e9;
  }
  const double most = named->is_bare ? floor(most_ns / BARE_UNIT_NS) : most_ns;
  if (isfinite(*named->target) && *named->target >= 0 && *named->target <= most)
    return TRUE;
  if (named->is_bare)
    return fail_input(error, "%s: found \"%s\", expected 0 to %.0f", option, text, most);
  return fail_input(error, "%s: found \"%s\", expected a time from 0 to one day", option, text);
}

gboolean parse_times(const char *text, GivenTimes *times, GError **error) {
  *times = (GivenTimes){.f = 1, .i = 1, .w = 1, .bare = TRUE};
  if (text == NULL)
    return TRUE;
  Named all[] = {{"F", TRUE, &times->f},
                 {"I", TRUE, &times->i},
                 {"W", TRUE, &times->w},
                 {"FB", FALSE, &times->pair},
                 {"send", FALSE, &times->send}};
  if (!read_list("--times", text, all, G_N_ELEMENTS(all), read_time, error))
    return FALSE;
  times->bare = all[0].is_bare;
  for (gsize i = 1; i < G_N_ELEMENTS(all); i++)
    if (all[i].is_given && all[i].is_bare != times->bare)
      return fail_input(error, "--times: found \"%s\": either all with a unit or none", text);
  if (all[3].is_given && times->pair <= 0)
    return fail_input(error, "--times: found \"%s\": FB=… must be more than 0", text);
  return TRUE;
}

StageTimes given_times_in(const GivenTimes *times, double ticks) {
  return (StageTimes){.f_ns = times->f * ticks,
                      .i_ns = times->i * ticks,
                      .w_ns = times->w * ticks,
                      .pair_ns = times->pair * ticks,
                      .send_ns = times->send * ticks};
}

/* Digits behind the point that the number has, but for its last bits; at most DBL_DIG. */
static int decimals_of(double number) {
  int n = 0;
  for (double scaled = number; n < DBL_DIG && fabs(scaled - round(scaled)) > 4 * DBL_EPSILON * scaled; n++)
    scaled = number * pow(10, n + 1);
  return n;
}

double given_times_ticks(const GivenTimes *times, int n_passes, double n_in_a_row) {
  const double given[] = {times->f, times->i, times->w, times->pair, times->send};
  const double longest = (MAX(times->f + times->i + times->w, times->pair) + n_passes * times->send) * n_in_a_row;
  const double usual = times->bare ? BARE_UNIT_NS : 1;
  int most_decimals = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(given); i++)
    most_decimals = MAX(most_decimals, decimals_of(given[i]));
  for (int decimals = most_decimals; decimals >= 0; decimals--) {
    const double ticks = n_passes * pow(10, decimals);
    if (longest * ticks <= most_ticks)
      return longest * ticks * usual <= most_ticks ? ticks * usual : ticks;
  }
  return usual;
}

static gboolean read_share(const char *option, const char *text, Named *named, GError **error) {
  if (read_number(text, named->target) && fabs(*named->target) <= 1e15)
    return TRUE;
  return fail_input(error, "%s: found \"%s\", expected a number", option, text);
}

gboolean parse_memory(const char *text, HeldShares *held, GError **error) {
  *held = (HeldShares){1, 0, 1};
  if (text == NULL)
    return TRUE;
  Named all[] = {{"F", TRUE, &held->f_holds}, {"I", TRUE, &held->i_drops}, {"W", TRUE, &held->w_drops}};
  if (!read_list("--memory", text, all, G_N_ELEMENTS(all), read_share, error))
    return FALSE;
  if (held->f_holds < 0 || held->w_drops < 0)
    return fail_input(error, "--memory: found \"%s\": F holds and W drops, neither is negative", text);
  if (fabs(held->f_holds - held->i_drops - held->w_drops) > 1e-9 * held->f_holds)
    return fail_input(error, "--memory: found \"%s\": F holds %g, but I and W drop %g together", text, held->f_holds,
                      held->i_drops + held->w_drops);
  return TRUE;
}

gboolean parse_memory_cap(const char *text, double *cap, GError **error) {
  *cap = 0;
  return text == NULL || (read_number(text, cap) && *cap > 0) ||
         fail_input(error, "--memory-cap: found \"%.80s\", expected a number above 0, in the unit of --memory", text);
}
