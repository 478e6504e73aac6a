"""The types of the compiled extension, as nanobind tells them.

``python tests/native/stub.py`` writes ``snapml/_native.pyi`` anew.
"""

import re
import subprocess
import sys
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "snapml" / "_native.pyi"
# What arrays are is checked when they come; dictionaries have words for keys.
_PLAIN = (
    (r"Annotated\[NDArray(\[[^\]]*\])?, dict\((?:[^()]|\([^()]*\))*\)\]", "NDArray[Any]"),
    (r"\bdict\b(?!\[)", "dict[str, Any]"),
    (r"\blist\b(?!\[)", "list[Any]"),
    (r"\btuple\b(?!\[)", "tuple[Any, ...]"),
    (r"\bobject\b", "Any"),
    (r"(?m)^compiler: str = .*$", "compiler: str"),
    (r"(?m)^import numpy\n", ""),
    (r"(?m)^from typing import .*$", "from typing import Any, overload"),
)


def generated():
    """Return the stub of the extension that is installed."""
    import nanobind
    from nanobind.stubgen import StubGen

    from snapml import _native

    made = StubGen(_native)
    made.put(_native)
    text = f"# Made by tests/native/stub.py with nanobind {nanobind.__version__}.\n{made.get()}"
    for pattern, instead in _PLAIN:
        text = re.sub(pattern, instead, text)
    return text


if __name__ == "__main__":
    PATH.write_text(generated())
    for command in ("format", "check --fix", "format"):  # long lines are broken first
        subprocess.run([sys.executable, "-m", "ruff", *command.split(), str(PATH)], check=True)
