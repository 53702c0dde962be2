# Where the time of a step goes on each pipeline rank, as stacked bars.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/breakdown.gp
#
# Columns of the data: rank part…
#   rank    pipeline rank, under the bar
#   parts   times in `unit`
# Variables: data; out (.svg .png .pdf; '' = standard output, then format='svg'); title; unit;
# parts = which of the 12 parts of a step the columns are, from 1, e.g. "1 3 8" (colours follow the part).

if (!exists("out")) { out = "breakdown.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "Where the time goes" }
if (!exists("unit")) { unit = "s" }
if (!exists("parts")) { parts = "1 2 3 4 5 6 7 8 9 10 11 12" }

width = 1000
height = 560
# Fonts are given in pixels; the Cairo terminals count in points, at 96 and 100 pixels to the inch.
if (format eq "svg") {
  set terminal svg size width, height dynamic noenhanced font "Arial,15" background "white"
  scale = 1
} else { if (format eq "png") {
  set terminal pngcairo size width, height noenhanced font "Liberation Sans,11.25" background "white"
  scale = 0.75
} else {
  set terminal pdfcairo size width / 100.0, height / 100.0 noenhanced \
    fontscale 1 font "Liberation Sans,10.8" background "white"
  scale = 0.72
} }
px(n) = sprintf(",%g", n * scale)
if (strlen(out)) { set output out }
set encoding utf8

# compute, recompute, tp, pp, cp, ep, dp, bubble, optimizer, host, offload, other: the timeline's colours where it has
# the part; each framed, so that a copy in black and white keeps the order.
array colour[12] = ["#2f5fa8", "#8fb0df", "#c23b3b", "#333333", "#a0522d", "#d1699e", "#d9a300", "#e6e6e6", "#7a3b8f", \
  "#5f9ea0", "#b0a58a", "#ffffff"]

array name[12] = ["compute", "recompute", "tp", "pp", "cp", "ep", "dp", "bubble", "optimizer", "host", "offload", "other"]

stats data using 1 nooutput
n = STATS_records
set title title font px(16)
set xlabel "pipeline rank"
set ylabel sprintf("time (%s)", unit)
set xrange [-0.6 : n - 0.4]
set yrange [0 : *]
set grid ytics lc rgb "#dddddd" lt 1
set border 3 lc rgb "#666666"
set xtics nomirror textcolor rgb "#333333" scale 0
set ytics nomirror textcolor rgb "#333333"
set key outside right top vertical Left reverse invert samplen 1.6 spacing 1.25
set style data histograms
set style histogram rowstacked
set boxwidth 0.75
set style fill solid 1.0 border lc rgb "#444444"
label(rank, row) = n <= 32 || int(row) % int(ceil(n / 32.0)) == 0 ? sprintf("%d", rank) : ""

plot for [i = 1:words(parts)] data using i + 1:xtic(label($1, $0)) lc rgb colour[int(word(parts, i))] title name[int(word(parts, i))]
