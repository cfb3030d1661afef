"""The slots of a grey release: never more than N, whatever is created, rejected, deleted, and in whatever order."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfusion_iac.admission.claims import IN_FLIGHT_S, Claim, Claims, Wish, grant, read, settle, write


def one(claims: Claims, live: set[str], wish: Wish, now: float) -> tuple[Claims, str | None]:
    after, (granted,) = grant(settle(claims, live, now), live, [wish], now)
    return after, granted


def test_as_many_as_wanted_and_not_one_more() -> None:
    claims: Claims = {}
    granted = []
    for number in range(5):
        claims, name = one(claims, set(), Wish(f"r{number}", 3), 0.0)
        granted.append(name)
    assert granted == ["r0", "r1", "r2", None, None]


def test_requests_that_come_together_are_granted_in_order() -> None:
    _, granted = grant({}, {"old"}, [Wish("a", 2), Wish("b", 2)], 0.0)
    assert granted == ["a", None]


def test_live_pods_count_once_beside_their_own_claims() -> None:
    _, granted = one({"a": Claim(0.0)}, {"a"}, Wish("b", 2), 1.0)
    assert granted == "b"


def test_a_claim_whose_pod_never_came_is_given_up_after_a_while() -> None:
    claims: Claims = {"rejected": Claim(0.0)}
    assert one(claims, set(), Wish("b", 1), IN_FLIGHT_S - 1)[1] is None
    assert one(claims, set(), Wish("b", 1), IN_FLIGHT_S)[1] == "b"


def test_a_claim_goes_with_its_pod_once_it_was_seen() -> None:
    claims = settle({"a": Claim(0.0)}, {"a"}, 1.0)
    assert claims == {"a": Claim(0.0, seen=True)}
    assert one(claims, set(), Wish("b", 1), 2.0)[1] == "b"


def test_the_same_request_asked_twice_holds_one_slot() -> None:
    claims, first = one({}, set(), Wish("a", 1), 0.0)
    claims, second = one(claims, set(), Wish("a", 1), 0.1)
    assert (first, second, len(claims)) == ("a", "a", 1)


def test_a_pod_that_is_looked_at_again_keeps_its_claim() -> None:
    claims, _ = one({}, set(), Wish("a", 1), 0.0)
    assert one(claims, set(), Wish("b", 1, before="a"), 0.1)[1] == "a"


@pytest.mark.parametrize("before", ["never-made", "off", "live"])
def test_a_claim_that_is_not_its_own_gives_a_pod_nothing(before: str) -> None:
    assert one({"a": Claim(0.0)}, {"live"}, Wish("b", 2, before), 0.1)[1] is None


@pytest.mark.parametrize("text", [None, "", "x", "[]", '{"a":1}', '{"a":[1]}', '{"a":["x",true]}', '{"a":null}'])
def test_claims_that_cannot_be_read_count_as_none(text: str | None) -> None:
    assert read(text) == {}


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.builds(Claim, st.integers(0, 10**9).map(float), st.booleans())))
def test_claims_are_read_as_they_were_written(claims: Claims) -> None:
    assert read(write(claims)) == claims


@dataclass
class World:
    """An owner, its pods, and what is under way. Time passes only when told."""

    limit: int
    now: float = 0.0
    claims: Claims = field(default_factory=dict)
    in_flight: list[tuple[str, float]] = field(default_factory=list)
    live: set[str] = field(default_factory=set)
    others: int = 0
    made: int = 0

    def create(self) -> None:
        """A pod comes to the webhook; if it is on, its creation is under way."""
        self.made += 1
        self.claims, name = one(self.claims, self.live, Wish(f"r{self.made}", self.limit), self.now)
        if name is None:
            self.others += 1
        else:
            self.in_flight.append((name, self.now))

    def arrive(self) -> None:
        """The oldest creation under way ends well. The API server gives up a create long before a claim ends."""
        if self.in_flight:
            name, began = self.in_flight.pop(0)
            if self.now - began < IN_FLIGHT_S:
                self.live.add(name)

    def reject(self) -> None:
        """The newest creation under way is refused, by a ResourceQuota for example."""
        if self.in_flight:
            self.in_flight.pop()

    def delete(self) -> None:
        if self.live:
            self.live.discard(min(self.live))

    def wait(self) -> None:
        self.now += 7.0


@given(
    st.integers(0, 4),
    st.lists(st.sampled_from(["create", "create", "arrive", "arrive", "reject", "delete", "wait"]), max_size=60),
)
@settings(max_examples=500)
def test_never_are_more_pods_on_than_wanted(limit: int, actions: list[str]) -> None:
    world = World(limit)
    for action in actions:
        getattr(world, action)()
        assert len(world.live) <= limit


@given(st.integers(0, 4), st.lists(st.sampled_from(["create", "arrive", "reject", "delete", "wait"]), max_size=40))
@settings(max_examples=300)
def test_at_rest_as_many_are_on_as_wanted(limit: int, actions: list[str]) -> None:
    """When all is quiet, and an other pod is replaced at a time (as the controller does), all slots are used in the end."""
    world = World(limit)
    for action in actions:
        getattr(world, action)()
    while world.in_flight:
        world.arrive()
    world.now += IN_FLIGHT_S
    for _ in range(limit - len(world.live)):
        world.create()
        world.arrive()
    assert len(world.live) == limit
