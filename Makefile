# Everything works from a bare checkout; it needs only Python 3.11 or newer with pip and venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNELS := .venv-kernels

.PHONY: demo test test-kernels crash bench paper lint clean

demo: $(VENV)/.core
	$(BIN)/counterpop demo --out demo --force
	@echo "Open demo/report.html in a browser."

test: lint
	$(BIN)/python -m pytest

# The Triton kernels without a GPU, in Triton's interpreter, which needs an older NumPy: hence a second environment.
test-kernels: $(KERNELS)/.installed
	TRITON_INTERPRET=1 $(KERNELS)/bin/python -m pytest tests/test_device.py -k kernel

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pyright

# Kills, full disks, damaged files and storms of readers, many times over; takes about an hour. docs/reliability.md
crash: $(VENV)/.test
	COUNTERPOP_CRASH=100 $(BIN)/python -m pytest tests/crash -s

# Side by side with other packages; takes minutes. COUNTERPOP_DATA is the folder with the paper's data sets.
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/bench_training.py
	$(BIN)/python benchmarks/bench_methods.py
	$(BIN)/python benchmarks/bench_lightgcn.py --no-recbole
	$(BIN)/python benchmarks/bench_ranking.py
	$(BIN)/python benchmarks/bench_reading.py
	$(BIN)/python benchmarks/bench_audit.py
	$(BIN)/python benchmarks/bench_imports.py
	$(BIN)/python benchmarks/bench_pipeline.py
	$(BIN)/python benchmarks/bench_debias.py
	$(BIN)/python benchmarks/bench_serving.py
	$(BIN)/python benchmarks/bench_window.py

# The paper with MF: one seed takes under an hour on two cores, each further one about 20 minutes. DATA is as for bench.
DATA ?= $(or $(COUNTERPOP_DATA),../shared/data)
SEEDS ?= 1
paper: $(VENV)/.paper
	$(BIN)/counterpop paper all --data $(DATA) --out paper --backbone mf --seeds $(SEEDS)

$(VENV)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.test: $(VENV)/.core tests/debian.txt tests/recbole.txt
	sh tests/install_debian.sh
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r tests/recbole.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[lightfm]' \
		|| echo "LightFM does not build here (it needs a C compiler); its tests will skip" >&2
	touch $@

$(KERNELS)/.installed: tests/kernels.txt pyproject.toml
	$(PYTHON) -m venv $(KERNELS)
	$(KERNELS)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/kernels.txt
	$(KERNELS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

$(VENV)/.paper: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[paper]'
	touch $@

$(VENV)/.bench: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) $(KERNELS) demo build dist src/*.egg-info
