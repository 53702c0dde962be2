# Shared by the other scripts of this folder: terminal, colours, points, dashes and hatching. Not for use alone.
#
# Before: title, width, height (pixels), and font_px if it is not 15. A script finds this file in its own folder
# (ARG0).
# Variables from outside: out (.svg .png .pdf .txt; '' = standard output, then format='svg'); columns, rows of .txt.
# After: is_text; px(n), a font size; mark, a point's size; mark_of(i), dash_of(i), colour_of(i) for the i-th
# of any number of series, from 0.

if (!exists("font_px")) { font_px = 15 }
if (!exists("columns")) { columns = 100 }
if (!exists("rows")) { rows = 32 }
columns = int(columns)
rows = int(rows)
is_text = format eq "txt"

# Fonts are given in pixels; the Cairo terminals count in points, at 96 and 100 pixels to the inch.
scale = format eq "png" ? 0.75 : format eq "pdf" ? 0.72 : 1
mark = format eq "png" ? 1.3 : format eq "pdf" ? 0.7 : 0.9
fonted(name) = sprintf("%s,%g", name, font_px * scale)
px(n) = sprintf(",%g", n * scale)
if (is_text) {
  set terminal dumb noenhanced size columns, rows
} else { if (format eq "svg") {
  set terminal svg size width, height dynamic noenhanced font fonted("Arial") background "white"
} else { if (format eq "png") {
  set terminal pngcairo size width, height noenhanced font fonted("Liberation Sans") background "white"
} else {
  set terminal pdfcairo size width / 100.0, height / 100.0 noenhanced fontscale 1 font fonted("Liberation Sans") \
    background "white"
} } }
if (strlen(out)) { set output out }
set encoding utf8

# Okabe and Ito's colours (Color Universal Design, 2008), which red-green colour-blind people can distinguish, without
# the yellow, which is faint on white paper. Point and dash differ too, for black-and-white copies; their numbers have
# no common factor, so that no two of many series are alike.
array curve_colour[8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7a6a3a"]
array mark_type[11] = [7, 5, 9, 13, 11, 6, 4, 8, 12, 10, 2]
array dash_type[5] = [1, 2, 4, 5, 3]
colour_of(i) = curve_colour[int(i) % 8 + 1]
mark_of(i) = mark_type[int(i) % 11 + 1]
dash_of(i) = dash_type[int(i) % 5 + 1]

set grid ytics lc rgb "#dddddd" lt 1
set border 3 lc rgb "#666666"
set xtics nomirror textcolor rgb "#333333"
set ytics nomirror textcolor rgb "#333333"

# The title is centred above the picture. A long one is set smaller to fit; in text it is cut off.
title_px = strlen(title) * 9.4 > width - 40 ? (width - 40) / (9.4 * strlen(title)) * 17 : 17
title_px = title_px < 8 ? 8 : title_px
if (is_text) {
  cut_title = strlen(title) > columns - 2 ? title[1:columns - 5]."..." : title
  set title cut_title
  unset grid
} else {
  set label 999 title at screen 0.5, screen 1 - 24.0 / height center font px(title_px)
  set tmargin at screen 1 - 46.0 / height
}
