/* Bytes per parameter of model state: weights, gradients, master copy, two Adam moments.
 * Sources: ZeRO (arXiv 1910.02054 §3.1: 2+2+12), Megatron-LM's theoretical memory (18, or 6+12/d). */
#pragma once
#include <glib.h>

typedef struct {
  char name[32];
  double weights;   /* w: bytes per parameter of the weights computed with */
  double gradients; /* g: bytes per parameter of the accumulated gradient */
  double master;    /* p: full-precision copy held by the optimizer */
  double moments;   /* m + v: both moments together */
  double frozen;    /* f: a layer's frozen weights; 0: as those that are trained */
} Recipe;

/* Bytes per parameter held by the optimizer: master + moments. */
double recipe_optimizer_bytes(const Recipe *recipe);

/* A preset (`bf16+master` 2+2+4+8, `megatron` 2+4+4+8, `no-master` 2+2+8,
 * `pure-bf16` 2+2+4, `fp32-grads` 2+4+8, `fp32` 4+4+8,
 * `fp8+master` …; see recipe_names()) or explicit bytes "w2+g2+p4+m4+v4" (in any order; each part at most once, all
 * optional). */
gboolean recipe_parse(const char *text, Recipe *recipe, GError **error);
/* Where the moments are wider than weights that have no master copy: so much, and what PyTorch keeps; else NULL. Owned
 * by the caller. */
char *recipe_warning(const Recipe *recipe);
/* NULL-terminated preset names. */
const char *const *recipe_names(void);
