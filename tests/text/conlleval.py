"""Literal translation of conlleval, the script of the CoNLL shared tasks: the reference for counts of spans."""

from __future__ import annotations

import re


def parts(tag):
    match = re.match(r"^([^-]*)-(.*)$", tag)
    return match.groups() if match else (tag, "")


def end_of_chunk(prev_tag, tag, prev_type, kind):
    end = False
    if prev_tag == "B" and tag == "B":
        end = True
    if prev_tag == "B" and tag == "O":
        end = True
    if prev_tag == "I" and tag == "B":
        end = True
    if prev_tag == "I" and tag == "O":
        end = True
    if prev_tag not in ("O", ".") and prev_type != kind:
        end = True
    return end


def start_of_chunk(prev_tag, tag, prev_type, kind):
    start = False
    if prev_tag == "B" and tag == "B":
        start = True
    if prev_tag == "I" and tag == "B":
        start = True
    if prev_tag == "O" and tag == "B":
        start = True
    if prev_tag == "O" and tag == "I":
        start = True
    if tag not in ("O", ".") and prev_type != kind:
        start = True
    return start


def counts(y_true, y_pred):
    """Return (correct, true, predicted) spans of all types, and (tokens, correct tokens)."""
    correct_chunks = found_correct = found_guessed = tokens = right = 0
    in_correct = False
    last_correct, last_correct_type, last_guessed, last_guessed_type = "O", "", "O", ""
    # sentence boundaries are lines with the tag O in both columns
    for correct_tags, guessed_tags in zip(y_true, y_pred):
        for correct, guessed, is_token in [
            *((c, g, True) for c, g in zip(correct_tags, guessed_tags)),
            ("O", "O", False),
        ]:
            correct_tag, correct_type = parts(correct)
            guessed_tag, guessed_type = parts(guessed)
            if in_correct:
                end_correct = end_of_chunk(last_correct, correct_tag, last_correct_type, correct_type)
                end_guessed = end_of_chunk(last_guessed, guessed_tag, last_guessed_type, guessed_type)
                if end_correct and end_guessed and last_guessed_type == last_correct_type:
                    in_correct = False
                    correct_chunks += 1
                elif end_correct != end_guessed or guessed_type != correct_type:
                    in_correct = False
            start_correct = start_of_chunk(last_correct, correct_tag, last_correct_type, correct_type)
            start_guessed = start_of_chunk(last_guessed, guessed_tag, last_guessed_type, guessed_type)
            if start_correct and start_guessed and guessed_type == correct_type:
                in_correct = True
            found_correct += start_correct
            found_guessed += start_guessed
            if is_token:
                right += correct == guessed
                tokens += 1
            last_guessed, last_correct = guessed_tag, correct_tag
            last_guessed_type, last_correct_type = guessed_type, correct_type
    return (correct_chunks, found_correct, found_guessed), (tokens, right)
