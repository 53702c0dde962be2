#include "offload.h"

#include <string.h>

#include "choices.h"
#include "error.h"

const char *const *offload_names(void) {
  static const char *const names[] = {"none", "host", "nvme", NULL};
  return names;
}

const char *const *offload_activations_names(void) {
  static const char *const names[] = {"none", "host", NULL};
  return names;
}

gboolean offload_parse_optimizer(const char *what, const char *text, Offload *offload, GError **error) {
  g_auto(GStrv) sides = g_strsplit(text, ":", 2);
  const int tier = parse_choice(what, sides[0], offload_names(), error);
  if (tier < 0)
    return FALSE;
  offload->optimizer = (MemoryTier)tier;
  offload->share = 0;
  if (sides[1] == NULL)
    return TRUE;
  char *end;
  const double share = g_ascii_strtod(sides[1], &end);
  if (tier != TIER_HOST)
    return fail_input(error, "%s: found \"%.80s\", expected a share of the parameters behind host alone", what, text);
  if (end == sides[1] || *end != '\0' || !(share > 0 && share <= 1))
    return fail_input(error, "%s: found \"%.80s\", expected host:SHARE, a share of the parameters above 0, at most 1",
                      what, text);
  offload->share = share < 1 ? share : 0;
  return TRUE;
}

const char *offload_optimizer_text(const Offload *offload) {
  char share[G_ASCII_DTOSTR_BUF_SIZE];
  if (offload->optimizer == TIER_GPU || offload->share == 0)
    return offload_names()[offload->optimizer];
  g_ascii_formatd(share, sizeof share, "%.15g", offload->share); /* 0.3, if that is the same number */
  if (g_ascii_strtod(share, NULL) != offload->share)
    g_ascii_dtostr(share, sizeof share, offload->share);
  g_autofree char *text = g_strconcat(offload_names()[offload->optimizer], ":", share, NULL);
  return g_intern_string(text);
}

double offload_share(const Offload *offload) {
  return offload->optimizer == TIER_GPU ? 0 : offload->share > 0 ? offload->share : 1;
}

double offload_kept_share(const Offload *offload) {
  return 1 - offload_share(offload);
}

gboolean offload_is_any(const Offload *offload) {
  return offload->optimizer != TIER_GPU || offload->weights != TIER_GPU || offload->activations != TIER_GPU;
}

gboolean offload_uses(const Offload *offload, MemoryTier tier) {
  return offload->optimizer == tier || offload->weights == tier || offload->activations == tier;
}
