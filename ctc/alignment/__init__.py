"""Alignment: of a transcript, of a long text, of tokens without blanks."""
