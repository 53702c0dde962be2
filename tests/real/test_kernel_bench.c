#include "error.h"
#include "kernel_bench.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* A processor whose times are known. The host takes HOST_NS to issue anything, more than a kernel lasts; the stream
 * begins what has come to it when what was before has ended:
 *
 *     host     │ issue │ issue │ issue │           an event is reached EVENT_NS after what is before it,
 *     stream           ▮       ▮       ▮           a kernel lasts KERNEL_NS, a product PRODUCT_NS
 *
 * Like a GPU it takes longer for all of this (COLD times) until it has run products for WARM_NS, for what follows an
 * event with no kernel between it and the end of a hold (UNFETCHED_NS more), and for a pass whose operands are not
 * among the latest CACHE_BYTES (PASS_NS). */
enum { HOST_NS = 50000, EVENT_NS = 2000, KERNEL_NS = 7000, PASS_NS = 16000, PRODUCT_NS = 11000 };
enum { COLD = 3, WARM_NS = 500000000, UNFETCHED_NS = 900, CACHE_BYTES = 50 << 20, MOST_COMMANDS = 256 };

/* Operands in the cache. */
typedef struct {
  const void *at;
  gint64 bytes;
} Cached;

typedef struct {
  Device base;
  gint64 host_ns, stream_ns; /* when each is done with what it has got */
  HostStep held;             /* what comes now waits for it; NULL: nothing */
  gpointer held_data;
  gint64 waiting_ns[MOST_COMMANDS]; /* how long each command behind `held` lasts */
  DeviceEvent *waiting_event[MOST_COMMANDS];
  int n_waiting;
  gint64 loaded_ns;
  GArray *cached; /* of Cached, the latest last */
  gint64 random_bytes;
  GHashTable *places; /* of the last products, all of one shape: second operand → number of its last launch */
  MatmulKernel last_product;
  int n_products, n_too_soon;
} KnownDevice;

typedef struct {
  DeviceEvent base;
  gint64 ns;
} KnownEvent;

static Device *known_open(int local_rank, int n_local, gint64 capacity_bytes, GError **error);

static void known_close(Device *base) {
  KnownDevice *device = (KnownDevice *)base;
  g_array_unref(device->cached);
  g_hash_table_unref(device->places);
  g_free(device);
}

static void *known_allocate(Device *device, gint64 bytes, GError **error) {
  return g_malloc0((gsize)bytes);
}

static void known_release(Device *device, void *memory) {
  g_free(memory);
}

static DeviceStream *known_stream_new(Device *device, Stream stream, GError **error) {
  DeviceStream *made = g_new0(DeviceStream, 1);
  made->device = device;
  return made;
}

static void known_stream_free(DeviceStream *stream) {
  g_free(stream);
}

static DeviceEvent *known_event_new(Device *device, GError **error) {
  KnownEvent *event = g_new0(KnownEvent, 1);
  event->base.device = device;
  return &event->base;
}

static void known_event_free(DeviceEvent *event) {
  g_free(event);
}

static void run(KnownDevice *device, gint64 arrival_ns, gint64 lasts_ns, DeviceEvent *event) {
  device->stream_ns = MAX(device->stream_ns, arrival_ns) + lasts_ns;
  if (event != NULL)
    ((KnownEvent *)event)->ns = device->stream_ns;
}

static void issue(KnownDevice *device, gint64 lasts_ns, DeviceEvent *event) {
  device->host_ns += HOST_NS;
  lasts_ns *= device->loaded_ns < WARM_NS ? COLD : 1;
  if (device->held == NULL) {
    run(device, device->host_ns, lasts_ns, event);
    return;
  }
  ck_assert_int_lt(device->n_waiting, MOST_COMMANDS);
  device->waiting_ns[device->n_waiting] = lasts_ns;
  device->waiting_event[device->n_waiting++] = event;
}

static void known_record(DeviceStream *stream, DeviceEvent *event) {
  issue((KnownDevice *)stream->device, EVENT_NS, event);
}

/* Whether the operand is in the cache, where it is the latest from now on. */
static gboolean touch(KnownDevice *device, const void *at, gint64 bytes) {
  gboolean is_cached = FALSE;
  for (guint i = 0; i < device->cached->len && !is_cached; i++)
    if (g_array_index(device->cached, Cached, i).at == at) {
      is_cached = g_array_index(device->cached, Cached, i).bytes >= bytes;
      g_array_remove_index(device->cached, i--);
    }
  const Cached latest = {at, bytes};
  g_array_append_val(device->cached, latest);
  gint64 sum = 0;
  for (guint i = 0; i < device->cached->len; i++)
    sum += g_array_index(device->cached, Cached, i).bytes;
  for (; sum > CACHE_BYTES; g_array_remove_index(device->cached, 0))
    sum -= g_array_index(device->cached, Cached, 0).bytes;
  return is_cached;
}

static gint64 pass_ns(KnownDevice *device, const ConvertKernel *pass) {
  const gboolean from = touch(device, pass->from, 4 * pass->n), to = touch(device, pass->to, 4 * pass->n);
  return from && to ? KERNEL_NS : PASS_NS;
}

enum { LEAST = 32, MOST = 512, BUFFER_BYTES = 4 * MOST * MOST, LOAD_BYTES = 4 * 4096 * 4096 };

/* A buffer of BUFFER_BYTES holds so many second operands, and results. */
static int n_places(const MatmulKernel *product) {
  const gint64 b = product->k * product->n * 2, c = product->m * product->n * kernel_element_bytes(product->result);
  return (int)(BUFFER_BYTES / MAX(b, c));
}

static void note_product(KnownDevice *device, const MatmulKernel *product) {
  const int number = ++device->n_products;
  const MatmulKernel *last = &device->last_product;
  if (product->m != last->m || product->n != last->n || product->k != last->k || product->layout != last->layout)
    g_hash_table_remove_all(device->places);
  device->last_product = *product;
  const int before = GPOINTER_TO_INT(g_hash_table_lookup(device->places, product->b));
  device->n_too_soon += before > 0 && number - before < n_places(product);
  g_hash_table_insert(device->places, (gpointer)product->b, GINT_TO_POINTER(number));
}

static void known_launch(DeviceStream *stream, const Kernel *kernel) {
  KnownDevice *device = (KnownDevice *)stream->device;
  if (kernel->kind == KERNEL_INIT)
    device->random_bytes +=
        kernel->init.rows * kernel->init.columns * kernel_element_bytes((Number)kernel->init.number);
  if (kernel->kind == KERNEL_MATMUL) {
    note_product(device, &kernel->matmul);
    issue(device, PRODUCT_NS, NULL);
    device->loaded_ns += PRODUCT_NS * (device->loaded_ns < WARM_NS ? COLD : 1);
  } else {
    issue(device, kernel->kind == KERNEL_CONVERT ? pass_ns(device, &kernel->convert) : KERNEL_NS, NULL);
  }
}

static void known_host_task(DeviceStream *stream, HostStep step, gpointer data) {
  KnownDevice *device = (KnownDevice *)stream->device;
  ck_assert(device->held == NULL);
  ck_assert_msg(!step(data, NULL), "the stream is let go before anything is on it");
  device->held = step;
  device->held_data = data;
}

static gboolean known_sleep_until(DeviceEvent *event, gint64 timeout_ns) {
  KnownDevice *device = (KnownDevice *)event->device;
  if (device->held != NULL) {
    ck_assert_msg(device->held(device->held_data, NULL), "the host waits for a stream that it holds");
    device->held = NULL;
    for (int i = 0; i < device->n_waiting; i++)
      run(device, device->host_ns,
          device->waiting_ns[i] + (i == 1 && device->waiting_event[0] != NULL ? UNFETCHED_NS : 0),
          device->waiting_event[i]);
    device->n_waiting = 0;
  }
  device->host_ns = MAX(device->host_ns, device->stream_ns);
  return TRUE;
}

static gint64 known_event_ns(DeviceEvent *event) {
  return ((KnownEvent *)event)->ns;
}

static char *known_describe(Device *device) {
  return g_strdup("known");
}

/* Read while products run. */
static double known_clock_Hz(Device *device) {
  return ((KnownDevice *)device)->loaded_ns < WARM_NS ? 345e6 : 1980e6;
}

static gint64 known_memory_bytes(Device *device) {
  return G_GINT64_CONSTANT(4) << 30;
}

static gboolean known_check(Device *device, GError **error) {
  return TRUE;
}

static const DeviceType known_device = {
    .name = "known",
    .is_available = TRUE,
    .open = known_open,
    .close = known_close,
    .allocate = known_allocate,
    .release = known_release,
    .stream_new = known_stream_new,
    .stream_free = known_stream_free,
    .event_new = known_event_new,
    .event_free = known_event_free,
    .record = known_record,
    .event_ns = known_event_ns,
    .launch = known_launch,
    .host_task = known_host_task,
    .sleep_until = known_sleep_until,
    .check = known_check,
    .describe = known_describe,
    .clock_Hz = known_clock_Hz,
    .memory_bytes = known_memory_bytes,
};

/* What the device of the test's process has seen. */
static KnownDevice *opened;

static Device *known_open(int local_rank, int n_local, gint64 capacity_bytes, GError **error) {
  KnownDevice *device = g_new0(KnownDevice, 1);
  device->base.type = &known_device;
  device->cached = g_array_new(FALSE, FALSE, sizeof(Cached));
  device->places = g_hash_table_new(NULL, NULL);
  opened = device;
  return &device->base;
}

static World *open_world(void) {
  int argc = 0;
  char **argv = NULL;
  World *world = world_open(&argc, &argv, 10, NULL);
  ck_assert_ptr_nonnull(world);
  return world;
}

/* T₁ = KERNEL + EVENT and Tₙ = n·KERNEL + EVENT: the edge is EVENT_NS, the least kernel KERNEL_NS, whatever the host
 * takes, and a cold start, and events that nothing is in front of. */
TEST(what_events_add_is_told_from_what_a_kernel_takes) {
  World *world = open_world();
  double edge_s = -1, least_s = -1;
  ck_assert(kernel_bench_edge(world, &known_device, NUMBER_BF16, NULL, &edge_s, &least_s, NULL));
  ck_assert_double_eq_tol(edge_s, EVENT_NS * 1e-9, 1e-12);
  ck_assert_double_eq_tol(least_s, KERNEL_NS * 1e-9, 1e-12);
  world_close(world, 0);
}

TEST(events_of_the_cpu_are_taken_as_they_are) {
  World *world = open_world();
  double edge_s = -1, least_s = -1;
  ck_assert(kernel_bench_edge(world, &cpu_device, NUMBER_FP32, NULL, &edge_s, &least_s, NULL));
  ck_assert_double_eq(edge_s, 0);
  ck_assert_double_eq(least_s, 0);
  world_close(world, 0);
}

/* Medians of −1, 3 and 5 µs where no kernel takes less than 4: only the last is one, in the table and in what is
 * written of it. Where the least is 0, 3 µs are, too. */
TEST(what_is_shorter_than_the_least_kernel_is_left_out) {
  static const double medians_s[] = {-1e-6, 3e-6, 5e-6};
  g_autoptr(KernelTimes) times = kernel_times_new();
  for (int i = 0; i < 3; i++)
    for (int sample = -1; sample <= 1; sample++)
      kernel_times_add(times, &(WorkItem){.kind = ITEM_MEMORY, .name = "norm", .bytes = 1000 * (i + 1)},
                       medians_s[i] + sample * 1e-7);
  int n;
  kernel_times_all(times, &n);
  ck_assert_int_eq(n, 2);
  kernel_times_set_edge(times, 2e-6, 4e-6);
  const KernelTime *all = kernel_times_all(times, &n);
  ck_assert_int_eq(n, 1);
  ck_assert_double_eq(all[0].item.bytes, 3000);
  ck_assert_double_eq_tol(all[0].median_s, 5e-6, 1e-12);
  ck_assert_int_eq(kernel_times_n_short(times), 2);
  g_autoptr(GString) text = g_string_new(NULL);
  kernel_times_write(times, text);
  ck_assert_str_eq(text->str, "kernel memory norm 3000 = 5e-06 0.02 3\n");
}

/* Three layouts of 64³: each lasts PRODUCT_NS, though the host needs HOST_NS for a launch and events add theirs. */
TEST(a_product_takes_what_it_takes_among_others) {
  World *world = open_world();
  g_autoptr(KernelTimes) times = kernel_times_new();
  kernel_times_set_edge(times, EVENT_NS * 1e-9, 0);
  ck_assert(kernel_bench_grid(times, NUMBER_BF16, 64, 64, world, &known_device, NULL));
  int n;
  const KernelTime *all = kernel_times_all(times, &n);
  ck_assert_int_eq(n, 3);
  for (int i = 0; i < n; i++)
    ck_assert_double_eq_tol(all[i].median_s, PRODUCT_NS * 1e-9, 1e-12);
  world_close(world, 0);
}

static gint64 random_bytes;
static int n_products, n_too_soon;

static void close_and_note(Device *device) {
  random_bytes = opened->random_bytes;
  n_products = opened->n_products;
  n_too_soon = opened->n_too_soon;
  known_close(device);
}

/* Two of three buffers are filled, and of those of the products that warm the device up; each launch uses another place
 * of the second operand, and of the result, until all that a buffer holds have been used: from 1 to 512 of them. */
TEST(products_are_of_random_numbers_and_of_another_weight_each) {
  World *world = open_world();
  g_autoptr(KernelTimes) times = kernel_times_new();
  DeviceType noted = known_device;
  noted.close = close_and_note;
  ck_assert(kernel_bench_grid(times, NUMBER_BF16, LEAST, MOST, world, &noted, NULL));
  ck_assert_int_eq(random_bytes, 2 * BUFFER_BYTES + 2 * LOAD_BYTES);
  ck_assert_int_gt(n_products, 100 * 27 * 3);
  ck_assert_int_eq(n_too_soon, 0);
  world_close(world, 0);
}

/* Passes of 64 KiB to 256 MiB, with operands of CACHE_BYTES and less in the cache or not; those that would fit are not
 * either where buffers of 256 MiB are gone through. Random: what is read, and both operands of the products. */
TEST(memory_is_measured_in_the_cache_and_beyond) {
  World *world = open_world();
  g_autoptr(KernelTimes) times = kernel_times_new();
  DeviceType noted = known_device;
  noted.close = close_and_note;
  kernel_times_set_edge(times, EVENT_NS * 1e-9, 0);
  DeviceFacts facts;
  ck_assert(kernel_bench_device(times, NUMBER_BF16, world, &noted, &facts, NULL));
  int n, n_cached = 0;
  const KernelTime *all = kernel_times_all(times, &n);
  ck_assert_int_eq(n, 2 * 7);
  for (int i = 0; i < n; i++) {
    const gboolean stays = g_str_equal(all[i].item.name, "memory.cached") && all[i].item.bytes <= CACHE_BYTES;
    ck_assert_double_eq_tol(all[i].median_s, (stays ? KERNEL_NS : PASS_NS) * 1e-9, 1e-12);
    n_cached += stays;
  }
  ck_assert_int_eq(n_cached, 5); /* 2·(64 KiB … 16 MiB) */
  ck_assert_int_eq(random_bytes, (G_GINT64_CONSTANT(256) << 20) + 2 * LOAD_BYTES);
  ck_assert_double_eq_tol(facts.edge_s, EVENT_NS * 1e-9, 1e-12);
  ck_assert_double_eq_tol(facts.kernel_s, KERNEL_NS * 1e-9, 1e-12);
  ck_assert_double_eq(facts.clock_Hz, 1980e6);
  g_free(facts.device_name);
  world_close(world, 0);
}

/* Products in fp8 are made as layers make them, of copies: the cpu device asserts what they need. */
TEST(products_in_fp8_are_timed) {
  int n = 0;
  World *world = open_world();
  g_autoptr(KernelTimes) times = kernel_times_new();
  const DeviceType *cpu = device_find("cpu", NULL);
  ck_assert(kernel_bench_grid(times, NUMBER_FP8, 64, 256, world, cpu, NULL));
  const KernelTime *all = kernel_times_all(times, &n);
  ck_assert_int_eq(n, 2 * 2 * 2 * 3); /* sizes, layouts */
  for (int i = 0; i < n; i++)
    ck_assert(all[i].item.number == NUMBER_FP8 && all[i].median_s > 0);
  world_close(world, 0);
}

TEST(times_are_refused_if_events_added_another_time_at_last) {
  g_autoptr(GError) error = NULL;
  ck_assert(kernel_bench_edges_agree(1.2e-6, 1.45e-6, &error));
  ck_assert_ptr_null(error);
  ck_assert(!kernel_bench_edges_agree(1.2e-6, 1.55e-6, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_ptr_nonnull(strstr(error->message, "1.2 us at one time and 1.55 us at another"));
}

/* The CPU, with a look at when events are made. */
static DeviceType noted_cpu;
static int n_made, n_attentions, n_made_between;

static Device *noted_open(int local_rank, int n_local, gint64 capacity_bytes, GError **error) {
  Device *device = cpu_device.open(local_rank, n_local, capacity_bytes, error);
  device->type = &noted_cpu;
  n_attentions = 0;
  return device;
}

static DeviceEvent *noted_event_new(Device *device, GError **error) {
  n_made++;
  n_made_between += n_attentions > 0;
  return cpu_device.event_new(device, error);
}

static void noted_launch(DeviceStream *stream, const Kernel *kernel) {
  n_attentions += kernel->kind == KERNEL_FLASH_FORWARD;
  cpu_device.launch(stream, kernel);
}

/* Two steps of two layers after one that warms up: the events around items are hundreds. From the first attention on
 * one is made for each stream at most, to wait for it at the end. */
TEST(events_around_items_are_made_before_any_is_issued) {
  World *world = open_world();
  g_autoptr(Model) model = model_read(STEPSIM_SOURCE_DATA "/tests/data/models/tiny-llama.json", NULL);
  ck_assert_ptr_nonnull(model);
  CutCase cut = {.model = model, .tp = 1, .cp = 1, .micro_batch = 1, .seq_len = 8, .precision = PRECISION_FP32};
  ck_assert(recipe_parse("fp32", &cut.recipe, NULL));
  noted_cpu = cpu_device;
  noted_cpu.open = noted_open;
  noted_cpu.event_new = noted_event_new;
  noted_cpu.launch = noted_launch;
  g_autoptr(KernelTimes) times = kernel_times_new();
  g_autofree char *attention = NULL;
  ck_assert(kernel_times_measure(times, &cut, world, &noted_cpu, 2, &attention, NULL));
  const int n_items = kernel_times_launches(times)->n;
  ck_assert_int_gt(n_items, 100);
  ck_assert_int_gt(n_made, 2 * n_items);
  ck_assert_int_le(n_made_between, N_STREAMS);
  world_close(world, 0);
}

TEST(a_grid_is_told_from_others_by_its_number_and_sizes) {
  g_autofree char *bf16 = kernel_bench_grid_text(NUMBER_BF16, 512, 8192);
  g_autofree char *fp32 = kernel_bench_grid_text(NUMBER_FP32, 512, 8192);
  g_autofree char *small = kernel_bench_grid_text(NUMBER_BF16, 128, 2048);
  ck_assert_str_eq(bf16, "grid bf16, 512 to 8192");
  ck_assert_str_eq(fp32, "grid fp32, 512 to 8192");
  ck_assert_str_eq(small, "grid bf16, 128 to 2048");
}

int main(void) {
  return run_tests();
}
