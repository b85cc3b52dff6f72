"""An entry of the history that a state document keeps (`history` notes commits in it)."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer

from poller.model.limits import HIGHEST_COUNT
from poller.model.stamps import stamp

MOST_ENTRIES = 60
"""So many are kept, the newest: five hours of a poller that never rests, weeks of a nightly one."""
LONGEST_OWNER = 120
"""Characters of an owner's id that an entry keeps."""

_Count = Annotated[int, Field(ge=0, le=HIGHEST_COUNT)]
_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Begin = Annotated[AwareDatetime, PlainSerializer(stamp, return_type=str, when_used="json")]
"""Only ours are written: what `Stamp` bears of other programs would cost each read of a document a millisecond."""


class HistoryEntry(BaseModel):
    """The commits of five minutes.

    Attributes:
        at: when the five minutes begin, by the store's clock.
        rows, batches: delivered, calls that failed not counted.
        handler_seconds: that the handler took for them, of all lanes together.
        lag_seconds: how old the last row of a commit was when it was written, at most; None if a cursor is not a time.
        token, owner: the fencing token of the last commit, and whose it was.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    at: _Begin
    rows: _Count = 0
    batches: _Count = 0
    handler_seconds: _Seconds = 0.0
    lag_seconds: _Seconds | None = None
    token: _Count = 0
    owner: Annotated[str, Field(max_length=LONGEST_OWNER)] = ""

    @cached_property
    def line(self) -> str:
        """The entry as JSON, without a line's end. All but the newest are written unchanged by every commit."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False)
