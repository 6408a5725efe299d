"""A parked operation completes once: by its keys, by its deadline, and never by a change it could miss."""

from mpbroker.purgatory.delayed_operation import DelayedOperation, DelayedOperationPurgatory


class Counting(DelayedOperation):
    __slots__ = ("ready", "done", "expired")

    def __init__(self, deadline_ms, keys, ready=False):
        super().__init__(deadline_ms, keys)
        self.ready, self.done, self.expired = ready, 0, 0

    def try_complete(self):
        return self.ready

    def on_complete(self):
        self.done += 1

    def on_expiration(self):
        self.expired += 1


def test_ready_operation_completes_without_watching():
    purgatory = DelayedOperationPurgatory(0)
    operation = Counting(100, [1], ready=True)
    assert purgatory.try_complete_else_watch(operation)
    assert (operation.done, len(purgatory)) == (1, 0)


def test_change_between_first_try_and_wait_is_not_missed():
    operation = Counting(100, [5])

    def arm(key):
        operation.ready = True  # the key moves just before the watcher bit is visible

    purgatory = DelayedOperationPurgatory(0, arm)
    assert purgatory.try_complete_else_watch(operation)
    assert operation.done == 1


def test_moved_key_completes_only_its_watchers_and_arms_the_rest_again():
    armed = []
    purgatory = DelayedOperationPurgatory(0, armed.append)
    first, second, other = Counting(100, [1, 2]), Counting(100, [2]), Counting(100, [3])
    for operation in (first, second, other):
        assert not purgatory.try_complete_else_watch(operation)
    first.ready = True
    armed.clear()
    assert purgatory.check([2]) == 1
    assert (first.done, second.done, other.done) == (1, 0, 0)
    assert armed == [2]
    assert len(purgatory) == 2


def test_deadline_completes_once_even_if_the_key_moves_later():
    purgatory = DelayedOperationPurgatory(0)
    operation = Counting(100, [1])
    purgatory.try_complete_else_watch(operation)
    assert purgatory.advance(99) == 0
    assert purgatory.advance(100) == 1
    operation.ready = True
    assert purgatory.check_all() == 0
    assert (operation.done, operation.expired, len(purgatory)) == (1, 1, 0)
