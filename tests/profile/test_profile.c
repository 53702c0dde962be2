/* Recordings of other profilers: small ones written here, whose sums are counted by hand or nanosecond by nanosecond.
 */
#include "profile.h"
#include "run_suite.h"

#include <glib/gstdio.h>
#include <sqlite3.h>
#include <string.h>
#include <zlib.h>

#include "error.h"
#include "meetings.h"
#include "profile_report.h"

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Gpu, gpu_clear)

/* --- files --- */

static char *folder; /* of the files of this program; owned */

static char *path_of(const char *name) {
  if (folder == NULL)
    folder = g_dir_make_tmp("profile-XXXXXX", NULL);
  return g_build_filename(folder, name, NULL);
}

static char *write_text(const char *name, const char *text) {
  char *path = path_of(name);
  ck_assert(g_file_set_contents(path, text, -1, NULL));
  return path;
}

/* Kineto's, of a rank: `events` separated by commas. */
static char *write_rank(const char *name, int rank, const char *events) {
  g_autofree char *text = g_strdup_printf(
      "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"NVIDIA Test\"}],\"distributedInfo\":"
      "{\"backend\":\"nccl\",\"rank\":%d,\"world_size\":2},\"baseTimeNanoseconds\":1711964646000000000,"
      "\"traceEvents\":[\n%s]}\n",
      rank, events);
  return write_text(name, text);
}

#define KERNEL(name, ts, dur, stream, correlation)                                                                     \
  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" name "\",\"pid\":0,\"tid\":7,\"ts\":" ts ",\"dur\":" dur              \
  ",\"args\":{\"device\":0,\"stream\":" stream ",\"correlation\":" correlation "}}"
#define LAUNCH(ts, correlation)                                                                                        \
  "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,\"ts\":" ts                \
  ",\"dur\":1,\"args\":{\"correlation\":" correlation "}}"
#define STEP(number, ts, dur)                                                                                          \
  "{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#" number "\",\"pid\":1,\"tid\":1,\"ts\":" ts      \
  ",\"dur\":" dur "}"
#define REDUCE(ts, dur)                                                                                                \
  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclDevKernel_AllReduce_Sum_bf16_RING_LL\",\"pid\":0,\"tid\":8,"        \
  "\"ts\":" ts ",\"dur\":" dur                                                                                         \
  ",\"args\":{\"stream\":8,\"Collective name\":\"allreduce\",\"In msg nelems\":1000,\"Out msg nelems\":1000,"          \
  "\"Group size\":2,\"dtype\":\"BFloat16\",\"Process Group Ranks\":\"[0, 1]\"}}"

static Profile *read_files(const char *const *paths, GError **error) {
  g_autoptr(Profile) profile = profile_new();
  for (; *paths != NULL; paths++)
    if (!profile_read(profile, *paths, error))
      return NULL;
  return profile_complete(profile, error) ? g_steal_pointer(&profile) : NULL;
}

static Profile *read_file(const char *path) {
  g_autoptr(GError) error = NULL;
  Profile *profile = read_files((const char *[]){path, NULL}, &error);
  ck_assert_msg(profile != NULL, "%s", error != NULL ? error->message : "");
  return profile;
}

/* --- sums --- */

/* Step 3 from 10 us, step 4 from 30 us to 40:
 *
 *     stream 7    gemm 10–16      elementwise 20–22      gemm 30–40        (issued at 9, 18.5, 29)
 *     stream 8         AllReduce 14–21                                                              */
static const char two_steps[] = STEP("3", "8", "12") "," STEP("4", "28", "2") "," LAUNCH("9", "1") "," LAUNCH(
    "18.5", "2") "," LAUNCH("29", "3") "," KERNEL("sm90_gemm", "10", "6", "7",
                                                  "1") "," KERNEL("vectorized_elementwise_kernel", "20", "2", "7",
                                                                  "2") "," KERNEL("sm90_gemm", "30.000", "10", "7",
                                                                                  "3") "," REDUCE("14", "7");

TEST(a_step_is_told_in_parts_that_add_up) {
  g_autofree char *path = write_rank("two.json", 5, two_steps);
  g_autoptr(Profile) profile = read_file(path);
  g_autoptr(ProfileSums) sums = profile_sums_new(profile);
  const ProfileTimes *times = &sums->ranks[0].times;
  ck_assert_int_eq(profile_rank(profile, 0)->rank, 5);
  ck_assert_str_eq(profile_rank(profile, 0)->gpu, "NVIDIA Test");
  ck_assert_int_eq(sums->ranks[0].n_steps, 2);
  ck_assert_int_eq(g_array_index(profile_rank(profile, 0)->steps, ProfileStep, 0).number, 3);
  ck_assert_int_eq(g_array_index(profile_rank(profile, 0)->steps, ProfileStep, 0).end_ns, 30000);
  ck_assert_int_eq(times->step_ns, 30000);
  ck_assert_int_eq(times->computing_ns, 18000);
  ck_assert_int_eq(times->communicating_ns, 7000);
  ck_assert_int_eq(times->hidden_ns, 3000);
  ck_assert_int_eq(times->idle_ns, 8000);
  ck_assert_int_eq(times->host_ns, 7000); /* from 22 to 29 */
  ck_assert_int_eq(sums->ranks[0].kinds[PROFILE_PRODUCT].ns, 16000);
  ck_assert_int_eq(sums->ranks[0].kinds[PROFILE_ELEMENTWISE].n, 1);
  const ProfileRow *row = &g_array_index(sums->collectives, ProfileRow, 0);
  const ProfileCollective *collective = &g_array_index(profile->collectives, ProfileCollective, 0);
  ck_assert_int_eq(row->sum.ns, 7000);
  ck_assert_str_eq(collective->op, "all_reduce");
  ck_assert_str_eq(collective->ranks, "[0, 1]");
  ck_assert_double_eq(collective->bytes, 2000);
}

/* Busy with each thing, counted one nanosecond after the other. */
TEST(sums_are_those_of_every_nanosecond) {
  enum { SPAN = 400, N = 60 };
  for (guint seed = 0; seed < 20; seed++) {
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_autoptr(Profile) profile = profile_new();
    ProfileRank *rank = profile_add_rank(profile, "drawn", 0);
    gboolean does[SPAN][3] = {0};
    for (int i = 0; i < N; i++) {
      const gint64 start_ns = g_rand_int_range(rand, 0, SPAN - 20), end_ns = start_ns + g_rand_int_range(rand, 1, 20);
      static const ProfileKind kinds[] = {PROFILE_PRODUCT, PROFILE_COLLECTIVE, PROFILE_COPY};
      const int kind = g_rand_int_range(rand, 0, 3);
      const ProfileActivity activity = {start_ns, end_ns, -1, "x", -1, -1, -1, profile_stream(rank, kind), kinds[kind]};
      g_array_append_val(rank->activities, activity);
      for (gint64 ns = start_ns; ns < end_ns; ns++)
        does[ns][kind] = TRUE;
    }
    ck_assert(profile_complete(profile, NULL));
    g_autoptr(ProfileSums) sums = profile_sums_new(profile);
    gint64 computing = 0, communicating = 0, copying = 0, hidden = 0, busy = 0;
    for (gint64 ns = sums->ranks[0].begin_ns; ns < sums->ranks[0].end_ns; ns++) {
      computing += does[ns][0];
      communicating += does[ns][1];
      copying += does[ns][2];
      hidden += does[ns][0] && does[ns][1];
      busy += does[ns][0] || does[ns][1] || does[ns][2];
    }
    const ProfileTimes *times = &sums->ranks[0].times;
    ck_assert_int_eq(times->computing_ns, computing);
    ck_assert_int_eq(times->communicating_ns, communicating);
    ck_assert_int_eq(times->copying_ns, copying);
    ck_assert_int_eq(times->hidden_ns, hidden);
    ck_assert_int_eq(times->busy_ns, busy);
    ck_assert_int_eq(times->idle_ns, times->step_ns - busy);
  }
}

/* --- steps --- */

TEST(steps_that_nobody_marks_are_found_by_repetition) {
  static const char *const layer[] = {"sm90_gemm", "elementwise_kernel", "flash_fwd", "layer_norm", "sm90_gemm_2"};
  g_autoptr(Profile) profile = profile_new();
  ProfileRank *rank = profile_add_rank(profile, "drawn", 0);
  gint64 at_ns = 0;
  for (int i = -7; i < 3 * 21; i++) { /* three steps of four layers and an optimizer, behind the end of another */
    const int place = (i + 21) % 21;
    const char *name = place < 20 ? layer[place % 5] : "multi_tensor_apply_adam";
    const ProfileActivity activity = {at_ns, at_ns + 10, -1, profile_intern(profile, name), -1,
                                      -1,    -1,         0,  profile_kind_of(name, NULL)};
    g_array_append_val(rank->activities, activity);
    at_ns += 11;
  }
  profile_stream(rank, 0);
  ck_assert(profile_complete(profile, NULL));
  ck_assert_uint_eq(rank->steps->len, 3);
  for (guint i = 0; i < 2; i++) {
    const ProfileStep *step = &g_array_index(rank->steps, ProfileStep, i);
    ck_assert_int_eq(step->end_ns - step->begin_ns, 21 * 11);
    ck_assert_int_eq(step->number, -1);
  }
}

/* A batch copied and cast ahead on another stream, a mark inside another, and a kernel from before the recording. */
TEST(a_step_begins_with_its_own_kernels) {
  static const char events[] =
      STEP("1", "0", "100") "," STEP("1", "10", "50") "," STEP("2", "100", "100") "," LAUNCH("1", "1") "," LAUNCH(
          "2",
          "2") "," LAUNCH("3",
                          "3") "," LAUNCH("101",
                                          "4") "," LAUNCH("102",
                                                          "5") ","
                                                               "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":"
                                                               "\"Memcpy\",\"ts\":5,\"dur\":2,\"args\":{\"stream\":9,"
                                                               "\"correlation\":1}}," KERNEL("cast", "8", "1", "9", "2") "," KERNEL(
                                                                   "gemm", "50", "60",
                                                                   "7",
                                                                   "3") "," KERNEL("cast", "105", "1", "9",
                                                                                   "4") "," KERNEL("gemm", "150", "60",
                                                                                                   "7",
                                                                                                   "5") ","
                                                                                                        "{\"ph\":\"X\","
                                                                                                        "\"cat\":"
                                                                                                        "\"kernel\","
                                                                                                        "\"name\":"
                                                                                                        "\"gemm\","
                                                                                                        "\"ts\":2,"
                                                                                                        "\"dur\":30,"
                                                                                                        "\"args\":{"
                                                                                                        "\"stream\":7}"
                                                                                                        "}";
  g_autofree char *path = write_rank("two.json", 0, events);
  g_autoptr(Profile) profile = read_file(path);
  const GArray *steps = profile_rank(profile, 0)->steps;
  ck_assert_uint_eq(steps->len, 2);
  ck_assert_int_eq(g_array_index(steps, ProfileStep, 0).begin_ns, 50000);
  ck_assert_int_eq(g_array_index(steps, ProfileStep, 0).end_ns, 150000);
  ck_assert_int_eq(g_array_index(steps, ProfileStep, 1).end_ns, 210000);
}

/* --- who is late --- */

/* Rank 1's clock is 100 us ahead, and it comes 3 us late to both collectives. */
TEST(clocks_are_set_by_collectives_and_late_ranks_found) {
  g_autofree char *a = write_rank("late0.json", 0,
                                  REDUCE("10", "5") "," REDUCE("30", "6") "," KERNEL("k", "0", "10", "7", "1")),
                  *b = write_rank("late1.json", 1,
                                  REDUCE("113", "2") "," REDUCE("133", "3") "," KERNEL("k", "100", "13", "7", "1"));
  g_autoptr(Profile) profile = read_files((const char *[]){b, a, NULL}, NULL);
  ck_assert_ptr_nonnull(profile);
  ck_assert_int_eq(profile_rank(profile, 1)->offset_ns, -100000);
  g_autoptr(Meetings) meetings = meetings_new(profile);
  ck_assert_uint_eq(meetings->meetings->len, 2);
  g_autofree RankLateness *late = meetings_lateness(profile, meetings);
  ck_assert_int_eq(late[1].n_last, 2);
  ck_assert_int_eq(late[1].cost_ns, 6000);
  ck_assert_int_eq(late[1].worst_ns, 3000);
  ck_assert_int_eq(late[0].n_last, 0);
  ck_assert_int_eq(late[0].waited_ns, 6000);
}

/* Collectives at uneven times on both ranks, of which each recorded some that the other did not; of another group none
 * ends when the other's does. */
TEST(recordings_of_other_lengths_are_matched) {
  enum { N = 40, MISSING = 3, SKEW_NS = 5000000 };
  g_autoptr(Profile) profile = profile_new();
  g_autoptr(GRand) rand = g_rand_new_with_seed(1);
  const gint32 reduce = profile_collective(profile, "all_reduce", "[0, 1]", 2, 8),
               other = profile_collective(profile, "all_gather", "[0, 1]", 2, 8);
  ProfileRank *ranks[] = {profile_add_rank(profile, "a", 0), profile_add_rank(profile, "b", 1)};
  gint64 at_ns = 0;
  for (int i = 0; i < N + MISSING; i++) {
    at_ns += g_rand_int_range(rand, 20000, 90000000);
    for (int r = 0; r < 2; r++) {
      ProfileActivity met = {at_ns + r * SKEW_NS,         at_ns + r * SKEW_NS + 9000, -1, "x", -1, reduce, -1,
                             profile_stream(ranks[r], 0), PROFILE_COLLECTIVE};
      if (r == 0 ? i < N : i >= MISSING)
        g_array_append_val(ranks[r]->activities, met);
      met.collective_index = other;
      met.end_ns += 1 + (r == 0 ? 0 : g_rand_int_range(rand, 0, 90000000));
      g_array_append_val(ranks[r]->activities, met);
    }
  }
  ck_assert(profile_complete(profile, NULL));
  ck_assert_int_eq(ranks[1]->offset_ns, -SKEW_NS);
  g_autoptr(Meetings) meetings = meetings_new(profile);
  ck_assert_uint_eq(meetings->meetings->len, N - MISSING);
  ck_assert_int_gt(meetings->n_unfit, 0);
  g_autofree RankLateness *late = meetings_lateness(profile, meetings);
  ck_assert_int_eq(late[0].n_last + late[1].n_last, 0); /* both came at once */
}

/* --- shapes --- */

#define CALL(id, dims, strides)                                                                                        \
  "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":10,\"args\":{" id       \
  "\"Input Dims\":" dims ",\"Input type\":[\"c10::BFloat16\",\"c10::BFloat16\"],\"Input Strides\":" strides "}}"

/* The product is linked by number, or by lying in the operator that was running; a sum of its parts belongs to it. */
TEST(a_product_is_told_by_the_operator_that_issued_it) {
  static const char *const events[] = {
      CALL("\"External id\":4,", "[[4096,1024],[1024,2048]]",
           "[[1024,1],[1,1024]]") ","
                                  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"nvjet\",\"ts\":20,\"dur\":30,\"args\":{"
                                  "\"External id\":4}},"
                                  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"splitKreduce\",\"ts\":50,\"dur\":5,"
                                  "\"args\":{\"External id\":4}}",
      CALL("", "[[4096,1024],[1024,2048]]", "[[1024,1],[1,1024]]") "," LAUNCH("7", "1") "," LAUNCH("9", "2") "," KERNEL(
          "nvjet", "20", "30", "7", "1") "," KERNEL("splitKreduce", "50", "5", "7", "2")};
  g_auto(Gpu) gpu = {0};
  g_autofree char *file = g_build_filename(STEPSIM_SOURCE_DATA, "topologies/gpus/h100-sxm5-80gb.yaml", NULL);
  ck_assert(gpu_read(file, &gpu, NULL));
  for (guint i = 0; i < G_N_ELEMENTS(events); i++) {
    g_autofree char *path = write_rank("product.json", 0, events[i]);
    g_autoptr(Profile) profile = read_file(path);
    g_autoptr(ProfileShapes) shapes = profile_shapes_new(profile, &gpu);
    ck_assert_uint_eq(shapes->shapes->len, 1);
    const ProfileShape *shape = &g_array_index(shapes->shapes, ProfileShape, 0);
    ck_assert_int_eq(shape->item.m, 4096);
    ck_assert_int_eq(shape->item.n, 2048);
    ck_assert_int_eq(shape->item.k, 1024);
    ck_assert_int_eq(shape->item.layout, LAYOUT_TN);
    ck_assert_double_eq_tol(shape->median_s, 35e-6, 1e-15);
    ck_assert(shape->alone_s > 20e-6 && shape->alone_s < 40e-6 && shape->in_step_s > shape->alone_s);
    g_autofree char *yaml = profile_shapes_yaml(shapes, profile, &gpu, gpu.name),
                    *written = write_text("mine.yaml", yaml);
    g_auto(Gpu) mine = {0};
    g_autoptr(GError) error = NULL;
    ck_assert_msg(gpu_read(written, &mine, &error), "%s", error != NULL ? error->message : "");
    ck_assert_int_eq(mine.measured->n_products, 1);
    ck_assert_double_eq_tol(mine.measured->products[0].time_s, 35e-6, 1e-12);
  }
}

/* Recorded strides say it; older recordings have only what the kernel is called. */
TEST(how_operands_lie_is_told_by_strides_or_by_the_kernel) {
  static const struct {
    const char *strides, *kernel;
    MatmulLayout layout;
    int aligned;
  } cases[] = {{"[[1024,1],[1,1024]]", "gemm_nn_align1", LAYOUT_TN, 16},
               {"[[1025,1],[2048,1]]", "gemm", LAYOUT_NN, 2},
               {"[[1,4100],[2048,1]]", "gemm", LAYOUT_NT, 8},
               {"[]", "cutlass_80_tensorop_s16816gemm_128x256_32x3_nt_align2>(x)", LAYOUT_NT, 4},
               {"[]", "cutlass_80_tensorop_s16816gemm_128x256_32x3_tn_align8>(x)", LAYOUT_TN, 16},
               {"[]", "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", LAYOUT_TN, 0},
               {"[]", "gemm", LAYOUT_NN, 0}};
  g_auto(Gpu) gpu = {0};
  g_autofree char *file = g_build_filename(STEPSIM_SOURCE_DATA, "topologies/gpus/h100-sxm5-80gb.yaml", NULL);
  ck_assert(gpu_read(file, &gpu, NULL));
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *events = g_strdup_printf(CALL("\"External id\":4,", "[[4096,1024],[1024,2048]]",
                                                   "%s") ","
                                                         "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"ts\":20,"
                                                         "\"dur\":30,\"args\":{\"External id\":4}}",
                                              cases[i].strides, cases[i].kernel),
                    *path = write_rank("product.json", 0, events);
    g_autoptr(Profile) profile = read_file(path);
    g_autoptr(ProfileShapes) shapes = profile_shapes_new(profile, &gpu);
    ck_assert_uint_eq(shapes->shapes->len, 1);
    const WorkItem *item = &g_array_index(shapes->shapes, ProfileShape, 0).item;
    ck_assert_int_eq(item->layout, cases[i].layout);
    ck_assert_int_eq(item->aligned, cases[i].aligned);
  }
}

/* FlashAttention-2's kernels have rates of their own on an H100: 256 heads of 512 tokens are 1,024 blocks of queries, 8
 * waves. */
TEST(flash_attention_2_is_set_beside_its_own_rates) {
  static const char *const kernels[] = {"void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128>>",
                                        "flash::FlashAttnFwdSm90<64>"};
  g_auto(Gpu) gpu = {0};
  g_autofree char *file = g_build_filename(STEPSIM_SOURCE_DATA, "topologies/gpus/h100-sxm5-80gb.yaml", NULL);
  ck_assert(gpu_read(file, &gpu, NULL));
  double times_s[2];
  for (guint i = 0; i < 2; i++) {
    g_autofree char
        *events = g_strdup_printf(
            "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::_flash_attention_forward\",\"tid\":1,\"ts\":1,\"dur\":1,"
            "\"args\":{\"External id\":1,\"Input Dims\":[[16,512,16,64],[16,512,16,64],[16,512,16,64]],"
            "\"Input type\":[\"c10::BFloat16\",\"c10::BFloat16\",\"c10::BFloat16\"],"
            "\"Concrete Inputs\":[\"\",\"\",\"\",\"\",\"\",\"512\",\"512\",\"0.\",\"True\"]}},"
            "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"%s\",\"ts\":5,\"dur\":80,\"args\":{\"External id\":1}}",
            kernels[i]),
        *path = write_rank("product.json", 0, events);
    g_autoptr(Profile) profile = read_file(path);
    g_autoptr(ProfileShapes) shapes = profile_shapes_new(profile, &gpu);
    ck_assert_uint_eq(shapes->shapes->len, 1);
    ck_assert(g_array_index(shapes->shapes, ProfileShape, 0).is_causal);
    times_s[i] = g_array_index(shapes->shapes, ProfileShape, 0).alone_s;
  }
  const double pairs = 256.0 * 512 * (513.0 / 2 + 210), fill = 1024 / (8 * 132.0);
  ck_assert_double_eq_tol(times_s[0], pairs * 4 * 64 / (989.4e12 * 0.368 * 0.89 * fill) + 3e-6, 1e-9);
  ck_assert(times_s[1] < times_s[0] / 2);
}

#define PASS(name, id, dims, types)                                                                                    \
  "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"" name "\",\"pid\":1,\"tid\":1,\"ts\":5,\"dur\":1,\"args\":{"           \
  "\"External id\":" id ",\"Input Dims\":" dims ",\"Input type\":" types "}}"
#define OF_PASS(kernel, id, ts)                                                                                        \
  "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"" kernel "\",\"ts\":" ts ",\"dur\":10,\"args\":{\"External id\":" id "}}"
#define COPY(name, ts, bytes)                                                                                          \
  "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"" name "\",\"ts\":" ts ",\"dur\":4,\"args\":{\"bytes\":" bytes "}}"

/* What the operators of one kernel each read and write, of 1,000 rows of 100. Not passes: a copy from the host, a
 * table, and a list whose type nothing tells. */
TEST(a_pass_is_told_by_the_tensors_that_it_reads_and_writes) {
  static const struct {
    const char *event, *operator_name, *kind;
    double bytes;
  } cases[] = {
      /* two of 200 kB and one row of 100, and the result */
      {PASS("aten::add", "1", "[[1000,100],[100],[]]", "[\"c10::BFloat16\",\"c10::BFloat16\",\"Scalar\"]"), "aten::add",
       "elementwise", 2 * 200000 + 200},
      /* a float by a number that does not promote it; the result takes as many bytes */
      {PASS("aten::mul", "1", "[[1000,100],[]]", "[\"float\",\"double\"]"), "aten::mul", "elementwise", 800000},
      /* in place: one is read, the other read and written */
      {PASS("aten::add_", "1", "[[1000,100],[1000,100],[]]", "[\"float\",\"c10::BFloat16\",\"Scalar\"]"), "aten::add_",
       "elementwise", 2 * 400000 + 200000},
      {PASS("aten::copy_", "1", "[[1000,100],[1000,100],[]]", "[\"c10::BFloat16\",\"float\",\"Scalar\"]"),
       "aten::copy_", "elementwise", 600000},
      {PASS("aten::eq", "1", "[[1000,100],[1000,100]]", "[\"long int\",\"long int\"]"), "aten::eq", "elementwise",
       1700000},
      {PASS("aten::sum", "1", "[[1000,100],[],[],[]]", "[\"float\",\"ScalarList\",\"Scalar\",\"\"]"), "aten::sum",
       "elementwise", 400000},
      /* input, weights, biases and the result; the shape is no tensor */
      {PASS("aten::native_layer_norm", "1", "[[1000,100],[],[100],[100],[]]",
            "[\"c10::BFloat16\",\"ScalarList\",\"c10::BFloat16\",\"c10::BFloat16\",\"Scalar\"]"),
       "aten::native_layer_norm", "norms", 400400},
      /* parameters and both moments read and written, gradients read; the kernel tells the type */
      {PASS("aten::_fused_adamw_", "1", "[[[1000,100]],[[1000,100]],[[1000,100]],[[1000,100]],[],[[]]]",
            "[\"TensorList\",\"TensorList\",\"TensorList\",\"TensorList\",\"TensorList\",\"TensorList\"]"),
       "aten::_fused_adamw_", "optimizer", 7 * 400000},
      {PASS("aten::cat", "1", "[[[1000,40],[1000,60]],[]]", "[\"TensorList\",\"Scalar\"]"), "aten::cat", "elementwise",
       800000},
      {COPY("Memcpy DtoD (Device -> Device)", "40", "4096"), "Memcpy DtoD", "copies", 8192},
      {COPY("Memset (Device)", "40", "4096"), "Memset", "copies", 4096},
      {COPY("Memcpy HtoD (Pinned -> Device)", "40", "4096"), NULL, NULL, 0},
      {PASS("aten::embedding", "1", "[[1000,100],[10]]", "[\"float\",\"long int\"]"), NULL, NULL, 0},
      {PASS("aten::cat", "1", "[[],[]]", "[\"TensorList\",\"Scalar\"]"), NULL, NULL, 0},
  };
  g_auto(Gpu) gpu = {0};
  g_autofree char *file = g_build_filename(STEPSIM_SOURCE_DATA, "topologies/gpus/h100-sxm5-80gb.yaml", NULL);
  ck_assert(gpu_read(file, &gpu, NULL));
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    const char *kernel =
        strstr(cases[i].event, "adamw") != NULL
            ? OF_PASS("multi_tensor_apply_kernel<Metadata<4>, FusedAdamMathFunctor<float, 4>>", "1", "20")
        : strstr(cases[i].event, "layer_norm") != NULL
            ? OF_PASS("vectorized_layer_norm_kernel<c10::BFloat16>", "1", "20")
            : OF_PASS("elementwise_kernel, CatArrayBatchedCopy<float, unsigned int, 2>", "1", "20");
    g_autofree char *events = g_strdup_printf("%s,%s", cases[i].event, kernel),
                    *path = write_rank("product.json", 0, events);
    g_autoptr(Profile) profile = read_file(path);
    g_autoptr(ProfileShapes) shapes = profile_shapes_new(profile, &gpu);
    ck_assert_uint_eq(shapes->shapes->len, 0);
    ck_assert_uint_eq(shapes->passes->len, cases[i].operator_name != NULL ? 1 : 0);
    if (cases[i].operator_name == NULL)
      continue;
    const ProfileShape *pass = &g_array_index(shapes->passes, ProfileShape, 0);
    ck_assert_str_eq(pass->operator_name, cases[i].operator_name);
    ck_assert_str_eq(profile_kind_name(pass->kind), cases[i].kind);
    ck_assert_double_eq_tol(pass->item.bytes, cases[i].bytes, 0.5);
    ck_assert_double_eq_tol(pass->alone_s, pass->item.bytes / (3350e9 * 0.88) + 3e-6, 1e-12);
  }
}

/* Three sizes a factor of 4 apart, the middle one twice and as slow as the largest, which is a single call: what is
 * written grows. */
TEST(passes_become_curves_of_a_gpu_file) {
  static const char *const types = "[\"float\"]";
  g_autoptr(GString) events = g_string_new(NULL);
  static const struct { int rows, us; } calls[] = {{1000, 10}, {4000, 30}, {4000, 30}, {16000, 30}, {64000, 90}};
  for (guint i = 0; i < G_N_ELEMENTS(calls); i++)
    g_string_append_printf(events,
                           "%s{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::relu\",\"tid\":1,\"ts\":%u,\"dur\":1,"
                           "\"args\":{\"External id\":%u,\"Input Dims\":[[%d,1000]],\"Input type\":%s}},"
                           "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"elementwise_kernel\",\"ts\":%u,\"dur\":%d,"
                           "\"args\":{\"External id\":%u}}",
                           i > 0 ? "," : "", 2 * i, i, calls[i].rows, types, 1000 * i, calls[i].us, i);
  g_autofree char *path = write_rank("product.json", 0, events->str),
                  *file = g_build_filename(STEPSIM_SOURCE_DATA, "topologies/gpus/h100-sxm5-80gb.yaml", NULL);
  g_auto(Gpu) gpu = {0}, mine = {0};
  ck_assert(gpu_read(file, &gpu, NULL));
  g_autoptr(Profile) profile = read_file(path);
  g_autoptr(ProfileShapes) shapes = profile_shapes_new(profile, &gpu);
  g_autofree char *yaml = profile_shapes_yaml(shapes, profile, &gpu, gpu.name),
                  *written = write_text("mine.yaml", yaml);
  g_autoptr(GError) error = NULL;
  ck_assert_msg(gpu_read(written, &mine, &error), "%s", error != NULL ? error->message : "");
  ck_assert_int_eq(mine.measured->n_curves, 1);
  ck_assert_int_eq(mine.measured->generic_curve, 0);
  ck_assert_int_eq(mine.measured->curves[0].span.n_points, 3);
  static const double bytes[] = {8e6, 32e6, 512e6}, times_s[] = {10e-6, 30e-6, 90e-6};
  for (int i = 0; i < 3; i++) {
    ck_assert_double_eq_tol(mine.measured->points[i].size_bytes, bytes[i], 0.5);
    ck_assert_double_eq_tol(mine.measured->points[i].time_s, times_s[i], 1e-12);
  }
}

/* --- collectives on a cluster --- */

static Cluster *dgx_h100(void) {
  g_autofree char *file = g_build_filename(STEPSIM_SOURCE_DATA, "topologies/dgx-h100.yaml", NULL);
  return cluster_read(file, NULL);
}

/* Rank 1 comes 3 us late to both, which last 2 and 3 us from then on: of rank 0 alone they are 5 and 6 us. */
TEST(a_ring_is_told_from_where_all_members_are_there) {
  g_autofree char *a = write_rank("late0.json", 0,
                                  REDUCE("10", "5") "," REDUCE("30", "6") "," KERNEL("k", "0", "10", "7", "1")),
                  *b = write_rank("late1.json", 1,
                                  REDUCE("113", "2") "," REDUCE("133", "3") "," KERNEL("k", "100", "13", "7", "1"));
  static const struct {
    double time_s;
    gboolean waits;
  } expected[] = {{5e-6, TRUE}, {3e-6, FALSE}};
  g_autoptr(Cluster) cluster = dgx_h100();
  for (int both = 0; both < 2; both++) {
    g_autoptr(Profile) profile = read_files((const char *[]){a, both ? b : NULL, NULL}, NULL);
    g_autoptr(ProfileRings) rings = profile_rings_new(profile, cluster);
    ck_assert_uint_eq(rings->rings->len, 1);
    const ProfileRing *ring = &g_array_index(rings->rings, ProfileRing, 0);
    ck_assert_int_eq(ring->op, COLLECTIVE_ALL_REDUCE);
    ck_assert_int_eq(ring->gpus, 2);
    ck_assert_int_eq(ring->nodes, 1);
    ck_assert_int_eq(ring->n, 2);
    ck_assert_double_eq(ring->bytes, 2000);
    ck_assert_double_eq_tol(ring->time_s, expected[both].time_s, 1e-15);
    ck_assert_int_eq(ring->waits, expected[both].waits);
    ck_assert(ring->modelled_s > 0);
    g_autofree char *yaml = profile_rings_yaml(rings, profile, cluster, cluster->name),
                    *written = write_text("mine.yaml", yaml);
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) mine = cluster_read(written, &error);
    ck_assert_msg(mine != NULL, "%s", error != NULL ? error->message : "");
    ck_assert_int_eq(mine->measured->n_collectives, 1);
    ck_assert_double_eq_tol(mine->measured->points[0].time_s, expected[both].time_s, 1e-12);
  }
}

/* Eight GPUs a node: which nodes a group lies on, as far as its list of ranks says. */
TEST(a_group_lies_on_the_nodes_of_its_ranks) {
  static const struct {
    const char *op, *ranks;
    gint64 size;
    int nodes; /* 0: misplaced; −1: untold; −2: no collective of a cluster's tables */
  } cases[] = {{"all_reduce", "[0, 1, 2, 3]", 4, 1},
               {"all_reduce", "[0, 8, 16, 24], group 3", 4, 4},
               {"all_gather", "[0, 4, 8, 12]", 4, 2},
               {"all_gather", "[0, 1, 2, 8]", 4, 0},
               {"all_reduce", "[0, 2, 4, ..., 510]", 256, 64},
               {"all_reduce", "[0, 2, 5, ..., 510]", 256, -1},
               {"all_reduce", "[0, 2, 4, ..., 511]", 256, -1},
               {"all_reduce", "[0, 1]", 4, -1},
               {"all_reduce", "[0, 1", 2, -1},
               {"all_reduce", "[0, x]", 2, -1},
               {"all_reduce", "tp", 512, 64}, /* as many as the job has */
               {"all_reduce", "tp", 8, -1},
               {"all_reduce", NULL, 0, -1},
               {"send_recv", "[0, 1]", 2, -2},
               {"barrier", "[0, 1]", 2, -2}};
  g_autoptr(Cluster) cluster = dgx_h100();
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Profile) profile = profile_new();
    ProfileRank *rank = profile_add_rank(profile, "drawn", 0);
    rank->world_size = 512;
    const gint32 index = profile_collective(profile, cases[i].op, cases[i].ranks, cases[i].size, 1 << 20);
    const ProfileActivity activity = {0, 1000, -1, "x", -1, index, -1, profile_stream(rank, 0), PROFILE_COLLECTIVE};
    g_array_append_val(rank->activities, activity);
    ck_assert(profile_complete(profile, NULL));
    g_autoptr(ProfileRings) rings = profile_rings_new(profile, cluster);
    const int found = rings->n_untold > 0      ? -1
                      : rings->n_other > 0     ? -2
                      : rings->n_misplaced > 0 ? 0
                      : rings->rings->len == 1 ? g_array_index(rings->rings, ProfileRing, 0).nodes
                                               : -3;
    ck_assert_msg(found == cases[i].nodes, "%s of %s: %d", cases[i].op, cases[i].ranks, found);
  }
}

/* --- other files --- */

TEST(a_compressed_file_reads_the_same) {
  g_autofree char *plain = write_rank("plain.json", 5, two_steps), *packed = path_of("packed.json.gz"), *text = NULL;
  gsize length;
  ck_assert(g_file_get_contents(plain, &text, &length, NULL));
  gzFile file = gzopen(packed, "wb");
  ck_assert_int_eq(gzwrite(file, text, (guint)length), (int)length);
  ck_assert_int_eq(gzclose(file), Z_OK);
  g_autoptr(Profile) a = read_file(plain), b = read_file(packed);
  ck_assert_uint_eq(profile_rank(a, 0)->activities->len, profile_rank(b, 0)->activities->len);
  g_autofree char *bytes = NULL;
  gsize n;
  ck_assert(g_file_get_contents(packed, &bytes, &n, NULL));
  g_autofree char *cut = path_of("cut.json.gz");
  ck_assert(g_file_set_contents(cut, bytes, (gssize)n / 2, NULL));
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(read_files((const char *[]){cut, NULL}, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
}

/* Nsight Systems' export: what the SQL makes. */
static char *write_tables(const char *sql) {
  char *path = path_of("report.sqlite"), *problem = NULL;
  g_unlink(path);
  sqlite3 *database;
  ck_assert_int_eq(sqlite3_open(path, &database), SQLITE_OK);
  sqlite3_exec(database, sql, NULL, NULL, &problem);
  ck_assert_msg(problem == NULL, "%s", problem);
  sqlite3_close(database);
  return path;
}

TEST(nsight_systems_says_the_same) {
  g_autofree char *path = write_tables(
      "CREATE TABLE StringIds (id INTEGER, value TEXT);"
      "INSERT INTO StringIds VALUES (1, 'sm90_gemm'), (2, 'ncclDevKernel_AllReduce_Sum'), (3, 'iteration 7');"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, globalPid INT, deviceId INT, streamId INT, "
      "correlationId INT, demangledName INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3000, 33554432, 0, 7, 1, 1), "
      "(2500, 4000, 33554432, 0, 8, 2, 2), (6000, 7000, 33554432, 0, 7, 3, 1);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, 33554439, 1), (960, 970, 33554439, 2), "
      "(5000, 5010, 33554439, 3), (1, 2, 67108871, 3);"
      "CREATE TABLE NVTX_EVENTS (start INT, end INT, globalTid INT, text TEXT, textId INT);"
      "INSERT INTO NVTX_EVENTS VALUES (800, 4900, 33554439, NULL, 3), (4900, 8000, 33554439, 'Step 8', NULL), "
      "(800, 900, 33554439, 'forward', NULL);"
      "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT);"
      "INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H100');");
  g_autoptr(Profile) profile = read_file(path);
  g_autoptr(ProfileSums) sums = profile_sums_new(profile);
  ck_assert_str_eq(profile->source, "Nsight Systems");
  ck_assert_str_eq(profile_rank(profile, 0)->gpu, "NVIDIA H100");
  ck_assert_int_eq(sums->ranks[0].n_steps, 2);
  ck_assert_int_eq(sums->ranks[0].times.step_ns, 6000);
  ck_assert_int_eq(sums->ranks[0].times.computing_ns, 3000);
  ck_assert_int_eq(sums->ranks[0].times.hidden_ns, 500);
  ck_assert_int_eq(sums->ranks[0].times.host_ns, 1000); /* from 4,000 until the third is issued */
}

#define STRINGS "CREATE TABLE StringIds (id INT, value TEXT); INSERT INTO StringIds VALUES (1, 'gemm');"
#define KERNELS(columns, values)                                                                                       \
  "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId" columns ");"                               \
  "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" values ");"

/* Columns come and go between versions: what can be done without is. */
TEST(exports_of_other_versions_are_read_or_refused_with_the_place) {
  static const struct {
    const char *sql, *words; /* words NULL: it is read */
  } cases[] = {
      {STRINGS KERNELS(", shortName", "10, 30, 0, 7, 1"), NULL},
      {STRINGS KERNELS(", demangledName", "10, 30, 0, 7, 1") "CREATE TABLE NVTX_EVENTS (start, end, text);"
                                                             "INSERT INTO NVTX_EVENTS VALUES (5, 30, 'step 1');",
       NULL},
      {STRINGS KERNELS(", correlationId, demangledName",
                       "10, 30, 0, 7, 4, 1") "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, correlationId);"
                                             "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5, 4);",
       NULL},
      {STRINGS KERNELS(", demangledName", "10, 30, 0, 7, 1), (40, NULL, 0, 7, 1"), NULL}, /* still running */
      {"CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId);"
       "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10, 30, 0, 7);",
       NULL},
      {STRINGS, "no table CUPTI_ACTIVITY_KIND_KERNEL"},
      {KERNELS(", demangledName", "10, 30, 0, 7, 1"), "no table StringIds"},
      {STRINGS KERNELS("", "10, 30, 0, 7"), "table CUPTI_ACTIVITY_KIND_KERNEL: found no column demangledName"},
      {STRINGS "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, shortName)", "no column streamId"},
      {STRINGS KERNELS(", demangledName", "10, 30, 0, 7, 1") "CREATE TABLE NVTX_EVENTS (text)",
       "table NVTX_EVENTS: found no column start"},
      {STRINGS KERNELS(", demangledName", "10, 30, 0, 7, 1), (-5, 30, 0, 7, 1"), "row 2: start: found -5"},
      {STRINGS KERNELS(", demangledName", "10, 'soon', 0, 7, 1"), "row 1: end: found soon"},
      {STRINGS "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, shortName)",
       "nothing that a GPU did"}};
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *path = write_tables(cases[i].sql);
    g_autoptr(GError) error = NULL;
    g_autoptr(Profile) profile = read_files((const char *[]){path, NULL}, &error);
    ck_assert_msg((profile != NULL) == (cases[i].words == NULL), "%u: %s", i, error != NULL ? error->message : "");
    if (profile == NULL) {
      ck_assert_msg(strstr(error->message, "report.sqlite: ") != NULL && strstr(error->message, cases[i].words) != NULL,
                    "%s", error->message);
      continue;
    }
    ck_assert_uint_eq(profile_rank(profile, 0)->activities->len, 1);
    ck_assert_int_eq(profile_activity(profile_rank(profile, 0), 0)->end_ns, 30);
  }
}

/* Two ranks that met are of one run whatever their clocks say; others are not where they ran on different GPUs or days.
 */
TEST(recordings_of_different_jobs_are_refused) {
  static const struct {
    const char *gpu, *base_ns, *events, *words;
  } cases[] = {{"NVIDIA Test", "1711964646000000000", KERNEL("k", "0", "10", "7", "1"), NULL},
               {"NVIDIA Test", "1711964706000000000", KERNEL("k", "0", "10", "7", "1"), NULL},
               {"NVIDIA Test", "1711964766100000000", KERNEL("k", "0", "10", "7", "1"), "a recording 2 minutes apart"},
               {"NVIDIA Test", "1611964766000000000", REDUCE("10", "5") "," KERNEL("k", "0", "10", "7", "1"), NULL},
               {"NVIDIA Other", "1711964646000000000", KERNEL("k", "0", "10", "7", "1"), "found a NVIDIA Other"},
               {"NVIDIA Other", "1711964646000000000", REDUCE("10", "5"), NULL}};
  g_autofree char *a = write_rank("late0.json", 0, REDUCE("10", "5") "," KERNEL("k", "0", "10", "7", "1"));
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = g_strdup_printf(
                        "{\"deviceProperties\":[{\"id\":0,\"name\":\"%s\"}],\"distributedInfo\":{\"rank\":1,"
                        "\"world_size\":2},\"baseTimeNanoseconds\":%s,\"traceEvents\":[%s]}",
                        cases[i].gpu, cases[i].base_ns, cases[i].events),
                    *b = write_text("late1.json", text);
    g_autoptr(GError) error = NULL;
    g_autoptr(Profile) profile = read_files((const char *[]){a, b, NULL}, &error);
    ck_assert_msg((profile != NULL) == (cases[i].words == NULL), "%u: %s", i, error != NULL ? error->message : "");
    if (profile == NULL)
      ck_assert_msg(strstr(error->message, "late1.json: ") != NULL && strstr(error->message, cases[i].words) != NULL,
                    "%s", error->message);
  }
}

TEST(what_is_no_recording_is_refused) {
  static const struct {
    const char *text, *words[2];
  } cases[] = {{"", {"empty file"}},
               {"[1]", {":1:", "a list"}},
               {"{}", {"no list traceEvents"}},
               {"{\"traceEvents\":[]}", {"nothing that a GPU did"}},
               {"{\"traceEvents\":[{\"ph\":\"M\"}]}", {"nothing that a GPU did"}},
               {"{\"traceEvents\":[\n{\"ph\":\"X\",\"ts\":12", {":2:", "behind 34 bytes"}}, /* in a number */
               {"{\"traceEvents\":[\n{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"dur\":1}]}", {":2:", "ts"}},
               {"{\"traceEvents\":[\n{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":-1,\"dur\":1}]}",
                {":2:", "ts: found -1"}},
               {"{\"traceEvents\":[\n{\"ph\":\"X\",\"cat\":\"kernel\",\"ts\":1,\"dur\":1}]}", {":2:", "name"}},
               {"SQLite format 3", {"file is not a database"}}};
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *path = write_text("bad", cases[i].text);
    g_autoptr(GError) error = NULL;
    g_autoptr(Profile) profile = read_files((const char *[]){path, NULL}, &error);
    ck_assert_msg(profile == NULL, "%s", cases[i].text);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    for (int k = 0; k < 2 && cases[i].words[k] != NULL; k++)
      ck_assert_msg(strcasestr(error->message, cases[i].words[k]) != NULL, "%s: %s", cases[i].text, error->message);
  }
  g_autofree char *one = write_rank("one.json", 0, two_steps), *again = write_rank("again.json", 0, two_steps);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(read_files((const char *[]){one, again, NULL}, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "each rank once"));
}

int main(void) {
  const int status = run_tests();
  const char *names[] = {"two.json",       "late0.json",  "late1.json",    "product.json", "mine.yaml", "plain.json",
                         "packed.json.gz", "cut.json.gz", "report.sqlite", "bad",          "one.json",  "again.json"};
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autofree char *path = path_of(names[i]);
    g_unlink(path);
  }
  g_rmdir(folder);
  g_free(folder);
  return status;
}
