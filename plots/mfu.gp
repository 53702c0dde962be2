# Model FLOP/s utilisation against number of GPUs.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/mfu.gp
#
# The data: a block per series, blocks parted by two empty lines; the first line of a block is the series' name in double
# quotes, then the columns: gpus mfu
#   mfu   as a share
# Variables: data; out (.svg .png .pdf; '' = standard output, then format='svg'); title, ylabel.

if (!exists("out")) { out = "mfu.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "Model FLOP/s utilisation" }
if (!exists("ylabel")) { ylabel = "MFU (% of peak FLOP/s)" }

width = 900
height = 560
# Fonts are given in pixels; the Cairo terminals count in points, at 96 and 100 pixels to the inch.
if (format eq "svg") {
  set terminal svg size width, height dynamic noenhanced font "Arial,15" background "white"
  scale = 1
  mark = 0.9
} else { if (format eq "png") {
  set terminal pngcairo size width, height noenhanced font "Liberation Sans,11.25" background "white"
  scale = 0.75
  mark = 1.3
} else {
  set terminal pdfcairo size width / 100.0, height / 100.0 noenhanced \
    fontscale 1 font "Liberation Sans,10.8" background "white"
  scale = 0.72
  mark = 0.7
} }
px(n) = sprintf(",%g", n * scale)
if (strlen(out)) { set output out }
set encoding utf8

# Colour, point and dash all differ, so that a copy in black and white still tells the series apart.
array colour[8] = ["#2f5fa8", "#d1571c", "#3c8d2f", "#7a3b8f", "#b8860b", "#c23b6b", "#2a8f8f", "#444444"]
array points[8] = [7, 5, 9, 13, 11, 6, 4, 8]
nth(i) = i % 8 + 1

stats data using 1:2 skip 1 nooutput
n = STATS_blocks

set title title font px(18)
set xlabel "GPUs"
set ylabel ylabel
set logscale x 2
set xrange [STATS_min_x / 1.2 : STATS_max_x * 1.2]
set yrange [0:*]
set offsets 0, 0, graph 0.04, 0
set grid ytics lc rgb "#dddddd" lt 1
set border 3 lc rgb "#666666"
set xtics nomirror textcolor rgb "#333333" ()
first = ceil(log(STATS_min_x) / log(2) - 1e-9)
last = floor(log(STATS_max_x) / log(2) + 1e-9)
do for [power = first:last:1 + floor((last - first) / 11)] { set xtics add (sprintf("%.0f", 2.0**power) 2.0**power) }
if (last - first < 1) { set xtics (sprintf("%g", STATS_min_x) STATS_min_x, sprintf("%g", STATS_max_x) STATS_max_x) }
set ytics nomirror textcolor rgb "#333333"
set key inside left bottom vertical Left reverse samplen 3 spacing 1.25

plot for [i = 0:n - 1] data index i using 1:(100 * $2) with linespoints lw 1.8 dt nth(i) pt points[nth(i)] ps mark \
  lc rgb colour[nth(i)] title columnheader(1)
