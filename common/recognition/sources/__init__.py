"""Recordings as a recogniser takes them: what names them, their samples, and long ones in blocks."""
