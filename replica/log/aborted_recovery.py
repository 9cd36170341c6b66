"""After an unclean stop the transaction indexes of the segments that were checked are made anew from their batches.

Source: Kafka LogLoader.recoverSegment, LogSegment.recover.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica.log.batches.control_records import read_end_transaction_marker
from replica.log.batches.records import CONTROL, TRANSACTIONAL, BatchHeader
from replica.log.producers.producer_state import ProducerStateManager
from replica.log.segment import Segment


def rebuild_aborted(
    checked: Sequence[Segment], batches: Iterable[tuple[Segment, int, BatchHeader]], state: ProducerStateManager
) -> None:
    """A transaction may begin before the segments that were checked, so it is followed from there to its marker.

    batches: (segment, position, header), from where `state` was taken on
    """
    for segment, position, header in batches:
        if not header.attributes & TRANSACTIONAL:
            continue
        is_control = header.attributes & CONTROL
        marker = read_end_transaction_marker(segment.read_batch(position, header)) if is_control else None
        completed = state.update(header, marker)
        if completed is not None:
            if completed.is_aborted and segment in checked:
                segment.aborted.append(state.transactions.aborted(completed))
            state.transactions.complete(completed)
    for segment in checked:
        segment.write_indexes()
