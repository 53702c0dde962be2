# What each stage of a pipeline did over one step.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/timeline.gp
#
# Columns of the data: lane kind start end chunk micro_batch
#   lane         number of the pipeline rank, from 0
#   kind         0 forward  1 input gradient  2 weight gradient  3 backward  4 optimizer
#                5 tensor  6 context  7 expert  8 data  9 pipeline-parallel communication  10 the lane's whole time
#                11 copies onto the GPU  12 from it  13 the optimizer's update on the host
#   start, end   in the unit named by xlabel
#   chunk        model chunk of the rank, shown by shade; 0 where there is none
#   micro_batch  number in the box; -1 none
# Variables: data; out (.svg .png .pdf .txt; '' = standard output, then format='svg'); title, xlabel, ylabel;
#   lanes = the names of the lanes, separated by spaces (default: their numbers); recorded: kinds 0, 8 and 11 are all
#   that was computed, communicated and copied; width in pixels
#   (default 1600, or up to 3600 if that gives every pass room for its number).

if (!exists("out")) { out = "timeline.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "" }
if (!exists("xlabel")) { xlabel = "time" }
if (!exists("ylabel")) { ylabel = "stage" }
if (!exists("lanes")) { lanes = "" }

mask = 0
last_chunk = 0
stats data using (mask = mask | (1 << int($2)), last_chunk = ($5 > last_chunk ? $5 : last_chunk), $1):4 nooutput
n_lanes = int(STATS_max_x) + 1
span = STATS_max_y
has(kind) = (mask >> kind) & 1

digits(n) = n < 10 ? 1 : (n < 100 ? 2 : (n < 1000 ? 3 : 4))
if (!exists("width")) {
  least = span
  most_digits = 1
  stats data using (least = ($2 < 4 && $4 - $3 < least) ? $4 - $3 : least, \
                    most_digits = ($2 < 4 && digits($6) > most_digits) ? digits($6) : most_digits, $1) nooutput
  needed = least > 0 ? 110 + (6 * most_digits + 2) * span / least : 1600
  width = needed > 1600 && needed <= 3600 ? ceil(needed) : 1600
}

# Sub-lanes only for those overlapping kinds that occur: place[kind] counts them from 0 below the compute lane.
array place[13]
n_below = 0
do for [kind = 5:13] {
  place[kind] = n_below
  if (kind != 10 && has(kind)) { n_below = n_below + 1 }
}
compute_px = n_lanes <= 8 ? 36 : (n_lanes <= 16 ? 26 : (n_lanes <= 32 ? 18 : 12))
lane_px = compute_px + 7 * n_below + 4
height = 150 + n_lanes * lane_px

# Heights as shares of a lane: computing, sub-lanes, and a gap of four pixels.
below = 7.0 / lane_px
compute_height = 1.0 * compute_px / lane_px
top(lane) = lane + 2.0 / lane_px
y_low(lane, kind) = (kind < 5 || kind == 10) ? top(lane) : top(lane) + compute_height + (place[int(kind)] + 0.25) * below
y_high(lane, kind) = (kind < 5 || kind == 10) ? top(lane) + compute_height : y_low(lane, kind) + 0.75 * below

# Dark to light in this order in black and white too: F, W, B, I on a pale ground.
array colour[14]
colour[1] = 0x2f5fa8; colour[2] = 0x8ed1c6; colour[3] = 0xe08a1e; colour[4] = 0x5fa845; colour[5] = 0x7a3b8f
colour[6] = 0xc23b3b; colour[7] = 0x8a6d3b; colour[8] = 0xb05fa0; colour[9] = 0xd9a400; colour[10] = 0x333333
colour[11] = 0xe6e6e6; colour[12] = 0x1f9e9e; colour[13] = 0x6fb7d6; colour[14] = 0x7a3b8f
array meaning[14]
meaning[1] = "forward"; meaning[2] = "input gradient"; meaning[3] = "weight gradient"; meaning[4] = "backward"
meaning[5] = "optimizer"; meaning[6] = "tensor-parallel"; meaning[7] = "context-parallel"; meaning[8] = "expert-parallel"
meaning[9] = "data-parallel"; meaning[10] = "pipeline send"; meaning[11] = "idle (bubble, waits)"
meaning[12] = "copies in"; meaning[13] = "copies out"; meaning[14] = "update on the host"
if (exists("recorded")) {
  meaning[1] = "computing"; meaning[9] = "communicating"; meaning[11] = "idle"; meaning[12] = "copying"
}

# Later chunks are mixed with white.
part(c, share, bits) = int(((c >> bits) & 255) + (255 - ((c >> bits) & 255)) * share) << bits
lighter(c, share) = part(c, share, 16) + part(c, share, 8) + part(c, share, 0)
share_of(chunk) = last_chunk > 0 ? 0.5 * chunk / last_chunk : 0
shade(kind, chunk) = lighter(colour[int(kind) + 1], share_of(chunk))

font_px = 14
load ARG0[1:strstrt(ARG0."\n", "timeline.gp\n") - 1]."look.gp"
unset grid

# In text: a row per rank, each column with the letter of what is computed then.
if (is_text) {
  letters = "FIWBO"
  letter(kind) = letters[int(kind) + 1:int(kind) + 1]
    set xlabel xlabel
  set ylabel ylabel
  set xrange [0:span]
  set yrange [n_lanes - 0.5:-0.5]
  set ytics 1
  unset key
  plot data using (($2 < 5) ? ($3 + $4) / 2 : NaN):1:(letter($2)) with labels notitle
  exit
}

left_px = 80.0
right_px = 30.0
set lmargin at screen left_px / width
set rmargin at screen 1 - right_px / width
set tmargin at screen 1 - 78.0 / height
set bmargin at screen 62.0 / height
pixel = span / (width - left_px - right_px)

x_px(px) = px / (1.0 * width)
y_px(px) = 1 - px / (1.0 * height)
set label 2 xlabel at screen 0.5, screen y_px(height - 16) center font px(14)
set label 3 ylabel at screen x_px(22), screen 0.5 center rotate by 90 font px(14)
set xrange [0:span]
set yrange [n_lanes:0]
set border 1 lc rgb "#666666"
set xtics out nomirror textcolor rgb "#333333"
set mxtics 5
unset key
step = n_lanes <= 32 ? 1 : ceil(n_lanes / 24.0)
set ytics out nomirror scale 0 textcolor rgb "#333333" ()
name_of(lane) = lane < words(lanes) ? word(lanes, lane + 1) : sprintf("%d", lane)
do for [lane = 0:n_lanes - 1:step] { set ytics add (name_of(lane) top(lane) + compute_height / 2) }

# The legend: a swatch and a text for each kind that occurs, in one centred line.
entry_px(kind) = has(kind) ? 42 + 7.2 * strlen(meaning[kind + 1]) : 0
shades = last_chunk > 0 ? "lighter: later model chunks" : ""
total_px = 7.2 * strlen(shades)
do for [kind = 0:13] { total_px = total_px + entry_px(kind) }
at_px = (width - total_px) / 2.0
do for [kind = 0:13] {
  if (has(kind)) {
    set object kind + 1 rectangle from screen x_px(at_px), screen y_px(61) to screen x_px(at_px + 18), screen y_px(49) \
      fillcolor rgb colour[kind + 1] fillstyle solid noborder
    set label kind + 101 meaning[kind + 1] at screen x_px(at_px + 24), screen y_px(55) left font px(13)
  }
  at_px = at_px + entry_px(kind)
}
set label 30 shades at screen x_px(at_px), screen y_px(55) left font px(13)

# Boxes that are wide enough leave a pixel between them; none is narrower than a pixel, or it would vanish.
gap(start, end) = end - start > 5 * pixel ? 0.5 * pixel : 0
right(start, end) = end - start > pixel ? end - gap(start, end) : start + pixel
fits(start, end, n) = n >= 0 && end - start > (6 * digits(n) + 1) * pixel
dark(kind, chunk) = kind == 0 && share_of(chunk) < 0.35
# Numbers are drawn only if most boxes have room for theirs: in a few boxes they would seem to single these out.
count(kind, start, end, n) = kind < 4 && n >= 0 ? (n_numbers = n_numbers + 1, fits(start, end, n) ? \
  (n_fitting = n_fitting + 1) : 0, 0) : 0
n_numbers = 0
n_fitting = 0
stats data using (count($2, $3, $4, $6)) nooutput
has_numbers = 2 * n_fitting > n_numbers
is_numbered(kind, start, end, n) = has_numbers && kind < 4 && fits(start, end, n)
set style fill solid noborder

plot data using (($2 == 10) ? ($3 + $4) / 2 : NaN):(y_low($1, $2)):3:4:(y_low($1, $2)):(y_high($1, $2)):(colour[11]) \
       with boxxyerror lc rgb variable notitle, \
     data using (($2 != 10) ? ($3 + $4) / 2 : NaN):(y_low($1, $2)):($3 + gap($3, $4)):(right($3, $4)):\
       (y_low($1, $2)):(y_high($1, $2)):(shade($2, $5)) with boxxyerror lc rgb variable notitle, \
     data using ((is_numbered($2, $3, $4, $6) && dark($2, $5)) ? ($3 + $4) / 2 : NaN):(top($1) + compute_height / 2):6 \
       with labels font px(11) tc rgb "white" notitle, \
     data using ((is_numbered($2, $3, $4, $6) && !dark($2, $5)) ? ($3 + $4) / 2 : NaN):(top($1) + compute_height / 2):6 \
       with labels font px(11) tc rgb "black" notitle
