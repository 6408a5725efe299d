"""A parked operation completes once: by its keys, by its deadline, and never by a change it could miss."""

import pytest

from mpbroker.purgatory.delayed_operation import DelayedOperation, DelayedOperationPurgatory


class Counting(DelayedOperation):
    __slots__ = ("done", "expired", "ready")

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


def test_change_between_a_later_try_and_the_wait_is_not_missed():
    operation = Counting(100, [5])
    purgatory = DelayedOperationPurgatory(0, lambda key: setattr(operation, "ready", operation.ready is None))
    assert not purgatory.try_complete_else_watch(operation)
    operation.ready = None  # moved, but not enough; it moves again just before the watcher bit is visible
    assert purgatory.check([5]) == 1
    assert (operation.done, len(purgatory)) == (1, 0)


def test_deadline_completes_once_even_if_the_key_moves_later():
    purgatory = DelayedOperationPurgatory(0)
    operation = Counting(100, [1])
    purgatory.try_complete_else_watch(operation)
    assert purgatory.advance(99) == 0
    assert purgatory.advance(100) == 1
    operation.ready = True
    assert purgatory.check_all() == 0
    assert (operation.done, operation.expired, len(purgatory)) == (1, 1, 0)


class Broken(Counting):
    """Raises where it is told to; notes what it was told of that."""

    __slots__ = ("errors", "where")

    def __init__(self, deadline_ms, keys):
        super().__init__(deadline_ms, keys)
        self.where, self.errors = "", []

    def _raise(self, where):
        if self.where == where:
            raise RuntimeError(where)

    def try_complete(self):
        self._raise("try")
        return super().try_complete()

    def on_complete(self):
        self._raise("complete")
        super().on_complete()

    def on_expiration(self):
        self._raise("expiration")
        super().on_expiration()

    def on_failure(self, error):
        self.errors.append(str(error))


def _parked(where):
    purgatory, broken, other = DelayedOperationPurgatory(0), Broken(100, [1]), Counting(100, [1])
    for operation in (broken, other):
        purgatory.try_complete_else_watch(operation)
    broken.where, other.ready = where, True
    return purgatory, broken, other


def test_an_operation_that_raises_ends_and_the_others_go_on():
    for where in ("try", "complete"):
        purgatory, broken, other = _parked(where)
        broken.ready = True
        purgatory.check([1])
        assert (broken.errors, other.done, len(purgatory), purgatory.has_deadlines) == ([where], 1, 0, False)
    for where in ("expiration", "complete"):
        purgatory, broken, other = _parked(where)
        assert purgatory.advance(100) == 2
        assert (broken.errors, other.done, len(purgatory), purgatory.has_deadlines) == ([where], 1, 0, False)


def test_an_operation_that_raises_while_it_is_parked_is_not_watched():
    operation = Broken(100, [1])
    purgatory = DelayedOperationPurgatory(0, lambda key: setattr(operation, "where", "try"))
    with pytest.raises(RuntimeError):
        purgatory.try_complete_else_watch(operation)
    assert (len(purgatory), purgatory.has_deadlines, operation.errors) == (0, False, [])


def test_an_operation_that_failed_is_over(monkeypatch):
    told = []
    monkeypatch.setattr(Counting, "on_failure", lambda _, error: told.append(str(error)))
    operation, purgatory = Counting(100, []), DelayedOperationPurgatory(0)
    purgatory._fail(operation, RuntimeError("broken"))
    assert operation.completed and told == ["broken"]
    purgatory._expire(operation)
    assert told == ["broken"] and (operation.done, operation.expired) == (0, 0)


def test_it_is_finished_once():
    operation = Counting(100, [1], ready=True)
    assert (operation.completed, operation.force_complete(), operation.completed) == (False, True, True)
    assert (operation.force_complete(), operation.done) == (False, 1)


def test_who_does_not_say_what_a_failure_means_hears_of_it():
    with pytest.raises(RuntimeError, match="broken"):
        Counting(100, []).on_failure(RuntimeError("broken"))


def test_keys_that_are_known_modulo_a_number():
    purgatory = DelayedOperationPurgatory(0)
    operations = [Counting(100, [key]) for key in (3, 13, 25, 1)]
    for operation in operations:
        purgatory.try_complete_else_watch(operation)
        operation.ready = True
    assert purgatory.check_hashed([3], 10) == 2
    assert [operation.done for operation in operations] == [1, 1, 0, 0]
    assert (purgatory.check_hashed([3], 10), purgatory.check_hashed([5, 1], 10), len(purgatory)) == (0, 2, 0)


class Chained(Counting):
    """Finishes another one as it is finished."""

    __slots__ = ("other",)

    def on_complete(self):
        super().on_complete()
        self.other.force_complete()


def test_one_that_another_one_finished_meanwhile_is_not_counted():
    purgatory, first, second = DelayedOperationPurgatory(0), Chained(100, [1]), Counting(100, [1])
    first.other = second
    for operation in (first, second):
        purgatory.try_complete_else_watch(operation)
        operation.ready = True
    assert (purgatory.check([1]), first.done, second.done) == (1, 1, 1)


def test_nothing_is_kept_of_a_key_that_nobody_watches_any_more():
    purgatory = DelayedOperationPurgatory(0)
    first, second = Counting(100, [1, 2]), Counting(100, [2])
    for operation in (first, second):
        assert not purgatory.has_deadlines or operation is second
        purgatory.try_complete_else_watch(operation)
    first.ready = True
    assert (purgatory.check([1]), list(purgatory._watchers), purgatory.has_deadlines) == (1, [2], True)
    second.ready = True
    assert (purgatory.check([2]), list(purgatory._watchers), purgatory.has_deadlines) == (1, [], False)
