"""Where a bank is: what is no URL of ours is refused rather than kept with its password."""

from pathlib import Path

import pytest

from evokernel.core.bank_uri import Url, kept, place
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
    for action in (place, kept, lambda text: place(Path(text))):
        with pytest.raises(UserError) as caught:
            action(value)
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_password_is_what_libpq_reads():
    for written, meant in (("a+b", "a+b"), ("a%2Bb", "a+b"), ("a%20b", "a b"), ("a%40b", "a@b")):
        found = place(f"postgresql://u@host/db?password={written}")
        assert isinstance(found, Url)
        assert found.secrets == {"password": meant}
        assert str(found) == "postgresql://u@host/db"


def test_what_is_a_place_stays_one():
    assert str(place("postgresql://host/db?user=me@realm")) == "postgresql://host/db?user=me%40realm"
    assert place(str(place("postgresql://host/db?user=me@realm"))) == place("postgresql://host/db?user=me@realm")
    for value in ("bank.db", "", "/tmp/a b/at@home.db", "C:/banks/bank.db", "~/postgres/bank.db"):
        assert (place(value), kept(value)) == (Path(value), value)
