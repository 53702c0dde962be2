/* One table of keys. What they mean in bytes is documented where a piece's memory is counted. */
#include "framework_memory.h"

#include <string.h>

#include "error.h"

typedef struct {
  FrameworkMemory memory;
  char *recipe, *recompute_modules; /* owned */
} Draft;

static const char *const logits_names[] = {"split", "whole", "replicated", NULL};
static const char *const vocabulary_names[] = {"padded", "as_is", NULL};
static const char *const gradient_names[] = {"fused", "dense", NULL};
static const char *const spare_names[] = {"none", "kept", NULL};
static const char *const kernel_names[] = {"fused", "plain", NULL};
static const char *const gathered_names[] = {"sharded", "kept", NULL};
static const char *const selective_names[] = {"scores", "products", "core", NULL};

#define IN_MEMORY(member) offsetof(Draft, memory.member)

static const YamlField memory_fields[] = {
    {"recipe", FIELD_TEXT, FALSE, offsetof(Draft, recipe)},
    {"logits", FIELD_CHOICE, FALSE, IN_MEMORY(logits), .names = logits_names},
    {"logit_bytes", FIELD_NUMBER, FALSE, IN_MEMORY(logit_bytes), 4, 64},
    {"vocabulary", FIELD_CHOICE, FALSE, IN_MEMORY(vocabulary), .names = vocabulary_names},
    {"vocabulary_gradients", FIELD_CHOICE, FALSE, IN_MEMORY(vocabulary_gradients), .names = gradient_names},
    {"spare_gradients", FIELD_CHOICE, FALSE, IN_MEMORY(spare_gradients), .names = spare_names},
    {"norm_bytes", FIELD_NUMBER, FALSE, IN_MEMORY(norm_bytes), 0, 64},
    {"fragmentation", FIELD_QUANTITY, FALSE, IN_MEMORY(fragmentation_bytes), 0, 1e12, UNIT_BYTES},
    {"kernels", FIELD_CHOICE, FALSE, IN_MEMORY(kernels), .names = kernel_names},
    {"gathered", FIELD_CHOICE, FALSE, IN_MEMORY(gathered), .names = gathered_names},
    {"selective", FIELD_CHOICE, FALSE, IN_MEMORY(selective), .names = selective_names},
    {"recompute_modules", FIELD_TEXT, FALSE, offsetof(Draft, recompute_modules)},
    {"activation_input_bytes", FIELD_NUMBER, FALSE, IN_MEMORY(activation_input_bytes), 0.5, 8},
    {"attention_output_bytes", FIELD_NUMBER, FALSE, IN_MEMORY(attention_output_bytes), 0.5, 8},
};

static gboolean keep_recipe(YamlNode map, Draft *draft, GError **error) {
  Recipe recipe;
  if (draft->recipe == NULL)
    return TRUE;
  if (!recipe_parse(draft->recipe, &recipe, error))
    return yaml_prefix(map, error);
  g_strlcpy(draft->memory.recipe, recipe.name, sizeof draft->memory.recipe);
  return TRUE;
}

static gboolean keep_modules(YamlNode map, Draft *draft, GError **error) {
  guint *modules = &draft->memory.recompute_modules;
  if (draft->recompute_modules != NULL &&
      !recompute_modules_parse("recompute_modules", draft->recompute_modules, modules, error))
    return yaml_prefix(map, error);
  return *modules == 0 || draft->memory.selective != SELECTIVE_PRODUCTS ||
         yaml_fail(map, error, "found recompute_modules, expected them without \"selective: products\"");
}

gboolean framework_memory_parse(YamlNode map, FrameworkMemory *memory, GError **error) {
  Draft draft = {0};
  gboolean ok = yaml_map_read(map, memory_fields, G_N_ELEMENTS(memory_fields), &draft, error) &&
                keep_recipe(map, &draft, error) && keep_modules(map, &draft, error);
  g_free(draft.recipe);
  g_free(draft.recompute_modules);
  if (ok)
    *memory = draft.memory;
  return ok;
}
