"""One run from a seed: steps drawn at random while things fail, then rest, then what must hold at rest."""

import os
from bisect import bisect
from collections import deque
from itertools import accumulate
from typing import NamedTuple

from mpbroker.metadata.commands import AllocateProducerIds
from tests.simulation.invariants import Broken, Watcher
from tests.simulation.world import BROKERS, TOPIC, World, creation, deletion, election, reassignment, shutdown

STEPS = int(os.environ.get("STEPS", "150"))
MOST_DOWN = 2
MOST_TRIES = 30

WEIGHTS = {
    "network": 60,
    "store": 50,
    "watch": 50,
    "push": 40,
    "fetch": 20,
    "scan": 14,
    "see": 30,
    "agent_dies": 0.6,
    "fetcher_dies": 0.6,
    "break_off": 3,
    "produce": 8,
    "propose": 15,
    "shrink": 5,
    "time": 1,
    "register": 20,
    "kill": 0.8,
    "start": 8,
    "cut": 0.6,
    "join": 4,
    "expire": 12,
    "power": 0.5,
    "controller_dies": 0.8,
    "strive": 20,
    "give_up": 1,
    "admin": 1.5,
    "late": 3,
    "checkpoint": 1,
    "late_message": 6,
}
"""How often a step is drawn; drawn again if it can do nothing at that moment."""

FATES = {"done": 20, "hidden": 1, "lost": 1, "store_late": 1}
"""What becomes of a transaction: done; or the controller does not know: done, not done, not done yet."""


MOODS = {
    "plain": {},
    "administrator": {"admin": 8, "kill": 0.2, "cut": 0.2, "controller_dies": 0.2, "power": 0.1},
    "controllers": {"controller_dies": 4, "late_message": 3, "strive": 60, "admin": 4},
    "store": {"hidden": 5, "lost": 5, "store_late": 5, "late": 6, "admin": 4},
    "machines": {"power": 3, "shrink": 10, "checkpoint": 0.3, "register": 40, "propose": 3},
    "followers": {"kill": 2, "start": 16, "cut": 2, "join": 8, "shrink": 12, "produce": 16, "break_off": 8},
}
"""Other weights: what seldom comes together in one, comes together in another."""


def mood_of(seed):
    """Every seed has one."""
    return tuple(MOODS)[seed % len(MOODS)]


class Failure(NamedTuple):
    """What a run found. `trail`: its last steps."""

    seed: int
    sentence: str
    trail: list[str]


def run(seed, steps=STEPS, often=None):
    """None: all holds; else a Failure. `often`: other weights for some steps."""
    watcher = Watcher()
    world = World(seed, watcher)
    schedule = Schedule(world, often)
    try:
        world.may_be_busy = True
        for _ in range(steps):
            schedule.step()
            watcher(world)
        world.may_be_busy = False
        schedule.heal()
        watcher(world)
        watcher.at_rest()
    except Broken as error:
        return Failure(seed, str(error), [f"{name} {broker}" for name, broker in world.trail[-60:]])
    return None


class Schedule:
    """Draws steps."""

    def __init__(self, world, often=None):
        self.world = world
        self.random = world.random
        often = often or {}
        self._fates = {fate: often.get(fate, weight) for fate, weight in FATES.items()}
        self._bounds = list(accumulate(often.get(name, weight) for name, weight in WEIGHTS.items()))
        self._methods = [getattr(self, name) for name in WEIGHTS]

    def step(self):
        """One step that does something. (Drawn by hand: `choices` and `choice` cost more than most steps.)"""
        draw, bits, bounds, methods = self.random.random, self.random.getrandbits, self._bounds, self._methods
        for _ in range(MOST_TRIES):
            method = methods[bisect(bounds, draw() * bounds[-1])]
            while (place := bits(2)) == len(BROKERS):
                pass
            broker = BROKERS[place]
            if method(broker):
                self.world.trail.append((method.__name__, broker))
                return

    def network(self, broker):
        return self.world.transmit(calm=False)

    def late_message(self, broker):
        return self.world.arrive_late()

    def store(self, broker):
        candidate = self.world.candidates[broker]
        if not self._works(broker) or not candidate.todo:
            return False
        (fate,) = self.random.choices(tuple(self._fates), tuple(self._fates.values()))
        late = candidate.step_store("late" if fate == "store_late" else fate, self.world.now_ms)
        if late:
            self.world.late.append(late)
        return True

    def late(self, broker):
        """A transaction that nobody believed in any more arrives at the store."""
        if not self.world.late:
            return False
        txn = self.world.late.pop(self.random.randrange(len(self.world.late)))
        self.world.store.txn(txn.checks, txn.ops, tag=txn.tag)
        return True

    def watch(self, broker):
        return self._works(broker) and self.world.candidates[broker].watch(self.world.now_ms)

    def push(self, broker):
        return self._works(broker) and self.world.push(broker)

    def fetch(self, broker):
        return self.world.fetch(broker)

    def scan(self, broker):
        return self.world.scan(broker)

    def see(self, broker):
        """An agent hears of a change of the store."""
        return self._works(broker) and self.world.brokers[broker].watch()

    def agent_dies(self, broker):
        """Its successor finds rows and logs, and does not know what the controller asked of it."""
        host = self.world.brokers[broker]
        if not host.up or not host.recovered:
            return False
        host.new_agent()
        return True

    def fetcher_dies(self, broker):
        """Its successor begins with the rows."""
        host = self.world.brokers[broker]
        if not host.up:
            return False
        for link in host.fetching.links.values():
            link.lose()
        host.fetching.links.clear()
        return True

    def break_off(self, broker):
        """Questions to leaders that were not answered are given up."""
        return self.world.brokers[broker].up and self.world.brokers[broker].fetching.break_off()

    def produce(self, broker):
        return self.world.produce(broker)

    def propose(self, broker):
        return self.world.propose(broker)

    def shrink(self, broker):
        return self.world.shrink(broker)

    def checkpoint(self, broker):
        """High watermarks and records reach the disk."""
        for log in self.world.brokers[broker].logs.values():
            log.checkpoint, log.synced = log.hw, log.leo
        return True

    def time(self, broker):
        self.world.now_ms += self.random.choice((50, 100, 2000))
        if self._works(broker):
            self.world.tick(broker)
        return True

    def register(self, broker):
        before = self.world.brokers[broker].epoch
        self.world.register(broker)
        return self.world.brokers[broker].epoch != before

    def give_up(self, broker):
        asking = self.world.brokers[broker].asking is not None
        self.world.give_up_proposal(broker)
        return (self._works(broker) and self.world.give_up_requests(broker)) or asking

    def kill(self, broker):
        """A broker's processes are killed, its candidate with them."""
        if not self.world.brokers[broker].up or self._away() >= MOST_DOWN or self._damaged():
            return False
        self._stop(broker, power=False)
        return True

    def power(self, broker):
        """Its machine fails: what was not synced is lost. Two failures at once are more than is promised, so the
        others of each ISR are there, and nothing else fails before it has left them."""
        world = self.world
        if not world.brokers[broker].up or self._away() or self._damaged() or self._changing():
            return False
        lives = {other: world.registered(other) for other in BROKERS}
        if any(not lives[other] == world.brokers[other].epoch >= 0 for other in BROKERS):
            return False  # somebody was away a moment ago
        for record, _, revision in world.states().values():
            others = [other for other in record.isr if other != broker and lives[other] <= revision]
            if broker in record.isr and not others:
                return False
        self._stop(broker, power=True)
        return True

    def _stop(self, broker, power):
        self.world.brokers[broker].stop(power)
        self.world.candidates[broker].forget()
        self.world.net = deque(m for m in self.world.net if broker not in (m.source, m.target))

    def _changing(self):
        """Somebody was asked to take replicas away: that would be the second failure."""
        running = [candidate.controller for candidate in self.world.candidates.values() if candidate.controller]
        asked = any(controller.event_queue_size or controller.shutting_down for controller in running)
        return asked or any(record.adding or record.removing for record in self.world.topics().values())

    def _damaged(self):
        """A broker without some of its records may be in an ISR."""
        return any(self._is_damaged(broker) for broker in BROKERS)

    def _is_damaged(self, broker):
        model = self.world.brokers[broker]
        if not model.unclean:
            return False
        registered = self.world.registered(broker)
        if not model.up or registered != model.epoch or registered < 0:
            registered = -1  # of its life before
        for record, _, revision in self.world.states().values():
            if broker in record.isr and (registered < 0 or revision < registered):
                return True
        if registered >= 0:
            model.unclean = False
        return False

    def start(self, broker):
        model = self.world.brokers[broker]
        if model.up or (self.world.registered(broker) >= 0 and model.session is None):
            return False
        model.start()
        model.epoch, model.session = -1, None
        return True

    def cut(self, broker):
        if broker in self.world.cut or self._away() >= MOST_DOWN - 1 or self._damaged():
            return False
        self.world.cut.add(broker)
        return True

    def join(self, broker):
        if broker not in self.world.cut:
            return False
        self.world.cut.discard(broker)
        return True

    def expire(self, broker):
        """The session of a broker that is away ends."""
        waits = self.world.brokers[broker].session is None  # started again, and not registered yet
        if (self._works(broker) and not waits) or not self.world.store.sessions(f"broker-{broker}"):
            return False
        self.world.expire(broker)
        return True

    def controller_dies(self, broker):
        """The process of the controller alone; or it only loses its session, and goes on until it notices."""
        candidate = self.world.candidates[broker]
        if candidate.session is None:
            return False
        self.world.store.session_close(candidate.session)
        candidate.session = None
        if self.random.random() < 0.5:
            candidate.forget()
        return True

    def strive(self, broker):
        candidate = self.world.candidates[broker]
        if not self._works(broker) or candidate.controller or self.world.store.get(self.world.keys.controller)[1]:
            return False
        return candidate.strive(self.world.now_ms)

    def admin(self, broker):
        """Somebody asks the controller for something."""
        active, world = self.world.active(), self.world
        if active is None or self._damaged():
            return False
        command = self.random.choice(
            (
                creation("b"),
                deletion("b"),
                election(),
                AllocateProducerIds(),
                reassignment(TOPIC, self.random.sample(BROKERS, self.random.choice((2, 3)))),
                reassignment(TOPIC, None),
                shutdown(broker, world.registered(broker)),
            )
        )
        world.ask(command, active.broker)
        return True

    def _works(self, broker):
        return self.world.brokers[broker].up and broker not in self.world.cut

    def _away(self):
        return sum(not self._works(broker) for broker in BROKERS)

    def heal(self):
        """Nothing fails any more: everybody is started, sessions of the dead expire, and it comes to rest."""
        world = self.world
        world.cut.clear()
        while world.late:
            self.late(0)
        while world.arrive_late():
            pass
        world.net.clear()
        for broker in BROKERS:
            world.brokers[broker].fetching.break_off()
            model = world.brokers[broker]
            if not model.up or not (model.session and world.store.session_renew(model.session)):
                world.expire(broker)
                model.start()
                model.epoch = -1
            self.give_up(broker)
        for broker in BROKERS:
            candidate = world.candidates[broker]
            for session in world.store.sessions(f"broker-{broker}"):
                if session not in (world.brokers[broker].session, candidate.session):
                    world.store.session_close(session)
            if candidate.controller and not (candidate.session and world.store.session_renew(candidate.session)):
                candidate.forget()
        for round_ in range(12):
            world.now_ms += 1000
            for broker in BROKERS:
                world.register(broker)
                self.strive(broker)
                self.give_up(broker)
            rest = world.calm(60)
            active = world.active()
            if rest and round_ > 0 and not active.controller.shutting_down:
                return
            self._make_way()
        raise Broken("it does not come to rest")

    def _make_way(self):
        """A broker that asked to stop is started again, or nobody would let it lead."""
        active = self.world.active()
        for broker in sorted(active.controller.shutting_down) if active else ():
            self.world.expire(broker)
            self.world.brokers[broker].start()
            self.world.brokers[broker].epoch = -1
