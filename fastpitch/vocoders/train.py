"""Training of any vocoder: `python -m fastpitch.vocoders.train configs/hifigan/v1.toml --data.root DIR`.

`configs/hifigan` has HiFi-GAN and the inverse-STFT vocoder, `configs/waveglow` WaveGlow. On several GPUs: `torchrun
--nproc_per_node 8 -m fastpitch.vocoders.train …`. Everything random is a function of (seed, epoch, index), so a run
that was stopped and resumed ends in the weights of one that never stopped.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from torch import nn

from common import config
from common.devices.distributed import World
from common.runs.run_directory import started
from common.training.course import course_in_epochs
from common.training.loop import EXPECTED, Loop
from common.training.state import Progress
from fastpitch.vocoders.config import HifiganRun, WaveglowRun
from fastpitch.vocoders.training import data
from fastpitch.vocoders.training.evaluation import evaluate, flow_evaluation, resynthesized, show_samples
from fastpitch.vocoders.training.run import Run, name_of
from fastpitch.vocoders.training.steps import flow_loss, update

SAMPLES = 5  # clips that TensorBoard shows


def main(cfg: HifiganRun | WaveglowRun) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    with started(cfg, name_of(cfg)) as directory:
        run = Run(cfg, directory)
        names, both = run.loss_names, (run.train_set, run.validation)
        with Loop(
            run.state, cfg.every, course_in_epochs(cfg), names=names, unit="segments/s", data=both,
            learners=dict(zip(("", "discriminator_"), run.learners, strict=False)),
        ) as loop:  # fmt: skip
            run.describe()
            if loop.owes_validation:
                validate(run, loop)
            batches = data.loader(run.train_set, loop.plans(run.epochs.batches), workers=cfg.data.workers)
            for epoch in loop.epochs():
                for batch in loop.steps(batches, len(run.epochs.batches(epoch))):
                    step = update(run, batch)
                    loop.did(step.losses_K, batch, amount=len(batch.ids))
                    if loop.logs:
                        losses = dict(zip(names, loop.means(), strict=True))
                        values = {name: loss for name, loss in losses.items() if name == "loss" or loss}
                        loop.log_training(values, learning_rate=step.learning_rate)
                    if loop.validates:
                        validate(run, loop)
                    if shows_samples(run, loop):
                        write_samples(run)
                    if loop.is_finished:
                        run.state.check_finite()
                        run.state.export("final", run.spoken)
                    if loop.saves:
                        run.state.save_step()
        return run.state.progress


def validate(run: Run, loop: Loop) -> None:
    """Distances or losses of the weights and of their moving average; the best are kept, for use."""
    models, found = run.learner.models(), {}
    with loop.validation() as world:
        for phase, network in models.items():
            found[phase] = evaluation(run, network, world)
    loop.validated(found, score="loss" if isinstance(run.cfg, WaveglowRun) else "mel", names=run.spoken)


def evaluation(run: Run, network: nn.Module, world: World) -> dict[str, float]:
    """What is logged of a validation."""
    assert run.validation is not None
    if isinstance(run.cfg, WaveglowRun):
        loss = flow_evaluation(
            network, lambda part: flow_loss(run, network, part), run.log_mel, run.validation, world, run.cfg.batch_size
        )
        return {"loss": loss}
    return evaluate(network, run.log_mel, run.full_mel, run.validation, world, run.cfg.precision)._asdict()


def shows_samples(run: Run, loop: Loop) -> bool:
    """Whether TensorBoard gets sounds and spectrograms now, at the end of an epoch."""
    cfg, epoch = run.cfg, loop.progress.epoch
    if not isinstance(cfg, HifiganRun) or not cfg.samples_every_epochs or loop.progress.batch:
        return False
    wanted = run.validation is not None and cfg.tensorboard and run.world.is_main
    return wanted and (epoch % cfg.samples_every_epochs == 0 or epoch == cfg.epochs)


def write_samples(run: Run) -> None:
    """Validation clips said again, into TensorBoard."""
    assert run.validation is not None
    generator = run.learner.models().get("dev_ema", run.generator)
    clips = range(min(SAMPLES, len(run.validation.utterances)))
    said = resynthesized(generator, run.log_mel, run.validation, clips, run.world, run.cfg.precision)
    show_samples(run.cfg.output_dir / "dev", said, run.full_mel, step=run.state.progress.step)


def schema(arguments: Sequence[str]) -> type[HifiganRun] | type[WaveglowRun]:
    """The options of the vocoder that a command line trains: those of WaveGlow if a TOML file names it."""
    files = [Path(argument) for argument in arguments if argument.endswith(".toml")]
    named = [config.read_toml(path).get("generator") for path in files if path.is_file()]
    return WaveglowRun if "waveglow" in named else HifiganRun


if __name__ == "__main__":
    with config.reported(*EXPECTED):
        main(config.command_line(schema(sys.argv[1:]), description=__doc__ or ""))
