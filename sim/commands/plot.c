/* stepsim plot: a figure from the table in plot_figures.c, written to a file, to the terminal, or as numbers. */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "error.h"
#include "gnuplot.h"
#include "output.h"
#include "plot_figures.h"

static const char examples[] =
    "Examples:\n"
    "  stepsim plot bubble --schedules gpipe,1f1b,interleaved --pp 8 --chunks 2 --terminal\n"
    "  stepsim plot mfu --model llama-3.1-405b --cluster llama3-h100 --tp 8 --pp 16 --zero 1 --global-batch 2048 \\\n"
    "      --sequence-parallel on --seq-len 8192 --gpu-list 1024..16384*2 --output mfu.svg\n"
    "  stepsim plot breakdown --model llama-3-70b --cluster dgx-h100 --gpus 64 --tp 8 --zero 1 \\\n"
    "      --sequence-parallel on --vary pp=1,2,4,8 --output b.png\n"
    "  stepsim plot memory --model llama-3-70b --cluster dgx-h100 --tp 8 --dp 8 --output memory.svg\n"
    "  stepsim plot heat --model llama-3-8b --cluster dgx-h100 --gpus 64 --global-batch 256 --value tokens_per_s \\\n"
    "      --output heat.pdf\n\n"
    "Figures in letters are as wide as the terminal ($COLUMNS). The scripts that draw are in plots/, each with a head "
    "that\n"
    "says how to call it on numbers written with --data.\n\n"
    "Exit status: 0 done, 1 nothing that was asked for is possible, 2 bad usage or input.";

/* A single text that lives as long as the program. */
static const char *summary_of_figures(void) {
  g_autoptr(GString) text = g_string_new("Draws curves, bars and maps over many simulated configurations.\n\nFigures:");
  for (const Figure *figure = figures(); figure->name != NULL; figure++)
    g_string_append_printf(text, "\n  %-12s %s", figure->name, figure->summary);
  return g_intern_string(text->str);
}

static const Figure *find_figure(const char *name, GError **error) {
  g_autoptr(GPtrArray) names = g_ptr_array_new();
  for (const Figure *figure = figures(); figure->name != NULL; figure++)
    g_ptr_array_add(names, (gpointer)figure->name);
  g_ptr_array_add(names, NULL);
  int i = parse_choice("plot", name, (const char *const *)names->pdata, error);
  return i >= 0 ? figures() + i : NULL;
}

static gboolean check_outputs(const PlotOptions *o, GError **error) {
  if (o->output == NULL && o->data == NULL && !o->terminal)
    return fail_input(error, "--output is missing: a file that ends in .svg, .png or .pdf (or --terminal, or --data)");
  const Printed printed[] = {{"--terminal", .given = o->terminal}, {"--data", .file = o->data}, {NULL}};
  gboolean replaced;
  return output_check_printed(printed, &replaced, error) && (o->output == NULL || gnuplot_check_file(o->output, error));
}

static gboolean put_out(const PlotOptions *o, const Picture *picture, GError **error) {
  if (o->output != NULL && !picture_write(picture, o->output, error))
    return FALSE;
  g_autofree char *data = o->data != NULL ? picture_data(picture) : NULL;
  if (data != NULL && !output_text(o->data, data, error))
    return FALSE;
  g_autofree char *text = o->terminal ? picture_text(picture, output_columns(), error) : NULL;
  if (text != NULL)
    fputs(text, stdout);
  return text != NULL || !o->terminal;
}

static gboolean run(PlotOptions *o, int argc, char **argv, GError **error) {
  if (argc < 2)
    return fail_input(error, "expected a word, what to draw (--help explains them): bubble, mfu, breakdown, memory …");
  const Figure *figure = find_figure(argv[1], error);
  if (figure == NULL)
    return FALSE;
  if (argc - 2 > figure->most_files)
    return fail_input(error, "plot %s: found \"%.80s\", expected %s; --output says what to write", figure->name,
                      argv[2 + figure->most_files],
                      figure->most_files > 0 ? "one file to read" : "no file: it draws what its options predict");
  if (!check_outputs(o, error) || !plot_options_check(o, figure->name, figure->heeds, error))
    return FALSE;
  char *files[] = {argc > 2 ? argv[2] : NULL, NULL};
  g_autoptr(Picture) picture = figure->make(o, files, error);
  return picture != NULL && put_out(o, picture, error);
}

int command_plot(int argc, char **argv, GError **error) {
  PlotOptions options;
  gboolean ok = plot_options_parse(&options, summary_of_figures(), examples, &argc, &argv, error) &&
                run(&options, argc, argv, error);
  plot_options_clear(&options);
  return ok ? 0 : 2;
}
