/* A sweep row's plan, given again column by column as options, yields the same step. */
#include "run_suite.h"
#include "sweep_fixture.h"

#include "options.h"
#include "predict.h"
#include "sweep_try.h"

/* LayerNorms and RMSNorms, experts, all kinds of framework, schedules that auto comes to, ranks that differ. */
static const char *const spaces[] = {
    "model=llama-3-8b,gpt2\ncluster=dgx-h100\ngpus=8,16\ntp=1,2\npp=1,2,4\nschedule=1f1b,zb-v,auto\n"
    "pipeline-layout=auto,balanced\nglobal-batch=16\nseq-len=1024\nzero=0,1,3\nrecompute=none,selective,full\n"
    "sequence-parallel=on,off\nprecision=bf16,fp16,fp32\nattention=flash,unfused\n"
    "framework=megatron-lm-2022,torchtitan-eager,pytorch-fsdp-2023,megatron-deepspeed,internevo\njitter=0,0.01\n",
    "model=llama-3-8b\ncluster=dgx-h100\ngpus=16\ntp=1,2\npp=1,2\ncp=1,2\ncp-comm=ring,ulysses\nseq-len=2048\n"
    "global-batch=32\nnorm-kernel=fused,plain\nrecompute=selective\nrecompute-modules=core_attn,layernorm+mlp\n"
    "zero=0,2,3\nzero-ranks=2,4\nprefetch=0,2\nbucket=100000000\norder=tp-cp-ep-pp-dp\nflops=causal,6n\n"
    "overlap-grad=on,off\noverlap-param=on,off\noverlap-p2p=on,off\ngrad-norm-barrier=on,off\ncontention=on,off\n"
    "offload-optimizer=none,host\nsteps=1,2\nfold=on,off\nseed=7\nrecipe=megatron,w2+g2+p4+m4+v4\n",
    "model=mixtral-8x7b,deepseek-v3\ncluster=dgx-h100\ngpus=64\ntp=1,2\nexpert-tp=0,1\npp=2,4\nep=4,8\n"
    "expert-load=1,1.25\nexpert-dispatch=alltoall,deepep\noverlap-experts=on,off\ncuda-graphs=none,attention,full\n"
    "schedule=1f1b,interleaved,dualpipe\nmicro-batch=1,2\nmicro-batch-group=4\nglobal-batch=128\nseq-len=2048\nzero=1\n"
    "sequence-parallel=on\nrecompute=none,selective,full\nmtp-layers=0,1\nprecision=bf16,fp8\n"
    "framework=megatron-lm-2022,megatron-bridge,deepseek\n",
};
enum { N_TRIED = 120 }; /* of each space */

/* As a table prints it; NULL: empty. Owned by the caller. */
static char *cell_text(const Cell *cell) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  switch (cell->type) {
  case CELL_WHOLE:
    return g_strdup_printf("%" G_GINT64_FORMAT, cell->whole);
  case CELL_REAL:
    return g_strdup(g_ascii_dtostr(number, sizeof number, cell->real));
  case CELL_TEXT:
    return g_strdup(cell->text);
  default:
    return NULL;
  }
}

static gboolean is_option(const Parser *parser, const char *name) {
  for (const GOptionEntry *entry = parser_entries(parser); entry->long_name != NULL; entry++)
    if (strcmp(entry->long_name, name) == 0)
      return TRUE;
  return FALSE;
}

/* All columns that are options, as a command line. How many; the first that is refused sets the error. */
static int type_again(const SweepRow *row, const SweepTable *table, Parser *parser, GError **error) {
  int n_typed = 0;
  for (int column = 0; column < sweep_table_n_columns(table); column++) {
    g_autofree char *name = g_strdelimit(g_strdup(sweep_table_column(table, column)->name), "_", '-'),
                    *text = cell_text(&row->cells[column]);
    if (text == NULL || !is_option(parser, name))
      continue;
    if (!parser_set(parser, name, text, error))
      return n_typed;
    n_typed++;
  }
  return n_typed;
}

static double step_typed_again(const SweepRow *row, const SweepTable *table, GError **error) {
  PlanOptions options;
  plan_options_init(&options);
  g_autoptr(Parser) parser = parser_new(NULL, NULL, NULL);
  plan_options_add(&options, PLAN_OPTIONS_SIMULATED, parser);
  const int n_typed = type_again(row, table, parser, error);
  double step_s = -1;
  if (n_typed > 30 && plan_options_finish(&options, error)) {
    g_autoptr(Prediction) prediction = predict(options.model, options.cluster, options.plan, error);
    step_s = prediction != NULL ? prediction->step_time_s : -1;
  }
  plan_options_clear(&options);
  return step_s;
}

LOOP_TEST(a_row_typed_again_gives_its_step, G_N_ELEMENTS(spaces)) {
  SweepSetup setup = setup_of(spaces[_i]);
  setup.price = -1;
  g_autoptr(SweepTable) table = sweep_table_new();
  g_autoptr(SweepWorker) worker = sweep_worker_new(&setup, table);
  g_autoptr(GRand) rand = g_rand_new_with_seed(5);
  int n_ran = 0;
  for (int i = 0; i < N_TRIED; i++) {
    SweepRow row;
    sweep_worker_try(worker, (gint64)(g_rand_double(rand) * (double)space_count(setup.space)), &row);
    if (row.status == SWEEP_RAN) {
      g_autoptr(GError) error = NULL;
      const double step_s = step_typed_again(&row, table, &error);
      ck_assert_msg(error == NULL, "configuration %d: %s", (int)row.index, error != NULL ? error->message : "");
      ck_assert_double_eq(step_s, row.cells[sweep_table_find(table, "step_time_s")].real);
      n_ran++;
    }
    sweep_row_clear(&row);
  }
  ck_assert_int_gt(n_ran, N_TRIED / 20);
  space_free(setup.space);
}

int main(void) {
  return run_tests();
}
