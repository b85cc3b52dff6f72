"""Exit codes: what each means, and which one stands for several pollers (design, "The `poller` command")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from poller.errors import PollerError, StoreDenied

if TYPE_CHECKING:
    from poller.admin.doctor import Checked
    from poller.admin.health import Health
    from poller.backfill.survey import Survey
    from poller.backfill.watch import BackfillSample
    from poller.worker import Ended

DONE = 0
FAILED = 1
"""A handler, an unreachable store or database, a lost lease, a commit that is unknown, a poller that backs off, is
blocked, or is halted."""
USAGE = 2
"""The command line or the configuration."""
REFUSED = 3
"""The lease is held, a change was not confirmed, rows would be skipped, the poller is paused."""
MISMATCH = 4
"""The checkpoint belongs to another source."""

PRECEDENCE = (MISMATCH, USAGE, FAILED, REFUSED, DONE)
"""The first of these that occurred is what the command ends with."""

_OUTCOMES = {"idle": DONE, "delivered": DONE, "held_elsewhere": DONE, "paused": REFUSED}
"""The codes for a tick's outcomes; others have failed."""


def worst(codes: Iterable[int]) -> int:
    """The one code for several pollers; 0 for none. A code outside the table counts as a failure."""
    occurred = {code if code in PRECEDENCE else FAILED for code in codes}
    return next((code for code in PRECEDENCE if code in occurred), DONE)


def of_error(error: BaseException | None) -> int:
    """The code for what was raised; 0 where nothing was."""
    if error is None:
        return DONE
    return error.exit_code if isinstance(error, PollerError) else FAILED


def of_survey(looked: Survey) -> int:
    """The code for what a survey of pollers found: backfills count if they were named. A store that may be read but not
    listed is not away; if it is away, each status says so."""
    named = [one for one in looked.backfills or [] if one.name in looked.named]
    codes = [of_error(one.failure) for one in (*looked.pollers, *named)]
    if looked.not_listed is not None and all(one.error is None for one in looked.pollers):
        codes.append(DONE if isinstance(looked.not_listed, StoreDenied) else looked.not_listed.exit_code)
    return worst(codes)


def of_sample(sample: BackfillSample) -> int:
    """The code for one look of `watch`."""
    return worst([of_survey(sample.survey), *(error.exit_code for error in sample.failures)])


def of_checked(checked: Checked) -> int:
    """The code for one poller's findings: 1 where an error stands, 4 where the checkpoint belongs to another source."""
    from poller.admin.doctor import FINGERPRINT

    if checked.refused is not None:
        return USAGE if checked.refused.exit_code == USAGE else FAILED
    wrong = {one.check for one in checked.findings if one.severity == "error"}
    return MISMATCH if FINGERPRINT in wrong else FAILED if wrong else DONE


def of_health(looked: Health, *, strict: bool = False) -> int:
    """The code for pollers' health: 1 if one is unhealthy (`strict`: or has a warning), whatever the reason; 2 if one
    cannot be made."""
    from poller.errors import ConfigError

    if any(isinstance(one.failure, ConfigError) for one in looked.pollers):
        return USAGE
    well = all(one.severity == "well" for one in looked.pollers) if strict else looked.healthy
    return DONE if well else FAILED


def of_end(end: Ended[Any]) -> int:
    """The code for how a poller ended."""
    if end.exception is not None:
        return of_error(end.exception)
    if end.outcome is not None:
        return _OUTCOMES.get(end.outcome, FAILED)
    return DONE if end.ok else FAILED
