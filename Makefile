# The two commands of the README are `make run` and `make test`; each installs the packages that it
# needs (with sudo where not root), builds and goes. Everything else is CMake's: see CMakePresets.json.
CMAKE_FLAGS ?= $(if $(shell command -v ccache),-DCMAKE_C_COMPILER_LAUNCHER=ccache)
export OMP_NUM_THREADS ?= 1

.PHONY: all run test soak arm bench install format clean asan tsan coverage

all: build/release/build.ninja
	cmake --build --preset release

# Train the embedded default with two workers under four systems, and show who was first.
run:
	tools/packages run
	$(MAKE) build/release/build.ninja
	cmake --build --preset release --target fast
	@tools/race build/release/fast
	@tools/next

# Configures anew: packages may have come since the last time, and with them the tests.
test:
	tools/packages test
	cmake --preset release $(CMAKE_FLAGS)
	cmake --build --preset release
	ctest --preset release -j 2 --no-tests=error

# The suites under the sanitizers, as .ci/run runs them.
asan tsan:
	tools/packages test
	cmake --preset $@ $(CMAKE_FLAGS)
	cmake --build --preset $@
	ctest --preset $@ -j 2 --no-tests=error

# Line coverage of src without the program, by folder. Counts of an older run are forgotten.
coverage:
	tools/packages coverage
	cmake --preset coverage $(CMAKE_FLAGS)
	cmake --build --preset coverage
	find build/coverage -name '*.gcda' -delete
	ctest --preset coverage -j 2 --no-tests=error
	tools/coverage.py build/coverage

# The tests on aarch64 under qemu, and the instructions that NEON saves: half an hour.
arm:
	tools/packages arm
	CMAKE_FLAGS="$(CMAKE_FLAGS)" tools/cross

# What got slower than the program of bench/baseline, and than beside PyTorch: five minutes.
bench:
	tools/packages bench
	cmake --preset release $(CMAKE_FLAGS)
	cmake --build --preset release --target fast
	bench/ratchet.py

# Hours, not minutes: fuzzing, builds without the optional libraries, aarch64, fresh oracles.
soak:
	tools/packages soak
	tools/soak

install: all
	cmake --install build/release

format:
	find include src tests bench examples '(' -name '*.[ch]' -o -name '*.inc' ')' -exec clang-format -i {} +

clean:
	rm -rf build

build/release/build.ninja: CMakePresets.json
	cmake --preset release $(CMAKE_FLAGS)
