/* Rotary positions (arXiv 2104.09864), and the joins and splits around them in latent attention (arXiv 2405.04434
 * §2.1). Pairs (j, j + d/2) are rotated by position·base^(−2j/d); the cosines and sines are cached for the next call.
 *
 *      made    | p₀ v₀ | p₁ v₁ | …      K   | p₀ o' | p₁ o' | …      V   | v₀ | v₁ | …
 *      shared  | o |                    o' = o, rotated; back: o = Σ of all o', rotated back */
#include "cpu_number.h"

#include <math.h>

/* Cosines and sines of half a head, row by row: [seq_len][2][dim / 2]. */
static const float *angles_of(CpuScratch *scratch, gint64 seq_len, gint64 dim, double base, SequencePieces pieces) {
  gint64 half = dim / 2;
  if (scratch->angles != NULL && scratch->angles_seq_len == seq_len && scratch->angles_head_dim == dim &&
      scratch->angles_base == base && scratch->angles_pieces.early == pieces.early &&
      scratch->angles_pieces.late == pieces.late)
    return scratch->angles;
  g_free(scratch->angles);
  float *angles = scratch->angles = g_new(float, (gsize)(seq_len * half * 2));
  scratch->angles_seq_len = seq_len;
  scratch->angles_head_dim = dim;
  scratch->angles_base = base;
  scratch->angles_pieces = pieces;
  for (gint64 j = 0; j < half; j++) {
    double frequency = pow(base, -2.0 * (double)j / (double)dim);
    for (gint64 row = 0; row < seq_len; row++) {
      const double angle = (double)sequence_position(pieces, row, seq_len) * frequency;
      angles[row * 2 * half + j] = (float)cos(angle);
      angles[row * 2 * half + half + j] = (float)sin(angle);
    }
  }
  return angles;
}

static void turn(float *x, const float *cosine, const float *sine, float sign, gint64 half) {
#pragma omp simd
  for (gint64 j = 0; j < half; j++) {
    float a = x[j], b = x[half + j], s = sign * sine[j];
    x[j] = a * cosine[j] - b * s;
    x[half + j] = b * cosine[j] + a * s;
  }
}

CPU_KERNEL(rope) {
  const RopeKernel *rope = &kernel->rope;
  Number number = (Number)rope->number;
  gint64 d = rope->head_dim, width = (rope->n_heads - 1) * rope->head_stride + d;
  g_assert(d % 2 == 0 && rope->head_stride >= d && rope->ld >= width);
  const float *angles = angles_of(scratch, rope->seq_len, d, rope->base, rope->pieces);
  float *buffer = cpu_scratch_floats(scratch, width);
  for (gint64 row = 0; row < rope->rows; row++) {
    const float *cosine = angles + row % rope->seq_len * d;
    float *x = row_open(rope->x, number, row * rope->ld, width, buffer);
    for (gint64 head = 0; head < rope->n_heads; head++)
      turn(x + head * rope->head_stride, cosine, cosine + d / 2, rope->inverse ? -1.0f : 1.0f, d / 2);
    row_close(rope->x, number, row * rope->ld, width, x);
  }
}

/* Offsets of a row's tensors, in elements. */
typedef struct {
  gint64 made, shared, kv;
  gint64 made_width, k_width, v_width;
} LatentRow;

static LatentRow latent_row(const LatentKernel *latent, gint64 row) {
  const gint64 heads = latent->n_heads, made = heads * (latent->plain_dim + latent->v_dim);
  return (LatentRow){.made = row * made,
                     .shared = row * latent->ld_shared,
                     .kv = row * latent->ld_kv,
                     .made_width = made,
                     .k_width = heads * (latent->plain_dim + latent->rotated_dim),
                     .v_width = heads * latent->v_dim};
}

static float *latent_buffer(const LatentKernel *latent, CpuScratch *scratch) {
  const LatentRow at = latent_row(latent, 0);
  return cpu_scratch_floats(scratch, at.made_width + at.k_width + at.v_width + latent->rotated_dim);
}

static void copy_floats(float *to, const float *from, gint64 n) {
  memcpy(to, from, (gsize)n * sizeof(float));
}

CPU_KERNEL(latent_join) {
  const LatentKernel *latent = &kernel->latent;
  const Number number = (Number)latent->number;
  const gint64 p = latent->plain_dim, o = latent->rotated_dim, v_dim = latent->v_dim;
  const float *angles = angles_of(scratch, latent->seq_len, o, latent->base, latent->pieces);
  float *rotated = latent_buffer(latent, scratch), *buffer = rotated + o;
  for (gint64 row = 0; row < latent->rows; row++) {
    const LatentRow at = latent_row(latent, row);
    const float *cosine = angles + row % latent->seq_len * o;
    copy_floats(rotated, row_in(latent->shared, number, at.shared, o, buffer), o);
    turn(rotated, cosine, cosine + o / 2, 1, o / 2);
    const float *made = row_in(latent->made, number, at.made, at.made_width, buffer);
    float *k = row_out(latent->k, number, at.kv, buffer + at.made_width);
    float *v = row_out(latent->v, number, at.kv, buffer + at.made_width + at.k_width);
    for (gint64 head = 0; head < latent->n_heads; head++, made += p + v_dim) {
      copy_floats(k + head * (p + o), made, p);
      copy_floats(k + head * (p + o) + p, rotated, o);
      copy_floats(v + head * v_dim, made + p, v_dim);
    }
    row_close(latent->k, number, at.kv, at.k_width, k);
    row_close(latent->v, number, at.kv, at.v_width, v);
  }
}

CPU_KERNEL(latent_split) {
  const LatentKernel *latent = &kernel->latent;
  const Number number = (Number)latent->number;
  const gint64 p = latent->plain_dim, o = latent->rotated_dim, v_dim = latent->v_dim;
  const float *angles = angles_of(scratch, latent->seq_len, o, latent->base, latent->pieces);
  float *shared = latent_buffer(latent, scratch), *buffer = shared + o;
  for (gint64 row = 0; row < latent->rows; row++) {
    const LatentRow at = latent_row(latent, row);
    const float *cosine = angles + row % latent->seq_len * o;
    const float *k = row_in(latent->k, number, at.kv, at.k_width, buffer + at.made_width);
    const float *v = row_in(latent->v, number, at.kv, at.v_width, buffer + at.made_width + at.k_width);
    float *made = row_out(latent->made, number, at.made, buffer);
    memset(shared, 0, (gsize)o * sizeof(float));
    for (gint64 head = 0; head < latent->n_heads; head++) {
      float *to = made + head * (p + v_dim);
      const float *turned = k + head * (p + o) + p;
      copy_floats(to, k + head * (p + o), p);
      copy_floats(to + p, v + head * v_dim, v_dim);
#pragma omp simd
      for (gint64 j = 0; j < o; j++)
        shared[j] += turned[j];
    }
    row_close(latent->made, number, at.made, at.made_width, made);
    turn(shared, cosine, cosine + o / 2, -1, o / 2);
    float *out = row_out(latent->shared, number, at.shared, buffer);
    copy_floats(out, shared, o);
    row_close(latent->shared, number, at.shared, o, out);
  }
}
