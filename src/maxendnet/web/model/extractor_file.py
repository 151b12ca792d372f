"""What a model of web pages adds to a model file, written and read."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from maxendnet.estimators.file import ModelFileError, load, read, save
from maxendnet.web.fields.boundaries import Boundaries
from maxendnet.web.listings.split import SiteRecords
from maxendnet.web.model.calibration import Calibration
from maxendnet.web.model.field_history import FieldHistory
from maxendnet.web.model.systems import STRUCTURES

if TYPE_CHECKING:
    from maxendnet.web.model.extractor import Extractor

VERSION = 4
"""1 had no scale and levels of scores, 2 no bounds of values, 3 no listings."""


def save_extractor(extractor: Extractor, path: str | os.PathLike[str]) -> None:
    """Write a fitted extractor: the model of its estimator, and beside it what makes records of scores."""
    settings = {name: value for name, value in extractor.get_params(deep=False).items() if name != "estimator"}
    if not isinstance(settings["features"], str):
        settings["features"] = list(settings["features"])
    settings["several"] = list(settings["several"])
    application = {
        "kind": "web",
        "version": VERSION,
        "settings": settings,
        "default_estimator": extractor.estimator is None,
        "fields": extractor.fields_,
        "sites": extractor.sites_,
        "together": sorted(extractor.together_),
        "scale": extractor.scale_,
        "levels": extractor.levels_,
        "layout": extractor.layout_,
        "images": extractor.images_,
        "data": extractor.data_,
        "calibrations": {kind: asdict(curve) for kind, curve in extractor.calibrations_.items()},
        "memory": {
            site: {name: past._asdict() for name, past in histories.items()}
            for site, histories in extractor.memory_.items()
        },
        "boundaries": extractor.boundaries_.to_plain(),
        "kinds": extractor.kinds_,
        "attributes": extractor.attributes_,
        "overlap": extractor.overlap_,
        "listings": {site: records.to_plain() for site, records in extractor.listings_.items()},
    }
    save(extractor.estimator_, path, application)


def load_extractor(kind: type[Extractor], path: str | os.PathLike[str]) -> Extractor:
    """Read what `save_extractor` wrote.

    Raises
    ------
    ModelFileError
        It is no model of web pages, or damaged.
    """
    data = read(path).header.get("application") or {}
    if not isinstance(data, dict) or data.get("kind") != "web" or data.get("version") != VERSION:
        raise ModelFileError(
            f"{os.fspath(path)} is not a model of web pages that this version reads; maxendnet web train makes one."
        )
    estimator = load(path)
    try:
        extractor = kind(**data["settings"])
        # the default one may change with the number of labelled sites, one that was given stays
        extractor.estimator = None if data.get("default_estimator", False) else clone(estimator)
        extractor.estimator_ = estimator
        _restore(extractor, data)
        extractor.check_settings()
        _number(extractor.agreement)
        if STRUCTURES[extractor.model] is not type(estimator.model_.structure):
            raise ValueError(f"its model is {extractor.model!r}, and its weights are of another")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ModelFileError(
            f"{os.fspath(path)}: what it says about web pages is damaged ({what}); make it again with maxendnet web "
            "train."
        ) from error
    return extractor


def _restore(extractor: Extractor, data: dict[str, Any]) -> None:
    extractor.fields_, extractor.sites_ = _texts(data, "fields"), _texts(data, "sites")
    n = len(extractor.fields_)
    pairs = [(int(a), int(b)) for a, b in data["together"]]
    if not all(0 <= a < n and 0 <= b < n for a, b in pairs):
        raise ValueError(f"together has a place beyond the {n} fields")
    extractor.together_ = set(pairs)
    extractor.scale_, extractor.levels_ = _number(data["scale"]), [_number(x) for x in data["levels"]]
    if len(extractor.levels_) != n:
        raise ValueError(f"{n} fields have {len(extractor.levels_)} levels")
    extractor.layout_, extractor.images_ = bool(data["layout"]), bool(data["images"])
    extractor.data_ = bool(data.get("data", False))
    extractor.calibrations_ = {
        kind: Calibration(**{name: _number(value) for name, value in data["calibrations"][kind].items()})
        for kind in ("known", "new")
    }
    extractor.memory_ = {
        site: {name: _past(past) for name, past in of_fields.items()} for site, of_fields in data["memory"].items()
    }
    extractor.boundaries_ = Boundaries.from_plain(data["boundaries"])
    extractor.listings_ = {site: SiteRecords.from_plain(plain) for site, plain in data["listings"].items()}
    extractor.kinds_ = {str(name): str(kind) for name, kind in data["kinds"].items()}
    extractor.attributes_ = {str(name): str(attribute) for name, attribute in data["attributes"].items()}
    extractor.overlap_ = bool(data["overlap"])
    extractor.problems_ = []


def _past(data: dict[str, Any]) -> Any:
    if not isinstance(data["path"], str):
        raise TypeError("a path is no text")
    share, confidence = _number(data["share"]), _number(data["confidence"])
    return FieldHistory([int(kind) for kind in data["kinds"]], data["path"], share, confidence)


def _texts(data: dict[str, Any], name: str) -> list[str]:
    texts = data[name]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"{name} is no list of names")
    return texts


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise TypeError(f"{value!r} is no finite number")
    return value
