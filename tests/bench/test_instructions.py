"""Hold what is made of the counts of instructions."""

from __future__ import annotations

from bench.callgrind import Count
from bench.instructions import rows


def test_a_request_is_held_against_an_empty_application() -> None:
    """What of it is the web server's would be taken for signproxy's."""
    found = {row.name: row for row in rows({"floor": Count(10, {"a": 1_000}), "sign": Count(5, {"a": 500, "b": 5})})}
    assert found["instructions.sign_vs_floor"].value == 1.01
    assert found["instructions.sign"].value == 101


def test_a_profile_says_where_all_of_it_is() -> None:
    """What is left out would look as if it cost nothing."""
    count = Count(1, {"libpython3.11.so": 50, "libcrypto.so.3": 30, "c": 8, "d": 6, "e": 4, "f": 2})
    found = {row.name: row.value for row in rows({"floor": count, "sign": count}) if ".profile_" in row.name}
    assert found == {
        "instructions.profile_sign_libpython3_11_so": 50.0,
        "instructions.profile_sign_libcrypto_so_3": 30.0,
        "instructions.profile_sign_c": 8.0,
        "instructions.profile_sign_d": 6.0,
        "instructions.profile_sign_rest": 6.0,
    }
