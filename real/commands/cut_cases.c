#include "cut_cases.h"

#include "error.h"
#include "parser.h"

/* The parsed lists. */
typedef struct {
  GArray *tps, *cps, *batches, *lengths; /* of gint64; owned; lengths NULL: the model's */
  GArray *cp_comms;                      /* of int; owned */
} CutLists;

static void cut_lists_clear(CutLists *lists) {
  GArray *const all[] = {lists->tps, lists->cps, lists->batches, lists->lengths, lists->cp_comms};
  for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
    if (all[i] != NULL)
      g_array_unref(all[i]);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(CutLists, cut_lists_clear)

static GArray *counts_or(const char *option, const char *text, const char *usual, GError **error) {
  return parse_count_list(option, text ? text : usual, error);
}

static GArray *ways_of_cp(const char *text, GError **error) {
  const char *list = text != NULL ? text : cp_comm_names()[CP_RING];
  g_auto(GStrv) names = g_strsplit(list, ",", -1);
  g_autoptr(GArray) ways = g_array_new(FALSE, FALSE, sizeof(int));
  for (char **name = names; *name != NULL; name++) {
    const int way = cp_comm_parse("--cp-comm", *name, error);
    if (way < 0)
      return NULL;
    g_array_append_val(ways, way);
  }
  if (ways->len == 0) {
    fail_input(error, "--cp-comm: found nothing, expected a list of ring, all_gather, ulysses");
    return NULL;
  }
  return parse_check_once("--cp-comm", list, names, error) ? g_steal_pointer(&ways) : NULL;
}

static gboolean read_lists(const CutRequest *request, CutLists *lists, GError **error) {
  const char *tp = request->is_cuda ? "1,2,4,8" : "1,2", *length = request->seq_len;
  return (lists->tps = counts_or("--tp", request->tp, tp, error)) != NULL &&
         (lists->cps = counts_or("--cp", request->cp, "1", error)) != NULL &&
         (lists->cp_comms = ways_of_cp(request->cp_comm, error)) != NULL &&
         (lists->batches = counts_or("--micro-batch", request->micro_batch, "1", error)) != NULL &&
         (length == NULL || (lists->lengths = counts_or("--seq-len", length, NULL, error)) != NULL);
}

/* Adds the case with and without sequence parallelism; experts with tp > 1 need it. */
static void add_case(GArray *cases, CutCase cut) {
  if (cut.tp == 1 || !model_has_experts(cut.model))
    g_array_append_val(cases, cut);
  if (cut.tp > 1) {
    cut.sequence_parallel = TRUE;
    g_array_append_val(cases, cut);
  }
}

/* For one tp, micro-batch and length: every cp, and every kind of cp communication if cp > 1. */
static void add_cuts_by_cp(GArray *cases, CutCase cut, const CutLists *lists) {
  for (guint i = 0; i < lists->cps->len; i++) {
    cut.cp = (int)g_array_index(lists->cps, gint64, i);
    for (guint way = 0; way < (cut.cp > 1 ? lists->cp_comms->len : 1); way++) {
      cut.cp_comm = (CpComm)g_array_index(lists->cp_comms, int, way);
      add_case(cases, cut);
    }
  }
}

static void add_cuts(GArray *cases, CutCase cut, const CutLists *lists) {
  for (guint t = 0; t < lists->tps->len; t++)
    for (guint b = 0; b < lists->batches->len; b++)
      for (guint s = 0; s < (lists->lengths ? lists->lengths->len : 1); s++) {
        cut.tp = (int)g_array_index(lists->tps, gint64, t);
        cut.micro_batch = g_array_index(lists->batches, gint64, b);
        cut.seq_len =
            lists->lengths ? g_array_index(lists->lengths, gint64, s) : CLAMP(cut.model->max_positions, 1, 4096);
        add_cuts_by_cp(cases, cut, lists);
      }
}

GArray *cut_cases(const CutRequest *request, const GPtrArray *models, GError **error) {
  CutCase usual = {.precision = request->is_cuda ? PRECISION_BF16 : PRECISION_FP32};
  if (request->precision != NULL && !precision_parse(request->precision, &usual.precision, error))
    return NULL;
  if (!recipe_parse(usual.precision == PRECISION_FP32 ? "fp32" : "megatron", &usual.recipe, error))
    return NULL;
  const int attention =
      request->attention ? parse_choice("--attention", request->attention, attention_names(), error) : 0;
  g_auto(CutLists) lists = {0};
  if (attention < 0 || !read_lists(request, &lists, error))
    return NULL;
  usual.attention = (Attention)attention;
  GArray *cases = g_array_new(FALSE, FALSE, sizeof(CutCase));
  for (guint i = 0; i < models->len; i++) {
    usual.model = g_ptr_array_index(models, i);
    add_cuts(cases, usual, &lists);
  }
  return cases;
}
