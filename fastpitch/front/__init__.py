"""From a text, its markup and its controls to the symbols and settings that the acoustic model takes."""
