/* Small models with experts, for tests. */
#pragma once
#include "plan_cases.h"

/* 8 layers, the first dense; 16 experts of 512 columns, 4 for each token, and a shared one of 768. */
G_GNUC_UNUSED static Model mixture(void) {
  Model model = llama;
  model.name = (char *)"mixture";
  model.experts =
      (ModelExperts){.n = 16, .per_token = 4, .ffn_hidden = 512, .shared_ffn_hidden = 768, .n_leading = 1, .every = 1};
  return model;
}

/* The same with latent attention: heads of 64 + 32 for Q and K, of 48 for V, made of 256 and 128 columns. */
G_GNUC_UNUSED static Model latent_mixture(void) {
  Model model = mixture();
  model.n_kv_heads = model.n_heads;
  model.head_dim = 96;
  model.latent = (ModelLatent){.kv_rank = 128, .q_rank = 256, .rope_dim = 32, .v_head_dim = 48};
  return model;
}
