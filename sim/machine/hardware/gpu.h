/* One kind of GPU: peaks, memory, and the few physical constants of its kernels' costs. Read from
 * topologies/gpus/<name>.yaml, where every constant has unit, source and date. A file may also have tables of
 * measured times (measured_kernels.h), which take precedence over the constants. */
#pragma once
#include "measured_kernels.h"

enum { GPU_MAX_TILES = 12 };

/* Alignment of a matrix's rows: to 2, 4 or 8 bytes and no more. From 16 on, matrix units are fed at full rate (cuBLAS
 * documentation, "Tensor Core Usage"). */
typedef enum { UNALIGNED_2, UNALIGNED_4, UNALIGNED_8, N_UNALIGNED } GpuUnaligned;

/* Generations that the collective library distinguishes. */
typedef enum {
  ARCHITECTURE_OTHER, /* also if not stated */
  ARCHITECTURE_VOLTA,
  ARCHITECTURE_AMPERE,
  ARCHITECTURE_ADA,
  ARCHITECTURE_HOPPER,
  ARCHITECTURE_BLACKWELL,
  N_ARCHITECTURES
} GpuArchitecture;
extern const char *const architecture_names[N_ARCHITECTURES + 1]; /* NULL-terminated, enum order */

/* Whose CPU launches its kernels. */
typedef enum { HOST_OTHER, HOST_GRACE, N_GPU_HOSTS } GpuHost;

/* Kernels that some traces show where the file's rates of attention are those of others. */
typedef struct {
  double forward, backward; /* as attention_forward and attention_backward; 0: not stated */
  double ramp;              /* of both */
  int narrow_head;          /* as attention_narrow_head */
  double narrow;
} GpuFlash2;

/* An output tile that a matrix-product kernel may use. */
typedef struct {
  int m, n;          /* rows, columns of C computed by one SM (or one pair) at a time */
  double efficiency; /* (0, 1]: share of the sustained rate reached with this tile at large k */
} GpuTile;

typedef struct {
  char *name, *source, *file; /* owned */
  GPtrArray *bases;           /* owned, of owned paths, as in Cluster; NULL in a GPU that was not read from a file */
  int architecture;           /* GpuArchitecture */
  int n_sms;
  double clock_Hz;              /* boost clock the peaks are stated at */
  double peak_flops[N_NUMBERS]; /* FLOP/s dense, at that clock; 0 = not supported */
  double power_W;               /* power limit; 0 = not stated */
  double hbm_bytes, hbm_Bps;    /* capacity; peak bandwidth */
  double reserved_bytes;        /* taken by context, NCCL and libraries before the model */
  double margin_bytes;          /* that plans must leave free; 0 unless the user asks for some (memory_margin.h) */

  /* Matrix products: time = waves of tiles over SMs × (k + k_ramp) / sustained rate, or the HBM time if longer. */
  double sustained[N_NUMBERS]; /* (0, 1]: share of peak that issue and memory allow, for large products run alone */
  GpuTile tiles[GPU_MAX_TILES];
  int n_tiles;
  double under_load; /* (0, 1]: share of that left in a training step, where kernels run back to back for seconds
                        under the power limit and beside collectives */
  double under_load_of[N_NUMBERS]; /* the same for one format, instead of under_load; 0: under_load */
  double rate; /* share of the rate of products and attention that the cluster's runs showed; there is no key, see
                  as_run.h */
  double k_ramp;                   /* prologue + epilogue, in 16-bit elements of k */
  double accumulate_exposed; /* [0, 1]: share of the traffic for accumulating a result that is not hidden behind the
                                product's arithmetic */
  double grouped_exposed;    /* the same for grouped products, one per expert */
  /* (0, 1]: share of the rate left if the rows of an operand or of the result have only this alignment, for a single
   * product and for several in one launch (heads, experts); 0: all of it. Not for fp32, which runs on CUDA cores. */
  double unaligned[N_UNALIGNED], unaligned_batched[N_UNALIGNED];
  double unaligned_tf32;   /* of TF32, instead of both, aligned to less than 16 bytes; 0: as they say */
  double kernel_latency_s; /* least time of any kernel on the device */

  /* Memory-bound kernels: time = bytes / (hbm_Bps × efficiency) + kernel_latency_s. */
  double hbm_efficiency;
  double weight_gradient_rate; /* share of the rate of products that weight gradients reach in fewer than 16 bits; 0:
                                  1. Set by frameworks only, there is no key */
  double norm_rate;    /* share of the HBM rate that RMSNorms in single operations reach; 0: 1. Set by frameworks
                          only, there is no key */
  double strided_rate; /* … that operations which read parts of rows or broadcast an operand reach; likewise */

  /* Fused attention: share of the element format's peak, over causal FLOPs, with enough keys for the ramp to
   * vanish. */
  double attention_forward, attention_backward;
  double attention_ramp_forward, attention_ramp_backward; /* keys that take as long as the prologue and epilogue of a
                                                             block of queries together; 0: none */
  double attention_wide;          /* (0, 1]: share of these left if heads of Q and K are wider than V's */
  int attention_narrow_head;      /* largest head of Q and K that does less arithmetic per exponential; 0: none */
  double attention_narrow;        /* (0, 1]: share of these left for such heads */
  int attention_head_multiple;    /* a head costs as much as the next multiple of this many elements; 1: any size */
  double attention_of_generation; /* (0, 1]: share that this part, with a lower power limit than most, reaches of a
                                     framework's rates for its generation; 0: all of it */

  GpuFlash2 flash_2; /* FlashAttention-2, where newer kernels are faster */

  double host_launch_s; /* host time to issue one kernel from an eager framework */
  int host;             /* GpuHost */

  MeasuredKernels *measured; /* owned; NULL: the file has no tables */
  gboolean without_curves;   /* the tables' memory-bound kernels are not those of the plan (measured_cost_gpu()); there
                                is no key */
} Gpu;

gboolean gpu_read(const char *file, Gpu *gpu, GError **error);
void gpu_clear(Gpu *gpu);
/* `gpu` with the rates of FlashAttention-2 for attention, if they are stated. Shares what `gpu` owns: do not clear it.
 */
Gpu gpu_of_flash_2(const Gpu *gpu);
/* Bytes available to a model. */
double gpu_room_bytes(const Gpu *gpu);
