"""The error of files and texts that cannot be read."""

from __future__ import annotations


class TextError(ValueError):
    """A column file, a template, a word list or a tag sequence is not what it should be; the message says where."""

    __module__ = "maxendnet.text"  # where users find it
