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
from common.course import Course
from common.distributed import World
from common.loop import EXPECTED, Loop
from common.run_directory import started
from common.training_state import Progress
from fastpitch.vocoders.config import HifiganRun, WaveglowRun
from fastpitch.vocoders.training import data
from fastpitch.vocoders.training.evaluation import evaluate, flow_evaluation, resynthesized, show_samples
from fastpitch.vocoders.training.run import Run, name_of
from fastpitch.vocoders.training.steps import Step, flow_loss, update

SAMPLES = 5  # clips that TensorBoard shows


def main(cfg: HifiganRun | WaveglowRun) -> Progress:
    """Trains as `cfg` says; returns where training stands at the end. Raises TrainingError and the readers' errors."""
    with started(cfg, name_of(cfg)) as directory:
        run = Run(cfg, directory)
        state, progress = run.state, run.state.progress
        course = Course(
            epochs=cfg.epochs, epochs_this_job=cfg.epochs_this_job, stop_at=cfg.steps, keep_epochs=cfg.keep_epochs
        )
        with Loop(
            state, cfg.every, course, names=run.loss_names, unit="segments/s", reads=run.reads,
            has_validation=run.validation is not None,
        ) as loop:  # fmt: skip
            run.describe()
            if loop.owes_validation:
                validate(run, loop)
            batches = data.loader(run.train_set, loop.plans(run.batches), workers=cfg.data.workers)
            for epoch in loop.epochs():
                for batch in loop.steps(batches, len(run.batches(epoch))):
                    step = update(run, batch)
                    kept = batch._asdict() | {"failures": [failure.message for failure in batch.failures]}
                    loop.did(step.losses_K, ids=batch.ids, batch=kept, amount=len(batch.ids))
                    if loop.logs:
                        log_training(run, loop, step)
                    if loop.validates:
                        validate(run, loop)
                    if shows_samples(run, loop):
                        write_samples(run)
                    if loop.is_finished:
                        state.check_finite()
                        state.export("final", run.spoken)
                    if loop.saves:
                        state.save_step()
        return progress


def log_training(run: Run, loop: Loop, step: Step) -> None:
    """The losses since the last line, those that have a weight."""
    losses = dict(zip(run.loss_names, loop.means(), strict=True))
    values = {name: loss for name, loss in losses.items() if name == "loss" or loss} | loop.speed()
    values["lrate"] = step.learning_rate
    loop.log.log("train", loop.where, values, global_step=loop.progress.step)


def validate(run: Run, loop: Loop) -> None:
    """Distances or losses of the weights and of their moving average; the best are kept, for use."""
    networks: dict[str, nn.Module] = {"dev": run.generator}
    if run.ema is not None:
        networks["dev_ema"] = run.ema.model
    found = {}
    with loop.validation() as world:
        for phase, network in networks.items():
            found[phase] = evaluation(run, network, world)
    if loop.is_cut:
        return
    for phase, values in found.items():
        loop.log.log(phase, (loop.progress.epoch,), values, global_step=loop.progress.step)
    scores = [next(iter(values.values())) for values in found.values()]
    run.state.save_best(dict(zip(("raw", "average"), scores, strict=False)), names=run.spoken)


def evaluation(run: Run, network: nn.Module, world: World) -> dict[str, float]:
    """What is logged of a validation; by the first of the numbers the best network is chosen."""
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
    generator = run.ema.model if run.ema is not None else run.generator
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
