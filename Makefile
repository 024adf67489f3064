PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
INTEGRATIONS := .venv-integrations
SOURCES := pyproject.toml CMakeLists.txt LICENSE README.md $(shell find src engine benchmarks -type f -not -path "*/__pycache__/*")

.PHONY: demo test test-peers test-integrations test-cross test-sanitized clean

# The main job: three learners on the packaged images, with the base install only.
demo: $(VENV)/installed
	$(VENV)/bin/everbit demo --out out/demo

# Style, types and every test; brings PyTorch.
test: $(VENV)/installed-for-tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest

# What is compared with Larq Compute Engine and LiteRT, in an environment of its own: Larq's interpreter needs NumPy 1.
test-peers: $(PEERS)/installed-for-tests
	$(PEERS)/bin/python -m pytest tests/formats/importers tests/benchmarks tests/experiments/test_table2.py

# What meets other libraries, each an optional extra, in an environment of its own: they bring many packages.
test-integrations: $(INTEGRATIONS)/installed-for-tests
	$(INTEGRATIONS)/bin/python -m pytest tests/with_avalanche tests/experiments/test_logs.py tests/experiments/test_sweep.py

# The same bits on ARM, RISC-V, Cortex-M and every instruction set of this machine; installs cross compilers and emulators from Debian.
test-cross:
	$(PYTHON) tools/cross/run.py

# What runs the engine, with it built for the address and undefined-behavior sanitizers.
SANITIZERS = $(foreach library,asan ubsan stdc++,$(shell $(CXX) -print-file-name=lib$(library).so))
test-sanitized: $(VENV)/installed-for-tests
	$(VENV)/bin/python -m pip install --upgrade --no-deps --target build/sanitized -Cbuild-dir=build/sanitizing \
	  -Ccmake.define.EVERBIT_SANITIZE=ON .
	PYTHONPATH=build/sanitized LD_PRELOAD="$(SANITIZERS)" \
	  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=4 \
	  $(VENV)/bin/python -m pytest tests/engine tests/attacks tests/formats tests/learner

clean:
	rm -rf $(VENV) $(PEERS) $(INTEGRATIONS) build out .pytest_cache .mypy_cache .ruff_cache .hypothesis

%/bin/pip:
	$(PYTHON) -m venv $*

$(VENV)/installed: $(SOURCES) | $(VENV)/bin/pip
	$(VENV)/bin/python -m pip install .
	touch $@

# Includes the base install, so that the demo does not install again.
$(VENV)/installed-for-tests: $(SOURCES) constraints.txt | $(VENV)/bin/pip
	$(VENV)/bin/python -m pip install --constraint constraints.txt ".[test]"
	touch $(VENV)/installed $@

$(PEERS)/installed-for-tests: $(SOURCES) constraints.txt | $(PEERS)/bin/pip
	$(PEERS)/bin/python -m pip install --constraint constraints.txt ".[peers,test]"
	touch $@

$(INTEGRATIONS)/installed-for-tests: $(SOURCES) constraints.txt | $(INTEGRATIONS)/bin/pip
	$(INTEGRATIONS)/bin/python -m pip install --constraint constraints.txt ".[avalanche,ray,experiments]" "pytest>=7.4"
	touch $@
