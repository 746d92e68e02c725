from __future__ import annotations

import pytest

from pytest_llmperf.replay.stream import Stream, payload

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
CLOSE = b"HTTP/1.1 200 OK\r\n\r\n"


def reads(*parts: bytes) -> tuple[bytes, list[int], list[int]]:
    """Return parts joined, where each ends, and their times: 1000 ns, 2000 ns and so on."""
    ends = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
    return b"".join(parts), ends, [1000 * (i + 1) for i in range(len(parts))]


def test_each_event_has_the_time_of_the_read_that_completed_it() -> None:
    """Events split over reads and joined in one: a (reads 1-2), b and c (read 3), d (4-6)."""
    stream = Stream()
    events, times = stream.feed(
        *reads(
            HEAD + b"9\r\ndata: a",
            b"\n\n\r\n",
            b"12\r\ndata: b\n\ndata: c\n\n\r\n",
            b"9\r\nda",
            b"ta: d\n",
            b"\n\r\n",
            b"0\r\n\r\n",
        )
    )
    assert events == [b"data: a", b"data: b", b"data: c", b"data: d"]
    assert times == [2000, 3000, 3000, 6000]
    assert stream.body.complete


def test_an_event_may_span_chunks_and_a_chunk_events() -> None:
    """HTTP's chunks and the stream's events are cut independently."""
    stream = Stream()
    events, times = stream.feed(
        *reads(HEAD + b"4\r\ndata\r\n", b"9\r\n: a\n\ndata\r\n", b"5\r\n: b\n\n\r\n", b"0\r\n\r\n")
    )
    assert events == [b"data: a", b"data: b"]
    assert times == [2000, 3000]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\n\n"])
def test_any_cut_and_any_line_end_gives_the_same_events(size: int, end: bytes) -> None:
    """Fed in pieces of any size, with LF, CR LF or both, the events are the same."""
    text = end.join([b": hello", b"data: one", b"data: two\ndata: lines", b"data: [DONE]", b""])
    half = len(text) // 2
    raw = HEAD + b"%x\r\n%s\r\n" % (half, text[:half])
    raw += b"%x;name=value\r\n%s\r\n0\r\n\r\n" % (len(text) - half, text[half:])
    stream = Stream()
    events: list[bytes] = []
    times: list[int] = []
    for start in range(0, len(raw), size):
        piece = raw[start : start + size]
        found, when = stream.feed(piece, [len(piece)], [start])
        events += found
        times += when
    assert [payload(event) for event in events] == [None, b"one", b"two\nlines", b"[DONE]"]
    assert times == sorted(times)
    assert stream.body.complete


def test_a_single_read_of_everything_gives_one_time() -> None:
    """A response that came in one read has one time throughout."""
    stream = Stream()
    data = HEAD + b"9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\n0\r\n\r\n"
    assert stream.feed(data, [len(data)], [77]) == ([b"data: a", b"data: b"], [77, 77])


def test_a_body_that_the_close_ends_is_read_as_it_comes() -> None:
    """Without a length the body goes on; that it is complete only the connection knows."""
    stream = Stream()
    events, times = stream.feed(*reads(CLOSE + b"data: a\n", b"\ndata: b\n\n"))
    assert (events, times) == ([b"data: a", b"data: b"], [2000, 2000])
    assert not stream.body.complete


def test_a_body_ends_at_its_length() -> None:
    """What follows the announced length does not belong to the answer."""
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"
    stream = Stream()
    events, times = stream.feed(*reads(head + b"data: a", b"\n\ndata: b\n\n"))
    assert (events, times) == ([b"data: a"], [2000])
    assert stream.body.complete


def test_what_no_blank_line_ended_is_kept() -> None:
    """The last event of a sloppy server can still be had."""
    stream = Stream()
    events, _ = stream.feed(*reads(HEAD + b"7\r\ndata: a\r\n0\r\n\r\n"))
    assert events == []
    assert stream.remainder == b"data: a"


def test_a_cut_body_is_not_complete() -> None:
    """Without the last chunk the answer has no end."""
    stream = Stream()
    events, _ = stream.feed(*reads(HEAD + b"9\r\ndata: a\n\n\r\n9\r\nda"))
    assert events == [b"data: a"]
    assert not stream.body.complete


def test_trailers_are_passed_over() -> None:
    """Fields after the last chunk end with a blank line of their own."""
    stream = Stream()
    stream.feed(*reads(HEAD + b"0\r\nx-time: 1\r\n"))
    assert not stream.body.complete
    stream.feed(b"\r\n", [2], [5])
    assert stream.body.complete


@pytest.mark.parametrize("body", [b"zz\r\n", b"-5\r\nabc", b"3\r\nabcXY"])
def test_broken_chunks_are_an_error(body: bytes) -> None:
    """A size that is no number, or a chunk longer than it says, is said; what was, stays."""
    stream = Stream()
    assert stream.feed(*reads(HEAD + b"9\r\ndata: a\n\n\r\n" + body)) == ([b"data: a"], [1000])
    assert stream.body.broken is not None
    assert stream.body.broken.startswith("a chunk")


@pytest.mark.parametrize(
    ("event", "data"),
    [
        (b"data: x", b"x"),
        (b"data:x", b"x"),
        (b"data:  x", b" x"),
        (b"event: message\ndata: x\nid: 4", b"x"),
        (b"data: x\ndata:y", b"x\ny"),
        (b": keep-alive", None),
        (b"", None),
        (b"retry: 10", None),
    ],
)
def test_payload_follows_the_standard(event: bytes, data: bytes | None) -> None:
    """One space after the colon is dropped, lines are joined, comments carry nothing."""
    assert payload(event) == data
