PYTHON ?= python3
VENV := .venv
SOURCES := pyproject.toml CMakeLists.txt LICENSE README.md $(shell find src engine benchmarks -type f -not -path "*/__pycache__/*")

.PHONY: demo test test-cross clean

# The main job: three learners on the packaged images, with the base install only.
demo: $(VENV)/installed
	$(VENV)/bin/everbit demo --out out/demo

# Style, types and every test; brings PyTorch.
test: $(VENV)/installed-for-tests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest

# The same bits on ARM, RISC-V, Cortex-M and every instruction set of this machine; installs cross compilers and emulators from Debian.
test-cross:
	$(PYTHON) tools/cross/run.py

clean:
	rm -rf $(VENV) build out .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(SOURCES) | $(VENV)/bin/pip
	$(VENV)/bin/python -m pip install .
	touch $@

# Includes the base install, so that the demo does not install again.
$(VENV)/installed-for-tests: $(SOURCES) constraints.txt | $(VENV)/bin/pip
	$(VENV)/bin/python -m pip install --constraint constraints.txt ".[test]"
	touch $(VENV)/installed $@
