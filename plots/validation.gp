# Predicted against measured step times, with the line of equality and a band of ±10 %.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/validation.gp
#
# The data: a block per series, blocks parted by two empty lines; the first line of a block is the series' name in double
# quotes, then the columns: measured predicted
#   both in seconds, above 0
# Variables: data; out (.svg .png .pdf; '' = standard output, then format='svg'); title.

if (!exists("out")) { out = "validation.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "Predicted against measured step time" }

width = 1000
height = 800
# Fonts are given in pixels; the Cairo terminals count in points, at 96 and 100 pixels to the inch.
if (format eq "svg") {
  set terminal svg size width, height dynamic noenhanced font "Arial,15" background "white"
  scale = 1
  mark = 0.55
} else { if (format eq "png") {
  set terminal pngcairo size width, height noenhanced font "Liberation Sans,11.25" background "white"
  scale = 0.75
  mark = 0.9
} else {
  set terminal pdfcairo size width / 100.0, height / 100.0 noenhanced \
    fontscale 1 font "Liberation Sans,10.8" background "white"
  scale = 0.72
  mark = 0.45
} }
px(n) = sprintf(",%g", n * scale)
if (strlen(out)) { set output out }
set encoding utf8

# Shape and colour both differ, neighbours in the list most, so that a copy in black and white still tells series apart.
array colour[8] = ["#2f5fa8", "#d1571c", "#3c8d2f", "#7a3b8f", "#b8860b", "#c23b6b", "#2a8f8f", "#444444"]
array points[15] = [6, 2, 8, 1, 4, 10, 3, 12, 7, 5, 9, 13, 11, 14, 15]
nth(i, n) = i % n + 1

stats data using 1:2 skip 1 nooutput
n = STATS_blocks
low = (STATS_min_x < STATS_min_y ? STATS_min_x : STATS_min_y) / 1.3
high = (STATS_max_x > STATS_max_y ? STATS_max_x : STATS_max_y) * 1.3

set title title font px(18)
set xlabel "measured (s)"
set ylabel "predicted (s)"
set logscale xy
set xrange [low : high]
set yrange [low : high]
set format xy "%g"
set size ratio -1
set grid xtics ytics lc rgb "#dddddd" lt 1
set border 3 lc rgb "#666666"
set xtics nomirror textcolor rgb "#333333"
set ytics nomirror textcolor rgb "#333333"
set key outside right top vertical Left reverse samplen 1.5 spacing 1.25
set samples 100

plot \
  '+' using 1:(0.9 * $1):(1.1 * $1) with filledcurves fc rgb "#e4e4e4" fs solid noborder title "within ±10 %", \
  x with lines lw 1.2 lc rgb "#777777" title "predicted = measured", \
  for [i = 0:n - 1] data index i using 1:2 with points pt points[nth(i, 15)] ps mark lw 1.1 lc rgb colour[nth(i, 8)] \
    title columnheader(1)
