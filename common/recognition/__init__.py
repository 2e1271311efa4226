"""What every recogniser does around its network: recordings in, chunks and batches, transcripts and subtitles out."""
