"""Parse HTML into a flat list of nodes, as browsers do. Depends only on selectolax.

Run as a script, this module serves another process: it reads frames of HTML and writes frames of JSON (see
`parser_process`). A parser in its own process can be stopped, whereas a call of a C library cannot.

selectolax (the Lexbor engine) builds the same tree as browsers, so that the boxes of a rendered page can be assigned to
its nodes. It has no depth limit, whereas lxml 6 silently drops content below 256 levels (2,048 with ``huge_tree``).
"""

from __future__ import annotations

import json
import signal
import struct
import sys
from typing import NamedTuple

HEADER = struct.Struct("<Q")
OUT_OF_TIME = int(getattr(signal, "SIGPROF", 0))
"""Signal that ends a process whose page takes too much processor time; 0 on Windows."""
MAX_NODES = 200_000
"""Maximum number of elements and texts of a page. Larger pages would take minutes and gigabytes."""


class RawTree(NamedTuple):
    """Nodes in document order; parents come before their children."""

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
    """Raised for a page with more than ``MAX_NODES`` nodes."""


def too_many_nodes() -> TooManyNodes:
    """Return the error for a page with more than ``MAX_NODES`` nodes."""
    return TooManyNodes(f"the page has more than {MAX_NODES:,} elements and texts; exclude it")


def parse(html: str) -> RawTree:
    """Return the tree of a page without comments.

    Raises
    ------
    TooManyNodes

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
        is_text = tag == "-text"
        if tag[:1] == "-" and not is_text:  # comments and similar nodes
            continue
        parent = -1 if node.parent is None else number.get(node.parent.mem_id, -1)
        if is_text:
            tree.add("#text", parent, node.text_content or "")
        else:
            number[node.mem_id] = len(tree.tags)
            tree.add(tag, parent, attributes={name: value or "" for name, value in node.attributes.items()})
        if len(tree.tags) > MAX_NODES:
            raise too_many_nodes()
    return tree


def limit_processor_time(seconds: float) -> None:
    """End the process after this processor time; 0 removes the limit. Does nothing on Windows."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def serve(seconds: float) -> None:
    """Answer frames until the input ends. A frame is eight bytes that encode its length, followed by UTF-8.

    A page that takes more than ``seconds`` of processor time ends the process, also within a call of the C library.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the caller, which then ends the input
    import selectolax.lexbor  # noqa: F401 - before the first page, whose limit does not include it

    if OUT_OF_TIME:
        signal.signal(OUT_OF_TIME, signal.SIG_DFL)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while True:
        head = source.read(HEADER.size)
        if len(head) < HEADER.size:
            return
        text = source.read(HEADER.unpack(head)[0]).decode("utf-8", "surrogatepass")
        limit_processor_time(seconds)
        try:
            answer = json.dumps({"tree": parse(text)})
        except TooManyNodes as error:
            answer = json.dumps({"refused": str(error)})
        except Exception as error:  # raised again by the caller
            answer = json.dumps({"error": f"{type(error).__name__}: {error}"})
        body = answer.encode()
        limit_processor_time(0.0)
        sink.write(HEADER.pack(len(body)) + body)
        sink.flush()


if __name__ == "__main__":
    serve(float(sys.argv[1]))
