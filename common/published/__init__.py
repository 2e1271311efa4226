"""Models that others publish: names on a hub, folders of transformers, archives of NeMo."""
