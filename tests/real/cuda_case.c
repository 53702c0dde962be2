#include "cuda_case.h"

#include "cuda_device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const gint64 PATIENCE_NS = G_GINT64_CONSTANT(60) * 1000 * 1000 * 1000;

Case case_new(KernelKind kind, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *sizes = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  Case c = {.slack = 1};
  c.kernel.kind = (guint8)kind;
  c.name = g_strdup_printf("%s %s", kernel_name(kind), sizes);
  return c;
}

static void add_buffer(Case *c, const void *slot, int cell, gint64 n, double low, double high, gboolean is_output) {
  g_assert(c->n_buffers < (int)G_N_ELEMENTS(c->buffers));
  c->buffers[c->n_buffers++] =
      (Buffer){(gsize)((const char *)slot - (const char *)&c->kernel), cell, n, low, high, is_output, 0};
}

void case_in(Case *c, const void *slot, int cell, gint64 n, double low, double high) {
  add_buffer(c, slot, cell, n, low, high, FALSE);
}

void case_out(Case *c, const void *slot, int cell, gint64 n, double low, double high) {
  add_buffer(c, slot, cell, n, low, high, TRUE);
}

static gint64 cell_bytes(int cell) {
  return cell == CELL_INT32 || cell == CELL_PLACES ? 4
         : cell == CELL_DOUBLE                     ? 8
         : cell >= CELL_E4M3                       ? 1
                                                   : kernel_element_bytes((Number)cell);
}

/* A format with a sign, an exponent and a mantissa. */
typedef struct {
  int n_bits, n_mantissa, bias;
  gboolean is_e4m3; /* has no infinity, and one NaN */
} Small;

static Small small_of(int cell) {
  return cell == CELL_E4M3   ? (Small){8, 3, 7, TRUE}
         : cell == CELL_E5M2 ? (Small){8, 2, 15, FALSE}
                             : (Small){16, 10, 15, FALSE};
}

/* Contents are well below the format's largest and need no care about infinity. Rounds to nearest even. */
static guint16 small_encode(double value, Small small) {
  int exponent;
  const double magnitude = fabs(value);
  frexp(magnitude, &exponent);
  exponent = magnitude == 0 ? 1 - small.bias : MAX(exponent - 1, 1 - small.bias);
  const int whole = (int)nearbyint(ldexp(magnitude, small.n_mantissa - exponent)); /* with the leading 1, when normal */
  const int code = ((exponent + small.bias - 1) << small.n_mantissa) + whole;      /* carries into the exponent */
  return (guint16)((signbit(value) ? 1 << (small.n_bits - 1) : 0) | code);
}

static double small_decode(guint16 code, Small small) {
  const int magnitude = code & ((1 << (small.n_bits - 1)) - 1);
  const int exponent = magnitude >> small.n_mantissa, mantissa = magnitude & ((1 << small.n_mantissa) - 1);
  const double sign = code >> (small.n_bits - 1) & 1 ? -1 : 1;
  if (small.is_e4m3 ? magnitude == 0x7f : exponent == 31)
    return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * ldexp(exponent == 0 ? mantissa : mantissa + (1 << small.n_mantissa),
                      MAX(exponent, 1) - small.bias - small.n_mantissa);
}

static void write_cell(void *to, int cell, gint64 i, double value) {
  const float single = (float)value;
  guint32 bits;
  memcpy(&bits, &single, 4);
  if (cell == CELL_INT32 || cell == CELL_PLACES)
    ((gint32 *)to)[i] = (gint32)floor(value);
  else if (cell == CELL_DOUBLE)
    ((double *)to)[i] = value;
  else if (cell == NUMBER_FP32)
    ((float *)to)[i] = single;
  else if (cell >= CELL_E4M3)
    ((guint8 *)to)[i] = (guint8)small_encode(value, small_of(cell));
  else if (cell == NUMBER_BF16)
    ((guint16 *)to)[i] = (guint16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  else
    ((guint16 *)to)[i] = small_encode((double)single, small_of(cell));
}

static double read_cell(const void *from, int cell, gint64 i) {
  if (cell == CELL_INT32 || cell == CELL_PLACES)
    return ((const gint32 *)from)[i];
  if (cell == CELL_DOUBLE)
    return ((const double *)from)[i];
  if (cell == NUMBER_FP32)
    return (double)((const float *)from)[i];
  if (cell >= CELL_E4M3)
    return small_decode(((const guint8 *)from)[i], small_of(cell));
  if (cell == NUMBER_FP16)
    return small_decode(((const guint16 *)from)[i], small_of(cell));
  const guint32 bits = (guint32)((const guint16 *)from)[i] << 16;
  float single;
  memcpy(&single, &bits, 4);
  return (double)single;
}

/* 101 has no divisor in common with the numbers of places there are. */
static void fill_buffer(const Buffer *buffer, int index, void *to) {
  for (gint64 i = 0; i < buffer->n; i++) {
    const double u = kernel_random((guint64)index + 17, (guint64)i) / 4294967296.0;
    const double value = buffer->low + (buffer->high - buffer->low) * u;
    write_cell(to, buffer->cell, i, buffer->cell == CELL_PLACES ? (double)((i + 1) * 101 % buffer->n) : value);
  }
}

/* Contents to the device, the kernel, outputs back; all on one stream. */
static gboolean run_on(const Case *c, Device *device, DeviceStream *stream, void **memory, GError **error) {
  const DeviceType *type = device->type;
  Kernel kernel = c->kernel;
  void *on_device[G_N_ELEMENTS(c->buffers)] = {0}, *on_host[G_N_ELEMENTS(c->buffers)] = {0};
  DeviceEvent *end = type->event_new(device, error);
  gboolean ok = end != NULL;
  for (int i = 0; ok && i < c->n_buffers; i++) {
    const Buffer *buffer = &c->buffers[i];
    const gint64 bytes = buffer->n * cell_bytes(buffer->cell);
    on_device[i] = type->allocate(device, bytes + buffer->skipped_bytes, error);
    on_host[i] = on_device[i] == NULL ? NULL : type->allocate_host(device, bytes, error);
    ok = on_host[i] != NULL;
    if (!ok)
      break;
    fill_buffer(buffer, i, on_host[i]);
    char *begin = (char *)on_device[i] + buffer->skipped_bytes;
    type->copy(stream, begin, on_host[i], bytes);
    memcpy((char *)&kernel + buffer->at, &begin, sizeof begin);
  }
  if (ok) {
    type->launch(stream, &kernel);
    for (int i = 0; i < c->n_buffers; i++)
      if (c->buffers[i].is_output)
        type->copy(stream, on_host[i], (char *)on_device[i] + c->buffers[i].skipped_bytes,
                   c->buffers[i].n * cell_bytes(c->buffers[i].cell));
    type->record(stream, end);
    ok = type->sleep_until(end, PATIENCE_NS) && type->check(device, error);
    if (!ok && *error == NULL && type->check(device, error))
      g_set_error_literal(error, G_FILE_ERROR, 0, "does not end");
  }
  for (int i = 0; i < c->n_buffers; i++) {
    if (ok && c->buffers[i].is_output)
      memory[i] = g_memdup2(on_host[i], (gsize)(c->buffers[i].n * cell_bytes(c->buffers[i].cell)));
    type->release(device, on_device[i]);
    if (on_host[i] != NULL)
      type->release_host(device, on_host[i]);
  }
  type->event_free(end);
  return ok;
}

gboolean case_run(Case *c, Device *device, void **memory, char **attention) {
  g_autoptr(GError) error = NULL;
  DeviceStream *stream = device->type->stream_new(device, STREAM_COMPUTE, &error);
  const gboolean ok = stream != NULL && run_on(c, device, stream, memory, &error);
  c->is_beyond = error != NULL && strstr(error->message, "need a GPU of compute capability") != NULL;
  if (!ok)
    printf("%s %s on %s: %s\n", c->is_beyond ? "skip" : "FAIL", c->name, device->type->name,
           error == NULL ? "?" : error->message);
  gboolean fell_back;
  if (ok && device->type == &cuda_device)
    *attention = g_strdup(cuda_stream_attention(stream, &fell_back));
  device->type->stream_free(stream);
  return ok;
}

/* Largest difference over the largest magnitude; the place of the former. */
static double difference(const Buffer *buffer, const void *found, const void *expected, gint64 *place) {
  double most = 0, magnitude = 1e-30;
  *place = 0;
  for (gint64 i = 0; i < buffer->n; i++) {
    const double f = read_cell(found, buffer->cell, i), e = read_cell(expected, buffer->cell, i);
    if (isfinite(e))
      magnitude = fmax(magnitude, fabs(e));
    const double d = f == e || (isnan(f) && isnan(e)) ? 0 : isfinite(f) && isfinite(e) ? fabs(f - e) : INFINITY;
    if (d > most) {
      most = d;
      *place = i;
    }
  }
  return most / magnitude;
}

/* A couple of roundings in the output's format; fp32 sums in another order. Copies in fp8 are the same to the bit. */
static double tolerance(int cell) {
  return cell >= CELL_E4M3 ? 0 : cell == NUMBER_BF16 ? 0x1p-6 : cell == NUMBER_FP16 ? 0x1p-9 : 5e-5;
}

static gboolean is_wanted(const Case *c, char **words) {
  gboolean is_found = words == NULL;
  for (int i = 0; !is_found && words[i] != NULL; i++)
    is_found = strstr(c->name, words[i]) != NULL;
  return is_found;
}

void case_compare(Case *c, Comparison *comparison) {
  if (!is_wanted(c, comparison->words)) {
    g_free(c->name);
    return;
  }
  void *found[G_N_ELEMENTS(c->buffers)] = {0}, *expected[G_N_ELEMENTS(c->buffers)] = {0};
  g_autofree char *attention = NULL;
  gboolean is_well =
      case_run(c, comparison->reference, expected, &attention) && case_run(c, comparison->device, found, &attention);
  double worst = 0;
  for (int i = 0; is_well && i < c->n_buffers; i++) {
    const Buffer *buffer = &c->buffers[i];
    gint64 place;
    if (!buffer->is_output)
      continue;
    const double d = difference(buffer, found[i], expected[i], &place), allowed = c->slack * tolerance(buffer->cell);
    worst = fmax(worst, allowed > 0 ? d / allowed : d > 0 ? INFINITY : 0);
    if (d > allowed)
      printf("FAIL %s: operand %d differs by %.3g of its largest (allowed %.3g), at %" G_GINT64_FORMAT
             ": found %.8g, expected %.8g\n",
             c->name, i, d, allowed, place, read_cell(found[i], buffer->cell, place),
             read_cell(expected[i], buffer->cell, place));
  }
  is_well = is_well && worst <= 1;
  if (is_well)
    printf("ok   %s: %.2g of what is allowed%s%s\n", c->name, worst, attention != NULL && *attention ? "; " : "",
           attention == NULL ? "" : attention);
  fflush(stdout);
  comparison->n_run++;
  comparison->n_bad += !is_well && !c->is_beyond;
  for (int i = 0; i < c->n_buffers; i++) {
    g_free(found[i]);
    g_free(expected[i]);
  }
  g_free(c->name);
}
