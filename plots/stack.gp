# Stacked bars, one per row: where the time of a step goes, what a GPU's memory holds.
#
#     gnuplot -e "data='x.dat'; out='x.svg'" plots/stack.gp
#
# The data: the first line names the columns, each in double quotes: "label" "compute" "tp" …; then a row per bar:
#   label   in double quotes, left of the bar
#   parts   lengths, in the order of the names; NaN in all: no bar
#   low high   with band = 1, behind them: between these four of five cases' sums are; NaN: not known
# Variables: data; out (.svg .png .pdf .txt; '' = standard output, then format='svg'); title, xlabel; parts = the
# names of the columns, separated by spaces; band; capacity = a line across the bars, 0 = none; unit = of it; total = format
# of the number at a bar's end ('%.1f'; '' = none). A .txt has no bars, only these numbers.

if (!exists("out")) { out = "stack.svg" }
if (!exists("format")) { format = out[strlen(out)-2:] }
if (!exists("title")) { title = "" }
if (!exists("xlabel")) { xlabel = "" }
if (!exists("capacity")) { capacity = 0 }
if (!exists("total")) { total = "%.4g" }
if (!exists("unit")) { unit = "" }
if (!exists("band")) { band = 0 }
band = band + 0
capacity = capacity + 0.0
n_parts = words(parts)

longest = 0
up_to(i) = sum [j = 1:i] column(j + 1)
stats data using (longest = (strlen(strcol(1)) > longest ? strlen(strcol(1)) : longest), up_to(n_parts)) skip 1 nooutput
n = STATS_records + STATS_invalid
highest = STATS_records > 0 && STATS_max > capacity ? STATS_max : capacity
if (band) {
  stats data using (column(n_parts + 3)) skip 1 nooutput
  highest = STATS_max > highest ? STATS_max : highest
}
end_of(k) = band && column(n_parts + 3) > up_to(n_parts) ? column(n_parts + 3) : up_to(n_parts)
if (!(highest > 0)) { highest = 1 }

bar_px = n <= 12 ? 34 : (n <= 32 ? 24 : (n <= 300 ? 16 : 4800.0 / n))
label_px = 8.4 * longest + 24
if (label_px > 640) { label_px = 640.0 }
legend_px = 110.0 * n_parts
legend_rows = ceil(legend_px / 860)
width = label_px > 360 ? int(640 + label_px) : 1000
height = int((capacity > 0 ? 150 : 132) + 24 * legend_rows + n * bar_px)
load ARG0[1:strstrt(ARG0."\n", "stack.gp\n") - 1]."look.gp"
unset grid
set grid xtics lc rgb "#dddddd" lt 1

# Each part has a colour and a fill pattern of its own; neighbours differ in lightness, for black-and-white copies.
# Patterns: 3 solid, 1 crossed, 4 and 5 slanted, 6 and 7 steep, 2 dense, 0 none.
names = "compute recompute tp pp cp ep dp bubble optimizer host offload other weights gradients activations buffers reserved"
colours = "#0072b2 #0072b2 #d55e00 #000000 #7a6a3a #cc79a7 #e69f00 #e2e2e2 #a8427a #56b4e9 #009e73 #666666 #0072b2 " \
  ."#56b4e9 #f0e442 #d55e00 #999999"
fillings = "3 4 5 1 6 2 3 3 7 4 5 0 3 3 3 5 1"
array colour_no[n_parts]
array filling_no[n_parts]
do for [i = 1:n_parts] {
  colour_no[i] = word(colours, (i - 1) % words(colours) + 1)
  filling_no[i] = word(fillings, (i - 1) % words(fillings) + 1)
  do for [j = 1:words(names)] {
    if (word(names, j) eq word(parts, i)) { colour_no[i] = word(colours, j); filling_no[i] = word(fillings, j) }
  }
}

set xlabel xlabel
set xrange [0 : highest * (strlen(total) ? 1.1 : 1.02)]
set yrange [n - 0.4 : -0.6]
label_font = px(bar_px < 16 ? 9 : 14)
set ytics scale 0 font label_font
set key below center horizontal Left reverse samplen 1.6 width 1 height 1
if (!is_text) { set lmargin at screen label_px / width; set rmargin at screen 1 - 24.0 / width }
if (capacity > 0) {
  if (!is_text) { set tmargin at screen 1 - 64.0 / height }
  set label 1 sprintf("capacity %.4g %s", capacity, unit) at first capacity, graph 1 offset -0.5, 0.6 front font px(13)
  if (capacity > 0.3 * highest) { set label 1 right } else { set label 1 left }
}
named(row, text) = int(row) % int(ceil(13.0 / bar_px)) == 0 ? text : ""
shown = int((label_px - 20) / 8.4)
cut(text) = is_text || strlen(text) <= shown ? text : text[1:shown - 1]."…"
# Thin bars would be all frame.
border_colour = bar_px < 8 ? "#999999" : "#333333"

# A bar's number is written beyond the capacity line if it would run into it.
end_px = 62.0
beside(end) = end < capacity && end + end_px / (width - label_px - 24) * highest * 1.1 > capacity ? capacity : end

if (is_text) {
  plot data using (up_to(n_parts)):0:ytic(cut(strcol(1))) skip 1 with points pt 1 notitle
} else {
  plot for [i = 1:n_parts] data using (up_to(i)):0:(up_to(i - 1)):(up_to(i)):($0 - 0.36):($0 + 0.36):\
      ytic(named($0, cut(strcol(1)))) skip 1 with boxxyerror lc rgb colour_no[i] fs pattern int(filling_no[i]) \
      border lc rgb border_colour title word(parts, i), \
    data using (capacity > 0 ? capacity : NaN):(-0.6):(0):(n + 0.2) skip 1 every ::0::0 with vectors nohead lw 1.8 \
      dt (8, 5) lc rgb "#000000" notitle, \
    for [k = 1:band] data using (up_to(n_parts)):0:(column(n_parts + 2)):(column(n_parts + 3)) skip 1 with xerrorbars \
      pt 7 ps 0.1 lw 1.6 lc rgb "#000000" title (band ? "4 of 5 cases" : ""), \
    data using (strlen(total) ? beside(end_of(0)) : NaN):0:(strlen(total) ? named($0, sprintf(total, up_to(n_parts))) : "") skip 1 \
      with labels left offset 0.6, 0 font label_font notitle
}
