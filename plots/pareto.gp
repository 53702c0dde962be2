# Throughput against memory: the configurations that no other beats in both, joined by a line, in front of all others.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/pareto.gp
#
# The data: three blocks, separated by two empty lines; the first line of a block is its name in double quotes, then
# the columns: memory throughput label low high
#   first block     the front, memory ascending; its points are numbered, their labels listed
#   second block    what fits but is beaten
#   third block     what does not fit in memory; the last two may have only "NaN NaN"
#   label           in double quotes
#   low high        with band = 1: between these four of five cases are, drawn for the front
# Variables: data; out (.svg .png .pdf .txt; '' = standard output, then format='svg'); title, xlabel, ylabel;
# capacity, a line at a GPU's memory, 0 = none; band; columns and rows of a .txt.

if (!exists("out")) { out = "pareto.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "Throughput against memory" }
if (!exists("xlabel")) { xlabel = "memory of the fullest GPU (GB = 1e9 bytes)" }
if (!exists("ylabel")) { ylabel = "throughput" }
if (!exists("capacity")) { capacity = 0 }
if (!exists("band")) { band = 0 }
capacity = capacity + 0.0
band = band + 0

stats data using 1:2 skip 1 nooutput
right = capacity > STATS_max_x ? capacity : STATS_max_x
left = capacity > 0 && capacity < STATS_min_x ? capacity : STATS_min_x
low = STATS_min_y
high = STATS_max_y
if (band) {
  stats data index 0 using 4:5 skip 1 nooutput
  low = STATS_min_x < low ? STATS_min_x : low
  high = STATS_max_y > high ? STATS_max_y : high
}
if (high == low) { low = high < 0 ? 2 * high : 0; high = high > 0 ? high : low + 1 }
span = right > left ? right - left : (right != 0 ? abs(right) : 1)
floor_of_y = low < 0 || low > 0.5 * high ? low - 0.1 * (high - low) : 0

# A point of the front is numbered if it is far enough from the previous numbered one, so that numbers do not overlap;
# the distance grows while there are more than can be listed. numbers has one word per point, 0: none.
most_listed = 20
near_px = 15
n_listed = most_listed + 1
quoted(text) = "\"".text."\" "
x_px(x) = 780.0 * (x - left) / span
y_px(y) = 440.0 * (y - floor_of_y) / (high - floor_of_y)
is_far(x, y) = abs(x_px(x) - last_x) > 1.6 * near_px || abs(y_px(y) - last_y) > near_px
choose(x, y, label) = x == x && is_far(x, y) ? (n_listed = n_listed + 1, last_x = x_px(x), last_y = y_px(y), \
  list = list.quoted(label), numbers = numbers.sprintf(" %d", n_listed), 0) : (numbers = numbers." 0", 0)
while (n_listed > most_listed) {
  n_listed = 0
  list = ""
  numbers = ""
  last_x = -1e9
  last_y = -1e9
  stats data index 0 using (choose($1, $2, strcol(3))) skip 1 nooutput
  near_px = near_px * 1.5
}
list_lines = n_listed
longest = 0
do for [i = 1:n_listed] { longest = strlen(word(list, i)) > longest ? strlen(word(list, i)) : longest }
number(row) = word(numbers, int(row) + 1)
is_numbered(row) = number(row) ne "0"

# The picture is as wide as its longest label needs, up to a limit.
label_px = 7.4
list_px = 20
width = int(140 + ceil(label_px * longest))
width = width < 1000 ? 1000 : (width > 1800 ? 1800 : width)
shown = int((width - 139) / label_px)
cut(text) = strlen(text) <= shown ? text : text[1:shown - 1]."…"
height = 590 + list_px * list_lines
load ARG0[1:strstrt(ARG0."\n", "pareto.gp\n") - 1]."look.gp"

set xlabel xlabel offset 0, format eq "svg" ? 0.7 : 0 # Cairo sets it closer to the numbers
set ylabel ylabel
set xrange [left - 0.06 * span : right + 0.08 * span]
set yrange [floor_of_y : high + 0.08 * (high - floor_of_y)]
set format y "%.6g"
set grid xtics ytics lc rgb "#dddddd" lt 1
set key below
if (is_text) { unset grid; set key below vertical maxrows 3 }
if (!is_text) {
  set key at screen 0.5, screen (44.0 + list_px * list_lines) / height center top horizontal Left reverse samplen 1
  set lmargin at screen 110.0 / width
  set rmargin at screen 1 - 30.0 / width
  set bmargin at screen (104.0 + list_px * list_lines) / height
  do for [i = 1:n_listed] {
    set label sprintf("%d   %s", i, cut(word(list, i))) \
      at screen 90.0 / width, screen (12.0 + list_px * (list_lines - i)) / height left font px(13)
  }
}
if (capacity > 0) {
  set arrow from first capacity, graph 0 to first capacity, graph 1 nohead lw 1.5 dt 2 lc rgb "#555555"
  set label 998 sprintf("capacity %.4g GB", capacity) at first capacity, graph 0.03 tc rgb "#444444"
  if (capacity > left + 0.3 * span) { set label 998 right offset -0.7, 0 } else { set label 998 left offset 0.7, 0 }
}

plot data index 2 using 1:2 skip 1 with points pt 2 ps 0.9 * mark lc rgb "#999999" title "does not fit in memory", \
  data index 1 using 1:2 skip 1 with points pt 6 ps 0.9 * mark lc rgb colour_of(5) title "fits, not on the front", \
  data index 0 using 1:2 skip 1 with steps lw 1.4 dt 1 lc rgb colour_of(1) notitle, \
  for [k = 1:(band && !is_text ? 1 : 0)] data index 0 using 1:2:4:5 skip 1 with yerrorbars pt 7 ps 0.1 lw 1.2 \
    lc rgb "#8fb8d6" title (band ? "four of five cases" : ""), \
  data index 0 using 1:2 skip 1 with points pt 7 ps 1.1 * mark lc rgb colour_of(1) title "the front", \
  data index 0 using (is_numbered($0) ? $1 : NaN):2:(number($0)) skip 1 with labels right offset -0.8, 0.4 \
    font px(14) notitle
