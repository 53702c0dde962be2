/* Every part is removed through the Plan: its fields are set to their values in a plan without that part. The
 * framework as a whole consists of all its parts, so removing these one by one or together gives the same result. */
#include "ablation.h"

#include <string.h>

#include "error.h"
#include "quirks.h"
#include "suggest.h"

/* What a part is besides rows of quirks.h: of a recipe, what a new plan has. */
static void without_recipe(Plan *plan) {
  if (plan->memory.recipe[0] == '\0' || plan->precision == PRECISION_FP32)
    return;
  g_autoptr(Plan) fresh = plan_new();
  plan->recipe = fresh->recipe;
}

static void without_framework(Plan *plan) {
  without_recipe(plan);
  plan->memory = (FrameworkMemory){0};
  plan->time = (FrameworkTime){0};
}

static void without_plain_kernels(Plan *plan) {
  plan->layer_kernels = plan->norm_kernel = FRAMEWORK_KERNELS_FUSED;
}

static void without_contention(Plan *plan) {
  plan->contention = FALSE;
}

static const struct {
  const char *name, *meaning;
  QuirkPart quirks;
  void (*take_away)(Plan *plan); /* first; NULL: nothing else */
} part_table[] = {
    {"framework", "all that the row's framework says, of time and of memory", .take_away = without_framework},
    {"host",
     "host time of its layers and collectives: each kernel takes the GPU file's host_launch, and nothing is read of "
     "experts",
     QUIRK_PART_HOST},
    {"waits", "how it sends between stages: on streams of their own, beside computing only where the schedule does",
     QUIRK_PART_WAITS},
    {"rates", "what its libraries reach of a GPU generation: products and attention at the GPU file's rates",
     QUIRK_PART_RATES},
    {"kernels",
     "norm, rotation, gate, copies round attention and what is about experts of single operations, and where full "
     "recomputation ends: they are fused, it ends with the layer",
     QUIRK_PART_KERNELS, without_plain_kernels},
    {"tensor-parallel", "how it runs collectives of tp: the reduction of an input gradient beside the weight gradient",
     QUIRK_PART_TENSOR_PARALLEL},
    {"data-parallel",
     "how it runs collectives of dp, and what passes over gradients: beside computing, in shards, in the format they "
     "are held in, and only Adam does",
     QUIRK_PART_DATA_PARALLEL},
    {"context", "how its ring of context parallelism gathers, passes and sums: as Transformer Engine's",
     QUIRK_PART_CONTEXT},
    {"skew", "the spread of ranks that come to a collective: all come at once", QUIRK_PART_SKEW},
    {"memory", "what it holds besides, and its recipe of bytes per parameter", QUIRK_PART_MEMORY, without_recipe},
    {"contention", "transfers that share links: each has its links for itself", .take_away = without_contention},
};

int parts_count(void) {
  return G_N_ELEMENTS(part_table);
}

const char *part_name(int i) {
  g_assert(i >= 0 && i < parts_count());
  return part_table[i].name;
}

static gboolean add_part(const char *name, Parts *parts, GError **error) {
  for (int i = 0; i < parts_count(); i++)
    if (strcmp(name, part_table[i].name) == 0) {
      if (*parts & 1u << i)
        return fail_input(error, "\"%s\" is named twice", name);
      *parts |= 1u << i;
      return TRUE;
    }
  const char *names[G_N_ELEMENTS(part_table) + 1] = {NULL};
  for (int i = 0; i < parts_count(); i++)
    names[i] = part_table[i].name;
  g_autofree char *expected = suggest_message(name, names);
  return fail_input(error, "found \"%.80s\", %s", name, expected);
}

gboolean parts_parse(const char *text, Parts *parts, GError **error) {
  g_auto(GStrv) names = g_strsplit(text, ",", -1);
  *parts = 0;
  if (names[0] == NULL)
    return add_part("", parts, error);
  for (int i = 0; names[i] != NULL; i++)
    if (!add_part(g_strstrip(names[i]), parts, error))
      return FALSE;
  return TRUE;
}

char *parts_text(Parts parts) {
  GString *text = g_string_new(NULL);
  for (int i = 0; i < parts_count(); i++)
    if (parts & 1u << i)
      g_string_append_printf(text, "%s%s", text->len > 0 ? ", " : "", part_table[i].name);
  return g_string_free(text, FALSE);
}

char *parts_help(void) {
  GString *text = g_string_new(NULL);
  for (int i = 0; i < parts_count(); i++)
    g_string_append_printf(text, "  %-16s %s\n", part_table[i].name, part_table[i].meaning);
  return g_string_free(text, FALSE);
}

void parts_take_away(Parts parts, Plan *plan) {
  for (int i = 0; i < parts_count(); i++) {
    if (!(parts & 1u << i))
      continue;
    if (part_table[i].take_away != NULL)
      part_table[i].take_away(plan);
    if (part_table[i].quirks != QUIRK_PART_NONE)
      quirks_take_away(part_table[i].quirks, &plan->memory, &plan->time);
  }
}
