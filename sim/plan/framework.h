/* A training framework, by name: what it does beyond what the model and the plan ask for. Read from
 * topologies/frameworks/<name>.yaml:
 *
 *     name: megatron-core
 *     source: >-
 *       where the facts are from
 *     base: megatron-lm        # the framework that this one overrides key by key (yaml_base.h; default: none);
 *                              # `source` may be inherited, too
 *     variant_of: megatron-lm  # the framework that turns into this one by an option or a later release: a step to
 *                              # try when improving its plans (default: none, whatever the base says)
 *     dropout: none            # for runs that do not say: none; usual (default): as GPT-2 was trained, for models of
 *                              # its kind
 *     memory: …                # what it holds in memory beyond the tensors that all frameworks need
 *     time: …                  # how it spends time beyond the arithmetic that all of them need
 *
 * The keys of `memory` and `time` are the rows of quirks.c, which say what each means. */
#pragma once
#include "quirk_values.h"

/* The choices of a key; the first is the default. */
typedef enum { DROPOUT_USUAL, DROPOUT_NONE } FrameworkDropout;

/* Zeroed: no framework. */
typedef struct {
  int dropout; /* FrameworkDropout */
  FrameworkMemory memory;
  FrameworkTime time;
} Framework;

/* `name` is a file or a name in topologies/frameworks/. INPUT if there is none, listing the names there are, and for
 * whatever quirks_read() refuses. */
gboolean framework_read(const char *name, Framework *framework, GError **error);

/* The files behind `name`: its own, its base's and so on. Owned by the caller. INPUT if there is none. */
GStrv framework_files(const char *name, GError **error);

/* The first framework in topologies/frameworks/ whose own file, not its base, declares it a variant of `name`; NULL:
 * none. Owned by the caller. */
char *framework_variant(const char *name);

/* The names in topologies/frameworks/. Owned by the caller. */
GStrv framework_names(void);
/* Whether `name` is one of them. */
gboolean framework_is_described(const char *name);
