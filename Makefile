# A thin front end: meson.build says what is built and tested. `make deps` installs missing Debian packages.
# If this folder is read-only: make BUILD=/some/folder OUT=/another demo
BUILD = build
OUT = out
# published steps and configurations that ran out of memory: measured.csv, out_of_memory.csv
MEASURED = ../shared/measured

# where `make install` puts things, and the folder that stands for / meanwhile
PREFIX = /usr/local
DESTDIR =

.PHONY: all programs install uninstall deb deps demo check sanitize fuzz golden bench speed validation validation-cpu figures schedules plots clean

all:
	@.ci/setup "$(BUILD)"
	@ninja -C "$(BUILD)"

# stepsim and stepreal, without tests
programs:
	@.ci/setup "$(BUILD)"
	@ninja -C "$(BUILD)" programs

# programs, data, documentation, man pages and completion; another prefix configures the build folder anew
install:
	@.ci/install "$(BUILD)" "$(PREFIX)" "$(abspath $(DESTDIR))"

# what the last `make install` or `meson install` put there
uninstall:
	@ninja -C "$(BUILD)" uninstall

# Debian packages in $(BUILD)-deb, of a build of their own
deb:
	@.ci/deb "$(BUILD)-deb"

deps:
	@.ci/deps

demo: deps
	@$(MAKE) --no-print-directory programs
	@plots/demo.sh "$(BUILD)/sim/stepsim" "$(OUT)" "$(BUILD)/real/stepreal"

check: deps
	@.ci/check "$(BUILD)"

# every test under AddressSanitizer and UndefinedBehaviourSanitizer, 10 minutes; `make check` does this for readers
# only
sanitize: deps
	.ci/sanitize "$(BUILD)-sanitize-all"

# every reader under the sanitizers with INPUTS random inputs each (clang); findings are kept in build-fuzz/findings
INPUTS = 60000
fuzz: deps
	.ci/fuzz "$(BUILD)-fuzz" $(INPUTS)

# what is printed for 3,000 plans drawn at random, against what was printed before; `make golden GOLDEN=update` keeps
# what is printed now
GOLDEN = check
golden: deps
	$(MAKE) --no-print-directory all
	tests/golden/golden.sh "$(BUILD)/sim/stepsim" "$(BUILD)/tests/draw_plans" "$(CURDIR)" $(GOLDEN)

bench: deps
	$(MAKE) --no-print-directory all
	meson test -C "$(BUILD)" --benchmark --verbose

# a page of docs/ with what its commands print now, those of the groups in $(2) too (docs/fill.sh)
define fill
	$(MAKE) --no-print-directory programs
	MEASURED=$(abspath $(MEASURED)) BUILD=$(abspath $(BUILD)) \
	  docs/fill.sh "$(BUILD)/sim/stepsim" docs/$(1).md $(2) >docs/$(1).md.new
	mv docs/$(1).md.new docs/$(1).md
endef

# published steps, predicted against measured, and what each part of the model is worth; fills docs/validation.md
validation: deps
	$(call fill,validation,measured parts fits)

# tasks that other simulators were timed with; writes docs/speed.md
speed: deps
	$(MAKE) --no-print-directory all
	docs/speed.sh "$(BUILD)" >docs/speed.md.new
	mv docs/speed.md.new docs/speed.md

# steps on this machine's cores, predicted against measured: a table of that page
validation-cpu: deps
	$(call fill,validation,cpu)

# figures from the literature beside what stepsim prints; writes docs/figures.md
figures: deps
	$(MAKE) --no-print-directory programs
	docs/figures.sh "$(BUILD)/sim/stepsim" >docs/figures.md.new
	mv docs/figures.md.new docs/figures.md

# every pipeline schedule drawn, with its bubble and memory; fills docs/schedules.md
schedules: deps
	$(call fill,schedules)

# every figure of stepsim plot, drawn by the commands of docs/plots.md
plots: deps
	$(MAKE) --no-print-directory programs
	docs/plots.sh "$(BUILD)/sim/stepsim" docs/plots

clean:
	rm -rf "$(BUILD)" "$(BUILD)-sanitize" "$(BUILD)-sanitize-all" "$(BUILD)-fuzz" "$(BUILD)-deb" "$(OUT)"
