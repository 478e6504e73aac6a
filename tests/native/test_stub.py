"""The types of the compiled extension are those that its bindings say."""

import ast

from . import stub


def functions(text):
    """Return what a stub has: parameters of every function by its name, classes among the names."""
    found = {}

    def walk(node, name):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef):
                own = f"{name}.{child.name}"
                found.setdefault(own, []).append(getattr(child, "args", None))
                walk(child, own)

    walk(ast.parse(text), "")
    return found


def test_stub_is_that_of_the_bindings():
    """`python tests/native/stub.py` writes it anew. Another nanobind may word types otherwise."""
    kept, made = stub.PATH.read_text(), stub.generated()
    kept_functions, made_functions = functions(kept), functions(made)
    assert kept_functions.keys() == made_functions.keys()
    is_same_nanobind = kept.splitlines()[0] == made.splitlines()[0]
    for name, parameters in made_functions.items():
        for own, expected in zip(kept_functions[name], parameters, strict=True):
            if own is not None and is_same_nanobind:
                assert ast.dump(own) == ast.dump(expected), name
            elif own is not None:
                assert [arg.arg for arg in own.args] == [arg.arg for arg in expected.args], name
