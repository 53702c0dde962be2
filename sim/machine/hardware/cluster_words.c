/* The words are read into a request, which is held against the file of the usual cluster: what they say becomes keys
 * over that base, even if it has the same. What a changed number of GPUs or NICs would leave wrong in the base (its
 * mesh, its PCIe tree) is made anew in the base's manner. */
#include "cluster_words.h"

#include <math.h>
#include <string.h>

#include "data_path.h"
#include "error.h"
#include "suggest.h"

enum { MOST_OF_NODE = 16, MOST_LEAVES = 100000, SPAN_GPUS = 16384 /* of the tier above the leaves, or more */ };

typedef struct {
  const char *words;
  int n_gpus;
  char *gpu;           /* as typed, owned; then its full name */
  char *nic, *nvlink;  /* rates as typed, owned; NULL: not said */
  int n_nics;          /* −1: not said */
  gboolean is_one_nic; /* as its rate is said, and no number */
  int n_leaves;        /* 0: not said */
  double oversubscription;
  gboolean is_pcie;
} Request;

static void request_clear(Request *request) {
  g_free(request->gpu);
  g_free(request->nic);
  g_free(request->nvlink);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Request, request_clear)

/* --- where GPUs usually sit --- */

static void usual_clear(gpointer data) {
  UsualCluster *usual = data;
  g_free(usual->gpu);
  g_free(usual->cluster);
}

GArray *usual_clusters_read(GError **error) {
  static const YamlField fields[] = {
      {"gpu", FIELD_TEXT, TRUE, offsetof(UsualCluster, gpu)},
      {"cluster", FIELD_TEXT, TRUE, offsetof(UsualCluster, cluster)},
  };
  enum { MOST_ROWS = 1000 };
  g_autofree char *path = data_path_find("topologies/imports", "usual", ".yaml", error);
  g_autoptr(YamlFile) yaml = path != NULL ? yaml_file_read(path, error) : NULL;
  if (yaml == NULL || yaml_list_length(yaml_file_root(yaml), MOST_ROWS, error) < 0)
    return NULL;
  g_autoptr(GArray) rows = g_array_new(FALSE, TRUE, sizeof(UsualCluster));
  g_array_set_clear_func(rows, usual_clear);
  for (YamlNode item = yaml_list_item(yaml_file_root(yaml), 0); yaml_is_present(item); item = yaml_list_next(item)) {
    g_array_set_size(rows, rows->len + 1);
    if (!yaml_map_read(item, fields, G_N_ELEMENTS(fields), &g_array_index(rows, UsualCluster, rows->len - 1), error))
      return NULL;
  }
  return g_steal_pointer(&rows);
}

/* --- reading words --- */

/* Skips "x", "×" or "*" with blanks around; NULL: there is none. */
static const char *skip_times(const char *at) {
  static const char *const times[] = {"x", "X", "×", "*"};
  while (g_ascii_isspace(*at))
    at++;
  for (gsize i = 0; i < G_N_ELEMENTS(times); i++)
    if (g_str_has_prefix(at, times[i])) {
      at += strlen(times[i]);
      while (g_ascii_isspace(*at))
        at++;
      return at;
    }
  return NULL;
}

static const char *skip_digits(const char *at) {
  while (g_ascii_isspace(*at))
    at++;
  const size_t n = strspn(at, "0123456789");
  return n > 0 ? at + n : NULL;
}

/* Behind "8x " in "8x h100"; NULL: it does not begin like that. */
static const char *behind_number(const char *text) {
  const char *digits = skip_digits(text);
  return digits != NULL ? skip_times(digits) : NULL;
}

gboolean cluster_words_are(const char *text) {
  return text != NULL && behind_number(text) != NULL && !g_file_test(text, G_FILE_TEST_EXISTS);
}

static const char written[] =
    "words are \"GPUSx GPU, RATE x NICS\", separated by commas, e.g. \"8x h200, 400 Gb/s x 8\"; "
    "nodes follow from --gpus";

gboolean cluster_words_check(const char *text, GError **error) {
  if (text == NULL)
    return TRUE; /* said where the name is looked for */
  const gboolean has_rate = strstr(text, "b/s") != NULL || strstr(text, "B/s") != NULL;
  const gboolean is_like = has_rate || (g_ascii_isdigit(*text) && strchr(text, ' ') != NULL);
  if (!is_like || cluster_words_are(text) || g_file_test(text, G_FILE_TEST_EXISTS))
    return TRUE;
  return fail_input(error, "cluster \"%.200s\": no such file, and %s", text, written);
}

static gboolean has_words(const char *part, const char *words) {
  return g_ascii_strncasecmp(part, words, strlen(words)) == 0;
}

/* Whether a part of a list goes on with the words before it. */
static gboolean goes_on(const char *part) {
  while (g_ascii_isspace(*part))
    part++;
  if (behind_number(part) != NULL)
    return FALSE;
  return strstr(part, "/s") != NULL || g_ascii_strcasecmp(part, "pcie") == 0 || has_words(part, "no nic") ||
         has_words(part, "leaves of ") || (skip_digits(part) != NULL && *skip_digits(part) == ':');
}

GStrv cluster_words_split(const char *list) {
  g_auto(GStrv) parts = g_strsplit(list, ",", -1);
  g_autoptr(GStrvBuilder) clusters = g_strv_builder_new();
  for (char **part = parts; *part != NULL; part++) {
    g_autoptr(GString) cluster = g_string_new(*part);
    while (cluster_words_are(cluster->str) && part[1] != NULL && goes_on(part[1]))
      g_string_append_printf(cluster, ",%s", *++part);
    g_strv_builder_add(clusters, cluster->str);
  }
  return g_strv_builder_end(clusters);
}

static const char forms[] =
    "NICs as \"400 Gb/s x 8\", \"no nics\", \"pcie\", \"nvlink 450 GB/s\", \"leaves of 32\" or \"2:1\"";

static gboolean fail_part(const Request *request, const char *part, GError **error) {
  return fail_input(error, "cluster \"%.200s\": found \"%.80s\", expected %s", request->words, part, forms);
}

/* A number from 1 to `most`. */
static gboolean read_number(const Request *request, const char *part, const char *number, gint64 most, const char *what,
                            int *value, GError **error) {
  g_autofree char *text = g_strstrip(g_strdup(number));
  gint64 found;
  if (!g_ascii_string_to_signed(text, 10, 1, most, &found, NULL))
    return fail_input(error, "cluster \"%.200s\": found \"%.80s\" in \"%.80s\", expected a number of %s from 1 to %d",
                      request->words, text, part, what, (int)most);
  *value = (int)found;
  return TRUE;
}

/* The rate is kept as it is typed. */
static gboolean read_rate(const Request *request, const char *text, char **rate, GError **error) {
  double value;
  if (*rate != NULL)
    return fail_input(error, "cluster \"%.200s\": \"%.80s\" is said twice, of \"%.80s\" before", request->words, text,
                      *rate);
  if (!units_parse(text, UNIT_BYTES_PER_SECOND, &value, error)) {
    g_prefix_error(error, "cluster \"%.200s\": ", request->words);
    return FALSE;
  }
  *rate = g_strstrip(g_strdup(text));
  return TRUE;
}

/* "400 Gb/s" or "400 Gb/s x 8". */
static gboolean read_nics(Request *request, const char *part, GError **error) {
  const char *unit = strstr(part, "/s");
  if (request->n_nics >= 0)
    return fail_input(error, "cluster \"%.200s\": NICs are said twice, expected one kind", request->words);
  const char *end = unit != NULL ? unit + strlen("/s") : part + strlen(part);
  g_autofree char *rate = g_strndup(part, (gsize)(end - part));
  if (!read_rate(request, rate, &request->nic, error))
    return FALSE;
  request->n_nics = 1;
  while (g_ascii_isspace(*end))
    end++;
  request->is_one_nic = *end == '\0';
  if (request->is_one_nic)
    return TRUE;
  const char *number = skip_times(end);
  if (number == NULL)
    return fail_input(
        error,
        "cluster \"%.200s\": found \"%.80s\" behind \"%.80s\", expected x and the number of such NICs in a "
        "node",
        request->words, end, rate);
  return read_number(request, part, number, 4096, "NICs", &request->n_nics, error);
}

static gboolean read_ratio(Request *request, const char *part, GError **error) {
  char *end;
  const double ratio = g_ascii_strtod(part, &end);
  if (strcmp(end, ":1") != 0 || !(ratio >= 1 && ratio <= 1e4))
    return fail_input(
        error,
        "cluster \"%.200s\": found \"%.80s\", expected what comes up to the leaves over what leaves them, "
        "such as 2:1",
        request->words, part);
  request->oversubscription = ratio;
  return TRUE;
}

static gboolean read_part(Request *request, const char *part, GError **error) {
  static const char nvlink[] = "nvlink ", leaves[] = "leaves of ";
  if (g_ascii_strcasecmp(part, "pcie") == 0) {
    request->is_pcie = TRUE;
    return TRUE;
  }
  if (g_ascii_strcasecmp(part, "no nics") == 0 || g_ascii_strcasecmp(part, "no nic") == 0) {
    if (request->n_nics > 0)
      return fail_input(error, "cluster \"%.200s\": found NICs and \"%s\"", request->words, part);
    request->n_nics = 0;
    return TRUE;
  }
  if (has_words(part, nvlink))
    return read_rate(request, part + strlen(nvlink), &request->nvlink, error);
  if (has_words(part, leaves)) {
    g_autofree char *number = g_strdup(part + strlen(leaves));
    char *nodes = strstr(number, "node");
    if (nodes != NULL)
      *nodes = '\0';
    return read_number(request, part, number, MOST_LEAVES, "nodes", &request->n_leaves, error);
  }
  const char *digits = skip_digits(part);
  if (digits != NULL && strchr(part, ':') != NULL)
    return read_ratio(request, part, error);
  return digits != NULL ? read_nics(request, part, error) : fail_part(request, part, error);
}

static gboolean read_words(const char *words, Request *request, GError **error) {
  *request = (Request){.words = words, .n_nics = -1};
  g_auto(GStrv) parts = g_strsplit(words, ",", -1);
  const char *first = g_strstrip(parts[0]);
  g_autofree char *number = g_strndup(first, (gsize)(skip_digits(first) - first));
  if (!read_number(request, first, number, 65536, "GPUs in a node", &request->n_gpus, error))
    return FALSE;
  request->gpu = g_strdup(behind_number(first));
  if (*request->gpu == '\0')
    return fail_input(error, "cluster \"%.200s\": found no GPU behind \"%.80s\", expected a name such as h100", words,
                      first);
  for (char **part = parts + 1; *part != NULL; part++)
    if (!read_part(request, g_strstrip(*part), error))
      return FALSE;
  return TRUE;
}

/* --- the usual cluster --- */

/* NULL: not a text. */
static const char *text_at(YamlNode map, const char *key) {
  const YamlNode value = yaml_is_present(map) && yaml_is_map(map) ? yaml_map_value(map, key) : (YamlNode){NULL, 0};
  return yaml_is_present(value) && !yaml_is_map(value) && !yaml_is_list(value) ? yaml_text(value, NULL) : NULL;
}

static YamlNode map_at(YamlNode map, const char *key) {
  return yaml_is_present(map) && yaml_is_map(map) ? yaml_map_value(map, key) : (YamlNode){NULL, 0};
}

/* `otherwise` if the key is not there. */
static int number_at(YamlNode map, const char *key, int otherwise) {
  const char *text = text_at(map, key);
  gint64 value;
  return text != NULL && g_ascii_string_to_signed(text, 10, 0, G_MAXINT, &value, NULL) ? (int)value : otherwise;
}

/* What the words are held against; owned by the caller. */
typedef struct {
  YamlFile *file;
  char *name;
  YamlNode root, node, scale_up;
  int n_gpus, n_nics, domain;
} Base;

static void base_clear(Base *base) {
  g_clear_pointer(&base->file, yaml_file_free);
  g_clear_pointer(&base->name, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Base, base_clear)

/* Of a node with so many GPUs. */
static int usual_nics(const Base *base, int n_gpus) {
  return MAX(base->n_nics * n_gpus / base->n_gpus, MIN(base->n_nics, 1));
}

static gboolean read_base(const char *name, const YamlBases *bases, Base *base, GError **error) {
  g_autofree char *path = data_path_find(bases->folder, name, ".yaml", error);
  YamlFile *file = path != NULL ? yaml_file_read(path, error) : NULL;
  base->file = file != NULL ? yaml_over_bases(file, bases, NULL, error) : NULL;
  if (base->file == NULL)
    return FALSE;
  base->name = g_strdup(name);
  base->root = yaml_file_root(base->file);
  base->node = map_at(base->root, "node");
  base->scale_up = map_at(base->node, "scale_up");
  base->n_gpus = number_at(base->node, "gpus", 1);
  base->n_nics = number_at(base->node, "nics", 0);
  base->domain = number_at(base->scale_up, "domain", base->n_gpus);
  return TRUE;
}

static gboolean is_of_pcie(const Base *base) {
  return g_strcmp0(text_at(base->scale_up, "kind"), "pcie") == 0;
}

/* sxm is sxm5 and sxm4, h100 is h100 alone. */
static gboolean is_word_of(const char *typed, char **words) {
  for (; *typed != '\0' && *words != NULL; words++)
    if (g_ascii_strcasecmp(typed, *words) == 0 ||
        (has_words(*words, typed) && strspn(*words + strlen(typed), "0123456789") == 1 &&
         !g_ascii_isdigit(typed[strlen(typed) - 1])))
      return TRUE;
  return FALSE;
}

/* Whether all typed words are of the name, of which the first is the name's first or a number: 4090. */
static gboolean is_short_for(const char *typed, const char *name) {
  g_auto(GStrv) given = g_strsplit_set(typed, "- ", -1), words = g_strsplit(name, "-", -1);
  if (g_ascii_strcasecmp(given[0], words[0]) != 0 &&
      (*given[0] == '\0' || given[0][strspn(given[0], "0123456789")] != '\0'))
    return FALSE;
  for (char **word = given; *word != NULL; word++)
    if (!is_word_of(*word, words))
      return FALSE;
  return TRUE;
}

static gboolean fail_gpu(const Request *request, GError **error) {
  g_auto(GStrv) names = data_path_list("topologies/gpus", ".yaml");
  g_autofree char *question = suggest_question(request->gpu, (const char *const *)names);
  if (suggest_same(request->gpu, (const char *const *)names) >= 0)
    return fail_input(
        error,
        "cluster \"%.200s\": it is not known where GPUs of the kind %s usually sit: write a file with gpu: "
        "%s over a cluster that is alike (base:)",
        request->words, request->gpu, request->gpu);
  const gboolean is_more = strchr(request->gpu, '+') != NULL || strstr(request->gpu, "/s") != NULL;
  return fail_input(error, "cluster \"%.200s\": found GPU \"%.80s\"; %s%sstepsim list gpus has the names%s%s",
                    request->words, request->gpu, question != NULL ? question : "", question != NULL ? " " : "",
                    is_more ? ", and " : "", is_more ? written : "");
}

/* The row that has the name, of a cluster that pcie allows; −1 with the error set. */
static int find_usual(const Request *request, const GArray *usual, const YamlBases *bases, Base *base, GError **error) {
  int other = -1; /* has the name, but is no PCIe */
  for (guint i = 0; i < usual->len; i++) {
    const UsualCluster *row = &g_array_index(usual, UsualCluster, i);
    const char *const names[] = {row->gpu, NULL};
    if (suggest_same(request->gpu, names) < 0 && !is_short_for(request->gpu, row->gpu))
      continue;
    if (!read_base(row->cluster, bases, base, error))
      return -1;
    if (!request->is_pcie || is_of_pcie(base))
      return (int)i;
    base_clear(base);
    other = (int)i;
  }
  if (other < 0)
    fail_gpu(request, error);
  else
    fail_input(error, "cluster \"%.200s\": found \"pcie\", but no cluster with %s on PCIe is known: leave it out",
               request->words, g_array_index(usual, UsualCluster, other).gpu);
  return -1;
}

/* --- as a file --- */

typedef struct {
  const Request *request;
  const Base *base;
  GString *said, *top, *node, *scale_up; /* comments; keys at the top, of node, of node.scale_up */
  int n_gpus, n_nics;                    /* of a node */
} Writer;

static void G_GNUC_PRINTF(2, 3) say(Writer *w, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_string_append(w->said, "# ");
  g_string_append_vprintf(w->said, format, arguments);
  g_string_append_c(w->said, '\n');
  va_end(arguments);
}

static gboolean is_mesh(const Base *base) {
  return g_strcmp0(text_at(base->scale_up, "kind"), "nvlink_mesh") == 0;
}

/* Links of every pair, if all pairs have as many; else 0. */
static int links_of_pairs(const Base *base) {
  const YamlNode pairs = map_at(map_at(base->scale_up, "mesh"), "pairs");
  int n = 0, links = 0;
  if (!yaml_is_present(pairs))
    return 0;
  for (YamlNode pair = yaml_list_item(pairs, 0); yaml_is_present(pair); pair = yaml_list_next(pair), n++) {
    const int found = number_at(pair, "links", 0);
    if (n > 0 && found != links)
      return 0;
    links = found;
  }
  return n == base->domain * (base->domain - 1) / 2 ? links : 0;
}

/* A mesh of other GPUs or rate: every pair of them is joined as in the base. */
static gboolean write_mesh(Writer *w, GError **error) {
  const int links = links_of_pairs(w->base), n = w->n_gpus;
  const char *link = text_at(map_at(w->base->scale_up, "mesh"), "link");
  double link_Bps = 0, all_Bps;
  if (links == 0 || n > w->base->domain || n < 2 || link == NULL ||
      !units_parse(link, UNIT_BYTES_PER_SECOND, &link_Bps, NULL))
    return fail_input(error, "cluster \"%.200s\": found %d GPUs, but those of %s are joined by a mesh of %d%s",
                      w->request->words, n, w->base->name, w->base->domain,
                      links == 0 ? ", of which only all can be had: write a file" : "");
  if (w->request->nvlink != NULL && units_parse(w->request->nvlink, UNIT_BYTES_PER_SECOND, &all_Bps, NULL))
    link_Bps = all_Bps / ((n - 1) * links);
  g_autoptr(GString) rate = g_string_new(NULL);
  units_append_exact(rate, link_Bps / 1e9);
  if (w->request->nvlink == NULL) {
    g_string_append(w->scale_up, "    bandwidth: ");
    units_append_exact(w->scale_up, (n - 1) * links * link_Bps / 1e9);
    g_string_append(w->scale_up, " GB/s\n");
  }
  g_string_append_printf(w->scale_up, "    mesh:\n      link: %s GB/s\n      pairs:\n", rate->str);
  for (int a = 0; a < n; a++)
    for (int b = a + 1; b < n; b++)
      g_string_append_printf(w->scale_up, "        - {gpus: [%d, %d], links: %d}\n", a, b, links);
  return TRUE;
}

static gboolean write_gpus(Writer *w, GError **error) {
  const Base *base = w->base;
  const int n = w->request->n_gpus, most = MAX(base->domain, MOST_OF_NODE);
  const gboolean is_rack = base->domain > base->n_gpus && n > base->n_gpus;
  if (n > most || (is_rack && n % base->n_gpus != 0)) {
    g_autofree char *whole = is_rack ? g_strdup_printf(", whole nodes of %d beyond one", base->n_gpus) : g_strdup("");
    return fail_input(error,
                      "cluster \"%.200s\": found %d GPUs, expected those of one %s, at most %d%s; --gpus says how many "
                      "there are in all",
                      w->request->words, n, base->domain > base->n_gpus ? "NVLink domain" : "node", most, whole);
  }
  w->n_gpus = is_rack ? base->n_gpus : n;
  g_string_append_printf(w->node, "  gpus: %d\n", w->n_gpus);
  if (base->domain > base->n_gpus) {
    g_string_append_printf(w->scale_up, "    domain: %d\n", n);
    if (n != base->domain && text_at(base->scale_up, "segment") != NULL)
      g_string_append(w->scale_up, "    segment: none\n");
  }
  return TRUE;
}

static gboolean write_scale_up(Writer *w, GError **error) {
  const Request *request = w->request;
  if (request->nvlink != NULL && is_of_pcie(w->base))
    return fail_input(error, "cluster \"%.200s\": found \"nvlink\", but %s has none", request->words, request->gpu);
  if (request->nvlink != NULL)
    g_string_append_printf(w->scale_up, "    bandwidth: %s  # per GPU and direction\n", request->nvlink);
  else
    say(w, "GPUs joined as in %s: %s, %s per GPU and direction%s", w->base->name, text_at(w->base->scale_up, "kind"),
        text_at(w->base->scale_up, "bandwidth"),
        is_mesh(w->base) && w->n_gpus != w->base->domain ? " with all of its GPUs" : "");
  const gboolean is_changed = w->n_gpus != w->base->n_gpus || request->nvlink != NULL;
  return !is_mesh(w->base) || !is_changed || write_mesh(w, error);
}

static void write_nics(Writer *w) {
  const Request *request = w->request;
  const Base *base = w->base;
  const char *rate = text_at(map_at(base->node, "nic"), "bandwidth");
  const int n_boxes = MAX(request->n_gpus / w->n_gpus, 1); /* nodes of what the first number counts */
  w->n_nics = request->n_nics >= 0 ? request->n_nics / n_boxes : usual_nics(base, w->n_gpus);
  if (request->n_nics < 0)
    say(w, "%d NIC%s of %s a node, as %s has for its GPUs", w->n_nics, w->n_nics == 1 ? "" : "s", rate, base->name);
  else if (request->is_one_nic)
    say(w, "one NIC of %s a node, as no number is said (such as \"%s x %d\")", request->nic, request->nic, w->n_gpus);
  if (w->n_nics != base->n_nics || request->n_nics >= 0)
    g_string_append_printf(w->node, "  nics: %d\n", w->n_nics);
  if (w->n_nics == 0 && base->n_nics > 0)
    g_string_append(w->node, "  nic: none\n");
  if (request->nic != NULL)
    g_string_append_printf(w->node, "  nic: {bandwidth: %s}\n", request->nic);
}

/* Whether devices hang on switches of sockets and nothing else, so that others can be spread over these. */
static gboolean is_plain_tree(YamlNode pcie) {
  const YamlNode switches = map_at(pcie, "switches"), sockets = map_at(pcie, "sockets");
  if (!yaml_is_present(switches) || yaml_is_present(map_at(pcie, "slots")))
    return FALSE;
  for (YamlNode item = yaml_list_item(switches, 0); yaml_is_present(item); item = yaml_list_next(item))
    if (yaml_is_present(map_at(item, "switch")))
      return FALSE;
  for (YamlNode item = yaml_list_item(sockets, 0); yaml_is_present(item); item = yaml_list_next(item))
    if (yaml_is_present(map_at(item, "gpus")) || yaml_is_present(map_at(item, "nics")))
      return FALSE;
  return TRUE;
}

/* ", gpus: [0, 1]": the numbers whose place it is; nothing if there are none. */
static void append_placed(GString *out, const char *key, const int *places, int n, int place) {
  const char *before = "";
  for (int i = 0; i < n; i++) {
    if (places[i] != place)
      continue;
    if (*before == '\0')
      g_string_append_printf(out, ", %s: [", key);
    g_string_append_printf(out, "%s%d", before, i);
    before = ", ";
  }
  if (*before != '\0')
    g_string_append_c(out, ']');
}

/* GPUs and NICs of another number are spread over the base's switches in order, each NIC beside the first GPU that it
 * serves. */
static void write_switches(Writer *w, YamlNode pcie) {
  const YamlNode switches = map_at(pcie, "switches");
  const int n_switches = yaml_list_length(switches, G_MAXINT, NULL), n = w->n_gpus;
  g_autofree int *of_gpu = g_new(int, n), *of_nic = g_new(int, w->n_nics + 1);
  for (int i = 0; i < n; i++)
    of_gpu[i] = i * n_switches / n;
  for (int i = 0; i < w->n_nics; i++)
    of_nic[i] = of_gpu[w->n_nics <= n ? (i * n + w->n_nics - 1) / w->n_nics : i * n / w->n_nics];
  g_string_append(w->node, "  pcie:\n    switches:\n");
  for (int s = 0; s < n_switches; s++) {
    const YamlNode item = yaml_list_item(switches, s);
    g_autoptr(GString) devices = g_string_new(NULL);
    append_placed(devices, "gpus", of_gpu, n, s);
    append_placed(devices, "nics", of_nic, w->n_nics, s);
    if (devices->len > 0)
      g_string_append_printf(w->node, "      - {socket: %s, uplink: %s%s}\n", text_at(item, "socket"),
                             text_at(item, "uplink"), devices->str);
  }
  say(w, "PCIe: GPUs and NICs spread over the switches of %s in order", w->base->name);
}

/* Without the tree a host's link has to be said. */
static void write_tree(Writer *w) {
  const YamlNode pcie = map_at(w->base->node, "pcie");
  if (!yaml_is_present(pcie) || (w->n_gpus == w->base->n_gpus && w->n_nics == w->base->n_nics))
    return;
  if (is_plain_tree(pcie)) {
    write_switches(w, pcie);
    return;
  }
  g_string_append(w->node, "  pcie: none\n");
  if (text_at(map_at(w->base->node, "host"), "link") == NULL && yaml_is_present(map_at(w->base->node, "host")))
    g_string_append_printf(w->node, "  host: {link: %s}\n", text_at(pcie, "bandwidth"));
  say(w, "the PCIe tree of %s, which is one of other numbers, is left out", w->base->name);
}

static void write_fabric(Writer *w) {
  const Request *request = w->request;
  if (request->n_leaves == 0 && request->oversubscription == 0)
    return;
  g_string_append(w->top, "fabric:\n");
  if (request->n_leaves > 0)
    g_string_append_printf(w->top, "  leaves: {kind: %s, nodes: %d}\n", w->n_nics > 1 ? "rail_optimised" : "classic",
                           request->n_leaves);
  if (request->oversubscription == 0)
    return;
  const int n_leaves = request->n_leaves > 0 ? request->n_leaves
                                             : number_at(map_at(map_at(w->base->root, "fabric"), "leaves"), "nodes", 1);
  const int group = n_leaves * MAX(w->n_gpus, request->n_gpus); /* whole racks, where nodes are of one */
  g_string_append_printf(w->top, "  tiers: [{span: %d, oversubscription: ", (SPAN_GPUS + group - 1) / group * group);
  units_append_exact(w->top, request->oversubscription);
  g_string_append(w->top, "}]\n");
}

/* What is not the base's own GPU costs something else. The name is a key of its own either way, as is all that is
 * typed: a saved file shows what may be edited. */
static void write_gpu(Writer *w, const char *gpu) {
  const char *own = text_at(w->base->root, "gpu");
  g_autofree char *name = g_path_get_basename(own != NULL ? own : "");
  if (g_str_has_suffix(name, ".yaml"))
    name[strlen(name) - strlen(".yaml")] = '\0';
  g_string_append_printf(w->top, "gpu: %s\n", gpu);
  if (strcmp(name, gpu) != 0 && text_at(w->base->root, "price") != NULL)
    g_string_append(w->top, "price: none\n");
}

static char *text_of(const Writer *w) {
  const Request *request = w->request;
  GString *out = g_string_new(NULL);
  g_string_append_printf(out,
                         "# %s\n%s# all else as in %s\nname: \"%s\"\nbase: %s\nsource: words; the rest as of %s "
                         "(assumed)\n%s",
                         request->words, w->said->str, w->base->name, request->words, w->base->name, w->base->name,
                         w->top->str);
  if (w->node->len + w->scale_up->len > 0)
    g_string_append_printf(out, "node:\n%s", w->node->str);
  if (w->scale_up->len > 0)
    g_string_append_printf(out, "  scale_up:\n%s", w->scale_up->str);
  return g_string_free(out, FALSE);
}

static gboolean check_nics(const Writer *w, GError **error) {
  const Request *request = w->request;
  const int n_boxes = MAX(request->n_gpus / w->n_gpus, 1);
  if (request->n_nics > 0 && request->n_nics % n_boxes != 0)
    return fail_input(error, "cluster \"%.200s\": found %d NICs, expected a multiple of the %d nodes of %d GPUs each",
                      request->words, request->n_nics, n_boxes, w->n_gpus);
  return TRUE;
}

static char *write_file(const Request *request, const char *gpu, const Base *base, GError **error) {
  g_autoptr(GString) said = g_string_new(NULL), top = g_string_new(NULL), node = g_string_new(NULL),
                     scale_up = g_string_new(NULL);
  Writer w = {request, base, said, top, node, scale_up, 0, 0};
  write_gpu(&w, gpu);
  if (!write_gpus(&w, error) || !check_nics(&w, error) || !write_scale_up(&w, error))
    return NULL;
  write_nics(&w);
  write_tree(&w);
  write_fabric(&w);
  return text_of(&w);
}

/* FALSE with the error set. All three are the caller's to clear, whatever is returned. */
static gboolean read_all(const char *words, const YamlBases *bases, Request *request, Base *base, char **gpu,
                         GError **error) {
  g_autoptr(GArray) usual = usual_clusters_read(error);
  if (usual == NULL || !read_words(words, request, error))
    return FALSE;
  if (strpbrk(words, "\"\\\n") != NULL)
    return fail_input(error, "cluster: found a quotation mark, a backslash or a line's end in it");
  const int row = find_usual(request, usual, bases, base, error);
  *gpu = row >= 0 ? g_strdup(g_array_index(usual, UsualCluster, row).gpu) : NULL;
  return row >= 0;
}

char *cluster_words_yaml(const char *words, const YamlBases *bases, GError **error) {
  g_auto(Request) request = {0};
  g_auto(Base) base = {0};
  g_autofree char *gpu = NULL;
  return read_all(words, bases, &request, &base, &gpu, error) ? write_file(&request, gpu, &base, error) : NULL;
}

char *cluster_words_notice(const char *words, const YamlBases *bases) {
  g_auto(Request) request = {0};
  g_auto(Base) base = {0};
  g_autofree char *gpu = NULL;
  if (!read_all(words, bases, &request, &base, &gpu, NULL) || !request.is_one_nic)
    return NULL;
  const int n = usual_nics(&base, MIN(request.n_gpus, base.n_gpus));
  return n > 1 ? g_strdup_printf("%s: 1 NIC of %s per node, where a usual %s node has %d: \"%s x %d\"", words,
                                 request.nic, request.gpu, n, request.nic, n)
               : NULL;
}
