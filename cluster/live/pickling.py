"""Values on their way between processes of one run."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


def pickled(value: object) -> bytes:
    data = io.BytesIO()
    _Pickler(data, pickle.HIGHEST_PROTOCOL).dump(value)
    return data.getvalue()


def unpickled(data: bytes | memoryview | bytearray) -> Any:
    return pickle.loads(data)  # noqa: S301  # from a process of this run, over a pair that one of the two inherited


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """A dataclass is made anew from its fields."""
        if isinstance(value, type) or not is_dataclass(value):
            return NotImplemented
        return _made, (type(value), {field.name: getattr(value, field.name) for field in fields(value)})


def _made(kind: type[Any], values: Mapping[str, Any]) -> Any:
    return kind(**values)
