"""A checkpoint damaged in any of hundreds of ways is called damaged, or reads as it was."""

import numpy as np
import pytest

from sdem_dist.engine.checkpoint import Checkpoints, Progress, StageRecord
from sdem_dist.errors import ModelError
from sdem_dist.models.word_counts import SdemState

STATE = SdemState(**{name: np.arange(12.0).reshape(4, 3) for name in SdemState._fields})
STAGE = StageRecord(0, {"seed": 0}, SdemState, 1)


def damaged(whole: bytes, rng: np.random.Generator) -> bytes:
    content = bytearray(whole)
    match rng.integers(6):
        case 0:  # a bit
            content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        case 1:  # an end, or a beginning, that is lost
            cut = int(rng.integers(len(content)))
            content = content[:cut] if rng.random() < 0.5 else content[cut:]
        case 2:  # a page of zeros
            start = int(rng.integers(len(content)))
            content[start : start + 64] = bytes(len(content[start : start + 64]))
        case 3:  # the length of the header
            content[:8] = (
                rng.bytes(8) if rng.random() < 0.5 else int(rng.integers(2 * len(whole))).to_bytes(8, "little")
            )
        case 4:  # numbers of the header
            digits = [i for i, byte in enumerate(whole[:2000]) if chr(byte).isdigit()]
            content[rng.choice(digits)] = ord("9")
        case _:  # a piece that is missing, or there twice
            start, size = int(rng.integers(len(content))), int(rng.integers(1, 100))
            content[start:start] = content[start : start + size]
            if rng.random() < 0.5:
                del content[start : start + 2 * size]
    return bytes(content)


@pytest.fixture
def checkpoints(tmp_path):
    made = Checkpoints(tmp_path)
    made.write(STAGE, Progress(3, 0, [], 2, 0.0), lambda _: STATE, STATE)
    return made


def test_three_hundred_ways(checkpoints):
    (path,) = checkpoints.folder.iterdir()
    whole, rng, unnoticed = path.read_bytes(), np.random.default_rng(0), 0
    for _ in range(300):
        path.write_bytes(content := damaged(whole, rng))
        try:
            progress, saved, best = checkpoints.latest(STAGE, 9)
            for state in (saved.block(0, 1), best):
                assert all(np.array_equal(a, b) for a, b in zip(state, STATE, strict=True))
            assert progress.epoch == 3
            unnoticed += content != whole
        except ModelError as error:
            assert "damaged" in str(error) and "remove" in str(error)
    assert unnoticed < 100, "what is not noticed is in bytes that mean nothing"
