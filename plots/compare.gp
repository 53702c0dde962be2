# A predicted step above the measured one, rank by rank.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/compare.gp
#
# Columns of the data: lane side kind start end chunk micro_batch
#   lane         ranks from the top, from 0
#   side         0 predicted  1 measured
#   kind         0 forward  1 input gradient  2 weight gradient  3 backward  4 optimizer
#                5 tensor  6 context  7 expert  8 data  9 pipeline-parallel communication  10 the side's whole step
#                11 copies onto the GPU  12 from it  13 the optimizer's update on the host
#   start, end   in the unit named by xlabel, from the start of the side's step
#   chunk        model chunk of the rank, shown by shade; 0 where there is none
#   micro_batch  number in the box; -1 none
# Variables: data; out (.svg .png .pdf; '' = standard output, then format='svg'); title; xlabel; lanes = the ranks'
# numbers, separated by spaces; width in pixels.

if (!exists("out")) { out = "compare.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "" }
if (!exists("xlabel")) { xlabel = "time" }
if (!exists("lanes")) { lanes = "" }
if (!exists("width")) { width = 1600 }

mask = 0
last_chunk = 0
step_end(side) = side == 0 ? predicted_end : measured_end
predicted_end = 0
measured_end = 0
note(side, kind, end) = kind != 10 ? 0 : (side == 0 ? (predicted_end = end) : (measured_end = end))
stats data using (mask = mask | (1 << int($3)), last_chunk = ($6 > last_chunk ? $6 : last_chunk), note($2, $3, $5), $1):5 \
  nooutput
n_lanes = int(STATS_max_x) + 1
span = STATS_max_y
has(kind) = (mask >> kind) & 1

# Sub-lanes only for those overlapping kinds that occur: place[kind] counts them from 0 below the compute lane.
array place[13]
n_below = 0
do for [kind = 5:13] {
  place[kind] = n_below
  if (kind != 10 && has(kind)) { n_below = n_below + 1 }
}
compute_px = n_lanes <= 4 ? 32 : (n_lanes <= 8 ? 24 : 16)
below_px = n_lanes <= 8 ? 6.0 : 5.0
side_px = compute_px + below_px * n_below + 5
lane_px = 2 * side_px + 9
height = int(150 + n_lanes * lane_px)

# The y axis counts pixels from the first lane's top.
top(lane, side) = lane * lane_px + 4 + side * side_px
y_low(lane, side, kind) = (kind < 5 || kind == 10) ? top(lane, side) : \
  top(lane, side) + compute_px + (place[int(kind)] + 0.25) * below_px
y_high(lane, side, kind) = (kind < 5 || kind == 10) ? top(lane, side) + compute_px : y_low(lane, side, kind) + 0.75 * below_px

# The timeline's colours: dark to light in this order in black and white too: F, W, B, I on a pale ground.
array colour[14]
colour[1] = 0x2f5fa8; colour[2] = 0x8ed1c6; colour[3] = 0xe08a1e; colour[4] = 0x5fa845; colour[5] = 0x7a3b8f
colour[6] = 0xc23b3b; colour[7] = 0x8a6d3b; colour[8] = 0xb05fa0; colour[9] = 0xd9a400; colour[10] = 0x333333
colour[11] = 0xe6e6e6; colour[12] = 0x1f9e9e; colour[13] = 0x6fb7d6; colour[14] = 0x7a3b8f
array meaning[14]
meaning[1] = "forward"; meaning[2] = "input gradient"; meaning[3] = "weight gradient"; meaning[4] = "backward"
meaning[5] = "optimizer"; meaning[6] = "tensor-parallel"; meaning[7] = "context-parallel"; meaning[8] = "expert-parallel"
meaning[9] = "data-parallel"; meaning[10] = "pipeline send"; meaning[11] = "idle (bubble, waits)"
meaning[12] = "copies in"; meaning[13] = "copies out"; meaning[14] = "update on the host"

# Later chunks are mixed with white.
part(c, share, bits) = int(((c >> bits) & 255) + (255 - ((c >> bits) & 255)) * share) << bits
lighter(c, share) = part(c, share, 16) + part(c, share, 8) + part(c, share, 0)
share_of(chunk) = last_chunk > 0 ? 0.5 * chunk / last_chunk : 0
shade(kind, chunk) = lighter(colour[int(kind) + 1], share_of(chunk))

font_px = 14
load ARG0[1:strstrt(ARG0."\n", "compare.gp\n") - 1]."look.gp"
unset grid

left_px = 145.0
right_px = 30.0
set lmargin at screen left_px / width
set rmargin at screen 1 - right_px / width
set tmargin at screen 1 - 78.0 / height
set bmargin at screen 62.0 / height
pixel = 1.02 * span / (width - left_px - right_px)

x_px(px) = px / (1.0 * width)
y_px(px) = 1 - px / (1.0 * height)
set label 2 xlabel at screen 0.5, screen y_px(height - 16) center font px(14)
set xrange [0:1.02 * span]
set yrange [n_lanes * lane_px:0]
set border 1 lc rgb "#666666"
set xtics out nomirror textcolor rgb "#333333"
set mxtics 5
unset key
unset ytics

# Labels of ranks and sides; a thin line separates the ranks.
do for [lane = 0:n_lanes - 1] {
  name = lane < words(lanes) ? word(lanes, lane + 1) : sprintf("%d", lane)
  set label 100 + lane "rank ".name at screen x_px(12), first lane * lane_px + 4 + side_px - 2 left font px(14)
  set label 200 + lane "predicted" at screen x_px(left_px - 8), first top(lane, 0) + compute_px / 2.0 right font px(11)
  set label 300 + lane "measured" at screen x_px(left_px - 8), first top(lane, 1) + compute_px / 2.0 right font px(11)
  if (lane > 0) {
    set arrow 100 + lane from screen x_px(12), first lane * lane_px to graph 1, first lane * lane_px nohead \
      lc rgb "#bbbbbb" lw 1
  }
}

# Where each side's step ends.
set arrow 1 from predicted_end, graph 0 to predicted_end, graph 1 nohead dashtype 2 lc rgb "#555555" lw 1
set arrow 2 from measured_end, graph 0 to measured_end, graph 1 nohead lc rgb "#555555" lw 1

# The legend: a swatch and a text for each kind that occurs, in one centred line.
entry_px(kind) = has(kind) ? 42 + 7.2 * strlen(meaning[kind + 1]) : 0
shades = (last_chunk > 0 ? "lighter: later model chunks   " : "")."line: step's end, dashed: predicted"
total_px = 6.6 * strlen(shades)
do for [kind = 0:13] { total_px = total_px + entry_px(kind) }
at_px = (width - total_px) / 2.0
do for [kind = 0:13] {
  if (has(kind)) {
    set object kind + 1 rectangle from screen x_px(at_px), screen y_px(61) to screen x_px(at_px + 18), screen y_px(49) \
      fillcolor rgb colour[kind + 1] fillstyle solid noborder
    set label kind + 31 meaning[kind + 1] at screen x_px(at_px + 24), screen y_px(55) left font px(13)
  }
  at_px = at_px + entry_px(kind)
}
set label 30 shades at screen x_px(at_px), screen y_px(55) left font px(13)

# Boxes that are wide enough leave a pixel between them; none is narrower than a pixel, or it would vanish.
gap(start, end) = end - start > 5 * pixel ? 0.5 * pixel : 0
right(start, end) = end - start > pixel ? end - gap(start, end) : start + pixel
digits(n) = n < 10 ? 1 : (n < 100 ? 2 : (n < 1000 ? 3 : 4))
fits(start, end, n) = n >= 0 && end - start > (6 * digits(n) + 1) * pixel
dark(kind, chunk) = kind == 0 && share_of(chunk) < 0.35
set style fill solid noborder

plot data using (($3 == 10) ? ($4 + $5) / 2 : NaN):(y_low($1, $2, $3)):4:5:(y_low($1, $2, $3)):(y_high($1, $2, $3)):\
       (colour[11]) with boxxyerror lc rgb variable notitle, \
     data using (($3 != 10) ? ($4 + $5) / 2 : NaN):(y_low($1, $2, $3)):($4 + gap($4, $5)):(right($4, $5)):\
       (y_low($1, $2, $3)):(y_high($1, $2, $3)):(shade($3, $6)) with boxxyerror lc rgb variable notitle, \
     data using (($3 < 4 && dark($3, $6) && fits($4, $5, $7)) ? ($4 + $5) / 2 : NaN):(top($1, $2) + compute_px / 2.0):7 \
       with labels font px(11) tc rgb "white" notitle, \
     data using (($3 < 4 && !dark($3, $6) && fits($4, $5, $7)) ? ($4 + $5) / 2 : NaN):(top($1, $2) + compute_px / 2.0):7 \
       with labels font px(11) tc rgb "black" notitle
