"""The page of the audit trail and the published schema say what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # published without types
import msgspec
import pytest
import yaml

from signproxy.audit.unpack import lines_of
from signproxy.audit.writer import BATCH_SECONDS, FLUSH_SECONDS, STALL_SECONDS
from signproxy.config.settings import AuditSettings, Settings
from signproxy.gate.backpressure import MOST_SECONDS
from signproxy.telemetry.metrics import all_metrics
from tests.audit.events import an_event, refusal
from tests.audit.segment_rig import Life
from tests.audit.sinks import segment_files
from tools.docs.audit_event import schema
from tools.docs.generate import DOCS

PAGE = (DOCS / "audit.md").read_text()


def validator() -> Any:
    return jsonschema.Draft202012Validator(schema())


def test_every_line_of_a_segment_fits_the_schema(tmp_path: Path) -> None:
    """An auditor who checks lines with it would throw evidence away."""
    life = Life(tmp_path)
    life.write(2, view_chain=("a", "b"), cacheable=True, bytes_out=7)
    life.write(1, decision=refusal().decision, key="\u202e")
    life.sink.close()
    lines = [line for path in segment_files(tmp_path) for line in lines_of(path)]
    assert len(lines) == 5
    for line in lines:
        validator().validate(msgspec.json.decode(line))


@pytest.mark.parametrize(
    "change", ({"schema": "signproxy.audit/2"}, {"kind": "segment_start"}, {"seq": "1"}, {"decision": "perhaps"})
)
def test_other_lines_do_not_fit(change: dict[str, object]) -> None:
    """A check that accepts everything is none."""
    line = msgspec.to_builtins(an_event(boot_id="b", seq=1, ts="2026-11-19T00:00:00Z"))
    validator().validate(line)
    with pytest.raises(jsonschema.ValidationError):
        validator().validate(line | change)


def test_the_schema_says_what_fields_mean() -> None:
    """Names alone leave a reader to guess."""
    event = schema()["$defs"]["AuditEvent"]["properties"]
    assert event["application"]["description"].startswith("The client's own word")


def test_the_settings_of_the_page_can_be_used() -> None:
    """An operator who copies them would be told of unknown keys."""
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    settings = msgspec.convert(yaml.safe_load(block), Settings)
    assert settings.audit.ship.wanted
    assert not list(settings.audit.ship.faults(("lake",)))


def test_the_figures_of_the_page_are_those_of_the_code() -> None:
    """What a crash may lose is a promise."""
    assert f"{BATCH_SECONDS * 1000:.0f} ms" in PAGE
    assert FLUSH_SECONDS == 1.0
    assert "one second" in PAGE
    assert f"more than {STALL_SECONDS:.0f} s" in PAGE
    assert f"After {MOST_SECONDS:.0f} s without an end" in PAGE


def test_metrics_and_settings_of_the_page_exist() -> None:
    """An operator would look for a name in vain."""
    assert set(re.findall(r"signproxy_audit_\w+", PAGE)) <= {family.name for family in all_metrics()}
    fields = {field.name for field in msgspec.structs.fields(AuditSettings)}
    assert {"spool_mib", "segment_mib", "segment_seconds", "fsync", "on_error", "queue", "ship"} <= fields
    assert set(re.findall(r"`audit\.(\w+)", PAGE)) <= fields
