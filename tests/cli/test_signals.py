"""A command that is ended by a signal leaves nothing behind, and says so by its exit code."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

PROGRAM = "import sys; from snapml_run.command_line import main; sys.exit(main())"


@pytest.fixture
def rows(tmp_path):
    """Return a text that takes some seconds to convert."""
    rng = np.random.default_rng(0)
    lines = [
        " ".join([str(y), *(f"{j + 1}:{x:.6f}" for j, x in enumerate(row))])
        for y, row in zip(rng.integers(0, 2, 2000), rng.normal(size=(2000, 20)), strict=True)
    ]
    path = tmp_path / "rows.svm"
    path.write_text(("\n".join(lines) + "\n") * 300)
    return path


def ended(words, folder, number, is_under_way):
    """Start a command, signal it once it is under way, and return its exit code and errors."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        deadline = time.monotonic() + 60.0
        while not is_under_way() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        errors = process.communicate(timeout=60)[1]
        return process.returncode, errors


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")],
)
@pytest.mark.parametrize("command", ["convert", "train"])
def test_a_signal_ends_a_command_and_leaves_nothing(tmp_path, rows, number, code, word, command):
    work = tmp_path / "work"
    work.mkdir()
    options = [work / "store"] if command == "convert" else ["--model", work / "model"]
    options += ["--chunk-bytes", "1MB"] if command == "convert" else []
    words = [command, rows, *options, "--zero-based", "no", "--quiet"]
    found, errors = ended(words, work, number, lambda: any(work.rglob("chunk-*")))
    assert (found, errors) == (code, f"snapml: {word}\n")
    assert list(work.rglob("*")) == []


def test_an_interrupt_during_imports_has_its_exit_code():
    program = "import builtins\nfound = builtins.__import__\n" + (
        "def imported(name, *rest):\n"
        "    if name == 'snapml.cli':\n"
        "        raise KeyboardInterrupt\n"
        "    return found(name, *rest)\n"
        "builtins.__import__ = imported\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program + PROGRAM], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (130, "snapml: interrupted\n")
