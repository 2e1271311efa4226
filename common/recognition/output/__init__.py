"""What a recogniser says: words with their times, joined, as subtitles, and written."""
