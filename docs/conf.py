"""How Sphinx builds the site: `make docs`. No page loads anything from elsewhere."""

import os
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]
os.environ.setdefault("OMP_NUM_THREADS", "1")

import propcal  # noqa: E402

# the modules that propcal offers under its own name, wherever they live
for _name in ("bounds", "datasets", "displays"):
    sys.modules[f"propcal.{_name}"] = getattr(propcal, _name)

_PROJECT = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))[
    "project"
]
project, author, release = "propcal", "the propcal developers", _PROJECT["version"]
version = release
copyright = "the propcal developers; BSD 3-Clause licence"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "command_pages",
    "repository_links",
    "printed_output",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/GALLERY_HEADER.rst"]
templates_path = ["_templates"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = False
smartquotes = False  # "auto" is code as often as not
default_role = "py:obj"  # a name in backticks leads to its page

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# what a class page describes; methods that only propcal itself calls are left out
autosummary_context = {
    "described": {
        "Atoms": "from_frame from_files share save load to_frame fingerprint",
        "Audit": "plot to_html to_markdown to_json",
        "Comparison": "sentences plot to_html to_markdown to_json",
        "Correction": "apply score_one explain plot save load shared with_notes to_frame to_json from_json "
        "to_sql to_code",
        "Course": "plot to_frame to_html to_json to_metrics",
        "Discovery": "to_frame plot to_html to_json",
        "Explanation": "sentence to_frame plot",
        "FitSummary": "sentences to_frame",
        "Groups": "preview from_masks",
        "MCBoost": "fit fit_atoms predict paper",
        "Monitor": "add course save load",
        "MulticalibratedClassifier": "fit predict_proba predict raw_score explain",
        "PMCBoost": "fit fit_atoms predict paper",
        "Sites": "to_html to_json",
        "SqlExport": "to_frame",
    }
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "plot_gallery": True,
    "image_srcset": ["2x"],
    "matplotlib_animations": False,
    "capture_repr": ("_repr_html_", "__repr__"),
}

html_theme = "pydata_sphinx_theme"
html_title = f"propcal {release}"
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["propcal.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = (
    False  # it would be fetched, which browsers refuse for files on disk
)
html_math_renderer = "mathml"
html_context = {"default_mode": "auto"}
html_theme_options = {
    "show_toc_level": 2,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 6,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"start": [], "evidence": [], "index": []}
