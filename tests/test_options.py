"""Options from files: checked by the signature, complaints in our words, secrets known by their names."""

import pytest
from pydantic import BaseModel, ValidationError

from exhume.errors import InputError
from exhume.options import HIDDEN, checked, first_error, is_secret


@pytest.mark.parametrize("name", ["key", "keys", "seed", "noise_seed", "api-token", "password", "secret"])
def test_secrets_are_known_by_the_last_word_of_their_names(name):
    assert is_secret(name)


@pytest.mark.parametrize("name", ["margin", "monkey", "keyboard", "seed_count", "keep"])
def test_other_names_are_no_secrets(name):
    assert not is_secret(name)


def test_a_constructor_with_options_of_any_name_still_checks_its_own():
    def make(rank: int, *rest: int, key: bytes, **more: int) -> None: ...

    assert checked("here", make, {"rank": "3", "key": "abc"}, {"d": 4}) == {"rank": 3, "key": b"abc"}
    with pytest.raises(InputError, match=r"here.key must be given"):
        checked("here", make, {"rank": 3}, {})
    assert checked("here", make, {"rank": 3}, {}, without=is_secret) == {"rank": 3}
    with pytest.raises(InputError, match=r"here.rank must be given"):
        checked("here", make, {"key": "abc"}, {}, without=is_secret)


def test_types_that_only_a_checker_knows_are_let_through():
    def make(rank: "Unheard") -> None: ...  # noqa: F821

    assert checked("here", make, {"rank": 3}, {}) == {"rank": 3}


def test_the_first_complaint_names_place_allowed_and_got_and_hides_on_request():
    class Model(BaseModel):
        seed: int
        names: list[int] = []

    def complaint(values, **options):
        with pytest.raises(ValidationError) as caught:
            Model(**values)
        return first_error(caught.value, **options)

    shown = complaint({"seed": "abc"}, hides=None)
    assert (shown.field, shown.got) == ("seed", "abc") and "valid integer" in shown.allowed
    assert complaint({"seed": "abc"}).got == HIDDEN
    assert str(complaint({}, where="audit")) == "audit.seed must be given; got nothing"
    assert complaint({"seed": 1, "names": {"a": 1}}).got == "a table"
    assert complaint({"seed": 1, "names": [[1]]}).field == "names.0"
