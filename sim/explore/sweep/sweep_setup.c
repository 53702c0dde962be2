/* A sample is the space's indices in random order, as far as it goes. A Feistel network is a bijection on numbers of
 * 2·b bits whatever its round function is; where it leads beyond n it is walked on, at most a few steps, as 4^b < 4·n:
 * which is a bijection on numbers below n (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002,
 * cycle walking). Rounds are mixed by SplitMix64's finaliser (Steele, Lea and Flood, OOPSLA 2014). */
#include "sweep_setup.h"

#include <elf.h>
#include <link.h>
#include <math.h>
#include <string.h>

#include "cluster_words.h"
#include "data_path.h"
#include "error.h"
#include "framework_releases.h"
#include "interval.h"
#include "splitmix.h"

enum { N_ROUNDS = 6 };

static const char fact_program[] = "program", fact_space[] = "space", fact_sample[] = "sample", fact_seed[] = "seed";
static const char fact_price[] = "price", fact_prune[] = "prune";
static const char fact_margin[] = "memory margin";

void sweep_setup_clear(SweepSetup *setup) {
  g_clear_pointer(&setup->space, space_free);
}

gint64 sweep_setup_count(const SweepSetup *setup) {
  return setup->n_sample > 0 ? setup->n_sample : space_count(setup->space);
}

/* --- the sample --- */

Shuffle shuffle_of(gint64 n, guint64 seed) {
  g_assert(n >= 1);
  Shuffle shuffle = {.n = n, .seed = splitmix(seed), .half_bits = 1};
  while ((((guint64)n - 1) >> shuffle.half_bits >> shuffle.half_bits) != 0)
    shuffle.half_bits++;
  return shuffle;
}

static guint64 permute(const Shuffle *shuffle, guint64 x) {
  const guint64 mask = (G_GUINT64_CONSTANT(1) << shuffle->half_bits) - 1;
  guint64 left = x >> shuffle->half_bits, right = x & mask;
  for (int round = 0; round < N_ROUNDS; round++) {
    const guint64 next = left ^ (splitmix(right ^ splitmix(shuffle->seed + (guint64)round)) & mask);
    left = right;
    right = next;
  }
  return left << shuffle->half_bits | right;
}

gint64 shuffle_at(const Shuffle *shuffle, gint64 position) {
  guint64 x = (guint64)position;
  do
    x = permute(shuffle, x);
  while (x >= (guint64)shuffle->n);
  return (gint64)x;
}

gint64 sweep_setup_index(const SweepSetup *setup, gint64 position) {
  if (setup->n_sample == 0)
    return position;
  const Shuffle shuffle = shuffle_of(space_count(setup->space), (guint64)setup->seed);
  return shuffle_at(&shuffle, position);
}

/* --- facts --- */

static gboolean add_file(GArray *facts, const char *file, GError **error, const char *format, ...) G_GNUC_PRINTF(4, 5);

static void add_text(GArray *facts, const char *name, const char *text, gsize length) {
  g_autofree char *sum = g_compute_checksum_for_data(G_CHECKSUM_SHA256, (const guchar *)text, length);
  g_autofree char *value = g_strconcat("sha256 ", sum, NULL);
  run_facts_add(facts, name, value);
}

/* The SHA-256 of a file, named by `format`. */
static gboolean add_file(GArray *facts, const char *file, GError **error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *name = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  gsize length;
  g_autofree char *text = data_file_read(file, &length, error);
  if (text == NULL)
    return FALSE;
  add_text(facts, name, text, length);
  return TRUE;
}

/* `bases` may be NULL. */
static gboolean add_bases(GArray *facts, const GPtrArray *bases, const char *what, const char *name, GError **error) {
  gboolean ok = TRUE;
  for (guint i = 0; ok && bases != NULL && i < bases->len; i++)
    ok = add_file(facts, bases->pdata[i], error, "%s %s, base %u", what, name, i + 1);
  return ok;
}

/* A cluster in words has no file, but stands for one. */
static gboolean add_cluster_file(GArray *facts, const char *name, const char *file, GError **error) {
  if (!cluster_words_are(file))
    return add_file(facts, file, error, "cluster %s", name);
  g_autofree char *text = cluster_text_of_words(file, error), *fact = g_strdup_printf("cluster %s", name);
  if (text != NULL)
    add_text(facts, fact, text, strlen(text));
  return text != NULL;
}

static gboolean add_cluster(GArray *facts, const char *name, const Cluster *cluster, GError **error) {
  gboolean ok = add_cluster_file(facts, name, cluster->file, error) &&
                add_bases(facts, cluster->bases, "cluster", name, error) &&
                add_file(facts, cluster->gpu.file, error, "GPU of cluster %s", name) &&
                add_bases(facts, cluster->gpu.bases, "GPU of cluster", name, error) &&
                add_file(facts, cluster->collectives.file, error, "collectives of cluster %s", name);
  for (guint i = 0; ok && cluster->other_gpus != NULL && i < cluster->other_gpus->len; i++) {
    const GpuRange *range = &g_array_index(cluster->other_gpus, GpuRange, i);
    ok = add_file(facts, range->gpu.file, error, "GPU of cluster %s from node %d", name, range->first_node) &&
         add_bases(facts, range->gpu.bases, "other GPU of cluster", name, error);
  }
  return ok;
}

static gboolean add_framework(GArray *facts, const char *name, GError **error) {
  g_auto(FrameworkChoice) choice = {0};
  g_auto(GStrv) files = framework_choose(name, &choice, error) ? framework_files(choice.file, error) : NULL;
  gboolean ok = files != NULL;
  for (int i = 0; ok && files[i] != NULL; i++) {
    g_autofree char *what = i == 0 ? g_strdup(name) : g_strdup_printf("%s, base %d", name, i);
    ok = add_file(facts, files[i], error, "framework %s", what);
  }
  return ok;
}

/* Files of one axis's values. */
static gboolean add_axis(GArray *facts, const Space *space, int axis, GError **error) {
  const char *name = space_axis_name(space, axis);
  gboolean ok = TRUE;
  for (int i = 0; ok && i < space_axis_n_values(space, axis); i++) {
    const char *value = space_axis_nth(space, axis, i);
    if (g_str_equal(name, "model"))
      ok = add_file(facts, space_model(space, i)->file, error, "model %s", value);
    else if (g_str_equal(name, "cluster"))
      ok = add_cluster(facts, value, space_cluster(space, i), error);
    else if (g_str_equal(name, "framework"))
      ok = add_framework(facts, value, error);
    else if (g_str_equal(name, "schedule") && schedule_file(value) != NULL)
      ok = add_file(facts, schedule_file(value), error, "schedule %s", value);
  }
  return ok;
}

static gsize padded(gsize n, gsize align) {
  return (n + align - 1) / align * align;
}

/* What intervals are from. */
static gboolean add_intervals(GArray *facts, GError **error) {
  g_autofree char *file = interval_file(error);
  return file != NULL && add_file(facts, file, error, "prediction errors");
}

/* The program's note of what it was linked from, in hexadecimal digits; the first object is the program. */
static int take_build_id(struct dl_phdr_info *object, size_t size, gpointer id) {
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    const gsize align = segment->p_align == 8 ? 8 : 4;
    const guint8 *at = (const guint8 *)object->dlpi_addr + segment->p_vaddr, *end = at + segment->p_memsz;
    while (segment->p_type == PT_NOTE && at < end) {
      const ElfW(Nhdr) *note = (gconstpointer)at;
      const guint8 *name = at + sizeof *note, *bytes = at + padded(sizeof *note + note->n_namesz, align);
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof "GNU" && memcmp(name, "GNU", sizeof "GNU") == 0)
        for (guint k = 0; k < note->n_descsz; k++)
          g_string_append_printf(id, "%02x", bytes[k]);
      at = bytes + padded(note->n_descsz, align);
    }
  }
  return 1;
}

/* The version alone would not tell two builds of one version apart, which may predict differently. */
static void add_program(GArray *facts) {
  g_autoptr(GString) value = g_string_new("stepsim " STEPSIM_VERSION ", build ");
  dl_iterate_phdr(take_build_id, value);
  run_facts_add(facts, fact_program, value->str);
}

static void add_whole(GArray *facts, const char *name, gint64 value) {
  g_autofree char *text = g_strdup_printf("%" G_GINT64_FORMAT, value);
  run_facts_add(facts, name, text);
}

GArray *sweep_facts(const SweepSetup *setup, GError **error) {
  g_autoptr(GArray) facts = run_facts_new();
  g_autofree char *text = space_text(setup->space), *margin = memory_margin_text(&setup->margin);
  char price[G_ASCII_DTOSTR_BUF_SIZE];
  add_program(facts);
  run_facts_add(facts, fact_space, text);
  add_whole(facts, fact_sample, setup->n_sample);
  add_whole(facts, fact_seed, setup->n_sample > 0 ? setup->seed : 0);
  run_facts_add(facts, fact_price, setup->price < 0 ? "" : g_ascii_dtostr(price, sizeof price, setup->price));
  run_facts_add(facts, fact_prune, setup->prune ? "on" : "off");
  run_facts_add(facts, fact_margin, margin);
  for (int axis = 0; axis < space_n_axes(setup->space); axis++)
    if (!add_axis(facts, setup->space, axis, error))
      return NULL;
  if (!add_intervals(facts, error))
    return NULL;
  return g_steal_pointer(&facts);
}

gboolean sweep_setup_from(SweepSetup *setup, const GArray *facts, gboolean closed, GError **error) {
  const char *space = run_facts_find(facts, fact_space), *price = run_facts_find(facts, fact_price);
  const char *sample = run_facts_find(facts, fact_sample), *seed = run_facts_find(facts, fact_seed);
  const char *prune = run_facts_find(facts, fact_prune), *margin = run_facts_find(facts, fact_margin);
  if (space == NULL || price == NULL || prune == NULL || margin == NULL || sample == NULL || seed == NULL ||
      !g_ascii_string_to_signed(sample, 10, 0, G_MAXINT64, &setup->n_sample, NULL) ||
      !g_ascii_string_to_signed(seed, 10, 0, G_MAXINT64, &setup->seed, NULL))
    return fail_input(error,
                      "the table run lacks what the sweep was: space, sample, seed, price, prune or memory margin");
  setup->price = *price == '\0' ? -1 : g_ascii_strtod(price, NULL);
  setup->prune = g_str_equal(prune, "on");
  setup->space = space_new();
  if (!memory_margin_parse(margin, &setup->margin, error))
    return FALSE;
  space_set_memory_margin(setup->space, &setup->margin);
  return space_set_text(setup->space, space, error) &&
         (closed ? space_finish_closed(setup->space, error) : space_finish(setup->space, error));
}
