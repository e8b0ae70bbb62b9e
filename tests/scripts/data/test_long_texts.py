"""A long text has the tokens of the whole text, though it is encoded in windows."""

import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from touchstone.protocol.spec.errors import InvalidInput
from touchstone.scripts.data import documents, long_texts
from touchstone.scripts.data.data_pack import PackPlan, pack
from touchstone.scripts.data.tokenizing import FileTokens

MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
PARTS = (
    *(["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]),
    *(
        "naïve",
        "Straße",
        "漢字かな",
        "العربية",
        "☃😀",
        "e\u0301",
        "don't",
        "WORD",
        "ﬁ",
        "_x_",
        "“q”",
        "<end>",
    ),
    *(" ", " ", " ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "       ", ". ", ", ", "!!!", "---"),
    *("1", "22", "333", "4444", "3141592653589793238462643383279502884197"),
)
BYTES = pre_tokenizers.ByteLevel.alphabet()
SPLIT = r"'s|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
"""Llama 3's, but for its capitals."""


def make_text(seed: int, length: int) -> str:
    draw = random.Random(seed)
    parts: list[str] = []
    size = 0
    while size < length:
        part = draw.choice(PARTS) * draw.choice((1, 1, 1, 1, 1, 2, 5, 40))
        parts.append(part)
        size += len(part)
    return "".join(parts)


def train(tokenizer: Tokenizer, trainer: Any) -> Tokenizer:
    tokenizer.train_from_iterator([make_text(seed, 300) for seed in range(60)], trainer)
    # What is saved has rounded scores.
    return Tokenizer.from_str(tokenizer.to_str())


def make_byte_level() -> Tokenizer:
    """Like GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return train(
        tokenizer, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    )


def make_split() -> Tokenizer:
    """Like Llama 3's: digits in threes from where their run begins."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return train(
        tokenizer, trainers.BpeTrainer(vocab_size=600, initial_alphabet=alphabet, show_progress=False)
    )


def make_word_piece() -> Tokenizer:
    """Like BERT's."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return train(
        tokenizer, trainers.WordPieceTrainer(vocab_size=300, special_tokens=["[UNK]"], show_progress=False)
    )


def make_unigram() -> Tokenizer:
    """Like T5's."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False
    )
    return train(tokenizer, trainer)


def make_sentencepiece(*, is_old: bool, first: str = "first") -> Tokenizer:
    """Like Llama 2's: no pre-tokenizer cuts, and bytes stand for characters that are no token."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    train(trained, trainers.BpeTrainer(vocab_size=400, limit_alphabet=60, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"]]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={name: number for number, name in enumerate(names)},
            merges=[tuple(one) for one in model["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    if is_old:
        steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        tokenizer.normalizer = normalizers.Sequence(steps)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False, prepend_scheme=first)
    return tokenizer


def make_uncut() -> Tokenizer:
    """Of one piece: no pre-tokenizer cuts, and there are no merges to tell where no token can lie."""
    tokenizer = make_unigram()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    return tokenizer


def make_unknown_fused() -> Tokenizer:
    tokenizer = make_sentencepiece(is_old=True)
    content = json.loads(tokenizer.to_str())
    content["model"]["byte_fallback"] = False
    return Tokenizer.from_str(json.dumps(content))


def make_added() -> Tokenizer:
    """With an added token that is found in the text itself."""
    tokenizer = make_byte_level()
    tokenizer.add_tokens(["<end>", "brown fox", "\n\n"])
    return tokenizer


def make_by_length() -> Tokenizer:
    """Cut every seven characters from the start of the text: no window but the first cuts there."""
    tokenizer = make_byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.FixedLength(7), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return tokenizer


MAKERS: dict[str, Callable[[], Tokenizer]] = {
    "byte level": make_byte_level,
    "split": make_split,
    "word piece": make_word_piece,
    "unigram": make_unigram,
    "sentencepiece, old": lambda: make_sentencepiece(is_old=True),
    "sentencepiece, new": lambda: make_sentencepiece(is_old=False),
    "sentencepiece, always": lambda: make_sentencepiece(is_old=False, first="always"),
    "uncut": make_uncut,
    "unknown, fused": make_unknown_fused,
    "added tokens": make_added,
    "by length": make_by_length,
}


def cut(text: str, seed: int, most: int) -> Iterator[str]:
    draw = random.Random(seed)
    while text:
        size = draw.randint(1, most)
        yield text[:size]
        text = text[size:]


def encode_whole(tokenizer: Tokenizer, text: str) -> list[int]:
    tokenizer.encode_special_tokens = True
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("name", MAKERS)
def test_the_tokens_are_those_of_the_whole_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_texts, "WINDOW", 500)
    monkeypatch.setattr(long_texts, "OVERLAP", 120)
    tokenizer = MAKERS[name]()
    tokens = FileTokens(tokenizer.to_str().encode(), "here")
    for seed in range(100, 140):
        text = make_text(seed, 300 * (1 + seed % 40))
        found = [one for part in tokens.encode_long(cut(text, seed, 700)) for one in part]
        assert found == encode_whole(tokenizer, text)


@pytest.mark.parametrize("name", MAKERS)
def test_also_in_windows_of_the_usual_size(name: str) -> None:
    tokenizer = MAKERS[name]()
    tokens = FileTokens(tokenizer.to_str().encode(), "here")
    text = make_text(1, 300_000)
    found = [one for part in tokens.encode_long(cut(text, 1, 100_000)) for one in part]
    assert found == encode_whole(tokenizer, text)


@pytest.mark.parametrize("name", [name for name in MAKERS if name not in ("uncut", "by length")])
def test_no_window_grows_where_the_tokenizer_cuts(name: str) -> None:
    tokens = FileTokens(MAKERS[name]().to_str().encode(), "here")
    longest = 0

    def encode(texts: Sequence[str]) -> Any:
        nonlocal longest
        longest = max(longest, *map(len, texts))
        return tokens.encode_all(texts)

    text = make_text(2, 600_000)
    for _ in long_texts.encode_long(cut(text, 2, 50_000), encode, tokens.joins):
        pass
    assert longest <= 2 * long_texts.WINDOW + long_texts.OVERLAP


def test_a_text_without_a_cut_is_encoded_whole_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = make_word_piece()
    tokens = FileTokens(tokenizer.to_str().encode(), "here")
    text = "x" * 400_000
    assert [one for part in tokens.encode_long([text[:1000], text[1000:]]) for one in part] == [0]
    assert [one for part in tokens.encode_long(cut(text, 1, 100_000)) for one in part] == [0]
    monkeypatch.setattr(long_texts, "MOST_WHOLE", 300_000)
    with pytest.raises(InvalidInput, match="nowhere"):
        list(tokens.encode_long(cut(text, 1, 100_000)))
    tokenizer.save(str(tmp_path / "t.json"))
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InvalidInput, match=r"nowhere.*a\.txt"):
        pack(PackPlan([tmp_path / "a.txt"], tmp_path / "out", tokenizer=tmp_path / "t.json", is_lossy=True))


@pytest.mark.parametrize("name", MAKERS)
def test_text_and_jsonl_give_the_same_tokens(name: str, tmp_path: Path) -> None:
    text = make_text(3, 200_000)
    MAKERS[name]().save(str(tmp_path / "t.json"))
    (tmp_path / "a.txt").write_bytes(text.encode())
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": text}))
    files = []
    for ending in ("txt", "jsonl"):
        plan = PackPlan(
            [tmp_path / f"a.{ending}"], tmp_path / ending, tokenizer=tmp_path / "t.json", is_lossy=True
        )
        pack(plan)
        files.append((tmp_path / ending / "tokens.bin").read_bytes())
    assert files[0] == files[1]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(f"{MARK}text {MARK}".encode())
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": f"{MARK}text {MARK}"}))
    (tmp_path / "c.jsonl").write_bytes((MARK + json.dumps({"text": f"text {MARK}"})).encode())
    for name in ("a.txt", "b.jsonl", "c.jsonl"):
        pack(PackPlan([tmp_path / name], tmp_path / "out" / name))
        assert sorted((tmp_path / "out" / name / "tokens.bin").read_bytes()) == sorted(
            f"text {MARK}".encode()
        )


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_characters_come_whole_out_of_pieces_of_any_size(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "PIECE_BYTES", size)
    text = f"{MARK}a漢😀ß\r\nb"
    (tmp_path / "a.txt").write_bytes(text.encode())
    pack(PackPlan([tmp_path / "a.txt"], tmp_path / "out"))
    assert sorted((tmp_path / "out/tokens.bin").read_bytes()) == sorted(text[1:].encode())
    (tmp_path / "b.txt").write_bytes(b"abcdefg\xe6\xbc")
    with pytest.raises(InvalidInput, match="byte 7"):
        pack(PackPlan([tmp_path / "b.txt"], tmp_path / "again"))
