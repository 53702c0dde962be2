/* A training framework, by name: what it does besides what the model and the plan ask for. Read from
 * topologies/frameworks/<name>.yaml:
 *
 *     name: megatron-core
 *     source: >-
 *       where the facts are from
 *     base: megatron-lm  # the framework that this one overrides key by key (yaml_base.h; default: none); without a
 *                        # source of its own it has its base's
 *     variant_of: megatron-lm  # that whose users get this one by an option or a later release: one of the steps that
 *                        # are tried away from its plans (default: none, whatever the base says)
 *     dropout: none      # of runs that do not say: none; usual (default): as GPT-2 was trained, where the model is of
 *                        # its kind
 *     memory: …  # framework_memory.h
 *     time: …    # framework_time.h
 */
#pragma once
#include "framework_memory.h"
#include "framework_time.h"

typedef enum { DROPOUT_USUAL, DROPOUT_NONE } FrameworkDropout;

/* Zeroed: none. */
typedef struct {
  int dropout; /* FrameworkDropout */
  FrameworkMemory memory;
  FrameworkTime time;
} Framework;

/* `name` is a file or a name in topologies/frameworks/. INPUT where there is none, with the names there are, and as its
 * mappings' readers. */
gboolean framework_read(const char *name, Framework *framework, GError **error);

/* The files that `name` means: its own, that of its base and so on. Owned by the caller. INPUT where there is none. */
GStrv framework_files(const char *name, GError **error);

/* The first in topologies/frameworks/ that says itself, not by its base, that it is a variant of `name`; NULL: none.
 * Owned by the caller. */
char *framework_variant(const char *name);

/* Those that topologies/frameworks/ has. Owned by the caller. */
GStrv framework_names(void);
/* Whether `name` is one of them. */
gboolean framework_is_described(const char *name);
