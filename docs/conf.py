"""How Sphinx builds the site: ``sphinx-build -W docs build/site``, without the network."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib as mpl

import snapml

mpl.use("agg")
sys.path.insert(0, str(Path(__file__).parent))
from performance import write_performance_page  # beside this file, as mathml.py is

project = "snapml"
version = release = snapml.__version__
copyright = "the snapml developers"
extensions = [
    "myst_parser",
    "mathml",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
]
html_theme = "furo"
html_title = f"snapml {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
exclude_patterns = ["gallery/README*", "**/sg_execution_times.rst"]
# Names of headings are anchors: pages link to each other's sections.
myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath", "colon_fence"]
autosummary_generate = True
autosummary_ignore_module_all = False
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"  # the docstrings say shapes and dtypes, which annotations cannot
suppress_warnings = ["config.cache"]
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 10_000,
    "remove_config_comments": True,
}


def plain_links(app, name, source):
    """Turn links to files beside this folder into their names: the site does not hold them."""
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./([^)]+)\)", r"\1 (`\2`)", source[0])


def plain_references(app, what, name, obj, options, lines):
    """Turn references of inherited docstrings to pages of scikit-learn into their names."""
    lines[:] = [re.sub(r":(?:ref|term):`([^`<]+?)(?:\s*<[^>]*>)?`", r"\1", line) for line in lines]


def setup(app):
    """Make the pages that are made from results, and clean what comes from elsewhere."""
    write_performance_page(Path(__file__).parent)
    app.connect("source-read", plain_links)
    app.connect("autodoc-process-docstring", plain_references)
