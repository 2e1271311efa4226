"""From recordings on disk to batches: manifests, batching, loading, the synthetic corpus."""
