/* Prints plans drawn at random, one a line, as options of `stepsim simulate`: over all models, clusters, frameworks,
 * schedules and nearly all options. The same plans every time: a plan depends on its number alone.
 *
 * A name is drawn as the one whose hash with the plan's number is least, so a file that is added to a folder changes
 * only plans that draw it. Files of tests/golden/later.txt came after golden.txt was written and are passed over until
 * it is written anew.
 *
 * usage: draw_plans DATA FIRST N [sweep]: N plans from number FIRST; DATA has models/ and topologies/. With `sweep`,
 * options are lists, for `stepsim sweep`. */
#include <glib.h>
#include <stdlib.h>
#include <string.h>

#include "splitmix.h"

typedef struct {
  const char *data;
  gboolean is_sweep;
  guint64 state;  /* of the generator */
  guint64 number; /* of the plan */
  GString *line;
  gboolean is_small; /* the plan, so that each of its ranks can be simulated and traced */
} Draw;

static guint draw_below(Draw *draw, guint n) {
  draw->state = splitmix(draw->state);
  return (guint)(draw->state % n);
}

/* Of a text of words, one; a word that is written twice is twice as likely. */
static char *draw_word(Draw *draw, const char *words) {
  g_auto(GStrv) each = g_strsplit(words, " ", -1);
  return g_strdup(each[draw_below(draw, g_strv_length(each))]);
}

static int draw_number(Draw *draw, const char *numbers) {
  g_autofree char *word = draw_word(draw, numbers);
  return atoi(word);
}

static gboolean draw_share(Draw *draw, guint percent) {
  return draw_below(draw, 100) < percent;
}

static void say(Draw *draw, const char *option, const char *value) {
  g_string_append_printf(draw->line, "%s--%s %s", draw->line->len > 0 ? " " : "", option, value);
}

static void say_number(Draw *draw, const char *option, int value) {
  g_string_append_printf(draw->line, " --%s %d", option, value);
}

/* With a probability of `percent`, the option with one of `words`. */
static void maybe(Draw *draw, guint percent, const char *option, const char *words) {
  g_autofree char *word = draw_word(draw, words);
  if (draw_share(draw, percent))
    say(draw, option, word);
}

static guint64 hash_of(guint64 number, const char *name) {
  guint64 hash = splitmix(number);
  for (; *name != '\0'; name++)
    hash = splitmix(hash ^ (guchar)*name);
  return hash;
}

/* The lines of later.txt; none if it is not there. Owned by the caller. */
static GStrv later_files(const char *data) {
  g_autofree char *path = g_build_filename(data, "tests/golden/later.txt", NULL), *text = NULL;
  g_file_get_contents(path, &text, NULL, NULL);
  return g_strsplit(text != NULL ? text : "", "\n", -1);
}

static gboolean is_later(char **later, const char *folder, const char *name) {
  g_autofree char *file = g_build_filename(folder, name, NULL);
  return g_strv_contains((const char *const *)later, file);
}

/* A file's name without its ending; the folder's other files are passed over. */
static char *draw_file(const Draw *draw, const char *folder, const char *ending) {
  g_autofree char *path = g_build_filename(draw->data, folder, NULL);
  g_autoptr(GDir) names = g_dir_open(path, 0, NULL);
  if (names == NULL)
    g_error("%s: no such folder", path);
  g_auto(GStrv) later = later_files(draw->data);
  char *least = NULL;
  for (const char *name; (name = g_dir_read_name(names)) != NULL;)
    if (g_str_has_suffix(name, ending) && !is_later(later, folder, name) &&
        (least == NULL || hash_of(draw->number, name) < hash_of(draw->number, least))) {
      g_free(least);
      least = g_strdup(name);
    }
  if (least == NULL)
    g_error("%s: no file *%s", path, ending);
  least[strlen(least) - strlen(ending)] = '\0';
  return least;
}

/* What a config's text says of the model, as far as options depend on it. */
typedef struct {
  gboolean has_experts, has_mtp;
  int positions; /* tokens; 0: not said */
} Config;

/* A config's value of one of the keys; 0 if it has none of them. */
static int value_of(const char *text, const char *const *keys) {
  for (; *keys != NULL; keys++) {
    g_autofree char *key = g_strdup_printf("\"%s\":", *keys);
    const char *at = strstr(text, key);
    if (at != NULL)
      return atoi(at + strlen(key));
  }
  return 0;
}

static Config read_config(const Draw *draw, const char *model) {
  static const char *const experts[] = {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts",
                                        NULL};
  static const char *const mtp[] = {"num_nextn_predict_layers", NULL};
  static const char *const positions[] = {"n_positions", "max_position_embeddings", "max_seq_len", "n_ctx", NULL};
  g_autofree char *file = g_strdup_printf("%s/models/%s.json", draw->data, model), *text = NULL;
  if (!g_file_get_contents(file, &text, NULL, NULL))
    g_error("%s: cannot be read", file);
  return (Config){value_of(text, experts) > 0, value_of(text, mtp) > 0, value_of(text, positions)};
}

/* Schedules with what they need of the plan. */
static void draw_schedule(Draw *draw, int pp, int *multiple) {
  *multiple = 1;
  if (pp == 1) {
    maybe(draw, 10, "schedule", "1f1b gpipe");
    return;
  }
  g_autofree char *name =
      draw_word(draw, "1f1b 1f1b 1f1b 1f1b gpipe interleaved interleaved interleaved looped-bfs zb-h1 zb-h2 "
                      "zb-v v-half v-min dualpipe dualpipe-v");
  if (draw_share(draw, 1))
    say(draw, "schedule", "auto");
  else
    say(draw, "schedule", name);
  if (g_str_equal(name, "interleaved") || g_str_equal(name, "looped-bfs")) {
    maybe(draw, 80, "chunks", draw->is_sweep ? "2,3" : "2 2 3 4 5");
    maybe(draw, 10, "micro-batch-group", "2 3 8");
    *multiple = draw_share(draw, 70) ? pp : 1;
  }
  if (g_str_has_prefix(name, "dualpipe"))
    *multiple = 2;
}

static void draw_experts(Draw *draw, int tp, int dp) {
  if (dp > 1 && draw_share(draw, 80))
    say_number(draw, "ep", MIN(dp, draw_number(draw, "2 4 8 8")));
  maybe(draw, 5, "cuda-graphs", "router attention");
  if (tp > 1)
    maybe(draw, 30, "expert-tp", "1");
  maybe(draw, 15, "expert-load", "1.2 2");
  maybe(draw, 25, "expert-dispatch", "all_to_all deepep all_gather");
  maybe(draw, 15, "overlap-experts", "on off");
}

static void draw_length(Draw *draw, int positions) {
  const int length = draw_number(draw, "256 1024 2048 2048 4096 4096 8192");
  if (draw_share(draw, 90))
    say_number(draw, "seq-len", positions > 0 ? MIN(length, positions) : length);
}

static void draw_sizes(Draw *draw, const Config *config) {
  const int tp = draw_number(draw, "1 1 2 4 8"), pp = draw_number(draw, "1 1 1 2 2 3 4 4 8 8 12");
  const int dp = draw_number(draw, "1 2 2 4 8 8 16 32"), cp = draw_number(draw, "1 1 1 1 1 1 1 2 4");
  const int micro_batch = draw_number(draw, "1 1 1 2 4");
  int multiple;
  say_number(draw, "gpus", tp * pp * dp * cp);
  if (draw->is_sweep)
    g_string_append_printf(draw->line, " --tp %s --pp %s --micro-batch 1,%d", tp < 8 ? "1,2,4" : "2,8",
                           pp == 1  ? "1,2"
                           : pp < 8 ? "2,4"
                                    : "4,8",
                           micro_batch + 1);
  else
    g_string_append_printf(draw->line, " --tp %d --pp %d --micro-batch %d", tp, pp, micro_batch);
  if (cp > 1) {
    say_number(draw, "cp", cp);
    maybe(draw, 60, "cp-comm", "ring all_gather ulysses");
  }
  draw_schedule(draw, pp, &multiple);
  const int n_micro_batches = multiple * draw_number(draw, multiple > 1 ? "1 2 2 3" : "1 2 3 5 8 13 24");
  say_number(draw, "global-batch", micro_batch * dp * (draw->is_sweep ? 4 * pp : n_micro_batches));
  draw->is_small = tp * pp * dp * cp <= 16 && (draw->is_sweep ? 4 * pp : n_micro_batches) <= 16;
  draw_length(draw, config->positions);
  if (config->has_experts)
    draw_experts(draw, tp, dp);
  if (tp > 1)
    maybe(draw, config->has_experts ? 95 : 60, "sequence-parallel",
          draw->is_sweep        ? "on,off"
          : config->has_experts ? "on"
                                : "on on off");
}

static void draw_memory(Draw *draw, const char *cluster) {
  const int zero = draw_number(draw, "0 0 1 1 1 2 3 3");
  if (draw->is_sweep)
    say(draw, "zero", zero % 2 == 0 ? "0,1,2,3" : "1,3");
  else if (zero > 0)
    say_number(draw, "zero", zero);
  if (zero > 0)
    maybe(draw, 12, "zero-ranks", "2 2 4");
  if (zero == 3) {
    maybe(draw, 20, "prefetch", "0 2 3");
    maybe(draw, 6, "offload-weights", "host nvme");
  }
  maybe(draw, 50, "recompute", draw->is_sweep ? "none,full selective,full" : "selective full full");
  maybe(draw, 8, "offload-optimizer", "host nvme");
  maybe(draw, 4, "offload-activations", "host");
  if (strstr(cluster, "v100") != NULL)
    say(draw, "precision", "fp16");
  else
    maybe(draw, 15, "precision", "fp16 fp32 fp8 fp8 fp8 mxfp8 nvfp4");
  maybe(draw, 10, "recipe", "bf16+master megatron no-master fp32-grads megatron-fp8 deepseek-v3");
}

static void draw_execution(Draw *draw) {
  maybe(draw, 8, "attention", "unfused");
  maybe(draw, 2, "norm-kernel", "fused plain");
  maybe(draw, 2, "cuda-graphs", "full");
  maybe(draw, 12, "overlap-grad", "on off");
  maybe(draw, 12, "overlap-param", "on off");
  maybe(draw, 12, "overlap-p2p", "on off");
  maybe(draw, 6, "bucket", "1000000 100000000");
  maybe(draw, 12, "grad-norm-barrier", "on off");
  maybe(draw, 6, "steps", "2 3 4");
  maybe(draw, 8, "order", "tp-cp-ep-dp-pp tp-cp-ep-pp-dp dp-tp-cp-ep-pp pp-tp-cp-ep-dp");
  maybe(draw, 5, "flops", "megatron 6n");
  maybe(draw, 4, "pipeline-layout", "balanced balanced embedding+loss loss");
  maybe(draw, 8, "contention", "off");
  if (!draw->is_small)
    return;
  maybe(draw, 12, "jitter", "0.02 0.1");
  maybe(draw, 12, "fold", "off on");
  if (!draw->is_sweep)
    maybe(draw, 10, "slow-rank", "0=1.2 1=2");
}

static void draw_plan(Draw *draw) {
  g_autofree char *model = draw_file(draw, "models", ".json"), *cluster = draw_file(draw, "topologies", ".yaml"),
                  *framework = draw_file(draw, "topologies/frameworks", ".yaml");
  const Config config = read_config(draw, model);
  draw->state = splitmix(draw->number ^ 0x5eed);
  say(draw, "model", model);
  say(draw, "cluster", cluster);
  g_autofree char *file = g_strconcat(framework, ".yaml", NULL); /* the name alone may be a product's */
  if (draw_share(draw, 55))
    say(draw, "framework", file);
  draw_sizes(draw, &config);
  draw_memory(draw, cluster);
  draw_execution(draw);
  if (config.has_mtp)
    maybe(draw, 50, "mtp-layers", "1");
}

int main(int argc, char **argv) {
  if (argc < 4) {
    g_printerr("usage: draw_plans DATA FIRST N [sweep]\n");
    return 2;
  }
  const guint64 first = g_ascii_strtoull(argv[2], NULL, 10), n = g_ascii_strtoull(argv[3], NULL, 10);
  for (guint64 number = first; number < first + n; number++) {
    g_autoptr(GString) line = g_string_new(NULL);
    Draw draw = {argv[1], argc > 4, 0, number, line, FALSE};
    draw_plan(&draw);
    g_print("%s\n", line->str);
  }
  return 0;
}
