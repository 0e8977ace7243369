from __future__ import annotations

import json

import pytest

from faircil_lab.bench.texts import EMBEDDINGS, ORDINARY, TRAININGS, EncoderCost
from faircil_lab.bench.texts_page import (
    ENCODER_TIMES,
    beyond_pass,
    embeddings_of,
    epoch_bars,
    epochs_of,
    middle,
    sentences,
)
from text_costs import SIZES, embedding_rounds, epoch_round, text_results


def test_shares_of_an_epoch() -> None:
    plain, whole, kept = epochs_of([epoch_round()], SIZES)
    # 6,400 texts and as many replayed, of 100 tokens, at 100,000 tokens per second.
    assert (plain.training, plain.total, plain.share_beyond) == (12.8, 12.8, 0.0)
    assert whole.total == pytest.approx(2.0 + 0.05 + 0.11 + 12.8)
    assert whole.share_beyond == pytest.approx(0.16 / 14.96)
    assert (kept.samples, kept.training) == (640, 1.28)
    assert kept.share_beyond == pytest.approx(0.16 / 3.44)


def test_a_batch_that_is_not_full_and_a_small_buffer() -> None:
    plain, *_ = epochs_of([epoch_round(samples=65, buffer=10)], SIZES)
    assert plain.training == pytest.approx((65 + 2 * 10) * 100 / 100_000)


def test_beyond_the_pass_is_the_larger_of_two() -> None:
    noisy = epoch_round(statistics=EncoderCost(1.9, 768_000, None))
    assert beyond_pass([noisy]) == 0.03
    assert beyond_pass([epoch_round()]) == pytest.approx(0.05)
    slow = epoch_round(
        forward=EncoderCost(3.0, 768_000, None), statistics=EncoderCost(3.06, 768_000, None)
    )
    # Of each round its own pass is taken off, not the median of passes.
    assert beyond_pass([epoch_round(), slow, epoch_round(2)]) == pytest.approx(0.05)


def test_medians_and_largest_peaks() -> None:
    costs = [EncoderCost(1.0, 10, 2.0), EncoderCost(9.0, 10, 3.0), EncoderCost(2.0, 10, 1.0)]
    assert middle(costs) == EncoderCost(2.0, 10, 3.0)
    assert middle([EncoderCost(1.0, 10, None)]).memory is None
    assert list(embeddings_of(embedding_rounds())) == list(EMBEDDINGS)


def test_sentences_say_what_the_numbers_say() -> None:
    training, frugal, mixed, forward, whole, kept, *frozen = sentences(text_results())
    assert training == (
        "Training: 100,000 tokens per second (50,000 if steps are not recorded), peak 10.00 GiB."
    )
    assert frugal == (
        "With 4,096 tokens at once instead of 16,384: 80,000 tokens per second, peak 4.00 GiB."
    )
    assert mixed == (
        "Texts of all lengths: 62,500 tokens per second (25,000 if steps are not recorded), "
        "padding not counted, peak 8.00 GiB."
    )
    assert forward == "One pass without gradients: 384,000 tokens per second, peak 1.50 GiB."
    assert whole == (
        "FSW, all texts kept (6,400 of 6,400): beyond the one pass, statistics (50.0 ms) and LP "
        "(110 ms) take 1.07 % of an epoch of 15.0 s; the goal of at most 15 % is reached."
    )
    assert kept.startswith("FSW, texts kept by its weights (640 of 6,400)")
    assert "take 4.65 % of an epoch of 3.44 s" in kept
    assert frozen[2] == (
        "A frozen encoder, 16,384 tokens at once, the whole corpus: 100,000 tokens per second, "
        "32.0 s, peak 0.50 GiB."
    )


def test_a_missed_goal_is_said() -> None:
    found = list(sentences(text_results(epoch_round(lp=4.0))))
    assert "the goal of at most 15 % is **missed**" in found[4]


def test_page_has_all_parts() -> None:
    text = ENCODER_TIMES.page(text_results(notes=("In bfloat16",)), {"epoch": "e.svg"})
    for words in (
        "faircil bench text\n```",
        ", device cuda.\n\nIn bfloat16.\n",
        "12 layers, 768 numbers",
        "\n- Training: 100,000 tokens per second",
        "6,400 texts, and up to 32 of each earlier group",
        "`alpha` is 3 times as\nlarge as with `auto`",
        "; 100 steps were timed in each round, and their speed gives the time of the 100\nof",
        "![where the time of an epoch is spent](e.svg)",
        "padded to a multiple of\n16 tokens",
        "| FSW, all texts kept | 6,400 | 2.00 s | 50.0 ms | 110 ms | 12.8 s | 15.0 s | 1.07 % |",
        f"| {TRAININGS[0].name} | 200,000 | 2.00 s | 100,000 | 10.00 GiB |",
        "| 65,536 tokens at once, 10 % of the corpus | 320,000 | 3.20 s | 100,000 | 0.25 GiB |",
        "| 16,384 tokens at once, 1 % of the corpus, float32 |",
        "| 16,384 tokens at once, 10 % of the corpus, texts of all lengths |",
    ):
        assert words in text


@pytest.mark.parametrize("outcomes", [[epoch_round()], embedding_rounds()])
def test_page_of_a_part(outcomes: list) -> None:  # type: ignore[type-arg]
    results = text_results(*outcomes, complete=False)
    findings = ENCODER_TIMES.findings(results)
    text = ENCODER_TIMES.page(results, dict.fromkeys(findings.figures, "e.svg"))
    assert text.endswith("The benchmark was interrupted here.\n")
    assert ("frozen" in text) == ("e.svg" not in text)


def test_document_and_rows_hold_everything() -> None:
    findings = ENCODER_TIMES.findings(text_results())
    document = json.loads(json.dumps(findings.document))
    assert document["complete"] is True
    assert document["workload"]["rows"] == 32_000
    assert [round(epoch["share_beyond"], 4) for epoch in document["epochs"]] == [0, 0.0107, 0.0465]
    assert document["parts"][TRAININGS[0].name]["tokens_per_second"] == 100_000
    assert document["embeddings"][EMBEDDINGS[-1].name]["memory"] == 0.5
    assert len(document["rounds"]) == 1 + len(EMBEDDINGS)
    assert len(findings.rows) == 4 + len(TRAININGS) + len(ORDINARY) + len(EMBEDDINGS)
    names = {"part": "forward", "round": 1, "seconds": 2.0, "tokens": 768_000, "memory_gib": 1.5}
    assert findings.rows[0] == names
    assert [table.title for table in findings.tables] == [
        "An epoch", "Parts of an epoch", "Embeddings of a frozen encoder",
    ]  # fmt: skip


def test_bars_add_up_to_an_epoch() -> None:
    epochs = epochs_of([epoch_round()], SIZES)
    (axes,) = epoch_bars(epochs).axes
    ends = [0.0] * 3
    for bars in axes.containers:
        for row, bar in enumerate(bars):
            assert bar.get_x() == pytest.approx(ends[row])
            ends[row] += bar.get_width()
    assert ends == pytest.approx([epoch.total for epoch in epochs])
    assert [text.get_text().strip() for text in axes.texts] == [
        "", "1.07 % beyond the pass", "4.65 % beyond the pass",
    ]  # fmt: skip
