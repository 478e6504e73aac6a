"""From a ``.cu`` file to a shared library, by g++, kept until a source changes."""

import functools
import hashlib
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from snapml.kernels import Program

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\(.*?\)\s*)?(\w+)\(")
DYNAMIC_SHARED = re.compile(r"extern\s+__shared__\s+(.+?)\s+(\w+)\[\];")

# Kernels are instrumented, the emulator is not: under TSan, what its own reads and writes imply
# about order must not hide a race between theirs.
SANITIZERS = {
    "": ([], []),
    "address": (
        ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
        ["-DEMULATOR_ASAN"],
    ),
    "thread": (["-g", "-fsanitize=thread"], ["-DEMULATOR_TSAN"]),
}
FLAGS = ["-std=c++17", "-O1", "-fPIC", "-fno-math-errno", "-Wall", "-Wextra", "-Werror"]
FLAGS += ["-Wno-unknown-pragmas"]  # nvcc's "unroll"


def sanitizer_of_process() -> str:
    """Return for which sanitizer this process was started: "", "address" or "thread"."""
    return os.environ.get("SNAPML_EMULATOR_SANITIZER", "")


def environment_of(sanitizer: str) -> dict[str, str]:
    """Return the environment of a process for a sanitizer."""
    names = {"address": ["asan", "ubsan", "stdc++"], "thread": ["tsan"]}[sanitizer]
    commands = (["g++", f"-print-file-name=lib{name}.so"] for name in names)
    libraries = (subprocess.check_output(command, text=True).strip() for command in commands)
    return dict(
        os.environ,
        SNAPML_EMULATOR_SANITIZER=sanitizer,
        LD_PRELOAD=" ".join(libraries),
        ASAN_OPTIONS="detect_leaks=0",  # the interpreter keeps memory until it exits
        TSAN_OPTIONS="halt_on_error=1",
    )


@functools.cache
def build(program: Program, sanitizer: str) -> Path:
    """Return the library of a program's kernels, each as emulate_NAME and signature_NAME.

    A process can load it if it was started with that sanitizer's runtime: `environment_of`.
    """
    text = program.path.read_text()
    kernels = KERNEL.findall(text)
    # The one thing that no header can give g++: memory whose size the launch decides.
    text = DYNAMIC_SHARED.sub(r"\1* \2 = static_cast<\1*>(emulator::dynamic_shared());", text)
    exports = "".join(f"EMULATED_KERNEL({name})\n" for name in kernels)
    unit = (
        f'#include "cuda_on_cpu.hpp"\n#line 1 "{program.path.name}"\n{text}\n'
        f"namespace snapml::kernels {{}}\nusing namespace snapml::kernels;\n{exports}"
    )
    instrument, announce = SANITIZERS[sanitizer]
    start = ["g++", *FLAGS, *announce, f"-I{HERE}"]
    header = (HERE / "cuda_on_cpu.hpp").read_text()
    emulator = _compiled((HERE / "emulator.cpp").read_text(), header, [*start, "-c"], "emulator.o")
    command = [*start, *instrument, *program.options, "-shared", "-pthread", str(emulator)]
    return _compiled(unit, header + program.digest, command, f"{program.path.stem}.so")


def _compiled(text: str, included: str, command: list[str], name: str) -> Path:
    """Return what the command makes of a text, from the cache if it was made before."""
    digest = hashlib.sha256(repr((text, included, command)).encode()).hexdigest()[:24]
    result = CACHE / f"{digest}-{name}"
    if result.exists():
        return result
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        source, made = Path(folder) / "source.cpp", Path(folder) / name
        source.write_text(text)
        whole = [*command, str(source), "-o", str(made)]
        plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        done = subprocess.run(whole, capture_output=True, text=True, env=plain, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{shlex.join(whole)}\n{done.stderr}")
        made.replace(result)
    return result
