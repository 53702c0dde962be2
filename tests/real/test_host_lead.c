/* Whether the host was ahead of the device, from when ops were issued and ran. */
#include "measured_trace.h"
#include "run_suite.h"

#include <check.h>

enum { N = 6 };

/* In ns. Of the first step, which warms up, and of a send nothing counts. Of the others the first ran 50 before it was
 * issued, 200 in all; the second was there in time; the third was over, after 100, before it had been issued. */
TEST(an_op_is_late_if_the_device_reached_it_before_it_was_issued) {
  Op ops[N] = {{.kind = OP_COMPUTE, .step = 0}, {.kind = OP_COMPUTE, .step = 1}, {.kind = OP_COMPUTE, .step = 1},
               {.kind = OP_SEND, .step = 1},    {.kind = OP_COMPUTE, .step = 1}, {.kind = OP_HOST, .step = 1}};
  gint64 start_ns[N] = {0, 100, 300, 300, 500, 600}, end_ns[N] = {90, 300, 500, 400, 600, 700};
  gint64 issued_ns[N] = {80, 150, 300, 350, 900, 0};
  const OpList list = {.ops = ops, .n_ops = N};
  const ExecutionResult result = {.start_ns = start_ns, .end_ns = end_ns, .issued_ns = issued_ns, .n_ops = N};
  const HostLead lead = host_lead_of_rank(&list, 2, &result);
  ck_assert_int_eq(lead.n_ops, 3);
  ck_assert_int_eq(lead.n_late, 2);
  ck_assert_double_eq_tol(lead.late_s, 300e-9, 1e-15);
  ck_assert_double_eq_tol(lead.launch_s, 150e-9, 1e-15);
}

/* A step alone is not left out: 80 of its 90 ns passed before it was issued. */
TEST(the_only_step_counts) {
  Op op = {.kind = OP_COMPUTE, .step = 0};
  gint64 start_ns = 0, end_ns = 90, issued_ns = 80;
  const OpList list = {.ops = &op, .n_ops = 1};
  const ExecutionResult result = {.start_ns = &start_ns, .end_ns = &end_ns, .issued_ns = &issued_ns, .n_ops = 1};
  const HostLead lead = host_lead_of_rank(&list, 1, &result);
  ck_assert_int_eq(lead.n_late, 1);
  ck_assert_double_eq_tol(lead.launch_s, 80e-9, 1e-15);
}

int main(void) {
  return run_tests();
}
