# Bus bandwidth of collectives against size.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/busbw.gp
#
# The data: a block per series, blocks separated by two empty lines; the first line of a block is the series' name in
# double quotes, then the columns: bytes busbw
#   busbw   GB/s (1e9 bytes)
# Variables: data; out (.svg .png .pdf .txt; '' = standard output, then format='svg'); title; limit (GB/s of a ring, a
# line; 0: none); columns and rows of a .txt. The first of several series is the one chosen among the others: a broad
# pale line behind them.

if (!exists("out")) { out = "busbw.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "Bus bandwidth" }
if (!exists("limit")) { limit = 0 }
limit = limit + 0.0

width = 900
height = 600
load ARG0[1:strstrt(ARG0."\n", "busbw.gp\n") - 1]."look.gp"

stats data using 1:2 skip 1 nooutput
n = STATS_blocks

set xlabel "size of the buffer"
set ylabel "bus bandwidth (GB/s)"
set logscale x 2
set xrange [STATS_min_x / 1.3 : STATS_max_x * 1.3]
set yrange [0:*]
set offsets 0, 0, graph 0.04, 0
set xtics ()
unit(power) = power < 10 ? "B" : power < 20 ? "KiB" : power < 30 ? "MiB" : power < 40 ? "GiB" : "TiB"
scaled(power) = 2.0**(power < 10 ? power : power < 20 ? power - 10 : power < 30 ? power - 20 : \
                      power < 40 ? power - 30 : power - 40)
size(bytes) = sprintf("%.4g %s", scaled(log(bytes) / log(2) + 1e-9), unit(log(bytes) / log(2) + 1e-9))
# sizes in the data have nine digits
first = ceil(log(STATS_min_x) / log(2) - 1e-4)
last = floor(log(STATS_max_x) / log(2) + 1e-4)
do for [power = first:last:1 + floor((last - first) / 11)] {
  set xtics add (sprintf("%.0f %s", scaled(power), unit(power)) 2.0**power)
}
if (last - first < 1) { set xtics (size(STATS_min_x) STATS_min_x, size(STATS_max_x) STATS_max_x) }
set key below center horizontal Left reverse samplen 3.5 spacing 1.25 height 0.8
if (limit > 0) {
  set arrow from graph 0, first limit to graph 1, first limit nohead dt 2 lw 1.2 lc rgb "#666666"
  # left of where the curves come up to the line
  set label sprintf("ring: at most %.4g GB/s", limit) at graph 0.02, first limit left offset 0, 0.5 textcolor rgb "#444444"
}

# the chosen one, then the others in front of it; in text the letter of the chosen one covers theirs
if (n > 1 && is_text) {
  plot for [i = 1:n - 1] data index i using 1:2 with points pt i + 1 title columnheader(1), \
    data index 0 using 1:2 with points pt 1 title columnheader(1)
} else { if (n > 1) {
  plot data index 0 using 1:2 with linespoints lw 9 dt 1 pt 7 ps 1.2 * mark lc rgb "#c8c8c8" title columnheader(1), \
    for [i = 1:n - 1] data index i using 1:2 with linespoints lw 1.8 dt dash_of(i) pt mark_of(i) ps mark \
    lc rgb colour_of(i) title columnheader(1)
} else {
  plot data using 1:2 with linespoints lw 1.8 dt 1 pt (is_text ? 1 : mark_of(0)) ps mark lc rgb colour_of(0) \
    title columnheader(1)
} }
