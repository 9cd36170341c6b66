"""Names for people."""

from __future__ import annotations

import pytest

from replica.wording import member_name

UUID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"


@pytest.mark.parametrize(
    ("member_id", "client_id", "name"),
    [
        (f"shop.app-{UUID}", "shop.app", "shop.app-1e6bf6"),
        (f"till-7-{UUID}", "shop.app", "till-7-1e6bf6"),  # a static member, by its group.instance.id
        (UUID, "shop app", "shop app-1e6bf6"),
        ("5u0B-sLhTQWbq2d0z6TfYg", "shop", "shop-z6TfYg"),
        ("5u0B-sLhTQWbq2d0z6TfYg", "", "5u0B-sLhTQWbq2d0z6TfYg"),
        ("somebody", "shop", "somebody"),
        ("x\x1b[31m", "", "x\\x1b[31m"),
    ],
)
def test_a_member_goes_by_its_client_and_the_end_of_its_uuid(member_id: str, client_id: str, name: str) -> None:
    assert member_name(member_id, client_id) == name
