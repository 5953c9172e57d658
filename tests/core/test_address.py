"""Where a bank is: what is no URL of ours is refused rather than kept with its password."""

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
def test_what_would_keep_a_password_is_refused(value):
    for action in (parse_location, redact_password, lambda text: parse_location(Path(text))):
        with pytest.raises(UserError) as caught:
            action(value)
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_password_is_what_libpq_reads():
    for written, meant in (("a+b", "a+b"), ("a%2Bb", "a+b"), ("a%20b", "a b"), ("a%40b", "a@b")):
        found = parse_location(f"postgresql://u@host/db?password={written}")
        assert isinstance(found, ServerUrl)
        assert found.secrets == {"password": meant}
        assert str(found) == "postgresql://u@host/db"


def test_what_is_a_place_stays_one():
    assert str(parse_location("postgresql://host/db?user=me@realm")) == "postgresql://host/db?user=me%40realm"
    assert parse_location(str(parse_location("postgresql://host/db?user=me@realm"))) == parse_location("postgresql://host/db?user=me@realm")
    for value in ("bank.db", "", "/tmp/a b/at@home.db", "C:/banks/bank.db", "~/postgres/bank.db"):
        assert (parse_location(value), redact_password(value)) == (Path(value), value)
