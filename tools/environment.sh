# Sourced by tools/test and tools/quickstart: makes .venv with the given extras, and puts it on PATH.
# Usage: environment EXTRA,EXTRA... (from the repository's root)

environment() {
    local extras=$1
    local python=${PYTHON:-python3}
    # The stamp holds what was installed: the same declarations and extras need no second installation.
    local stamp=.venv/.installed-$extras
    local wanted
    wanted=$(cat pyproject.toml constraints.txt | cksum)
    if [ ! -x .venv/bin/python ]; then
        echo "making .venv with $("$python" --version 2>&1)"
        "$python" -m venv .venv || {
            echo "error: cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2
            return 1
        }
    fi
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        echo "installing .[$extras]"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[$extras]" || return 1
        echo "$wanted" >"$stamp"
    fi
    PATH=$PWD/.venv/bin:$PATH
    export PATH
}
