#include "memory_margin.h"

#include <string.h>

#include "error.h"

/* "5 %" or "0.05"; FALSE for anything else. */
static gboolean parse_share(const char *text, double *share) {
  char *end;
  const double number = g_ascii_strtod(text, &end);
  if (end == text)
    return FALSE;
  const char *rest = end + strspn(end, " ");
  *share = *rest == '%' ? number / 100 : number;
  return (*rest == '\0' || strcmp(rest, "%") == 0) && *share >= 0 && *share < 1;
}

gboolean memory_margin_parse(const char *text, MemoryMargin *margin, GError **error) {
  MemoryMargin parsed = {0};
  if (!parse_share(text, &parsed.share)) {
    parsed.share = 0;
    if (!units_parse(text, UNIT_BYTES, &parsed.bytes, NULL))
      return fail_input(error,
                        "found \"%.80s\", expected a share of a GPU's memory such as 5 %% or 0.05, or a size "
                        "such as \"4 GB\"",
                        text);
  }
  *margin = parsed;
  return TRUE;
}

char *memory_margin_text(const MemoryMargin *margin) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_dtostr(number, sizeof number, margin->bytes > 0 ? margin->bytes : margin->share);
  return g_strconcat(number, margin->bytes > 0 ? " B" : NULL, NULL);
}

static gboolean apply(const MemoryMargin *margin, Gpu *gpu, GError **error) {
  gpu->margin_bytes = margin->bytes + margin->share * gpu->hbm_bytes;
  return gpu_room_bytes(gpu) > 0 ||
         fail_input(error, "a margin of %.2f GB leaves nothing of the %.2f GB of %s, %.2f GB of which are reserved",
                    gpu->margin_bytes / 1e9, gpu->hbm_bytes / 1e9, gpu->name, gpu->reserved_bytes / 1e9);
}

gboolean memory_margin_apply(const MemoryMargin *margin, Cluster *cluster, GError **error) {
  gboolean ok = apply(margin, &cluster->gpu, error);
  for (guint i = 0; ok && cluster->other_gpus != NULL && i < cluster->other_gpus->len; i++)
    ok = apply(margin, &g_array_index(cluster->other_gpus, GpuRange, i).gpu, error);
  return ok;
}
