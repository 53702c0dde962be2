/* Modules of the page name each other by path, "./look.js", which has no meaning inside one file: they become bare
 * names, and an import map says what these are: the modules' own text, as data: addresses. */
#include "lab_html.h"

#include <gio/gio.h>
#include <string.h>

#include "lab_catalog.h"
#include "lab_page.h"
#include "whole_file.h"

/* A file of the page, as text. Owned by the caller. */
static char *page_file(const char *name) {
  g_autofree char *path = g_strconcat("/stepsim/lab/", name, NULL);
  g_autoptr(GBytes) bytes = g_resource_lookup_data(lab_page_get_resource(), path, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
  g_assert(bytes != NULL);
  return g_strndup(g_bytes_get_data(bytes, NULL), g_bytes_get_size(bytes));
}

static void append_base64(GString *out, gconstpointer bytes, gsize length) {
  g_autofree char *text = g_base64_encode(bytes, length);
  g_string_append(out, text);
}

static void append_modules(GString *out) {
  g_auto(GStrv) names = g_resources_enumerate_children("/stepsim/lab", G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
  const char *separator = "";
  g_string_append(out, "<script type=\"importmap\">{\"imports\":{");
  for (GStrv name = names; name != NULL && *name != NULL; name++) {
    if (!g_str_has_suffix(*name, ".js"))
      continue;
    g_autofree char *text = page_file(*name);
    g_autoptr(GString) module = g_string_new(text);
    g_string_replace(module, "from './", "from '", 0);
    g_string_append_printf(out, "%s\n\"%s\":\"data:text/javascript;base64,", separator, *name);
    append_base64(out, module->str, module->len);
    g_string_append_c(out, '"');
    separator = ",";
  }
  g_string_append(out, "}}</script>\n");
}

/* JSON inside a page: "<" could end the script that holds it. */
static void append_json(GString *out, const char *json) {
  for (; *json != '\0'; json++) {
    if (*json == '<')
      g_string_append(out, "\\u003c");
    else
      g_string_append_c(out, *json);
  }
}

static void append_answers(GString *out, const LabHtml *of, const char *catalog) {
  g_string_append(out, "<script type=\"application/json\" id=\"frozen\">{\"catalog\":");
  append_json(out, catalog);
  g_string_append(out, ",\"numbers\":");
  append_json(out, of->numbers);
  g_string_append(out, ",\"explanation\":");
  append_json(out, of->explanation != NULL ? of->explanation : "null");
  g_string_append(out, ",\"arrays\":\"");
  append_base64(out, g_bytes_get_data(of->arrays, NULL), g_bytes_get_size(of->arrays));
  g_string_append(out, "\"}</script>\n");
}

static void put_instead(GString *page, const char *what, const char *instead) {
  const guint n = g_string_replace(page, what, instead, 1);
  g_assert(n == 1);
}

gboolean lab_html_write(const LabHtml *of, const char *file, GError **error) {
  g_autofree char *catalog = lab_catalog(of->options, error);
  if (catalog == NULL)
    return FALSE;
  g_autofree char *index = page_file("index.html"), *style = page_file("lab.css");
  g_autoptr(GString) page = g_string_new(index);
  g_autoptr(GString) styles = g_string_new("<style>\n");
  g_autoptr(GString) scripts = g_string_new(NULL);
  g_string_append_printf(styles, "%s</style>", style);
  append_modules(scripts);
  append_answers(scripts, of, catalog);
  g_string_append(scripts, "<script type=\"module\">import 'lab.js'</script>");
  put_instead(page, "<link rel=\"stylesheet\" href=\"lab.css\">", styles->str);
  put_instead(page, "<script type=\"module\" src=\"lab.js\"></script>", scripts->str);
  WholeFile out;
  if (!whole_file_open_apart(&out, file, error))
    return FALSE;
  whole_file_write(&out, page->str, page->len);
  return whole_file_close(&out, error);
}
