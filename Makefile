# Thin: what is built and tested stands in meson.build. `make deps` installs Debian packages when something is missing.
BUILD = build

.PHONY: all deps demo check bench clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD)

deps:
	.ci/deps

demo: deps
	$(MAKE) --no-print-directory all
	plots/demo.sh $(BUILD)/sim/stepsim out

check: deps
	.ci/check $(BUILD)

bench: deps
	$(MAKE) --no-print-directory all
	meson test -C $(BUILD) --benchmark --verbose

clean:
	rm -rf $(BUILD) $(BUILD)-sanitize out
