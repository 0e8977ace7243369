"""Use every extra once, in an environment that has nothing but the product and its extras.

    python .ci/try_extras.py

Makes small files in the folder it is run in: Parquet for a cluster of Dask, pictures, an encoder of
texts with random weights, and a search by Optuna. The first command that fails ends it.
"""

from __future__ import annotations

import json
import subprocess  # runs the installed command, without a shell  # nosec B404
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from transformers import BertConfig, BertModel

JOBS = ("cook", "nurse", "judge")
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def faircil(words: str) -> None:
    """Run a command of the environment of this Python."""
    print("$ faircil", words, flush=True)  # noqa: T201
    subprocess.run([sys.executable, "-m", "faircil", *words.split()], check=True)  # nosec B603


def write_people() -> None:
    """Write two Parquet files of people, and one of their texts."""
    draw = np.random.default_rng(0)
    job = draw.integers(0, 3, 300)
    people = pd.DataFrame(
        {
            "score": draw.normal(job, 0.5),
            "sex": draw.choice(["F", "M"], 300),
            "job": np.array(JOBS)[job],
        }
    )
    Path("people").mkdir()
    for half in range(2):
        people[half::2].to_parquet(f"people/{half}.parquet")
    texts = people.assign(bio=people["job"] + " " + people["sex"]).drop(columns="score")
    texts.to_csv("texts.csv", index=False)


def write_pictures() -> None:
    """Write a folder of two classes, dark and bright."""
    draw = np.random.default_rng(0)
    for kind, least in (("dark", 0), ("bright", 155)):
        Path("pictures", kind).mkdir(parents=True)
        for number in range(20):
            pixels = draw.integers(least, least + 100, (24, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(f"pictures/{kind}/{number}.png")


def write_encoder() -> None:
    """Write the files of an encoder of texts."""
    words = (*SPECIAL, *JOBS, "f", "m")
    BertModel(
        BertConfig(
            vocab_size=len(words),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
        )
    ).save_pretrained("encoder")
    Path("encoder/vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    Path("encoder/tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def main() -> None:
    """Make the files, and use the extras."""
    write_people()
    write_pictures()
    write_encoder()
    who = "--label job --sensitive sex"
    small = "--method moments --set width=64"
    faircil(f"fit --data people {who} {small} --scheduler local:2 -o model")
    faircil("predict model --data people --jobs 2 -o predictions.parquet")
    faircil(f"fit --data texts.csv --text bio {who} {small} encoder=encoder -o of-texts")
    faircil("fit --images pictures --method moments --set image_encoder=none width=64 -o of-images")
    faircil("tune --dataset toy --method er --strategy optuna --budget 3 --set epochs=1")


if __name__ == "__main__":
    main()
