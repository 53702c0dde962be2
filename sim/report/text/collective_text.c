/* Columns line up with those of nccl-tests, so that its readers (and ours) take the table as one of its logs. */
#include "collective_text.h"

#include <string.h>

enum { ELEMENT_BYTES = 4 };

/* What nccl-tests prints in the columns count and redop. Source: the nccl-tests programs. */
static const struct {
  const char *redop;
  gboolean counts_part; /* count is of one rank's part of the buffer */
} columns[N_COLLECTIVES] = {
    [COLLECTIVE_ALL_REDUCE] = {"sum", FALSE},    [COLLECTIVE_ALL_GATHER] = {"none", TRUE},
    [COLLECTIVE_REDUCE_SCATTER] = {"sum", TRUE}, [COLLECTIVE_ALL_TO_ALL] = {"none", TRUE},
    [COLLECTIVE_BROADCAST] = {"none", FALSE},    [COLLECTIVE_REDUCE] = {"sum", FALSE},
    [COLLECTIVE_GATHER] = {"none", TRUE},        [COLLECTIVE_SCATTER] = {"none", TRUE},
    [COLLECTIVE_SEND_RECV] = {"none", FALSE},    [COLLECTIVE_PARAMETER_SERVER] = {"sum", FALSE},
};

static Collective collective_of(const char *name) {
  int i = 0;
  while (strcmp(collective_names()[i], name) != 0)
    i++;
  return (Collective)i;
}

static void append_row(const CollectiveReport *report, GString *out) {
  Collective op = collective_of(report->op);
  gint64 count = report->bytes / ELEMENT_BYTES / (columns[op].counts_part ? report->n_gpus : 1);
  g_string_append_printf(out, "%12" G_GINT64_FORMAT "  %12" G_GINT64_FORMAT "  %8s  %6s  %6d", report->bytes, count,
                         "float", columns[op].redop, report->root);
  g_string_append_printf(out, "  %10.2f  %7.2f  %7.2f  %12s  %8s  %15.0f", report->time_s * 1e6,
                         report->algbw_Bps / 1e9, report->busbw_Bps / 1e9, report->algorithm, report->protocol,
                         report->sent_bytes);
  if (report->n_sms > 0)
    g_string_append_printf(out, "  %4d\n", report->n_sms);
  else
    g_string_append_printf(out, "  %4s\n", "-");
}

void text_collectives(const CollectiveReport *reports, int n, GString *out) {
  g_string_append_printf(out, "# %10s  %12s  %8s  %6s  %6s  %10s  %7s  %7s  %12s  %8s  %15s  %4s\n", "size", "count",
                         "type", "redop", "root", "time", "algbw", "busbw", "algorithm", "protocol", "sent", "SMs");
  g_string_append_printf(out, "# %10s  %12s  %8s  %6s  %6s  %10s  %7s  %7s  %12s  %8s  %15s\n", "(B)", "(elements)", "",
                         "", "", "(us)", "(GB/s)", "(GB/s)", "", "", "(B)");
  for (int i = 0; i < n; i++)
    append_row(&reports[i], out);
  for (int i = 0; i < n; i++)
    if (reports[i].note != NULL)
      g_string_append_printf(out, "# %" G_GINT64_FORMAT " B: %s\n", reports[i].bytes, reports[i].note);
}

/* A letter for each chunk of the buffer. */
static char chunk_name(int chunk) {
  return (char)('a' + chunk);
}

/* '.' nothing, '*' all there is, else of how many GPUs. */
static char held_mark(const CollectiveSteps *steps, guint held) {
  guint all = (1u << steps->n_gpus) - 1;
  if (held == all)
    return '*';
  int n = 0;
  for (; held != 0; held &= held - 1)
    n++;
  return n == 0 ? '.' : (char)(n < 10 ? '0' + n : 'A' + n - 10);
}

static void append_state(const CollectiveSteps *steps, const ChunkState *state, GString *out) {
  g_string_append(out, " |");
  for (int gpu = 0; gpu < steps->n_gpus; gpu++) {
    g_string_append(out, "  ");
    for (int chunk = 0; chunk < steps->n_chunks; chunk++)
      g_string_append_c(out, held_mark(steps, state->of[gpu][chunk]));
  }
  g_string_append_c(out, '\n');
}

enum { SEND_WIDTH = 8 }; /* "  15>0 p" */

static int most_sends(const CollectiveSteps *steps) {
  g_autofree int *counts = g_new0(int, steps->n_steps + 1);
  int most = 0;
  for (guint i = 0; i < steps->sends->len; i++) {
    int step = g_array_index(steps->sends, ChunkSend, i).step;
    most = MAX(most, ++counts[step]);
  }
  return most;
}

/* The sends of one step, then blanks up to `width`; returns the phase they belong to. */
static const char *sends_of(const CollectiveSteps *steps, int step, int width, GString *out) {
  const char *phase = "";
  for (guint i = 0; i < steps->sends->len; i++) {
    const ChunkSend *send = &g_array_index(steps->sends, ChunkSend, i);
    if (send->step != step)
      continue;
    phase = send->phase;
    g_autofree char *cell = g_strdup_printf("%d>%d %c", send->from, send->to, chunk_name(send->chunk));
    g_string_append_printf(out, "  %-*s", SEND_WIDTH - 2, cell);
  }
  if ((int)out->len < width)
    g_string_append_printf(out, "%*s", width - (int)out->len, "");
  return phase;
}

static void append_head(const CollectiveSteps *steps, int width, GString *out) {
  g_autofree char *title =
      g_strdup_printf("  GPU>GPU chunk (%c to %c)", chunk_name(0), chunk_name(steps->n_chunks - 1));
  g_string_append_printf(out, "step  %-14s%-*s |", "phase", width, title);
  for (int gpu = 0; gpu < steps->n_gpus; gpu++)
    g_string_append_printf(out, "  %-*d", steps->n_chunks, gpu);
  g_string_append_c(out, '\n');
}

void text_collective_steps(const CollectiveSteps *steps, GString *out) {
  int width = MAX(SEND_WIDTH * most_sends(steps), (int)strlen("  GPU>GPU chunk (a to b)"));
  ChunkState state;
  collective_steps_start(steps, &state);
  append_head(steps, width, out);
  g_string_append_printf(out, "%4d  %-14s%*s", 0, "start", width, "");
  append_state(steps, &state, out);
  for (int step = 1; step <= steps->n_steps; step++) {
    collective_steps_advance(steps, step, &state);
    g_autoptr(GString) sends = g_string_new(NULL);
    const char *phase = sends_of(steps, step, width, sends);
    g_string_append_printf(out, "%4d  %-14s%s", step, phase, sends->str);
    append_state(steps, &state, out);
  }
}
