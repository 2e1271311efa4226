"""The tables of the README files."""

from benchmarks import columns_transducer
from benchmarks.table import Table

_CASE = {
    "device": "device",
    "config": "model",
    "precision": "precision",
    "seconds_of_audio": "seconds",
    "batch": "batch",
}
_MODES = "{p50:.1f} / {p99:.1f} ({times_faster_than_eager:.2f}×)"
TABLES = {
    "jasper_network": Table(
        source="jasper_inference",
        where={"part": "network"},
        keys=_CASE,
        spread="mode",
        cells={"{}: p50 / p99 ms (× eager)": _MODES},
    ),
    "jasper_published": Table(
        source="jasper_published",
        where={"part": "network", "mode": "fused"},
        keys={**_CASE, "instructions": "instructions", "processor_flags": "processor"},
        cells={"p50 / p99 ms": "{p50:.0f} / {p99:.0f}", "× published in fp32": "{times_faster_than_published:.2f}"},
    ),
    "jasper_int8": Table(
        source="jasper_int8",
        where={"part": "network"},
        keys={
            "device": "device",
            "config": "model",
            "seconds_of_audio": "seconds",
            "batch": "batch",
            "mode": "network",
        },
        cells={
            "p50 / p99 ms": "{p50:.0f} / {p99:.0f}",
            "× fused in fp32": "{times_faster_than_fused_fp32:.2f}",
            "MiB of weights": "{weights_mib}",
            "processor": "{processor_flags}",
        },
    ),
    "jasper_audio_to_log_probs": Table(
        source="jasper_inference",
        where={"part": "both"},
        keys=_CASE,
        spread="mode",
        cells={"{}: p50 / p99 ms (× eager)": _MODES},
    ),
    "trt_inference": Table(
        source="trt_inference",
        keys={"config": "model", "seconds_of_audio": "seconds", "batch": "batch", "threads": "threads", "side": "side"},
        cells={
            "p50 / p95 / p99 ms": "{p50:.1f} / {p95:.1f} / {p99:.1f}",
            "× eager": "{times_faster_than_eager:.2f}",
            "× fused": "{times_faster_than_fused:.2f}",
            "MB": "{megabytes:.0f}",
            "processor": "{processor_flags}",
        },
    ),
    "trt_openvino": Table(
        source="trt_openvino",
        keys={"config": "model", "seconds_of_audio": "seconds", "threads": "threads", "side": "side"},
        cells={
            "p50 / p95 ms of processor time": "{p50:.1f} / {p95:.1f}",
            "× ONNX Runtime fp32": "{times_faster_than_fp32:.2f}",
            "× fused": "{times_faster_than_fused:.2f}",
            "processor": "{processor_flags}",
        },
    ),
    "trt_agreement": Table(
        source="trt_agreement",
        keys={"config": "model", "precision": "precision", "runtime": "runtime", "noise": "noise"},
        cells={
            "words": "{words}",
            "as float32": "{agreeing:.2%}",
            "word errors, %": "{wer:.2f}",
            "of float32, %": "{exact_wer:.2f}",
        },
    ),
    "trt_speech": Table(
        source="trt_speech",
        keys={"config": "voice", "seconds_of_audio": "seconds", "threads": "threads", "side": "side"},
        cells={
            "p50 ms of processor time": "{p50:.0f}",
            "× real time": "{times_real_time:.1f}",
            "× eager": "{times_faster_than_eager:.2f}",
            "processor": "{processor_flags}",
        },
    ),
    "serving": Table(
        source="serving",
        keys={"models": "models", "engine": "engine", "what": "what"},
        cells={
            "p50 / p95 / p99 ms": "{p50_ms:.0f} / {p95_ms:.0f} / {p99_ms:.0f}",
            "processor ms an answer": "{cpu_ms:.1f}",
            "answers": "{answers:,.0f}",
            "of the clients": "{client_cpu_ms:.2f}",
            "a recording offline": "{offline_cpu_ms:.1f}",
            "of offline batches": "{of_offline:.2f}",
            "by processor time": "{of_offline_cpu:.2f}",
        },
    ),
    "serving_soak": Table(
        source="serving_soak",
        keys={"minutes": "minutes", "clients": "clients"},
        cells={
            "answers": "{answers:,}",
            "errors, wrong": "{errors}, {wrong}",
            "attacks": "{attacks:,}",
            "MB before / at most / after": "{before_mb:.0f} / {peak_mb:.0f} / {after_mb:.0f}",
        },
    ),
    "bulk_workers": Table(
        source="bulk_workers",
        keys={"recordings": "recordings"},
        cells={
            "s, two shards": "{seconds_shards:.1f}",
            "s, two jobs": "{seconds_unrelated:.1f}",
            "of two jobs": "{of_unrelated:.2f}",
            "by processor time": "{of_unrelated_processor:.2f}",
        },
    ),
    "jasper_training": Table(
        source="jasper_training",
        keys={**_CASE, "processes": "GPUs"},
        cells={
            "utterances/s": "{utterances_per_second:.1f}",
            "× real time": "{times_real_time:.0f}",
            "p50 / p99 ms": "{p50:.0f} / {p99:.0f}",
            "× plain torch": "{times_faster_than_published:.2f}",
            "peak MiB": "{peak_memory_mib:,}",
        },
    ),
    "length": Table(
        source="length",
        keys={"device": "device", "model": "model", "minutes": "minutes"},
        cells={"processor, s for a minute": "{seconds_per_minute:.2f}", "most memory, MiB": "{peak_mib:,}"},
    ),
    "all_cores": Table(
        source="all_cores",
        keys={"device": "device", "package": "package", "files": "files", "cores": "cores"},
        cells={
            "one command, s": "{one_command_s:.1f}",
            "unrelated processes, s": "{unrelated_s:.1f}",
            "part of their speed": "{part_of_unrelated:.2f}",
        },
    ),
    "optim": Table(
        source="optim",
        keys={"device": "device", "what": "what"},
        cells={
            "ms": "{p50:.1f}",
            "loop, ms": "{loop_p50:.1f}",
            "× faster": "{times_faster:.2f}",
            "× the time of moving its bytes": "{times_the_bytes_bound:.2f}",
        },
    ),
    "features": Table(
        source="features",
        where={"metric": "latency_ms"},
        keys={"device": "device", "what": "what", "against": "against a"},
        cells={"ms": "{p50:.2f}", "loop, ms": "{against_p50:.2f}", "× faster": "{times_faster:.1f}"},
    ),
    "ctc_loss": Table(
        source="ctc_loss",
        where={"metric": "latency_ms"},
        keys={
            "processor_flags": "processor",
            "frames": "T",
            "labels": "L",
            "classes": "V",
            "batch": "B",
            "lengths": "lengths",
        },
        cells={
            "torch": "{torch_p50:.3g}",
            "fresh": "{fresh_p50:.3g}",
            "pooled": "{pooled_p50:.3g}",
            "kernel": "{kernel_p50:.3g}",
            "copy": "{copy_p50:.3g}",
            "torch / fresh": "{times_torch_fresh}",
            "torch / pooled": "{times_torch_pooled}",
            "kernel / copy": "{times_the_copy}",
        },
    ),
    "ctc_loss_two_threads": Table(
        source="ctc_loss",
        where={"metric": "two_threads"},
        keys={"processor_flags": "processor", "frames": "T", "labels": "L", "classes": "V", "batch": "B"},
        cells={
            "loss": "{times_one_thread_loss}",
            "copying": "{times_one_thread_copy}",
            "arithmetic": "{times_one_thread_arithmetic}",
        },
    ),
    "features_real_time": Table(
        source="features",
        where={"metric": "times_real_time"},
        keys={"device": "device", "what": "what"},
        cells={"× real time, with reading": "{reading_and_features:,}", "features alone": "{features:,}"},
    ),
    "ctc_steps": Table(
        source="ctc_language_model",
        where={"metric": "errors and cost of a step"},
        keys={"step": "step"},
        spread="noise",
        cells={"{}": "{percent:.2f} %"},
    ),
    "ctc_step_costs": Table(
        source="ctc_language_model",
        where={"metric": "errors and cost of a step", "noise": "5 dB"},
        keys={"step": "step"},
        cells={
            "words wrong": "{percent:.2f} %",
            "gain, points": "{fewer_points:.2f}",
            "ms": "{decoding_ms:.2f}",
            "ms of the network": "{network_ms:.1f}",
        },
    ),
    "fastpitch_inference": Table(
        source="fastpitch_inference",
        keys={"device": "device", "what": "what", "precision": "precision", "batch": "batch"},
        spread="mode",
        cells={"{}: p50 / p99 ms": "{p50:.1f} / {p99:.1f}", "{}: × real time": "{times_real_time:.1f}"},
    ),
    "fastpitch_training": Table(
        source="fastpitch_training",
        keys={"device": "device", "what": "what"},
        cells={"ms": "{p50:,.0f}", "published, ms": "{published_p50:,.0f}", "× faster": "{times_faster:.1f}"},
    ),
    "normalization": Table(
        source="normalization",
        where={"metric": "right"},
        keys={"set": "phrases"},
        cells={"number": "{phrases}", "read as expected": "{right}", "%": "{percent:.1f}"},
    ),
    "normalization_times": Table(
        source="normalization",
        where={"metric": "ms"},
        keys={"device": "device", "what": "what"},
        cells={"ms": "{p50:.3g}"},
    ),
    "fastpitch_word_times": Table(
        source="fastpitch_word_times",
        keys={"language": "language", "what": "what"},
        cells={"words": "{words}", "p50 ms": "{p50}", "p90 ms": "{p90}", "late by, ms": "{late}"},
    ),
    "pitch": Table(
        source="pitch",
        keys={"device": "device", "range": "range"},
        cells={
            "× real time": "{times_real_time}",
            "× faster than librosa.pyin": "{times_faster:.1f}",
            "same voicing": "{voicing_agreement:.1%}",
            "median difference": "{median_difference:.2%}",
        },
    ),
    "vocoders": Table(
        source="vocoders",
        keys={
            "device": "device",
            "vocoder": "vocoder",
            "precision": "precision",
            "seconds_of_audio": "seconds",
            "batch": "batch",
        },
        spread="mode",
        cells={"{}: p50 ms (× real time)": "{p50:.1f} ({times_real_time:.1f}×)"},
    ),
    "long_recordings": Table(
        source="long_recordings",
        keys={"device": "device", "model": "model", "format": "format", "by": "given by", "decoding": "decoding"},
        cells={
            "hours": "{hours:g}",
            "MiB": "{mib:,}",
            "of a minute": "{minute_mib:,}",
            "more": "{more_mib:,}",
            "processor, s": "{processor_seconds:.0f}",
        },
    ),
    "voices": Table(
        source="voices",
        keys={"part": "part", "side": "side", "clips": "clips"},
        cells={
            "DNSMOS": "{dnsmos:.2f}",
            "PESQ": "{pesq:.2f}",
            "STOI": "{stoi:.3f}",
            "words pocketsphinx mishears": "{wer_percent:.1f} %",
            "of other clips, 95 %": "{wer_low:.0f} to {wer_high:.0f} %",
            "likeness": "{likeness:.2f}",
            "hum, dB": "{hum_db:.1f}",
            "coherence": "{coherence:.2f}",
            "× real time": "{times_real_time:.0f}",
        },
    ),
    **columns_transducer.TABLES,
    "wav2vec2_inference": Table(
        source="wav2vec2_inference",
        keys=_CASE,
        spread="side",
        cells={"{}: p50 ms": "{p50:.1f}"},
    ),
    "wav2vec2_pretraining": Table(
        source="wav2vec2_pretraining",
        keys=_CASE,
        spread="side",
        cells={"{}: p50 ms": "{p50:.1f}", "{}: peak MiB": "{peak_memory_mib}"},
    ),
    "wav2vec2_contrast": Table(
        source="wav2vec2_contrast",
        keys=_CASE,
        spread="side",
        cells={"{}: p50 ms": "{p50:.1f}", "{}: peak MiB": "{peak_memory_mib}"},
    ),
}
