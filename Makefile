# A thin front end: meson.build says what is built and tested. `make deps` installs missing Debian packages.
# If this folder is read-only: make BUILD=/some/folder OUT=/another demo
BUILD = build
OUT = out
# published steps and configurations that ran out of memory: measured.csv, out_of_memory.csv
MEASURED = ../shared/measured

.PHONY: all programs deps demo check sanitize fuzz golden bench speed validation validation-cpu figures schedules plots clean

all:
	@.ci/setup "$(BUILD)"
	@ninja -C "$(BUILD)"

# stepsim and stepreal, without tests
programs:
	@.ci/setup "$(BUILD)"
	@ninja -C "$(BUILD)" programs

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

# published steps, predicted against measured, and what each part of the model is worth; writes docs/validation.md
validation: deps
	$(MAKE) --no-print-directory programs
	docs/validation.sh "$(BUILD)/sim/stepsim" $(MEASURED)

# tasks that other simulators were timed with; writes docs/speed.md
speed: deps
	$(MAKE) --no-print-directory all
	docs/speed.sh "$(BUILD)" >docs/speed.md.new
	mv docs/speed.md.new docs/speed.md

# steps on this machine's cores, predicted against measured; writes docs/validation-cpu.txt, a table of that page
validation-cpu: deps
	$(MAKE) --no-print-directory programs
	real/validate-cpu.sh "$(BUILD)" 5 docs/validation-cpu.txt

# figures from the literature beside what stepsim prints; writes docs/figures.md
figures: deps
	$(MAKE) --no-print-directory programs
	docs/figures.sh "$(BUILD)/sim/stepsim" >docs/figures.md.new
	mv docs/figures.md.new docs/figures.md

# every pipeline schedule drawn, with its bubble and memory; writes docs/schedules.md
schedules: deps
	$(MAKE) --no-print-directory programs
	docs/schedules.sh "$(BUILD)/sim/stepsim" docs

# every figure of stepsim plot, drawn; writes docs/plots.md
plots: deps
	$(MAKE) --no-print-directory programs
	docs/plots.sh "$(BUILD)/sim/stepsim" docs

clean:
	rm -rf "$(BUILD)" "$(BUILD)-sanitize" "$(BUILD)-sanitize-all" "$(BUILD)-fuzz" "$(OUT)"
