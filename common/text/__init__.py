"""Text on its way into and out of the models: vocabularies and normalisation."""
