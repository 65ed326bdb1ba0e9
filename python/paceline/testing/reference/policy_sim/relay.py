"""A relay: instances tell it their fields when their counts change, and it publishes them to routers."""

from __future__ import annotations

from typing import Any

__all__ = ["Relay"]

Fields = dict[tuple[str, int | None], float]


class Relay:
    """What a relay was told and when it publishes, by the engine's configuration of it.

    ``every`` is the longest time between two publications, ``fields`` are those of each instance at first.
    """

    def __init__(self, config: dict[str, Any], every: int, fields: list[Fields]) -> None:
        self._config, self._every = config, every
        self.before: bool = config["before"]
        self._told = [(0.0, 0.0)] * len(fields)
        self._present = fields
        self._copy: list[Fields] | None = None
        self._mail: list[tuple[int, int, Fields]] = []
        self._since = 0
        self._step = -1
        self._published = 0
        self.due = 0
        self._wait(0)

    @property
    def has_news(self) -> bool:
        """Whether it was told anything that it has not published."""
        return bool(self._since or self._copy or self._mail)

    def tell(self, instance: int, step: int, counts: tuple[float, float], fields: Fields) -> None:
        """Have an instance tell its fields before or after a step, if its counts have changed."""
        if self._told[instance] != counts:
            self._told[instance] = counts
            self._mail.append((instance, step, fields))

    def read(self, now: int) -> bool:
        """Read what was told at a moment, in order; return whether it is time to publish."""
        mail, self._mail = self._mail, []
        for instance, step, fields in mail:
            if self._config.get("copies") is not None and step > self._step:
                self._step = step
                if self._since:
                    self._copy = self._present.copy()
            self._present[instance] = fields
            self._since += 1
            self._wait(now)
        return self.due <= now

    def publish(self, now: int) -> list[Fields]:
        """Return the fields of each instance: those before the latest step, if they were kept."""
        published = self._copy
        if published is None:
            published, self._since = self._present.copy(), 0
        self._copy = None
        self._published = now // self._config["unit"]
        self._wait(now)
        return published

    def _wait(self, now: int) -> None:
        passed = (now // self._config["unit"] - self._published) * self._config["unit"]
        left = max((self._config["gap"] if self._since else self._every) - passed, 0)
        copies = self._config.get("copies")
        self.due = now + (left if copies is None or self._copy is not None else max(left, copies))
