"""Pieces of words and the numbers that a network knows them by: SentencePiece models, BPE and unigram, and the
tokenizer.json of Hugging Face.

Source: Kudo and Richardson, SentencePiece, EMNLP 2018. The packages `sentencepiece` and `tokenizers` are imported when
they are needed.
"""

import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from common.files.atomic import decoded
from common.files.json_text import parsed
from common.text.vocabulary import VocabularyError

SPACE = "▁"  # stands for a space in pieces, in front of a word
UNKNOWN = " ⁇ "  # what SentencePiece writes for a character that it does not know
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
# Scripts that write no spaces between words: Han, kana, Thai, Lao, Khmer, Burmese. Their marks begin nothing.
_CHARACTER = re.compile("[〇々ぁ-ゖァ-ヺー㐀-䶿一-鿿豈-\ufaff\U00020000-\U0003134fก-ะาำเ-ๅກ-ະາຳເ-ໆក-ឳက-ဪ]")
_LEAD_BYTES = range(0xE3, 0xEA)  # of characters from U+3000 to U+9FFF, in UTF-8

Kind = Literal["unigram", "bpe"]


@dataclass(frozen=True)
class Pieces:
    """Pieces of words, numbered from 0; the blank comes after the last one.

    With the bytes of a `model` texts can be encoded; decoding needs only the pieces.
    """

    labels: tuple[str, ...]
    """The pieces, without the blank."""
    model: bytes = b""
    """The file of the SentencePiece model, or tokenizer.json; none where only the pieces are known."""
    unknown: frozenset[int] = frozenset()
    """Numbers that stand for what is no piece."""
    control: frozenset[int] = frozenset()
    """Numbers that are not written, such as <s>."""
    _encoder: Any = field(init=False, repr=False, compare=False, default=None)

    def __getstate__(self) -> dict[str, Any]:
        """Without the encoder, which another process makes for itself."""
        return self.__dict__ | {"_encoder": None}

    def __len__(self) -> int:
        """Number of outputs of a network: the pieces and the blank."""
        return len(self.labels) + 1

    @property
    def blank(self) -> int:
        """The number of the blank, the last one."""
        return len(self.labels)

    @property
    def are_cased(self) -> bool:
        """Whether they write capitals or punctuation, which normalised texts do not have."""
        written = (label for i, label in enumerate(self.labels) if i not in self.unknown | self.control)
        return any(re.search(r"[.,?!]", label) or label != label.lower() for label in written if not _BYTE.match(label))

    def encode(self, text: str) -> list[int]:
        """The numbers of the pieces of `text`. Raises VocabularyError for characters that no piece has."""
        if self._encoder is None:
            if not self.model:
                raise VocabularyError(f"text {text[:40]!r}: cannot be cut into pieces without a SentencePiece model")
            object.__setattr__(self, "_encoder", _encoder(self.model))
        indices = self._encoder(text)
        if not self.unknown.isdisjoint(indices) or max(indices, default=0) >= len(self.labels):
            known = {character for label in self.labels for character in label}
            missing = "".join(sorted(set(text) - known - {" "})) or "a character"
            raise VocabularyError(f"{missing!r} in {text!r} is in none of the {len(self.labels)} pieces")
        return indices

    def decode(self, indices: Iterable[int]) -> str:
        """The text of piece numbers, blanks already gone, as SentencePiece writes it. Raises VocabularyError."""
        indices = list(indices)
        text = self.spelled(indices)
        return text.removeprefix(" ") if indices and indices[0] not in self.unknown else text

    def starts_word(self, index: int) -> bool:
        """Whether a new word begins with this piece, as every character is one in scripts without spaces."""
        label = self.labels[index]
        if byte := _BYTE.fullmatch(label):
            return int(byte[1], 16) in _LEAD_BYTES
        return label.startswith(SPACE) or index in self.unknown or bool(_CHARACTER.match(label))

    def whole(self, indices: Sequence[int]) -> int:
        """How many of the pieces, from the first, end where a character does: one may be spelled in several bytes."""
        end = len(indices)
        spelled = bytearray()
        while end and (byte := _BYTE.fullmatch(self.labels[indices[end - 1]])):
            spelled.insert(0, int(byte[1], 16))
            end -= 1
        try:
            spelled.decode()
        except UnicodeDecodeError as error:
            is_cut_off = error.reason == "unexpected end of data"
            return end + error.start if is_cut_off else len(indices)
        return len(indices)

    def spelled(self, indices: Iterable[int]) -> str:
        """As `decode`, with the space before the first word."""
        parts: list[str] = []
        pending = bytearray()  # of a character that is spelled in bytes
        for index in indices:
            if not 0 <= index < len(self.labels):
                raise VocabularyError(f"{index} is no piece: expected 0 to {len(self.labels) - 1}")
            label = self.labels[index]
            if byte := _BYTE.fullmatch(label):
                pending.append(int(byte[1], 16))
                continue
            parts.append(pending.decode(errors="replace"))
            pending.clear()
            if index in self.unknown:
                parts.append(UNKNOWN)
            elif index not in self.control:
                parts.append(label.replace(SPACE, " "))
        return "".join([*parts, pending.decode(errors="replace")])


def read_pieces(model: bytes | Path, count: int | None = None) -> Pieces:
    """The pieces of a SentencePiece model or, the first `count`, of tokenizer.json, given as a file or as its bytes.

    Raises VocabularyError.
    """
    name = "the SentencePiece model" if isinstance(model, bytes) else str(model)
    if isinstance(model, Path):
        if not model.is_file():
            raise VocabularyError(f"{model}: no such SentencePiece model")
        model = model.read_bytes()
    if _is_json(model):
        return _of_json(model, name, count)
    processor = _processor(model, name)
    numbers = range(processor.get_piece_size())
    try:
        labels = tuple(processor.id_to_piece(i) for i in numbers)
    except UnicodeDecodeError:
        raise VocabularyError(f"{name}: damaged: one of its pieces is no text") from None
    return Pieces(
        labels=labels,
        model=model,
        unknown=frozenset(i for i in numbers if processor.is_unknown(i)),
        control=frozenset(i for i in numbers if processor.is_control(i)),
    )


def train_pieces(texts: Iterable[str], *, size: int, kind: Kind = "unigram") -> Pieces:
    """`size` pieces learned from `texts`, the unknown among them. Raises VocabularyError.

    Texts are taken as they are, in one piece per character at least; a text of the same letters can be encoded.
    """
    model = io.BytesIO()
    lines = [line for text in texts if (line := " ".join(text.split()))]
    if not lines:
        raise VocabularyError("no text to learn pieces from")
    try:
        _sentencepiece().SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=size,
            model_type=kind,
            character_coverage=1.0,
            normalization_rule_name="identity",
            bos_id=-1,
            eos_id=-1,
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        problem = " ".join(str(error).split()).rpartition("] ")[2]
        raise VocabularyError(f"{size} {kind} pieces cannot be learned from these texts: {problem}") from None
    return read_pieces(model.getvalue())


def word_groups(pieces: Pieces, indices: Sequence[int]) -> list[range]:
    """Positions in `indices` of the pieces of every word. Punctuation alone belongs to the word before it."""
    starts = [p for p, index in enumerate(indices) if p == 0 or pieces.starts_word(index)]
    groups = map(range, starts, [*starts[1:], len(indices)])
    words: list[range] = []
    for group in groups:
        if words and not any(is_spoken(pieces, indices[p]) for p in group):
            words[-1] = range(words[-1].start, group.stop)
        else:
            words.append(group)
    return words


def is_spaceless(character: str) -> bool:
    """Whether it is of a script that writes no spaces between words, or its punctuation."""
    return bool(_CHARACTER.match(character)) or character in "、。〈〉《》「」『』【】！（），：；？"


def is_spoken(pieces: Pieces, index: int) -> bool:
    """Whether there is more to a piece than punctuation and space."""
    label = pieces.labels[index]
    return index in pieces.unknown or bool(_BYTE.fullmatch(label)) or any(map(str.isalnum, label))


def _is_json(model: bytes) -> bool:
    return model.lstrip()[:1] == b"{"  # a SentencePiece model begins with the number of its first field


def _of_json(model: bytes, name: str, count: int | None) -> Pieces:
    try:
        described = parsed(decoded(model))
    except ValueError as error:
        raise VocabularyError(f"{name}: cannot be read: {error}") from None
    inner = described.get("model")
    vocabulary = inner.get("vocab") if isinstance(inner, dict) else None
    if isinstance(vocabulary, list):  # unigram: pieces with their scores
        vocabulary = {entry[0]: i for i, entry in enumerate(vocabulary) if isinstance(entry, list) and entry}
    if not isinstance(inner, dict) or not isinstance(vocabulary, dict):
        raise VocabularyError(f"{name}: expected pieces under model.vocab")
    added = [token for token in described.get("added_tokens") or [] if isinstance(token, dict)]
    numbers = {**{str(t.get("content")): t.get("id") for t in added}, **vocabulary}
    count = len(numbers) if count is None else count
    labels = {number: label for label, number in numbers.items() if isinstance(number, int) and 0 <= number < count}
    if len(labels) < count or not any(label.startswith(SPACE) for label in labels.values()):
        raise VocabularyError(
            f"{name}: names {len(labels)} of {count} pieces; expected all, with {SPACE!r} where a word begins"
        )
    special = {token.get("id") for token in added if token.get("special")}
    control = {i for i, label in labels.items() if i in special or re.fullmatch(r"<\|.*\|>|<pad>|<s>|</s>", label)}
    unknown = {
        i for i, label in labels.items() if label in (inner.get("unk_token"), "<unk>") or i == inner.get("unk_id")
    }
    return Pieces(tuple(labels[i] for i in range(count)), model, frozenset(unknown), frozenset(control - unknown))


def _encoder(model: bytes) -> Callable[[str], list[int]]:
    """What cuts texts. Raises VocabularyError."""
    if not _is_json(model):
        processor = _processor(model, "the SentencePiece model")
        return lambda text: list(processor.encode(text))
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise VocabularyError("a tokenizer.json needs the package tokenizers: pip install tokenizers") from None
    try:
        tokenizer = Tokenizer.from_str(decoded(model))
    except Exception as error:  # which is of no class of its own
        raise VocabularyError(f"tokenizer.json: cannot be used: {error}") from None
    return lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)


def _processor(model: bytes, name: str) -> Any:
    package = _sentencepiece()
    try:
        if not model:
            raise ValueError("empty")
        return package.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError, TypeError):
        raise VocabularyError(f"{name}: damaged or not a SentencePiece model of {len(model)} bytes") from None


def _sentencepiece() -> Any:
    try:
        import sentencepiece
    except ImportError:
        raise VocabularyError("pieces of words need the package sentencepiece: pip install sentencepiece") from None
    return sentencepiece
