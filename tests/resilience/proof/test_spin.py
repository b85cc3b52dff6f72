"""The protocol's model keeps its laws in every state; each wrong idea of the protocol breaks the law that it should."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.resilience.proof.spin import MODEL, endless, search, shortest

PAGE = MODEL.with_name("README.md")
SOURCES = "".join(path.read_text(encoding="utf-8") for path in sorted(MODEL.parent.glob("*.pml")))

DRIFTING = ("TTL=3", "GRACE=1", "DRIFT=1")

MUTANTS = (
    ("BAD_DEADLINE_FROM_ANSWER", "law_one_believer"),
    ("BAD_OWN_CLOCK", "law_one_believer"),
    ("BAD_BREAK_RELEASES", "law_one_believer"),
    ("BAD_RELEASE_BELIEVED", "law_one_believer"),
    ("MARGIN=0", "law_one_believer"),
    ("DRIFT=1", "law_one_believer"),
    ("BAD_DELETE_ON_RELEASE", "law_token_grows"),
    ("BAD_SAME_TOKEN", "law_token_grows"),
    ("BAD_REDO_ANYTHING", "law_current_token"),
    ("BAD_BLIND_ADOPT", "law_current_token"),
    ("BAD_REDO_ANYTHING", "law_checkpoint_forward"),
    ("BAD_TIMEOUT_IS_SUCCESS", "law_ack_visible"),
    ("BAD_NO_IF_MATCH", "law_one_copy"),
    ("BAD_TIMEOUT_IS_FAILURE", "law_none_after_lost"),
    ("BAD_COMMIT_AFTER_DEADLINE", "law_none_after_lost"),
    ("BAD_TWO_WRITERS", "law_one_write"),
    ("BAD_REDO_OLD_BYTES", "law_operator_kept"),
    ("BAD_BLIND_ADOPT", "law_operator_kept"),
    ("BAD_COMMIT_UNHANDLED", "law_rows_handled"),
    ("BAD_ONE_WRITE_ID", "law_no_false_loss"),
    ("BAD_REWRITE_LIVE", "law_one_believer"),
    ("BAD_RESTORE_FREE", "law_one_believer"),
    ("BAD_REWRITE_ANY_TAG", "law_token_grows"),
    ("BAD_REWRITE_ANY_TAG", "law_checkpoint_forward"),
    ("BAD_RESTORE_LOW", "law_token_grows"),
    ("BAD_BEGIN_AGAIN", "law_begun_once"),
    ("BAD_TRACE_OF_CREATOR", "law_begun_once"),
)
ENDLESS_MUTANTS = ("BAD_NO_EXPIRY", "BAD_BEATS_FOR_EVER")

LAWS = {name: int(number) for name, number in re.findall(r"^bit (law_\w+); +/\* +(\d+) ", SOURCES, re.MULTILINE)}


@pytest.mark.guarantee("One worker at a time", "At most one process believes that it holds the lease")
@pytest.mark.parametrize(
    "macros",
    [
        pytest.param((), id="as-it-is", marks=pytest.mark.soak),
        pytest.param(("OPS=2", "MAXTOK=4"), id="two-operators-changes", marks=pytest.mark.prove),
        pytest.param(("COPIES=2", "MAXTOK=4"), id="two-copies-on-their-way", marks=pytest.mark.prove),
        pytest.param(("IDS=8", "MAXTOK=4"), id="eight-write-ids", marks=pytest.mark.prove),
        pytest.param(("ROWS=3", "MAXTOK=4"), id="three-rows", marks=pytest.mark.prove),
        pytest.param(("PIPELINE", "MAXTOK=4"), id="batches-overtake-commits", marks=pytest.mark.prove),
        pytest.param((*DRIFTING, "ROWS=1"), id="drifting-clocks", marks=pytest.mark.prove),
        pytest.param(("WIPES=1", "ROWS=1", "MAXTOK=2"), id="a-deleted-document", marks=pytest.mark.soak),
        pytest.param(("WIPES=1", "ROWS=1"), id="a-deleted-document-and-more-tokens", marks=pytest.mark.prove),
    ],
)
@pytest.mark.timeout(600)
def test_no_state_breaks_a_law(macros: tuple[str, ...], tmp_path: Path) -> None:
    verdict = search(tmp_path, *macros)
    assert verdict.broken is None, verdict.output
    assert verdict.unreached == ()
    assert verdict.states > 1_000_000


@pytest.mark.parametrize(
    "macros",
    [
        pytest.param(("FAULTS=1", "OPS=1"), id="a-fault-and-an-operator"),
        pytest.param(("FAULTS=2", "OPS=0"), id="two-faults", marks=pytest.mark.soak),
        pytest.param(("FAULTS=2", "OPS=1"), id="two-faults-and-an-operator", marks=pytest.mark.prove),
        pytest.param(("FAULTS=3", "OPS=0"), id="three-faults", marks=pytest.mark.prove),
    ],
)
@pytest.mark.timeout(600)
def test_somebody_acquires_in_the_end_and_all_rows_are_delivered(macros: tuple[str, ...], tmp_path: Path) -> None:
    verdict = endless(tmp_path, *macros)
    assert verdict.broken is None, verdict.output
    assert "fairness enabled" in verdict.output
    if macros == ("FAULTS=2", "OPS=1"):
        assert verdict.unreached == ()  # fewer faults, or no operator, do not lead everywhere


@pytest.mark.parametrize(
    ("mutant", "law"),
    [
        pytest.param(mutant, law, marks=() if law not in {one for _, one in MUTANTS[:number]} else pytest.mark.soak)
        for number, (mutant, law) in enumerate(MUTANTS)
    ],
)
def test_a_mutant_breaks_its_law(mutant: str, law: str, tmp_path: Path) -> None:
    verdict = shortest(tmp_path, mutant, f"ONLY={LAWS[law]}")
    assert verdict.broken == law, verdict.output


@pytest.mark.soak
@pytest.mark.parametrize("mutant", ENDLESS_MUTANTS)
def test_a_mutant_keeps_its_poller_for_ever(mutant: str, tmp_path: Path) -> None:
    assert endless(tmp_path, mutant).broken == "liveness"


def test_every_law_is_broken_by_a_mutant_and_every_mutant_is_tried() -> None:
    assert {law for _, law in MUTANTS} == set(LAWS)
    tried = {mutant for mutant, _ in MUTANTS} | set(ENDLESS_MUTANTS)
    assert {mutant for mutant in tried if mutant.startswith("BAD_")} == set(re.findall(r"\bBAD_[A-Z_]+\b", SOURCES))


def test_the_page_maps_each_step_to_functions_that_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", page, re.MULTILINE)
    mutated = {"timeout_is_success", "timeout_is_failure", "commit_unhandled", "condemned_lands"}
    steps = set(re.findall(r"^inline (\w+)\([^)]*\) *\{ d_step", SOURCES, re.MULTILINE)) - mutated
    assert {step for step, _ in rows} >= steps
    named = {name for _, functions in rows for name in re.findall(r"`(poller\.[\w.]+)`", functions)}
    assert len(named) > 20
    for name in named:
        assert _exists(name), f"{PAGE.name} names {name}, which does not exist"
    assert set(re.findall(r"\blaw_\w+\b", page)) == set(LAWS)


def _exists(name: str) -> bool:
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False
