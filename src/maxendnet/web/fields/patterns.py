"""Regular expressions for values: prices, dates, numbers and more."""

from __future__ import annotations

import re

PATTERNS = {
    "price": re.compile(r"(?:[$€£¥₹]|USD|EUR|GBP)\s*\d[\d.,]*|\d[\d.,]*\s*(?:[$€£¥₹]|USD|EUR|GBP|kr\b)"),
    "only_price": re.compile(r"^\W*(?:[$€£¥₹]|USD|EUR|GBP)?\s*\d[\d.,]*\s*(?:[$€£¥₹]|USD|EUR|GBP)?\W*$"),
    "currency": re.compile(r"[$€£¥₹]"),
    "year": re.compile(r"\b(?:19|20)\d\d\b"),
    "month": re.compile(r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b", re.IGNORECASE),
    "date": re.compile(r"\b\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\b"),
    "isbn": re.compile(r"\b97[89][\d -]{10,14}\b"),
    "long_number": re.compile(r"\b\d{8,}\b"),
    "phone": re.compile(r"\(?\d{3}\)?[\s.-]\d{3}[\s.-]\d{4}\b|\+\d[\d\s()-]{7,}"),
    "url": re.compile(r"https?://|www\.|\.(?:com|org|net|edu)\b"),
    "mail": re.compile(r"\S@\S+\.\w"),
    "colon_end": re.compile(r":\s*$"),
    "colon": re.compile(r"\w:\s"),
    "percent": re.compile(r"\d\s*%"),
    "unit": re.compile(r"\d\s*(?:lbs?|kg|mm|cm|in|oz|mpg|mp|ml|g|hp|gb|mb|px|km|mi|min|h)\b", re.IGNORECASE),
    "model_code": re.compile(r"\b(?=\w*\d)(?=\w*[A-Z])[A-Z0-9-]{4,}\b"),
    "parenthesis": re.compile(r"\(.*\)"),
    "by": re.compile(r"^\s*by\b", re.IGNORECASE),
    "list": re.compile(r",.*,"),
    "number": re.compile(r"^\W*\d+\W*$"),
    "decimal": re.compile(r"\d\.\d"),
    "slash": re.compile(r"/"),
    "zip": re.compile(r"\b[A-Z]{2}\s+\d{5}\b"),
    "feet": re.compile(r"\d\s*['\u2032\u2019-]\s*\d{1,2}\b"),
}
