# A value over two properties of a configuration, as a map of shaded cells with their numbers.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/heat.gp
#
# Columns of the data: column row value state column_name row_name text
#   column, row   of the cell, from 0; row 0 lies at the bottom
#   value         any number where state is 2
#   state         0 fits   1 does not fit in memory: the cell is hatched   2 impossible: the cell is empty
#   names         of the column and the row, in double quotes
#   text          of the cell instead of the value, in double quotes; only if has_texts='1'
# Variables: data; out (.svg .png .pdf .txt; '' = standard output, then format='svg'); title, xlabel, ylabel; zlabel,
# what the numbers are; digits = their format ('%.1f'); note1, note2, … = lines below the map, n_notes of them.

if (!exists("out")) { out = "heat.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "" }
if (!exists("xlabel")) { xlabel = "" }
if (!exists("ylabel")) { ylabel = "" }
if (!exists("zlabel")) { zlabel = "" }
if (!exists("digits")) { digits = "%.4g" }
if (!exists("has_texts")) { has_texts = 0 }
if (!exists("n_notes")) { n_notes = 0 }
has_texts = int(has_texts)
n_notes = int(n_notes)
written(v) = has_texts ? strcol(7) : sprintf(digits, v)

longest = 1
longest_name = 1
longest_column = 1
stats data using 1:2 nooutput
n_columns = int(STATS_max_x) + 1
n_rows = int(STATS_max_y) + 1
stats data using (longest = (strlen(written($3)) > longest ? strlen(written($3)) : longest), \
  longest_name = (strlen(strcol(6)) > longest_name ? strlen(strcol(6)) : longest_name), \
  longest_column = (strlen(strcol(5)) > longest_column ? strlen(strcol(5)) : longest_column), $4 == 2 ? NaN : $3) nooutput
has_values = STATS_records > 0
lowest = has_values ? STATS_min : 0
highest = has_values ? STATS_max : 1

cell_px = 10 * longest + 16
cell_px = cell_px < 8.2 * longest_column + 12 ? 8.2 * longest_column + 12 : cell_px
cell_px = cell_px < 74 ? 74 : cell_px
left_px = 60 + 8.2 * longest_name
wanted = left_px + 60 + cell_px * n_columns
width = int(wanted < 760 ? 760 : (wanted > 2000 ? 2000 : wanted))
foot_px = 104 + 20 * n_notes
height = int(foot_px + 42 + (n_rows > 24 ? 24 * 44 : 44 * n_rows))
# Many cells are small, and so are their numbers, until there is no room for any; then only every n-th row and column
# is labelled.
cell_px = 1.0 * (width - left_px - 30) / n_columns
row_px = 1.0 * (height - foot_px - 42) / n_rows
number_px = cell_px / (0.62 * longest) < row_px / 1.3 ? cell_px / (0.62 * longest) : row_px / 1.3
number_px = number_px > 14 ? 14 : number_px
has_room = number_px >= 6
nth_column = int(ceil((8.2 * longest_column + 4) / cell_px))
nth_row = int(ceil(17.0 / row_px))
load ARG0[1:strstrt(ARG0."\n", "heat.gp\n") - 1]."look.gp"
unset grid
set border 0

# Dark is low, light is high, in grey as in colour (after cividis: Nuñez, Anderton and Renslow, 2018).
array stop[6] = [0x00204d, 0x31446b, 0x666970, 0x958f78, 0xcbba69, 0xffea46]
share(v) = highest > lowest ? (v - lowest) / (highest - lowest) : 1
at(s) = s >= 1 ? 4.999 : 5 * s
channel(c, bits) = (c >> bits) & 255
mixed(s, bits) = int(channel(stop[int(at(s)) + 1], bits) * (1 - (at(s) - int(at(s)))) + \
                     channel(stop[int(at(s)) + 2], bits) * (at(s) - int(at(s)))) << bits
shade(v) = mixed(share(v), 16) + mixed(share(v), 8) + mixed(share(v), 0)
is_dark(v) = share(v) < 0.55

set xlabel xlabel
set ylabel ylabel
set xrange [-0.5 : n_columns - 0.5]
set yrange [-0.5 : n_rows - 0.5]
set xtics scale 0
set ytics scale 0
unset key
if (!is_text) {
  set bmargin at screen 1.0 * foot_px / height
  set lmargin at screen left_px / width
  set rmargin at screen 1 - 30.0 / width
  base = (foot_px - 84.0) / height
  if (!has_texts) {
    set object 1 rectangle from screen 0.5 - 250.0 / width, screen base to screen 0.5 - 222.0 / width, \
      screen base + 16.0 / height fc rgb "#dddddd" fs solid border lc rgb "#333333"
    set object 2 rectangle from screen 0.5 - 250.0 / width, screen base to screen 0.5 - 222.0 / width, \
      screen base + 16.0 / height fc rgb "#333333" fs transparent pattern 4 border lc rgb "#333333"
    set label 1 "does not fit in memory" at screen 0.5 - 214.0 / width, screen base + 8.0 / height left font px(13)
    set label 2 "–   impossible" at screen 0.5 - 50.0 / width, screen base + 8.0 / height left font px(13)
  }
  set label 3 zlabel.": lighter is higher" at screen has_texts ? 20.0 / width : 0.5 + 50.0 / width, \
    screen base + 8.0 / height left font px(13)
  do for [i = 1:n_notes] {
    set label (100 + i) value(sprintf("note%d", i)) at screen 20.0 / width, screen base - (20.0 * i - 8) / height left font px(13)
  }
}
# Unwanted labels are put beyond the axis, not at NaN: gnuplot 5.4 crashes on a plot whose labels are all NaN.
shown_if(column, is_shown) = is_shown ? column : -100
set style textbox opaque noborder fillcolor rgb "#dddddd"
text_of(state, v) = state == 2 ? "–" : is_text || has_room ? written(v) : ""
number_font = px(number_px < 6 ? 6 : number_px)

if (is_text) {
  plot data using 1:2:(text_of($4, $3)):xtic(5):ytic(6) with labels notitle
} else {
  plot data using 1:2:($1 - 0.47):($1 + 0.47):($2 - 0.46):($2 + 0.46):($4 == 0 ? shade($3) : 0xdddddd):\
      xtic(int($1) % nth_column == 0 ? strcol(5) : ""):ytic(int($2) % nth_row == 0 ? strcol(6) : "") \
      with boxxyerror lc rgb variable fs solid noborder notitle, \
    data using ($4 == 1 ? $1 : NaN):2:($1 - 0.47):($1 + 0.47):($2 - 0.46):($2 + 0.46) with boxxyerror \
      lc rgb "#777777" fs transparent pattern 4 border lc rgb "#555555" notitle, \
    data using (shown_if($1, $4 == 0 && is_dark($3))):2:(text_of($4, $3)) with labels font number_font tc rgb "white" notitle, \
    data using (shown_if($1, $4 == 0 && !is_dark($3))):2:(text_of($4, $3)) with labels font number_font tc rgb "black" notitle, \
    data using (shown_if($1, $4 != 0 && has_room)):2:(text_of($4, $3)) with labels boxed font number_font tc rgb "#333333" notitle
}
