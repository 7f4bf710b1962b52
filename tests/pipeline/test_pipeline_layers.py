"""Layers of generated traces: every kernel in its layer and half, whatever the model and whatever the capture lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infer_forge import trace
from infer_forge.pipeline import number
from infer_forge.pipeline.segment import ATTENTION, FFN, Template, is_noisy
from infer_forge.pipeline.structure import build
from tests.pipeline.pipeline_score import Score, score
from trace_gen import SPECS, WORKING_SEEDS, Spec, Step, generate

FAMILIES = (
    "llama",
    "qwen3_moe",
    "deepseek_v3",
    "deepseek_v3_mtp",
    "deepseek_v4",
    "qwen3_next",
    "gpt_oss",
    "flux",
    "alternating",
)
SEED = WORKING_SEEDS[1]


def _graph(spec: Spec) -> Spec:
    return replace(spec, steps=tuple(replace(step, graph=1) for step in spec.steps))


def _good(found: Score, tail: int = 0) -> None:
    assert found.missing == 0
    assert found.layer_pct >= 99
    assert found.half_pct >= 99
    assert found.tail_inside <= tail


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kernel_of_an_eager_trace_is_in_its_layer_and_half(family: str, tmp_path: Path) -> None:
    _good(score(SPECS[family], tmp_path, SEED))


@pytest.mark.parametrize("family", ["qwen3_next", "deepseek_v4"])
def test_the_order_of_kernels_in_graph_replays_is_enough(family: str, tmp_path: Path) -> None:
    _good(score(_graph(SPECS[family]), tmp_path, SEED))


@pytest.mark.parametrize("family", ["llama", "deepseek_v3", "deepseek_v3_mtp"])
def test_passes_that_the_capture_cut_at_both_ends_keep_their_layer_numbers(family: str, tmp_path: Path) -> None:
    _good(score(replace(SPECS[family], cut_head=0.4, cut_tail=0.3), tmp_path, SEED))


def test_where_every_pass_is_cut_the_config_numbers_them_and_without_one_they_count_from_the_first_seen(
    tmp_path: Path,
) -> None:
    spec = replace(SPECS["flux"], cycles=2, cut_head=0.4, cut_tail=0.3)
    _good(score(spec, tmp_path, SEED))
    lane = build(trace.load(tmp_path / "t.json.gz", cache=False), None, 0, None)
    assert lane.passes[0].partial
    assert lane.passes[0].relative


def test_a_pass_cut_at_its_head_whose_tail_was_lost_is_still_numbered_from_its_end(tmp_path: Path) -> None:
    """Behind a draft layer stands one copy alone; the capture lost it on one of the ranks."""
    spec = replace(SPECS["deepseek_v3_mtp"], ranks=4, cycles=2, cut_head=0.4, cut_tail=0.3, drop=0.05)
    _good(score(spec, tmp_path, WORKING_SEEDS[2]))


@pytest.mark.parametrize(
    "change", [{}, {"annotation": "none"}, {"cut_head": 0.4, "cut_tail": 0.3}, {"drop": 0.05}, {"ranks": 2}]
)
def test_an_ffn_whose_activation_is_fused_into_a_product_is_a_half_of_its_own_layer(
    change: dict[str, Any], tmp_path: Path
) -> None:
    _good(score(replace(SPECS["llama"], **change), tmp_path, SEED, fused="act_and_mul"))


def test_dense_layers_with_a_fused_activation_before_moe_layers_keep_their_ffn(tmp_path: Path) -> None:
    spec = replace(SPECS["deepseek_v3"], ranks=1, first_k_dense=2)
    _good(score(spec, tmp_path, SEED, fused="act_and_mul"))


@pytest.mark.parametrize("cut", [0.3, 0.35, 0.45])
def test_what_is_left_of_a_cut_layer_is_no_head_or_tail_of_a_whole_pass(cut: float, tmp_path: Path) -> None:
    """Both passes were cut, at about the same layer: neither is whole, though they have as many layers."""
    decode = Step("decode", generation=16)
    spec = replace(
        SPECS["qwen3_moe"], ranks=1, steps=(decode,) * 2, cycles=1, annotation="none", cut_head=cut, cut_tail=cut
    )
    generate(spec, tmp_path / "t.json.gz", SEED)
    lane = build(trace.load(tmp_path / "t.json.gz", cache=False), None, 0, None)
    assert [bool(p.partial) for p in lane.passes] == [True, True]


@pytest.mark.parametrize("family", FAMILIES)
def test_five_percent_lost_kernels_move_no_layer(family: str, tmp_path: Path) -> None:
    _good(score(replace(SPECS[family], drop=0.05), tmp_path, SEED), tail=4)


CHANGES: dict[str, Callable[[Spec], Spec]] = {
    "four ranks": lambda s: replace(s, ranks=4),
    "without annotations": lambda s: replace(s, annotation="none"),
    "one annotation around everything": lambda s: replace(s, one_window=True),
    "overlapping dependent launches": lambda s: replace(_graph(s), pdl_us=0.6),
}


@pytest.mark.parametrize("change", CHANGES)
def test_layers_are_found_with(change: str, tmp_path: Path) -> None:
    _good(score(CHANGES[change](SPECS["deepseek_v3"]), tmp_path, SEED))


@pytest.mark.parametrize(
    "name", ["merged_tp4", "two_devices", "vllm_mixed", "amd_graph", "int_ts", "rough", "verify", "graph_piecewise"]
)
def test_odd_traces_keep_their_layers(name: str, tmp_path: Path) -> None:
    _good(score(SPECS[name], tmp_path, SEED))


def _draft(*layers: tuple[int, ...]) -> number.Draft:
    rough = [number.Rough([number.Half(t, [], []) for t in halves]) for halves in layers]
    return number.Draft(0, np.empty(0, np.int64), rough, False, False)


def test_a_head_with_a_norm_and_an_activation_is_no_layer_but_a_layer_that_lost_its_attention_is() -> None:
    attention, ffn, head = Template(0, (1, 2), ATTENTION, 9), Template(1, (3, 4), FFN, 9), Template(2, (5, 4), FFN, 1)
    with_head = _draft(*[(0, 1)] * 4, (2,))
    number.without_heads([with_head], [attention, ffn, head])
    assert len(with_head.layers) == 4
    lost = _draft(*[(0, 1)] * 4, (1,))
    number.without_heads([lost, _draft(*[(0, 1)] * 5)], [attention, ffn, head])
    assert len(lost.layers) == 5
    without_mixers = _draft((1,), (1,), (1,), (2,))
    number.without_heads([without_mixers], [attention, ffn, head])
    assert len(without_mixers.layers) == 4


def test_losses_of_a_deep_model_are_noticed_although_most_of_them_repeat() -> None:
    """200 layers, nine passes, 5 % lost: 36 halves seen once among 3143; a half without losses is seen in every pass."""
    assert is_noisy([1236, 1196, *[9] * 40, *[2] * 11, *[1] * 36], 9)
    assert not is_noisy([1236, 1196, *[9] * 40, *[1] * 9], 9)
    assert not is_noisy([60, 60, *[1] * 36], 2)  # one pass of a model whose layers differ


@pytest.mark.parametrize(("family", "seed"), [("gpt_oss", 119), ("flux", 111), ("deepseek_v3", 111)])
def test_a_gap_that_a_lost_kernel_leaves_is_no_border_of_a_pass(family: str, seed: int, tmp_path: Path) -> None:
    hard = replace(_graph(SPECS[family]), cut_head=0.4, cut_tail=0.3, drop=0.05, reorder=0.3)
    assert score(hard, tmp_path, seed).layer_pct > 99


@pytest.mark.stress
def test_losses_swaps_and_cuts_together_over_many_seeds(tmp_path: Path, stress_count: Callable[[int], int]) -> None:
    """Graph replays, cut at both ends, 5 % of the kernels lost and independent neighbours swapped."""
    low: list[str] = []
    rounds = stress_count(60)
    for turn in range(rounds):
        family, seed = FAMILIES[turn % len(FAMILIES)], WORKING_SEEDS[turn % len(WORKING_SEEDS)]
        hard = replace(_graph(SPECS[family]), cut_head=0.4, cut_tail=0.3, drop=0.05, reorder=0.3)
        folder = tmp_path / str(turn)
        found = score(hard, folder, seed)
        if found.layer_pct < 99 or found.half_pct < 99:
            low.append(f"{family} seed {seed}: {found.layer_pct:.2f} {found.half_pct:.2f}")
    assert len(low) <= 0.05 * rounds, low
