"""UnregisterBroker between its message and the controller. source: ControllerApis.handleUnregisterBroker"""

from __future__ import annotations

from collections.abc import Sequence

from cluster.messages.admin.requests import AdminRequest, Entry, RequestEntries
from controller.inputs import SingleReply, UnregisterBroker


def unregister_broker(asked: AdminRequest) -> RequestEntries:
    entry = Entry(None, UnregisterBroker(now_us=asked.now_us, broker_id=int(asked.request.broker_id)))

    def values(replies: Sequence[SingleReply]) -> dict[str, object]:
        (reply,) = replies
        return {"error_code": reply.error, "error_message": None}

    return RequestEntries([entry], values)
