/* What a framework does differently: the keys of `memory` and `time` in topologies/frameworks/<name>.yaml, one row
 * each. The reader of these files, the parts that `validate --without` takes away, and the table of keys in
 * docs/frameworks.md follow from the row. A field that is zero is as if its key was left out: that is the default. */
#pragma once
#include "framework.h"
#include "yaml_node.h"

typedef enum {
  QUIRK_CHOICE,  /* int: the place among `choices` */
  QUIRK_NUMBER,  /* double */
  QUIRK_SECONDS, /* double */
  QUIRK_BYTES,   /* double */
  QUIRK_RECIPE,  /* char[32]: a name for recipe_parse() */
  QUIRK_MAPPING, /* gboolean: whether the mapping with the keys below it is there */
} QuirkKind;

/* What a quirk is taken away with, apart from all that a framework says. */
typedef enum {
  QUIRK_PART_NONE,
  QUIRK_PART_HOST,
  QUIRK_PART_WAITS,
  QUIRK_PART_RATES,
  QUIRK_PART_KERNELS,
  QUIRK_PART_TENSOR_PARALLEL,
  QUIRK_PART_DATA_PARALLEL,
  QUIRK_PART_CONTEXT,
  QUIRK_PART_SKEW,
  QUIRK_PART_MEMORY,
} QuirkPart;

typedef struct {
  const char *key; /* "time.host.layer.forward"; a * stands for every GPU generation */
  QuirkKind kind;
  size_t offset;              /* in Framework; for *: of the first generation, the others FrameworkRates apart */
  const char *const *choices; /* NULL-terminated; the first is the default */
  double least, most;         /* of a number, in base units */
  QuirkPart part;
  gboolean is_optional; /* below a mapping of its own; the keys of memory and time always are */
  const char *beside;   /* "kernels: plain": the key has a meaning only where this is so; " or " between two */
  const char *meaning;
} Quirk;

int quirks_count(void);
const Quirk *quirk_at(int i);
/* Its row in the table of keys: "| `time.loss` | plain, fused | … |". Owned by the caller. */
char *quirk_table_row(const Quirk *quirk);

/* Fill *framework from the mapping `memory` or `time`, called `name`. INPUT, "file:line: …", for an unknown key, a
 * value out of range, an unknown recipe or module, and a key that does not go with another key's value. If the
 * clashing key comes from a base and the value from the file itself, the key is dropped instead. Left as it was on
 * failure. */
gboolean quirks_read(YamlNode map, const char *name, Framework *framework, GError **error);

/* Set the part's fields to what they are without a framework. */
void quirks_take_away(QuirkPart part, FrameworkMemory *memory, FrameworkTime *time);
