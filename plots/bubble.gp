# Bubble against number of micro-batches: simulated, and the closed forms, dashed.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/bubble.gp
#
# The data: a block per schedule, blocks separated by two empty lines; the first line of a block is the schedule's
# name in double quotes, then the columns: micro_batches simulated closed_form
#   simulated, closed_form   bubble as a share; NaN where unknown, or where a closed form is only a bound
# Variables: data; out (.svg .png .pdf .txt; '' = standard output, then format='svg'); title, ylabel; join = 1 if the
# simulated points are joined by a line, 0 if they lie on the closed forms; columns and rows of a .txt.

if (!exists("out")) { out = "bubble.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "Pipeline bubble" }
if (!exists("ylabel")) { ylabel = "bubble fraction: idle / step (%)" }
if (!exists("join")) { join = 0 }
join = int(join)

width = 900
height = 600
load ARG0[1:strstrt(ARG0."\n", "bubble.gp\n") - 1]."look.gp"
dash_of_form(i) = int(i) % 4 + 2
dash_of_key(i) = join ? 1 : dash_of_form(i)

known = 0
counts = " "
odd = 0
note(x) = (x != x || strstrt(counts, sprintf(" %.0f ", x)) > 0 ? 0 : (counts = counts.sprintf("%.0f ", x), \
           odd = odd + (abs(log(x) / log(2) - floor(log(x) / log(2) + 0.5)) > 1e-9)), x)
stats data using (known = known + ($3 == $3), note($1)) skip 1 nooutput
n = STATS_blocks
most = STATS_max
least = STATS_min

set xlabel "micro-batches per step"
set ylabel ylabel
set logscale x 2
set xrange [least / 1.15 : most * 1.15]
set yrange [0:*]
set offsets 0, 0, graph 0.04, 0
set xtics ()
first = ceil(log(least) / log(2) - 1e-9)
last = floor(log(most) / log(2) + 1e-9)
do for [power = first:last:1 + floor((last - first) / 11)] { set xtics add (sprintf("%.0f", 2.0**power) 2.0**power) }
if (last - first < 1) { set xtics (sprintf("%g", least) least, sprintf("%g", most) most) }
# Numbers of micro-batches that are not powers of two get tick labels of their own.
if (odd > 0 && words(counts) <= 12) {
  set xtics ()
  do for [i = 1:words(counts)] { set xtics add (word(counts, i) real(word(counts, i))) }
}
set key below center horizontal Left reverse samplen 3.5 spacing 1.25 height 0.8
if (is_text) { set key inside right top vertical }

# Earlier points are larger, so that later ones in the same place do not hide them.
sized(i) = mark * (n > 1 ? 1.5 - 0.6 * i / (n - 1.0) : 1)
if (is_text) {
  plot for [i = 0:n - 1] data index i using 1:(100 * $2) skip 1 with points pt i + 1 notitle, \
       for [i = 0:n - 1] data index i using (NaN):(NaN) with points pt i + 1 title columnheader(1)
} else {
  plot for [i = 0:n - 1] data index i using 1:(100 * $3) skip 1 with lines lw 1.8 dt dash_of_form(i) \
         lc rgb colour_of(i) notitle, \
       for [i = 0:n - 1] data index i using 1:(join ? 100 * $2 : NaN) skip 1 with lines lw 1.3 dt 1 \
         lc rgb colour_of(i) notitle, \
       for [i = 0:n - 1] data index i using 1:(100 * $2) skip 1 with points pt mark_of(i) ps sized(i) \
         lc rgb colour_of(i) notitle, \
       for [i = 0:n - 1] data index i using (NaN):(NaN) with linespoints lw 1.8 dt dash_of_key(i) pt mark_of(i) \
         ps mark lc rgb colour_of(i) title columnheader(1), \
       keyentry with lines lw (known > 0 ? 1.8 : 0) dt 2 lc rgb (known > 0 ? "#444444" : "white") \
         title (known > 0 ? "dashed: closed form" : " ")
}
