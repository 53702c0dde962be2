/* Presets are rows of a table; anything else is a sum of parts such as "w2+g2+p4+m4+v4".
 *
 *     bf16+master   weights and gradients in 16 bits, master copy and both moments in 32: 2+2+12 bytes (arXiv
 *                   1910.02054 §3.1)
 *     megatron      as before, gradients accumulated in 32 bits (Megatron-LM's theoretical memory: 18 bytes)
 *     no-master     16-bit weights updated in place, moments in 32 bits
 *     pure-bf16     the same with 16-bit moments: torch.optim.Adam makes them with zeros_like(parameter) (torch/optim/
 *                   adam.py, 2019-26), so a model in bf16 whose optimizer keeps no master copy has these 8 bytes
 *     fp32-grads    no-master with 32-bit gradients
 *     fp32          32 bits throughout
 *     fp8+master    weights kept in 8 bits beside the master copy (Transformer Engine's fp8_model_init, 2023)
 *     megatron-fp8  the same with gradients accumulated in 32 bits (Megatron-LM's --fp8-param-gather, 2024)
 *     deepseek-v3   8-bit weights, 32-bit gradients and master copy, 16-bit moments (arXiv 2412.19437 §3.3.2, 2024-12)
 *     qlora         adapters in 16 bits, moments in 32 (bitsandbytes' paged_adamw_32bit), frozen weights in 4-bit
 *                   NormalFloat with a scale of 8 bits for each 64, and of 32 for each 64·256 (arXiv 2305.14314 §3): 4 +
 *                   8/64 + 32/(64·256) bits
 */
#include "recipe.h"

#include <string.h>

#include "error.h"
#include "suggest.h"

/* More than any format needs, but catches typos such as w16e9. */
static const double most_bytes = 64;

#define nf4_bytes ((4 + 8.0 / 64 + 32.0 / (64 * 256)) / 8)

static const Recipe presets[] = {
    {"bf16+master", 2, 2, 4, 8},      {"megatron", 2, 4, 4, 8},     {"no-master", 2, 2, 0, 8},
    {"pure-bf16", 2, 2, 0, 4},        {"fp32-grads", 2, 4, 0, 8},   {"fp32", 4, 4, 0, 8},
    {"fp8+master", 1, 2, 4, 8},       {"megatron-fp8", 1, 4, 4, 8}, {"deepseek-v3", 1, 4, 4, 4},
    {"qlora", 2, 2, 0, 8, nf4_bytes},
};

static const char *const preset_names[G_N_ELEMENTS(presets) + 1] = {
    "bf16+master", "megatron",     "no-master",   "pure-bf16", "fp32-grads", "fp32",
    "fp8+master",  "megatron-fp8", "deepseek-v3", "qlora",     NULL,
};

double recipe_optimizer_bytes(const Recipe *recipe) {
  return recipe->master + recipe->moments;
}

char *recipe_warning(const Recipe *recipe) {
  if (recipe->master > 0 || recipe->frozen > 0 || recipe->moments <= 2 * recipe->weights)
    return NULL;
  const double w = recipe->weights;
  g_autofree char *gradients = recipe->gradients > 0 ? g_strdup_printf("+g%g", recipe->gradients) : g_strdup("");
  g_autofree char *like_weights =
      w == 2 && recipe->gradients == 2 ? g_strdup("pure-bf16") : g_strdup_printf("w%g%s+m%g+v%g", w, gradients, w, w);
  return g_strdup_printf(
      "recipe %s keeps moments of %g bytes a parameter beside weights of %g without a master copy, wider than the "
      "weights; PyTorch's Adam makes them in the weights' format: --recipe %s",
      recipe->name, recipe->moments, w, like_weights);
}

const char *const *recipe_names(void) {
  return preset_names;
}

/* One part, a letter and its bytes: "p4". */
static gboolean parse_part(const char *part, double bytes[6], guint *seen) {
  static const char letters[] = "wgpmvf";
  const char *letter = part[0] == '\0' ? NULL : strchr(letters, part[0]);
  if (letter == NULL || part[1] == '\0' || strspn(part + 1, "0123456789.") != strlen(part + 1))
    return FALSE;
  guint bit = 1u << (letter - letters);
  char *end;
  double value = g_ascii_strtod(part + 1, &end);
  if (*end != '\0' || value > most_bytes || (*seen & bit) != 0)
    return FALSE;
  *seen |= bit;
  bytes[letter - letters] = value;
  return TRUE;
}

static gboolean parse_parts(const char *text, Recipe *recipe) {
  enum { W, G, P, M, V, F, N_PARTS };
  double bytes[N_PARTS] = {0};
  guint seen = 0;
  if (strlen(text) >= sizeof recipe->name)
    return FALSE;
  g_auto(GStrv) parts = g_strsplit(text, "+", -1);
  for (int i = 0; parts[i] != NULL; i++)
    if (!parse_part(parts[i], bytes, &seen))
      return FALSE;
  if (seen == 0)
    return FALSE;
  *recipe = (Recipe){.weights = bytes[W],
                     .gradients = bytes[G],
                     .master = bytes[P],
                     .moments = bytes[M] + bytes[V],
                     .frozen = bytes[F]};
  g_strlcpy(recipe->name, text, sizeof recipe->name);
  return TRUE;
}

gboolean recipe_parse(const char *text, Recipe *recipe, GError **error) {
  const int index = suggest_same(text, preset_names);
  if (index >= 0) {
    *recipe = presets[index];
    return TRUE;
  }
  if (text != NULL && parse_parts(text, recipe))
    return TRUE;
  g_autofree char *expected = suggest_message(text, preset_names);
  return fail_input(error,
                    "recipe: found \"%.80s\", %s; or bytes per parameter such as w2+g2+p4+m4+v4 "
                    "(weights, gradients, master copy, two moments: each at most once, at most %g bytes)",
                    text == NULL ? "" : text, expected, most_bytes);
}
