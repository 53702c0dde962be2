# What each pipeline rank holds over one step.
#
#     gnuplot -e "data='x.dat'; out='x.svg'; lanes=4" plots/memory_timeline.gp
#
# Data: a block per lane, two empty lines apart; columns: time held (a staircase, two points per step)
# Variables: data; out (.svg .png .pdf .txt; '' = standard output, then format='svg'); lanes; title, xlabel, ylabel;
#   cap, drawn as a line in every lane, 0 = none; width in pixels.

if (!exists("out")) { out = "memory_timeline.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "" }
if (!exists("xlabel")) { xlabel = "time" }
if (!exists("ylabel")) { ylabel = "held" }
if (!exists("cap")) { cap = 0 }
if (!exists("width")) { width = 1600 }
lanes = int(lanes)
cap = cap + 0.0

stats data using 1:2 nooutput
span = STATS_max_x
most = STATS_max_y > cap ? STATS_max_y : cap
if (most <= 0) { most = 1 }
lane_px = lanes <= 8 ? 56 : (lanes <= 16 ? 40 : (lanes <= 32 ? 26 : 16))
height = 130 + lanes * lane_px

font_px = 14
load ARG0[1:strstrt(ARG0."\n", "memory_timeline.gp\n") - 1]."look.gp"
unset grid

if (is_text) {
    set xlabel xlabel
  set ylabel ylabel
  set yrange [0:*]
  set key outside right
  plot for [lane = 0:lanes - 1] data index lane using 1:2 with lines title sprintf("%d", lane), \
    cap > 0 ? cap : NaN with lines title "cap"
  exit
}
set lmargin at screen 80.0 / width
set rmargin at screen 1 - 110.0 / width
set tmargin at screen 1 - 50.0 / height
set bmargin at screen 62.0 / height
y_px(p) = 1 - p / (1.0 * height)
set label 2 xlabel at screen 0.5, screen y_px(height - 16) center font px(14)
set label 3 ylabel at screen 22.0 / width, screen 0.5 center rotate by 90 font px(14)
array peak[lanes]
do for [lane = 0:lanes - 1] {
  stats data index lane using 2 nooutput
  peak[lane + 1] = STATS_max
}
set xrange [0:span]
set yrange [lanes:0]
set border 1 lc rgb "#666666"
set xtics out nomirror textcolor rgb "#333333"
set mxtics 5
unset key
step = lanes <= 32 ? 1 : ceil(lanes / 24.0)
set ytics out nomirror scale 0 textcolor rgb "#333333" ()
floor_of(lane) = lane + 0.96
high(held) = 0.88 * held / most
do for [lane = 0:lanes - 1] {
  if (lane % step == 0) {
    set ytics add (sprintf("%d", lane) lane + 0.55)
    set label 100 + lane sprintf("peak %.4g", peak[lane + 1]) at screen 1 - 104.0 / width, first lane + 0.55 left font px(12)
  }
}
if (cap > 0) {
  set label 4 sprintf("cap %.4g", cap) at screen 1 - 104.0 / width, screen y_px(40) left font px(12) tc rgb "#c23b3b"
}
cap_line(lane) = cap > 0 ? floor_of(lane) - high(cap) : NaN

plot for [lane = 0:lanes - 1] data index lane using 1:(floor_of(lane) - high($2)) \
       with filledcurves y=(floor_of(lane)) lc rgb "#9fb8dc" notitle, \
     for [lane = 0:lanes - 1] data index lane using 1:(floor_of(lane) - high($2)) with lines lc rgb "#2f5fa8" lw 1 notitle, \
     for [lane = 0:lanes - 1] data index lane using 1:(cap_line(lane)) with lines dt 2 lc rgb "#c23b3b" lw 1 notitle
