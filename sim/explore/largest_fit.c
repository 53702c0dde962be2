/* Memory grows with either size, so the largest that fits is found by doubling and then halving the distance: some
 * twenty simulated steps, folded, as neither slow ranks nor jitter hold any memory.
 *
 *     fits     1   2   4   8 ─── 12 ── 13 ◄
 *     not                   16     14               */
#include "largest_fit.h"

typedef struct {
  Predictor *predictor;
  const Model *model;
  const Cluster *cluster;
  Plan *plan;   /* what is tried; owned */
  gint64 *size; /* of the plan's: what is changed */
  gint64 step;  /* sizes are multiples of it … */
  gint64 of;    /* … and divide this; 0: any */
} Search;

static gboolean fits(const Search *search, gint64 n_steps) {
  StepPrediction step;
  *search->size = n_steps * search->step;
  return predict_step(search->predictor, search->model, search->cluster, search->plan, &step, NULL) && step.fits;
}

/* The largest size that fits, with `fits_at` steps known to; below `too_many`. */
static gint64 bisect(const Search *search, gint64 fits_at, gint64 too_many) {
  while (too_many - fits_at > 1) {
    const gint64 middle = fits_at + (too_many - fits_at) / 2;
    if (fits(search, middle))
      fits_at = middle;
    else
      too_many = middle;
  }
  return fits_at * search->step;
}

static gint64 largest(const Search *search) {
  gint64 n = 1;
  if (!fits(search, 1))
    return 0;
  while (2 * n * search->step <= LARGEST_FIT_MOST && fits(search, 2 * n))
    n *= 2;
  return bisect(search, n, MIN(2 * n, LARGEST_FIT_MOST / search->step + 1));
}

/* Of the divisors, which are few, each is tried, the largest first. */
static gint64 largest_divisor(const Search *search) {
  for (gint64 n = 1; n <= search->of; n++)
    if (search->of % n == 0 && fits(search, search->of / n))
      return search->of / n;
  return 0;
}

static LargestBound bound_of(const Search *search, gint64 largest_size) {
  StepPrediction step;
  if (search->of > 0 && largest_size == search->of)
    return LARGEST_BY_BATCH;
  if (search->of > 0 && largest_size > 0)
    return LARGEST_BY_MEMORY;
  *search->size = largest_size + search->step;
  if (*search->size > LARGEST_FIT_MOST)
    return LARGEST_TRIED;
  return predict_step(search->predictor, search->model, search->cluster, search->plan, &step, NULL) ? LARGEST_BY_MEMORY
                                                                                                    : LARGEST_BY_PLAN;
}

static gint64 common_multiple(gint64 a, gint64 b) {
  gint64 multiple = a;
  while (multiple % b != 0)
    multiple += a;
  return multiple;
}

LargestFit largest_fit(const Model *model, const Cluster *cluster, const Plan *plan, const Plan *completed,
                       double capacity_bytes) {
  Cluster sized = *cluster; /* shares all with it */
  sized.gpu.hbm_bytes = capacity_bytes;
  g_autoptr(Plan) tried = plan_copy(plan);
  tried->fold = TRUE;
  tried->jitter = 0;
  g_array_set_size(tried->slow_ranks, 0);
  g_autoptr(Predictor) predictor = predictor_new();
  Search search = {.predictor = predictor, .model = model, .cluster = &sized, .plan = tried};
  LargestFit found = {.seq_step = common_multiple(1024, 2 * (gint64)completed->cp * completed->tp)};

  search.size = &tried->micro_batch;
  search.step = 1;
  search.of = plan->global_batch > 0 ? completed->global_batch / completed->dp : 0;
  found.micro_batch = search.of > 0 ? largest_divisor(&search) : largest(&search);
  found.micro_batch_bound = bound_of(&search, found.micro_batch);

  tried->micro_batch = completed->micro_batch;
  search.size = &tried->seq_len;
  search.step = found.seq_step;
  search.of = 0;
  found.seq_len = largest(&search);
  found.seq_len_bound = bound_of(&search, found.seq_len);
  return found;
}
