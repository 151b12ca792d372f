"""HTML text to a flat list of nodes, as a browser would build the tree. Depends on selectolax alone.

Run as a program it serves another process: frames of text in, frames of JSON out (see `parser_process`). A page made to
be slow can then be stopped, which is not possible inside a call of a C library.

Why selectolax (its Lexbor engine): it builds the tree that browsers build, so that boxes of a rendered page belong to
the same nodes, and it has no limit of depth; lxml 6 silently drops what lies beyond 256 levels, or 2,048 when told to
take huge trees.
"""

from __future__ import annotations

import json
import struct
import sys
from typing import NamedTuple

HEADER = struct.Struct("<Q")
MOST_NODES = 200_000
"""Elements and texts of a page; beyond, it would take minutes and gigabytes."""


class RawTree(NamedTuple):
    """A tree in document order; parents come before their children."""

    tags: list[str]  # lower case; "#text" for text
    parents: list[int]  # -1 for the root
    texts: list[str]  # empty for elements
    attributes: list[dict[str, str]]

    def add(self, tag: str, parent: int, text: str = "", attributes: dict[str, str] | None = None) -> None:
        """Append a node."""
        self.tags.append(tag)
        self.parents.append(parent)
        self.texts.append(text)
        self.attributes.append({} if attributes is None else attributes)


class TooManyNodes(ValueError):
    """A page has more nodes than are read."""


def parse(html: str) -> RawTree:
    """The tree of a page, comments left out; `TooManyNodes` for one of more than ``MOST_NODES``.

    Examples
    --------
    >>> tree = parse("<p>a<b>c")
    >>> tree.tags
    ['html', 'head', 'body', 'p', '#text', 'b', '#text']
    >>> tree.parents
    [-1, 0, 0, 2, 3, 3, 5]
    """
    from selectolax.lexbor import LexborHTMLParser

    tree = RawTree([], [], [], [])
    root = LexborHTMLParser(html).root
    if root is None:
        return tree
    number: dict[int, int] = {}
    for node in root.traverse(include_text=True):
        tag = node.tag or ""
        text = tag == "-text"
        if tag[:1] == "-" and not text:  # comments and the like
            continue
        parent = node.parent
        above = -1 if parent is None else number.get(parent.mem_id, -1)
        if text:
            tree.add("#text", above, node.text_content or "")
        else:
            number[node.mem_id] = len(tree.tags)
            tree.add(tag, above, attributes={name: value or "" for name, value in node.attributes.items()})
        if len(tree.tags) > MOST_NODES:
            raise TooManyNodes(f"the page has more than {MOST_NODES:,} elements and texts: leave it out")
    return tree


def serve() -> None:
    """Answer frames until the input ends. A frame is its length in eight bytes, then UTF-8."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        head = source.read(HEADER.size)
        if len(head) < HEADER.size:
            return
        text = source.read(HEADER.unpack(head)[0]).decode("utf-8", "surrogatepass")
        try:
            answer = json.dumps({"tree": parse(text)})
        except TooManyNodes as error:
            answer = json.dumps({"refused": str(error)})
        except Exception as error:  # the other side raises it
            answer = json.dumps({"error": f"{type(error).__name__}: {error}"})
        body = answer.encode()
        sink.write(HEADER.pack(len(body)) + body)
        sink.flush()


if __name__ == "__main__":
    serve()
