# Bus bandwidth of collectives against size.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/busbw.gp
#
# The data: a block per series, blocks parted by two empty lines; the first line of a block is the series' name in double
# quotes, then the columns: bytes busbw
#   busbw   GB/s (1e9 bytes)
# Variables: data; out (.svg .png .pdf; '' = standard output, then format='svg'); title; limit (GB/s of a ring, a line; 0:
# none). Of several series the first is the choice among the others: a broad pale line behind them.

if (!exists("out")) { out = "busbw.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "Bus bandwidth" }
if (!exists("limit")) { limit = 0 }
limit = limit + 0.0

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
set xlabel "size of the buffer"
set ylabel "bus bandwidth (GB/s)"
set logscale x 2
set xrange [STATS_min_x / 1.3 : STATS_max_x * 1.3]
set yrange [0:*]
set offsets 0, 0, graph 0.04, 0
set grid ytics lc rgb "#dddddd" lt 1
set border 3 lc rgb "#666666"
set xtics nomirror textcolor rgb "#333333" ()
unit(power) = power < 10 ? "B" : power < 20 ? "KiB" : power < 30 ? "MiB" : power < 40 ? "GiB" : "TiB"
scaled(power) = 2.0**(power < 10 ? power : power < 20 ? power - 10 : power < 30 ? power - 20 : \
                      power < 40 ? power - 30 : power - 40)
# sizes in the data have six digits
first = ceil(log(STATS_min_x) / log(2) - 1e-4)
last = floor(log(STATS_max_x) / log(2) + 1e-4)
do for [power = first:last:1 + floor((last - first) / 11)] {
  set xtics add (sprintf("%.0f %s", scaled(power), unit(power)) 2.0**power)
}
if (last - first < 1) { set xtics (sprintf("%g B", STATS_min_x) STATS_min_x, sprintf("%g B", STATS_max_x) STATS_max_x) }
set ytics nomirror textcolor rgb "#333333"
set key inside left top vertical Left reverse samplen 4 spacing 1.25
if (limit > 0) {
  set arrow from graph 0, first limit to graph 1, first limit nohead dt 2 lw 1.2 lc rgb "#666666"
  # right of the key, left of where the curves come up to the line
  set label sprintf("ring: at most %.4g GB/s", limit) at graph 0.4, first limit left offset 0, 0.5 textcolor rgb "#444444"
}

# the choice, then the others in front of it
if (n > 1) {
  plot data index 0 using 1:2 with lines lw 9 dt 1 lc rgb "#c8c8c8" title columnheader(1), \
    for [i = 1:n - 1] data index i using 1:2 with linespoints lw 1.8 dt nth(i) pt points[nth(i)] ps mark \
    lc rgb colour[nth(i)] title columnheader(1)
} else {
  plot data using 1:2 with linespoints lw 1.8 dt 1 pt points[1] ps mark lc rgb colour[1] title columnheader(1)
}
