"""What clients carry: opened by no other party, altered by none, and never taken for something else."""

from __future__ import annotations

import base64
import hashlib
import hmac
import pickle
import subprocess
import sys
from collections.abc import Sequence

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from signproxy.errors import SettingsInvalid
from signproxy.sealing import (
    MARK_LENGTH,
    MAX_SEALED,
    MIN_SECRET,
    Marker,
    Purpose,
    SealBroken,
    Sealer,
    SealFault,
    SealingSecret,
)

OLD, NEW, OTHER = (SealingSecret(bytes([n]) * MIN_SECRET) for n in (1, 2, 3))
CONTENT = b'{"table":"\xc3\xa9"}'


def sealer(*secrets: SealingSecret, purpose: Purpose = Purpose.CONTEXT) -> Sealer:
    return Sealer(secrets or (NEW,), purpose)


def fault(text: str, by: Sealer | None = None) -> SealFault:
    """Return why a text is not opened."""
    try:
        opened = (by or sealer()).open(text)
    except SealBroken as broken:
        return broken.fault
    raise AssertionError(f"opened: {opened!r}")


def parts(text: str) -> Sequence[str]:
    return text.split(".")


@pytest.mark.parametrize("content", (b"", b"x", CONTENT, bytes(range(256))))
@pytest.mark.parametrize("purpose", Purpose)
def test_what_was_sealed_comes_back(content: bytes, purpose: Purpose) -> None:
    """A create that was begun could not be finished."""
    text = sealer(purpose=purpose).seal(content)
    assert text.startswith(f"{purpose.value}.")
    assert sealer(purpose=purpose).open(text) == content


def test_a_sealed_text_passes_through_urls_headers_and_json_as_it_is() -> None:
    """Clients encode what they carry in ways of their own; one of them would bring back something else."""
    texts = [sealer().seal(bytes([n]) * n) for n in range(64)]
    assert all(set(text) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") for text in texts)


def test_equal_contents_look_different() -> None:
    """A reader of two of them would learn that two users read the same table."""
    assert len({sealer().seal(CONTENT) for _ in range(100)}) == 100
    assert CONTENT[2:7] not in base64.urlsafe_b64decode(parts(sealer().seal(CONTENT))[2] + "==")


def test_no_single_character_can_be_changed() -> None:
    """A client could name another table, or a later end."""
    text = sealer().seal(CONTENT)
    tried = 0
    for index, sign in enumerate(text):
        for other in "Aa0-_.":
            if other != sign:
                assert fault(text[:index] + other + text[index + 1 :]) in set(SealFault) - {SealFault.LONG}
                tried += 1
    assert tried > 5 * len(text)


def test_a_text_has_no_second_spelling() -> None:
    """Caches are keyed by the text: one seal would fill them with as many entries as it has spellings."""
    text = sealer().seal(b"12")
    assert len(parts(text)[2]) % 4 == 0
    # 28 bytes of nonce and tag and 3 of content leave two bits over, which decoding ignores.
    spare = sealer().seal(b"123")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet.index(spare[-1])
    assert last % 4 == 0
    assert fault(spare[:-1] + alphabet[last + 1]) is SealFault.FORM
    for spelled in (f"{spare}=", f"{spare}==", f" {spare}", f"{spare}\n", spare.upper(), spare.replace(".", "..", 1)):
        assert fault(spelled) is SealFault.FORM


@pytest.mark.parametrize(
    "text", ("", ".", "..", "spc1", "spc1..", "spc1.aaaaaaaa.", "spc1.aaaaaaaa.AAAA", "spc2.a.b", "é")
)
def test_what_was_never_sealed_is_told_apart(text: str) -> None:
    """An operator would look for a lost secret where a client sent rubbish."""
    assert fault(text) is SealFault.FORM


def test_a_text_for_one_purpose_is_nothing_to_another() -> None:
    """A context, which every caller gets that may create a table, would be a token."""
    context = sealer(purpose=Purpose.CONTEXT).seal(CONTENT)
    tokens = sealer(purpose=Purpose.TABLE_TOKEN)
    assert fault(context, tokens) is SealFault.FORM
    _, kid, body = parts(context)
    assert fault(f"spt1.{kid}.{body}", tokens) is SealFault.SECRET
    own_kid = parts(tokens.seal(b""))[1]
    assert own_kid != kid
    assert fault(f"spt1.{own_kid}.{body}", tokens) is SealFault.ALTERED


def test_head_and_content_of_two_texts_do_not_mix() -> None:
    """With two secrets in use, a text could be passed off as one of the other."""
    both = sealer(NEW, OLD)
    new, old = both.seal(CONTENT), sealer(OLD).seal(CONTENT)
    assert both.open(new) == both.open(old) == CONTENT
    assert fault(".".join((*parts(new)[:2], parts(old)[2])), both) is SealFault.ALTERED


def test_the_purpose_is_bound_beside_the_key() -> None:
    """Two purposes whose keys were the same, by a fault of ours, could still be told apart."""
    text = sealer().seal(CONTENT)
    sealed = base64.urlsafe_b64decode(parts(text)[2] + "=" * (-len(parts(text)[2]) % 4))
    # RFC 5869, written out: extract, then one block of expand.
    extracted = hmac.digest(b"signproxy sealing 1", NEW.reveal(), "sha256")
    key = hmac.digest(extracted, b"spc1\x01", "sha256")
    head = ".".join(parts(text)[:2]).encode()
    assert AESGCM(key).decrypt(sealed[:12], sealed[12:], head) == CONTENT
    assert parts(text)[1] == base64.urlsafe_b64encode(hashlib.sha256(key).digest()[:6]).decode()


def test_the_first_secret_seals_and_each_opens() -> None:
    """A rotation would end what clients carry, or the new secret would never be used."""
    before, during, after = sealer(OLD), sealer(NEW, OLD), sealer(NEW)
    old, new = before.seal(CONTENT), during.seal(CONTENT)
    assert during.open(old) == during.open(new) == after.open(new) == CONTENT
    assert fault(old, after) is SealFault.SECRET
    assert fault(new, before) is SealFault.SECRET
    assert parts(new)[1] == parts(after.seal(b""))[1] != parts(old)[1]


def test_a_secret_that_is_listed_twice_counts_once() -> None:
    """An operator who copies a file during a rotation would stop the start."""
    assert sealer(NEW, NEW, OLD).open(sealer(OLD).seal(CONTENT)) == CONTENT


def test_another_installation_is_a_stranger() -> None:
    """Its operator could make table tokens for ours."""
    assert fault(sealer(OTHER).seal(CONTENT)) is SealFault.SECRET


def test_random_secrets_are_not_alike() -> None:
    """Two processes without a secret of the operator's would understand each other, and any third both of them."""
    assert SealingSecret.random() != SealingSecret.random()
    assert fault(sealer(SealingSecret.random()).seal(b""), sealer(SealingSecret.random())) is SealFault.SECRET


def test_the_longest_text_that_is_sealed_is_opened_and_no_longer_one() -> None:
    """Strangers could make the server decrypt megabytes; or what it hands out would come back in vain."""
    room = (MAX_SEALED - len("spc1.12345678.")) * 3 // 4 - 28
    longest = sealer().seal(b"x" * room)
    assert MAX_SEALED - 2 <= len(longest) <= MAX_SEALED
    assert sealer().open(longest) == b"x" * room
    with pytest.raises(SealBroken) as broken:
        sealer().seal(b"x" * (room + 1))
    assert broken.value.fault is SealFault.LONG
    assert fault("spc1." + "A" * MAX_SEALED) is SealFault.LONG


def test_every_length_up_to_the_limit_is_judged_as_it_turns_out() -> None:
    """A length that is reckoned one off would hand out what is refused."""
    for count in range(200):
        text = sealer().seal(b"x" * count)
        assert sealer().open(text) == b"x" * count


@pytest.mark.parametrize(
    ("value", "problem"),
    (
        (b"", "is 0 bytes long"),
        (b"x" * 31, "is 31 bytes long; 32 are needed"),
        (b"-----BEGIN PUBLIC KEY-----" + b"x" * 40, "not a secret"),
        (b"ssh-ed25519 " + b"x" * 40, "not a secret"),
        (b'{"kty": "oct", "k": "' + b"x" * 40, "not a secret"),
    ),
)
def test_what_is_no_secret_is_refused(value: bytes, problem: str) -> None:
    """A holder of the certificate, which is public, could make table tokens."""
    with pytest.raises(SettingsInvalid, match=problem) as invalid:
        SealingSecret(value)
    assert "xxxx" not in str(invalid.value)


def test_secrets_are_never_shown() -> None:
    """A log line or a crash dump would hand out every table token of the future."""
    secret = SealingSecret(b"very secret indeed, and also long")
    made = Sealer((secret,), Purpose.CONTEXT)
    made.seal(b"")
    for shown in (repr(secret), str(secret), f"{secret}", repr(made), repr([secret])):
        assert "very" not in shown
    for each in (secret, made):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(each)


def test_secrets_are_compared_by_value() -> None:
    """A reload that reads the same files would be told as a change."""
    assert SealingSecret(b"x" * 32) == SealingSecret(b"x" * 32) != SealingSecret(b"y" * 32)
    assert hash(SealingSecret(b"x" * 32)) == hash(SealingSecret(b"x" * 32))
    assert SealingSecret(b"x" * 32) != b"x" * 32


def test_without_a_secret_nothing_is_sealed() -> None:
    """A key of nothing would be known to every reader of the code."""
    with pytest.raises(ValueError, match="nothing to seal, derive or mark with"):
        Sealer((), Purpose.CONTEXT)


def test_a_broken_seal_says_what_it_is_in_words() -> None:
    """The audit's detail would be the name of a class."""
    assert str(SealBroken(SealFault.SECRET)) == "sealed with a secret that is not known here"


def test_cryptography_is_not_loaded_before_it_is_needed() -> None:
    """Every idle sidecar would carry 9 MiB more."""
    code = """
import sys
from signproxy.sealing import Purpose, SealBroken, Sealer, SealingSecret
made = Sealer((SealingSecret.random(),), Purpose.TABLE_TOKEN)
for text in ("", "garbage", "a.b.c", "spt1.", "spt1.aaaaaaaa.AAAA", "x" * 100_000):
    try:
        made.open(text)
    except SealBroken:
        pass
print("cryptography" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "False"


# -- marks -----------------------------------------------------------------------------------------------------------


def marker(*secrets: SealingSecret, purpose: Purpose = Purpose.UPLOAD_ID) -> Marker:
    return Marker(secrets or (NEW,), purpose)


def test_a_mark_holds_for_its_very_parts() -> None:
    """A mark that was made for one place would be good for another."""
    mark = marker().mark("ab", "c", "é\ud800")
    assert len(mark) == MARK_LENGTH
    assert marker().holds(mark, "ab", "c", "é\ud800")
    others = (("a", "bc", "é\ud800"), ("ab", "c"), ("abc", "é\ud800"), ("ab", "c", "é"), ("ab", "c", "é\ud800", ""))
    for parts_of_another in others:
        assert not marker().holds(mark, *parts_of_another)
    for other in ("", mark[:-1], f"{mark}A", mark.swapcase(), "é" * MARK_LENGTH):
        assert not marker().holds(other, "ab", "c", "é\ud800")


def test_marks_of_former_secrets_hold_until_they_are_taken_away() -> None:
    """What was marked before a rotation would be refused at once."""
    mark = marker(OLD).mark("x")
    assert marker(NEW, OLD).holds(mark, "x")
    assert marker(NEW, OLD).mark("x") == marker(NEW).mark("x") != mark
    assert not marker(NEW).holds(mark, "x")


def test_a_mark_of_one_purpose_is_nothing_to_another() -> None:
    """What was marked for one thing could be shown for another."""
    assert not marker(purpose=Purpose.CONTEXT).holds(marker().mark("x"), "x")


def test_nothing_is_marked_without_a_secret_and_markers_are_not_pickled() -> None:
    """Any client could make marks."""
    with pytest.raises(ValueError, match="nothing to seal, derive or mark with"):
        Marker((), Purpose.UPLOAD_ID)
    with pytest.raises(TypeError, match="secrets are not pickled"):
        pickle.dumps(marker())
