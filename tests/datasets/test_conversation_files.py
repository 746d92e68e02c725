"""Files of conversations: cut off at their end, or broken before it."""

from __future__ import annotations

import json

import pytest

from pytest_llmperf.cli._inspect_sharegpt import read
from pytest_llmperf.datasets._conversation_files import read_whole
from pytest_llmperf.datasets._conversations import read_conversations
from pytest_llmperf.datasets._talks import read_talks
from pytest_llmperf.datasets.sharegpt import sharegpt
from pytest_llmperf.errors import DatasetError

LINE = json.dumps({"id": "née 世界", "conversations": ["x" * 40, 12.5, True, None]})

READERS = {
    "sharegpt": lambda path: read_conversations("sharegpt", path, by_role=False),
    "multi_turn": lambda path: read_talks("sharegpt", path, 8),
    "inspect": lambda path: read(sharegpt("x", path=path)),
}


@pytest.fixture
def file(tmp_path):
    """Write a file's bytes."""

    def write(content):
        path = tmp_path / "talk.json"
        path.write_bytes(content)
        return path

    return write


def taken(path):
    found = []
    whole = read_whole("sharegpt", path, found.append)
    assert whole.records == len(found)
    return whole


@pytest.fixture
def long(talk):
    """20,000 conversations, 3.6 MB: many times what the parser reads at once."""
    return json.dumps([talk(f"c{i}", 4, 4) for i in range(20_000)]).encode()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("record", [3, 15_000])
def test_one_colon_missing_in_the_middle_is_no_end(file, long, reader, record):
    """Nobody knows what else is wrong: the record is named, in whatever way the file is read."""
    label = f'"id": "c{record - 1}"'.encode()
    assert long.count(label) == 1
    path = file(long.replace(label, label.replace(b":", b"")))
    with pytest.raises(DatasetError) as caught:
        READERS[reader](path)
    assert str(caught.value) == (
        f"sharegpt: {path}, record {record:,} is not JSON: parse error: object key and value must "
        "be separated by a colon (':')"
    )


@pytest.mark.parametrize(
    ("content", "record", "told"),
    [
        (b'[{"a": 1}, {"b": "\xff\xfe"}]', 2, "lexical error: invalid bytes in UTF8 string."),
        (b'[{"a": 1}, {b: 1}, {"c": 1}]', 2, "lexical error: invalid char in json text."),
        (b'[{"a": 1},]', 2, "parse error: unallowed token at this point in JSON text"),
        (b'[{"a": 1}}', 2, "parse error: after array element, I expect ',' or ']'"),
        (b'[{"a": 1}] more', 2, "parse error: trailing garbage"),
        (b'[{"a" 1}]', 1, "parse error: object key and value must be separated by a colon"),
    ],
)
def test_what_is_broken_in_a_small_file(file, content, record, told):
    """Read in one piece, the broken place still is not its end; bytes are told as text."""
    path = file(content)
    with pytest.raises(DatasetError) as caught:
        taken(path)
    assert str(caught.value).startswith(f"sharegpt: {path}, record {record} is not JSON: {told}")


@pytest.mark.parametrize("keep", range(len(LINE.encode())))
def test_a_list_may_end_anywhere(file, keep):
    """In a word, an escape, a letter of several bytes: the whole record before it counts."""
    record = LINE.encode()
    whole = taken(file(b"[" + record + b", " + record[:keep]))
    assert (whole.records, whole.complaint is None) == (1, False)


@pytest.mark.parametrize("keep", range(1, len(LINE.encode())))
def test_lines_may_end_anywhere(file, keep):
    """As a list may, with letters of several bytes in it as they are."""
    line = json.dumps(json.loads(LINE), ensure_ascii=False).encode()
    assert len(line) < len(LINE)  # so that the last ones are whole
    whole = taken(file(line + b"\n" + line[:keep]))
    cut = keep < len(line)
    assert (whole.records, whole.complaint is not None) == (1 if cut else 2, cut)


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (b'{"a" 1}', "is not JSON: unexpected character"),
        (b'{"a": "\xff"}', "is not JSON: "),
        (b"[1]", "is JSON, but not an object"),
        (b'{"a": 1}}', "is not JSON: unexpected content after document"),
    ],
)
def test_a_last_line_that_is_broken_is_not_cut_off(file, last, told):
    """It goes on after what is wrong with it, or is whole and no conversation."""
    path = file(b'{"a": 1}\n' + last)
    with pytest.raises(DatasetError) as caught:
        taken(path)
    assert f"sharegpt: {path}, line 2 {told}" in str(caught.value)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "talk.json is empty"),
        (b" \n", "is not a JSON list of conversations, nor has it one a line"),
        (b"12", "is not a JSON list of conversations (it begins with '12'), nor has it one a line"),
        (b'[{"a": 1', "is not a JSON list of conversations (parse error: premature EOF), nor"),
    ],
)
def test_a_file_of_no_use_is_told_alike(file, reader, content, told):
    """By all who read such files."""
    with pytest.raises(DatasetError) as caught:
        READERS[reader](file(content))
    assert told in str(caught.value)
