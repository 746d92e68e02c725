from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from pytest_llmperf.launch.lease import Candidate, Lease, Refusal

FIRST = Candidate(0, "GPU-aaaa", "H200", used=0)
SECOND = Candidate(1, "GPU-bbbb", "H200", used=0)
HOLDER = {"pid": 7, "user": "ann", "server": "qwen", "since": "10:03", "launch": "none"}


def test_a_lease_takes_the_first_free_gpus(tmp_path):
    """One of two is taken; the next lease gets the other; released, the first is free again."""
    one = Lease.take(tmp_path, [FIRST, SECOND], 1, HOLDER)
    other = Lease.take(tmp_path, [FIRST, SECOND], 1, HOLDER)
    assert (one.gpus, other.gpus) == ((FIRST,), (SECOND,))
    one.release()
    again = Lease.take(tmp_path, [FIRST, SECOND], 1, HOLDER)
    assert again.gpus == (FIRST,)
    other.release()
    again.release()


def test_a_refusal_names_the_holder(tmp_path):
    """Who cannot have a GPU learns since when, by which server and process it is held."""
    held = Lease.take(tmp_path, [FIRST], 1, HOLDER)
    with pytest.raises(Refusal) as caught:
        Lease.take(tmp_path, [FIRST], 1, HOLDER)
    assert str(caught.value) == ("GPU 0 (H200): leased since 10:03 by server 'qwen' of pid 7 (ann)")
    held.release()


def test_all_or_nothing(tmp_path):
    """Two GPUs of which one is held are refused, and the free one stays free."""
    held = Lease.take(tmp_path, [SECOND], 1, HOLDER)
    with pytest.raises(Refusal):
        Lease.take(tmp_path, [FIRST, SECOND], 2, HOLDER)
    Lease.take(tmp_path, [FIRST], 1, HOLDER).release()
    held.release()


def test_a_gpu_in_use_is_passed_over(tmp_path):
    """A GPU whose memory somebody uses is not leased, and the refusal says who."""
    busy = Candidate(0, "GPU-aaaa", "H200", used=9, busy="12.00 GiB in use by pid 7")
    lease = Lease.take(tmp_path, [busy, SECOND], 1, HOLDER)
    assert lease.gpus == (SECOND,)
    lease.release()
    with pytest.raises(Refusal, match=r"GPU 0 \(H200\): 12.00 GiB in use by pid 7"):
        Lease.take(tmp_path, [busy], 1, HOLDER)


def test_the_death_of_a_holder_frees_its_lease(tmp_path):
    """The kernel lets a lock go, however its holder died."""
    script = (
        "import sys, time; from pathlib import Path\n"
        "from pytest_llmperf.launch.lease import Candidate, Lease\n"
        "lease = Lease.take(Path(sys.argv[1]), [Candidate(0, 'GPU-aaaa', 'H200', 0)], 1, {})\n"
        "print('held', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Refusal, match="leased by another session"):
            Lease.take(tmp_path, [FIRST], 1, HOLDER)
        holder.kill()
    Lease.take(tmp_path, [FIRST], 1, HOLDER).release()


def test_remains_of_a_dead_holder_are_ended(tmp_path):
    """What a holder's file still says names a launch whose processes are ended first."""
    environment = {**os.environ, "LLMPERF_LAUNCH": "stale"}
    script = "import time; print('up', flush=True); time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-S", "-c", script], env=environment, stdout=subprocess.PIPE
    ) as remains:
        remains.stdout.readline()
        (tmp_path / "GPU-aaaa.lock").write_text(json.dumps({"launch": "stale"}))
        busy = Candidate(0, "GPU-aaaa", "H200", used=9, busy="90.00 GiB in use by pid 7")
        with pytest.raises(Refusal) as caught:
            Lease.take(tmp_path, [busy], 1, HOLDER)
        assert caught.value.swept
        assert remains.wait(10) == -9
    with pytest.raises(Refusal) as caught:
        Lease.take(tmp_path, [busy], 1, HOLDER)
    assert not caught.value.swept


def test_a_lease_file_says_who_holds_it_and_then_nothing(tmp_path):
    """The holder's account is there while it holds."""
    lease = Lease.take(tmp_path, [FIRST], 1, HOLDER)
    path = tmp_path / "GPU-aaaa.lock"
    assert json.loads(path.read_text()) == HOLDER
    lease.release()
    assert path.read_text() == ""


def test_other_users_can_take_leases_too(tmp_path):
    """Folder and files are open to all users of the host."""
    folder = tmp_path / "leases"
    Lease.take(folder, [FIRST], 1, HOLDER).release()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o1777
    assert stat.S_IMODE((folder / "GPU-aaaa.lock").stat().st_mode) == 0o666


def test_a_link_in_the_folder_is_not_followed(tmp_path):
    """Nobody makes another user write where they should not."""
    (tmp_path / "GPU-aaaa.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic link"):
        Lease.take(tmp_path, [FIRST], 1, HOLDER)
    assert not (tmp_path / "victim").exists()
