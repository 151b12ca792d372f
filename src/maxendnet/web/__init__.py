"""Extract records from web pages. Requires the extra ``web``; the core never imports it."""

from typing import TYPE_CHECKING

from maxendnet.utils.lazy import lazily

if TYPE_CHECKING:
    from maxendnet.web.fields.labels import LabelError, PageLabels, read_labels
    from maxendnet.web.hierarchy.vision_tree import vision_tree
    from maxendnet.web.model.extractor import Extractor
    from maxendnet.web.model.record import Cell, Record, as_rows
    from maxendnet.web.model.schema import SchemaExtractor
    from maxendnet.web.pages.page import Page, PageError, UnreadPage, read_page
    from maxendnet.web.rendering.chromium import RenderError
    from maxendnet.web.rendering.render import render_pages
    from maxendnet.web.tool.evaluation import evaluate
    from maxendnet.web.tool.toy import toy_pages

_, __getattr__, __dir__ = lazily(__name__, __file__)

__all__ = [
    "Cell",
    "Extractor",
    "LabelError",
    "Page",
    "PageError",
    "PageLabels",
    "Record",
    "RenderError",
    "SchemaExtractor",
    "UnreadPage",
    "as_rows",
    "evaluate",
    "read_labels",
    "read_page",
    "render_pages",
    "toy_pages",
    "vision_tree",
]
