"""The numbers of the lease (protocol 3 and 13), computed in one place from ttl and heartbeat interval."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeout:
    """The time that one attempt may take: to connect, and for each receive, in seconds (protocol, "Facts")."""

    connect: float
    read: float


@dataclass(frozen=True, slots=True)
class Timing:
    """The time that a lease lasts and how often it is renewed, in seconds.

    Raises: ValueError, starting with the configuration's key, for numbers with which a single slow answer would lose
    the lease (protocol 13).
    """

    ttl: float
    heartbeat: float

    def __post_init__(self) -> None:
        if self.ttl <= 0:
            raise ValueError("lease_ttl: must be greater than 0")
        if self.heartbeat <= 0:
            raise ValueError("heartbeat_interval: must be greater than 0")
        if self.heartbeat > self.ttl / 3:
            raise ValueError(
                f"heartbeat_interval: {self.heartbeat:g}s is more than a third of lease_ttl ({self.ttl:g}s)"
            )
        # An attempt takes at most ttl/3 and the grace ttl/20 of the 2/3 ttl between heartbeats: so this refuses nothing
        # as long as `attempt` depends on the ttl. It guards a change of that (protocol 13).
        attempt = self.attempt.connect + self.attempt.read
        if attempt + self.grace >= self.ttl - self.heartbeat:
            raise ValueError(
                f"lease_ttl: {self.ttl:g}s leaves no time for one attempt of {attempt:g}s to renew it; make it longer"
            )

    @property
    def margin(self) -> float:
        """How much longer than the ttl a taker waits, because both server times are precise to one second."""
        return min(5.0, max(2.0, self.ttl / 2))

    @property
    def grace(self) -> float:
        """How much earlier than the ttl an owner stops trusting its lease."""
        return min(1.0, self.ttl / 20)

    @property
    def tenure(self) -> float:
        """The time that the owner itself trusts a lease, from before its first send: ttl less grace."""
        return self.ttl - self.grace

    @property
    def attempt(self) -> Timeout:
        """The time limits of one request to the store, so that several fit into a short lease."""
        return Timeout(connect=min(2.0, self.ttl / 6), read=min(5.0, self.ttl / 6))

    @property
    def resend(self) -> tuple[float, float]:
        """Between which two numbers of seconds the pause before a resend is drawn."""
        return 0.2, max(0.2, min(2.0, self.ttl / 6))
