"""The tables about transducers."""

from benchmarks.table import Table

TABLES = {
    "transducer_loss": Table(
        source="transducer_loss",
        where={"metric": "loss and gradient"},
        keys={"device": "device", "loss": "loss", "frames": "T", "labels": "U", "classes": "V", "batch": "N"},
        cells={
            "in place, ms": "{in_place_ms_p50:.3g}",
            "fresh, ms": "{ms_p50:.3g}",
            "other": "{other}",
            "other, ms": "{other_ms_p50:.4g}",
            "other / in place": "{in_place_times_faster:.1f}",
            "other / fresh": "{times_faster:.1f}",
        },
    ),
    "transducer_errors": Table(
        source="transducer_loss",
        where={"metric": "error"},
        keys={"device": "device", "loss": "loss", "frames": "T", "labels": "U", "classes": "V"},
        cells={
            "loss, relative": "{relative_error_of_the_loss:.1e}",
            "gradient, absolute": "{largest_error_of_the_gradient:.1e}",
        },
    ),
    "transducer_fused_memory": Table(
        source="transducer_loss",
        where={"metric": "fused memory"},
        keys={"device": "device", "batch": "N"},
        cells={"fused, MiB": "{mib:.1f}", "unfused, MiB": "{unfused_mib:.0f}", "times less": "{times_less:.0f}"},
    ),
    "transducer_trained_time": Table(
        source="transducer_loss",
        where={"metric": "trained time"},
        keys={
            "device": "device",
            "utterances": "utterances",
            "frames": "T",
            "labels": "U",
            "joint": "J",
            "outputs": "W",
        },
        cells={
            "transformers, ms": "{transformers_ms_p50:.0f}",
            "unfused, ms": "{unfused_ms_p50:.0f}",
            "all cells, ms": "{all_cells_ms_p50:.0f}",
            "skipping, ms": "{fused_ms_p50:.0f}",
            "cells kept": "{kept:.0%}",
            "transformers / skipping": "{times_faster_than_transformers:.1f}",
            "unfused / skipping": "{times_faster_than_unfused:.1f}",
            "error of skipping": "{error_of_skipping:.0e}",
        },
    ),
    "transducer_fused_time": Table(
        source="transducer_loss",
        where={"metric": "fused time"},
        keys={"device": "device", "batch": "N"},
        cells={
            "torch, ms": "{torch_ms_p50:.0f}",
            "unfused, ms": "{unfused_ms_p50:.0f}",
            "all cells, ms": "{all_cells_ms_p50:.0f}",
            "skipping, ms": "{fused_ms_p50:.0f}",
            "cells kept": "{kept:.0%}",
            "torch / skipping": "{times_faster_than_torch:.1f}",
            "unfused / skipping": "{times_faster_than_unfused:.1f}",
            "error of skipping": "{error_of_skipping:.0e}",
        },
    ),
    "transducer_decoder": Table(
        source="transducer_decoder",
        keys={"device": "device", "head": "head", "batch": "batch"},
        cells={
            "ms": "{ms_p50:.0f}",
            "label-looping, ms": "{label_looping_ms_p50:.0f}",
            "times faster": "{times_faster:.1f}",
        },
    ),
    "transducer_nemo": Table(
        source="transducer_nemo",
        keys={"device": "device", "head": "head", "batch": "batch", "nemo": "NeMo"},
        cells={
            "ms": "{ms_p50:.0f}",
            "NeMo, ms": "{nemo_ms_p50:.0f}",
            "times faster": "{times_faster:.1f}",
        },
    ),
    "transducer_length": Table(
        source="transducer_length",
        keys={"device": "device", "model": "model", "minutes": "minutes"},
        cells={
            "processor, s": "{processor_seconds:.1f}",
            "times real time": "{times_real_time:.0f}",
            "peak beside the samples, MiB": "{peak_mib:.0f}",
            "WER": "{wer:.2%}",
            "WER of the utterances alone": "{wer_alone:.2%}",
        },
    ),
    "transducer_wer": Table(
        source="transducer_quality",
        where={"metric": "wer"},
        keys={"device": "device", "config": "configuration", "head": "head"},
        spread="precision",
        cells={"{}": "{wer:.2%}"},
    ),
    "transducer_precision": Table(
        source="transducer_quality",
        where={"metric": "precision"},
        keys={
            "device": "device",
            "config": "configuration",
            "audio": "audio",
            "head": "head",
            "precision": "precision",
        },
        cells={"words wrong": "{errors} of {words}", "WER": "{wer:.2%}", "words not as with fp32": "{other_words}"},
    ),
    "transducer_times": Table(
        source="transducer_quality",
        where={"metric": "times"},
        keys={"device": "device", "config": "configuration", "head": "head", "what": "what"},
        cells={
            "words": "{words}",
            "late by, ms": "{late_by:.0f}",
            "distance, median, ms": "{p50:.0f}",
            "90 %, ms": "{p90:.0f}",
        },
    ),
    "transducer_beam": Table(
        source="transducer_beam",
        where={"heads": "160, V 33"},
        keys={"audio": "audio", "decoding": "decoding"},
        cells={
            "word errors": "{wer:.2f} %",
            "of sentences with rare words": "{wer_of_rare:.2f} %",
            "ms": "{ms_p50:.0f}",
            "× greedy": "{times_greedy:.2f}",
        },
    ),
    "transducer_rare_words": Table(
        source="transducer_rare_words",
        keys={
            "rare": "occurrences",
            "sentences": "sentences",
            "draws": "draws",
            "audio": "audio",
            "decoding": "decoding",
        },
        cells={
            "words": "{words}",
            "wrong": "{words_wrong}",
            "rare": "{rare_words}",
            "missing": "{rare_words_missing}",
            "better": "{better}",
            "worse": "{worse}",
        },
    ),
    "transducer_beam_heads": Table(
        source="transducer_beam",
        where={"heads": "640, V 1024"},
        keys={"device": "device", "head": "head", "decoding": "decoding"},
        cells={"ms": "{ms_p50:.0f}", "× greedy": "{times_greedy:.2f}"},
    ),
}
