"""The clock of a cluster under a policy, from the configuration that the engine reads.

At one moment, in this order: steps end, instance by instance; requests with their first token or their last
reasoning token are routed again, and requests that monitors chose leave; transfers end, then leases; monitors
run; requests arrive; steps start, and the KV of requests that they accept is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paceline.testing.reference.policy_sim.books import Books
from paceline.testing.reference.policy_sim.clients import Clients
from paceline.testing.reference.policy_sim.contents import Contents
from paceline.testing.reference.policy_sim.gauges import GaugeReadings
from paceline.testing.reference.policy_sim.handover import Incoming
from paceline.testing.reference.policy_sim.links import Links
from paceline.testing.reference.policy_sim.lockstep import Group
from paceline.testing.reference.policy_sim.moves import Traffic
from paceline.testing.reference.policy_sim.outcome import Outcome
from paceline.testing.reference.policy_sim.pacing import Pace
from paceline.testing.reference.policy_sim.patience import Patience
from paceline.testing.reference.policy_sim.replica import Replica
from paceline.testing.reference.policy_sim.request import Request, TraceRequest
from paceline.testing.reference.policy_sim.roles import Roles
from paceline.testing.reference.policy_sim.routers import Routers
from paceline.testing.reference.policy_sim.rules import AtRouter, Flip, Rule
from paceline.testing.reference.policy_sim.scaling import Scaling
from paceline.testing.reference.policy_sim.scope import View
from paceline.testing.reference.policy_sim.stuck import NoEnd, Stuck
from paceline.testing.reference.policy_sim.tier import stores_below
from paceline.testing.reference.policy_sim.timeline import Timeline
from paceline.testing.reference.refusal import Reason


class Cluster:
    """A cluster in the middle of a replay."""

    def __init__(
        self,
        config: dict[str, Any],
        requests: Sequence[TraceRequest],
        prefix_block_tokens: int | None = None,
        most_steps: int = 100_000,
    ) -> None:
        pace = Pace(**config["pace"]) if config.get("pace") else None
        roles = config.get("roles") or [0] * len(config["instances"])
        replicas: list[Replica] = []
        handover: dict[str, Any] | None = config.get("handover")

        def scope(now: int, replica: Replica, request: Request | None) -> View:
            return View(now, replicas, pace, request, inst=replica, here=replica)

        for index, (instance, role) in enumerate(zip(config["instances"], roles, strict=True)):
            contents = None
            if instance["scheduler"]["prefix_cache"]:
                size = instance["block_tokens"]
                contents = Contents(requests, size, prefix_block_tokens or size)
            incoming = Incoming(handover, at_once=not config.get("links"))
            replicas.append(Replica(index, instance, role, scope, contents, incoming))
        self.stores = stores_below(
            config, [one.scheduler.state.tier or one.scheduler.state.copies for one in replicas]
        )
        routing = config["routing"]
        self.roles = Roles(replicas, config.get("leaving", []))

        def flips(cause: str) -> Flip:
            def flip(index: int, rule: dict[str, Any], view: View) -> bool:
                row = None if view.request is None else view.request.index
                return self.roles.flip(index, rule["to"], rule["keep"], (cause, row), view.now)

            return flip

        self.routers = Routers(config, replicas, pace)
        n, count = len(replicas), self.routers.count
        self.rules = {
            name: [Rule(routing[name], flips(name), n * router // count) for router in range(count)]
            for name in ("on_arrival", "decode_on_arrival", "on_prefilled", "on_answering")
            if routing.get(name)
        }
        asked = {name.replace("decode_on_arrival", "on_prefilled") for name in self.rules}
        for replica in replicas:
            replica.scheduler.state.asked = frozenset(asked)
        self.decode_targets: dict[int, int | None] = {}
        self.held: list[Request] = []
        self._blocked: set[tuple[AtRouter, int, int]] = set()  # queues in which all wait
        self._asked_at = 0
        kept = routing.get("books")
        self.books = Books(kept, requests, prefix_block_tokens) if kept else None
        if self.books is not None:
            self.books.role_of = lambda index: replicas[index].role
        self.monitors: list[dict[str, Any]] = routing["every"]
        self.flips = {
            (number, place): Rule(action["rule"], flips("every"))
            for number, monitor in enumerate(self.monitors)
            for place, action in enumerate(monitor["actions"])
            if action["action"] == "flip"
        }
        self.readers = {
            (number, place): Scaling(action, self.roles) if kind == "scale" else GaugeReadings(action)
            for number, monitor in enumerate(self.monitors)
            for place, action in enumerate(monitor["actions"])
            if (kind := action["action"]) in ("scale", "gauge")
        }
        self.groups = [Group(group, replicas) for group in config.get("lockstep") or []]
        together = {replica for group in self.groups for replica in group.members}
        self.alone = [replica for replica in replicas if replica not in together]
        self._reported = False
        self.pace = pace
        self.replicas = replicas
        links = Links(**(config.get("links") or {}))
        lease = handover["lease"] if handover else None
        self.traffic = Traffic(replicas, links, pace, handover is not None, lease, routers=self.routers)
        self.traffic.changed = self.roles.settle
        self.traffic.overlaps = bool(handover and handover.get("overlap", "none") == "layers")
        self.traffic.announces = bool(handover and handover.get("offer", "prefilled") == "arrival")
        self._watched = 0  # when the monitors last ran
        self._most_steps = most_steps
        self.clients = Clients(requests, config.get("clients"))
        self.patience = Patience((config.get("clients") or {}).get("patience"), requests)
        self._sent: list[Request] = []  # in the order of arrival, each time that it was sent
        self._arrived = 0
        self._without_end: list[
            Request
        ] = []  # those that have arrived and of whose end the clients do not know
        rows = [Request(index, spec) for index, spec in enumerate(requests)]
        self.outcome = Outcome(rows, [None] * len(requests), replicas, links)
        self.outcome.flips = self.roles.history
        sample = config.get("sample")
        self.timeline = None if sample is None else Timeline(sample["every"], sample["most"])

    @property
    def unfinished(self) -> bool:
        """Whether there is anything left to do, steps that end at the present moment included."""
        return bool(
            self.clients.waiting
            or self.patience.again
            or self.held
            or self.traffic.moves
            or self.traffic.reserved.kept
            or any(one.requests or one.ends == self.outcome.end for one in self.replicas)
        )

    def next_moment(self) -> int:
        """Return the time of the next event."""
        times = [one.ends for one in self.replicas if one.ends is not None] + self.traffic.ends
        times += [one.wakes for one in self.replicas if one.wakes is not None]
        if (arrival := self._next_arrival()) is not None:
            times.append(arrival)
        times += [at for at, _ in self.patience.due]
        if self.routers.give_up_after is not None:
            times += [request.spec.arrival + self.routers.give_up_after for request in self.held]
        times += [group.idle_until for group in self.groups if group.idle_until is not None]
        reported = self.routers.every is not None
        if not times and not (self.held and reported):
            raise Stuck(f"at {self.outcome.end}: requests wait and none can run")
        after = self.outcome.end
        times += [(after // one["period"] + 1) * one["period"] for one in self.monitors]
        times += self.roles.due.values()
        if (report := self.routers.next_report(after)) is not None:
            times.append(report)
        return min(times)

    def advance(self, now: int) -> None:
        """Process all events of a moment."""
        for replica in self.replicas:
            replica.scheduler.memory.pass_time(now)
        if sum(replica.usage.steps for replica in self.replicas) > self._most_steps:
            raise NoEnd(f"no end in sight after {self._most_steps} steps")
        self._end_steps(now)
        self.traffic.deliver(now)
        # A transfer that takes no time is followed by a second round at the same moment.
        if now > self._watched:
            self._watched = now
            for number, monitor in enumerate(self.monitors):
                if now % monitor["period"] == 0:
                    self._watch(number, now)
        if self.unfinished:
            self.traffic.deliver(now)
        self._ask_again(now)
        self._tell_clients(now)
        while self._next_arrival() == now:
            again = self.patience.send(now)
            self._arrive(self._again(again) if again is not None else self._first(), now)
            self._tell_clients(now)
        for replica in self.replicas:
            replica.wake(now)
        self._start_steps(now)
        while self.routers.relay is not None and self.routers.relay.read(now):
            self.routers.report(now)
            if self.held:
                self._reported = True
                self._ask_again(now)
                self._start_steps(now)
        self._tell_clients(now)

    def pass_time(self, moment: int) -> None:
        """Account for the time until a moment, in which nothing changes."""
        if self.timeline is not None:
            for now in self.timeline.due(moment):
                self._pass_time(now)
                self.timeline.read(now, self.replicas, self.traffic)
        self._pass_time(moment)

    def _pass_time(self, moment: int) -> None:
        for replica in self.replicas:
            replica.pass_time(moment - self.outcome.end)
        self.outcome.end = moment

    def end(self) -> None:
        """End the replay."""
        if self.timeline is not None:
            self.outcome.timeline = self.timeline.rows(self.outcome.end, self.replicas, self.traffic)
        for replica in self.replicas:
            replica.count_copies()

    # -- their parts ----------------------------------------------------------------------

    def _end_steps(self, now: int) -> None:
        ended = [replica for replica in self.replicas if replica.ends == now]
        yielded: set[Request] = set()
        for replica in ended:
            tokens = replica.end(now)
            yielded.update(tokens)
            if self.books is not None:
                for request in sorted(tokens, key=lambda one: one.number):
                    self.books.token(request, replica.index)
        self._tell_clients(now)
        self.roles.settle(now)
        self.roles.end_delays(now)
        # Where instances tell a relay, all are in one group, or none is.
        common = self.groups[:1] if any(group.step_ends(now) for group in self.groups[:1]) else []
        for replica in self.replicas if common else ended:
            self.routers.tell(replica, self._step, now)
        for group in self.groups:
            group.end_step(now)
        relay, every = self.routers.relay, self.routers.every
        due = every is not None and now > 0 and now % every == 0 if relay is None else relay.due <= now
        self._reported = due
        if due:
            self.routers.report(now)
        for request in self.patience.cancels(now):
            self._cancel(request, now)
        self._tell_clients(now)
        for replica in ended:
            for request in replica.scheduler.running.copy():
                if request in replica.leaving:
                    target, already = replica.leaving[request]
                    self.traffic.leave(request, target, now, already)
                elif request in yielded:
                    self._decide(request, replica, now)

    def _watch(self, number: int, now: int) -> None:
        """Take the actions of a monitor."""
        for place, action in enumerate(self.monitors[number]["actions"]):
            if action["action"] == "flip":
                able = [one.index for one in self.replicas if one.refusal(TraceRequest(0, 1, 0)) is None]
                self.flips[number, place].pick(View(now, self.replicas, self.pace), able)
            elif action["action"] in ("scale", "gauge"):
                view = View(now, self.replicas, self.pace, routers=self.routers)
                self.readers[number, place].act(view)
            elif self.unfinished:
                self.traffic.act(action, now)

    def _decide(self, request: Request, replica: Replica, now: int) -> None:
        """Route a request again that has just generated a token."""
        # Of several tokens, the last one of the reasoning may be any.
        before, reasoning = request.generated - request.yielded, request.spec.reasoning_tokens
        answers = request.changes_phase and before < reasoning <= request.generated
        for name, asked in (("on_prefilled", request.generated == 1), ("on_answering", answers)):
            if not asked:
                continue
            if name not in self.rules:
                target = self.decode_targets.get(request.number) if name == "on_prefilled" else None
                if target is not None and target != replica.index:
                    self._leave(request, target, now)
                    return
                continue
            able = [one.index for one in self.replicas if one.refusal(request.spec) is None]
            view = View(
                now, self.replicas, self.pace, request, here=replica, books=self.books, routers=self.routers
            )
            target = self.rules[name][self.routers.router_of(request.number)].pick(view, able)
            if target is not None and target != replica.index:
                self._leave(request, target, now)
                return

    def _leave(self, request: Request, target: int, now: int) -> None:
        self.traffic.leave(request, target, now)
        if self.books is not None:
            self.books.route(request, target)

    def _tell_clients(self, now: int) -> None:
        """Tell the clients of the requests that have ended at a moment."""
        for request in self._without_end.copy():
            gave_up = request.index in self.outcome.gave_up
            if request.done or request.rejected is not None or gave_up or request.cancelled is not None:
                self._without_end.remove(request)
                self.patience.forget(request)
                repeatable = gave_up or request.rejected == "policy" or request.cause == "timed out"
                if repeatable and self.patience.repeat(request.index, now):
                    self.outcome.gave_up.discard(request.index)
                    continue
                self.clients.end(request.index, now, answered=request.finished)

    def _next_arrival(self) -> int | None:
        """Return when a request is sent next, for the first time or again."""
        times = [at for at, _ in self.patience.again]
        first = self.clients.next()
        return min(times if first is None else [*times, first], default=None)

    def _first(self) -> Request:
        return self.outcome.requests[self.clients.send()]

    def _again(self, row: int) -> Request:
        """Return a request that is sent again, in place of the one that has ended."""
        before = self.outcome.requests[row]
        self.outcome.before[row].append(before)
        self.outcome.instance[row] = None
        self.outcome.requests[row] = Request(row, before.spec)
        return self.outcome.requests[row]

    def _cancel(self, request: Request, now: int) -> None:
        """Cancel a request that has arrived."""
        request.cancelled, request.cause = now, self.patience.cause(request)
        if request in self.held:
            self._let_go(request)
            request.left = True
        else:
            self.traffic.cancel(request, now)

    def _arrive(self, request: Request, now: int) -> None:
        request.spec = replace(request.spec, arrival=now)
        request.number = self._arrived
        self._arrived += 1
        self._without_end.append(request)
        self._sent.append(request)
        if self.patience.is_up(request, now):
            request.cancelled, request.cause, request.left = now, self.patience.cause(request), True
            return
        refusals = [replica.refusal(request.spec) for replica in self.replicas]
        able = [index for index, refusal in enumerate(refusals) if refusal is None]
        if not able:
            # The reason of the instance that came nearest to accepting it.
            reasons: tuple[Reason, ...] = ("max_num_batched_tokens", "blocks", "max_model_len", "model")
            request.rejected = next(reason for reason in reasons if reason in refusals)
            return
        if not self.held:
            self._blocked.clear()
        if self._waits_behind(request) or not self._route(request, able, now):
            if not self.held:
                self._asked_at = self._changes
            self.held.append(request)
            self.outcome.held.add(request.index)

    def _route(self, request: Request, able: list[int], now: int) -> bool:
        """Send a request to an instance or reject it; return False if its router holds it."""
        request.joined = now
        view = View(now, self.replicas, self.pace, request, books=self.books, routers=self.routers)
        decision = self.rules["on_arrival"][self.routers.router_of(request.number)].decide(view, able)
        assert decision is not None, "the last of the rules on arrival picks an instance"
        if decision is AtRouter.REJECT:
            request.rejected = "policy"
        elif isinstance(decision, int):
            self.outcome.instance[request.index] = decision
            self._pick_decode(request, replace(view, here=self.replicas[decision], decode=True), able)
            if (decode := self.decode_targets.get(request.number)) is None:
                self.routers.route(request, decision)
            else:
                self.routers.route_both(request, decision, decode)
            if self.books is not None:
                self.books.route(request, decision)
            self.traffic.send(request, decision, self.decode_targets.get(request.number), now)
        if decision is AtRouter.REJECT or isinstance(decision, int):
            return True
        self._blocked |= {queue for queue in self._queues(request) if queue[0] is decision}
        return False

    def _queues(self, request: Request) -> set[tuple[AtRouter, int, int]]:
        """Return the queues that a request is in: of its router, and of its tenant and its session there."""
        router, spec = self.routers.router_of(request.number), request.spec
        queues = {(AtRouter.HOLD_ALL, router, 0)}
        if spec.tenant is not None:
            queues.add((AtRouter.HOLD_TENANT, router, spec.tenant))
        if spec.session is not None:
            queues.add((AtRouter.HOLD_SESSION, router, spec.session))
        return queues

    def _waits_behind(self, request: Request) -> bool:
        """Whether a request that is held blocks another one, which came later."""
        return bool(self.held) and not self._blocked.isdisjoint(self._queues(request))

    def _pick_decode(self, request: Request, view: View, able: list[int]) -> None:
        """Pick the instance on which an arriving request is to decode, if that is picked now."""
        rules = self.rules.get("decode_on_arrival")
        if rules is None:
            return
        target = rules[self.routers.router_of(request.number)].pick(view, able)
        self.decode_targets[request.number] = target
        if target is not None and self.books is not None:
            self.books.insert(request, target)

    @property
    def _changes(self) -> int:
        """First tokens, requests that finished or were dropped, and changes of roles, so far."""
        firsts = sum(one.generated > 0 for one in self._sent)
        ended = sum(one.finished or one.left or one.dropped for one in self._sent)
        return firsts + ended + len(self.roles.history)

    def _ask_again(self, now: int) -> None:
        """Route requests that are held and may go, and drop those that have waited for too long."""
        arrives = self._next_arrival() == now
        if self.held and (self._reported or arrives or self._changes != self._asked_at):
            self._ask_each(now)
        most = self.routers.give_up_after
        late = [one for one in self.held if most is not None and now - one.spec.arrival >= most]
        for request in late:
            self._let_go(request)
            self.outcome.gave_up.add(request.index)
        if late:
            self._ask_each(now)

    def _ask_each(self, now: int) -> None:
        """Ask about each request that is held and waits behind no other, in order of arrival."""
        self._blocked.clear()
        for request in self.held.copy():
            able = [one.index for one in self.replicas if one.refusal(request.spec) is None]
            if not self._waits_behind(request) and self._route(request, able, now):
                self._let_go(request)
        self._asked_at = self._changes

    def _let_go(self, request: Request) -> None:
        self.held.remove(request)
        self.outcome.held.discard(request.index)

    def _tell_before(self, now: int) -> None:
        for replica in self.replicas:
            if self.routers.relay is not None and self.routers.relay.before and replica.step is None:
                self.routers.tell(replica, self._step, now)

    def _start_steps(self, now: int) -> None:
        """Start steps; again where KV was read at once, since its source has more blocks now."""
        self._start_each(now)
        while self._follow_starts(now):
            self._start_each(now)

    def _follow_starts(self, now: int) -> bool:
        """Send what was accepted, and offer prompts that end with these steps; return whether any was."""
        read = self.traffic.send_accepted(now)
        offers = [self.traffic.expect(replica, self.decode_targets, now) for replica in self.replicas]
        return read or any(offers)

    def _form(self, replica: Replica, now: int) -> None:
        """Form a step, and book the tokens of the latest one that count since this one was decided."""
        replica.form(now)
        counted, replica.scheduler.state.counted = replica.scheduler.state.counted, []
        if self.books is not None:
            for request in sorted(counted, key=lambda one: one.number):
                self.books.token(request, replica.index)
        self.roles.settle(now)

    @property
    def _step(self) -> int:
        """The steps that all instances have taken together."""
        return self.groups[0].number if self.groups else 0

    def _start_each(self, now: int) -> None:
        groups = [group for group in self.groups if group.may_start]
        if groups or not self.groups:
            self._tell_before(now)
        for group in groups:
            group.hold(now)
            for replica in group.members:
                self._form(replica, now)
            group.begin(now)
        for replica in self.alone:
            self._form(replica, now)
            replica.begin(now)
