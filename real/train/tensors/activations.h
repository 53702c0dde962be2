/* What kernels write besides parameters: tensors saved between forward and backward, one Slot per micro-batch in flight
 * in a stage, and scratch that lives within a piece. A slot has four parts, after who writes a tensor first and reads
 * it last; each comes from a pool of its own stage and goes back as soon as it has been read:
 *
 *                   taken by     given back by
 *     input         its receive  I or B           x₀; W or B where the linears read it as it is
 *     for I         F            I or B           inputs of norms, attention and activation; the softmax
 *     for W         F            W or B           inputs of linears
 *     made by I     I            W                where W runs apart: gradients of the linears' outputs
 *
 *     boundary      activations and gradients on their way between stages
 *
 * So a rank holds what the Program says it holds, however early a receive and however late W runs. With full recompute
 * the layers' inputs alone are kept from F, with selective recompute all but what its modules make again, or
 * attention's output and every other product (torchtitan); the other tensors are scratch, except that those W reads are
 * made again by I and stay with what I makes. Shapes in elements, row-major: T tokens × width; T′ = T/tp under sequence
 * parallelism.
 *
 * Places of a stage's stream: layer l reads l and writes l + 1, the model's head reads the one behind its n layers, n;
 * the layer of the k-th head that predicts further is the (n + 2k − 1)-th, and that head reads n + 2k. */
#pragma once
#include "cut.h"
#include "pool.h"

/* Experts get R rows, of this rank's and others' tokens; f columns each. */
typedef struct {
  gint32 *place;         /* [T′·k] row of each choice, as it leaves */
  float *weights;        /* [T′·k] of these rows */
  float *row_weights;    /* [R] of the rows as they came; `weights` where none leave */
  char *rows;            /* R × h */
  char *up, *activation; /* R × 2·f, R × f */
  float *gate;           /* [T] the shared expert's weight */
} SavedExperts;

/* Of q or k, of what latent attention makes them of, of a branch's output or of the word table's, which are normalised
 * where the product has put them. */
typedef struct {
  char *kept;         /* T × width, T′ × rank, T′ × h: what the norm read */
  float *mean, *rstd; /* [T·heads], or [T] of all heads together, [T′] */
} SavedNorm;

/* What products made, beside attention's output, under selective recompute by products: `qkv` and `up` are put together
 * of it and of what is made again. NULL otherwise. */
typedef struct {
  char *qv;   /* T × (q + v), before norms and positions */
  char *gate; /* T × f; NULL without a gate: all of `up` is kept */
  /* T′ × h of attn_out and mlp_down, as reduced and scattered; without sequence parallelism the former is NULL, the
   * latter T × h before it is summed, and NULL without a gate, where it is made again. */
  char *out, *down;
} KeptProducts;

typedef struct {
  char *norm1, *norm2;                  /* T′ × h; one where both branches of a parallel block read it; x and x2
                                           where no norms stand before them */
  float *mean1, *rstd1, *mean2, *rstd2; /* [T′] */
  char *qkv;                            /* T × (q + k + v), rotated; under Ulysses of K and V all copies */
  SavedNorm q_norm, k_norm;
  char *q_latent, *kv_latent; /* latent attention: T′ × r; T′ × (c + o), of which c are normalised */
  char *rotated;              /* T′ × o: where kv_latent is made again; NULL else */
  char *scores;               /* unfused: b·heads × s × s */
  char *dropped;              /* … as they were dropped */
  float *lse;                 /* flash: b·heads × s */
  char *attention;            /* T × a: as wide as q, but in latent attention */
  char *all_tokens;           /* Ulysses: attention's output as attention made it, T × a in all */
  SavedNorm post_norms[2];    /* behind attention and behind the MLP, where they are */
  char *x2;                   /* T′ × h: after attention's residual; NULL in a parallel block */
  char *up;                   /* T × up_width; with experts the shared one's */
  char *activation;           /* T × ffn_width; … */
  SavedExperts experts;
  KeptProducts products;
} SavedLayer;

/* Gradients of the linears' outputs: what W multiplies with. Of an I they lie in the slot, of a B in scratch. */
typedef struct {
  char *d_down, *d_out; /* T × h: gathered; unused without sequence parallelism (the streams' own are read), and of a
                           parallel block one for both */
  char *d_up, *d_qkv;   /* T × width; d_qkv NULL in latent attention */
  char *d_q, *d_kv_up, *d_q_down, *d_kv_down; /* of its products' outputs; T × width, T′ × r, T′ × (c + o) */
  char *d_x2;                                 /* T′ × h; NULL in a parallel block */
  char *d_mlp_branch, *d_attention_branch;    /* T′ × h: of what is dropped, or normalised, before it is added; NULL
                                                 where it is neither */
  /* of experts */
  char *d_rows, *d_expert_up; /* R × h: of their outputs; R × 2·f */
  char *d_scores;             /* T′ × experts */
  char *d_gate;               /* [T] of the shared one's gate, before the sigmoid */
} LayerGradients;

/* Of a parallel block, where the other branch's lie in `partial`, `reduced` and d_norm. */
typedef struct {
  char *partial;  /* T × h: attention's output; the MLP's input gradient */
  char *reduced;  /* T′ × h: the latter's sum over tp; NULL where both branches read one norm */
  char *gradient; /* T′ × h: of the layer's input but for what attention adds; NULL … */
} BranchScratch;

/* Within latent attention (latent_items.c). */
typedef struct {
  char *made;                       /* T × a·(p + v): what K and V are put together of */
  char *d_kv;                       /* T × (k + v) */
  char *q_all, *kv_all;             /* T × r, T × (c + o): gathered under sequence parallelism */
  char *d_q_partial, *d_kv_partial; /* the same sizes: before the sum over tp */
  char *d_from_kv;                  /* T′ × h */
} LatentScratch;

/* Within a layer with experts. */
typedef struct {
  char *rows[2];      /* R × h: on their way, in turn */
  float *columns[2];  /* [R] their weights, or the gradients of these, beside them */
  char *scores;       /* T′ × experts */
  char *sums[2];      /* T′ × h: what came back, summed; the router's input gradient */
  char *d_activation; /* R × f */
  char *gate;         /* [T] before the sigmoid */
  float *d_gate;      /* [T] behind it */
  /* where all tokens are gathered, own and of all: a byte for each expert, chosen_bytes of a rank, and its weight */
  char *chosen[2], *dense[2]; /* …; T′ × experts */
  gint64 chosen_bytes;        /* whole words */
  char *all_tokens;           /* (T′ of all) × h */
} ExpertScratch;

/* A head that predicts a token further has besides what its layer and its loss have (mtp_items.c). */
typedef struct {
  char *words;              /* T′ × h: of the embedding */
  char *norms[2];           /* T′ × h: behind the words' norm and that of x */
  float *mean[2], *rstd[2]; /* [T′] */
} SavedMtp;

typedef struct {
  char *d_columns;   /* T × h/tp: of what the product makes; NULL where tp does not cut it */
  char *d_embedding; /* T × h: of the words, gathered */
} MtpGradients;

typedef struct {
  char *gathered[2];           /* T × h: under sequence parallelism, what the product reads */
  char *columns, *all_columns; /* T × h/tp, T × h: what it makes under tp, of one rank and of all */
  char *partial, *reduced;     /* T × h, T′ × h: gradient of the words behind their norm */
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
  char *capped;                          /* T × vocab_width: what the loss reads; NULL where logits are not capped */
} SavedHead;

/* What attention cut by cp needs beside (context_items.c); NULL under another way of communicating. T and s are what
 * cp leaves a rank. */
typedef struct {
  char *kv[2];     /* ring: a block of K and V each, T × (k + v); all-gather: all of them, by rank and by position */
  char *d_kv[2];   /* ring: their gradients; all-gather: the first, by position */
  char *part;      /* ring: T × q or a, what a block makes of the output or of dQ */
  float *part_lse; /* ring: b·heads × s */
  /* a ring as PyTorch has it: kv has the blocks of all and the own one, d_kv[0] what a block makes of dK and dV; blocks
   * are T × (q + a) */
  float *wide;       /* T × q or a: sum of the output, or of dQ */
  float *wide_kv[2]; /* a block each: sum of dK and dV, and what is sent of them */
  char *sent, *got;  /* Ulysses: T × (q + k + v), a part for each member; of K and V all copies */
  char *d_out;       /* Ulysses: of all tokens; T × a in all */
} ContextScratch;

typedef enum { PART_INPUT, PART_FOR_I, PART_FOR_W, PART_MADE_BY_I, N_SLOT_PARTS } SlotPart;

typedef struct {
  int stage, micro_batch;
  PoolPiece *parts[N_SLOT_PARTS]; /* NULL: not taken yet, or given back */
  PoolPiece *gradient_in;         /* what RECV_B or the next stage on this rank wrote; NULL until then */
} Slot;

typedef struct {
  const Cut *cut; /* borrowed */
  Device *device;
  int n_stages, n_micro_batches;
  gboolean has_w;             /* W runs apart from I, here and there */
  gboolean saves_all;         /* else: full recompute, only inputs are kept */
  gboolean every_other;       /* … by products: attention's output and every other product are kept */
  guint dropped;              /* modules that selective recompute makes again (recompute_modules.h) */
  Pool *pools;                /* [n_stages][N_SLOT_PARTS]; unused for stages of other ranks */
  Pool boundary;              /* T′ × h each */
  Slot *open;                 /* [n_stages · n_micro_batches] */
  gint64 held_bytes;          /* of slots, in issue order: parts taken, and a gradient from behind that waits for W */
  gint64 most_bytes;          /* of them so far */
  const StageLayers **layers; /* [n_stages]; borrowed */

  /* scratch: of forwards and of backwards where these take turns, else one for both */
  char *arenas[2]; /* owned; the second is NULL where the first is for both */
  int in_use;      /* which of them the pointers below point into */
  SavedLayer scratch_layer;
  gint64 scratch_layer_bytes; /* at the arena's start */
  LayerGradients scratch_gradients;
  char *scratch_y;          /* T′ × h: recomputed output */
  char *gathered, *partial; /* T × h */
  char *reduced;            /* T × h */
  char *d_stream[2];        /* T′ × h: gradients between layers, in turn */
  char *d_norm;             /* T′ × h */
  char *d_activation;       /* T × ffn_width */
  char *d_scores;           /* unfused */
  char *d_attention;        /* T × a */
  char *d_embedding;        /* T × h: gathered */
  float *qk_sums;           /* [4·T] of whole norms that tp cuts: first of x² of q, of k, then of x; NULL without */
  BranchScratch branch;
  LatentScratch latent;
  MtpScratch mtp;
  MtpGradients mtp_gradients; /* of a B */
  ExpertScratch experts;
  ContextScratch context;
  char *logits, *d_logits; /* T × vocab_width, where a head is; d_logits: of a B */
} Activations;

/* A part of what a layer has saved, its input among it. */
typedef struct {
  char *memory; /* NULL: not there */
  gint64 bytes;
} SavedRegion;
enum { N_SAVED_REGIONS = 3 };

/* What a rank is going to run. */
typedef struct {
  int n_stages, n_micro_batches;
  const StageLayers *const *layers; /* [n_stages]: NULL for stages of other ranks; copied */
  gboolean has_w;                   /* W runs apart from I */
  gboolean takes_turns;             /* parts of a forward stand between those of a backward */
} ActivationsUse;

/* Everything but slots is allocated now; `cut` is borrowed. FALSE with the device's error when memory is short. */
gboolean activations_init(Activations *activations, const Cut *cut, Device *device, const ActivationsUse *use,
                          GError **error);
/* Work issued from now on uses the scratch of forwards, or that of backwards. */
void activations_use_scratch(Activations *activations, gboolean is_backward);
void activations_clear(Activations *activations);
/* Fills what a layer has not saved with NaN, so that a tensor which is not made again is noticed. Where tokens went
 * (places in memory) is left as it is. */
void activations_forget(const Activations *activations, DeviceStream *stream);
/* Fills what a layer has saved with NaN, until it comes back from the host. */
void activations_forget_saved(const SavedRegion regions[N_SAVED_REGIONS], DeviceStream *stream);

Slot *activations_slot(Activations *activations, int stage, int micro_batch);
/* Takes memory for a forward's input, unless the slot has it; `stream` is the one that will write it. */
gboolean activations_open_input(Activations *activations, Slot *slot, DeviceStream *stream, GError **error);
/* The same, and for what the forward writes. */
gboolean activations_open(Activations *activations, Slot *slot, DeviceStream *stream, GError **error);
/* Takes memory for what an I makes for W; only if has_w. */
gboolean activations_open_backward(Activations *activations, Slot *slot, DeviceStream *stream, GError **error);
/* Give back what nobody reads after an I, and after a W or B. `last`: the end of that op. */
void activations_close_input(Activations *activations, Slot *slot, DeviceEvent *last);
void activations_close(Activations *activations, Slot *slot, DeviceEvent *last);

/* Pointers into a slot, NULL for what lies in a part that is not there, or scratch. */
SavedLayer activations_layer(const Activations *activations, const Slot *slot, int layer);
LayerGradients activations_gradients(const Activations *activations, const Slot *slot, int layer);
/* Of the norm behind the word table. */
SavedNorm activations_embedding(const Activations *activations, const Slot *slot);
SavedHead activations_head(const Activations *activations, const Slot *slot, int mtp);
/* Of a head that predicts further, from 1 on. */
SavedMtp activations_mtp(const Activations *activations, const Slot *slot, int mtp);
MtpGradients activations_mtp_gradients(const Activations *activations, const Slot *slot, int mtp);
char *activations_input(const Activations *activations, const Slot *slot, int layer); /* x of a layer */
/* Gradient of the input of `layer` (of the head: n_layers): in the slot when W runs apart. */
char *activations_stream_gradient(const Activations *activations, const Slot *slot, int layer);
/* The memory of all that a layer of the stage has saved, its input included. */
void activations_saved(const Activations *activations, const Slot *slot, int layer,
                       SavedRegion regions[N_SAVED_REGIONS]);
char *activations_embedding_gradient(const Activations *activations, const Slot *slot);
