"""Server-side assignors against a small model: all is assigned once, balanced, and moves as little as it must."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mpbroker.coordinator.consumer_groups import range_assignor, uniform_assignor

TOPICS = [bytes([number]) * 16 for number in range(4)]
SIZES = st.fixed_dictionaries({topic: st.integers(1, 9) for topic in TOPICS})


def owners(targets):
    """Partition → member; nothing has two."""
    found = {}
    for member, target in targets.items():
        for topic, numbers in target.items():
            assert numbers, "an empty set of a topic"
            for number in numbers:
                assert (topic, number) not in found, "two owners"
                found[topic, number] = member
    return found


def loads(targets):
    return {member: sum(map(len, target.values())) for member, target in targets.items()}


def least_moves(before, members, total):
    """How many partitions cannot stay where they are: those of members that have more than they may."""
    least, odd = divmod(total, len(members))
    kept = sorted((len(before.get(member, ())) for member in members), reverse=True)
    return sum(max(0, count - least - (place < odd)) for place, count in enumerate(kept))


@settings(max_examples=150, deadline=None)
@given(SIZES, st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))
def test_uniform_is_balanced_and_moves_no_more_than_it_must(sizes, first, second, topics):
    everything = frozenset(TOPICS[:topics])
    total = sum(sizes[topic] for topic in everything)
    old = uniform_assignor.assign({f"m{number}": everything for number in range(first)}, sizes, {})
    members = [f"m{number}" for number in range(first // 2, first // 2 + second)]
    new = uniform_assignor.assign(dict.fromkeys(members, everything), sizes, old)
    assert len(owners(new)) == total
    assert max(loads(new).values()) - min(loads(new).values()) <= 1
    before, after = owners(old), owners(new)
    kept = {}
    for partition, member in before.items():
        kept.setdefault(member, []).append(partition)
    moved = sum(1 for partition, member in before.items() if member in members and after[partition] != member)
    assert moved == least_moves(kept, members, total)
    again = uniform_assignor.assign(dict.fromkeys(members, everything), sizes, new)
    assert again == new, "what is balanced stays"


@settings(max_examples=150, deadline=None)
@given(SIZES, st.lists(st.frozensets(st.sampled_from(TOPICS), min_size=1), min_size=2, max_size=6))
def test_uniform_with_members_that_read_different_topics(sizes, wishes):
    subscriptions = {f"m{number}": wish for number, wish in enumerate(wishes)}
    new = uniform_assignor.assign(subscriptions, sizes, {})
    read = frozenset().union(*wishes)
    assert owners(new).keys() == {(topic, number) for topic in read for number in range(sizes[topic])}
    assert all(set(target) <= subscriptions[member] for member, target in new.items())
    for topic in read:  # no partition of a topic can go to a reader with two fewer
        readers = [member for member in new if topic in subscriptions[member]]
        giving = [loads(new)[member] for member in readers if topic in new[member]]
        assert max(giving) - min(loads(new)[member] for member in readers) <= 1
    assert uniform_assignor.assign(subscriptions, sizes, new) == new, "what is balanced stays"


def test_two_members_that_had_the_same_get_it_once():
    before = {"a": {TOPICS[0]: frozenset({0, 1})}, "b": {TOPICS[0]: frozenset({0, 1})}}
    new = uniform_assignor.assign(dict.fromkeys("ab", frozenset(TOPICS[:1])), {TOPICS[0]: 2}, before)
    assert sorted(loads(new).values()) == [1, 1] and len(owners(new)) == 2


@settings(max_examples=100, deadline=None)
@given(SIZES, st.lists(st.frozensets(st.sampled_from(TOPICS), min_size=1), min_size=1, max_size=6))
def test_range_gives_neighbours_and_the_same_numbers_of_equal_topics(sizes, wishes):
    subscriptions = {f"m{number}": wish for number, wish in enumerate(wishes)}
    new = range_assignor.assign(subscriptions, sizes, {})
    read = frozenset().union(*wishes)
    assert owners(new).keys() == {(topic, number) for topic in read for number in range(sizes[topic])}
    for target in new.values():
        for numbers in target.values():
            assert max(numbers) - min(numbers) + 1 == len(numbers)
    for topic in read:
        counts = [len(new[member].get(topic, ())) for member in new if topic in subscriptions[member]]
        assert counts == sorted(counts, reverse=True) and counts[0] - counts[-1] <= 1


def test_range_places_static_members_first_by_their_instance():
    topic = TOPICS[0]
    found = range_assignor.assign(dict.fromkeys("abc", frozenset({topic})), {topic: 3}, {"c": "i1", "b": "i2"})
    assert [found[member][topic] for member in "cba"] == [frozenset({number}) for number in range(3)]
