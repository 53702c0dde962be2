/* What PyTorch's counters and nvidia-smi show of a peak. */
#include "plan_said.h"
#include "run_suite.h"
#include "shown_memory.h"

static const Gpu gpu = {.hbm_bytes = 80e9, .reserved_bytes = 2e9};

static void shown(const char *said, double peak_bytes, double bytes[N_SHOWN]) {
  g_autoptr(Plan) plan = plan_said("%s", said);
  g_autoptr(GError) error = NULL;
  ck_assert_msg(plan_complete(plan, NULL, NULL, &error), "%s", error != NULL ? error->message : "");
  shown_memory(peak_bytes, plan, &gpu, bytes);
}

/* The allocator keeps a twentieth more. The GPU file's 2 GB have one communicator; each other has 24 channels of 3
 * times 10 MiB: tp, pp and dp are two more. */
TEST(each_sees_more_than_the_one_before) {
  double one[N_SHOWN], three[N_SHOWN], experts[N_SHOWN];
  shown("--gpus 8 --dp 8 --global-batch 8", 40e9, one);
  shown("--gpus 8 --tp 2 --pp 2 --dp 2 --global-batch 8", 40e9, three);
  shown("--gpus 8 --dp 8 --ep 4 --global-batch 8", 40e9, experts);
  ck_assert_double_eq(one[SHOWN_ALLOCATED], 40e9);
  ck_assert_double_eq_tol(one[SHOWN_RESERVED], 42e9, 1);
  ck_assert_double_eq_tol(one[SHOWN_DEVICE], 44e9, 1);
  ck_assert_double_eq_tol(three[SHOWN_DEVICE] - one[SHOWN_DEVICE], 2 * 24 * 3 * 10485760.0, 1);
  ck_assert_double_eq_tol(experts[SHOWN_DEVICE] - one[SHOWN_DEVICE], 2 * 24 * 3 * 10485760.0, 1);
}

/* What only is kept is given back before a request fails; what does not fit at all is shown as it is. */
TEST(no_more_is_shown_than_there_is) {
  double full[N_SHOWN], over[N_SHOWN];
  shown("--gpus 8 --dp 8 --global-batch 8", 78e9, full);
  shown("--gpus 8 --dp 8 --global-batch 8", 90e9, over);
  ck_assert_double_eq(full[SHOWN_RESERVED], 80e9);
  ck_assert_double_eq(full[SHOWN_DEVICE], 80e9);
  ck_assert(over[SHOWN_ALLOCATED] == 90e9 && over[SHOWN_DEVICE] == 90e9);
}

int main(void) {
  return run_tests();
}
