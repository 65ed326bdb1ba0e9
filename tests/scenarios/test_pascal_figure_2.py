"""Figure 2 of PASCAL (arXiv 2602.11530): three requests, of which two fit at a time.

A, B and C arrive at 0, 1 and 2, and a step takes one unit of time. Their prompts are one token.
The table follows from the caption, which implies A's 8 tokens; B and C have more than 4 each. First come,
first served (b): A and B run, and C is admitted when A finishes, at 8; its first token is at 9, 7 after its
arrival. Round robin with a quantum of four tokens (c):

====  ==========================================  ==========
time  what happens                                runs then
====  ==========================================  ==========
0     A is admitted                               A
1     B is admitted                               A, B
2     C waits: no quantum is used up              A, B
4     A has 4 tokens and is displaced by C        B, C
5     B has 4 tokens and is displaced by A        A, C
8     C has 4 tokens and is displaced by B        A, B
9     A finishes with 8 tokens; C is resumed      B, C
====  ==========================================  ==========
"""

from __future__ import annotations

from differential.wire import WAIT, Wire, a_class, cluster, displace, field, instance, order, swap
from paceline.testing.reference.policy_sim import Outcome, TraceRequest, replay

REQUESTS = [TraceRequest(0, 1, 8), TraceRequest(1, 1, 8), TraceRequest(2, 1, 6)]
QUANTUM = order(a_class(field("req.quanta"), field("req.joined_s")), quantum=4)


def replayed(ranks: Wire | None, admission: Wire) -> Outcome:
    one = instance(seats=2, order=ranks, admission=admission, preemption=swap(100), chunked=False)
    return replay(cluster(one), REQUESTS)


def test_first_come_first_served_gives_c_a_ttft_of_7() -> None:
    outcome = replayed(None, WAIT)
    assert [request.token_times[0] - request.spec.arrival for request in outcome.requests] == [1, 1, 7]
    assert outcome.requests[2].scheduled == 8
    assert not any(request.preemptions for request in outcome.requests)


def test_round_robin_admits_c_at_4() -> None:
    outcome = replayed(QUANTUM, displace())
    a, b, c = outcome.requests
    assert c.scheduled == 4
    assert c.token_times[0] - c.spec.arrival == 3
    assert a.token_times == [1, 2, 3, 4, 6, 7, 8, 9]
    assert b.token_times == [2, 3, 4, 5, 9, 10, 11, 12]
    assert c.token_times == [5, 6, 7, 8, 10, 11]
    # B is preempted for 3 units, between its fourth and its fifth token.
    assert [(spell.start, spell.end) for spell in b.spells] == [(5, 8)]
