"""States of the benchmark as files, and what two of them differ by."""

from pathlib import Path

import torch

from lab.benchmarks.exactness.walking import Run, begin, digest, load, name_state, open_run, save


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = Run("0.2M", "exact15")
    state = begin(run)
    path = name_state(tmp_path, run, 30)
    save(state, path)
    again = load(path)
    assert again.global_step == again.local_step == 30
    assert digest(again) == digest(state)


def test_one_bit_is_another_digest() -> None:
    state = begin(Run("0.2M", "exact15"))
    before = digest(state)
    state.second_moment.view(torch.int32)[-1] ^= 1
    assert digest(state) != before


def test_formats_and_phases_share_weights_and_data() -> None:
    runs = (Run("0.2M", "exact15"), Run("0.2M", "float32"), Run("0.2M", "exact15", phase="rate x 5"))
    batches = [open_run(run)[1](7) for run in runs]
    assert all(torch.equal(one.tokens_BT, batches[0].tokens_BT) for one in batches)
    assert len({digest(begin(run)) for run in runs}) == 1
    assert open_run(runs[0])[0].program_root != open_run(runs[1])[0].program_root
