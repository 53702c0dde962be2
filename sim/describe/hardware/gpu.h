/* One kind of GPU: peaks, memory, and the few physical constants its kernels are costed with.
 * Read from topologies/gpus/<name>.yaml; every constant there has unit, source and date. A file may also carry tables
 * of measured times (measured_kernels.h), which then go before the constants. */
#pragma once
#include "measured_kernels.h"

enum { GPU_MAX_TILES = 12 };

/* Where rows of a matrix start: at multiples of 2, 4 or 8 bytes and of no more. From 16 on matrix units are fed at
 * full rate (cuBLAS documentation, "Tensor Core Usage"). */
typedef enum { UNALIGNED_2, UNALIGNED_4, UNALIGNED_8, N_UNALIGNED } GpuUnaligned;

/* Generations that the collective library tells apart. */
typedef enum {
  ARCHITECTURE_OTHER, /* also: not stated */
  ARCHITECTURE_VOLTA,
  ARCHITECTURE_AMPERE,
  ARCHITECTURE_ADA,
  ARCHITECTURE_HOPPER,
  ARCHITECTURE_BLACKWELL,
  N_ARCHITECTURES
} GpuArchitecture;
const char *const *architecture_names(void); /* NULL-terminated, enum order */

/* Whose cores launch its kernels. */
typedef enum { HOST_OTHER, HOST_GRACE, N_GPU_HOSTS } GpuHost;

/* An output tile a matrix-product kernel may use. */
typedef struct {
  int m, n;          /* rows, columns of C computed by one SM (or one pair) at a time */
  double efficiency; /* (0, 1]: share of the sustained rate reached with this tile at large k */
} GpuTile;

typedef struct {
  char *name, *source, *file; /* owned */
  GPtrArray *bases;           /* owned, of owned paths, as a Cluster's; NULL in a GPU that was not read */
  int architecture;           /* GpuArchitecture */
  int n_sms;
  double clock_Hz;              /* boost clock the peaks are stated at */
  double peak_flops[N_NUMBERS]; /* FLOP/s dense, at that clock; 0 = not supported */
  double power_W;               /* the most that it may draw; 0 = not stated */
  double hbm_bytes, hbm_Bps;    /* capacity; peak bandwidth */
  double reserved_bytes;        /* taken by context, NCCL, libraries before the model */
  double margin_bytes;          /* that plans are to leave free; 0, unless who asks wants some (memory_margin.h) */

  /* Matrix products: time = waves of tiles over SMs × (k + k_ramp) / sustained rate, or HBM, whichever is longer. */
  double sustained[N_NUMBERS]; /* (0, 1]: share of peak that issue and memory allow on large products run alone */
  GpuTile tiles[GPU_MAX_TILES];
  int n_tiles;
  double under_load; /* (0, 1]: share of that left in a training step, where kernels follow each other for seconds under
                        the power limit and beside collectives */
  double under_load_of[N_NUMBERS]; /* the same of one format, in its place; 0: under_load */
  double k_ramp;                   /* prologue + epilogue, as elements of k in 16 bits */
  double accumulate_exposed;       /* [0, 1]: share of the traffic of an accumulated result that a product does not hide
                                      behind its arithmetic */
  double grouped_exposed;          /* the same of a group of products, one for each expert */
  /* (0, 1]: share of the rate left where rows of an operand or of the result are aligned no better, of one product
     and of several in one launch (heads, experts); 0: all of it. Not of fp32, which CUDA cores multiply. */
  double unaligned[N_UNALIGNED], unaligned_batched[N_UNALIGNED];
  double kernel_latency_s; /* least time of any kernel on the device */

  /* Memory-bound kernels: time = bytes / (hbm_Bps × efficiency) + kernel_latency_s. */
  double hbm_efficiency;
  double weight_gradient_rate; /* share of the rate of products that theirs reach in fewer than 16 bits; 0: 1. No key:
                                * a framework's */
  double norm_rate;    /* share of that rate that RMSNorms of single operations reach; 0: 1. No key: a framework's */
  double strided_rate; /* … that operations reach which take parts of rows, or spread an operand; likewise */

  /* Fused attention: share of the element format's peak, over causal FLOPs, of so many keys that the ramp is none. */
  double attention_forward, attention_backward;
  double attention_ramp_forward, attention_ramp_backward; /* keys that take as long as prologue and epilogue of a block
                                                             of queries; 0: none */
  double attention_wide;       /* (0, 1]: share of these left where heads of Q and K are wider than V's */
  int attention_narrow_head;   /* heads of Q and K of so many elements or fewer do less for each exponential; 0: none */
  double attention_narrow;     /* (0, 1]: share of these left for such heads */
  int attention_head_multiple; /* a head takes as long as one of the next multiple of so many elements; 1: any size */
  double attention_of_generation; /* (0, 1]: share that this part, of less power than most, reaches of what a
                                     framework's file names for its generation; 0: all of it */

  double host_launch_s; /* host time to issue one kernel from an eager framework */
  int host;             /* GpuHost */

  MeasuredKernels *measured; /* owned; NULL: the file has no tables */
} Gpu;

gboolean gpu_read(const char *file, Gpu *gpu, GError **error);
void gpu_clear(Gpu *gpu);
/* Bytes that a model may take. */
double gpu_room_bytes(const Gpu *gpu);
