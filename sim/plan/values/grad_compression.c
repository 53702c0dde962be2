#include "grad_compression.h"

#include <string.h>

#include "choices.h"
#include "error.h"
#include "units.h"

enum { MOST_RANK = 1 << 16 };

static const char *const names[N_COMPRESSIONS + 1] = {"none", "fp16", "bf16", "topk", "onebit", "powersgd", NULL};

static gboolean read_share(const char *what, const char *text, double *share, GError **error) {
  char *end = NULL;
  *share = g_ascii_strtod(text, &end);
  return (end != text && *end == '\0' && *share > 0 && *share <= 1) ||
         fail_input(error, "%s: found \"%.80s\", expected a share above 0, at most 1, as topk:0.01", what, text);
}

static gboolean read_rank(const char *what, const char *text, int *rank, GError **error) {
  gint64 n;
  if (!units_parse_whole(text, 1, MOST_RANK, &n, error)) {
    g_prefix_error(error, "%s powersgd: ", what);
    return FALSE;
  }
  *rank = (int)n;
  return TRUE;
}

gboolean grad_compression_parse(const char *what, const char *text, GradCompression *how, GError **error) {
  const char *colon = strchr(text, ':');
  g_autofree char *name = g_strndup(text, colon != NULL ? (gsize)(colon - text) : strlen(text));
  const int kind = parse_choice(what, name, names, error);
  if (kind < 0)
    return FALSE;
  const gboolean takes_number = kind == COMPRESS_TOPK || kind == COMPRESS_POWERSGD;
  if (takes_number != (colon != NULL))
    return fail_input(error, "%s: found \"%.80s\", expected %s%s", what, text, names[kind],
                      kind == COMPRESS_TOPK       ? ":SHARE, as topk:0.01"
                      : kind == COMPRESS_POWERSGD ? ":RANK, as powersgd:4"
                                                  : " alone");
  *how = (GradCompression){.kind = kind};
  return kind == COMPRESS_TOPK       ? read_share(what, colon + 1, &how->share, error)
         : kind == COMPRESS_POWERSGD ? read_rank(what, colon + 1, &how->rank, error)
                                     : TRUE;
}

const char *grad_compression_text(const GradCompression *how) {
  g_autoptr(GString) text = g_string_new(names[how->kind]);
  if (how->kind == COMPRESS_POWERSGD)
    g_string_append_printf(text, ":%d", how->rank);
  if (how->kind == COMPRESS_TOPK) {
    g_string_append_c(text, ':');
    units_append_exact(text, how->share);
  }
  return g_intern_string(text->str);
}
