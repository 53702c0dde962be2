# How much of its links a rank uses over one step, beside its kernels.
#
#     gnuplot -e "data='x.dat'; out='x.svg'; lanes=2; names='kernels NICs'" plots/link_timeline.gp
#
# Data: a block per lane, two empty lines apart; columns: time share (stairs, two points per step; share 0 to 1)
# Variables: data; out (.svg .png .pdf; '' = standard output, then format='svg'); lanes; names, a word or
#   "quoted words" for each lane; title, xlabel; width in pixels.

if (!exists("out")) { out = "link_timeline.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "" }
if (!exists("xlabel")) { xlabel = "time" }
if (!exists("names")) { names = "" }
if (!exists("width")) { width = 1600 }
lanes = int(lanes)

stats data using 1:2 nooutput
span = STATS_max_x
lane_px = 90
height = 130 + lanes * lane_px

# Fonts are given in pixels; the Cairo terminals count in points, at 96 and 100 pixels to the inch.
if (format eq "svg") {
  set terminal svg size width, height dynamic noenhanced font "Arial,14" background "white"
  scale = 1
} else { if (format eq "png") {
  set terminal pngcairo size width, height noenhanced font "Liberation Sans,10.5" background "white"
  scale = 0.75
} else {
  set terminal pdfcairo size width / 100.0, height / 100.0 noenhanced \
    fontscale 1 font "Liberation Sans,10" background "white"
  scale = 0.72
} }
px(n) = sprintf(",%g", n * scale)
if (strlen(out)) { set output out }
set encoding utf8

set lmargin at screen 170.0 / width
set rmargin at screen 1 - 120.0 / width
set tmargin at screen 1 - 50.0 / height
set bmargin at screen 62.0 / height
y_px(p) = 1 - p / (1.0 * height)
set label 1 title at screen 0.5, screen y_px(24) center font px(18)
set label 2 xlabel at screen 0.5, screen y_px(height - 16) center font px(14)
array mean[lanes]
do for [lane = 0:lanes - 1] {
  stats data index lane using 2 nooutput
  mean[lane + 1] = STATS_mean
}
set xrange [0:span]
set yrange [lanes:0]
set border 1 lc rgb "#666666"
set xtics out nomirror textcolor rgb "#333333"
set mxtics 5
unset key
set ytics out nomirror scale 0 textcolor rgb "#333333" ()
floor_of(lane) = lane + 0.96
high(share) = 0.86 * share
do for [lane = 0:lanes - 1] {
  set ytics add (word(names, lane + 1) lane + 0.55)
  set label 100 + lane sprintf("mean %.1f %%", 100 * mean[lane + 1]) at screen 1 - 112.0 / width, first lane + 0.55 left font px(12)
  set arrow 100 + lane from graph 0, first floor_of(lane) - high(1) to graph 1, first floor_of(lane) - high(1) \
    nohead dt 3 lc rgb "#999999" back
}
colour(lane) = lane == 0 ? "#9fb8dc" : "#e5a158"

plot for [lane = 0:lanes - 1] data index lane using 1:(floor_of(lane) - high($2)) \
       with filledcurves y=(floor_of(lane)) lc rgb colour(lane) notitle
