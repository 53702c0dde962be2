/* What kernels write besides parameters: tensors saved between forward and backward, one Slot per in-flight
 * micro-batch of a stage, and scratch that lives within a piece. A slot has four parts, grouped by which op writes a
 * tensor first and which reads it last. Each part comes from a pool of its own, per stage, and is returned as soon as
 * it has been read:
 *
 *                   taken by     given back by
 *     input         its receive  I or B           x₀; W or B if the linears read it directly
 *     for I         F            I or B           inputs of norms, attention and activation; the softmax
 *     for W         F            W or B           inputs of linears
 *     made by I     I            W                with separate I and W: gradients of the linears' outputs
 *
 *     boundary      activations and gradients on their way between stages
 *
 * So a rank holds exactly what the Program says it holds, however early a receive and however late a W runs. With
 * full recompute only the layers' inputs are kept from F, or of some layers all. With selective recompute all is kept
 * but what the recomputed modules produce, or (by products, torchtitan) attention's output and every other product. The
 * other tensors are scratch, except that those W reads are recomputed by I and kept with what I makes. In fp8 the
 * inputs of linears, and the gradients of their outputs, are kept as the copies that W reads (narrow.h), and themselves
 * only where something else reads them later. Shapes in elements, row-major: T tokens × width; T′ = T/tp under sequence
 * parallelism.
 *
 * Positions in a stage's stream: layer l reads l and writes l + 1; the model's head reads the one after its n layers,
 * n; the layer of the k-th MTP head is the (n + 2k − 1)-th, and that head reads n + 2k. */
#pragma once
#include "local_sizes.h"
#include "narrow.h"
#include "pool.h"

/* Columns of q, k and v of this rank's heads, side by side. */
static inline gint64 local_qkv_width(const LocalSizes *local) {
  return local->q_width + local->kv_width + local->v_width;
}

/* Ranks whose tokens come to this rank's experts. */
static inline gint64 local_n_sources(const LocalSizes *local) {
  return (gint64)local->method->ep * local->method->expert_tp;
}

/* Experts get R rows, from tokens of this and other ranks; f columns each. */
typedef struct {
  gint32 *place;         /* [T′·k] row of each choice, in send order */
  float *weights;        /* [T′·k] weights of these rows */
  float *row_weights;    /* [R] weights of the rows as received; `weights` if rows stay on the rank */
  char *rows;            /* R × h */
  char *up, *activation; /* R × 2·f, R × f */
  float *gate;           /* [T] the shared expert's gate value */
} SavedExperts;

/* A norm applied in place to a product's output: q or k, the latents of latent attention, a branch's output, the word
 * table's output. */
typedef struct {
  char *kept;         /* T × width, T′ × rank, T′ × h: the norm's input */
  float *mean, *rstd; /* [T·heads]; [T] for one norm over all heads; [T′] */
} SavedNorm;

/* Products' outputs kept, beside attention's output, under selective recompute by products: `qkv` and `up` are
 * assembled from these and from what is recomputed. All NULL otherwise. */
typedef struct {
  char *qv;   /* T × (q + v), before norms and positions */
  char *gate; /* T × f; NULL without a gate: then all of `up` is kept */
  /* T′ × h outputs of attn_out and mlp_down after reduce-scatter. Without sequence parallelism `out` is NULL, and
   * `down` is T × h before the sum, or NULL (recomputed) without a gate. */
  char *out, *down;
} KeptProducts;

typedef struct {
  char *norm1, *norm2; /* T′ × h; one tensor if both branches of a parallel block read it; x and x2 if there are no
                          norms before the branches */
  float *mean1, *rstd1, *mean2, *rstd2; /* [T′] */
  char *qkv;                            /* T × (q + k + v), rotated; under Ulysses with all copies of K and V */
  SavedNorm q_norm, k_norm;
  char *q_latent, *kv_latent; /* latent attention: T′ × r; T′ × (c + o), of which the c columns are normalised */
  char *rotated;              /* T′ × o: if kv_latent is recomputed; else NULL */
  char *scores;               /* unfused: b·heads × s × s */
  char *dropped;              /* the same after dropout */
  float *lse;                 /* flash: b·heads × s */
  char *attention;            /* T × a: as wide as q, except in latent attention */
  char *all_tokens;           /* Ulysses: attention's output before the exchange, T × a in all */
  SavedNorm post_norms[2];    /* after attention and after the MLP, if the model has them */
  char *x2;                   /* T′ × h: after attention's residual; NULL in a parallel block */
  char *up;                   /* T × up_width; in MoE layers the shared expert's */
  char *activation;           /* T × ffn_width; likewise */
  char *adapters;             /* T × r each, one after the other: what A makes of a product's input; or NULL */
  SavedExperts experts;
  KeptProducts products;
  char *narrow[N_NARROW_INPUTS]; /* in fp8: inputs of linears, turned; NULL: gathered again for W, or not there */
} SavedLayer;

/* Gradients of the linears' outputs, which W multiplies with. In the slot for an I, in scratch for a B. */
typedef struct {
  char *d_down, *d_out; /* T × h: gathered; unused without sequence parallelism (the stream's own gradients are read);
                           one for both in a parallel block */
  char *d_up, *d_qkv;   /* T × width; d_qkv NULL in latent attention */
  char *d_q, *d_kv_up, *d_q_down, *d_kv_down; /* in latent attention; T × width, T′ × r, T′ × (c + o) */
  char *d_x2;                                 /* T′ × h; NULL in a parallel block */
  char *d_mlp_branch, *d_attention_branch;    /* T′ × h: before dropout or post-norm; NULL without these */
  /* of experts */
  char *d_rows, *d_expert_up;     /* R × h: of their outputs; R × 2·f */
  char *d_scores;                 /* T′ × experts */
  char *d_gate;                   /* [T] of the shared expert's gate, before the sigmoid */
  char *d_adapters;               /* T × r each */
  char *narrow[N_NARROW_LINEARS]; /* in fp8: turned */
} LayerGradients;

/* In a parallel block, for one branch; the other uses `partial`, `reduced` and d_norm. */
typedef struct {
  char *partial;  /* T × h: attention's output; the MLP's input gradient */
  char *reduced;  /* T′ × h: the latter summed over tp; NULL if both branches read one norm */
  char *gradient; /* T′ × h: of the layer's input without attention's part; NULL likewise */
} BranchScratch;

/* Within latent attention (latent_items.c). */
typedef struct {
  char *made;                       /* T × a·(p + v): K and V are assembled from it */
  char *d_kv;                       /* T × (k + v) */
  char *q_all, *kv_all;             /* T × r, T × (c + o): gathered under sequence parallelism */
  char *d_q_partial, *d_kv_partial; /* the same sizes: before the sum over tp */
  char *d_from_kv;                  /* T′ × h */
} LatentScratch;

/* In fp8: what the next product reads. */
typedef struct {
  char *as_is;  /* its input, or its output's gradient */
  char *turned; /* an input that has been gathered for W */
  char *weight; /* ZeRO-3 */
} NarrowScratch;

/* Within a layer with experts. */
typedef struct {
  char *rows[2];      /* R × h: rows in transit, used in turn */
  float *columns[2];  /* [R] their weights, or the gradients of these, sent with them */
  char *scores;       /* T′ × experts */
  char *sums[2];      /* T′ × h: returned rows, summed; the router's input gradient */
  char *d_activation; /* R × f */
  char *gate;         /* [T] before the sigmoid */
  float *d_gate;      /* [T] after it */
  /* all-gather dispatch, this rank's and all ranks': a byte per expert (chosen_bytes per rank), and its weight */
  char *chosen[2], *dense[2]; /* chosen_bytes; T′ × experts */
  gint64 chosen_bytes;        /* whole words */
  char *all_tokens;           /* (T′ of all) × h */
} ExpertScratch;

/* What an MTP head saves besides its layer's and its loss's tensors (mtp_items.c). */
typedef struct {
  char *words;              /* T′ × h: of the embedding */
  char *norms[2];           /* T′ × h: outputs of the words' norm and of x's */
  float *mean[2], *rstd[2]; /* [T′] */
} SavedMtp;

typedef struct {
  char *d_columns;   /* T × h/tp: of the product's output; NULL if tp does not cut it */
  char *d_embedding; /* T × h: of the words, gathered */
} MtpGradients;

typedef struct {
  char *gathered[2];           /* T × h: the product's inputs, gathered under sequence parallelism */
  char *columns, *all_columns; /* T × h/tp, T × h: its output under tp, one rank's and all ranks' */
  char *partial, *reduced;     /* T × h, T′ × h: gradient of the words' norm output */
  char *tokens;                /* T × h: gradient of the layer's input, gathered */
  char *d_words, *d_x;         /* T′ × h; d_words under sequence parallelism */
} MtpScratch;

typedef struct {
  char *x;    /* T′ × h: what the final norm reads */
  char *norm; /* T′ × h */
  float *mean, *rstd;
  float *probabilities;                  /* T × vocab_width */
  float *row_max, *row_sum, *row_target; /* [T] */
  char *logits, *d_logits;               /* T × vocab_width; logits are scratch */
  char *capped;                          /* T × vocab_width: what the loss reads; NULL if logits are not capped */
} SavedHead;

/* Extra memory of attention cut by cp (context_items.c); NULL where the communication method does not use it. T and s
 * are this cp rank's. */
typedef struct {
  char *kv[2];      /* ring: a block of K and V each, T × (k + v); all-gather: all blocks, by rank and by position */
  char *d_kv[2];    /* ring: their gradients; all-gather: the first, by position */
  char *part;       /* ring: T × q or a, a block's part of the output or of dQ */
  float *part_lse;  /* ring: b·heads × s */
  char *sent, *got; /* Ulysses: T × (q + k + v), a part per member; with all copies of K and V */
  char *d_out;      /* Ulysses: gradient of the output of all tokens; T × a in all */
} ContextScratch;

typedef enum { PART_INPUT, PART_FOR_I, PART_FOR_W, PART_MADE_BY_I, N_SLOT_PARTS } SlotPart;

typedef struct {
  int stage, micro_batch;
  PoolPiece *parts[N_SLOT_PARTS]; /* NULL: not taken yet, or given back */
  PoolPiece *gradient_in;         /* written by RECV_B or by the next stage on this rank; NULL until then */
} Slot;

typedef struct {
  const LocalSizes *local; /* borrowed */
  Device *device;
  int n_stages, n_micro_batches;
  gboolean has_w;             /* the plan has separate I and W */
  gboolean every_other;       /* selective recompute by products: attention's output, every other product kept */
  guint dropped;              /* modules recomputed under selective recompute (recompute_modules.h) */
  Pool *pools;                /* [n_stages][N_SLOT_PARTS]; unused for stages of other ranks */
  Pool boundary;              /* T′ × h each */
  Slot *open;                 /* [n_stages · n_micro_batches] */
  gint64 held_bytes;          /* held by slots, in issue order: parts taken, and an incoming gradient kept for W */
  gint64 most_bytes;          /* maximum of held_bytes so far */
  const StageLayers **layers; /* [n_stages]; borrowed */

  /* scratch: one arena each for forwards and backwards if these interleave, else one for both */
  char *arenas[2];            /* owned; the second is NULL if the first serves both */
  int in_use;                 /* the arena that the pointers below point into */
  SavedLayer *scratch_layers; /* [activations_group()]; owned */
  char **group_inputs;        /* [activations_group()] T′ × h: inputs of layers inside a group; owned */
  gint64 scratch_layer_bytes; /* of both, at the arena's start */
  LayerGradients scratch_gradients;
  char *scratch_y;          /* T′ × h: recomputed output */
  char *gathered, *partial; /* T × h */
  char *reduced;            /* T × h */
  char *d_stream[2];        /* T′ × h: gradients between layers, in turn */
  char *d_norm;             /* T′ × h */
  char *d_activation;       /* T × ffn_width */
  char *d_scores;           /* unfused */
  char *d_attention;        /* T × a */
  char *adapted;            /* T × the widest input or output of a product with an adapter; or NULL */
  char *d_embedding;        /* T × h: gathered */
  float *qk_sums; /* [4·T] sums for QK norms over whole rows that tp cuts: first of x² of q, of k, then of x; NULL
                     without */
  BranchScratch branch;
  LatentScratch latent;
  MtpScratch mtp;
  MtpGradients mtp_gradients; /* for a B */
  ExpertScratch experts;
  NarrowScratch narrow;
  ContextScratch context;
  char *logits, *d_logits; /* T × vocab_width, if this rank has a head; d_logits: for a B */
} Activations;

/* One region of what a layer has saved, its input included. */
typedef struct {
  char *memory; /* NULL: not there */
  gint64 bytes;
} SavedRegion;
enum { N_SAVED_REGIONS = 3 };

/* What a rank is going to run. */
typedef struct {
  int n_stages, n_micro_batches;
  const StageLayers *const *layers; /* [n_stages]: NULL for stages of other ranks; copied */
  gboolean has_w;                   /* the plan has separate I and W */
  gboolean takes_turns;             /* parts of a forward run between those of a backward */
} ActivationsUse;

/* Layers of a stage that are recomputed at once, from the input of the first: uniform recomputation. 1: each from its
 * own. */
static inline int activations_group(const LocalSizes *local) {
  return local->method->recomputes == RECOMPUTE_FULL ? local->method->recompute_layers : 1;
}

/* FALSE: the layer is recomputed whole, or has no backward, and keeps its input alone. Those of heads that predict
 * further tokens come behind the stage's. */
gboolean activations_saves_all(const Activations *activations, const StageLayers *layers, int layer);

/* Allocates everything but slots; `cut` is borrowed. FALSE with the device's error if memory is short. */
gboolean activations_init(Activations *activations, const LocalSizes *local, Device *device, const ActivationsUse *use,
                          GError **error);
/* Work issued from now on uses the forward scratch, or the backward scratch. */
void activations_use_scratch(Activations *activations, gboolean is_backward);
void activations_clear(Activations *activations);
/* Fills with NaN what a layer did not save, so that a tensor that is not recomputed shows up. Routing places (memory
 * indices) are left alone. */
void activations_spoil_scratch(const Activations *activations, DeviceStream *stream);
/* Fills with NaN what a layer has saved, until it is copied back from the host. */
void activations_spoil_saved(const SavedRegion regions[N_SAVED_REGIONS], DeviceStream *stream);

Slot *activations_slot(Activations *activations, int stage, int micro_batch);
/* Takes memory for a forward's input, unless the slot has it; `stream` will write it. */
gboolean activations_open_input(Activations *activations, Slot *slot, DeviceStream *stream, GError **error);
/* The same, plus memory for what the forward writes. */
gboolean activations_open(Activations *activations, Slot *slot, DeviceStream *stream, GError **error);
/* Takes memory for what an I writes for W; only with has_w. */
gboolean activations_open_backward(Activations *activations, Slot *slot, DeviceStream *stream, GError **error);
/* Give back what is not read after an I, and after a W or B. `last`: the end of that op. */
void activations_close_input(Activations *activations, Slot *slot, DeviceEvent *last);
void activations_close(Activations *activations, Slot *slot, DeviceEvent *last);

/* Pointers into a slot; NULL for parts it does not have, scratch for what is not saved. */
SavedLayer activations_layer(const Activations *activations, const Slot *slot, int layer);
LayerGradients activations_gradients(const Activations *activations, const Slot *slot, int layer);
/* Of the norm after the word table. */
SavedNorm activations_embedding(const Activations *activations, const Slot *slot);
SavedHead activations_head(const Activations *activations, const Slot *slot, int mtp);
/* Of an MTP head, from 1. */
SavedMtp activations_mtp(const Activations *activations, const Slot *slot, int mtp);
MtpGradients activations_mtp_gradients(const Activations *activations, const Slot *slot, int mtp);
char *activations_input(const Activations *activations, const Slot *slot, int layer); /* x of a layer */
/* Gradient of the input of `layer` (head: n_layers): in the slot with separate I and W. */
char *activations_stream_gradient(const Activations *activations, const Slot *slot, int layer);
/* All memory that a layer of the stage has saved, its input included. */
void activations_saved(const Activations *activations, const Slot *slot, int layer,
                       SavedRegion regions[N_SAVED_REGIONS]);
char *activations_embedding_gradient(const Activations *activations, const Slot *slot);
