"""What the trace says of a broker's logs when they are opened: which of them were whole, and where they end."""

from __future__ import annotations

from replica.log.broker_logs import BrokerLogs
from replica.trace.events import LogRecovered, Recorder
from replica.wording import torn_bytes


def state_recoveries(logs: BrokerLogs, node: str, recorder: Recorder) -> None:
    for name, recovery in logs.recoveries.items():
        log = logs.logs[name]
        how = "in order" if logs.was_clean else "without an orderly shutdown"
        cut = torn_bytes(recovery.truncated_bytes)
        high_watermark = logs.high_watermark_checkpoint(name)
        recorder.emit(
            LogRecovered(
                node=node,
                topic=name.topic,
                partition=name.partition,
                clean=logs.was_clean,
                log_start_offset=log.log_start_offset,
                log_end_offset=log.log_end_offset,
                high_watermark=high_watermark,
                size_bytes=recovery.truncated_bytes,
                reason=f"{node} comes back {how}: {name} ends at {log.log_end_offset}, "
                f"the checkpointed high watermark is {high_watermark}{cut}",
            )
        )
