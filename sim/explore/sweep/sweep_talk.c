#include "sweep_talk.h"

#include <string.h>

#include "error.h"

/* Texts one after another, each with its NUL. */
void facts_pack(const GArray *facts, GByteArray *bytes) {
  for (guint i = 0; i < facts->len; i++) {
    const RunFact *fact = &g_array_index(facts, RunFact, i);
    g_byte_array_append(bytes, (const guint8 *)fact->name, (guint)strlen(fact->name) + 1);
    g_byte_array_append(bytes, (const guint8 *)fact->value, (guint)strlen(fact->value) + 1);
  }
}

GArray *facts_unpack(const GByteArray *bytes) {
  GArray *facts = run_facts_new();
  const char *at = (const char *)bytes->data, *end = at + bytes->len;
  while (at < end) {
    const char *value = at + strlen(at) + 1;
    run_facts_add(facts, at, value);
    at = value + strlen(value) + 1;
  }
  return facts;
}

gboolean facts_check_equal(const GArray *mine, const GArray *theirs, GError **error) {
  for (guint i = 0; i < mine->len; i++) {
    const RunFact *fact = &g_array_index(mine, RunFact, i);
    const char *other = run_facts_find(theirs, fact->name);
    if (g_strcmp0(fact->value, other) != 0)
      return fail_input(error, "%s: %s here, %s on the first rank", fact->name, fact->value,
                        other != NULL ? other : "unknown");
  }
  return TRUE;
}
