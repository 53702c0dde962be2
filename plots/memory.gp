# Memory per GPU as stacked bars under a line of what the GPU has.
#
#     gnuplot -e "data='x.dat'; out='x.svg'; capacity=80" plots/memory.gp
#
# Columns of the data: "label" weights gradients optimizer activations buffers reserved
#   label   in double quotes, under the bar: "ZeRO-1"
#   others  in GB (1e9 bytes)
# Variables: data; out (.svg .png .pdf; '' = standard output, then format='svg'); title; capacity in GB, 0 = no line.

if (!exists("out")) { out = "memory.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "Memory per GPU" }
if (!exists("capacity")) { capacity = 0 }
capacity = capacity + 0.0

width = 900
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

# Solid fills from dark to light, each framed, so that a copy in black and white keeps the order.
array colour[6] = ["#1f3f77", "#3f7fbf", "#e39a45", "#c4e3ae", "#f6f6f6", "#d9d9d9"]
array part[6] = ["weights", "gradients", "optimizer", "activations", "buffers", "reserved"]
sum(w, g, o, a, b, r) = w + g + o + a + b + r # reserved: context and libraries

total = 0
stats data using (sum($2, $3, $4, $5, $6, $7)) nooutput
n = STATS_records
highest = STATS_max > capacity ? STATS_max : capacity

set title title font px(18)
set ylabel "GB per GPU (1 GB = 1e9 bytes)"
set xrange [-0.6 : n - 0.4]
set yrange [0 : highest * 1.12]
set grid ytics lc rgb "#dddddd" lt 1
set border 3 lc rgb "#666666"
set xtics nomirror textcolor rgb "#333333" scale 0
set ytics nomirror textcolor rgb "#333333"
set key outside right top vertical Left reverse invert samplen 1.6 spacing 1.25
set style data histograms
set style histogram rowstacked
set boxwidth 0.62
set style fill solid 1.0 border lc rgb "#333333"
if (capacity > 0) {
  set arrow from graph 0, first capacity to graph 1, first capacity nohead lw 2 dt 2 lc rgb "#b00020" front
  set label sprintf("capacity %.4g GB", capacity) at graph 1, first capacity right offset -0.5, 0.6 tc rgb "#b00020" front
}

# Totals stand on their bars, and inside those that end close below the line.
below_line(total) = capacity > 0 && total <= capacity && total > capacity - 0.09 * highest
label(total) = sprintf("%.1f", total)
plot for [i = 1:6] data using i + 1:xtic(1) lc rgb colour[i] title part[i], \
     data using 0:(below_line(sum($2, $3, $4, $5, $6, $7)) ? NaN : sum($2, $3, $4, $5, $6, $7)):\
       (label(sum($2, $3, $4, $5, $6, $7))) with labels offset 0, 0.6 notitle, \
     data using 0:(below_line(sum($2, $3, $4, $5, $6, $7)) ? sum($2, $3, $4, $5, $6, $7) - 0.07 * highest : NaN):\
       (label(sum($2, $3, $4, $5, $6, $7))) with labels notitle
