# Predicted against measured step times, with the line of equality and a band of ±10 %.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/validation.gp
#
# The data: a block per series, blocks separated by two empty lines; the first line of a block is the series' name in
# double quotes, then the columns: measured predicted
#   both in seconds, above 0
# Variables: data; out (.svg .png .pdf .txt; '' = standard output, then format='svg'); title; columns and rows of a
# .txt.

if (!exists("out")) { out = "validation.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "Predicted against measured step time" }

width = 1000
height = 800
load ARG0[1:strstrt(ARG0."\n", "validation.gp\n") - 1]."look.gp"

# Open marks are drawn first: many points lie close to the line.
array open_mark[13] = [6, 2, 8, 1, 4, 10, 3, 12, 7, 5, 9, 13, 11]

stats data using 1:2 skip 1 nooutput
n = STATS_blocks
mark = STATS_records < 100 ? mark : 0.62 * mark
low = (STATS_min_x < STATS_min_y ? STATS_min_x : STATS_min_y) / 1.3
high = (STATS_max_x > STATS_max_y ? STATS_max_x : STATS_max_y) * 1.3

set xlabel "measured (s)"
set ylabel "predicted (s)"
set logscale xy
set xrange [low : high]
set yrange [low : high]
set format xy "%g"
set grid xtics ytics lc rgb "#dddddd" lt 1
set key outside right top vertical Left reverse samplen 1.5 spacing 1.25
set samples 100

if (is_text) {
  unset grid
  plot x with dots title "predicted = measured", \
    for [i = 0:n - 1] data index i using 1:2 with points pt i % 26 + 1 title columnheader(1)
} else {
  set size ratio -1
  plot \
    '+' using 1:(0.9 * $1):(1.1 * $1) with filledcurves fc rgb "#e4e4e4" fs solid noborder title "within ±10 %", \
    x with lines lw 1.2 lc rgb "#777777" title "predicted = measured", \
    for [i = 0:n - 1] data index i using 1:2 with points pt open_mark[i % 13 + 1] ps mark lw 1.1 lc rgb colour_of(i) \
      title columnheader(1)
}
