"""Formulas as MathML, which browsers typeset by themselves: the site needs no network for them."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

__all__ = ["setup"]


def setup(app: Any) -> None:
    """Add a renderer of formulas to Sphinx, and choose it.

    Parameters
    ----------
    app : sphinx.application.Sphinx
        Of the build.
    """
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.config.html_math_renderer = "mathml"


def _inline(translator: Any, node: Any) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _display(translator: Any, node: Any) -> None:
    translator.body.append(
        f'<div class="formula">{convert(node.astext(), display="block")}</div>\n'
    )
    raise nodes.SkipNode
