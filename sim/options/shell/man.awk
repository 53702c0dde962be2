# man.awk: a man page from what --help prints, in the layout of GLib's option table.
# usage: PROGRAM [VERB] --help | awk -v name=stepsim-plan -v version=0.1.0 -v about="the best plan …" -v see=… -f man.awk
# Usage becomes SYNOPSIS, the text below it DESCRIPTION, options and what is behind them, examples and exit status have
# sections of their own; lines below a line that ends with a colon are a list. Text in UTF-8.
function plain(text) { # as roff: what it would take for an escape, a hyphen or a command
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  gsub(/…/, "...", text)
  gsub(/'/, "\\(aq", text)
  gsub(/`/, "\\(ga", text)
  gsub(/\^/, "\\(ha", text)
  gsub(/~/, "\\(ti", text)
  sub(/^\./, "\\\\\\&.", text)
  return text
}
function marked(text) { # with options in bold
  text = plain(text)
  return text ~ /\\-\\-[a-z]/ ? bold(text) : text
}
function bold(text,   done) {
  while (match(text, /(^|[ (])\\-\\-[a-z0-9]+(\\-[a-z0-9]+)*/)) {
    at = RSTART; length_found = RLENGTH
    if (substr(text, at, 1) != "\\") { at++; length_found-- }
    done = done substr(text, 1, at - 1) "\\fB" substr(text, at, length_found) "\\fR"
    text = substr(text, at + length_found)
  }
  return done text
}
function section(title) { if (title != at_section) print ".SH " title; at_section = title; n_blank = 0 }
function paragraph() { if (n_blank > 0) print ".PP"; n_blank = 0 }
function end_code() { if (in_code) print ".EE"; in_code = 0 }
function term(head, text) { print ".TP"; print head; print marked(text) }

BEGIN {
  print ".\\\" made from --help by man.awk"
  printf ".TH %s 1 \"\" \"%s %s\" \"User Commands\"\n", toupper(plain(name)), plain(program), plain(version)
  section("NAME")
  about = tolower(substr(about, 1, 1)) substr(about, 2)
  sub(/\.$/, "", about)
  print plain(name) " \\- " plain(about)
}
/^[Uu]sage:/ {
  section("SYNOPSIS")
  if (sub(/^usage: /, "")) print ".B " plain($0)
  else reading = "usage"
  next
}
reading == "usage" { sub(/^ */, ""); print ".B " plain($0); reading = "text"; section_next = "DESCRIPTION"; next }
/^Help Options:$/ { section("OPTIONS"); reading = "options"; next }
/^Application Options:$/ { reading = "options"; n_blank = 0; next }
reading == "options" && /^  -/ {
  match($0, /^  (-h, )?--[a-z0-9-]+(=[^ "]*("[^"]*")?)?/)
  head = substr($0, 3, RLENGTH - 2)
  rest = substr($0, RLENGTH + 1)
  sub(/^ */, "", rest)
  value = index(head, "=") > 0 ? substr(head, index(head, "=") + 1) : ""
  sub(/=.*/, "", head)
  term("\\fB" plain(head) "\\fR" (value != "" ? "=\\fI" plain(value) "\\fR" : ""), rest)
  next
}
reading == "options" && /^[^ ]/ && !n_blank { print marked($0); next } # an option's text may have lines of its own
/^$/ { end_code(); in_list = 0; n_blank++; if (reading == "options") reading = "text"; next }
/^Examples?:$/ { section("EXAMPLES"); print ".EX"; in_code = 1; next }
in_code { print plain($0); next }
/^Exit status: / { section("EXIT STATUS"); sub(/^Exit status: /, ""); print marked($0); next }
/^  [^ ]/ && (in_list || reading == "") { # a verb, a figure, a part
  section(reading == "" ? "COMMANDS" : at_section)
  item = $1
  sub(/^  [^ ]+ */, "")
  term("\\fB" plain(item) "\\fR", $0)
  next
}
{
  if (at_section == "SYNOPSIS") section("DESCRIPTION")
  else if (at_section == "OPTIONS" || at_section == "EXAMPLES" || at_section == "COMMANDS") section("NOTES")
  paragraph()
  print marked($0)
  in_list = /:$/
}
END {
  end_code()
  section("FILES")
  term("\\fImodels\\fR, \\fItopologies\\fR", "what is described: models, clusters, GPUs, frameworks. A bare name is looked up in these folders: of the working directory, of $STEPSIM_DATA, of " plain(data))
  section("ENVIRONMENT")
  term("\\fBSTEPSIM_DATA\\fR", "a folder with models and topologies of your own")
  section("SEE ALSO")
  n = split(see, pages, " ")
  for (i = 1; i <= n; i++) printf "\\fB%s\\fR(1)%s\n", plain(pages[i]), i < n ? "," : ""
}
