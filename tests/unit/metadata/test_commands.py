"""Commands and answers survive their slot; what does not fit is refused before it is sent."""

import msgspec
import pytest

from mpbroker.metadata import commands
from mpbroker.metadata.commands import (
    MAX_ANSWER_BYTES,
    MAX_COMMAND_BYTES,
    AllocateProducerIds,
    AlterConfigs,
    CommandTooLarge,
    ConfigChange,
    ConfigChanges,
    ControlAnswer,
    ControlRequest,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Failed,
    FeatureUpdate,
    NewTopic,
    PartitionCount,
    ProducerIds,
    TopicResult,
    TopicResults,
    UpdateFeatures,
    decode_answer,
    decode_command,
    encode_answer,
    encode_command,
)


@pytest.mark.parametrize(
    "command",
    [
        CreateTopics([NewTopic("a"), NewTopic("b", 3, 1, [(0, [1, 2])], {"retention.ms": "1", "x": None})], True),
        DeleteTopics(["a", "ä"]),
        CreatePartitions([PartitionCount("a", 5), PartitionCount("b", 6, [[1], [2]])]),
        AllocateProducerIds(),
    ],
)
def test_commands_survive_the_slot(command):
    assert decode_command(encode_command(command)) == command


@pytest.mark.parametrize(
    "answer",
    [
        TopicResults([TopicResult("a", 36, "no"), TopicResult("b", topic_id=b"i" * 16, num_partitions=3)]),
        ProducerIds(1000, 1000),
        Failed(-1, "why"),
    ],
)
def test_answers_survive_the_slot(answer):
    assert decode_answer(encode_answer(answer)) == answer


def test_a_command_too_large_for_its_slot_is_refused():
    with pytest.raises(CommandTooLarge, match="allowed are"):
        encode_command(CreateTopics([NewTopic("a", configs={"k": "v" * MAX_COMMAND_BYTES})]))


@pytest.mark.parametrize("name_chars", [1, 40, 249])
def test_the_answer_of_every_command_that_fits_fits_too(name_chars):
    fitting = 0
    while True:
        try:
            encode_command(DeleteTopics(["n" * name_chars] * (fitting + 1)))
        except CommandTooLarge:
            break
        fitting += 1
    results = [TopicResult("n" * name_chars, -1, "s" * 2000, b"i" * 16, 2**31 - 1, 2**31 - 1)] * fitting
    encoded = encode_answer(TopicResults(results))
    assert len(encoded) <= MAX_ANSWER_BYTES
    assert len(decode_answer(encoded).results) == fitting > 80


def test_a_long_sentence_is_shortened_not_dropped():
    (result,) = decode_answer(encode_answer(TopicResults([TopicResult("a", 40, "s" * 5000)]))).results
    assert result.error_message == "s" * 1000


@pytest.mark.parametrize(("length", "left"), [(0, 0), (999, 999), (1000, 1000), (1001, 1000)])
def test_a_sentence_has_at_most_a_thousand_characters(length, left):
    result = TopicResult("a", 40, "s" * length, b"i" * 16, 3, 2)
    (found,) = decode_answer(encode_answer(TopicResults([result], 7))).results
    assert found == TopicResult("a", 40, "s" * left, b"i" * 16, 3, 2)


@pytest.mark.parametrize("junk", [b"", b"\xc1", msgspec.msgpack.encode({"type": "format_disk"}), b"\x93"])
def test_bytes_that_are_no_command(junk):
    with pytest.raises(msgspec.DecodeError):
        decode_command(junk)


RESULT = TopicResult("a", 36, "no", b"i", 3, 2)


@pytest.mark.parametrize(
    ("message", "form"),
    [
        (CreateTopics([NewTopic("a")]), {"type": "create_topics", "topics": [["a", -1, -1, [], {}]]}),
        (DeleteTopics(["a"]), {"type": "delete_topics", "names": ["a"]}),
        (CreatePartitions([PartitionCount("a", 5)]), {"type": "create_partitions", "topics": [["a", 5, None]]}),
        (
            AlterConfigs([ConfigChanges(2, "t", [ConfigChange("a", 0, "1")])]),
            {"type": "alter_configs", "resources": [[2, "t", [["a", 0, "1"]]]]},
        ),
        (UpdateFeatures([FeatureUpdate("f", 2, 1)]), {"type": "update_features", "updates": [["f", 2, 1]]}),
        (AllocateProducerIds(), {"type": "allocate_producer_ids"}),
        (ControlRequest(7, 9), {"type": "control_request", "entry": 7, "fill_number": 9}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_command_says_no_more_than_it_must(message, form):
    """A command has room for 60 KB: no names of fields within lists, nothing that is as usual."""
    assert msgspec.msgpack.decode(encode_command(message)) == form


@pytest.mark.parametrize(
    ("message", "form"),
    [
        (TopicResults([TopicResult("a")]), {"type": "topics", "results": [["a", 0, None, b"", -1, -1]]}),
        (TopicResults([RESULT], 7), {"type": "topics", "results": [["a", 36, "no", b"i", 3, 2]], "error_code": 7}),
        (ProducerIds(), {"type": "producer_ids"}),
        (ProducerIds(1, 2, 3), {"type": "producer_ids", "first_id": 1, "count": 2, "error_code": 3}),
        (ControlAnswer(0), {"type": "control_answer", "error_code": 0}),
        (Failed(-1), {"type": "failed", "error_code": -1}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_answer_says_no_more_than_it_must(message, form):
    assert msgspec.msgpack.decode(encode_answer(message)) == form


def test_what_was_sent_does_not_change_behind_the_sender():
    kinds = [one for one in vars(commands).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    assert len(kinds) == 17 and all(kind.__struct_config__.frozen for kind in kinds)


def test_they_are_values_and_spend_no_byte_on_a_default():
    """A slot has little room, and several threads may hold a command."""
    kinds = [kind for kind in vars(commands).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    assert len(kinds) > 10
    for kind in kinds:
        config = kind.__struct_config__
        assert config.frozen, kind
        assert config.array_like or config.omit_defaults or not kind.__struct_defaults__, kind


def test_sentences_go_where_all_together_are_too_long():
    results = [TopicResult(f"topic-{number}", 41, "because " * 100) for number in range(40)]
    while len(encode_answer(TopicResults(results))) <= MAX_ANSWER_BYTES:
        short = decode_answer(encode_answer(TopicResults(results))).results
        if short[0].error_message is None:
            break
        assert len(short[0].error_message) <= commands.MAX_SENTENCE_CHARS
        results = [*results, *results]
    assert {one.error_message for one in short} == {None} and len(short) == len(results)


def test_the_slots_bounds_are_allowed_and_no_byte_more():
    """native/shm/layout.h: 64 KiB, of which 64 bytes are a header, 40 KiB the command and the rest the answer."""
    assert (MAX_COMMAND_BYTES, MAX_ANSWER_BYTES) == (40 * 1024, 24 * 1024 - 64)
    empty = len(encode_command(CreateTopics([NewTopic("a", configs={"k": "v" * 1000})]))) - 1000
    fits = CreateTopics([NewTopic("a", configs={"k": "v" * (MAX_COMMAND_BYTES - empty)})])
    assert len(encode_command(fits)) == MAX_COMMAND_BYTES
    with pytest.raises(CommandTooLarge):
        encode_command(CreateTopics([NewTopic("a", configs={"k": "v" * (MAX_COMMAND_BYTES - empty + 1)})]))


@pytest.mark.parametrize(
    "named",
    [
        lambda name: DeleteTopics([name]),
        lambda name: CreateTopics([NewTopic(name)]),
        lambda name: CreatePartitions([PartitionCount(name, 5)]),
        lambda name: AlterConfigs([ConfigChanges(2, name, [])]),
        lambda name: UpdateFeatures([FeatureUpdate(name, 1, 1)]),
    ],
)
def test_the_answers_bound_is_the_length_of_the_names_and_48_bytes_of_each(named):
    room = MAX_ANSWER_BYTES - 2 * 48
    encode_command(named("n" * room))
    encode_command(named("ä" * (room // 2)))
    for name in ("n" * (room + 1), "ä" * (room // 2 + 1)):
        with pytest.raises(CommandTooLarge, match=f"{MAX_COMMAND_BYTES} and {MAX_ANSWER_BYTES}"):
            encode_command(named(name))


@pytest.mark.parametrize(
    ("command", "unsaid"),
    [
        (CreateTopics([]), {"validate_only": False, "forward": False}),
        (DeleteTopics([]), {"ids": {}}),
        (CreatePartitions([]), {"validate_only": False}),
        (AlterConfigs([]), {"replace": False, "validate_only": False}),
        (UpdateFeatures([]), {"validate_only": False}),
        (TopicResults([]), {"error_code": 0}),
        (ProducerIds(), {"first_id": -1, "count": 0, "error_code": 0}),
        (ControlAnswer(0), {"codes": b"", "body": b""}),
        (Failed(1), {"error_message": ""}),
        (NewTopic("a"), {"num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": {}}),
        (PartitionCount("a", 1), {"assignments": None}),
        (
            TopicResult("a"),
            {"error_code": 0, "error_message": None, "topic_id": b"", "num_partitions": -1, "replication_factor": -1},
        ),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_is_not_said_is_as_usual(command, unsaid):
    """Done, and not only looked at; here; with the broker's own counts; without an error."""
    assert {name: getattr(command, name) for name in unsaid} == unsaid


@pytest.mark.parametrize(("more", "is_left"), [(0, True), (1, False)])
def test_an_answer_that_just_fits_keeps_its_sentences(more, is_left):
    def answer(last):
        results = [TopicResult(f"t{number:03}", 41, "s" * 1000) for number in range(23)]
        return TopicResults([*results, TopicResult("n" * last, 41, "s")])

    room = MAX_ANSWER_BYTES - len(encode_answer(answer(256))) + 256
    encoded = encode_answer(answer(room + more))
    assert len(encoded) == MAX_ANSWER_BYTES or not is_left
    assert [one.error_message for one in decode_answer(encoded).results] == [
        *["s" * 1000 if is_left else None] * 23,
        "s" if is_left else None,
    ]
