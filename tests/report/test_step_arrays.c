/* A step as arrays, read back from the archive's bytes; what each op waited for; what idle time is charged to. */
#include "run_suite.h"
#include "step_arrays.h"

#include <check.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "causes.h"
#include "hand_trace.h"
#include "npz.h"
#include "trace_fixture.h"

/* A member of an archive: its bytes after the .npy header. `shape` is the header's text. */
typedef struct {
  const guint8 *values;
  gsize n_bytes;
  char header[192];
} Member;

static guint32 number4(const guint8 *at) {
  guint32 value;
  memcpy(&value, at, sizeof value);
  return value;
}

static Member member_of(GBytes *archive, const char *name) {
  gsize length;
  const guint8 *at = g_bytes_get_data(archive, &length);
  g_autofree char *file = g_strconcat(name, ".npy", NULL);
  while (memcmp(at, "PK\x03\x04", 4) == 0) {
    const guint32 size = number4(at + 22), name_length = number4(at + 26) & 0xffff;
    const guint8 *data = at + 30 + name_length;
    ck_assert_uint_eq(number4(at + 14), crc32(0, data, size));
    if (strlen(file) == name_length && memcmp(at + 30, file, name_length) == 0) {
      Member member = {0};
      const gsize header = 10 + (gsize)(data[8] | data[9] << 8);
      ck_assert_uint_eq(header % 64, 0);
      memcpy(member.header, data + 10, MIN(header - 10, sizeof member.header - 1));
      member.values = data + header;
      member.n_bytes = size - header;
      return member;
    }
    at = data + size;
  }
  ck_abort_msg("no array %s", name);
}

static gint64 integer_at(GBytes *archive, const char *name, gsize i) {
  const Member member = member_of(archive, name);
  gint64 value;
  ck_assert_uint_le((i + 1) * sizeof value, member.n_bytes);
  memcpy(&value, member.values + i * sizeof value, sizeof value);
  return value;
}

TEST(arrays_are_numpys) {
  const gint32 rows[] = {1, -2, 3, 4, 5, 6};
  const char *texts[] = {"F", "bubble", "é"};
  g_autoptr(Npz) npz = npz_new();
  npz_add(npz, "rows", "<i4", 3, 2, rows);
  npz_add_texts(npz, "texts", 3, texts);
  npz_add(npz, "none", "<f8", 0, 0, NULL);
  g_autoptr(GBytes) archive = npz_finish(npz, NULL);
  const Member values = member_of(archive, "rows"), names = member_of(archive, "texts");
  ck_assert_ptr_nonnull(strstr(values.header, "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 2), }"));
  ck_assert_uint_eq(values.n_bytes, sizeof rows);
  ck_assert_mem_eq(values.values, rows, sizeof rows);
  ck_assert_ptr_nonnull(strstr(names.header, "'<U6'"));
  ck_assert_uint_eq(number4(names.values), 'F');
  ck_assert_uint_eq(number4(names.values + 4), 0);
  ck_assert_uint_eq(number4(names.values + 2 * 6 * 4), 0xe9);
  ck_assert_ptr_nonnull(strstr(member_of(archive, "none").header, "'shape': (0,)"));
  /* the end names three members and a directory that begins behind them */
  gsize length;
  const guint8 *bytes = g_bytes_get_data(archive, &length);
  ck_assert_mem_eq(bytes + length - 22, "PK\x05\x06", 4);
  ck_assert_uint_eq(number4(bytes + length - 14) >> 16, 3);
  ck_assert_mem_eq(bytes + number4(bytes + length - 6), "PK\x01\x02", 4);
}

/* rank 0   F [0, 10)   send [10, 22)
 * rank 1   recv [0, 22), whose partner came at 10   F [22, 32)   dp [32, 40)   F [40, 45) after dp */
TEST(a_receive_waits_for_its_sender_and_a_kernel_for_a_sum) {
  g_auto(Hand) hand = hand_new(2, 2);
  const Group dp = {.name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};
  hand_add(&hand, 0, hand_compute(&hand, 0, PHASE_F, ACTION_F, 0), 0, 0, 10);
  hand_add(&hand, 0, hand_after(hand_send(&hand, 0, 1, 0, TRUE), 0), 0, 10, 22);
  hand_add(&hand, 1, hand_send(&hand, 0, 1, 0, FALSE), 0, 0, 22);
  hand_add(&hand, 1, hand_after(hand_compute(&hand, 1, PHASE_F, ACTION_F, 0), 0), 0, 22, 32);
  hand_add(&hand, 1, hand_after(hand_collective(&hand, &dp, STREAM_DP, ACTION_REDUCE_GRAD, 8), 1), 0, 32, 40);
  hand_add(&hand, 1, hand_after(hand_compute(&hand, 1, PHASE_F, ACTION_F, 1), 2), 0, 40, 45);
  const Trace *trace = hand_finish(&hand);
  g_autofree gint64 *causes = causes_of(trace, NULL);
  const gint64 expected[] = {-1, 0, 1, 2, 3, 4};
  ck_assert_mem_eq(causes, expected, sizeof expected);
  g_autofree guint8 *critical = causes_critical(trace, causes);
  for (int i = 0; i < 6; i++)
    ck_assert(critical[i]);

  /* rank 1 is idle until 10, which is bubble, until 22 pp, from 32 to 40 dp; rank 0 from 10 on: 12 ns of pp, 23 bubble
   */
  g_autoptr(GArray) idle = metrics_idle_spans(trace);
  gint64 sums[2][N_BREAKDOWN] = {{0}};
  for (guint i = 0; i < idle->len; i++) {
    const IdleSpan *span = &g_array_index(idle, IdleSpan, i);
    sums[span->rank][span->charge] += span->end_ns - span->start_ns;
  }
  ck_assert_int_eq(sums[1][BREAKDOWN_BUBBLE], 10);
  ck_assert_int_eq(sums[1][BREAKDOWN_PP], 12);
  ck_assert_int_eq(sums[1][BREAKDOWN_DP], 8);
  ck_assert_int_eq(sums[0][BREAKDOWN_PP], 12);
  ck_assert_int_eq(sums[0][BREAKDOWN_BUBBLE], 23);
}

TEST(a_late_launch_leads_to_what_kept_the_host) {
  /* host [0, 30) keeps the host; F issued at 30 */
  g_auto(Hand) hand = hand_new(1, 1);
  hand_add(&hand, 0, op_new(OP_HOST, STREAM_HOST, ACTION_SYNC, -1, -1), 0, 0, 30);
  hand_add(&hand, 0, hand_compute(&hand, 0, PHASE_F, ACTION_F, 0), 30, 30, 40);
  g_autofree gint64 *causes = causes_of(hand_finish(&hand), NULL);
  ck_assert_int_eq(causes[0], -1);
  ck_assert_int_eq(causes[1], 0);
}

/* Of every schedule: idle spans and ops cover each rank's window once, and their bubble is the metrics'. */
static void check_idle(const char *schedule, int n_ranks, int n_chunks) {
  static const FixtureTimes times = {
      .compute_ns = {[ACTION_F] = 1000, [ACTION_B] = 2000, [ACTION_I] = 1000, [ACTION_W] = 1000}, .send_ns = 100};
  Fixture fixture = fixture_new(schedule, n_ranks, n_chunks, 8, &times);
  g_autoptr(Metrics) metrics = metrics_new(fixture.trace);
  g_autoptr(GArray) idle = metrics_idle_spans(fixture.trace);
  g_autofree gint64 *covered = g_new0(gint64, n_ranks), *bubble = g_new0(gint64, n_ranks);
  for (guint i = 0; i < idle->len; i++) {
    const IdleSpan *span = &g_array_index(idle, IdleSpan, i);
    ck_assert_int_lt(span->start_ns, span->end_ns);
    covered[span->rank] += span->end_ns - span->start_ns;
    bubble[span->rank] += span->charge == BREAKDOWN_BUBBLE ? span->end_ns - span->start_ns : 0;
  }
  for (int r = 0; r < n_ranks; r++) {
    const OpList *list = trace_list(fixture.trace, r);
    for (int i = 0; i < list->n_ops; i++)
      if (list->ops[i].kind == OP_COMPUTE)
        covered[r] += fixture.trace->end_ns[fixture.trace->first[r] + (gsize)i] -
                      fixture.trace->start_ns[fixture.trace->first[r] + (gsize)i];
    ck_assert_int_eq(covered[r], metrics->step_ns);
    ck_assert_int_eq(bubble[r], metrics->ranks[r].ns[BREAKDOWN_BUBBLE]);
  }
  g_autoptr(GBytes) archive = step_arrays(fixture.trace, metrics, NULL, NULL);
  ck_assert_int_eq(integer_at(archive, "window_ns", 1) - integer_at(archive, "window_ns", 0), metrics->step_ns);
  ck_assert_uint_eq(member_of(archive, "op_start_ns").n_bytes, 8 * fixture.trace->first[n_ranks]);
  g_autoptr(GBytes) again = step_arrays(fixture.trace, metrics, NULL, NULL);
  ck_assert(g_bytes_equal(archive, again));
  fixture_clear(&fixture);
}

TEST(idle_spans_and_ops_cover_a_step_once) {
  check_idle("gpipe", 4, 1);
  check_idle("1f1b", 4, 1);
  check_idle("interleaved", 4, 2);
  check_idle("zb-h1", 4, 1);
  check_idle("zb-v", 4, 2);
}

int main(void) {
  return run_tests();
}
