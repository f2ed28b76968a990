# minititans: `make` alone lists the targets. Needs Python 3.11 or newer.

PYTHON ?= python3
VENV   := .venv
# VENV's Python; every command below goes through it, so nothing needs to be activated.
PY     := $(VENV)/bin/python
# More options for JupyterLab, the tests and the benchmarks: `make lab LAB_ARGS=--no-browser`.
LAB_ARGS   ?=
TEST_ARGS  ?=
BENCH_ARGS ?=
# Two test files at a time, in the order of conftest.py; `make test TWO=` for one.
TWO        ?= -n 2 --dist loadfile --no-loadscope-reorder

# JupyterLab refuses to run as root (usual in containers) unless it is told to.
ALLOW_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: help setup lab test test-fast lint format notebooks screenshots exercises bench doctor clean clean-all

help:  ## list the targets (what `make` alone does)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.installed  ## create .venv and install everything into it, unless that is done

lab: setup  ## open JupyterLab on the course (only on this machine, with a token)
	$(PY) -m jupyterlab --ServerApp.ip=127.0.0.1 --ServerApp.root_dir="$(CURDIR)" \
		--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb $(ALLOW_ROOT) $(LAB_ARGS)

test: setup  ## run every test: tests/, docstring examples, notebooks; then lint
	$(PY) -m pytest $(TWO) --durations=20 $(TEST_ARGS)
	$(PY) -m pytest $(TWO) --nbval notebooks/ solutions/
	@$(MAKE) --no-print-directory lint

test-fast: setup  ## run tests/ and docstring examples, except those marked slow
	$(PY) -m pytest $(TWO) -m "not slow" $(TEST_ARGS)

lint: setup  ## check style, format and types; change nothing
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: setup  ## format every file, and fix what ruff can fix
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

notebooks: setup  ## run every notebook again and store its output
	$(PY) -m minititans.course.making.build

screenshots: setup  ## take the README's pictures of the course again (needs Chromium)
	$(PY) -m minititans.course.making.screenshots

exercises: setup  ## make exercises/ from solutions/; keeps a copy of those you worked on
	$(PY) -m minititans.course.making.exercises

bench: $(VENV)/.installed-bench  ## measure speed and memory (choose with BENCH_ARGS="...")
	$(PY) -m benchmarks $(BENCH_ARGS)

doctor: setup  ## show what this machine has, and what to do about anything missing
	$(PY) -m minititans.cli doctor

clean:  ## remove caches and build files; keep .venv
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -path ./$(VENV) -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) \
		-type d -prune -exec rm -rf {} +

clean-all: clean  ## remove .venv as well; `make setup` starts from nothing
	rm -rf $(VENV)

# The stamps are younger than the files they depend on exactly when the install is up to date.
$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "minititans needs Python 3.11 or newer, and '$(PYTHON)' is not that."; \
		echo "Install one from https://www.python.org/downloads/ or your package manager;"; \
		echo "if you have one under another name: make setup PYTHON=python3.12"; \
		exit 1; }
	@command -v git >/dev/null || { \
		echo "Note: git is not installed. The course runs without it, but you will want it"; \
		echo "to fetch updates and to keep your own changes: https://git-scm.com/downloads"; }
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || { \
		echo "Could not create the virtual environment $(VENV)."; \
		echo "On Debian and Ubuntu: sudo apt install python3-venv, then run make again."; \
		exit 1; }
	@echo "Installing into $(VENV): a few minutes and up to 2 GB the first time."
	$(PY) -m pip install --disable-pip-version-check -c constraints.txt -e '.[lab,test]'
	@# Without this, JupyterLab would open with a question about news.
	@mkdir -p $(VENV)/share/jupyter/lab/settings
	@printf '%s\n' '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false"}}' \
		> $(VENV)/share/jupyter/lab/settings/overrides.json
	@# nbgrader, which the tests need, stays out of students' sight.
	@mkdir -p $(VENV)/etc/jupyter/labconfig $(VENV)/etc/jupyter/jupyter_server_config.d
	@printf '%s\n' '{"disabledExtensions": {"@jupyter/nbgrader": true}}' \
		> $(VENV)/etc/jupyter/labconfig/page_config.json
	@printf '%s\n' '{"ServerApp": {"jpserver_extensions": {' \
		'"nbgrader.server_extensions.formgrader": false,' \
		'"nbgrader.server_extensions.validate_assignment": false,' \
		'"nbgrader.server_extensions.assignment_list": false,' \
		'"nbgrader.server_extensions.course_list": false}}}' \
		> $(VENV)/etc/jupyter/jupyter_server_config.d/nbgrader_off.json
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed
	$(PY) -m pip install --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@
