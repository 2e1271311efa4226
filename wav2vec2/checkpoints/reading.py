"""A checkpoint from whatever file, folder or name of the hub holds one."""

from pathlib import Path

from common.published import hub
from common.runs import checkpoint
from common.runs.checkpoint import CheckpointError
from wav2vec2.checkpoints import huggingface, own, published
from wav2vec2.checkpoints.imported import DescribedWeights, headless
from wav2vec2.checkpoints.pickles import load_foreign


def read(
    path: Path, *, labels: tuple[str, ...] = (), ema: bool | None = None, target_lang: str = "", head: bool = True
) -> DescribedWeights:
    """What the file, the Hugging Face folder or the name of the hub at `path` holds. Raises CheckpointError.

    `labels` names what a CTC head writes, by index, over what the checkpoint says. Where neither does, a dict.ltr.txt
    beside it is read; 32 labels are assumed to be LibriSpeech's, and others are called <0>, <1>, … `ema`: take the
    averaged weights; None takes them where there are any, which is in our checkpoints only. `target_lang`: the language
    of a Hugging Face folder with adapters. Without `head`, a CTC head and its labels are passed over.
    """
    path, form = hub.stored(path, extra=[f"adapter.{target_lang}.*"] if target_lang else ())
    with checkpoint.usable(path):
        state = {} if form == "folder" else load_foreign(path)
        checkpoint.check_averaged(ema, state.get("ema"), path)
        if form == "folder":
            return huggingface.read(path, labels, target_lang, head=head)
        if target_lang:
            raise CheckpointError(f"{path}: has no adapters to choose language {target_lang!r} from")
        if state.get("format") == own.FORMAT:
            imported = own.read(state, path, labels, with_ema=ema is not False)
        else:
            imported = published.read(state, path, labels if head else (), head=head)
        return imported if head else headless(imported)
