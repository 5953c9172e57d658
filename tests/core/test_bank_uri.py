"""Locations of memory banks: invalid URLs are refused instead of being stored with their password."""

from pathlib import Path

import pytest

from evokernel.core.bank_uri import ServerUrl, parse_location, redact_password
from evokernel.core.errors import UserError

SECRET = "s3cret"


@pytest.mark.parametrize(
    "value",
    [
        f"postgresql://u:{SECRET}?x=y@host/db",
        f"postgresql://u:12?x={SECRET}@host/db",
        f"postgresql://u:a@b?x={SECRET}@host/db",
        f"postgresql://u@host/db?x={SECRET}@y",
        f" postgresql://u:{SECRET}@host/db",
        f"'postgresql://u:{SECRET}@host/db'",
        f"jdbc:postgresql://u:{SECRET}@host/db",
        f"POSTGRESQL://u:{SECRET}@host/db",
        f"host=db.example user=u password={SECRET}",
    ],
)
def test_invalid_url_is_refused_without_showing_its_password(value):
    for action in (parse_location, redact_password, lambda text: parse_location(Path(text))):
        with pytest.raises(UserError) as caught:
            action(value)
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_password_is_decoded_like_libpq_does():
    for encoded, decoded in (("a+b", "a+b"), ("a%2Bb", "a+b"), ("a%20b", "a b"), ("a%40b", "a@b")):
        location = parse_location(f"postgresql://u@host/db?password={encoded}")
        assert isinstance(location, ServerUrl)
        assert location.secrets == {"password": decoded}
        assert str(location) == "postgresql://u@host/db"


def test_valid_location_is_unchanged():
    assert str(parse_location("postgresql://host/db?user=me@realm")) == "postgresql://host/db?user=me%40realm"
    assert parse_location(str(parse_location("postgresql://host/db?user=me@realm"))) == parse_location("postgresql://host/db?user=me@realm")
    for value in ("bank.db", "", "/tmp/a b/at@home.db", "C:/banks/bank.db", "~/postgres/bank.db"):
        assert (parse_location(value), redact_password(value)) == (Path(value), value)
