"""Kafka's wire protocol: bytes in, plain values out, and back; no sockets and no decisions.

primitives         varints, strings, counts, tagged fields; what makes a decoder safe
framing            size-prefixed frames out of a byte stream
versions           APIs and versions we speak and advertise, and their names
headers            request and response headers round a body
api_00_produce     our own codec: batches stay where they arrived, to be stamped in place
api_01_fetch       messages of Fetch; fetch_request_codec and fetch_response_codec, our own: record bytes stay in
                   their files until sendfile
api_18_api_versions  negotiating versions with a client that may be newer than we are
leaders            hints about a partition's leader, shared by Produce and Fetch
cold, entities     every other API: kio's message classes behind plain values
"""
