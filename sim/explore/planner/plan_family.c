#include "plan_family.h"

#include <string.h>

#include "plan_fields.h"

/* Both are 1F1B; which it is follows from the chunks. */
static const char *kind_of_schedule(const Plan *plan) {
  const char *name = plan->schedule != NULL ? plan->schedule : "1f1b";
  return plan->pp == 1 || strcmp(name, "interleaved") == 0 ? "1f1b" : name;
}

char *plan_family_key(const Model *model, const Cluster *cluster, const Plan *plan, const char *const *compared) {
  GString *key = g_string_new(NULL);
  g_string_printf(key, "%p %p %d %d %d %d %d %d %s", (gconstpointer)model, (gconstpointer)cluster, plan->gpus, plan->tp,
                  plan->pp, plan->cp, plan->ep, zero_shards_weights(plan->zero), kind_of_schedule(plan));
  for (; compared != NULL && *compared != NULL; compared++) {
    const int field = plan_field_find(*compared);
    g_autofree char *text = field >= 0 ? plan_field_text(plan_field(field), plan) : NULL;
    g_string_append_printf(key, " %s", text != NULL ? text : "");
  }
  return g_string_free(key, FALSE);
}

GStrv plan_family_compared(const Space *space) {
  GPtrArray *names = g_ptr_array_new();
  for (int i = 0; i < plan_n_fields(); i++) {
    const char *given = plan_field_is_axis(plan_field(i)) ? space_given(space, plan_field(i)->name) : NULL;
    if (given != NULL && (strchr(given, ',') != NULL || strstr(given, "..") != NULL))
      g_ptr_array_add(names, g_strdup(plan_field(i)->name));
  }
  g_ptr_array_add(names, NULL);
  return (GStrv)g_ptr_array_free(names, FALSE);
}
