"""NVIDIA NeMo's .nemo archives: read in place, described setting by setting, and the features that they name."""
