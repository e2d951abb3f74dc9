# Everything works from a bare checkout; it needs only Python 3.11 or newer with pip and venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNELS := .venv-kernels

.PHONY: demo test test-kernels crash soak bench paper lint docs tutorials dist clean

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

# Kills, full disks, damaged files, storms of readers and odd requests, many times over; ends with a table of counts for
# docs/reliability.md, which also says how to run one part. PART is a share of the whole.
PART ?= 1
crash: $(VENV)/.test
	COUNTERPOP_CRASH=$(PART) $(BIN)/python -m pytest tests/crash

# The server under mixed load, with probes beside it.
MINUTES ?= 30
soak: $(VENV)/.test
	$(BIN)/python tests/crash/soak.py --minutes $(MINUTES)

# The documentation site, in site/. Broken links and anchors, and every other warning, are errors.
docs: $(VENV)/.docs
	$(BIN)/yamllint --strict mkdocs.yml .github .pre-commit-config.yaml CITATION.cff
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html in a browser."

# Each tutorial in an environment of its own, made by the commands it names, with the time it takes.
tutorials:
	$(PYTHON) docs/tutorials.py

# The package as it is published, in dist/. With REPOSITORY (an address) and TAG, the links of README.md become absolute and
# pyproject.toml gets its URLs: that changes both files, so do it in a fresh checkout, as the release workflow does.
dist: $(VENV)/.dist
	rm -rf dist
	$(if $(REPOSITORY),$(BIN)/python docs/publishing.py $(REPOSITORY) $(TAG))
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

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
	$(BIN)/python benchmarks/bench_index.py --items 100000
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

$(VENV)/.docs: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

$(VENV)/.dist: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dist]'
	touch $@

$(VENV)/.bench: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

clean:
	rm -rf $(VENV) $(KERNELS) demo build dist site src/*.egg-info
