"""The drawing and the table of rooms in ``architecture.md``, from the contracts and the docstrings.

``python docs/rooms.py`` writes them anew; ``tests/architecture/test_rooms.py`` asks whether they
are what the repository says.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

__all__ = ["generated", "with_rooms"]

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- rooms: begin -->", "<!-- rooms: end -->"
# Folders of C++ have no docstring.
_WITHOUT_PYTHON = {
    "core/include/snapml": "traits of losses, penalties, coordinate steps, views, random numbers",
    "core/include/snapml/losses": "a loss a file: value, derivatives, conjugate, dual state, step",
    "native/bindings": "what Python calls: arguments checked, the GIL released",
    "native/threads": "the pool of threads, and memory for them",
    "native/rows": "layouts of rows, and products with them",
    "native/dual": "coordinate ascent's sweeps, and the sums of its certificate",
    "native/primal": "the fused pass, and products with the Hessian",
    "native/small": "a whole fit on rows that stay in the cache",
    "native/squares": "sums over few dense columns, and least squares on them",
    "native/columns": "coordinate descent on packed columns and on their Gram matrix",
    "native/many": "many models in one read",
    "native/text": "svmlight, click logs, numbers in text",
    "native/trees": "scikit-learn's arrays of a tree, made and walked",
    "native/trees/bins": "columns as bytes",
    "native/trees/histogram": "trees from histograms of bins",
    "native/trees/exact": "scikit-learn's own trees, on all threads",
    "native/trees/bindings": "what Python calls of them",
}


def generated() -> str:
    """Return the drawing of layers and the table of rooms.

    Returns
    -------
    str
        Markdown.
    """
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contracts = [each for each in config["contracts"] if each["type"] == "layers"]
    parts = ["Each line sees those below it, and names on one line do not see each other.\n"]
    parts += ["```", *_drawing(contracts), "```\n", "| room | what it is |", "|---|---|"]
    parts += [f"| `{name}` | {what} |" for name, what in _rooms()]
    return "\n".join(parts) + "\n"


def with_rooms(text: str) -> str:
    """Return a page with the generated part in its place.

    Parameters
    ----------
    text : str
        The page, with both markers.

    Returns
    -------
    str
        The page.
    """
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{generated()}{END}{after}"


def _drawing(contracts: list[dict[str, list[str]]]) -> Iterator[str]:
    """Yield the layers of the whole package, then those inside its rooms, side by side."""
    whole, *inside = contracts
    yield "snapml"
    for layer in whole["layers"]:
        yield f"    {_plain(layer)}"
    for contract in inside:
        yield contract["containers"][0].removeprefix("snapml.")
        for layer in contract["layers"]:
            yield f"    {_plain(layer)}"


def _plain(layer: str) -> str:
    return layer.replace("snapml.", "").replace(" : ", " | ")


def _rooms() -> Iterator[tuple[str, str]]:
    """Yield each folder of the package, and the first sentence that it says of itself."""
    package = ROOT / "snapml"
    found = dict(_WITHOUT_PYTHON)
    for path in package.rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(path.read_text()))
        if path.parent != package and text:
            first = text.partition("\n")[0].removesuffix(".")
            found[path.parent.relative_to(package).as_posix()] = first.replace("``", "`")
    return iter(sorted(found.items()))


if __name__ == "__main__":
    page = ROOT / "docs" / "architecture.md"
    page.write_text(with_rooms(page.read_text()))
