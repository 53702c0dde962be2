#include "framework_releases.h"

#include <stdlib.h>
#include <string.h>

#include "data_path.h"
#include "error.h"
#include "framework.h"
#include "suggest.h"
#include "yaml_node.h"

enum { MOST_PRODUCTS = 256, MOST_ROWS = 256 };

/* --- the table --- */

/* Texts owned. */
typedef struct {
  char *name, *emit;
  YamlNode releases;
} ProductKeys;

typedef struct {
  char *read;
  YamlNode products;
} FileKeys;

static void release_clear(gpointer data) {
  FrameworkRelease *row = data;
  g_free(row->release);
  g_free(row->since);
  g_free(row->to);
  g_free(row->file);
  g_free(row->as);
}

static void product_free(gpointer data) {
  FrameworkProduct *product = data;
  g_free(product->name);
  g_free(product->emit);
  g_array_unref(product->releases);
  g_free(product);
}

static gboolean read_release(YamlNode node, FrameworkRelease *row, GError **error) {
  static const YamlField fields[] = {
      {"release", FIELD_TEXT, FALSE, offsetof(FrameworkRelease, release)},
      {"since", FIELD_TEXT, TRUE, offsetof(FrameworkRelease, since)},
      {"to", FIELD_TEXT, FALSE, offsetof(FrameworkRelease, to)},
      {"file", FIELD_TEXT, FALSE, offsetof(FrameworkRelease, file)},
      {"as", FIELD_TEXT, FALSE, offsetof(FrameworkRelease, as)},
  };
  if (!yaml_map_read(node, fields, G_N_ELEMENTS(fields), row, error))
    return FALSE;
  return (row->file != NULL) != (row->as != NULL) || yaml_fail(node, error, "expected either file or as");
}

static gboolean read_releases(YamlNode list, GArray *rows, GError **error) {
  if (yaml_list_length(list, MOST_ROWS, error) < 0)
    return FALSE;
  gboolean ok = TRUE;
  for (YamlNode item = yaml_list_item(list, 0); ok && yaml_is_present(item); item = yaml_list_next(item)) {
    FrameworkRelease row = {0};
    ok = read_release(item, &row, error);
    g_array_append_val(rows, row);
  }
  return ok;
}

static gboolean read_product(YamlNode node, FrameworkProduct *product, GError **error) {
  ProductKeys draft = {0};
  const YamlField fields[] = {
      {"name", FIELD_TEXT, TRUE, offsetof(ProductKeys, name)},
      {"emit", FIELD_TEXT, FALSE, offsetof(ProductKeys, emit)},
      {"releases", FIELD_NODE, TRUE, offsetof(ProductKeys, releases)},
  };
  const gboolean ok = yaml_map_read(node, fields, G_N_ELEMENTS(fields), &draft, error);
  product->name = draft.name;
  product->emit = draft.emit;
  return ok && read_releases(draft.releases, product->releases, error);
}

static gboolean read_products(YamlNode list, GPtrArray *products, GError **error) {
  if (yaml_list_length(list, MOST_PRODUCTS, error) < 0)
    return FALSE;
  gboolean ok = TRUE;
  for (YamlNode item = yaml_list_item(list, 0); ok && yaml_is_present(item); item = yaml_list_next(item)) {
    FrameworkProduct *product = g_new0(FrameworkProduct, 1);
    product->releases = g_array_new(FALSE, FALSE, sizeof(FrameworkRelease));
    g_array_set_clear_func(product->releases, release_clear);
    g_ptr_array_add(products, product);
    ok = read_product(item, product, error);
  }
  return ok;
}

FrameworkReleases *framework_releases_read(GError **error) {
  g_autofree char *path = data_path_find("topologies/releases", "frameworks", ".yaml", error);
  g_autoptr(YamlFile) yaml = path != NULL ? yaml_file_read(path, error) : NULL;
  if (yaml == NULL)
    return NULL;
  FileKeys draft = {0};
  const YamlField fields[] = {
      {"read", FIELD_TEXT, TRUE, offsetof(FileKeys, read)},
      {"products", FIELD_NODE, TRUE, offsetof(FileKeys, products)},
  };
  g_autoptr(FrameworkReleases) releases = g_new0(FrameworkReleases, 1);
  releases->products = g_ptr_array_new_with_free_func(product_free);
  const gboolean ok = yaml_map_read(yaml_file_root(yaml), fields, G_N_ELEMENTS(fields), &draft, error);
  releases->read = draft.read;
  return ok && read_products(draft.products, releases->products, error) ? g_steal_pointer(&releases) : NULL;
}

void framework_releases_free(FrameworkReleases *releases) {
  if (releases == NULL)
    return;
  g_free(releases->read);
  g_ptr_array_unref(releases->products);
  g_free(releases);
}

const FrameworkProduct *framework_product_find(const FrameworkReleases *releases, const char *name) {
  for (guint i = 0; i < releases->products->len; i++)
    if (strcmp(((const FrameworkProduct *)releases->products->pdata[i])->name, name) == 0)
      return releases->products->pdata[i];
  return NULL;
}

static const FrameworkRelease *nth_release(const FrameworkProduct *product, guint i) {
  return &g_array_index(product->releases, FrameworkRelease, i);
}

static const FrameworkRelease *newest(const FrameworkProduct *product) {
  return nth_release(product, product->releases->len - 1);
}

/* --- releases and months --- */

int framework_release_compare(const char *a, const char *b) {
  while (*a != '\0' || *b != '\0') {
    char *after_a, *after_b;
    const long x = strtol(a, &after_a, 10), y = strtol(b, &after_b, 10);
    if (x != y)
      return x < y ? -1 : 1;
    if (after_a == a || after_b == b) /* one ends here: 0.14 is before 0.14.1 */
      return (*a != '\0') - (*b != '\0');
    a = *after_a == '.' ? after_a + 1 : after_a;
    b = *after_b == '.' ? after_b + 1 : after_b;
  }
  return 0;
}

static gboolean matches(const char *text, const char *pattern) {
  return g_regex_match_simple(pattern, text, 0, 0);
}

static gboolean is_month(const char *text) {
  return matches(text, "^20[0-9]{2}(-(0[1-9]|1[0-2]))?$");
}

static gboolean is_release(const char *text) {
  return matches(text, "^[0-9]{1,4}([.][0-9]{1,4}){0,3}$");
}

/* 0.14.1 is of 0.14. */
static gboolean is_of(const char *release, const char *known) {
  const gsize length = strlen(known);
  return strncmp(release, known, length) == 0 && (release[length] == '.' || release[length] == '\0');
}

static gboolean is_too_new(const FrameworkProduct *product, const char *release) {
  const FrameworkRelease *last = newest(product);
  const char *known = last->to != NULL ? last->to : last->release;
  return last->as == NULL && known != NULL && framework_release_compare(release, known) > 0 && !is_of(release, known);
}

/* NULL: there is none. */
static const FrameworkRelease *find_month(const FrameworkReleases *releases, const FrameworkProduct *product,
                                          const char *month) {
  const FrameworkRelease *found = NULL;
  const gsize length = strlen(month);
  for (guint i = 0; i < product->releases->len && strncmp(releases->read, month, length) >= 0; i++)
    if (strncmp(nth_release(product, i)->since, month, length) <= 0)
      found = nth_release(product, i);
  return found;
}

/* NULL: there is none. What comes after all numbered rows may be another product's number. */
static const FrameworkRelease *find_release(const FrameworkProduct *product, const char *release) {
  const FrameworkRelease *found = NULL;
  for (guint i = 0; i < product->releases->len; i++) {
    const FrameworkRelease *row = nth_release(product, i);
    if (row->release != NULL && framework_release_compare(row->release, release) <= 0)
      found = row;
  }
  if (found == NULL && newest(product)->as != NULL)
    return newest(product);
  return is_too_new(product, release) ? NULL : found;
}

/* "0.4 (2023-12), …, 0.19 (2026-08)", of which the middle is left out if there are many. */
static char *releases_text(const FrameworkReleases *releases, const FrameworkProduct *product) {
  GString *text = g_string_new(NULL);
  for (; newest(product)->as != NULL && product->releases->len == 1;)
    product = framework_product_find(releases, newest(product)->as);
  for (guint i = 0; i < product->releases->len; i++) {
    const FrameworkRelease *row = nth_release(product, i);
    if (row->as != NULL)
      g_string_append_printf(text, ", and since %s those of %s", row->since, row->as);
    else if (row->release != NULL)
      g_string_append_printf(text, "%s%s (%s)", i > 0 ? ", " : "", row->release, row->since);
    else
      g_string_append_printf(text, "%s%s", i > 0 ? ", " : "", row->since);
  }
  if (newest(product)->to != NULL)
    g_string_append_printf(text, " to %s", newest(product)->to);
  return g_string_free(text, FALSE);
}

/* --- choosing --- */

static gboolean take(const FrameworkProduct *product, const FrameworkRelease *row, const char *release,
                     FrameworkChoice *choice) {
  *choice = (FrameworkChoice){g_strdup(row->file), g_strdup(product->name),
                              g_strdup(row->release == NULL ? NULL
                                       : release != NULL    ? release
                                                            : row->release),
                              g_strdup(product->emit)};
  return TRUE;
}

static gboolean fail_release(const FrameworkReleases *releases, const FrameworkProduct *product, const char *asked,
                             GError **error) {
  g_autofree char *known = releases_text(releases, product);
  return fail_input(error, "found %s@%.40s, expected a release or a month (YYYY-MM) of %s, known to %s: %s",
                    product->name, asked, product->name, releases->read, known);
}

/* `asked`: a release or a month; NULL: the newest. */
static gboolean choose_release(const FrameworkReleases *releases, const FrameworkProduct *product, const char *asked,
                               FrameworkChoice *choice, GError **error) {
  const FrameworkProduct *of = product;
  const FrameworkRelease *row = NULL;
  for (int n = 0; of != NULL && n < MOST_PRODUCTS; n++) {
    row = asked == NULL       ? newest(of)
          : is_month(asked)   ? find_month(releases, of, asked)
          : is_release(asked) ? find_release(of, asked)
                              : NULL;
    if (row == NULL || row->as == NULL)
      break;
    of = framework_product_find(releases, row->as);
  }
  if (row == NULL || of == NULL || row->as != NULL)
    return fail_release(releases, product, asked != NULL ? asked : "", error);
  return take(of, row, asked != NULL && !is_month(asked) ? asked : NULL, choice);
}

/* Of the last row that has the file; of none it stays as it is. */
static void find_product_of_file(const FrameworkReleases *releases, const char *file, FrameworkChoice *choice) {
  for (guint i = 0; i < releases->products->len; i++) {
    const FrameworkProduct *product = releases->products->pdata[i];
    for (guint k = product->releases->len; k-- > 0;)
      if (g_strcmp0(nth_release(product, k)->file, file) == 0) {
        const FrameworkRelease *row = nth_release(product, k);
        choice->product = g_strdup(product->name);
        choice->release = g_strdup(row->release);
        choice->emit = g_strdup(product->emit);
        return;
      }
  }
}

static char *without_suffix(const char *name) {
  return g_str_has_suffix(name, ".yaml") ? g_strndup(name, strlen(name) - strlen(".yaml")) : g_strdup(name);
}

static gboolean fail_name(const FrameworkReleases *releases, const char *name, GError **error) {
  g_auto(GStrv) all = framework_choices();
  g_autofree char *question = suggest_question(name, (const char *const *)all);
  g_autoptr(GString) products = g_string_new(NULL);
  for (guint i = 0; i < releases->products->len; i++)
    g_string_append_printf(products, "%s%s", i > 0 ? ", " : "",
                           ((const FrameworkProduct *)releases->products->pdata[i])->name);
  return fail_input(error,
                    "%.200s: no such file, product or name in topologies/frameworks/; %s%sproducts are %s, each also "
                    "with @ and a release; stepsim list frameworks has all",
                    name, question != NULL ? question : "", question != NULL ? " " : "", products->str);
}

gboolean framework_choose(const char *name, FrameworkChoice *choice, GError **error) {
  *choice = (FrameworkChoice){0};
  g_autoptr(FrameworkReleases) releases = framework_releases_read(error);
  if (releases == NULL)
    return FALSE;
  g_auto(GStrv) parts = g_strsplit(name, "@", 2);
  const FrameworkProduct *product = parts[0] != NULL ? framework_product_find(releases, parts[0]) : NULL;
  if (product != NULL)
    return choose_release(releases, product, parts[1], choice, error);
  if (g_file_test(name, G_FILE_TEST_EXISTS) || strchr(name, '/') != NULL || *name == '\0') {
    choice->file = g_strdup(name);
    return TRUE;
  }
  g_autofree char *bare = without_suffix(name);
  if (!framework_is_described(bare))
    return fail_name(releases, name, error);
  find_product_of_file(releases, bare, choice);
  choice->file = g_steal_pointer(&bare);
  return TRUE;
}

void framework_choose_file(const char *file, FrameworkChoice *choice) {
  *choice = (FrameworkChoice){0};
  g_autoptr(FrameworkReleases) releases = framework_releases_read(NULL);
  g_autofree char *name = g_path_get_basename(file), *bare = without_suffix(name);
  if (releases != NULL)
    find_product_of_file(releases, bare, choice);
}

void framework_choice_clear(FrameworkChoice *choice) {
  g_clear_pointer(&choice->file, g_free);
  g_clear_pointer(&choice->product, g_free);
  g_clear_pointer(&choice->release, g_free);
  g_clear_pointer(&choice->emit, g_free);
}

/* Whether the product's plain name means the file. */
static gboolean means(const FrameworkProduct *product, const char *file) {
  return g_strcmp0(newest(product)->file, file) == 0;
}

char *framework_name_of_file(const char *file) {
  g_autoptr(FrameworkReleases) releases = framework_releases_read(NULL);
  const FrameworkProduct *namesake = releases != NULL ? framework_product_find(releases, file) : NULL;
  if (namesake == NULL || means(namesake, file))
    return g_strdup(file);
  for (guint i = 0; i < releases->products->len; i++)
    if (means(releases->products->pdata[i], file))
      return g_strdup(((const FrameworkProduct *)releases->products->pdata[i])->name);
  return g_strconcat(file, ".yaml", NULL);
}

static int by_text(gconstpointer a, gconstpointer b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

GStrv framework_choices(void) {
  g_autoptr(FrameworkReleases) releases = framework_releases_read(NULL);
  GPtrArray *names = g_ptr_array_new();
  g_auto(GStrv) files = framework_names();
  for (char **file = files; *file != NULL; file++)
    if (releases == NULL || framework_product_find(releases, *file) == NULL)
      g_ptr_array_add(names, g_strdup(*file));
  for (guint i = 0; releases != NULL && i < releases->products->len; i++)
    g_ptr_array_add(names, g_strdup(((const FrameworkProduct *)releases->products->pdata[i])->name));
  g_ptr_array_sort(names, by_text);
  g_ptr_array_add(names, NULL);
  return (GStrv)g_ptr_array_free(names, FALSE);
}
