"""The built-in serializers and deserializers; a scenario cannot load others.

The application passes text (`r5 xxxx`), whose first word is the record's name. IntegerSerializer serializes the number
in that name: 5.

Source: org.apache.kafka.common.serialization, KafkaProducer.doSend, CompletedFetch.parseRecord
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cluster.config import DESERIALIZERS, FAILING, INTEGER, SERIALIZERS, STRING, ConsumerConfig, ProducerConfig
from replica.config import items_of
from replica.errors import NotConvertible

INTEGER_BYTES = 4
_LOWEST, _HIGHEST = -(2**31), 2**31 - 1
_NUMBER = re.compile(rb"[+-]?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Serializers:
    """The serializers of a producer; `failing` are the names of records for which FailingSerializer fails."""

    key: str
    value: str
    failing: tuple[str, ...]

    @property
    def names_apart(self) -> bool:
        """True if a serialized value does not begin with the record's name."""
        return self.value == f"{INTEGER}Serializer"

    def key_bytes(self, key: bytes | None, record: str) -> bytes | None:
        """Serialize a key; `record` is the record's name.

        Raises:
            NotConvertible: if the serializer fails.
        """
        if key is None:
            return None
        self._maybe_fail(self.key, record, "key.serializer")
        if self.key != f"{INTEGER}Serializer":
            return key
        number = int(key) if _NUMBER.fullmatch(key) else _HIGHEST + 1
        if not _LOWEST <= number <= _HIGHEST:
            text = key.decode(errors="replace")
            raise NotConvertible(
                f"{self.key} (key.serializer) cannot serialize `{text}`, which is not a 32-bit integer"
            )
        return _integer(number)

    def value_bytes(self, value: bytes | None, record: str) -> bytes | None:
        """Serialize a value; `record` is the record's name.

        Raises:
            NotConvertible: if the serializer fails.
        """
        if value is None:
            return None
        self._maybe_fail(self.value, record, "value.serializer")
        if self.value != f"{INTEGER}Serializer":
            return value
        return _integer(int(record.lstrip("abcdefghijklmnopqrstuvwxyz")))

    def _maybe_fail(self, serializer: str, record: str, key: str) -> None:
        if serializer == f"{FAILING}Serializer" and record in self.failing:
            raise NotConvertible(f"{serializer} ({key}) failed for the record {record}")


@dataclass(frozen=True, slots=True)
class Deserializers:
    """The deserializers of a consumer; `failing` are the names of records for which FailingDeserializer fails."""

    key: str
    value: str
    failing: tuple[str, ...]

    def read(self, key: bytes | None, value: bytes | None, record: str) -> None:
        """Check that key and value can be deserialized; null always can. `record` is the record's name.

        Raises:
            NotConvertible: if a deserializer fails.
        """
        if key is not None:
            self._read(self.key, key, record, "key")
        if value is not None:
            self._read(self.value, value, record, "value")

    def _read(self, deserializer: str, data: bytes, record: str, what: str) -> None:
        if deserializer == f"{INTEGER}Deserializer" and len(data) != INTEGER_BYTES:
            found = f"{len(data)} bytes" if len(data) != 1 else "1 byte"
            raise NotConvertible(f"{deserializer} expects {INTEGER_BYTES} bytes, but the {what} has {found}")
        if deserializer == f"{FAILING}Deserializer" and record in self.failing:
            raise NotConvertible(f"{deserializer} failed for the {what} of the record {record}")


def serializers_of(config: ProducerConfig) -> Serializers | None:
    """Return a producer's serializers, None for the default StringSerializer, which emits no events."""
    if config.key_serializer == config.value_serializer == SERIALIZERS[0]:
        return None
    return Serializers(config.key_serializer, config.value_serializer, items_of(config.failing_records))


def deserializers_of(config: ConsumerConfig) -> Deserializers | None:
    """Return a consumer's deserializers, None for the default StringDeserializer, which emits no events."""
    if config.key_deserializer == config.value_deserializer == DESERIALIZERS[0]:
        return None
    return Deserializers(config.key_deserializer, config.value_deserializer, items_of(config.failing_records))


TEXT = Serializers(f"{STRING}Serializer", f"{STRING}Serializer", ())
READS_TEXT = Deserializers(f"{STRING}Deserializer", f"{STRING}Deserializer", ())


def _integer(number: int) -> bytes:
    return number.to_bytes(INTEGER_BYTES, "big", signed=True)
