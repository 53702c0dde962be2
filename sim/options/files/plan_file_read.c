/* What a plan's file is written in, by what is in it. */
#include <string.h>

#include "data_path.h"
#include "error.h"
#include "import.h"

typedef enum { FORMAT_OWN, FORMAT_ARGUMENTS, FORMAT_JSON, FORMAT_TOML } Format;

/* Of the first line that is neither empty nor a comment: where a word of letters, digits, dots, - and _ ends. */
static const char *behind_word(const char *line) {
  return line + strspn(line, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_-.\"'");
}

/* `key: value` is YAML, `[section]` and `key = value` are TOML, an object is JSON; all else is taken for a shell's
 * words. */
static Format format_of(const char *text) {
  while (!g_str_has_prefix(text, "#!") && *text != '\0') {
    text += strspn(text, " \t\r\n");
    if (*text != '#')
      break;
    text += strcspn(text, "\n");
  }
  const char *end = behind_word(text), *next = end + strspn(end, " \t");
  if (*text == '{')
    return FORMAT_JSON;
  if (*text == '[' && g_ascii_isalpha(text[1]))
    return FORMAT_TOML;
  if (*next == '=' && next > end && end > text)
    return FORMAT_TOML;
  const gboolean is_option = g_str_has_prefix(text, "--") && g_ascii_isalpha(text[2]);
  const gboolean is_document = g_str_has_prefix(text, "---") || *text == '%' || *text == '\0';
  if (is_document || (!is_option && end > text && *end == ':' && strchr(" \t\r\n", end[1]) != NULL))
    return FORMAT_OWN;
  return FORMAT_ARGUMENTS;
}

PlanFile *plan_file_read(const char *path, gint64 gpus, GError **error) {
  gsize length;
  g_autofree char *bytes = data_file_read(path, &length, error);
  if (bytes == NULL)
    return NULL;
  const gsize mark = g_str_has_prefix(bytes, "\xef\xbb\xbf") ? 3 : 0; /* of the encoding */
  const char *text = bytes + mark;
  if (strlen(bytes) != length) {
    fail_input(error, "%s: found a zero byte, expected a plan", path);
    return NULL;
  }
  const Format format = format_of(text);
  if (format == FORMAT_OWN)
    return plan_file_parse_own(path, text, length - mark, error);
  g_autoptr(PlanFile) file = plan_file_new(path);
  const gboolean is_read = format == FORMAT_JSON   ? import_deepspeed(file, text, gpus, error)
                           : format == FORMAT_TOML ? import_torchtitan(file, text, gpus, error)
                                                   : import_megatron(file, text, gpus, error);
  return is_read ? g_steal_pointer(&file) : NULL;
}
