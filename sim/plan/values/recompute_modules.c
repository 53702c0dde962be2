/* One table of names. */
#include "recompute_modules.h"

#include <string.h>

#include "error.h"
#include "suggest.h"

static const char *const names[N_RECOMPUTE_MODULES + 1] = {[MODULE_CORE_ATTN] = "core_attn",
                                                           [MODULE_LAYERNORM] = "layernorm",
                                                           [MODULE_MLA_UP_PROJ] = "mla_up_proj",
                                                           [MODULE_MOE_ACT] = "moe_act",
                                                           [MODULE_SHARED_EXPERTS] = "shared_experts",
                                                           [MODULE_MLP] = "mlp",
                                                           [MODULE_MOE] = "moe"};

const char *recompute_module_name(RecomputeModule module) {
  g_assert(module < N_RECOMPUTE_MODULES);
  return names[module];
}

static int find_name(const char *name) {
  int i = 0;
  while (names[i] != NULL && strcmp(names[i], name) != 0)
    i++;
  return i;
}

gboolean recompute_modules_parse(const char *what, const char *text, guint *modules, GError **error) {
  g_auto(GStrv) parts = g_strsplit_set(text, ",+", -1);
  *modules = 0;
  for (char **part = parts; *part != NULL; part++) {
    const char *name = g_strstrip(*part);
    const int found = find_name(name);
    if (found == N_RECOMPUTE_MODULES) {
      g_autofree char *expected = suggest_message(name, names);
      return fail_input(error, "%s: found \"%.80s\", %s", what, name, expected);
    }
    if (*modules & MODULE_BIT(found))
      return fail_input(error, "%s: %s stands twice in \"%.80s\"", what, name, text);
    *modules |= MODULE_BIT(found);
  }
  return *modules != 0 || fail_input(error, "%s: found nothing, expected modules such as layernorm,moe_act", what);
}

char *recompute_modules_text(guint modules, const char *between) {
  GString *text = g_string_new(NULL);
  for (int i = 0; i < N_RECOMPUTE_MODULES; i++)
    if (modules & MODULE_BIT(i))
      g_string_append(g_string_append(text, text->len > 0 ? between : ""), names[i]);
  return g_string_free(text, FALSE);
}
