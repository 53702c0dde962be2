# A training run over its days: how much is done, dp, what interrupted it.
#
#     gnuplot -e "data='x.dat'; out='x.svg'; kinds=2; names='GPU cable'; dp=8" plots/run.gp
#
# Data: a block per series, two empty lines apart; the first line of a block is its name in double quotes, then:
#   first block     day, share of the run that is done and will be kept as far as is known then, dp (0: down)
#   a block each    of a kind of interruption, the most frequent first: the days of those
# Variables: data; out (.svg .png .pdf; '' = standard output, then format='svg'); kinds, how many; names, a word or
#   "quoted words" for each; dp of the whole job; ideal, days without interruptions, 0 = not known; title.

if (!exists("out")) { out = "run.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "A training run" }
if (!exists("ideal")) { ideal = 0 }
if (!exists("names")) { names = "" }
kinds = int(kinds)
dp = int(dp)
ideal = ideal + 0.0

least_dp = dp
stats data index 0 using 1:($3 > 0 && $3 < least_dp ? (least_dp = int($3)) : 0) skip 1 nooutput
span = STATS_max_x
has_dp = least_dp < dp
lane_px = 19
dp_px = has_dp ? 110 : 0
progress_px = 340
kinds_px = kinds > 0 ? 24 + kinds * lane_px : 0
longest = 14
do for [kind = 1:kinds] { longest = strlen(word(names, kind)) > longest ? strlen(word(names, kind)) : longest }
left_px = 30 + 7.6 * longest
width = int(770 + left_px)
height = 56 + progress_px + dp_px + kinds_px + 60
load ARG0[1:strstrt(ARG0."\n", "run.gp\n") - 1]."look.gp"

at_px(p) = 1 - p / (1.0 * height)
set lmargin at screen left_px / width
set rmargin at screen 1 - 30.0 / width
set xrange [0:span]
set multiplot

set tmargin at screen at_px(56)
set bmargin at screen at_px(56 + progress_px)
# days stand under the lowest part
put_days = "set format x '%g'; set xlabel 'day'"
set format x ""
if (kinds == 0) { @put_days }
set yrange [0:100]
set ytics 20 format "%g"
set ylabel "done (% of the run's tokens)" offset 1
set key left top reverse Left
if (ideal > 0) { set arrow 1 from 0, 0 to ideal, 100 nohead dt 2 lc rgb "#888888" }
plot NaN with lines dt 2 lc rgb "#888888" title (ideal > 0 ? "without interruptions" : ""), \
     data index 0 using 1:(100 * $2) skip 1 with lines lw 2 lc rgb colour_of(0) title "done"
unset arrow 1
unset label 999
unset key

if (has_dp) {
  set tmargin at screen at_px(56 + progress_px + 14)
  set bmargin at screen at_px(56 + progress_px + dp_px)
  set yrange [least_dp - 0.15 * (dp - least_dp):dp + 0.15 * (dp - least_dp)]
  set ytics ceil((dp - least_dp) / 4.0)
  set ylabel "dp"
  last = dp
  plot data index 0 using 1:(last = $3 > 0 ? $3 : last, last) skip 1 with steps lw 1.5 lc rgb colour_of(2)
}

if (kinds > 0) {
  set tmargin at screen at_px(56 + progress_px + dp_px + 24)
  set bmargin at screen at_px(56 + progress_px + dp_px + kinds_px)
  @put_days
  unset ylabel
  unset grid
  set yrange [kinds:0]
  set ytics scale 0 ()
  do for [kind = 1:kinds] { set ytics add (word(names, kind) kind - 0.5) }
  plot for [kind = 1:kinds] data index kind using 1:(kind - 0.5) skip 1 \
         with points pt 7 ps 0.45 * mark lc rgb colour_of(kind - 1) notitle
}
unset multiplot
