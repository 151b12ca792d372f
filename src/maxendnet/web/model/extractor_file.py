"""Model files of extractors, which contain an estimator and the fitted attributes of the extractor."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

from maxendnet.estimators.file import ModelFileError, load, read, save
from maxendnet.utils.scikit_learn import clone
from maxendnet.web.fields.boundaries import Boundaries
from maxendnet.web.listings.split import SiteRecords
from maxendnet.web.listings.value_lists import ValueList
from maxendnet.web.model.calibration import Calibration
from maxendnet.web.model.field_history import FieldHistory
from maxendnet.web.model.systems import STRUCTURES

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor

VERSION = 4
"""Version 1 lacked ``scale`` and ``levels``, version 2 ``boundaries``, and version 3 ``listings``."""


def _names(plain: Any) -> list[str]:
    if not isinstance(plain, list) or not all(isinstance(name, str) for name in plain):
        raise TypeError(f"{plain!r} is not a list of names")
    return plain


def _name_map(plain: dict[str, Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in plain.items()}


def _number(plain: Any) -> Any:
    if isinstance(plain, bool) or not isinstance(plain, (int, float)) or not math.isfinite(plain):
        raise TypeError(f"{plain!r} is not a finite number")
    return plain


def _calibrations(plain: dict[str, Any]) -> dict[str, Calibration]:
    curves = {kind: {name: _number(value) for name, value in plain[kind].items()} for kind in ("known", "new")}
    return {kind: Calibration(**curve) for kind, curve in curves.items()}


def _history(plain: dict[str, Any]) -> FieldHistory:
    if not isinstance(plain["path"], str):
        raise TypeError("the path of a field is not text")
    kinds = [int(kind) for kind in plain["kinds"]]
    return FieldHistory(kinds, plain["path"], _number(plain["share"]), _number(plain["confidence"]))


class Codec(NamedTuple):
    """Conversion of a fitted attribute to JSON values and back."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


FLAG = Codec(bool, bool)
ATTRIBUTES: dict[str, Codec] = {
    "fields": Codec(list, _names),
    "sites": Codec(list, _names),
    "together": Codec(sorted, lambda pairs: {(int(a), int(b)) for a, b in pairs}),
    "scale": Codec(float, _number),
    "levels": Codec(list, lambda levels: [_number(level) for level in levels]),
    "varying": Codec(list, _names),
    "layout": FLAG,
    "images": FLAG,
    "data": FLAG,
    "hidden": FLAG,
    "text_attributes": Codec(list, _names),
    "calibrations": Codec(lambda curves: {kind: asdict(curve) for kind, curve in curves.items()}, _calibrations),
    "memory": Codec(
        lambda sites: {site: {name: x._asdict() for name, x in fields.items()} for site, fields in sites.items()},
        lambda sites: {site: {name: _history(x) for name, x in fields.items()} for site, fields in sites.items()},
    ),
    "boundaries": Codec(Boundaries.to_plain, Boundaries.from_plain),
    "kinds": Codec(dict, _name_map),
    "attributes": Codec(dict, _name_map),
    "overlap": FLAG,
    "listings": Codec(
        lambda sites: {site: records.to_plain() for site, records in sites.items()},
        lambda sites: {site: SiteRecords.from_plain(records) for site, records in sites.items()},
    ),
    "lists": Codec(
        lambda sites: {site: {name: x.to_plain() for name, x in lists.items()} for site, lists in sites.items()},
        lambda sites: {
            site: {name: ValueList.from_plain(x) for name, x in lists.items()} for site, lists in sites.items()
        },
    ),
}
"""How to store each fitted attribute of an extractor, by its name without the final underscore."""
ABSENT: dict[str, Any] = {"data": False, "hidden": False, "varying": [], "text_attributes": [], "lists": {}}
"""Values of attributes that older files lack."""


def save_extractor(extractor: Extractor, path: str | os.PathLike[str]) -> None:
    """Write a fitted extractor to a model file."""
    settings = {name: value for name, value in extractor.get_params(deep=False).items() if name != "estimator"}
    if not isinstance(settings["features"], str):
        settings["features"] = list(settings["features"])
    settings["several"] = list(settings["several"])
    application = {
        "kind": "web",
        "version": VERSION,
        "settings": settings,
        "default_estimator": extractor.estimator is None,
        **{name: codec.encode(getattr(extractor, f"{name}_")) for name, codec in ATTRIBUTES.items()},
    }
    save(extractor.estimator_, path, application)


def load_extractor(kind: type[Extractor], path: str | os.PathLike[str]) -> Extractor:
    """Read a file that `save_extractor` wrote.

    Raises
    ------
    ModelFileError
        The file is not a model of web pages, or it is damaged.
    """
    data = read(path).header.get("application") or {}
    if not isinstance(data, dict) or data.get("kind") != "web" or data.get("version") != VERSION:
        raise ModelFileError(
            f"{os.fspath(path)} is not a model of web pages that this version reads; train one with maxendnet web "
            "train."
        )
    estimator = load(path)
    try:
        extractor = kind(**data["settings"])
        # keep only an estimator that the user has chosen: the default depends on the number of labelled sites
        extractor.estimator = None if data.get("default_estimator", False) else clone(estimator)
        extractor.estimator_ = estimator
        for name, codec in ATTRIBUTES.items():
            setattr(extractor, f"{name}_", codec.decode(data[name] if name in data else ABSENT[name]))
        extractor.problems_ = []
        n = len(extractor.fields_)
        if not all(0 <= a < n and 0 <= b < n for a, b in extractor.together_):
            raise ValueError(f"together refers to a field beyond the {n} fields")
        if len(extractor.levels_) != n:
            raise ValueError(f"{n} fields have {len(extractor.levels_)} levels")
        extractor.check_settings()
        _number(extractor.agreement)
        if STRUCTURES[extractor.model] is not type(estimator.model_.structure):
            raise ValueError(f"its model is {extractor.model!r}, but its weights belong to another model")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(
            f"{os.fspath(path)}: its part about web pages is damaged ({what}); train it again with maxendnet web train."
        ) from error
    return extractor
