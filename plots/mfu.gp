# Model FLOP/s utilisation, or another value, against number of GPUs.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/mfu.gp
#
# The data: a block per series, blocks separated by two empty lines; the first line of a block is the series' name in
# double quotes, then the columns: gpus mfu fits low high
#   mfu        as a share; or a value in the unit of ylabel, with scaled=1
#   fits       1; 0 where the plan needs more memory than a GPU has: such points are struck through
#   low high   with band = 1: between these four of five cases are; drawn of up to four series
# Variables: data; out (.svg .png .pdf .txt; '' = standard output, then format='svg'); title, ylabel; band; scaled, the
# factor from the values to what is drawn (100); limit, a line across (GB of a GPU; 0: none); columns and rows of a .txt.

if (!exists("out")) { out = "mfu.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "Model FLOP/s utilisation" }
if (!exists("band")) { band = 0 }
band = band + 0
if (!exists("ylabel")) { ylabel = "MFU (% of peak FLOP/s)" }
if (!exists("scaled")) { scaled = 100 }
if (!exists("limit")) { limit = 0 }
scaled = scaled + 0.0
limit = limit + 0.0

lacking = 0
counts = " "
odd = 0
note(x) = (x != x || strstrt(counts, sprintf(" %.0f ", x)) > 0 ? 0 : (counts = counts.sprintf("%.0f ", x), \
           odd = odd + (abs(log(x) / log(2) - floor(log(x) / log(2) + 0.5)) > 1e-9)), x)
stats data using (lacking = lacking + ($3 == 0), note($1)):2 skip 1 nooutput
n = STATS_blocks
if (n > 4) { band = 0 } # bands upon each other tell nothing

# The key is below, in two columns or more: what it takes of many series is not taken from the curves.
width = 900
height = 580 + (n > 6 ? 11 * (n - 6) : 0)
load ARG0[1:strstrt(ARG0."\n", "mfu.gp\n") - 1]."look.gp"

set xlabel "GPUs"
set ylabel ylabel
set logscale x 2
set xrange [STATS_min_x / 1.2 : STATS_max_x * 1.2]
set yrange [0:*]
set offsets 0, 0, graph 0.04, 0
set xtics ()
first = ceil(log(STATS_min_x) / log(2) - 1e-9)
last = floor(log(STATS_max_x) / log(2) + 1e-9)
do for [power = first:last:1 + floor((last - first) / 11)] { set xtics add (sprintf("%.0f", 2.0**power) 2.0**power) }
if (last - first < 1) { set xtics (sprintf("%g", STATS_min_x) STATS_min_x, sprintf("%g", STATS_max_x) STATS_max_x) }
# Numbers of GPUs that are not powers of two get tick labels of their own.
if (odd > 0 && words(counts) <= 12) {
  set xtics ()
  do for [i = 1:words(counts)] { set xtics add (word(counts, i) real(word(counts, i))) }
}
if (limit > 0) {
  set arrow from graph 0, first limit to graph 1, first limit nohead dt 2 lw 1.2 lc rgb "#666666"
  set label sprintf("%.4g GB of a GPU", limit) at graph 0.98, first limit right offset 0, 0.6 textcolor rgb "#444444"
}
set key below center horizontal Left reverse samplen 3.5 spacing 1.25 height 0.8

set style fill transparent solid 0.13 noborder
plot for [i = 0:(is_text || !band ? -1 : n - 1)] data index i using 1:(scaled * $4):(scaled * $5) skip 1 with filledcurves \
       fc rgb colour_of(i) notitle, \
     for [k = 1:(is_text || !band ? 0 : 1)] NaN with filledcurves fc rgb "#666666" title (band ? "four of five cases" : ""), \
     for [i = 0:n - 1] data index i using 1:(scaled * $2) with linespoints lw 1.8 dt dash_of(i) pt (is_text ? i + 1 : mark_of(i)) \
       ps mark lc rgb colour_of(i) title columnheader(1), \
     for [i = 0:n - 1] data index i using 1:($3 == 0 ? scaled * $2 : NaN) skip 1 with points pt (is_text ? 24 : 2) \
       ps 2.2 * mark lw 2 lc rgb "#000000" notitle, \
     for [k = 1:(lacking > 0 ? 1 : 0)] NaN with points pt (is_text ? 24 : 2) ps 2.2 * mark lw 2 lc rgb "#000000" \
       title "does not fit in memory"
